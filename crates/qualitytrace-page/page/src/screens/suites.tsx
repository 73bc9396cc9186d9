/** Suites, and their runs: `/testsuites`, `/testsuite/ID`, `/testsuite/ID/run/N`. */
import { useQuery } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { address } from "../api/address";
import { suite, suiteEvents, suiteRun, suiteRuns, suites } from "../api/requests";
import { count } from "../text/format";
import { Icon, OutcomeGlyph, OutcomeWord } from "../ui/glyphs";
import { Ago, Command, Duration, Empty, Loading, Problem, useTitle } from "../ui/parts";
import { Filters } from "./filters";
import { Header } from "./header";
import { again } from "./manner";
import { useMayChange } from "./may-change";
import { outcomeOfSuite } from "./outcome";
import { More, SortHead, sortOf, usePages } from "./pages";
import { useStart, VariablesDialog } from "./start-run";
import { SuiteGraph } from "./suite-graph";
import { about, type Step, stepsOf } from "./suite-steps";

const COLUMNS = ["name", "last_run"] as const;

export function SuitesScreen() {
  const { sort: sorted, ...filter } = useSearch({ from: "/testsuites" });
  const sort = sortOf(sorted, COLUMNS, { sortBy: "last_run", sortDirection: "desc" });
  const known = usePages(["suites", filter, sort], (page) => suites({ ...filter, ...sort, ...page }));
  const isFiltered = filter.query !== undefined;
  useTitle("Suites");
  return (
    <>
      <Header
        title="Suites"
        state={<span className="faint number">{known.count !== undefined && count(known.count)}</span>}
      />
      <Filters filters={[{ name: "query", label: "Filter suites", hint: "Filter suites" }]} search={filter} />
      {known.isPending && <Loading />}
      {known.isError && <Problem error={known.error} retry={() => known.refetch()} />}
      {known.count === 0 && !isFiltered && (
        <Empty>
          <p>There are no suites yet. A suite runs tests in order and hands outputs on.</p>
          <Command text={`qualitytrace apply testsuite -f my-suite.yaml --server-url ${address("")}`} />
        </Empty>
      )}
      {known.count !== undefined && (known.count > 0 || isFiltered) && (
        <div className="scroll">
          <table className="list" aria-label="Suites" aria-busy={known.isPlaceholderData}>
            <thead>
              <tr>
                <SortHead column="name" name="Suite" sort={sort} />
                <th className="right">Steps</th>
                <th className="right">Runs</th>
                <SortHead column="last_run" name="Last run" sort={sort} first="desc" />
              </tr>
            </thead>
            <tbody>
              {known.items.map(({ spec }) => (
                <tr key={spec.id}>
                  <th scope="row">
                    <Link to="/testsuite/$id" params={{ id: spec.id ?? "" }}>
                      {spec.name}
                    </Link>
                  </th>
                  <td className="right number">{spec.steps?.length ?? 0}</td>
                  <td className="right number">{spec.summary?.runs ?? 0}</td>
                  <td>
                    <Ago at={spec.summary?.lastRun?.time} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
          {known.items.length === 0 && <p className="faint pad">No suite matches this filter.</p>}
          <More name="More suites" pages={known} />
        </div>
      )}
    </>
  );
}

export function SuiteScreen() {
  const { id } = useParams({ from: "/testsuite/$id" });
  const known = useQuery({ queryKey: ["suite", id], queryFn: () => suite(id) });
  const past = useQuery({
    queryKey: ["suite runs", id],
    queryFn: () => suiteRuns(id),
    refetchInterval: 3000,
  });
  const mayChange = useMayChange();
  const start = useStart("suite");
  const name = known.data?.spec.name ?? id;
  useTitle(name);
  const run = () => start.begin(id, name, again(past.data?.[0]?.variableSet));
  return (
    <>
      <Header path={[{ name: "Suites", to: "/testsuites" }]} title={name}>
        {mayChange && (
          <button type="button" className="primary" disabled={past.isPending} onClick={run}>
            <Icon name="play" /> Run
          </button>
        )}
      </Header>
      {start.problem !== undefined && <Problem error={start.problem} />}
      {known.isError && <Problem error={known.error} retry={() => known.refetch()} />}
      {known.data !== undefined && <SuiteGraph suite={known.data.spec} />}
      {past.isPending && <Loading />}
      <div className="scroll">
        <table className="list" aria-label="Runs">
          <thead>
            <tr>
              <th>Outcome</th>
              <th className="right">Run</th>
              <th className="right">Results</th>
              <th className="right">Duration</th>
              <th>Started</th>
            </tr>
          </thead>
          <tbody>
            {(past.data ?? []).map((run) => (
              <tr key={run.id}>
                <th scope="row">
                  <Link to="/testsuite/$id/run/$run" params={{ id, run: String(run.id) }} className="plain">
                    <OutcomeWord outcome={outcomeOfSuite(run)} />
                  </Link>
                </th>
                <td className="right number">{run.id}</td>
                <td className="right number">
                  {run.pass ?? 0} passed{(run.fail ?? 0) > 0 && `, ${run.fail} failed`}
                </td>
                <td className="right">
                  <Duration ns={lasted(run.createdAt, run.completedAt)} />
                </td>
                <td>
                  <Ago at={run.createdAt} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <VariablesDialog start={start} />
    </>
  );
}

function lasted(from: string | undefined, to: string | undefined): number | undefined {
  const [begin, end] = [Date.parse(from ?? ""), Date.parse(to ?? "")];
  return Number.isFinite(begin) && end > begin ? (end - begin) * 1e6 : undefined;
}

/** A run of a suite, and then its events: they name the test of every run that it has. */
async function runWithSteps(id: string, number: number) {
  const run = await suiteRun(id, number);
  return { run, steps: stepsOf(await suiteEvents(id, number), run.steps ?? []) };
}

export function SuiteRunScreen() {
  const { id, run } = useParams({ strict: false }) as { id: string; run: string };
  const found = useQuery({
    queryKey: ["suite run", id, run],
    queryFn: () => runWithSteps(id, Number(run)),
    refetchInterval: (query) =>
      ["FINISHED", "FAILED"].includes(query.state.data?.run.state ?? "") ? false : 500,
  });
  const known = useQuery({ queryKey: ["suite", id], queryFn: () => suite(id) });
  const it = found.data?.run;
  const steps = found.data?.steps ?? [];
  useTitle(`${known.data?.spec.name ?? id} · run ${run}`);
  const begin = Date.parse(it?.createdAt ?? "");
  const ends = steps.map((step) => Date.parse(step.run?.completedAt ?? "")).filter(Number.isFinite);
  const end = Math.max(begin + 1, Date.parse(it?.completedAt ?? "") || 0, ...ends);
  return (
    <>
      <Header
        path={[
          { name: "Suites", to: "/testsuites" },
          { name: known.data?.spec.name ?? id, to: `/testsuite/${encodeURIComponent(id)}` },
        ]}
        title={`run ${run}`}
        state={it !== undefined && <OutcomeWord outcome={outcomeOfSuite(it)} />}
      />
      {found.isPending && <Loading />}
      {found.isError && <Problem error={found.error} retry={() => found.refetch()} />}
      {it !== undefined && (
        <div className="scroll">
          <table className="list" aria-label="Steps">
            <thead>
              <tr>
                <th>Step</th>
                <th className="right">Specs</th>
                <th className="right">Duration</th>
                <th className="gantt">Time</th>
              </tr>
            </thead>
            <tbody>
              {steps.map((step, index) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: a test may be several steps, and their order stays
                <StepRow key={index} step={step} begin={begin} end={end} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

/** A step and its time in the run of the suite, which lasts from `begin` to `end`. */
function StepRow({ step, begin, end }: { step: Step; begin: number; end: number }) {
  const { planned, run, outcome } = step;
  const title = planned.title || planned.test;
  const share = (at: string | undefined) => ((Date.parse(at ?? "") || end) - begin) / (end - begin);
  const [from, to] = [share(run?.createdAt), share(run?.completedAt)];
  return (
    <tr>
      <th scope="row">
        <span className="with-glyph">
          <OutcomeGlyph outcome={outcome} label={step.isSkipped ? "skipped" : outcome} />
          {run === undefined ? (
            <span>{title}</span>
          ) : (
            <Link to="/test/$id/run/$run" params={{ id: planned.test, run: String(run.id) }}>
              {title}
            </Link>
          )}
          <span className="faint trigger">{about(step)}</span>
        </span>
      </th>
      <td className="right number">{run?.result?.results?.length ?? 0}</td>
      <td className="right">
        <Duration ns={lasted(run?.createdAt, run?.completedAt)} />
      </td>
      <td className="gantt">
        {run !== undefined && (
          <i
            className={outcome}
            style={{ left: along(from), width: `calc((100% - 28px) * ${Math.max(0.005, to - from)})` }}
          />
        )}
      </td>
    </tr>
  );
}

/** A place in a cell of the chart, between its paddings. */
const along = (share: number) => `calc(12px + (100% - 28px) * ${share})`;
