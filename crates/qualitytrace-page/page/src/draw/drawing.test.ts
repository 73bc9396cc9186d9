import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Trace } from "../trace/columns";
import { View } from "../trace/view";
import { Drawing } from "./drawing";

class Counting extends Drawing {
  drawn: View[] = [];
  sizes = 0;

  constructor(host: HTMLElement) {
    super(host);
    this.watchSize(host);
  }

  protected draw(view: View): void {
    this.drawn.push(view);
  }

  protected resized(): void {
    this.sizes += 1;
  }
}

let frames: (() => void)[] = [];
let resize = () => {};

beforeEach(() => {
  frames = [];
  vi.stubGlobal("requestAnimationFrame", (act: () => void) => frames.push(act));
  vi.stubGlobal("cancelAnimationFrame", (frame: number) => {
    if (frame > 0) frames[frame - 1] = () => {};
  });
  vi.stubGlobal(
    "ResizeObserver",
    class {
      constructor(act: () => void) {
        resize = act;
      }
      observe() {}
      disconnect() {
        resize = () => {};
      }
    },
  );
});
afterEach(() => vi.unstubAllGlobals());

function frame(): void {
  for (const act of frames.splice(0)) act();
}

const made = () => new Counting({ replaceChildren: () => {} } as unknown as HTMLElement);
const view = () => new View(new Trace());

test("many changes of a view are drawn once", () => {
  const [drawing, shown] = [made(), view()];
  drawing.show(shown);
  shown.setZoom(0, 5);
  shown.setZoom(0, 6);
  resize();
  expect(drawing.drawn).toEqual([]);
  frame();
  expect(drawing.drawn).toEqual([shown]);
  expect(drawing.sizes).toBe(1);
  frame();
  expect(drawing.drawn.length).toBe(1);
});

test("a view that another has replaced is not followed", () => {
  const [drawing, first, second] = [made(), view(), view()];
  drawing.show(first);
  drawing.show(second);
  frame();
  first.setZoom(0, 5);
  frame();
  expect(drawing.drawn).toEqual([second]);
});

test("nothing is drawn after the end", () => {
  const [drawing, shown] = [made(), view()];
  drawing.show(shown);
  drawing.destroy();
  frame();
  shown.setZoom(0, 5);
  drawing.schedule();
  frame();
  expect(drawing.drawn).toEqual([]);
});
