import { expect, test } from "vitest";
import { ticks } from "./ticks";

test("ticks are round and not more than wanted", () => {
  expect(ticks(0, 180e6, 5)).toEqual([0, 50e6, 100e6, 150e6]);
  expect(ticks(-5, 5, 2)).toEqual([-5, 0, 5]);
  expect(ticks(7, 7, 5)).toEqual([]);
});
