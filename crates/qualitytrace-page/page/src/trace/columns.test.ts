import { expect, test } from "vitest";
import { sample, traceOf } from "./sample";

test("a span is found by its id, and not across the border of two", () => {
  const ids = ["00000000000000ab", "cd00000000000000", "abcd000000000000"];
  const trace = traceOf(sample([{}, {}, {}], { ids: ids.join("") }));
  expect(ids.map((id) => trace.row(id))).toEqual([0, 1, 2]);
  expect(trace.row("000000000000abcd")).toBe(-1);
  expect(trace.row("abcd")).toBe(-1);
  expect(trace.rowsOf([ids[2], "000000000000abcd", ids[0]])).toEqual([0, 2]);
});

test("rows that are sent again replace the ids that follow", () => {
  const trace = traceOf(sample([{}, {}]), sample([{}], { from: 1, ids: "00000000000000ff" }));
  expect(trace.row("0000000000000001")).toBe(-1);
  expect(trace.row("00000000000000ff")).toBe(1);
});
