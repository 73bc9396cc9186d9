/** Colours of the style sheet, for canvases. */
import { SLOTS } from "../trace/palette";

export interface Theme {
  services: string[];
  /** The colour of texts on a bar of each service. */
  labels: string[];
  hatched: (CanvasPattern | string)[];
  line: string;
  text1: string;
  text3: string;
  accent: string;
  failed: string;
  passed: string;
  inconclusive: string;
  surface2: string;
  bg: string;
}

let known: Theme | undefined;

/** Forgets the colours: the theme has changed. */
export function forgetTheme(): void {
  known = undefined;
}

export function theme(): Theme {
  if (known !== undefined) return known;
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const services = Array.from({ length: SLOTS }, (_, slot) => colour(`service-${slot}`));
  known = {
    services,
    labels: services.map(label),
    hatched: services.map((one) => hatch(one, colour("bg")) ?? one),
    line: colour("line"),
    text1: colour("text-1"),
    text3: colour("text-3"),
    accent: colour("accent"),
    failed: colour("failed"),
    passed: colour("passed"),
    inconclusive: colour("inconclusive"),
    surface2: colour("surface-2"),
    bg: colour("bg"),
  };
  return known;
}

/** Black or white, whichever can be read better. */
function label(colour: string): string {
  const part = (at: number) => (Number.parseInt(colour.slice(at, at + 2), 16) / 255) ** 2.2;
  const luminance = 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
  return luminance > 0.18 ? "#0e1116" : "#ffffff";
}

function hatch(colour: string, ground: string): CanvasPattern | null {
  const tile = document.createElement("canvas");
  tile.width = 6;
  tile.height = 6;
  const context = tile.getContext("2d");
  if (context === null) return null;
  context.fillStyle = colour;
  context.fillRect(0, 0, 6, 6);
  context.strokeStyle = ground;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(-1, 7);
  context.lineTo(7, -1);
  context.stroke();
  return context.createPattern(tile, "repeat");
}

/** Fits a canvas to its box at the scale of the screen. Returns its context and its size in CSS pixels. */
export function fitted(
  canvas: HTMLCanvasElement,
  width: number,
  height: number,
): CanvasRenderingContext2D | null {
  const scale = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context?.setTransform(scale, 0, 0, scale, 0, 0);
  context?.clearRect(0, 0, width, height);
  return context;
}
