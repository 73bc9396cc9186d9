/**
 * The tree of a trace: order, depth and size of subtrees, without recursion, so that no trace is too deep.
 *
 * A span whose parent has not arrived stands below a placeholder. Placeholders have the rows behind the last span, and
 * groups of equal siblings those behind the placeholders.
 */
import type { Trace } from "./columns";
import { type Group, groups as groupsOf } from "./groups";

export interface Layout {
  /** How many rows there are: spans, placeholders and groups. */
  total: number;
  /** How many of them are spans. */
  spans: number;
  /** Rows in the order of the tree. */
  order: Int32Array;
  /** The place of each row in `order`. */
  place: Int32Array;
  depth: Int32Array;
  /** How many rows the subtree of each row has, itself included. */
  size: Int32Array;
  /** The row above each row, -1 for none. */
  above: Int32Array;
  /** The ids of the missing parents, by placeholder. */
  missing: string[];
  /** Equal siblings, by row of their group. */
  groups: Group[];
  /** When the first span starts and the last one ends, in nanoseconds from the origin. */
  from: number;
  to: number;
}

export function layout(trace: Trace, isGrouped = false): Layout {
  const spans = trace.total;
  const missing = [...new Set(trace.orphans.values())];
  const placeholders = new Map(missing.map((id, index) => [id, spans + index]));
  const parents = new Int32Array(spans).fill(-1);
  for (let row = 0; row < spans; row += 1) {
    const parent = trace.parent[row];
    parents[row] = parent >= 0 && parent < spans && parent !== row ? parent : -1;
  }
  for (const [row, id] of trace.orphans) parents[row] = placeholders.get(id) ?? -1;
  const groups = isGrouped ? groupsOf(trace, parents) : [];
  const total = spans + missing.length + groups.length;
  const above = new Int32Array(total).fill(-1);
  above.set(parents);
  groups.forEach((group, index) => {
    const row = spans + missing.length + index;
    above[row] = group.parent;
    for (const member of group.members) above[member] = row;
  });
  const first = startsOf(trace, above, total);
  const byStart = sorted(first);
  const { children, offsets } = childrenOf(above, byStart);
  const order = new Int32Array(total);
  const place = new Int32Array(total).fill(-1);
  const depth = new Int32Array(total);
  const stack = new Int32Array(total);
  let placed = 0;
  const put = (root: number) => {
    let height = 0;
    stack[height++] = root;
    while (height > 0) {
      const row = stack[--height];
      if (place[row] >= 0) continue;
      place[row] = placed;
      order[placed++] = row;
      const parent = above[row];
      depth[row] = parent < 0 ? 0 : depth[parent] + 1;
      for (let at = offsets[row + 1] - 1; at >= offsets[row]; at -= 1) stack[height++] = children[at];
    }
  };
  for (const row of byStart) if (above[row] < 0) put(row);
  // What is left belongs to a cycle: its first row is drawn as a root.
  for (let row = 0; placed < total && row < total; row += 1) {
    if (place[row] >= 0) continue;
    above[row] = -1;
    put(row);
  }
  const size = new Int32Array(total).fill(1);
  for (let at = total - 1; at >= 0; at -= 1) {
    const row = order[at];
    if (above[row] >= 0) size[above[row]] += size[row];
  }
  return { total, spans, order, place, depth, size, above, missing, groups, ...extent(trace) };
}

/** The group that a row stands for. */
export function groupOf(tree: Layout, row: number): Group | undefined {
  return row < tree.spans ? undefined : tree.groups[row - tree.spans - tree.missing.length];
}

/** The row of the parent of a span, whether or not it stands in a group. */
export function parentOf(tree: Layout, row: number): number {
  const above = tree.above[row];
  return above >= tree.spans + tree.missing.length ? tree.above[above] : above;
}

/** The tree without groups: its children come by start. */
export function ungrouped(trace: Trace, tree: Layout): Layout {
  return tree.groups.length === 0 ? tree : layout(trace);
}

/** The start of each row; that of a placeholder or a group is the earliest of its children. */
function startsOf(trace: Trace, above: Int32Array, total: number): Float64Array {
  const first = new Float64Array(total).fill(Number.POSITIVE_INFINITY);
  first.set(trace.start.subarray(0, trace.total));
  for (let row = 0; row < trace.total; row += 1) {
    const parent = above[row];
    if (parent >= trace.total) first[parent] = Math.min(first[parent], first[row]);
  }
  return first;
}

