/** Figures of many runs. */

/** The value that a share of the list is below. */
export function quantile(values: number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}

/** How often the outcome changed between passed and not passed, of all pairs of runs that follow each other. */
export function changes(outcomes: (string | null)[]): number {
  if (outcomes.length < 2) return 0;
  let changed = 0;
  for (let at = 1; at < outcomes.length; at += 1) {
    if ((outcomes[at] === "passed") !== (outcomes[at - 1] === "passed")) changed += 1;
  }
  return changed / (outcomes.length - 1);
}
