import { expect, test } from "vitest";
import { changes, quantile } from "./statistics";

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