/** The children of all rows, one after the other, each list by start. */
function childrenOf(above: Int32Array, byStart: Int32Array) {
  const total = above.length;
  const offsets = new Int32Array(total + 1);
  for (let row = 0; row < total; row += 1) if (above[row] >= 0) offsets[above[row] + 1] += 1;
  for (let row = 0; row < total; row += 1) offsets[row + 1] += offsets[row];
  const next = offsets.slice();
  const children = new Int32Array(offsets[total]);
  for (const row of byStart) if (above[row] >= 0) children[next[above[row]]++] = row;
  return { children, offsets };
}

/** All rows by start; rows that start together keep their order. */
function sorted(first: Float64Array): Int32Array {
  const rows = new Int32Array(first.length);
  let isSorted = true;
  for (let row = 0; row < first.length; row += 1) {
    rows[row] = row;
    if (row > 0 && first[row - 1] > first[row]) isSorted = false;
  }
  return isSorted ? rows : rows.sort((a, b) => first[a] - first[b] || a - b);
}

/** When the trace begins and ends. */
function extent(trace: Trace): { from: number; to: number } {
  let from = Number.POSITIVE_INFINITY;
  let to = Number.NEGATIVE_INFINITY;
  for (let row = 0; row < trace.total; row += 1) {
    const start = trace.start[row];
    const end = start + Math.max(0, trace.duration[row]);
    if (start < from) from = start;
    if (end > to) to = end;
  }
  if (to < from) return { from: 0, to: 1 };
  return { from, to: to === from ? from + 1 : to };
}

/** What decides which rows are shown. */
export interface Shown {
  /** 1 for each row whose subtree is hidden. */
  collapsed: Uint8Array;
  /** Only these rows and those above them, if given: 1 for each. */
  only?: Uint8Array;
  /** The root of what is shown; -1 for everything. */
  focus: number;
}

/** The rows that are shown, from top to bottom. */
export function visible(tree: Layout, shown: Shown): Int32Array {
  const rows = new Int32Array(tree.total);
  let count = 0;
  const begin = shown.focus >= 0 ? tree.place[shown.focus] : 0;
  const end = shown.focus >= 0 ? begin + tree.size[shown.focus] : tree.total;
  const wanted = shown.only === undefined ? undefined : withAncestors(tree, shown.only);
  for (let at = begin; at < end; ) {
    const row = tree.order[at];
    if (wanted !== undefined && wanted[row] === 0) {
      at += tree.size[row];
      continue;
    }
    rows[count++] = row;
    at += shown.collapsed[row] === 1 ? tree.size[row] : 1;
  }
  return rows.slice(0, count);
}

function withAncestors(tree: Layout, only: Uint8Array): Uint8Array {
  const wanted = new Uint8Array(tree.total);
  for (let at = tree.total - 1; at >= 0; at -= 1) {
    const row = tree.order[at];
    if (only[row] === 1) wanted[row] = 1;
    if (wanted[row] === 1 && tree.above[row] >= 0) wanted[tree.above[row]] = 1;
  }
  return wanted;
}

/** The rows that the end of the trace waited for: from the end backwards, the child that ended last. */
export function criticalPath(trace: Trace, tree: Layout): Uint8Array {
  const critical = new Uint8Array(tree.total);
  const end = (row: number) => trace.start[row] + trace.duration[row];
  let root = -1;
  for (let at = 0; at < tree.total; at += tree.size[tree.order[at]]) {
    const row = tree.order[at];
    if (row < tree.spans && (root < 0 || end(row) > end(root))) root = row;
  }
  if (root < 0) return critical;
  const stack: [number, number][] = [[root, end(root)]];
  while (stack.length > 0) {
    const [row, until] = stack.pop()!;
    critical[row] = 1;
    const children: number[] = [];
    const last = tree.place[row] + tree.size[row];
    for (let at = tree.place[row] + 1; at < last; ) {
      const child = tree.order[at];
      const group = groupOf(tree, child);
      if (group === undefined) children.push(child);
      else for (const member of group.members) children.push(member);
      at += tree.size[child];
    }
    children.sort((a, b) => end(b) - end(a));
    let open = until;
    for (const child of children) {
      if (end(child) > open || end(child) <= trace.start[row]) continue;
      stack.push([child, end(child)]);
      open = trace.start[child];
    }
  }
  return critical;
}
