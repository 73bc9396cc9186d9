/**
 * The waterfall: a pool of real rows, and one canvas with the bars.
 *
 * Rows carry all texts, so that they can be read aloud, copied and found. Both are positioned in the same animation
 * frame. Only this module touches their elements; it asks a `View` what to show and tells it what the reader does.
 */
import { duration, shown } from "../text/format";
import { FLAG, KINDS } from "../trace/columns";
import { MARK, type View } from "../trace/view";
import { fitted, theme } from "./theme";
import { ticks } from "./ticks";

export const ROW = 24;
/** Browsers draw nothing below this height; taller lists scroll in proportion. */
const TALLEST = 15_000_000;
const BAR = 10;
const INDENT = 14;
/** Deeper rows are not indented further. */
const DEEPEST_INDENT = 24;

export interface Texts {
  /** What is said about a parent that is not here. */
  missing(id: string): string;
}

interface RowElements {
  row: HTMLDivElement;
  indent: HTMLSpanElement;
  toggle: HTMLSpanElement;
  mark: HTMLSpanElement;
  name: HTMLSpanElement;
  dot: HTMLElement;
  service: HTMLSpanElement;
  duration: HTMLSpanElement;
  /** What is in it now. */
  state: string;
}

export class Waterfall {
  onSelect: (row: number) => void = () => {};
  onOpen: (row: number) => void = () => {};
  onEscape: () => void = () => {};
  texts: Texts = { missing: (id) => `parent ${id.slice(0, 8)} is not here` };
  private readonly host: HTMLElement;
  private readonly grid: HTMLDivElement;
  private readonly space: HTMLDivElement;
  private readonly sheet: HTMLDivElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly ruler: HTMLDivElement;
  private readonly pool: RowElements[] = [];
  private readonly resizing: ResizeObserver;
  private view: View | undefined;
  private leave = () => {};
  private frame = 0;
  private anchor: { row: number; offset: number } | undefined;
  private shownRows: Int32Array | undefined;
  private wasSelected = -1;

  constructor(host: HTMLElement) {
    this.host = host;
    this.ruler = element("div", "wf-ruler", host);
    this.ruler.setAttribute("aria-hidden", "true");
    const body = element("div", "wf-body", host);
    this.grid = element("div", "wf-grid", body);
    this.grid.setAttribute("role", "treegrid");
    this.grid.setAttribute("aria-label", "Spans");
    this.grid.tabIndex = 0;
    this.space = element("div", "wf-space", this.grid);
    this.sheet = element("div", "wf-sheet", this.space);
    this.canvas = element("canvas", "wf-bars", body);
    this.canvas.dataset.testid = "bars";
    this.canvas.setAttribute("role", "img");
    this.grid.addEventListener("scroll", () => this.schedule(), { passive: true });
    this.grid.addEventListener("keydown", (event) => this.onKey(event));
    this.grid.addEventListener("click", (event) => this.onClick(event));
    this.grid.addEventListener("dblclick", () => this.zoomToSelected());
    this.grid.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    this.resizing = new ResizeObserver(() => this.schedule());
    this.resizing.observe(this.grid);
  }

  show(view: View): void {
    this.leave();
    this.view = view;
    this.leave = view.subscribe(() => this.schedule());
    this.schedule();
  }

  focus(): void {
    this.grid.focus({ preventScroll: true });
  }

  destroy(): void {
    this.leave();
    cancelAnimationFrame(this.frame);
    this.resizing.disconnect();
    this.host.replaceChildren();
  }

