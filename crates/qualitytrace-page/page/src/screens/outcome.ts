/** How a run ended. The specs are one of its gates, and the required gates decide. */
import type { Shape } from "../api/client";
import type { Outcome } from "../ui/glyphs";

export type Gates = Shape<"Gates">;
/** What the outcome of a run depends on. */
export type Ended = Pick<Shape<"Run">, "state" | "requiredGatesResult" | "missing">;

/** The gate of the specs. */
const SPECS = "test-specs";

/** The outcome of a run, as the server counts it. */
export function outcomeOfRun({ state, requiredGatesResult: gates, missing = [] }: Ended): Outcome {
  if (state === "STOPPED") return "stopped";
  // The server could not bring it to its end: that says nothing about the system under test.
  if (state === "FAILED") return "inconclusive";
  if (state !== "FINISHED") return /FAILED$|ERROR$/.test(state) ? "broken" : "running";
  if (gates.passed) return "passed";
  return missing.length > 0 || isOpen(gates) ? "inconclusive" : "failed";
}

/** Whether only missing spans keep the required gates from being passed. */
function isOpen({ inconclusive = [], ...gates }: Gates): boolean {
  return inconclusive.length > 0 && missed(gates).length === inconclusive.length;
}

const missed = ({ required, failed }: Pick<Gates, "required" | "failed">) =>
  failed.filter((gate) => required.includes(gate));

/** What the gates add to the verdict of the specs, a sentence each. */
export function gateNotes(gates: Gates, specs: Outcome): string[] {
  const others = missed(gates).filter((gate) => gate !== SPECS);
  const told = others.map((gate) =>
    gates.inconclusive?.includes(gate)
      ? `The required gate ${gate} is undecided: spans are missing.`
      : `The required gate ${gate} is not passed.`,
  );
  const isExcused = specs !== "passed" && !gates.required.includes(SPECS);
  return isExcused ? [...told, `The specs do not count: ${SPECS} is not a required gate of this run.`] : told;
}

/** The outcome of a run of a suite. */
export function outcomeOfSuite(run: Shape<"SuiteRun">): Outcome {
  const { fail = 0, steps = [] } = run;
  if (run.state === "FAILED")
    return steps.some((step) => step.state === "FAILED") &&
      steps.every((step) => ["passed", "inconclusive"].includes(outcomeOfRun(step)))
      ? "inconclusive"
      : "broken";
  if (run.state !== "FINISHED") return "running";
  if (fail === 0) return "passed";
  const others = steps.map(outcomeOfRun).filter((outcome) => outcome !== "passed");
  const isUndecided = others.length >= fail && others.every((outcome) => outcome === "inconclusive");
  return isUndecided ? "inconclusive" : "failed";
}
