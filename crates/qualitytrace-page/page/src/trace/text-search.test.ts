import { expect, test } from "vitest";
import { type ColumnsAnswer, Trace } from "./columns";
import { rowsWithText } from "./text-search";

test("names and services are searched, in any case", () => {
  const trace = new Trace();
  const zeros = [0, 0, 0];
  trace.take({
    traceId: "t",
    revision: "1",
    from: 0,
    total: 3,
    origin: "0",
    names: ["GET /cart", "charge"],
    services: ["shop", "Cart"],
    ids: ["1", "2", "3"].map((id) => id.padStart(16, "0")).join(""),
    parent: [-1, 0, 0],
    orphans: [],
    adopted: [],
    name: [0, 1, 1],
    service: [0, 0, 1],
    kind: zeros,
    flags: zeros,
    status: zeros,
    start: zeros,
    duration: zeros,
  } satisfies ColumnsAnswer);
  expect(rowsWithText(trace, "cart")).toEqual([0, 2]);
  expect(rowsWithText(trace, "CHARGE")).toEqual([1, 2]);
  expect(rowsWithText(trace, "get ")).toEqual([0]);
  expect(rowsWithText(trace, "nothing")).toEqual([]);
  expect(rowsWithText(trace, " ")).toEqual([]);
});
