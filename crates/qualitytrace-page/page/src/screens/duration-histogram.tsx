/** How the durations of the listed traces are spread; a click on a class filters by it. */
import { counted, duration } from "../text/format";
import { histogram } from "../text/statistics";

/** A bound, which is a round number. */
const round = (ns: number) => duration(ns).replace(/\.0+ /, " ");

export function DurationHistogram(props: {
  durations: number[];
  onChoose: (minDuration: string, maxDuration: string) => void;
}) {
  const { durations, onChoose } = props;
  const bins = histogram(durations);
  if (bins.length < 2) return null;
  const most = Math.max(...bins.map((bin) => bin.count));
  return (
    <fieldset className="histogram" aria-label="Durations">
      {bins.map(({ from, to, count }) => (
        <button
          key={from}
          type="button"
          disabled={count === 0}
          aria-label={`${round(from)} to ${round(to)}: ${counted(count, "trace")}`}
          title={`${round(from)} to ${round(to)}: ${counted(count, "trace")}`}
          onClick={() => onChoose(`${from}ns`, `${to}ns`)}
        >
          <i style={{ height: `${(count / most) * 100}%` }} />
          <span>{round(from)}</span>
        </button>
      ))}
    </fieldset>
  );
}
