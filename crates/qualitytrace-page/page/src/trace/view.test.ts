import { expect, test } from "vitest";
import type { ColumnsAnswer } from "./columns";
import { sample, traceOf } from "./sample";
import { View } from "./view";

/** Spans as parent, start, duration and the number of a name. */
const answer = (spans: [number, number, number, number][], from = 0) =>
  sample(
    spans.map(([parent, start, duration, name]) => ({ parent, start, duration, name })),
    { from },
  );

const view = (...answers: ColumnsAnswer[]) => new View(traceOf(...answers));

const QUERIES = [1, 2, 3, 4, 5, 6].map((at): [number, number, number, number] => [0, at * 10, at, 1]);

test("equal siblings are one row with their count, which opens", () => {
  const seen = view(answer([[-1, 0, 100, 0], ...QUERIES, [0, 35, 5, 2]]));
  expect([...seen.rows]).toEqual([0, 8, 7]);
  const group = seen.group(8);
  expect(group?.members).toEqual([1, 2, 3, 4, 5, 6]);
  expect(group).toMatchObject({ shortest: 1, longest: 6, total: 21 });
  seen.setCollapsed(8, false);
  expect([...seen.rows]).toEqual([0, 8, 1, 2, 3, 4, 5, 6, 7]);
  seen.setCollapsed(8, true);
  // A span inside of it is shown when it is selected.
  seen.select(3);
  expect(seen.index[3]).toBeGreaterThan(0);
  seen.setGrouped(false);
  expect(seen.rows.length).toBe(8);
});

test("a selected span stays in sight when its siblings become a group, and a selected group stays selected", () => {
  const trace = traceOf(answer([[-1, 0, 100, 0], ...QUERIES.slice(0, 4)]));
  const seen = new View(trace);
  seen.select(2);
  expect(seen.rows.length).toBe(5);
  trace.take(answer([[0, 50, 5, 1]], 5));
  seen.sync();
  expect(seen.selected).toBe(2);
  expect(seen.index[2]).toBeGreaterThan(0);
  seen.select(6);
  trace.take(answer([[0, 60, 6, 1]], 6));
  seen.sync();
  expect(seen.group(seen.selected)?.members.length).toBe(6);
});

test("short spans are hidden, and what has something to say stays", () => {
  const seen = view(
    answer([
      [-1, 0, 100, 0],
      [0, 1, 2, 1],
      [0, 3, 50, 2],
      [1, 1, 1, 2],
    ]),
  );
  seen.setShortest(10);
  expect([...seen.rows]).toEqual([0, 2]);
  expect(seen.hidden).toBe(2);
  seen.setMarks([3]);
  expect([...seen.rows]).toEqual([0, 1, 3, 2]);
  seen.setShortest(0);
  expect(seen.rows.length).toBe(4);
});

test("only matches are shown one by one, also those of a group", () => {
  const seen = view(answer([[-1, 0, 100, 0], ...QUERIES]));
  seen.setMatches([2, 4], true);
  expect([...seen.rows]).toEqual([0, 7, 2, 4]);
});

test("a span that starts before its parent is told by how much, also inside of a group", () => {
  const seen = view(answer([[-1, 50, 100, 0], ...QUERIES]));
  expect(seen.ahead(1)).toBe(40);
  expect(seen.ahead(6)).toBe(0);
  expect(seen.ahead(0)).toBe(0);
});

test("a guilty member makes its group guilty", () => {
  const seen = view(answer([[-1, 0, 100, 0], ...QUERIES]));
  seen.setMarks([2]);
  expect(seen.isFailed(7)).toBe(true);
  expect(seen.isFailed(0)).toBe(false);
});
