/** What every drawing of a trace does: it follows a view, and draws at most once a frame. */
import type { View } from "../trace/view";

export abstract class Drawing {
  protected readonly host: HTMLElement;
  protected view: View | undefined;
  private readonly resizing: ResizeObserver;
  private leave = () => {};
  private frame = 0;

  constructor(host: HTMLElement) {
    this.host = host;
    this.resizing = new ResizeObserver(() => {
      this.resized();
      this.schedule();
    });
  }

  /** Draws a view from now on. */
  show(view: View): void {
    this.leave();
    this.view = view;
    this.leave = view.subscribe(() => this.schedule());
    this.schedule();
  }

  /** Draws in the next frame, however often it is asked for before. */
  schedule(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      if (this.view !== undefined) this.draw(this.view);
    });
  }

  destroy(): void {
    this.leave();
    cancelAnimationFrame(this.frame);
    this.resizing.disconnect();
    this.view = undefined;
    this.host.replaceChildren();
  }

  /** Draws again when an element has another size. */
  protected watchSize(element: Element): void {
    this.resizing.observe(element);
  }

  /** Forgets what depends on the size. */
  protected resized(): void {}

  protected abstract draw(view: View): void;
}

/** Adds an element to another. */
export function element<K extends keyof HTMLElementTagNameMap>(
  kind: K,
  className: string,
  parent: HTMLElement,
): HTMLElementTagNameMap[K] {
  const made = document.createElement(kind);
  made.className = className;
  parent.append(made);
  return made;
}

/** Adds a canvas that screen readers treat as a picture. */
export function picture(testid: string, className: string, parent: HTMLElement): HTMLCanvasElement {
  const canvas = element("canvas", className, parent);
  canvas.dataset.testid = testid;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", "Not drawn yet");
  return canvas;
}

/** Sets an attribute that has another value: to set it to the same one costs as much, in every frame. */
export function attribute(of: Element, name: string, value: string): void {
  if (of.getAttribute(name) !== value) of.setAttribute(name, value);
}
