import { expect, test } from "vitest";
import { Axis, longGap } from "./axis";
import { layout } from "./layout";
import { sample, traceOf } from "./sample";

/** A root and its children: start, duration. */
const trace = (spans: [number, number][]) =>
  traceOf(
    sample(spans.map(([start, duration], row) => ({ parent: row === 0 ? undefined : 0, start, duration }))),
  );

test("the longest time in which no span is open is found if it is most of the trace", () => {
  const long = trace([
    [0, 300],
    [100, 100],
    [9_000, 500],
  ]);
  expect(longGap(long, layout(long))).toEqual({ from: 300, to: 9_000 });
  const busy = trace([
    [0, 1000],
    [300, 100],
    [600, 100],
  ]);
  expect(longGap(busy, layout(busy))).toBeUndefined();
  const alone = trace([[0, 10]]);
  expect(longGap(alone, layout(alone))).toBeUndefined();
  // The own time of a span is no gap, whether it works or waits.
  for (const child of [9_000, 200]) {
    const open = trace([
      [0, 10_000],
      [100, child],
    ]);
    expect(longGap(open, layout(open))).toBeUndefined();
  }
});

test("a folded axis is to scale on both sides of the gap, and shares lead back to moments", () => {
  const axis = new Axis(0, 10_000, { from: 300, to: 9_000 });
  const before = axis.share(200) - axis.share(100);
  const after = axis.share(9_600) - axis.share(9_500);
  expect(after).toBeCloseTo(before, 9);
  expect(axis.share(9_000) - axis.share(300)).toBeCloseTo(0.05, 9);
  for (const moment of [0, 150, 300, 4_000, 9_000, 9_999, 10_000])
    expect(axis.moment(axis.share(moment))).toBeCloseTo(moment, 6);
  let last = -1;
  for (let moment = 0; moment <= 10_000; moment += 50) {
    expect(axis.share(moment)).toBeGreaterThan(last);
    last = axis.share(moment);
  }
  expect(last).toBeCloseTo(1, 9);
});

test("a view of the gap alone, or beside it, is drawn to scale", () => {
  expect(new Axis(1_000, 8_000, { from: 300, to: 9_000 }).gap).toBeUndefined();
  expect(new Axis(0, 200, { from: 300, to: 9_000 }).share(100)).toBe(0.5);
});
