/** What a waiting run still owes, and until when it waits for it. */
import { counted, duration } from "../text/format";
import { type Outcome, OutcomeGlyph } from "../ui/glyphs";
import { useNow } from "../ui/parts";
import type { Owed as Debts } from "./live";

const EARLY: Record<string, [Outcome, string]> = {
  passed: ["passed", "passed for good"],
  failed: ["failed", "failed for good"],
  passing: ["running", "passes with the spans that are here"],
  failing: ["inconclusive", "not yet"],
};

export function Owed({ owed, onShow }: { owed: Debts; onShow: (span: string) => void }) {
  const now = useNow(100) * 1e6;
  const settles = Number(owed.debts.length > 0 ? owed.settleUntil : owed.quietUntil) - now;
  return (
    <section className="owed">
      <h2 id="owed">
        Still owed{" "}
        <span className="faint number">{settles > 0 ? `settles in ${duration(settles)}` : "settling"}</span>
      </h2>
      <ul aria-labelledby="owed">
        {owed.debts.map((debt) => (
          <li key={debt.text}>
            <span className="kind">{debt.kind}</span>
            <span className="sentence">{debt.text}</span>
            <span className="faint number">{duration(Math.max(0, now - Number(debt.since)))}</span>
            {debt.spanId !== undefined && (
              <button type="button" className="link" onClick={() => onShow(debt.spanId!)}>
                Show span
              </button>
            )}
          </li>
        ))}
        {owed.unnamedDebts > 0 && <li className="faint">and {owed.unnamedDebts} more</li>}
        {owed.debts.length === 0 && (
          <li className="faint">Nothing is known to be missing: waiting for silence.</li>
        )}
      </ul>
      {owed.specs.length > 0 && (
        <p className="early">
          {owed.specs.map((spec) => {
            const [outcome, words] = EARLY[spec.outcome] ?? ["running", spec.outcome];
            return (
              <span key={spec.name} title={words}>
                <OutcomeGlyph outcome={outcome} label={words} /> {spec.name}
              </span>
            );
          })}
          <span className="faint">{counted(owed.specs.length, "spec")}</span>
        </p>
      )}
    </section>
  );
}
