/** The steps of a suite's run: as they were planned, whatever the suite has become since. */
import type { Shape } from "../api/client";
import type { SuiteEvent } from "../api/requests";
import type { Outcome } from "../ui/glyphs";
import { outcomeOfRun } from "./outcome";

type Run = Shape<"Run">;
type Planned = Extract<SuiteEvent, { what: "planned" }>["steps"][number];

export interface Step {
  planned: Planned;
  outcome: Outcome;
  isSkipped: boolean;
  /** The last run of its test; none if the step was skipped, or the run was removed. */
  run: Run | undefined;
}

/** The steps that have begun or were skipped, in the order of the plan. `runs` are the runs of their tests. */
export function stepsOf(events: readonly SuiteEvent[], runs: readonly Run[]): Step[] {
  const ofTrace = new Map(runs.map((run) => [run.traceId, run]));
  const steps: Step[] = [];
  const seen = new Set<number>();
  const change = (at: number, changed: Partial<Step>) => {
    seen.add(at);
    if (steps[at] !== undefined) Object.assign(steps[at], changed);
  };
  for (const event of events) {
    if (event.what === "planned")
      for (const planned of event.steps)
        steps.push({ planned, outcome: "running", isSkipped: false, run: undefined });
    if (event.what === "stepStarted") {
      // Runs of different tests have the same numbers, but never the same trace.
      const run = ofTrace.get(event.traceId);
      change(event.step, { run, outcome: run === undefined ? "running" : outcomeOfRun(run) });
    }
    if (event.what === "stepEnded") {
      // What late spans have changed is in the run; what several runs disagree about is not.
      const isOfRun = steps[event.step]?.run !== undefined && event.outcome !== "flaky";
      change(event.step, isOfRun ? {} : { outcome: event.outcome });
    }
    if (event.what === "stepsSkipped")
      for (const at of event.steps) change(at, { isSkipped: true, outcome: "stopped" });
  }
  return steps.filter((_, at) => seen.has(at));
}

/** What a reader has to know about a step beside the title of its test. */
export function about({ planned, isSkipped, run }: Step): string {
  const { role, row, values = [], name, test, title } = planned;
  const told = [
    name !== test && name !== title && name,
    role !== "step" && role,
    typeof row === "number" && `row ${row}`,
    ...values.map(([key, value]) => `${key} = ${value}`),
    isSkipped && "skipped",
    ...(run?.outputs ?? []).map((one) => `${one.name} = ${one.value}`),
  ];
  return told.filter((one) => one !== false && one !== "").join(", ");
}
