/** The last runs of a test in detail: where their time went, and which specs did not pass. */
import { useQueries } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type RunSummary, run, type Verdict, verdict } from "../api/requests";
import { duration } from "../text/format";
import { PHASES, phases } from "../text/phases";
import { Loading } from "../ui/parts";
import { HistoryStrip } from "./history-strip";

/** Runs whose details are asked for. */
const TAKEN = 20;

export function HistoryDetail({ id, past }: { id: string; past: RunSummary[] }) {
  const last = past.slice(-TAKEN).reverse();
  const asked = useQueries({
    queries: last.map(({ run: number }) => ({
      queryKey: ["run in history", id, number],
      queryFn: async () => {
        const [it, judged] = await Promise.all([run(id, number), verdict(id, number).catch(() => undefined)]);
        return { number, phases: phases(it), judged };
      },
      staleTime: 60_000,
    })),
  });
  const known = asked.flatMap(({ data }) => data ?? []);
  if (known.length === 0) return asked.some((one) => one.isPending) ? <Loading /> : null;
  return (
    <>
      <section>
        <h2>Phases</h2>
        <Phases id={id} runs={known} />
      </section>
      <section>
        <h2>Specs</h2>
        <Specs runs={known} />
      </section>
    </>
  );
}

interface Known {
  number: number;
  phases: number[];
  judged: Verdict | undefined;
}

function Phases({ id, runs }: { id: string; runs: Known[] }) {
  const sum = (parts: number[]) => parts.reduce((all, one) => all + one, 0);
  const longest = Math.max(1, ...runs.map((one) => sum(one.phases)));
  return (
    <>
      <p className="legend" aria-hidden="true">
        {PHASES.map((name, at) => (
          <span key={name}>
            <i className={`phase phase-${at}`} /> {name}
          </span>
        ))}
      </p>
      <table className="phases" aria-label="Phases">
        <thead>
          <tr>
            <th>Run</th>
            <th>Time</th>
            {PHASES.map((name) => (
              <th key={name} className="right">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {runs.map((one) => (
            <tr key={one.number}>
              <th scope="row">
                <Link to="/test/$id/run/$run" params={{ id, run: String(one.number) }}>
                  {one.number}
                </Link>
              </th>
              <td className="bars">
                {one.phases.map((length, at) => (
                  <i
                    key={PHASES[at]}
                    className={`phase phase-${at}`}
                    style={{ width: `${(length / longest) * 100}%` }}
                  />
                ))}
              </td>
              {one.phases.map((length, at) => (
                <td key={PHASES[at]} className="right number">
                  {duration(length)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

function Specs({ runs }: { runs: Known[] }) {
  const specs = new Map<string, { run: number; outcome: string; duration: null }[]>();
  for (const { number, judged } of runs) {
    for (const spec of judged?.specs ?? []) {
      const name = spec.name || spec.selector;
      const past = specs.get(name) ?? [];
      past.push({ run: number, outcome: spec.outcome, duration: null });
      specs.set(name, past);
    }
  }
  if (specs.size === 0) return <p className="faint">None of these runs has a verdict.</p>;
  const bad = (past: { outcome: string }[]) => past.filter((one) => one.outcome !== "passed").length;
  const rows = [...specs].sort(([, a], [, b]) => bad(b) / b.length - bad(a) / a.length);
  return (
    <table className="list" aria-label="Specs">
      <thead>
        <tr>
          <th>Spec</th>
          <th>Last {runs.length}</th>
          <th className="right">Not passed</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, past]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td>
              <HistoryStrip history={past} />
            </td>
            <td className="right number">
              {bad(past) === 0 ? <span className="faint">–</span> : `${bad(past)} of ${past.length}`}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
