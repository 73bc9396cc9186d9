/** Lanes of a flame view: a span below its parent, and no two spans that run together in one lane. */
import type { Trace } from "./columns";
import { type Layout, ungrouped } from "./layout";

/** Spans that find no lane are drawn in the last one. */
const MOST = 2000;

export function lanes(trace: Trace, grouped: Layout): { lane: Int32Array; count: number } {
  const tree = ungrouped(trace, grouped);
  const lane = new Int32Array(tree.total);
  const busy: number[] = [];
  for (let at = 0; at < tree.total; at += 1) {
    const row = tree.order[at];
    if (row >= trace.total) {
      lane[row] = -1;
      continue;
    }
    const above = tree.above[row];
    let next = above < 0 ? 0 : lane[above] + 1;
    while (next < MOST - 1 && (busy[next] ?? Number.NEGATIVE_INFINITY) > trace.start[row]) next += 1;
    lane[row] = next;
    busy[next] = trace.start[row] + Math.max(0, trace.duration[row]);
  }
  return { lane, count: busy.length };
}
