import { expect, test } from "vitest";
import { type Edge, place, space } from "./graph";

const edges = (...pairs: [number, number][]): Edge[] => pairs.map(([from, to]) => ({ from, to, count: 1 }));

test("nodes stand right of all that lead to them", () => {
  const { layer, layers, most } = place(5, edges([0, 1], [1, 2], [0, 2], [0, 3], [3, 4]));
  expect(layer).toEqual([0, 1, 2, 1, 2]);
  expect(layers).toBe(3);
  expect(most).toBe(2);
});

test("circles, loops and lone nodes are placed", () => {
  const { layer } = place(4, edges([0, 1], [1, 2], [2, 0], [1, 1]));
  expect(layer).toEqual([0, 1, 2, 0]);
  expect(place(0, [])).toMatchObject({ layers: 0, most: 0 });
});

test("children stand at the height of their parents, so that edges do not cross", () => {
  const { place: at } = place(6, edges([0, 5], [1, 4], [2, 3]));
  const order = (nodes: number[]) => [...nodes].sort((a, b) => at[a] - at[b]);
  expect(order([5, 4, 3])).toEqual(order([0, 1, 2]).map((node) => 5 - node));
});

test("layers come closer where there is little room, but not too close", () => {
  expect(space(2000, 5, 208, 36, 72)).toBe(72);
  expect(space(1192, 5, 208, 36, 72)).toBe(38);
  expect(space(300, 5, 208, 36, 72)).toBe(36);
  expect(space(0, 1, 208, 36, 72)).toBe(36);
});

test("a deep chain does not overflow", () => {
  const chain = Array.from({ length: 20_000 }, (_, at): [number, number] => [at, at + 1]);
  expect(place(20_001, edges(...chain)).layers).toBe(20_001);
});
