/**
 * The waterfall: a pool of real rows, and one canvas with the bars.
 *
 * Rows carry all texts, so that they can be read aloud, copied and found. Both are positioned in the same animation
 * frame. Only this module touches their elements; it asks a `View` what to show and tells it what the reader does.
 */
import { count, duration, shown } from "../text/format";
import { FLAG, KINDS } from "../trace/columns";
import type { View } from "../trace/view";
import { drawBars, drawRuler, type Label, ROW } from "./bars";
import { attribute, Drawing, element, picture } from "./drawing";
import { fitted } from "./theme";

/** Browsers draw nothing below this height; taller lists scroll in proportion. */
const TALLEST = 15_000_000;
const INDENT = 14;
/** Deeper rows are not indented further. */
const DEEPEST_INDENT = 24;

export interface Texts {
  /** What is said about a parent that is not here. */
  missing(id: string): string;
}

interface RowElements {
  row: HTMLDivElement;
  cell: HTMLSpanElement;
  toggle: HTMLSpanElement;
  mark: HTMLSpanElement;
  name: HTMLSpanElement;
  notes: HTMLSpanElement;
  dot: HTMLElement;
  service: HTMLSpanElement;
  duration: HTMLSpanElement;
  /** What is in it now. */
  state: string;
}

export class Waterfall extends Drawing {
  onSelect: (row: number) => void = () => {};
  /** Told the row under a button of the mouse that goes down: it is selected when that comes up. */
  onPress: (row: number) => void = () => {};
  onOpen: (row: number) => void = () => {};
  onEscape: () => void = () => {};
  /** Told which spans in sight have events whose times are not known. */
  onEvents: (rows: readonly number[]) => void = () => {};
  /** When the events of spans were, in nanoseconds from the origin, by span id. */
  eventTimes: ReadonlyMap<string, readonly number[]> = new Map();
  texts: Texts = { missing: (id) => `parent ${id.slice(0, 8)} is not here` };
  private readonly grid: HTMLDivElement;
  private readonly space: HTMLDivElement;
  private readonly sheet: HTMLDivElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly ruler: HTMLDivElement;
  private readonly pool: RowElements[] = [];
  private anchor: { row: number; offset: number } | undefined;
  private shownRows: Int32Array | undefined;
  private wasSelected = -1;
  private shownLabels = "";
  /** Sizes in pixels. To ask the browser for them in every frame makes it lay out the rows in every frame. */
  private sizes: { width: number; height: number } | undefined;
  private columns: number | undefined;

  constructor(host: HTMLElement) {
    super(host);
    this.ruler = element("div", "wf-ruler", host);
    this.ruler.setAttribute("aria-hidden", "true");
    const body = element("div", "wf-body", host);
    this.grid = element("div", "wf-grid", body);
    this.grid.setAttribute("role", "treegrid");
    this.grid.setAttribute("aria-label", "Spans");
    this.grid.tabIndex = 0;
    this.space = element("div", "wf-space", this.grid);
    this.sheet = element("div", "wf-sheet", this.space);
    this.canvas = picture("bars", "wf-bars", body);
    this.grid.addEventListener("scroll", () => this.schedule(), { passive: true });
    this.grid.addEventListener("keydown", (event) => this.onKey(event));
    this.grid.addEventListener("pointerdown", (event) => this.onPress(rowAt(event)));
    this.grid.addEventListener("click", (event) => this.onClick(event));
    this.grid.addEventListener("dblclick", () => this.zoomToSelected());
    this.grid.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    this.watchSize(this.grid);
  }

  protected resized(): void {
    this.sizes = undefined;
    this.columns = undefined;
  }

  private get size(): { width: number; height: number } {
    this.sizes ??= { width: this.grid.clientWidth, height: this.grid.clientHeight };
    return this.sizes;
  }

  focus(): void {
    this.grid.focus({ preventScroll: true });
  }

  /** Scrolls until a row is seen. */
  private reveal(row: number): void {
    const view = this.view;
    if (view === undefined || row < 0 || view.index[row] < 0) return;
    const top = view.index[row] * ROW;
    const height = this.size.height;
    const at = this.scrolled();
    if (top < at) this.scrollTo(top - ROW);
    else if (top + ROW > at + height) this.scrollTo(top + 2 * ROW - height);
  }

