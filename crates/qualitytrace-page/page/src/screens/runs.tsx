/** Runs of all tests: `/runs`; and the table of runs that other screens show too. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { address } from "../api/address";
import { type RunFilter, type RunSummary, runs } from "../api/requests";
import { nanoseconds } from "../text/format";
import { OUTCOMES, OutcomeWord, outcomeOf } from "../ui/glyphs";
import { Ago, Command, Duration, Empty, Loading, Problem, useTitle } from "../ui/parts";
import { Filters } from "./filters";
import { Header } from "./header";

const FILTERS = [
  { name: "outcome", label: "Outcome", any: "any outcome", options: ["running", ...OUTCOMES] },
  { name: "test", label: "Test", hint: "test id" },
  { name: "branch", label: "Branch", hint: "branch" },
  { name: "source", label: "Source", hint: "source" },
] as const;

export function RunsScreen() {
  const search = useSearch({ from: "/runs" });
  useTitle("Runs");
  return (
    <>
      <Header title="Runs" />
      <Filters filters={FILTERS} search={search} />
      <RunTable filter={search} isTestShown />
    </>
  );
}

export function RunTable({ filter, isTestShown = false }: { filter: RunFilter; isTestShown?: boolean }) {
  const found = useInfiniteQuery({
    queryKey: ["runs", filter],
    queryFn: ({ pageParam }) => runs({ ...filter, next: pageParam }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
    refetchInterval: 4000,
  });
  if (found.isPending) return <Loading />;
  if (found.isError) return <Problem error={found.error} retry={() => found.refetch()} />;
  const items = found.data.pages.flatMap((page) => page.items);
  const isFiltered = Object.keys(filter).some((name) => name !== "test" || isTestShown);
  if (items.length === 0 && isFiltered) return <p className="faint pad">No run matches these filters.</p>;
  if (items.length === 0)
    return (
      <Empty>
        <p>{isTestShown ? "No test was run yet." : "This test was not run yet."}</p>
        <Command text={`qualitytrace run my-test.yaml --server-url ${address("")}`} />
      </Empty>
    );
  return (
    <div className="scroll">
      <table className="list" aria-label="Runs">
        <thead>
          <tr>
            <th>Outcome</th>
            {isTestShown && <th>Test</th>}
            <th className="right">Run</th>
            <th className="right">Assertions</th>
            <th className="right">Spans</th>
            <th className="right">Duration</th>
            <th>Started</th>
            <th>From</th>
          </tr>
        </thead>
        <tbody>
          {items.map((run) => (
            <Row key={`${run.test.id} ${run.run}`} run={run} isTestShown={isTestShown} />
          ))}
        </tbody>
      </table>
      {found.hasNextPage && (
        <p className="pad">
          <button type="button" onClick={() => found.fetchNextPage()}>
            More runs
          </button>
        </p>
      )}
    </div>
  );
}

function Row({ run, isTestShown }: { run: RunSummary; isTestShown: boolean }) {
  const params = { id: run.test.id, run: String(run.run) };
  const from = [run.source, run.branch].filter(Boolean).join(" · ");
  return (
    <tr>
      <td>
        <Link to="/test/$id/run/$run" params={params} className="plain">
          <OutcomeWord outcome={outcomeOf(run.outcome)} />
        </Link>
      </td>
      {isTestShown && (
        <th scope="row">
          <Link to="/test/$id" params={{ id: run.test.id }}>
            {run.test.name}
          </Link>
        </th>
      )}
      <td className="right number">
        <Link to="/test/$id/run/$run" params={params} aria-label={`Run ${run.run}`}>
          {run.run}
        </Link>
      </td>
      <td className="right number">
        {run.failed > 0 ? <span className="bad">{run.failed} failed</span> : `${run.passed} passed`}
      </td>
      <td className="right number">{run.spans ?? "–"}</td>
      <td className="right">
        <Duration ns={nanoseconds(run.duration)} />
      </td>
      <td>
        <Ago at={run.started} />
      </td>
      <td className="faint">{from || "–"}</td>
    </tr>
  );
}
