/** Two runs or traces side by side: `/compare?a=test/ID/run/N&b=test/ID/run/M`. */
import { useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { useEffect } from "react";
import type { Shape } from "../api/client";
import { compare, runs } from "../api/requests";
import { ago, duration, nanoseconds, shown } from "../text/format";
import { OutcomeWord, outcomeOf } from "../ui/glyphs";
import { Duration, Empty, Loading, Problem, useTitle } from "../ui/parts";
import { Header } from "./header";
import { useSearchChange } from "./search";
import { text } from "./span-panel";

type Row = Shape<"ComparisonRow">;

/** Runs that are offered. */
const CHOICES = 50;

const MARKS: Record<string, string> = {
  added: "+",
  removed: "−",
  moved: "⇢",
  slower: "▲",
  faster: "▼",
  changed: "~",
  same: "",
};

/** The test and the number of `test/ID/run/N`. */
function runOf(side: string | undefined): { test: string; run: number } | undefined {
  const found = /^test\/(.+)\/run\/(\d+)$/.exec(side ?? "");
  return found === null ? undefined : { test: found[1], run: Number(found[2]) };
}

export function CompareScreen() {
  const search = useSearch({ from: "/compare" });
  const change = useSearchChange();
  const { a, b } = search;
  const isOnly = search.only !== "0";
  useTitle("Compare");
  const right = runOf(b);
  // Without another choice, a run is compared with the last one before it that passed, or else with the one before it.
  const before = useQuery({
    queryKey: ["runs before", b],
    queryFn: async () => {
      const [passed, all] = await Promise.all([
        runs({ test: right?.test, outcome: "passed", take: CHOICES }),
        runs({ test: right?.test, take: CHOICES }),
      ]);
      return [...passed.items, ...all.items];
    },
    enabled: a === undefined && right !== undefined,
  });
  const last =
    before.data?.find((one) => one.run < (right?.run ?? 0)) ??
    before.data?.find((one) => one.run !== right?.run);
  useEffect(() => {
    if (a === undefined && last !== undefined) change({ a: `test/${last.test.id}/run/${last.run}` }, true);
  }, [a, last, change]);
  const found = useQuery({
    queryKey: ["compare", a, b, isOnly],
    queryFn: () => compare(a ?? "", b ?? "", isOnly),
    enabled: a !== undefined && b !== undefined,
    placeholderData: (previous) => previous,
  });
  return (
    <>
      <Header title="Compare">
        <button
          type="button"
          role="switch"
          className="switch"
          aria-checked={isOnly}
          onClick={() => change({ only: isOnly ? "0" : undefined }, false)}
        >
          Only differences
        </button>
        <button type="button" onClick={() => change({ a: b, b: a }, false)}>
          Swap
        </button>
      </Header>
      <div className="filters sides">
        <Side name="A" value={a} onChange={(value) => change({ a: value }, true)} />
        <Side name="B" value={b} onChange={(value) => change({ b: value }, true)} />
      </div>
      {before.isSuccess && last === undefined && a === undefined && (
        <p className="notice">This test has no other run: name a run or a trace to compare with.</p>
      )}
      {a === undefined && b === undefined && (
        <Empty>
          <p>
            Name two runs or traces. A run in B alone is compared with the last run of its test that passed,
            or with the run before it.
          </p>
          <p className="faint">
            <i>Compare</i> in the head of a run leads here, too.
          </p>
        </Empty>
      )}
      {found.isLoading && <Loading />}
      {found.isError && <Problem error={found.error} retry={() => found.refetch()} />}
      {found.data !== undefined && <Result found={found.data} />}
    </>
  );
}

function Side({
  name,
  value,
  onChange,
}: {
  name: string;
  value: string | undefined;
  onChange: (value: string | undefined) => void;
}) {
  const run = runOf(value);
  return (
    <span className="compared">
      <label>
        {name}{" "}
        <input
          className="mono"
          spellCheck={false}
          placeholder="test/ID/run/N or trace/ID"
          value={value ?? ""}
          onChange={(event) => onChange(event.target.value || undefined)}
        />
      </label>
      {run !== undefined && (
        <>
          <RunChoice name={name} test={run.test} run={run.run} onChange={onChange} />
          <Link to="/test/$id/run/$run" params={{ id: run.test, run: String(run.run) }}>
            open
          </Link>
        </>
      )}
    </span>
  );
}

/** The latest runs of a test, to choose one. */
function RunChoice(props: {
  name: string;
  test: string;
  run: number;
  onChange: (value: string | undefined) => void;
}) {
  const { name, test, run, onChange } = props;
  const found = useQuery({
    queryKey: ["runs to choose", test],
    queryFn: () => runs({ test, take: CHOICES }),
    staleTime: 10_000,
  });
  const items = found.data?.items ?? [];
  const now = Date.now();
  return (
    <select
      aria-label={`Run ${name}`}
      value={run}
      onChange={(event) => onChange(`test/${test}/run/${event.target.value}`)}
    >
      {!items.some((one) => one.run === run) && <option value={run}>run {run}</option>}
      {items.map((one) => (
        <option key={one.run} value={one.run}>
          run {one.run} · {one.outcome ?? "running"} · {ago(Date.parse(one.started), now)}
        </option>
      ))}
    </select>
  );
}

function Result({ found }: { found: Shape<"Comparison"> }) {
  const { summary, verdicts } = found;
  const words = (["added", "removed", "moved", "slower", "faster", "changed"] as const)
    .filter((name) => summary[name] > 0)
    .map((name) => `${summary[name]} ${name}`);
  const largest = Math.max(1, ...found.rows.map((row) => Math.abs(delta(row) ?? 0)));
  return (
    <>
      <div className="compare-summary">
        {verdicts?.outcome.a && (
          <span>
            A <OutcomeWord outcome={outcomeOf(verdicts.outcome.a)} />
          </span>
        )}
        {verdicts?.outcome.b && (
          <span>
            B <OutcomeWord outcome={outcomeOf(verdicts.outcome.b)} />
          </span>
        )}
        <output aria-label="Summary">{words.length === 0 ? "no differences" : words.join(", ")}</output>
        {(verdicts?.specs ?? [])
          .filter((spec) => spec.a !== spec.b)
          .map((spec) => (
            <span key={spec.name + spec.selector} className="faint">
              {spec.name || spec.selector}: {spec.a ?? "not there"} → {spec.b ?? "not there"}
            </span>
          ))}
      </div>
      <div className="scroll">
        <table className="list dense" role="treegrid" aria-label="Comparison">
          <thead>
            <tr>
              <th className="narrow" aria-label="Change" />
              <th>Span</th>
              <th>Service</th>
              <th className="right">A</th>
              <th className="right">B</th>
              <th className="right" title="the time in which no child ran">
                Own time
              </th>
              <th aria-label="Size" />
            </tr>
          </thead>
          <tbody>
            {found.rows.map((row) => (
              <Lines key={`${row.a} ${row.b}`} row={row} largest={largest} />
            ))}
          </tbody>
        </table>
        {found.next !== null && (
          <p className="faint pad">{found.total - found.rows.length} more rows are not shown.</p>
        )}
      </div>
    </>
  );
}

/** By how much the own time of a span differs: a slow child does not make its parents slow. */
function delta(row: Row): number | undefined {
  const [a, b] = [nanoseconds(row.ownTime.a), nanoseconds(row.ownTime.b)];
  return a === undefined || b === undefined ? undefined : b - a;
}

function Lines({ row, largest }: { row: Row; largest: number }) {
  const by = delta(row);
  const telling = row.attributes.filter((one) => !one.volatile);
  return (
    <>
      <tr data-change={row.change} aria-level={row.depth + 1}>
        <td className={`change ${row.change}`} title={row.change}>
          {MARKS[row.change] ?? ""}
        </td>
        <th scope="row">
          <span style={{ paddingLeft: `${Math.min(row.depth, 24) * 14}px` }}>{shown(row.name, 200)}</span>
        </th>
        <td className="faint">{shown(row.service, 100)}</td>
        <td className="right">
          <Duration ns={nanoseconds(row.duration.a)} />
        </td>
        <td className="right">
          <Duration ns={nanoseconds(row.duration.b)} />
        </td>
        <td className={`right number change ${row.change}`}>
          {by === undefined ? row.change : `${by > 0 ? "+" : ""}${duration(by)}`}
        </td>
        <td className="sizes">
          {by !== undefined && (
            <i
              className={by > 0 ? "slower" : "faster"}
              style={{ width: `${Math.max(1, (Math.abs(by) / largest) * 80)}px` }}
            />
          )}
        </td>
      </tr>
      {telling.slice(0, 8).map((one) => (
        <tr key={one.name} className="attribute" data-change="changed">
          <td />
          <th scope="row">
            <span style={{ paddingLeft: `${Math.min(row.depth + 1, 24) * 14}px` }}>
              ~ {shown(one.name, 200)}
            </span>
          </th>
          <td />
          <td className="right" colSpan={1}>
            <code>{shown(one.before === null ? "–" : text(one.before), 60)}</code>
          </td>
          <td className="right">
            <code>{shown(one.after === null ? "–" : text(one.after), 60)}</code>
          </td>
          <td />
          <td />
        </tr>
      ))}
    </>
  );
}
