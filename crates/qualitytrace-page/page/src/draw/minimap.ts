/** The minimap: how many spans are open at each moment, and a brush for the part that is shown. */
import { duration } from "../text/format";
import { type Busy, busy } from "../trace/busy";
import type { Layout } from "../trace/layout";
import type { View } from "../trace/view";
import { Drawing, element, picture } from "./drawing";
import { fitted, theme } from "./theme";

export class Minimap extends Drawing {
  private readonly canvas: HTMLCanvasElement;
  private readonly brush: HTMLDivElement;
  private readonly handles: HTMLDivElement[];
  /** A zoom moves the brush and not the spans: they are counted once. */
  private known: ({ tree: Layout } & Busy) | undefined;

  constructor(host: HTMLElement) {
    super(host);
    this.canvas = picture("minimap", "", host);
    this.brush = element("div", "mm-brush", host);
    this.handles = ["Zoom start", "Zoom end"].map((name, index) => this.handle(name, index));
    this.canvas.addEventListener("pointerdown", (event) => this.onDrag(event));
    this.canvas.addEventListener("dblclick", () =>
      this.view?.setZoom(this.view.tree.from, this.view.tree.to),
    );
    this.watchSize(host);
  }

  protected draw(view: View): void {
    const { clientWidth: width, clientHeight: height } = this.host;
    const context = fitted(this.canvas, width, height);
    if (context === null || width === 0) return;
    const { trace, tree } = view;
    const colours = theme();
    const columns = Math.max(1, Math.floor(width));
    if (this.known?.tree !== tree || this.known.open.length !== columns)
      this.known = { tree, ...busy(trace, tree, columns) };
    const { open, errors, most } = this.known;
    context.fillStyle = colours.text3;
    for (let column = 0; column < columns; column += 1) {
      const tall = (Math.sqrt(open[column]) / Math.sqrt(most)) * (height - 6);
      context.globalAlpha = 0.55;
      context.fillRect(column, height - tall, 1, tall);
      if (errors[column] === 1) {
        context.globalAlpha = 1;
        context.fillStyle = colours.failed;
        context.fillRect(column, 0, 2, 4);
        context.fillStyle = colours.text3;
      }
    }
    context.globalAlpha = 1;
    this.canvas.setAttribute("aria-label", `${trace.total} spans in ${duration(tree.to - tree.from)}`);
    const share = (moment: number) => (moment - tree.from) / (tree.to - tree.from);
    const [from, to] = [share(view.from), share(view.to)];
    this.brush.hidden = view.zoom === undefined;
    this.brush.style.left = `${from * 100}%`;
    this.brush.style.width = `${(to - from) * 100}%`;
    [from, to].forEach((one, index) => {
      const handle = this.handles[index];
      handle.style.left = `${one * 100}%`;
      handle.setAttribute("aria-valuenow", String(Math.round(one * 1000) / 10));
      handle.setAttribute("aria-valuetext", duration(one * (tree.to - tree.from)));
    });
  }

  private handle(name: string, index: number): HTMLDivElement {
    const handle = element("div", "mm-handle", this.host);
    handle.tabIndex = 0;
    handle.setAttribute("role", "slider");
    handle.setAttribute("aria-label", name);
    handle.setAttribute("aria-valuemin", "0");
    handle.setAttribute("aria-valuemax", "100");
    handle.setAttribute("aria-valuenow", index === 0 ? "0" : "100");
    handle.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1 }[event.key];
      if (step === undefined || this.view === undefined) return;
      event.preventDefault();
      const by = step * (this.view.tree.to - this.view.tree.from) * (event.shiftKey ? 0.1 : 0.01);
      this.setEnd(index, (index === 0 ? this.view.from : this.view.to) + by);
    });
    handle.addEventListener("pointerdown", (event) => {
      handle.setPointerCapture(event.pointerId);
      const move = (moved: PointerEvent) => this.setEnd(index, this.moment(moved.clientX));
      handle.addEventListener("pointermove", move);
      handle.addEventListener("pointerup", () => handle.removeEventListener("pointermove", move), {
        once: true,
      });
    });
    return handle;
  }

  private setEnd(index: number, moment: number): void {
    const view = this.view;
    if (view === undefined) return;
    if (index === 0) view.setZoom(Math.min(moment, view.to - 1), view.to);
    else view.setZoom(view.from, Math.max(moment, view.from + 1));
  }

  private moment(clientX: number): number {
    const view = this.view!;
    const box = this.canvas.getBoundingClientRect();
    return view.tree.from + ((clientX - box.left) / box.width) * (view.tree.to - view.tree.from);
  }

  private onDrag(event: PointerEvent): void {
    if (this.view === undefined || event.button !== 0) return;
    this.canvas.setPointerCapture(event.pointerId);
    const begin = this.moment(event.clientX);
    const startX = event.clientX;
    const move = (moved: PointerEvent) => {
      if (Math.abs(moved.clientX - startX) < 3) return;
      const end = this.moment(moved.clientX);
      this.view?.setZoom(Math.min(begin, end), Math.max(begin, end));
    };
    this.canvas.addEventListener("pointermove", move);
    this.canvas.addEventListener("pointerup", () => this.canvas.removeEventListener("pointermove", move), {
      once: true,
    });
  }
}
