/** A graph in layers, from left to right: each node right of those that lead to it. No DOM. */
import type { Trace } from "./columns";
import { type Layout, parentOf } from "./layout";
import { type Operation, operations } from "./operations";

export interface Edge {
  from: number;
  to: number;
  count: number;
}

export interface Placed {
  /** The layer of each node, and its place in it from the top; both count from 0. */
  layer: number[];
  place: number[];
  layers: number;
  /** The most nodes in one layer. */
  most: number;
}

/** How often the order in the layers is improved. */
const SWEEPS = 7;

/** Places nodes: edges lead from left to right, except for those that close a circle. */
export function place(nodes: number, edges: readonly Edge[]): Placed {
  const out = lists(nodes, edges, "from", "to");
  const layer = layers(nodes, edges, out);
  const count = Math.max(0, ...layer) + (nodes > 0 ? 1 : 0);
  const rows: number[][] = Array.from({ length: count }, () => []);
  for (let node = 0; node < nodes; node += 1) rows[layer[node]].push(node);
  const into = lists(nodes, edges, "to", "from");
  const at = new Array<number>(nodes).fill(0);
  const number = (row: number[]) => {
    for (const [index, node] of row.entries()) at[node] = index - (row.length - 1) / 2;
  };
  rows.forEach(number);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    // From left to right by those before, then back by those behind; each layer knows where the last one went.
    const neighbours = sweep % 2 === 0 ? into : out;
    for (const row of sweep % 2 === 0 ? rows : rows.toReversed()) {
      const wanted = new Map(row.map((node) => [node, mean(neighbours[node], at) ?? at[node]]));
      row.sort((a, b) => (wanted.get(a) ?? 0) - (wanted.get(b) ?? 0) || a - b);
      number(row);
    }
  }
  const places = new Array<number>(nodes).fill(0);
  for (const row of rows) for (const [index, node] of row.entries()) places[node] = index;
  return { layer, place: places, layers: count, most: Math.max(0, ...rows.map((row) => row.length)) };
}

/** The space between two layers of nodes that are so wide: what there is room for, but not less or more than these. */
export function space(room: number, layers: number, wide: number, least: number, most: number): number {
  const left = (room - layers * wide) / Math.max(1, layers - 1);
  return Math.floor(Math.min(most, Math.max(least, left)));
}

function mean(nodes: number[], at: number[]): number | undefined {
  return nodes.length === 0 ? undefined : nodes.reduce((all, one) => all + at[one], 0) / nodes.length;
}

function lists(nodes: number, edges: readonly Edge[], by: "from" | "to", to: "from" | "to"): number[][] {
  const found: number[][] = Array.from({ length: nodes }, () => []);
  for (const edge of edges) if (edge.from !== edge.to) found[edge[by]].push(edge[to]);
  return found;
}

/** The length of the longest way to each node, without the edges that close a circle. */
function layers(nodes: number, edges: readonly Edge[], out: number[][]): number[] {
  const order: number[] = [];
  // 1 while the nodes behind it are visited, 2 afterwards.
  const state = new Uint8Array(nodes);
  const targets = new Set(edges.filter((edge) => edge.from !== edge.to).map((edge) => edge.to));
  const roots = Array.from({ length: nodes }, (_, node) => node);
  roots.sort((a, b) => Number(targets.has(a)) - Number(targets.has(b)) || a - b);
  const closing = new Set<string>();
  for (const root of roots) {
    if (state[root] !== 0) continue;
    const stack: { node: number; next: number }[] = [{ node: root, next: 0 }];
    state[root] = 1;
    while (stack.length > 0) {
      const top = stack[stack.length - 1];
      const to = out[top.node][top.next];
      top.next += 1;
      if (to === undefined) {
        state[top.node] = 2;
        order.push(top.node);
        stack.pop();
      } else if (state[to] === 0) {
        state[to] = 1;
        stack.push({ node: to, next: 0 });
      } else if (state[to] === 1) closing.add(`${top.node} ${to}`);
    }
  }
  const layer = new Array<number>(nodes).fill(0);
  for (const node of order.reverse()) {
    for (const to of out[node])
      if (!closing.has(`${node} ${to}`)) layer[to] = Math.max(layer[to], layer[node] + 1);
  }
  return layer;
}

/** The most operations that a graph shows: those with the longest own time. */
const MOST = 200;

export interface Summed {
  nodes: Operation[];
  edges: Edge[];
  /** How many operations are left out. */
  left: number;
}

/** The spans of a trace summed by service and operation, and which of them call which. */
export function summed(trace: Trace, tree: Layout): Summed {
  const all = operations(trace, tree);
  const nodes = all.slice(0, MOST);
  const key = (row: number) => trace.service[row] * trace.names.length + trace.name[row];
  const numbers = new Map(nodes.map((node, index) => [key(node.row), index]));
  const node = (row: number) => numbers.get(key(row)) ?? -1;
  const known = new Map<number, Edge>();
  for (let row = 0; row < trace.total; row += 1) {
    const parent = parentOf(tree, row);
    if (parent < 0 || parent >= trace.total) continue;
    const [from, to] = [node(parent), node(row)];
    if (from < 0 || to < 0) continue;
    const edge = known.get(from * MOST + to);
    if (edge === undefined) known.set(from * MOST + to, { from, to, count: 1 });
    else edge.count += 1;
  }
  return { nodes, edges: [...known.values()], left: all.length - nodes.length };
}
