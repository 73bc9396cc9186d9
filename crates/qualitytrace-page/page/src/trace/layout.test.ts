import { expect, test } from "vitest";
import type { ColumnsAnswer } from "./columns";
import { criticalPath, layout, visible } from "./layout";
import { sample, traceOf } from "./sample";

/** An answer with these spans: parent, start, duration. */
const answer = (spans: [number, number, number][], from = 0, more: Partial<ColumnsAnswer> = {}) =>
  sample(
    spans.map(([parent, start, duration]) => ({ parent, start, duration })),
    { from, ...more },
  );

function of(...answers: ColumnsAnswer[]) {
  const trace = traceOf(...answers);
  return { trace, tree: layout(trace) };
}

const all = (total: number) => ({ collapsed: new Uint8Array(total), focus: -1 });

test("rows are in the order of the tree, siblings by start", () => {
  const { tree } = of(
    answer([
      [2, 5, 1],
      [2, 3, 1],
      [-1, 0, 10],
      [1, 4, 1],
    ]),
  );
  expect([...tree.order]).toEqual([2, 1, 3, 0]);
  expect([...tree.depth]).toEqual([1, 1, 0, 2]);
  expect([...tree.size]).toEqual([1, 2, 4, 1]);
});

test("an orphan stands below a placeholder until its parent arrives", () => {
  const first = answer(
    [
      [-1, 0, 10],
      [-1, 2, 1],
    ],
    0,
    { orphans: [[1, "00000000000000ff"]] },
  );
  const { tree } = of(first);
  expect(tree.missing).toEqual(["00000000000000ff"]);
  expect([...tree.order]).toEqual([0, 2, 1]);
  const later = answer([[0, 1, 5]], 2, { adopted: [[1, 2]] });
  const { trace, tree: grown } = of(first, later);
  expect(grown.missing).toEqual([]);
  expect([...grown.order]).toEqual([0, 2, 1]);
  expect(trace.row("0000000000000002")).toBe(2);
});

test("a chain of 200,000 spans and a cycle are laid out", () => {
  const deep = of(answer(Array.from({ length: 200_000 }, (_, row) => [row - 1, row, 1])));
  expect(deep.tree.depth[199_999]).toBe(199_999);
  const { tree } = of(
    answer([
      [-1, 0, 1],
      [2, 1, 1],
      [1, 2, 1],
    ]),
  );
  expect([...tree.order].sort()).toEqual([0, 1, 2]);
});

test("collapsed subtrees, a focus and a filter leave rows out", () => {
  const { tree } = of(
    answer([
      [-1, 0, 9],
      [0, 1, 3],
      [1, 2, 1],
      [0, 5, 1],
    ]),
  );
  const shown = all(4);
  shown.collapsed[1] = 1;
  expect([...visible(tree, shown)]).toEqual([0, 1, 3]);
  expect([...visible(tree, { ...all(4), focus: 1 })]).toEqual([1, 2]);
  const only = new Uint8Array(4);
  only[2] = 1;
  expect([...visible(tree, { ...all(4), only })]).toEqual([0, 1, 2]);
});

test("the critical path goes from the end back to the beginning", () => {
  const { trace, tree } = of(
    answer([
      [-1, 0, 10],
      [0, 1, 3],
      [0, 2, 1],
      [0, 5, 4],
    ]),
  );
  expect([...criticalPath(trace, tree)]).toEqual([1, 1, 0, 1]);
});

test("zero, negative and no spans have an extent", () => {
  expect(of(answer([])).tree).toMatchObject({ from: 0, to: 1 });
  expect(of(answer([[-1, 5, 0]])).tree).toMatchObject({ from: 5, to: 6 });
  expect(of(answer([[-1, 5, -3]])).tree).toMatchObject({ from: 5, to: 6 });
});

test("an answer that leaves a gap is not taken", () => {
  const { trace } = of(answer([[-1, 0, 1]]), answer([[0, 0, 1]], 5));
  expect(trace.total).toBe(1);
});
