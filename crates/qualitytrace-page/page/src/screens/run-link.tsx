/** `/test/ID/run`: starts a run and shows it. */
import { useLocation, useParams, useSearch } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import type { Variable } from "../api/requests";
import { shown } from "../text/format";
import { Icon } from "../ui/glyphs";
import { Loading, Problem, useTitle } from "../ui/parts";
import { Header } from "./header";
import { useMayChange } from "./may-change";
import { useStart, VariablesDialog } from "./start-run";

declare module "@tanstack/react-router" {
  interface HistoryState {
    /** Whether the reader has asked for a run on this page. An address cannot say so. */
    isRunWanted?: boolean;
  }
}

/** The variables in the address; what is no list of pairs is left out. */
export function variablesOf(text: string | undefined): Variable[] {
  try {
    const list: unknown = JSON.parse(text ?? "[]");
    if (!Array.isArray(list)) return [];
    return list.flatMap((one: { key?: unknown; value?: unknown } | null) =>
      typeof one?.key === "string" ? [{ key: one.key, value: String(one.value ?? "") }] : [],
    );
  } catch {
    return [];
  }
}

export function RunLinkScreen() {
  const { state } = useLocation();
  // What was answered about one link says nothing about the next.
  return <RunLink key={state.__TSR_key} isWanted={state.isRunWanted === true} />;
}

function RunLink(props: { isWanted: boolean }) {
  const { id } = useParams({ from: "/test/$id/run" });
  const { variables: listed, variableSetId } = useSearch({ from: "/test/$id/run" });
  const start = useStart();
  const mayChange = useMayChange();
  const isStarted = useRef(false);
  // Any site can lead here, with variables of its own, and need not say which site it is: the reader decides.
  const [isWanted, setWanted] = useState(props.isWanted);
  const variables = variablesOf(listed);
  const begin = () => void start.begin(id, id, { variables, variableSetId, isReplacing: true });
  useTitle(`Run ${id}`);
  useEffect(() => {
    if (!isWanted || isStarted.current) return;
    isStarted.current = true;
    begin();
  });
  return (
    <>
      <Header path={[{ name: "Tests", to: "/tests" }]} title={`Run ${id}`} />
      {isWanted && start.problem === undefined && start.asked === undefined && <Loading />}
      {!isWanted && (
        <section className="pad" aria-label="Run link">
          <p>
            A link leads here. Run <b>{id}</b>
            {variableSetId !== undefined && (
              <>
                {" "}
                with the variable set <b>{variableSetId}</b>
              </>
            )}
            {variables.length > 0 && " with these variables"}?
          </p>
          {variables.length > 0 && (
            <dl className="pairs">
              {variables.map(({ key, value }, index) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: a name may be there twice
                <div key={index}>
                  <dt>{shown(key, 200)}</dt>
                  <dd>
                    <code>{shown(value, 2000)}</code>
                  </dd>
                </div>
              ))}
            </dl>
          )}
          {mayChange && (
            <button type="button" className="primary" onClick={() => setWanted(true)}>
              <Icon name="play" /> Run
            </button>
          )}
        </section>
      )}
      {start.problem !== undefined && <Problem error={start.problem} retry={begin} />}
      <VariablesDialog start={start} />
    </>
  );
}