  schedule(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  /** Scrolls until a row is seen. */
  private reveal(row: number): void {
    const view = this.view;
    if (view === undefined || row < 0 || view.index[row] < 0) return;
    const top = view.index[row] * ROW;
    const height = this.grid.clientHeight;
    const at = this.scrolled();
    if (top < at) this.scrollTo(top - ROW);
    else if (top + ROW > at + height) this.scrollTo(top + 2 * ROW - height);
  }

  private scale(): number {
    const height = (this.view?.rows.length ?? 0) * ROW;
    return height > TALLEST ? (height - this.grid.clientHeight) / (TALLEST - this.grid.clientHeight) : 1;
  }

  private scrolled(): number {
    return this.grid.scrollTop * this.scale();
  }

  private scrollTo(top: number): void {
    this.grid.scrollTop = Math.max(0, top) / this.scale();
  }

  private draw(): void {
    const view = this.view;
    if (view === undefined) return;
    this.space.style.height = `${Math.min(view.rows.length * ROW, TALLEST)}px`;
    if (this.shownRows !== view.rows) this.keepPlace(view);
    if (this.wasSelected !== view.selected) {
      this.wasSelected = view.selected;
      this.reveal(view.selected);
    }
    const height = this.grid.clientHeight;
    const top = this.scrolled();
    this.sheet.style.height = `${height}px`;
    const first = Math.max(0, Math.floor(top / ROW));
    const last = Math.min(view.rows.length, Math.ceil((top + height) / ROW) + 1);
    this.grid.setAttribute("aria-rowcount", String(view.rows.length));
    this.drawRows(view, first, last, top);
    this.drawBars(view, first, last, top, height);
    const seen = view.rows[first];
    this.anchor = first === 0 || seen === undefined ? undefined : { row: seen, offset: top - first * ROW };
  }

  /** New rows above the first one that is seen do not move it. */
  private keepPlace(view: View): void {
    this.shownRows = view.rows;
    if (this.anchor === undefined) return;
    const index = view.index[this.anchor.row] ?? -1;
    if (index >= 0) this.scrollTo(index * ROW + this.anchor.offset);
  }

  private drawRows(view: View, first: number, last: number, top: number): void {
    const needed = Math.ceil(this.grid.clientHeight / ROW) + 3;
    while (this.pool.length < needed) this.pool.push(this.rowElements());
    const used = new Set<number>();
    for (let index = first; index < last; index += 1) {
      const slot = index % this.pool.length;
      used.add(slot);
      const elements = this.pool[slot];
      this.fill(view, elements, index);
      elements.row.style.transform = `translateY(${index * ROW - top}px)`;
      elements.row.hidden = false;
    }
    this.pool.forEach((elements, slot) => {
      if (!used.has(slot)) elements.row.hidden = true;
    });
    const index = view.selected >= 0 ? view.index[view.selected] : -1;
    const active = index >= first && index < last ? this.pool[index % this.pool.length].row.id : undefined;
    if (active === undefined) this.grid.removeAttribute("aria-activedescendant");
    else this.grid.setAttribute("aria-activedescendant", active);
  }

  private fill(view: View, elements: RowElements, index: number): void {
    const row = view.rows[index];
    const { trace, tree } = view;
    const isSelected = row === view.selected;
    const isOpen = view.hasChildren(row) ? !view.isCollapsed(row) : undefined;
    const mark = view.marks[row] ?? MARK.none;
    const isDim = view.matches !== undefined && view.matches[row] !== 1;
    const isPlaceholder = view.isPlaceholder(row);
    const length = isPlaceholder ? 0 : trace.duration[row];
    const name = isPlaceholder ? "" : trace.nameOf(row);
    const missing = isPlaceholder ? this.texts.missing(tree.missing[row - trace.total] ?? "") : "";
    const slot = isPlaceholder ? undefined : view.slots[trace.service[row]];
    const state = [
      row,
      index,
      isSelected,
      isOpen,
      mark,
      isDim,
      length,
      name,
      missing,
      tree.depth[row],
      tree.size[row],
      slot?.colour,
      trace.status[row],
      trace.flags[row],
    ].join("|");
    if (elements.state === state) return;
    elements.state = state;
    const { row: line } = elements;
    const service = isPlaceholder ? "" : trace.serviceOf(row);
    const isError = !isPlaceholder && trace.isError(row);
    line.className = `wf-row${isSelected ? " selected" : ""}${isDim ? " dim" : ""}${isPlaceholder ? " missing" : ""}`;
    line.dataset.row = String(row);
    line.setAttribute("aria-level", String(tree.depth[row] + 1));
    line.setAttribute("aria-rowindex", String(index + 1));
    line.setAttribute("aria-selected", String(isSelected));
    if (isOpen === undefined) line.removeAttribute("aria-expanded");
    else line.setAttribute("aria-expanded", String(isOpen));
    const facts = [shown(name, 200), shown(service, 100), duration(length)];
    if (isError) facts.push("error");
    if (mark === MARK.failed) facts.push("failed");
    line.setAttribute("aria-label", isPlaceholder ? missing : facts.join(", "));
    elements.indent.style.width = `${Math.min(tree.depth[row], DEEPEST_INDENT) * INDENT}px`;
    elements.toggle.textContent = isOpen === undefined ? "" : isOpen ? "▾" : "▸";
    elements.toggle.dataset.toggle = isOpen === undefined ? "" : String(row);
    elements.mark.className = mark === MARK.failed ? "wf-mark failed" : isError ? "wf-mark error" : "wf-mark";
    elements.mark.title =
      mark === MARK.failed ? "a failed assertion is about this span" : isError ? "error" : "";
    const hidden = isOpen === false ? `  + ${tree.size[row] - 1}` : "";
    elements.name.textContent = isPlaceholder ? missing : shown(name, 200) + hidden;
    elements.name.title = isPlaceholder ? missing : `${shown(name, 1000)} · ${KINDS[trace.kind[row]] ?? ""}`;
    elements.service.textContent = shown(service, 100);
    elements.dot.style.background = slot === undefined ? "transparent" : `var(--service-${slot.colour})`;
    elements.duration.textContent = isPlaceholder ? "" : duration(length);
  }

  private drawBars(view: View, first: number, last: number, top: number, height: number): void {
    const columns = this.columnsWidth();
    const width = Math.max(0, this.grid.clientWidth - columns - 12);
    this.canvas.style.left = `${columns}px`;
    const context = fitted(this.canvas, width, height);
    if (context === null) return;
    const { trace } = view;
    const colours = theme();
    const x = (moment: number) => ((moment - view.from) / (view.to - view.from)) * width;
    this.drawRuler(view, columns, width, context, height, x);
    for (let index = first; index < last; index += 1) {
      const row = view.rows[index];
      if (view.isPlaceholder(row)) continue;
      const slot = view.slots[trace.service[row]];
      const left = x(trace.start[row]);
      const right = x(trace.start[row] + Math.max(0, trace.duration[row]));
      if (right < 0 || left > width) continue;
      const from = Math.max(-2, left);
      const length = Math.max(2, Math.min(width + 2, right) - from);
      const y = Math.round(index * ROW - top + (ROW - BAR) / 2);
      context.globalAlpha = view.matches !== undefined && view.matches[row] !== 1 ? 0.28 : 1;
      context.fillStyle = slot.isHatched ? colours.hatched[slot.colour] : colours.services[slot.colour];
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
        context.fillStyle = colours.text1;
        context.fillRect(from + 1, y - 3, 2, 2);
      }
      if (view.marks[row] === MARK.failed) {
        context.strokeStyle = colours.failed;
        context.lineWidth = 1.5;
        context.strokeRect(from - 2.5, y - 2.5, length + 5, BAR + 5);
      }
    }
    context.globalAlpha = 1;
    const services = trace.services.length;
    this.canvas.setAttribute(
      "aria-label",
      `Times of ${view.rows.length} rows of ${services} services, ${duration(view.to - view.from)} in all`,
    );
  }

