/** Suites, and their runs: `/testsuites`, `/testsuite/ID`, `/testsuite/ID/run/N`. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { address } from "../api/address";
import type { Shape } from "../api/client";
import { startSuite, suite, suiteRun, suiteRuns, suites } from "../api/requests";
import { Icon, type Outcome, OutcomeGlyph, OutcomeWord } from "../ui/glyphs";
import { Ago, Command, Duration, Empty, Loading, Problem, useTitle } from "../ui/parts";
import { Filters, matches } from "./filters";
import { Header } from "./header";
import { useMayChange } from "./shell";
import { SuiteGraph } from "./suite-graph";

type SuiteRun = Shape<"SuiteRun">;
type Step = NonNullable<SuiteRun["steps"]>[number];

function outcomeOfSuite(run: SuiteRun): Outcome {
  if (run.state === "FAILED") return "broken";
  if (run.state !== "FINISHED") return "running";
  return (run.fail ?? 0) > 0 ? "failed" : "passed";
}

function outcomeOfStep(step: Step): Outcome {
  if (step.state === "STOPPED") return "stopped";
  if (step.state === "FINISHED") return step.requiredGatesResult?.passed === false ? "failed" : "passed";
  return step.state.includes("FAILED") ? "broken" : "running";
}

export function SuitesScreen() {
  const known = useQuery({ queryKey: ["suites"], queryFn: suites, refetchInterval: 5000 });
  useTitle("Suites");
  const search = useSearch({ from: "/testsuites" });
  const shown = (known.data?.items ?? []).filter(({ spec }) =>
    matches([spec.name, spec.id, spec.description], search.query),
  );
  return (
    <>
      <Header title="Suites" state={<span className="faint number">{known.data?.count}</span>} />
      <Filters filters={[{ name: "query", label: "Filter suites", hint: "Filter suites" }]} search={search} />
      {known.isPending && <Loading />}
      {known.isError && <Problem error={known.error} retry={() => known.refetch()} />}
      {known.data?.count === 0 && (
        <Empty>
          <p>There are no suites yet. A suite runs tests in order and hands outputs on.</p>
          <Command text={`qualitytrace apply testsuite -f my-suite.yaml --server-url ${address("")}`} />
        </Empty>
      )}
      {known.data !== undefined && known.data.count > 0 && (
        <div className="scroll">
          <table className="list" aria-label="Suites">
            <thead>
              <tr>
                <th>Suite</th>
                <th className="right">Steps</th>
                <th className="right">Runs</th>
                <th>Last run</th>
              </tr>
            </thead>
            <tbody>
              {shown.map(({ spec }) => (
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
          {shown.length === 0 && <p className="faint pad">No suite matches this filter.</p>}
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
  const navigate = useNavigate();
  const [problem, setProblem] = useState<unknown>();
  const name = known.data?.spec.name ?? id;
  useTitle(name);
  const start = () => {
    const variables = (past.data?.[0]?.variableSet?.values ?? []).map(({ key = "", value = "" }) => ({
      key,
      value,
    }));
    startSuite(id, variables)
      .then((run) => navigate({ to: "/testsuite/$id/run/$run", params: { id, run: String(run.id) } }))
      .catch(setProblem);
  };
  return (
    <>
      <Header path={[{ name: "Suites", to: "/testsuites" }]} title={name}>
        {mayChange && (
          <button type="button" className="primary" onClick={start}>
            <Icon name="play" /> Run
          </button>
        )}
      </Header>
      {problem !== undefined && <Problem error={problem} />}
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
    </>
  );
}

function lasted(from: string | undefined, to: string | undefined): number | undefined {
  const [begin, end] = [Date.parse(from ?? ""), Date.parse(to ?? "")];
  return Number.isFinite(begin) && end > begin ? (end - begin) * 1e6 : undefined;
}

export function SuiteRunScreen() {
  const { id, run } = useParams({ strict: false }) as { id: string; run: string };
  const found = useQuery({
    queryKey: ["suite run", id, run],
    queryFn: () => suiteRun(id, Number(run)),
    refetchInterval: (query) =>
      ["FINISHED", "FAILED"].includes(query.state.data?.state ?? "") ? false : 500,
  });
  const known = useQuery({ queryKey: ["suite", id], queryFn: () => suite(id) });
  const tests = new Map((known.data?.spec.fullSteps ?? []).map((test) => [test.id, test.name]));
  const steps = known.data?.spec.steps ?? [];
  const it = found.data;
  useTitle(`${known.data?.spec.name ?? id} · run ${run}`);
  const begin = Date.parse(it?.createdAt ?? "");
  const ends = (it?.steps ?? []).map((step) => Date.parse(step.completedAt ?? "")).filter(Number.isFinite);
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
              {(it.steps ?? []).map((step, index) => {
                const test = testOf(step, steps[index]);
                const from = (Date.parse(step.createdAt ?? "") - begin) / (end - begin);
                const to = ((Date.parse(step.completedAt ?? "") || end) - begin) / (end - begin);
                return (
                  <tr key={`${test} ${step.id}`}>
                    <th scope="row">
                      <span className="with-glyph">
                        <OutcomeGlyph outcome={outcomeOfStep(step)} />
                        <Link to="/test/$id/run/$run" params={{ id: test, run: String(step.id) }}>
                          {tests.get(test) ?? test}
                        </Link>
                        <span className="faint trigger">
                          {(step.outputs ?? []).map((one) => `${one.name} = ${one.value}`).join(", ")}
                        </span>
                      </span>
                    </th>
                    <td className="right number">{step.result?.results?.length ?? 0}</td>
                    <td className="right">
                      <Duration ns={lasted(step.createdAt, step.completedAt)} />
                    </td>
                    <td className="gantt">
                      <i
                        className={outcomeOfStep(step)}
                        style={{
                          left: along(from),
                          width: `calc((100% - 28px) * ${Math.max(0.005, to - from)})`,
                        }}
                      />
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

/** A place in a cell of the chart, between its paddings. */
const along = (share: number) => `calc(12px + (100% - 28px) * ${share})`;

/** The test of a step. A run does not name its test, but the suite names its steps. */
function testOf(_step: Step, planned: Shape<"StepSpec"> | undefined): string {
  if (typeof planned === "string") return planned;
  return planned?.test ?? "";
}
