import { expect, test } from "vitest";
import { busy } from "./busy";
import { layout } from "./layout";
import { sample, traceOf } from "./sample";

test("open spans are counted in each part of the time, up to its end", () => {
  const trace = traceOf(
    sample([
      { start: 0, duration: 100 },
      { parent: 0, start: 25, duration: 20, status: 2 },
      { parent: 0, start: 100, duration: -5 },
    ]),
  );
  const { open, errors, most } = busy(trace, layout(trace), 4);
  expect([...open]).toEqual([1, 2, 1, 2]);
  expect([...errors]).toEqual([0, 1, 0, 0]);
  expect(most).toBe(2);
});
