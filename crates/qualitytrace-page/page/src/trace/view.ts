/** What a reader sees of a trace: open and closed subtrees, selection, matches, zoom. No DOM, no React. */
import { Axis, type Gap, longGap } from "./axis";
import { Trace } from "./columns";
import type { Group } from "./groups";
import { criticalPath, groupOf, type Layout, layout, parentOf, visible } from "./layout";
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
  /** A time in which nothing happens that is most of the trace, and whether it is folded. */
  gap: Gap | undefined;
  isFolded = true;
  isGrouped = true;
  /** Spans that are shorter are not shown, unless they have an error or are guilty. Nanoseconds. */
  shortest = 0;
  /** How many spans that hides. */
  hidden = 0;
  private collapsed = new Uint8Array(0);
  /** The groups that the reader has opened. */
  private readonly opened = new Set<string>();
  private known: Axis | undefined;
  private readonly listeners = new Set<() => void>();

  constructor(trace: Trace) {
    this.trace = trace;
    // `sync` lays it out.
    this.tree = layout(new Trace());
    this.sync();
  }

  get from(): number {
    return this.zoom?.from ?? this.tree.from;
  }

  get to(): number {
    return this.zoom?.to ?? this.tree.to;
  }

  /** The axis of the part of time that is shown. */
  get axis(): Axis {
    const { from, to } = this;
    const gap = this.isFolded ? this.gap : undefined;
    if (this.known === undefined || this.known.from !== from || this.known.to !== to)
      this.known = new Axis(from, to, gap);
    return this.known;
  }

  /** Takes over what has arrived; nothing that the reader arranged changes. */
  sync(): void {
    const before = this.tree;
    const selected = this.identity(this.selected);
    const focus = this.identity(this.focus);
    this.tree = layout(this.trace, this.isGrouped);
    const { spans, missing, groups, total } = this.tree;
    const collapsed = new Uint8Array(total);
    collapsed.set(this.collapsed.subarray(0, Math.min(before.spans, spans)));
    this.selected = this.find(selected);
    this.focus = this.find(focus);
    // What the reader looks at stays in sight when its siblings become a group.
    const around = this.selected < 0 ? undefined : groupOf(this.tree, this.tree.above[this.selected]);
    if (around !== undefined) this.opened.add(around.key);
    groups.forEach((group, index) => {
      collapsed[spans + missing.length + index] = this.opened.has(group.key) ? 0 : 1;
    });
    this.collapsed = collapsed;
    this.slots = slots(this.trace.services);
    if (this.matches !== undefined && this.matches.length < total) {
      const longer = new Uint8Array(total);
      longer.set(this.matches.subarray(0, Math.min(this.matches.length, before.spans)));
      this.matches = longer;
    }
    this.gap = longGap(this.trace, this.tree);
    this.known = undefined;
    this.critical = this.isCriticalShown ? criticalPath(this.trace, this.tree) : undefined;
    this.arrange();
  }

  /** What a row is recognised by after spans have arrived. */
  private identity(row: number): number | string {
    if (row < this.tree.spans) return row;
    return groupOf(this.tree, row)?.key ?? this.tree.missing[row - this.tree.spans] ?? -1;
  }

  private find(identity: number | string): number {
    if (typeof identity === "number") return identity;
    const { spans, missing, groups } = this.tree;
    const group = groups.findIndex((one) => one.key === identity);
    if (group >= 0) return spans + missing.length + group;
    const placeholder = missing.indexOf(identity);
    return placeholder < 0 ? -1 : spans + placeholder;
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

  isSpan(row: number): boolean {
    return row >= 0 && row < this.tree.spans;
  }

  group(row: number): Group | undefined {
    return groupOf(this.tree, row);
  }

  /** How many nanoseconds before its parent a span starts; 0 for one that does not. Clocks of machines differ. */
  ahead(row: number): number {
    const parent = this.isSpan(row) ? parentOf(this.tree, row) : -1;
    if (!this.isSpan(parent)) return 0;
    return Math.max(0, this.trace.start[parent] - this.trace.start[row]);
  }

  select(row: number): void {
    this.selected = row;
    if (row >= 0) this.reveal(row);
    this.arrange();
  }

  /** Opens everything above a row. */
  private reveal(row: number): void {
    for (let above = this.tree.above[row]; above >= 0; above = this.tree.above[above])
      this.setOpen(above, true);
    if (this.focus >= 0 && !this.isBelow(row, this.focus)) this.focus = -1;
  }

  private setOpen(row: number, isOpen: boolean): void {
    this.collapsed[row] = isOpen ? 0 : 1;
    const group = this.group(row);
    if (group === undefined) return;
    if (isOpen) this.opened.add(group.key);
    else this.opened.delete(group.key);
  }

  private isBelow(row: number, root: number): boolean {
    const place = this.tree.place[row] - this.tree.place[root];
    return place >= 0 && place < this.tree.size[root];
  }

  setCollapsed(row: number, isCollapsed: boolean): void {
    this.setOpen(row, !(isCollapsed && this.hasChildren(row)));
    if (isCollapsed && this.selected >= 0 && this.isBelow(this.selected, row)) this.selected = row;
    this.arrange();
  }

  collapseAll(isCollapsed: boolean): void {
    for (let row = 0; row < this.tree.total; row += 1)
      this.setOpen(row, !(isCollapsed && this.hasChildren(row) && this.tree.depth[row] > 0));
    while (isCollapsed && this.selected >= 0 && this.tree.depth[this.selected] > 1) {
      this.selected = this.tree.above[this.selected];
    }
    this.arrange();
  }

  setFocus(row: number): void {
    this.focus = row;
    this.zoom = undefined;
    if (this.isSpan(row)) {
      const start = this.trace.start[row];
      this.zoom = { from: start, to: start + Math.max(1, this.trace.duration[row]) };
    }
    this.arrange();
  }

  setMatches(rows: readonly number[] | undefined, isOnly: boolean): void {
    this.matches = rows === undefined ? undefined : new Uint8Array(this.tree.total);
    for (const row of rows ?? []) if (row < this.tree.spans) this.matches![row] = 1;
    this.isOnlyMatches = isOnly;
    this.arrange();
  }

  /** Hides spans that are shorter than so many nanoseconds. */
  setShortest(shortest: number): void {
    if (this.shortest === shortest) return;
    this.shortest = shortest;
    this.arrange();
  }

  setGrouped(isGrouped: boolean): void {
    this.isGrouped = isGrouped;
    this.sync();
  }

  setFolded(isFolded: boolean): void {
    this.isFolded = isFolded;
    this.known = undefined;
    this.changed();
  }

  setMarks(failed: Iterable<number>, passed: Iterable<number> = []): void {
    this.marks = new Uint8Array(this.tree.total);
    for (const row of passed) if (row >= 0) this.marks[row] = MARK.passed;
    for (const row of failed) if (row >= 0) this.marks[row] = MARK.failed;
    if (this.shortest > 0) this.arrange();
    else this.changed();
  }

  /** Whether a row is guilty; a group is if one of its members is. */
  isFailed(row: number): boolean {
    if (this.marks[row] === MARK.failed) return true;
    return this.group(row)?.members.some((member) => this.marks[member] === MARK.failed) ?? false;
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
    const only = this.wanted();
    let { collapsed } = this;
    if (this.isOnlyMatches && this.tree.groups.length > 0) {
      // Matches inside of groups are shown one by one.
      collapsed = collapsed.slice();
      collapsed.fill(0, this.tree.spans + this.tree.missing.length);
    }
    this.rows = visible(this.tree, { collapsed, only, focus: this.focus });
    this.index = new Int32Array(this.tree.total).fill(-1);
    for (let at = 0; at < this.rows.length; at += 1) this.index[this.rows[at]] = at;
    this.changed();
  }

  /** The rows that may be shown: 1 for each; undefined for all. */
  private wanted(): Uint8Array | undefined {
    const only = this.isOnlyMatches ? this.matches : undefined;
    this.hidden = 0;
    if (this.shortest === 0) return only;
    const { trace, tree, shortest } = this;
    const wanted = new Uint8Array(tree.total);
    for (let row = 0; row < tree.spans; row += 1) {
      const isLong = trace.duration[row] >= shortest || trace.isError(row) || this.marks[row] === MARK.failed;
      if (!isLong) this.hidden += 1;
      if ((isLong || row === this.selected) && (only === undefined || only[row] === 1)) wanted[row] = 1;
    }
    return wanted;
  }

  private changed(): void {
    for (const listener of this.listeners) listener();
  }
}
