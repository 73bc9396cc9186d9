/** Siblings that do the same: one row for all of them, with their count. */
import type { Trace } from "./columns";

/** So many equal siblings become one row. */
export const FEWEST = 5;

/** Siblings of one name, service and kind. */
export interface Group {
  /** What it is recognised by when more spans have arrived. */
  key: string;
  /** The row above its members. */
  parent: number;
  members: number[];
  /** Whether one of them has an error. */
  hasError: boolean;
  /** Nanoseconds: the shortest, the middle and the longest of them, and all together. */
  shortest: number;
  median: number;
  longest: number;
  total: number;
}

/** Finds the groups among the children of each span; children of placeholders stay as they are. */
export function groups(trace: Trace, above: Int32Array): Group[] {
  const spans = trace.total;
  const children = new Int32Array(spans);
  for (let row = 0; row < spans; row += 1) {
    if (above[row] >= 0 && above[row] < spans) children[above[row]] += 1;
  }
  const services = trace.services.length;
  const kinds = 8;
  const operations = trace.names.length * services * kinds;
  const found = new Map<number, number[]>();
  for (let row = 0; row < spans; row += 1) {
    const parent = above[row];
    if (parent < 0 || parent >= spans || children[parent] < FEWEST) continue;
    const operation = (trace.name[row] * services + trace.service[row]) * kinds + trace.kind[row];
    const key = parent * operations + operation;
    const members = found.get(key);
    if (members === undefined) found.set(key, [row]);
    else members.push(row);
  }
  const large = [...found.values()].filter((members) => members.length >= FEWEST);
  return large.map((members) => group(trace, above[members[0]], members));
}

function group(trace: Trace, parent: number, members: number[]): Group {
  const [first] = members;
  const lengths = Float64Array.from(members, (row) => Math.max(0, trace.duration[row])).sort();
  return {
    key: `${parent} ${trace.service[first]} ${trace.kind[first]} ${trace.name[first]}`,
    parent,
    members,
    hasError: members.some((row) => trace.isError(row)),
    shortest: lengths[0],
    median: lengths[Math.floor(lengths.length / 2)],
    longest: lengths[lengths.length - 1],
    total: lengths.reduce((all, one) => all + one, 0),
  };
}
