import { expect, test } from "vitest";
import { changes, histogram, quantile } from "./statistics";

test("quantiles are values of the list", () => {
  expect(quantile([5, 1, 3], 0.5)).toBe(3);
  expect(quantile([5, 1, 3], 0.95)).toBe(5);
  expect(quantile([], 0.5)).toBe(0);
});

test("a test that passes and fails in turns changes with every run", () => {
  expect(changes(["passed", "failed", "passed", "failed"])).toBe(1);
  expect(changes(["failed", "failed", "broken"])).toBe(0);
  expect(changes(["passed"])).toBe(0);
});

test("durations fall into classes of 1, 2 and 5, without empty ones at the ends", () => {
  expect(histogram([])).toEqual([]);
  expect(histogram([150, 190, 900, 0])[0]).toEqual({ from: 1, to: 2, count: 1 });
  expect(histogram([150, 190, 900])).toEqual([
    { from: 100, to: 200, count: 2 },
    { from: 200, to: 500, count: 0 },
    { from: 500, to: 1000, count: 1 },
  ]);
  for (const value of [1, 2, 5, 10, 1e3, 1e9, 3e15]) {
    const [bin] = histogram([value]);
    expect(bin.from <= value && value < bin.to).toBe(true);
  }
});
