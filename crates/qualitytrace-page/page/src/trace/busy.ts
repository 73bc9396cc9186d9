/** How many spans are open in each of so many equal parts of a trace's time. */
import type { Trace } from "./columns";
import type { Layout } from "./layout";

export interface Busy {
  open: Float64Array;
  /** 1 for each part in which a span with an error begins. */
  errors: Uint8Array;
  most: number;
}

export function busy(trace: Trace, tree: Layout, parts: number): Busy {
  const begins = new Float64Array(parts + 1);
  const errors = new Uint8Array(parts);
  const at = (moment: number) =>
    Math.max(0, Math.min(parts - 1, Math.floor(((moment - tree.from) / (tree.to - tree.from)) * parts)));
  for (let row = 0; row < trace.total; row += 1) {
    const first = at(trace.start[row]);
    const last = at(trace.start[row] + Math.max(0, trace.duration[row]));
    begins[first] += 1;
    begins[last + 1] -= 1;
    if (trace.isError(row)) errors[first] = 1;
  }
  const open = begins.subarray(0, parts);
  let most = 1;
  for (let part = 1; part < parts; part += 1) open[part] += open[part - 1];
  for (const one of open) most = Math.max(most, one);
  return { open, errors, most };
}
