/** Starting a run of a test or of a suite, and asking for variables that it needs and nobody has given. */
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useRef, useState } from "react";
import { Refused } from "../api/client";
import { startRun, startSuite, type Variable } from "../api/requests";
import { Dialog } from "./dialog";
import { type Manner, missing, unknownSecrets, withAnswers } from "./manner";

interface Asked {
  id: string;
  name: string;
  wanted: Variable[];
  manner: Manner;
}

export interface Start {
  begin: (id: string, name: string, manner?: Manner) => Promise<void>;
  problem: unknown;
  asked: Asked | undefined;
  cancel: () => void;
}

export function useStart(kind: "test" | "suite" = "test"): Start {
  const navigate = useNavigate();
  const [problem, setProblem] = useState<unknown>();
  const [asked, setAsked] = useState<Asked>();
  const isStarting = useRef(false);
  const begin = async (id: string, name: string, manner: Manner = {}) => {
    // A double click starts one run.
    if (isStarting.current) return;
    setProblem(undefined);
    const { variables, variableSetId, isReplacing: replace } = manner;
    const secrets = unknownSecrets(manner);
    if (secrets.length > 0) return setAsked({ id, name, wanted: secrets, manner });
    isStarting.current = true;
    try {
      const start = kind === "test" ? startRun : startSuite;
      const run = String((await start(id, variables, variableSetId)).id);
      setAsked(undefined);
      if (kind === "suite") await navigate({ to: "/testsuite/$id/run/$run", params: { id, run }, replace });
      else await navigate({ to: "/test/$id/run/$run/$tab", params: { id, run, tab: "trace" }, replace });
    } catch (error) {
      const wanted = error instanceof Refused && error.status === 422 ? missing(error.detail) : [];
      if (wanted.length > 0) setAsked({ id, name, wanted, manner });
      else setProblem(error);
    } finally {
      isStarting.current = false;
    }
  };
  return { begin, problem, asked, cancel: () => setAsked(undefined) };
}

export function VariablesDialog({ start }: { start: Start }) {
  // What was typed goes with the question.
  return start.asked === undefined ? null : <Questions start={start} asked={start.asked} />;
}

function Questions({ start, asked }: { start: Start; asked: Asked }) {
  const [values, setValues] = useState<Record<string, string>>({});
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const answers = asked.wanted.map((one) => ({ ...one, value: values[one.key] ?? one.value }));
    void start.begin(asked.id, asked.name, withAnswers(asked.manner, answers));
  };
  return (
    <Dialog name="Variables" onClose={start.cancel}>
      <form onSubmit={submit} className="form">
        <h2>{asked.name} needs variables</h2>
        {asked.wanted.map(({ key, value, type }, index) => (
          <label key={key}>
            {key}
            <input
              type={type === "secret" ? "password" : "text"}
              autoComplete="off"
              required={type === "secret"}
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
