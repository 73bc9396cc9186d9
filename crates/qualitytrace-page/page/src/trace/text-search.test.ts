import { expect, test } from "vitest";
import { sample, traceOf } from "./sample";
import { rowsWithText } from "./text-search";

test("names and services are searched, in any case", () => {
  const trace = traceOf(
    sample([{}, { name: 1 }, { name: 1, service: 1 }], {
      names: ["GET /cart", "charge"],
      services: ["shop", "Cart"],
    }),
  );
  expect(rowsWithText(trace, "cart")).toEqual([0, 2]);
  expect(rowsWithText(trace, "CHARGE")).toEqual([1, 2]);
  expect(rowsWithText(trace, "get ")).toEqual([0]);
  expect(rowsWithText(trace, "nothing")).toEqual([]);
  expect(rowsWithText(trace, " ")).toEqual([]);
});
