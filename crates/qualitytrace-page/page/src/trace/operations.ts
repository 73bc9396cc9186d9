/** Where the time of a trace went: spans summed by service and name. */
import type { Trace } from "./columns";
import { type Layout, ungrouped } from "./layout";

export interface Operation {
  name: string;
  service: string;
  serviceNumber: number;
  count: number;
  errors: number;
  /** Nanoseconds: all durations, and the parts in which no child ran. */
  total: number;
  own: number;
  median: number;
  longest: number;
  /** The span with the longest duration. */
  row: number;
}

/** The own time of each span: its duration without the time in which a child ran. */
export function ownTimes(trace: Trace, grouped: Layout): Float64Array {
  const tree = ungrouped(trace, grouped);
  const own = new Float64Array(trace.total);
  const covered = new Float64Array(tree.total);
  const until = new Float64Array(tree.total).fill(Number.NEGATIVE_INFINITY);
  // In the order of the tree, the children of a span come by start.
  for (let at = 0; at < tree.total; at += 1) {
    const row = tree.order[at];
    const above = tree.above[row];
    if (row >= trace.total || above < 0 || above >= trace.total) continue;
    const begin = Math.max(trace.start[row], trace.start[above], until[above]);
    const limit = trace.start[above] + Math.max(0, trace.duration[above]);
    const end = Math.min(trace.start[row] + Math.max(0, trace.duration[row]), limit);
    if (end > begin) covered[above] += end - begin;
    until[above] = Math.max(until[above], end);
  }
  for (let row = 0; row < trace.total; row += 1)
    own[row] = Math.max(0, Math.max(0, trace.duration[row]) - covered[row]);
  return own;
}

export function operations(trace: Trace, tree: Layout): Operation[] {
  const own = ownTimes(trace, tree);
  const groups = new Map<string, number[]>();
  for (let row = 0; row < trace.total; row += 1) {
    const key = `${trace.service[row]} ${trace.name[row]}`;
    const rows = groups.get(key);
    if (rows === undefined) groups.set(key, [row]);
    else rows.push(row);
  }
  const found = [...groups.values()].map((rows): Operation => {
    rows.sort((a, b) => trace.duration[a] - trace.duration[b]);
    const last = rows[rows.length - 1];
    const sum = (value: (row: number) => number) => rows.reduce((all, row) => all + value(row), 0);
    return {
      name: trace.nameOf(last),
      service: trace.serviceOf(last),
      serviceNumber: trace.service[last],
      count: rows.length,
      errors: sum((row) => (trace.isError(row) ? 1 : 0)),
      total: sum((row) => trace.duration[row]),
      own: sum((row) => own[row]),
      median: trace.duration[rows[Math.floor(rows.length / 2)]],
      longest: trace.duration[last],
      row: last,
    };
  });
  return found.sort((a, b) => b.own - a.own);
}
