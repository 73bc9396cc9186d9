/** Where a moment is on the axis of time. A long time in which no span is open takes little of it. */
import type { Trace } from "./columns";
import type { Layout } from "./layout";

export interface Gap {
  from: number;
  to: number;
}

/** A gap of this share of a trace can be folded. */
const LONG = 0.5;
/** The share of the axis that a folded gap takes. */
const FOLDED = 0.05;
/** How finely gaps are looked for. */
const PARTS = 2048;

/**
 * The longest time in which no span is open, if it is most of the trace: between a request and work that came much later.
 * The time of a span is never folded, not even where it does nothing: that may be just what is wrong with it.
 */
export function longGap(trace: Trace, tree: Layout): Gap | undefined {
  const { from, to } = tree;
  const width = to - from;
  if (trace.total < 2 || !(width > 0)) return undefined;
  const first = new Float64Array(PARTS).fill(Number.POSITIVE_INFINITY);
  const last = new Float64Array(PARTS).fill(Number.NEGATIVE_INFINITY);
  const running = new Int32Array(PARTS + 1);
  const part = (moment: number) =>
    Math.min(PARTS - 1, Math.max(0, Math.floor(((moment - from) / width) * PARTS)));
  const put = (moment: number) => {
    const at = part(moment);
    if (moment < first[at]) first[at] = moment;
    if (moment > last[at]) last[at] = moment;
  };
  for (let row = 0; row < trace.total; row += 1) {
    const end = trace.start[row] + Math.max(0, trace.duration[row]);
    put(trace.start[row]);
    put(end);
    running[part(trace.start[row])] += 1;
    running[part(end)] -= 1;
  }
  let longest: Gap | undefined;
  let before = from;
  let open = 0;
  for (let at = 0; at < PARTS; at += 1) {
    if (last[at] >= first[at]) {
      const size = first[at] - before;
      if (open === 0 && size > width * LONG) longest = { from: before, to: first[at] };
      before = last[at];
    }
    open += running[at];
  }
  return longest;
}

/** The axis of a part of time, with one gap folded if it is given and inside. */
export class Axis {
  readonly from: number;
  readonly to: number;
  readonly gap: Gap | undefined;
  /** The shares at which the gap begins and ends. */
  private readonly begin: number = 0;
  private readonly end: number = 0;

  constructor(from: number, to: number, gap?: Gap) {
    this.from = from;
    this.to = to;
    if (gap === undefined) return;
    const folded = { from: Math.max(from, gap.from), to: Math.min(to, gap.to) };
    const size = folded.to - folded.from;
    const rest = to - from - size;
    // A view that shows little but the gap shows it as it is.
    if (!(size > (to - from) * LONG) || !(rest > 0)) return;
    this.gap = folded;
    this.begin = ((folded.from - from) / rest) * (1 - FOLDED);
    this.end = this.begin + FOLDED;
  }

  /** From 0 to 1 for moments that are shown. */
  share(moment: number): number {
    const { from, to, gap } = this;
    if (gap === undefined) return (moment - from) / (to - from);
    if (moment <= gap.from)
      return gap.from === from
        ? (moment - from) / (to - from)
        : ((moment - from) / (gap.from - from)) * this.begin;
    if (moment >= gap.to) {
      if (gap.to === to) return 1 + (moment - to) / (to - from);
      return this.end + ((moment - gap.to) / (to - gap.to)) * (1 - this.end);
    }
    return this.begin + ((moment - gap.from) / (gap.to - gap.from)) * FOLDED;
  }

  /** The moment at a share. */
  moment(share: number): number {
    const { from, to, gap } = this;
    if (gap === undefined) return from + share * (to - from);
    if (share <= this.begin) return this.begin === 0 ? from : from + (share / this.begin) * (gap.from - from);
    if (share >= this.end)
      return this.end === 1 ? to : gap.to + ((share - this.end) / (1 - this.end)) * (to - gap.to);
    return gap.from + ((share - this.begin) / FOLDED) * (gap.to - gap.from);
  }

  /** The parts of time that are drawn to scale, each with its share of the axis. */
  parts(): { from: number; to: number; share: number }[] {
    const { from, to, gap } = this;
    if (gap === undefined) return [{ from, to, share: 1 }];
    return [
      { from, to: gap.from, share: this.begin },
      { from: gap.to, to, share: 1 - this.end },
    ].filter((part) => part.to > part.from);
  }
}