  private scale(): number {
    const height = (this.view?.rows.length ?? 0) * ROW;
    return height > TALLEST ? (height - this.size.height) / (TALLEST - this.size.height) : 1;
  }

  private scrolled(): number {
    return this.grid.scrollTop * this.scale();
  }

  private scrollTo(top: number): void {
    this.grid.scrollTop = Math.max(0, top) / this.scale();
  }

  protected draw(view: View): void {
    this.space.style.height = `${Math.min(view.rows.length * ROW, TALLEST)}px`;
    if (this.shownRows !== view.rows) this.keepPlace(view);
    if (this.wasSelected !== view.selected) {
      this.wasSelected = view.selected;
      this.reveal(view.selected);
    }
    const height = this.size.height;
    const top = this.scrolled();
    this.sheet.style.height = `${height}px`;
    const first = Math.max(0, Math.floor(top / ROW));
    const last = Math.min(view.rows.length, Math.ceil((top + height) / ROW) + 1);
    attribute(this.grid, "aria-rowcount", String(view.rows.length));
    this.drawRows(view, first, last, top);
    this.drawTimes(view, first, last, top, height);
    // Spans keep their rows when more arrive; placeholders and groups do not.
    let seen = first;
    while (seen < last && !view.isSpan(view.rows[seen])) seen += 1;
    this.anchor =
      first === 0 || seen >= last ? undefined : { row: view.rows[seen], offset: top - seen * ROW };
  }

  /** New rows above the first one that is seen do not move it. */
  private keepPlace(view: View): void {
    this.shownRows = view.rows;
    if (this.anchor === undefined) return;
    const index = view.index[this.anchor.row] ?? -1;
    if (index >= 0) this.scrollTo(index * ROW + this.anchor.offset);
  }

  private drawRows(view: View, first: number, last: number, top: number): void {
    const needed = Math.ceil(this.size.height / ROW) + 3;
    while (this.pool.length < needed) this.pool.push(this.rowElements());
    const size = this.pool.length;
    const start = first - (first % size);
    for (let slot = 0; slot < size; slot += 1) {
      const index = start + slot + (start + slot < first ? size : 0);
      const { row } = this.pool[slot];
      const isShown = index < last;
      if (row.hidden === isShown) row.hidden = !isShown;
      if (!isShown) continue;
      this.fill(view, this.pool[slot], index);
      // Rows that are moved by a transform are not painted again.
      row.style.transform = `translateY(${index * ROW - top}px)`;
    }
    const index = view.selected >= 0 ? view.index[view.selected] : -1;
    const active = index >= first && index < last ? this.pool[index % size].row.id : undefined;
    if (active === undefined) this.grid.removeAttribute("aria-activedescendant");
    else attribute(this.grid, "aria-activedescendant", active);
  }

