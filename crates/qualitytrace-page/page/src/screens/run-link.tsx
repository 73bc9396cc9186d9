/** `/test/ID/run`: starts a run and shows it. */
import { useParams, useSearch } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import type { Variable } from "../api/requests";
import { Loading, Problem, useTitle } from "../ui/parts";
import { Header } from "./header";
import { useStart, VariablesDialog } from "./start-run";

/** The variables in the address; what is no list of pairs is left out. */
export function variablesOf(text: string | undefined): Variable[] {
  try {
    const list: unknown = JSON.parse(text ?? "[]");
    if (!Array.isArray(list)) return [];
    return list.flatMap(({ key, value }) =>
      typeof key === "string" ? [{ key, value: String(value ?? "") }] : [],
    );
  } catch {
    return [];
  }
}

export function RunLinkScreen() {
  const { id } = useParams({ from: "/test/$id/run" });
  const search = useSearch({ from: "/test/$id/run" });
  const start = useStart();
  const isStarted = useRef(false);
  // A page of another site may have opened this address: then the reader decides.
  const isForeign = document.referrer !== "" && new URL(document.referrer).origin !== window.location.origin;
  const [isWanted, setWanted] = useState(!isForeign);
  useTitle(`Run ${id}`);
  useEffect(() => {
    if (!isWanted || isStarted.current) return;
    isStarted.current = true;
    const { variables, variableSetId } = search;
    void start.begin(id, id, { variables: variablesOf(variables), variableSetId, isReplacing: true });
  }, [isWanted, id, search, start]);
  return (
    <>
      <Header path={[{ name: "Tests", to: "/tests" }]} title={`Run ${id}`} />
      {isWanted && start.problem === undefined && start.asked === undefined && <Loading />}
      {!isWanted && (
        <p className="pad">
          Another site opened this link. Run <b>{id}</b>?{" "}
          <button type="button" className="primary" onClick={() => setWanted(true)}>
            Run
          </button>
        </p>
      )}
      {start.problem !== undefined && (
        <Problem error={start.problem} retry={() => start.begin(id, id, { isReplacing: true })} />
      )}
      <VariablesDialog start={start} />
    </>
  );
}