  private drawRuler(
    view: View,
    left: number,
    width: number,
    context: CanvasRenderingContext2D,
    height: number,
    x: (moment: number) => number,
  ): void {
    const moments = ticks(
      view.from - view.tree.from,
      view.to - view.tree.from,
      Math.max(1, Math.floor(width / 110)),
    );
    context.fillStyle = theme().line;
    const labels = moments.map((moment) => {
      const at = x(moment + view.tree.from);
      context.fillRect(Math.round(at), 0, 1, height);
      const label = document.createElement("span");
      label.textContent = moment === 0 ? "0" : duration(moment);
      label.style.left = `${left + at}px`;
      return label;
    });
    this.ruler.replaceChildren(...labels);
  }

  /** The width of the columns left of the bars. */
  private columnsWidth(): number {
    const [first] = this.pool;
    if (first === undefined) return 0;
    return first.duration.offsetLeft + first.duration.offsetWidth + 12;
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
    const indent = element("span", "wf-indent", name);
    const toggle = element("span", "wf-toggle", name);
    const mark = element("span", "wf-mark", name);
    const text = element("span", "wf-text", name);
    const service = cell("wf-service");
    const dot = element("i", "dot", service);
    const serviceText = element("span", "wf-text", service);
    const length = cell("wf-duration");
    return { row, indent, toggle, mark, name: text, dot, service: serviceText, duration: length, state: "" };
  }

  private onClick(event: MouseEvent): void {
    const target = event.target as HTMLElement;
    const row = Number(target.closest<HTMLElement>(".wf-row")?.dataset.row ?? -1);
    if (row < 0 || this.view === undefined) return;
    if (target.dataset.toggle) {
      this.view.setCollapsed(row, !this.view.isCollapsed(row));
      return;
    }
    this.view.select(row);
    this.onSelect(row);
  }

  private zoomToSelected(): void {
    const view = this.view;
    if (view === undefined || view.selected < 0 || view.isPlaceholder(view.selected)) return;
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
      view.zoomBy(event.deltaY > 0 ? 1.25 : 0.8, view.from + share * (view.to - view.from));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      view.pan((event.deltaX || event.deltaY) / 1000);
    }
  }

  private onKey(event: KeyboardEvent): void {
    const view = this.view;
    if (view === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.grid.clientHeight / ROW) - 1);
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
      e: () =>
        void view.next(
          (row) => !view.isPlaceholder(row) && (view.trace.isError(row) || view.marks[row] === MARK.failed),
        ),
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

function element<K extends keyof HTMLElementTagNameMap>(
  kind: K,
  className: string,
  parent: HTMLElement,
): HTMLElementTagNameMap[K] {
  const made = document.createElement(kind);
  made.className = className;
  parent.append(made);
  return made;
}
