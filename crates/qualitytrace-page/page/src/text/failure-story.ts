/** A failed run in plain words: what was expected, what happened and where, since when, and what changed since then. */
import { counted, shown } from "./format";

export interface StoryFailure {
  expected: string;
  observed: string;
  span?: string | null;
  service?: string | null;
}

export interface StorySpec {
  name: string;
  selector: string;
  outcome: string;
  selected: number;
  assertions: { assertion: string; failed: number; failures: StoryFailure[] }[];
}

const COUNT = /^attr:(tracetest|qualitytrace)\.selected_spans\.count\b/;
const LONGEST = 80;

/** The first spec that failed, and what about it; none if no spec did. */
export function whatHappened(specs: readonly StorySpec[]): { spec: string; text: string } | undefined {
  const failed = specs.filter((spec) => spec.outcome === "failed");
  const [first] = failed;
  if (first === undefined) return undefined;
  const others = failed.length > 1 ? ` ${counted(failed.length - 1, "further spec")} failed, too.` : "";
  return { spec: first.name || first.selector, text: `${about(first)}.${others}` };
}

function about(spec: StorySpec): string {
  const assertion = spec.assertions.find((one) => one.failures.length > 0);
  const [failure] = assertion?.failures ?? [];
  if (assertion === undefined || failure === undefined)
    return spec.selected === 0 ? "no span matches its selector" : "it does not hold";
  const { expected, observed } = failure;
  if (COUNT.test(assertion.assertion))
    return spec.selected === 0
      ? `no span matches its selector, where the test expects ${shown(expected, LONGEST)}`
      : `${counted(spec.selected, "span")} selected, where the test expects ${shown(expected, LONGEST)}`;
  const left = /^\S+/.exec(assertion.assertion)?.[0].replace(/^attr:/, "") ?? "the value";
  const on = failure.span
    ? ` on ${shown(failure.span, LONGEST)}${failure.service ? ` of ${failure.service}` : ""}`
    : "";
  const more = assertion.failed > 1 ? `, and on ${counted(assertion.failed - 1, "more span")}` : "";
  const is = observed === "" ? "is not there" : `is ${shown(rounded(observed), LONGEST)}`;
  return `${left} ${is}${on}${more}, where the test expects ${shown(expected, LONGEST)}`;
}

/** A duration with three digits that count; other values as they are. */
function rounded(value: string): string {
  const found = /^(\d+\.\d{3,})(ns|µs|us|ms|s|m|h)$/.exec(value);
  return found === null ? value : `${Number(Number(found[1]).toPrecision(3))}${found[2]}`;
}

export interface StoryRun {
  run: number;
  outcome: string | null;
}

/** The first of the failed runs in a row that lead to this one, and the run before them that passed. */
export function sinceWhen<Run extends StoryRun>(
  newestFirst: readonly Run[],
  of: number,
): { first: Run | undefined; passed: Run | undefined } {
  let first: Run | undefined;
  for (const run of newestFirst.filter((one) => one.run <= of)) {
    if (run.outcome === "passed") return { first, passed: run };
    // A run that says nothing neither begins nor ends a row.
    if (run.outcome === "failed") first = run;
  }
  return { first, passed: undefined };
}

export interface StoryRow {
  change: string;
  name: string;
  service: string;
}

/** What is new, gone or slower in a trace, each with some names. */
export function whatChanged(
  summary: { added: number; removed: number; slower: number; changed: number },
  rows: readonly StoryRow[],
): string[] {
  const named = (change: string) => {
    const names = rows
      .filter((row) => row.change === change)
      .map((row) => `${shown(row.name, 40)}${row.service ? ` (${row.service})` : ""}`);
    const some = [...new Set(names)].slice(0, 3);
    return some.length === 0 ? "" : `: ${some.join(", ")}`;
  };
  const part = (count: number, word: string, change: string) =>
    count === 0 ? [] : [`${counted(count, "span")} ${word}${named(change)}`];
  return [
    ...part(summary.added, "new", "added"),
    ...part(summary.removed, "gone", "removed"),
    ...part(summary.slower, "slower", "slower"),
    ...part(summary.changed, "with other attributes", "changed"),
  ];
}
