/** What a reader sees of a trace: open and closed subtrees, selection, matches, zoom. No DOM, no React. */
import type { Trace } from "./columns";
import { criticalPath, type Layout, layout, visible } from "./layout";
import { type Slot, slots } from "./palette";

/** How a span stands in the verdict. */
export const MARK = { none: 0, passed: 1, failed: 2 } as const;

/** The smallest part of a trace that the zoom shows, in nanoseconds. */
const SMALLEST = 10;

export class View {
  readonly trace: Trace;
  tree: Layout;
  slots: Slot[] = [];
  /** The rows that are shown, from top to bottom, and the place of each row among them, or -1. */
  rows: Int32Array = new Int32Array(0);
  index = new Int32Array(0);
  selected = -1;
  focus = -1;
  isOnlyMatches = false;
  isCriticalShown = false;
  critical: Uint8Array | undefined;
  matches: Uint8Array | undefined;
  marks: Uint8Array = new Uint8Array(0);
  /** The part of time that is shown; undefined for all of it. */
  zoom: { from: number; to: number } | undefined;
  private collapsed = new Uint8Array(0);
  private readonly listeners = new Set<() => void>();

  constructor(trace: Trace) {
    this.trace = trace;
    this.tree = layout(trace);
    this.sync();
  }

  get from(): number {
    return this.zoom?.from ?? this.tree.from;
  }

  get to(): number {
    return this.zoom?.to ?? this.tree.to;
  }

  /** Takes over what has arrived; nothing that the reader arranged changes. */
  sync(): void {
    const placeholders = this.tree.total - this.tree.missing.length;
    this.tree = layout(this.trace);
    const collapsed = new Uint8Array(this.tree.total);
    collapsed.set(this.collapsed.subarray(0, Math.min(placeholders, this.tree.total)));
    this.collapsed = collapsed;
    this.slots = slots(this.trace.services);
    if (this.matches !== undefined && this.matches.length < this.tree.total) {
      const longer = new Uint8Array(this.tree.total);
      longer.set(this.matches.subarray(0, Math.min(this.matches.length, longer.length)));
      this.matches = longer;
    }
    this.critical = this.isCriticalShown ? criticalPath(this.trace, this.tree) : undefined;
    this.arrange();
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  isCollapsed(row: number): boolean {
    return this.collapsed[row] === 1;
  }

  hasChildren(row: number): boolean {
    return this.tree.size[row] > 1;
  }

  isPlaceholder(row: number): boolean {
    return row >= this.trace.total;
  }

  select(row: number): void {
    this.selected = row;
    if (row >= 0) this.reveal(row);
    this.arrange();
  }

  /** Opens everything above a row. */
  private reveal(row: number): void {
    for (let above = this.tree.above[row]; above >= 0; above = this.tree.above[above])
      this.collapsed[above] = 0;
    if (this.focus >= 0 && !this.isBelow(row, this.focus)) this.focus = -1;
  }

  private isBelow(row: number, root: number): boolean {
    const place = this.tree.place[row] - this.tree.place[root];
    return place >= 0 && place < this.tree.size[root];
  }

  setCollapsed(row: number, isCollapsed: boolean): void {
    this.collapsed[row] = isCollapsed && this.hasChildren(row) ? 1 : 0;
    if (isCollapsed && this.selected >= 0 && this.isBelow(this.selected, row)) this.selected = row;
    this.arrange();
  }

  collapseAll(isCollapsed: boolean): void {
    for (let row = 0; row < this.tree.total; row += 1) {
      this.collapsed[row] = isCollapsed && this.hasChildren(row) && this.tree.depth[row] > 0 ? 1 : 0;
    }
    while (isCollapsed && this.selected >= 0 && this.tree.depth[this.selected] > 1) {
      this.selected = this.tree.above[this.selected];
    }
    this.arrange();
  }

  setFocus(row: number): void {
    this.focus = row;
    this.zoom = undefined;
    if (row >= 0 && row < this.trace.total) {
      const start = this.trace.start[row];
      this.zoom = { from: start, to: start + Math.max(1, this.trace.duration[row]) };
    }
    this.arrange();
  }

  setMatches(rows: readonly number[] | undefined, isOnly: boolean): void {
    this.matches = rows === undefined ? undefined : new Uint8Array(this.tree.total);
    for (const row of rows ?? []) if (row < this.tree.total) this.matches![row] = 1;
    this.isOnlyMatches = isOnly;
    this.arrange();
  }

  setMarks(failed: Iterable<number>, passed: Iterable<number> = []): void {
    this.marks = new Uint8Array(this.tree.total);
    for (const row of passed) if (row >= 0) this.marks[row] = MARK.passed;
    for (const row of failed) if (row >= 0) this.marks[row] = MARK.failed;
    this.changed();
  }

  showCritical(isShown: boolean): void {
    this.isCriticalShown = isShown;
    this.critical = isShown ? criticalPath(this.trace, this.tree) : undefined;
    this.changed();
  }

  setZoom(from: number, to: number): void {
    const width = Math.max(SMALLEST, to - from);
    const begin = Math.max(this.tree.from, Math.min(from, this.tree.to - width));
    const end = Math.min(this.tree.to, begin + width);
    const isAll = begin <= this.tree.from && end >= this.tree.to;
    this.zoom = isAll ? undefined : { from: begin, to: end };
    this.changed();
  }

  /** Zooms by a factor around a moment. */
  zoomBy(factor: number, around = (this.from + this.to) / 2): void {
    this.setZoom(around - (around - this.from) * factor, around + (this.to - around) * factor);
  }

  pan(share: number): void {
    const width = this.to - this.from;
    const from = Math.max(this.tree.from, Math.min(this.from + share * width, this.tree.to - width));
    this.setZoom(from, from + width);
  }

  /** The selected row after a move by so many rows. */
  move(by: number): void {
    if (this.rows.length === 0) return;
    const at = this.selected < 0 ? (by > 0 ? -1 : this.rows.length) : this.index[this.selected];
    this.select(this.rows[Math.max(0, Math.min(this.rows.length - 1, at + by))]);
  }

  /** Closes the selected subtree, or goes to the row above. */
  out(): void {
    const row = this.selected;
    if (row < 0) return;
    if (this.hasChildren(row) && !this.isCollapsed(row)) this.setCollapsed(row, true);
    else if (this.tree.above[row] >= 0) this.select(this.tree.above[row]);
  }

  /** Opens the selected subtree, or goes to its first row. */
  into(): void {
    const row = this.selected;
    if (row < 0 || !this.hasChildren(row)) return;
    if (this.isCollapsed(row)) this.setCollapsed(row, false);
    else this.move(1);
  }

  /** Goes to the next row in the order of the tree for which this holds, and around the end. */
  next(isWanted: (row: number) => boolean, step: 1 | -1 = 1): boolean {
    const total = this.tree.total;
    const at = this.selected < 0 ? (step > 0 ? -1 : 0) : this.tree.place[this.selected];
    for (let count = 1; count <= total; count += 1) {
      const row = this.tree.order[(at + step * count + total * 2) % total];
      if (!isWanted(row)) continue;
      this.select(row);
      return true;
    }
    return false;
  }

  private arrange(): void {
    const only = this.isOnlyMatches ? this.matches : undefined;
    this.rows = visible(this.tree, { collapsed: this.collapsed, only, focus: this.focus });
    this.index = new Int32Array(this.tree.total).fill(-1);
    for (let at = 0; at < this.rows.length; at += 1) this.index[this.rows[at]] = at;
    this.changed();
  }

  private changed(): void {
    for (const listener of this.listeners) listener();
  }
}
