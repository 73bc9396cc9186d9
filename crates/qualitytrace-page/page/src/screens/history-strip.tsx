/** The last outcomes of a test, oldest first, as shapes and colours. */
import { counted, duration } from "../text/format";
import { type Outcome, outcomeOf } from "../ui/glyphs";

interface Past {
  run?: number;
  outcome?: string | null;
  duration?: string | null;
}

const LENGTH = 20;
const STEP = 8;
const HEIGHT = 20;

export function HistoryStrip({ history }: { history: Past[] }) {
  const past = [...history].slice(0, LENGTH).reverse();
  const longest = Math.max(1, ...past.map((one) => Number(one.duration ?? 0)));
  const outcomes = past.map((one) => outcomeOf(one.outcome));
  return (
    <svg className="strip" width={LENGTH * STEP} height={HEIGHT} role="img" aria-label={summary(outcomes)}>
      {past.map((one, index) => {
        const outcome = outcomes[index];
        // Without a duration the outcome is all that is told.
        const share = one.duration === null ? 0.7 : Math.sqrt(Number(one.duration ?? 0) / longest);
        const tall = Math.max(4, share * (HEIGHT - 4));
        const x = index * STEP;
        const title = `run ${one.run}: ${outcome}${one.duration ? `, ${duration(Number(one.duration))}` : ""}`;
        return (
          <g key={one.run} className={outcome}>
            <title>{title}</title>
            <rect
              x={x}
              y={HEIGHT - tall}
              width={STEP - 3}
              height={tall}
              className={outcome === "passed" ? "soft" : "hard"}
            />
            {outcome !== "passed" && <rect x={x} y={0} width={STEP - 3} height={2} className="hard" />}
          </g>
        );
      })}
    </svg>
  );
}

function summary(outcomes: Outcome[]): string {
  if (outcomes.length === 0) return "no runs yet";
  const numbers = new Map<string, number>();
  for (const outcome of outcomes) numbers.set(outcome, (numbers.get(outcome) ?? 0) + 1);
  const parts = [...numbers].map(([outcome, number]) => `${number} ${outcome}`);
  return `last ${counted(outcomes.length, "run")}: ${parts.join(", ")}`;
}