  private fill(view: View, elements: RowElements, index: number): void {
    const row = view.rows[index];
    const { trace, tree } = view;
    const isSelected = row === view.selected;
    const isOpen = view.hasChildren(row) ? !view.isCollapsed(row) : undefined;
    const group = view.group(row);
    const sample = group === undefined ? row : group.members[0];
    const isMissing = !view.isSpan(sample);
    const isFailed = view.isFailed(row);
    const isDim = view.matches !== undefined && !isMatch(view, row);
    const ahead = view.ahead(row);
    const length = isMissing ? 0 : (group?.total ?? trace.duration[row]);
    const name = isMissing ? "" : trace.nameOf(sample);
    const missing = isMissing ? this.texts.missing(tree.missing[row - tree.spans] ?? "") : "";
    const slot = isMissing ? undefined : view.slots[trace.service[sample]];
    const state = [
      row,
      index,
      isSelected,
      isOpen,
      isFailed,
      isDim,
      length,
      name,
      missing,
      tree.depth[row],
      tree.size[row],
      slot?.colour,
      trace.status[row],
      trace.flags[row],
      ahead,
    ].join("|");
    if (elements.state === state) return;
    elements.state = state;
    const { row: line } = elements;
    const service = isMissing ? "" : trace.serviceOf(sample);
    const isError = group?.hasError ?? (!isMissing && trace.isError(row));
    const links = !isMissing && group === undefined && (trace.flags[row] & FLAG.links) !== 0;
    const title =
      group === undefined ? shown(name, 200) : `${shown(name, 200)} × ${count(group.members.length)}`;
    line.className = `wf-row${isSelected ? " selected" : ""}${isDim ? " dim" : ""}${isMissing ? " missing" : ""}${group === undefined ? "" : " group"}`;
    line.dataset.row = String(row);
    line.setAttribute("aria-level", String(tree.depth[row] + 1));
    line.setAttribute("aria-rowindex", String(index + 1));
    line.setAttribute("aria-selected", String(isSelected));
    if (isOpen === undefined) line.removeAttribute("aria-expanded");
    else line.setAttribute("aria-expanded", String(isOpen));
    const facts = [title, shown(service, 100), duration(length)];
    if (ahead > 0) facts.push("starts before its parent");
    if (isError) facts.push("error");
    if (isFailed) facts.push("failed");
    line.setAttribute("aria-label", isMissing ? missing : facts.join(", "));
    elements.cell.style.paddingLeft = `${Math.min(tree.depth[row], DEEPEST_INDENT) * INDENT}px`;
    elements.toggle.textContent = isOpen === undefined ? "" : isOpen ? "▾" : "▸";
    elements.toggle.dataset.toggle = isOpen === undefined ? "" : String(row);
    elements.mark.className = isFailed ? "wf-mark failed" : isError ? "wf-mark error" : "wf-mark";
    elements.mark.title = isFailed ? "a failed assertion is about this span" : isError ? "error" : "";
    const hidden = isOpen === false && group === undefined ? `  + ${tree.size[row] - 1}` : "";
    elements.name.textContent = isMissing ? missing : title + hidden;
    elements.name.title = isMissing ? missing : `${shown(name, 1000)} · ${this.about(view, row, sample)}`;
    elements.notes.textContent = `${ahead > 0 ? "⇤" : ""}${links ? "↗" : ""}`;
    const early = `starts ${duration(ahead)} before its parent: the clocks of their machines may differ; it is drawn as it was sent`;
    elements.notes.title = [ahead > 0 ? early : "", links ? "links to other spans" : ""]
      .filter(Boolean)
      .join("; ");
    elements.service.textContent = shown(service, 100);
    elements.dot.style.background = slot === undefined ? "transparent" : `var(--service-${slot.colour})`;
    elements.duration.textContent = isMissing ? "" : duration(length);
  }

  /** What is known of a row beside its name. */
  private about(view: View, row: number, sample: number): string {
    const kind = KINDS[view.trace.kind[sample]] ?? "";
    const group = view.group(row);
    if (group === undefined) return kind;
    const { shortest, median, longest, total, members } = group;
    return `${kind} · ${count(members.length)} equal spans, ${duration(shortest)} to ${duration(longest)}, median ${duration(median)}, ${duration(total)} together`;
  }

  private drawTimes(view: View, first: number, last: number, top: number, height: number): void {
    const columns = this.columnsWidth();
    const width = Math.max(0, this.size.width - columns - 12);
    this.canvas.style.left = `${columns}px`;
    const context = fitted(this.canvas, width, height);
    if (context === null) return;
    this.setLabels(drawRuler(context, view, { left: columns, width, height }));
    const { lacking } = drawBars(context, view, { first, last, top, width, times: this.eventTimes });
    this.onEvents(lacking);
    const { services } = view.trace;
    attribute(
      this.canvas,
      "aria-label",
      `Times of ${view.rows.length} rows of ${services.length} services, ${duration(view.to - view.from)} in all`,
    );
  }

  private setLabels(labels: readonly Label[]): void {
    const shownNow = JSON.stringify(labels);
    if (shownNow === this.shownLabels) return;
    this.shownLabels = shownNow;
    this.ruler.replaceChildren();
    for (const { text, left, className } of labels) {
      const made = element("span", className, this.ruler);
      made.textContent = text;
      made.style.left = `${left}px`;
      if (className !== "folded") continue;
      made.title = "No span is open here; click to draw it to scale";
      made.addEventListener("click", () => this.view?.setFolded(false));
    }
  }

