/** All tests: `/tests`. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState, useSyncExternalStore } from "react";
import { address } from "../api/address";
import { startRun, type TestSpec, tags, tests } from "../api/requests";
import { count } from "../text/format";
import { Icon, OUTCOMES, OutcomeGlyph, outcomeOf } from "../ui/glyphs";
import { Ago, Command, Duration, Empty, Loading, Problem, useTitle } from "../ui/parts";
import { onDeletionChange, pendingDeletions } from "./deletions";
import { Filters } from "./filters";
import { Header } from "./header";
import { HistoryStrip } from "./history-strip";
import { useMayChange } from "./may-change";
import { More, SortHead, sortOf, usePages } from "./pages";
import { useStart, VariablesDialog } from "./start-run";

const TRIGGERS = [
  "http",
  "grpc",
  "graphql",
  "kafka",
  "traceid",
  "exec",
  "playwrightengine",
  "cypress",
  "playwright",
  "artillery",
  "k6",
];
const COLUMNS = ["name", "last_run"] as const;

export function TestsScreen() {
  const search = useSearch({ from: "/tests" });
  const navigate = useNavigate();
  const mayChange = useMayChange();
  const start = useStart();
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [failure, setFailure] = useState<unknown>();
  const sort = sortOf(search.sort, COLUMNS, { sortBy: "last_run", sortDirection: "desc" });
  const { sort: _, ...filter } = search;
  const isFiltered = Object.keys(filter).length > 0;
  const known = usePages(["tests", filter, sort], (page) => tests({ ...filter, ...sort, ...page }));
  const tagged = useQuery({ queryKey: ["tags"], queryFn: tags, staleTime: 10_000 });
  const all = (tagged.data?.items ?? []).map((tag) => tag.name);
  const deleted = useSyncExternalStore(onDeletionChange, pendingDeletions);
  const kept = known.items.filter(({ spec }) => !deleted.some(({ id }) => id === spec.id));
  useTitle("Tests");
  const runChosen = async () => {
    try {
      await Promise.all([...chosen].map((id) => startRun(id)));
      await navigate({ to: "/runs" });
    } catch (problem) {
      setFailure(problem);
    }
  };
  return (
    <>
      <Header
        title="Tests"
        state={<span className="faint number">{known.count !== undefined && count(known.count)}</span>}
      >
        {mayChange && chosen.size > 0 && (
          <button type="button" aria-label="Run selected" onClick={runChosen}>
            Run {chosen.size} selected
          </button>
        )}
        {mayChange && (
          <Link to="/test/create" className="button primary">
            New test
          </Link>
        )}
      </Header>
      <Filters
        filters={[
          { name: "query", label: "Filter tests", hint: "Filter tests" },
          { name: "outcome", label: "Outcome", any: "any outcome", options: OUTCOMES },
          { name: "trigger", label: "Trigger", any: "any trigger", options: TRIGGERS },
          ...(all.length > 0 || search.tag !== undefined
            ? [{ name: "tag", label: "Tag", any: "any tag", options: withChosen(all, search.tag) } as const]
            : []),
        ]}
        search={search}
      />
      {failure !== undefined && <Problem error={failure} />}
      {start.problem !== undefined && <Problem error={start.problem} />}
      {known.isPending && <Loading />}
      {known.isError && <Problem error={known.error} retry={() => known.refetch()} />}
      {known.count === 0 && !isFiltered && (
        <Empty>
          <p>There are no tests yet.</p>
          <Command text={`qualitytrace run my-test.yaml --server-url ${address("")}`} />
          <p>
            or <Link to="/test/create">write one here</Link>, or <Link to="/traces">make one of a trace</Link>
            .
          </p>
        </Empty>
      )}
      {known.count !== undefined && (known.count > 0 || isFiltered) && (
        <div className="scroll">
          <table className="list" aria-label="Tests" aria-busy={known.isPlaceholderData}>
            <thead>
              <tr>
                <th className="narrow" aria-label="Select" />
                <SortHead column="name" name="Test" sort={sort} />
                <th>Last 20</th>
                <th className="right">Duration</th>
                <th className="right">Flaky</th>
                <SortHead column="last_run" name="Last run" sort={sort} first="desc" />
                <th className="narrow" aria-label="Actions" />
              </tr>
            </thead>
            <tbody>
              {kept.map(({ spec: test }) => (
                <Row
                  key={test.id}
                  test={test}
                  isChosen={chosen.has(test.id ?? "")}
                  onChoose={(isChosen) => {
                    const next = new Set(chosen);
                    if (isChosen) next.add(test.id ?? "");
                    else next.delete(test.id ?? "");
                    setChosen(next);
                  }}
                  onRun={mayChange ? () => start.begin(test.id ?? "", test.name ?? "") : undefined}
                />
              ))}
            </tbody>
          </table>
          {known.items.length === 0 && <p className="faint pad">No test matches these filters.</p>}
          <More name="More tests" pages={known} />
        </div>
      )}
      <VariablesDialog start={start} />
    </>
  );
}

/** The choices of a filter, with the chosen one even if it is gone. */
function withChosen(all: readonly string[], chosen: string | undefined): readonly string[] {
  return chosen === undefined || all.includes(chosen) ? all : [...all, chosen];
}

