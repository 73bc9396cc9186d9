/** Starting a run, and asking for variables that the test needs and nobody has given. */
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { Refused } from "../api/client";
import { startRun, type Variable } from "../api/requests";
import { Dialog } from "./shell";

/** How a run is started. */
interface Manner {
  variables?: Variable[];
  variableSetId?: string;
  /** Whether the run takes the place of this screen in the history. */
  isReplacing?: boolean;
}

export interface Start {
  begin: (test: string, name: string, manner?: Manner) => Promise<void>;
  problem: unknown;
  asked: { test: string; name: string; wanted: Variable[]; manner: Manner } | undefined;
  cancel: () => void;
}

export function useStart(): Start {
  const navigate = useNavigate();
  const [problem, setProblem] = useState<unknown>();
  const [asked, setAsked] = useState<Start["asked"]>();
  const begin = async (test: string, name: string, manner: Manner = {}) => {
    setProblem(undefined);
    try {
      const run = await startRun(test, manner.variables, manner.variableSetId);
      setAsked(undefined);
      const params = { id: test, run: String(run.id), tab: "trace" };
      await navigate({ to: "/test/$id/run/$run/$tab", params, replace: manner.isReplacing });
    } catch (error) {
      const wanted = error instanceof Refused && error.status === 422 ? missing(error) : [];
      if (wanted.length > 0) setAsked({ test, name, wanted, manner });
      else setProblem(error);
    }
  };
  return { begin, problem, asked, cancel: () => setAsked(undefined) };
}

/** The variables that a refusal lists, with the values that they had in the last run. */
function missing(refused: Refused): Variable[] {
  const detail = refused.detail as
    | { missingVariables?: { variables?: { key?: string; defaultValue?: string }[] }[] }
    | undefined;
  const found = new Map<string, string>();
  for (const list of detail?.missingVariables ?? []) {
    for (const one of list.variables ?? [])
      if (one.key !== undefined) found.set(one.key, one.defaultValue ?? "");
  }
  return [...found].map(([key, value]) => ({ key, value }));
}

export function VariablesDialog({ start }: { start: Start }) {
  const { asked } = start;
  const [values, setValues] = useState<Record<string, string>>({});
  if (asked === undefined) return null;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const answers = asked.wanted.map(({ key, value }) => ({ key, value: values[key] ?? value }));
    const isAnswered = (key: string) => answers.some((one) => one.key === key);
    const given = (asked.manner.variables ?? []).filter(({ key }) => !isAnswered(key));
    void start.begin(asked.test, asked.name, { ...asked.manner, variables: [...given, ...answers] });
  };
  return (
    <Dialog name="Variables" onClose={start.cancel}>
      <form onSubmit={submit} className="form">
        <h2>{asked.name} needs variables</h2>
        {asked.wanted.map(({ key, value }, index) => (
          <label key={key}>
            {key}
            <input
              value={values[key] ?? value}
              autoFocus={index === 0}
              onChange={(event) => setValues({ ...values, [key]: event.target.value })}
            />
          </label>
        ))}
        <div className="buttons">
          <button type="button" onClick={start.cancel}>
            Cancel
          </button>
          <button type="submit" className="primary">
            Run
          </button>
        </div>
      </form>
    </Dialog>
  );
}