  /** The width of the columns left of the bars. */
  private columnsWidth(): number {
    const [first] = this.pool;
    if (first === undefined) return 0;
    this.columns ??= first.duration.offsetLeft + first.duration.offsetWidth + 12;
    return this.columns;
  }

  private rowElements(): RowElements {
    const row = element("div", "wf-row", this.sheet);
    row.setAttribute("role", "row");
    row.id = `span-row-${this.pool.length}`;
    const cell = (className: string) => {
      const one = element("span", className, row);
      one.setAttribute("role", "gridcell");
      return one;
    };
    const name = cell("wf-name");
    const toggle = element("span", "wf-toggle", name);
    const mark = element("span", "wf-mark", name);
    const text = element("span", "wf-text", name);
    const notes = element("span", "wf-notes", name);
    const service = cell("wf-service");
    const dot = element("i", "dot", service);
    const serviceText = element("span", "wf-text", service);
    const length = cell("wf-duration");
    return {
      row,
      cell: name,
      toggle,
      mark,
      name: text,
      notes,
      dot,
      service: serviceText,
      duration: length,
      state: "",
    };
  }

  private onClick(event: MouseEvent): void {
    const row = rowAt(event);
    if (row < 0 || this.view === undefined) return;
    if ((event.target as HTMLElement).dataset.toggle) {
      this.view.setCollapsed(row, !this.view.isCollapsed(row));
      return;
    }
    this.view.select(row);
    this.onSelect(row);
  }

  private zoomToSelected(): void {
    const view = this.view;
    if (view === undefined || !view.isSpan(view.selected)) return;
    const start = view.trace.start[view.selected];
    const length = Math.max(1, view.trace.duration[view.selected]);
    view.setZoom(start - length * 0.05, start + length * 1.05);
  }

  private onWheel(event: WheelEvent): void {
    const view = this.view;
    if (view === undefined) return;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      const bars = this.canvas.getBoundingClientRect();
      const share = Math.max(0, Math.min(1, (event.clientX - bars.left) / bars.width));
      view.zoomBy(event.deltaY > 0 ? 1.25 : 0.8, view.axis.moment(share));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      view.pan((event.deltaX || event.deltaY) / 1000);
    }
  }

  private onKey(event: KeyboardEvent): void {
    const view = this.view;
    if (view === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.size.height / ROW) - 1);
    const moves: Record<string, () => void> = {
      j: () => view.move(1),
      ArrowDown: () => view.move(1),
      k: () => view.move(-1),
      ArrowUp: () => view.move(-1),
      h: () => view.out(),
      ArrowLeft: () => view.out(),
      l: () => view.into(),
      ArrowRight: () => view.into(),
      PageDown: () => view.move(page),
      PageUp: () => view.move(-page),
      Home: () => view.move(-view.rows.length),
      End: () => view.move(view.rows.length),
      "+": () => view.zoomBy(0.7),
      "=": () => view.zoomBy(0.7),
      "-": () => view.zoomBy(1.4),
      "0": () => view.setZoom(view.tree.from, view.tree.to),
      f: () => view.setFocus(view.focus === view.selected ? -1 : view.selected),
      z: () => this.zoomToSelected(),
      e: () => void view.next((row) => view.isSpan(row) && (view.trace.isError(row) || view.isFailed(row))),
      Enter: () => this.onOpen(view.selected),
      Escape: () => this.onEscape(),
    };
    const act = moves[event.key];
    if (act === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const before = view.selected;
    act();
    if (view.selected !== before) this.onSelect(view.selected);
  }
}

/** The row that something happened at, or -1. */
function rowAt(event: Event): number {
  return Number((event.target as HTMLElement).closest<HTMLElement>(".wf-row")?.dataset.row ?? -1);
}

/** Whether a row was searched for; a group is if one of its members was. */
function isMatch(view: View, row: number): boolean {
  if (view.matches?.[row] === 1) return true;
  return view.group(row)?.members.some((member) => view.matches?.[member] === 1) ?? false;
}
