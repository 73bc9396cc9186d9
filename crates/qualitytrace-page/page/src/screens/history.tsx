/** The history of a test: how its runs ended, how long they took, how often it was flaky. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type RunSummary, runs } from "../api/requests";
import { count, duration, moment } from "../text/format";
import { changes, quantile } from "../text/statistics";
import { OutcomeGlyph, outcomeOf, WORDS } from "../ui/glyphs";
import { Empty, Loading, Problem } from "../ui/parts";
import { HistoryDetail } from "./history-detail";

const TAKEN = 200;
const WIDTH = 960;
const HEIGHT = 220;
const LEFT = 104;
const BOTTOM = 24;

export function History({ id }: { id: string }) {
  const found = useQuery({ queryKey: ["history", id], queryFn: () => runs({ test: id, take: TAKEN }) });
  if (found.isPending) return <Loading />;
  if (found.isError) return <Problem error={found.error} retry={() => found.refetch()} />;
  const ended = found.data.items.filter((run) => run.outcome !== null).reverse();
  if (ended.length === 0) return <Empty>This test has no run that has ended.</Empty>;
  return (
    <div className="scroll sections">
      <Figures runs={ended} />
      <section>
        <h2>Durations</h2>
        <Chart runs={ended} />
      </section>
      <HistoryDetail id={id} past={ended} />
      <section>
        <h2>Last failures</h2>
        <Failures runs={ended} />
      </section>
    </div>
  );
}

const lengthOf = (run: RunSummary) => Number(run.duration ?? 0);

function Figures({ runs: past }: { runs: RunSummary[] }) {
  const lengths = past.map(lengthOf);
  const passed = past.filter((run) => run.outcome === "passed").length;
  const flips = changes(past.map((run) => run.outcome));
  const figures: [string, string, string?][] = [
    ["Runs", count(past.length), past.length === TAKEN ? "the last" : undefined],
    ["Passed", `${Math.round((passed / past.length) * 100)} %`],
    ["Outcome changes", `${Math.round(flips * 100)} %`, "of runs"],
    ["Median", duration(quantile(lengths, 0.5))],
    ["p95", duration(quantile(lengths, 0.95))],
  ];
  return (
    <dl className="figures">
      {figures.map(([name, value, more]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            {value} {more !== undefined && <span className="faint">{more}</span>}
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Chart({ runs: past }: { runs: RunSummary[] }) {
  const longest = Math.max(1, ...past.map(lengthOf));
  const step = Math.min(24, (WIDTH - LEFT - 16) / Math.max(1, past.length));
  const x = (at: number) => LEFT + (at + 0.5) * step;
  const y = (ns: number) => HEIGHT - BOTTOM - (ns / longest) * (HEIGHT - BOTTOM - 12);
  const lengths = past.map(lengthOf);
  const lines: [string, number][] = [
    ["p95", quantile(lengths, 0.95)],
    ["median", quantile(lengths, 0.5)],
  ];
  const wide = Math.max(1.5, Math.min(10, step * 0.7));
  return (
    <svg
      className="chart"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      role="img"
      aria-label={`Durations of ${past.length} runs, median ${duration(lines[1][1])}, p95 ${duration(lines[0][1])}`}
    >
      <line x1={LEFT} x2={WIDTH - 16} y1={HEIGHT - BOTTOM} y2={HEIGHT - BOTTOM} className="axis" />
      {lines.map(([name, value]) => (
        <g key={name}>
          <line x1={LEFT} x2={WIDTH - 16} y1={y(value)} y2={y(value)} className="level" />
          {(name === "p95" || y(value) - y(lines[0][1]) > 14) && (
            <text x={LEFT - 8} y={y(value) + 4} textAnchor="end">
              {name} {duration(value)}
            </text>
          )}
        </g>
      ))}
      {past.map((run, at) => {
        const outcome = outcomeOf(run.outcome);
        const top = y(lengthOf(run));
        return (
          <g key={run.run} className={outcome}>
            <title>{`run ${run.run}: ${WORDS[outcome]}, ${duration(lengthOf(run))}, ${moment(Date.parse(run.started))}`}</title>
            <rect
              x={x(at) - wide / 2}
              y={top}
              width={wide}
              height={Math.max(1, HEIGHT - BOTTOM - top)}
              className={outcome === "passed" ? "soft" : "hard"}
            />
            {outcome !== "passed" && (
              <rect x={x(at) - wide / 2} y={HEIGHT - BOTTOM + 4} width={wide} height="4" className="hard" />
            )}
          </g>
        );
      })}
      <text x={x(0) - wide / 2} y={HEIGHT - 4}>{`run ${past[0].run}`}</text>
      {past.length > 4 && (
        <text x={x(past.length - 1)} y={HEIGHT - 4} textAnchor="end">
          {`run ${past[past.length - 1].run}`}
        </text>
      )}
    </svg>
  );
}

function Failures({ runs: past }: { runs: RunSummary[] }) {
  const bad = past
    .filter((run) => run.outcome !== "passed")
    .slice(-8)
    .reverse();
  if (bad.length === 0) return <p className="faint">None of these runs failed.</p>;
  return (
    <ul className="past-failures">
      {bad.map((run) => (
        <li key={run.run}>
          <OutcomeGlyph outcome={outcomeOf(run.outcome)} />{" "}
          <Link to="/test/$id/run/$run" params={{ id: run.test.id, run: String(run.run) }}>
            run {run.run}
          </Link>{" "}
          <span className="faint">
            {moment(Date.parse(run.started))} · {count(run.failed)} of {count(run.passed + run.failed)}{" "}
            results failed
            {run.branch !== null && ` · ${run.branch}`}
          </span>{" "}
          <Link to="/compare" search={{ b: `test/${run.test.id}/run/${run.run}` } as never}>
            Compare
          </Link>
        </li>
      ))}
    </ul>
  );
}
