import { expect, test } from "vitest";
import { layout } from "./layout";
import { operations, ownTimes } from "./operations";
import { sample, traceOf } from "./sample";

/** Spans as parent, name, start, duration. */
function of(spans: [number, number, number, number][]) {
  const trace = traceOf(
    sample(
      spans.map(([parent, name, start, duration]) => ({ parent, name, start, duration })),
      { names: ["a", "b"] },
    ),
  );
  return { trace, tree: layout(trace) };
}

test("time of children that overlap is counted once, and none beyond the parent", () => {
  const { trace, tree } = of([
    [-1, 0, 0, 100],
    [0, 1, 10, 30],
    [0, 1, 20, 40],
    [0, 1, 90, 50],
  ]);
  expect([...ownTimes(trace, tree)]).toEqual([40, 30, 40, 50]);
});

test("spans are summed by service and name, the most expensive first", () => {
  const { trace, tree } = of([
    [-1, 0, 0, 100],
    [0, 1, 10, 30],
    [0, 1, 50, 40],
  ]);
  const found = operations(trace, tree).map(({ name, count, total, own, longest, row }) => ({
    name,
    count,
    total,
    own,
    longest,
    row,
  }));
  expect(found).toEqual([
    { name: "b", count: 2, total: 70, own: 70, longest: 40, row: 2 },
    { name: "a", count: 1, total: 100, own: 30, longest: 100, row: 0 },
  ]);
});