function Row(props: {
  test: TestSpec;
  isChosen: boolean;
  onChoose: (isChosen: boolean) => void;
  onRun?: () => void;
}) {
  const { test, isChosen, onChoose, onRun } = props;
  const id = test.id ?? "";
  const { summary } = test;
  const history = summary?.history ?? [];
  const durations = history.map((one) => Number(one.duration ?? 0)).filter((one) => one > 0);
  durations.sort((a, b) => a - b);
  const middle = durations[Math.floor(durations.length / 2)];
  const [last] = history;
  const flaky = summary?.flakiness;
  return (
    <tr>
      <td>
        {onRun !== undefined && (
          <input
            type="checkbox"
            aria-label={`Select ${test.name}`}
            checked={isChosen}
            onChange={(event) => onChoose(event.target.checked)}
          />
        )}
      </td>
      <th scope="row">
        <span className="with-glyph">
          {last === undefined ? (
            <span className="glyph" />
          ) : (
            <OutcomeGlyph outcome={outcomeOf(last.outcome)} />
          )}
          <Link to="/test/$id" params={{ id }}>
            {test.name}
          </Link>
          <span className="faint trigger">{entryPoint(test)}</span>
        </span>
      </th>
      <td>
        <HistoryStrip history={history} />
      </td>
      <td className="right">
        <Duration ns={middle} />
      </td>
      <td className="right number">
        {flaky ? `${Math.round((flaky.rate ?? 0) * 100)} %` : <span className="faint">–</span>}
      </td>
      <td>
        {last === undefined ? (
          <span className="faint">never</span>
        ) : (
          <Link to="/test/$id/run/$run" params={{ id, run: String(last.run) }}>
            <Ago at={summary?.lastRun?.time} />
          </Link>
        )}
      </td>
      <td>
        {onRun !== undefined && (
          <button type="button" className="quiet" aria-label={`Run ${test.name}`} title="Run" onClick={onRun}>
            <Icon name="play" />
          </button>
        )}
      </td>
    </tr>
  );
}

/** What a test triggers, in a few words. */
export function entryPoint(test: TestSpec): string {
  const { trigger } = test;
  if (trigger?.httpRequest) return `${trigger.httpRequest.method ?? "GET"} ${trigger.httpRequest.url ?? ""}`;
  if (trigger?.grpc) return `${trigger.grpc.service ?? ""}/${trigger.grpc.method ?? ""}`;
  if (trigger?.graphql) return `GraphQL ${trigger.graphql.url ?? ""}`;
  if (trigger?.kafka) return `Kafka ${trigger.kafka.topic ?? ""}`;
  return trigger?.type ?? "";
}
