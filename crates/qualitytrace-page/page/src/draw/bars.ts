/** The bars of the waterfall and the ruler above them, on a canvas. Texts are rows, and not here. */
import { duration } from "../text/format";
import { FLAG } from "../trace/columns";
import { MARK, type View } from "../trace/view";
import { type Theme, theme } from "./theme";
import { ticks } from "./ticks";

export const ROW = 24;
const BAR = 10;
/** Ticks of a span beyond this number are not drawn. */
const MOST_TICKS = 100;
/** The width of a label of the ruler; one that would be cut at the end is left out. */
const LABEL = 56;

interface Area {
  /** The rows from `first` on, up to `last`, where the first pixel of the list is at -`top`. */
  first: number;
  last: number;
  top: number;
  width: number;
  /** When the events of spans were, by span id. */
  times: ReadonlyMap<string, readonly number[]>;
}

/** Draws the bars of rows. Returns the spans whose events have no times yet. */
export function drawBars(
  context: CanvasRenderingContext2D,
  view: View,
  area: Area,
): { lacking: readonly number[] } {
  const { trace, axis } = view;
  const { first, last, top, width, times } = area;
  const colours = theme();
  const x = (moment: number) => axis.share(moment) * width;
  const lacking: number[] = [];
  for (let index = first; index < last; index += 1) {
    const row = view.rows[index];
    const y = Math.round(index * ROW - top + (ROW - BAR) / 2);
    const group = view.group(row);
    if (group !== undefined) {
      drawGroup(context, view, group.members, y, width, x, colours);
      continue;
    }
    if (!view.isSpan(row)) continue;
    const left = x(trace.start[row]);
    const right = x(trace.start[row] + Math.max(0, trace.duration[row]));
    if (right < 0 || left > width) continue;
    const from = Math.max(-2, left);
    const length = Math.max(2, Math.min(width + 2, right) - from);
    context.globalAlpha = view.matches !== undefined && view.matches[row] !== 1 ? 0.28 : 1;
    context.fillStyle = colourOf(view, row, colours);
    context.fillRect(from, y, length, BAR);
    if (view.critical?.[row] === 1) {
      context.fillStyle = colours.text1;
      context.fillRect(from, y + BAR + 2, length, 2);
    }
    if (trace.isError(row)) {
      context.fillStyle = colours.failed;
      context.fillRect(from + length, y - 2, 3, BAR + 4);
    }
    if ((trace.flags[row] & FLAG.events) !== 0) {
      const known = times.get(trace.id(row));
      if (known === undefined) lacking.push(row);
      context.fillStyle = colours.text1;
      for (const moment of (known ?? []).slice(0, MOST_TICKS)) {
        context.fillRect(Math.round(x(moment)) - 1, y - 3, 2, BAR + 6);
      }
    }
    const ahead = view.ahead(row);
    if (ahead > 0) drawAhead(context, left, x(trace.start[row] + ahead), y, colours);
    if (view.marks[row] === MARK.failed) outline(context, from, y, length, colours);
  }
  context.globalAlpha = 1;
  return { lacking };
}

function colourOf(view: View, row: number, colours: Theme): string | CanvasPattern {
  const slot = view.slots[view.trace.service[row]];
  return slot.isHatched ? colours.hatched[slot.colour] : colours.services[slot.colour];
}

function outline(
  context: CanvasRenderingContext2D,
  from: number,
  y: number,
  length: number,
  colours: Theme,
): void {
  context.strokeStyle = colours.failed;
  context.lineWidth = 1.5;
  context.strokeRect(from - 2.5, y - 2.5, length + 5, BAR + 5);
}

/** All members of a group in one row, of those that share a pixel one. */
function drawGroup(
  context: CanvasRenderingContext2D,
  view: View,
  members: readonly number[],
  y: number,
  width: number,
  x: (moment: number) => number,
  colours: Theme,
): void {
  const { trace } = view;
  context.fillStyle = colourOf(view, members[0], colours);
  let drawn = Number.NEGATIVE_INFINITY;
  let [first, last] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  let isFailed = false;
  context.globalAlpha = 0.75;
  for (const row of members) {
    const left = x(trace.start[row]);
    const right = x(trace.start[row] + Math.max(0, trace.duration[row]));
    first = Math.min(first, left);
    last = Math.max(last, right);
    isFailed ||= view.marks[row] === MARK.failed;
    if (right < 0 || left > width || right < drawn + 1) continue;
    const from = Math.max(-2, left, drawn);
    const length = Math.max(1.5, Math.min(width + 2, right) - from);
    context.fillRect(from, y + 1, length, BAR - 2);
    drawn = from + length;
  }
  context.globalAlpha = 1;
  const [from, to] = [Math.max(-2, first), Math.min(width + 2, last)];
  context.fillRect(from, y + BAR + 1, Math.max(2, to - from), 1);
  if (isFailed) outline(context, from, y, Math.max(2, to - from), colours);
}

/** A span that starts before its parent is where it was sent; a mark says how far ahead it is. */
function drawAhead(
  context: CanvasRenderingContext2D,
  left: number,
  parent: number,
  y: number,
  colours: Theme,
): void {
  context.fillStyle = colours.inconclusive;
  context.fillRect(left - 2, y - 3, 2, BAR + 6);
  for (let at = left; at < Math.min(parent, left + 4000); at += 6) context.fillRect(at, y - 3, 3, 1);
}

/** A text of the ruler. */
export interface Label {
  text: string;
  /** Pixels from the left. */
  left: number;
  className: string;
}

/** Draws the lines of round moments and the folded gap. Returns the labels of the ruler. */
export function drawRuler(
  context: CanvasRenderingContext2D,
  view: View,
  area: { left: number; width: number; height: number },
): Label[] {
  const { left, width, height } = area;
  const { axis, tree } = view;
  const colours = theme();
  const labels: Label[] = [];
  const label = (text: string, at: number, className = "") =>
    labels.push({ text, left: left + at, className });
  // The label of the gap stands in the way of labels before it.
  const [begin, end] = (axis.gap === undefined ? [] : [axis.gap.from, axis.gap.to]).map(
    (moment) => axis.share(moment) * width,
  );
  const isHidden = (at: number) => begin !== undefined && at > begin - LABEL && at < begin + LABEL;
  context.fillStyle = colours.line;
  for (const part of axis.parts()) {
    const most = Math.floor((width * part.share) / 110);
    for (const moment of ticks(part.from - tree.from, part.to - tree.from, Math.max(1, most))) {
      const at = axis.share(moment + tree.from) * width;
      context.fillRect(Math.round(at), 0, 1, height);
      if (most > 0 && at <= width - LABEL && !isHidden(at)) label(moment === 0 ? "0" : duration(moment), at);
    }
  }
  if (axis.gap !== undefined) {
    context.fillStyle = colours.surface2;
    context.fillRect(begin, 0, end - begin, height);
    context.fillStyle = colours.line;
    context.fillRect(begin, 0, 1, height);
    context.fillRect(end, 0, 1, height);
    label(duration(axis.gap.to - axis.gap.from), begin, "folded");
  }
  return labels;
}
