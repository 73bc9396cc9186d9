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

export interface Bin {
  from: number;
  to: number;
  count: number;
}

/** Values in classes whose bounds grow by a factor, as durations are compared: 1, 2, 5, 10. */
export function histogram(values: readonly number[]): Bin[] {
  const positive = values.map((value) => Math.max(1, value));
  if (positive.length === 0) return [];
  const [least, most] = positive.reduce(
    ([a, b], one) => [Math.min(a, one), Math.max(b, one)],
    [Number.POSITIVE_INFINITY, 0],
  );
  const bounds: number[] = [];
  for (let power = Math.floor(Math.log10(least)); power <= Math.ceil(Math.log10(most)) + 1; power += 1)
    for (const digit of [1, 2, 5]) bounds.push(digit * 10 ** power);
  const bins = bounds.slice(0, -1).map((from, at): Bin => ({ from, to: bounds[at + 1], count: 0 }));
  for (const value of positive) bins.find((bin) => value >= bin.from && value < bin.to)!.count += 1;
  const first = bins.findIndex((bin) => bin.count > 0);
  const last = bins.findLastIndex((bin) => bin.count > 0);
  return bins.slice(first, last + 1);
}
