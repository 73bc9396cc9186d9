/** The flame view: every span as a bar with its name, children below their parents. */
import { duration, shown } from "../text/format";
import { lanes } from "../trace/lanes";
import type { Layout } from "../trace/layout";
import { MARK, type View } from "../trace/view";
import { Drawing, element, picture } from "./drawing";
import { fitted, theme } from "./theme";

const HEIGHT = 18;
const GAP = 1;
const PADDING = 8;

export class Flame extends Drawing {
  onSelect: (row: number) => void = () => {};
  private readonly canvas: HTMLCanvasElement;
  private readonly space: HTMLDivElement;
  private known: { tree: Layout; lane: Int32Array; count: number } | undefined;

  constructor(host: HTMLElement) {
    super(host);
    this.space = element("div", "", host);
    this.canvas = picture("flame", "flame-canvas", this.space);
    host.addEventListener("scroll", () => this.schedule(), { passive: true });
    this.canvas.addEventListener("click", (event) => {
      const row = this.at(event);
      if (row < 0) return;
      this.view?.select(row);
      this.onSelect(row);
    });
    this.canvas.addEventListener("dblclick", (event) => {
      const row = this.at(event);
      if (row < 0 || this.view === undefined) return;
      const { start, duration: lengths } = this.view.trace;
      this.view.setZoom(start[row], start[row] + Math.max(1, lengths[row]));
    });
    this.canvas.addEventListener("mousemove", (event) => {
      const row = this.at(event);
      const { trace } = this.view ?? {};
      this.canvas.title =
        row < 0 || trace === undefined
          ? ""
          : `${shown(trace.nameOf(row), 200)} · ${shown(trace.serviceOf(row), 100)} · ${duration(trace.duration[row])}`;
    });
    this.canvas.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        const { view } = this;
        view?.zoomBy(
          event.deltaY > 0 ? 1.25 : 0.8,
          view.axis.moment(event.offsetX / this.canvas.clientWidth),
        );
      },
      { passive: false },
    );
    this.watchSize(host);
  }

  private layout(view: View): { lane: Int32Array; count: number } {
    if (this.known?.tree !== view.tree) this.known = { tree: view.tree, ...lanes(view.trace, view.tree) };
    return this.known;
  }

  protected draw(view: View): void {
    const { lane, count } = this.layout(view);
    const { clientWidth: width, clientHeight: height, scrollTop: top } = this.host;
    this.space.style.height = `${Math.max(height, count * (HEIGHT + GAP) + 2 * PADDING)}px`;
    const context = fitted(this.canvas, width, height);
    if (context === null) return;
    const { trace } = view;
    const colours = theme();
    context.font = `500 11px ${getComputedStyle(this.host).fontFamily}`;
    context.textBaseline = "middle";
    const { axis } = view;
    const x = (moment: number) => PADDING + axis.share(moment) * (width - 2 * PADDING);
    // Of bars that share a pixel, one is drawn.
    const drawn = new Map<number, number>();
    for (let row = 0; row < trace.total; row += 1) {
      const y = PADDING + lane[row] * (HEIGHT + GAP) - top;
      if (y + HEIGHT < 0 || y > height) continue;
      const left = x(trace.start[row]);
      const right = x(trace.start[row] + Math.max(0, trace.duration[row]));
      if (right < 0 || left > width) continue;
      const from = Math.max(0, left);
      const length = Math.max(1, Math.min(width, right) - from);
      if (length <= 1 && drawn.get(lane[row]) === Math.floor(from)) continue;
      drawn.set(lane[row], Math.floor(from));
      const slot = view.slots[trace.service[row]];
      const isDim = view.matches !== undefined && view.matches[row] !== 1;
      context.globalAlpha = isDim ? 0.25 : 1;
      context.fillStyle = slot.isHatched ? colours.hatched[slot.colour] : colours.services[slot.colour];
      context.fillRect(from, y, Math.max(1, length - (length > 4 ? 1 : 0)), HEIGHT);
      if (trace.isError(row) || view.marks[row] === MARK.failed) {
        context.fillStyle = colours.failed;
        context.fillRect(from, y, Math.min(3, length), HEIGHT);
      }
      if (row === view.selected) {
        context.strokeStyle = colours.text1;
        context.lineWidth = 2;
        context.strokeRect(from + 1, y + 1, Math.max(2, length - 2), HEIGHT - 2);
      }
      if (length > 28) {
        context.save();
        context.beginPath();
        context.rect(from, y, length - 4, HEIGHT);
        context.clip();
        context.fillStyle = colours.labels[slot.colour];
        context.fillText(shown(trace.nameOf(row), 120), from + 6, y + HEIGHT / 2 + 1);
        context.restore();
      }
    }
    context.globalAlpha = 1;
    this.canvas.setAttribute(
      "aria-label",
      `${trace.total} spans in ${count} lanes, ${duration(view.to - view.from)} in all`,
    );
  }

  private at(event: MouseEvent): number {
    const view = this.view;
    if (view === undefined) return -1;
    const { lane } = this.layout(view);
    const wanted = Math.floor((event.offsetY + this.host.scrollTop - PADDING) / (HEIGHT + GAP));
    const share = (pixel: number) => (pixel - PADDING) / (this.host.clientWidth - 2 * PADDING);
    const [from, to] = [
      view.axis.moment(share(event.offsetX - 2)),
      view.axis.moment(share(event.offsetX + 2)),
    ];
    const { trace } = view;
    for (let row = 0; row < trace.total; row += 1) {
      if (lane[row] !== wanted) continue;
      if (to >= trace.start[row] && from <= trace.start[row] + trace.duration[row]) return row;
    }
    return -1;
  }
}
