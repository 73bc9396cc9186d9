import { expect, test } from "vitest";
import { busy } from "./busy";
import { type ColumnsAnswer, Trace } from "./columns";
import { layout } from "./layout";

test("open spans are counted in each part of the time, up to its end", () => {
  const trace = new Trace();
  const spans = [
    { start: 0, duration: 100, status: 0 },
    { start: 25, duration: 20, status: 2 },
    { start: 100, duration: -5, status: 0 },
  ];
  const zeros = [0, 0, 0];
  trace.take({
    traceId: "t",
    revision: "1",
    from: 0,
    total: 3,
    origin: "0",
    names: ["n"],
    services: ["s"],
    ids: spans.map((_, index) => String(index).padStart(16, "0")).join(""),
    parent: [-1, 0, 0],
    orphans: [],
    adopted: [],
    name: zeros,
    service: zeros,
    kind: zeros,
    flags: zeros,
    status: spans.map(({ status }) => status),
    start: spans.map(({ start }) => start),
    duration: spans.map(({ duration }) => duration),
  } satisfies ColumnsAnswer);
  const { open, errors, most } = busy(trace, layout(trace), 4);
  expect([...open]).toEqual([1, 2, 1, 2]);
  expect([...errors]).toEqual([0, 1, 0, 0]);
  expect(most).toBe(2);
});
