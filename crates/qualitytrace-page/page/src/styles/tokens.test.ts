/** Holds the rule of the palette: contrasts of texts and graphics, distances between colours that mean something. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const css = readFileSync(new URL("./tokens.css", import.meta.url), "utf8");

function tokens(block: string): Record<string, string> {
  const body = css.slice(css.indexOf(block)).split("}")[0];
  return Object.fromEntries(
    [...body.matchAll(/--([\w-]+):\s*(#[0-9a-f]{6})/g)].map((found) => [found[1], found[2]]),
  );
}

const themes = {
  light: tokens(":root {"),
  dark: { ...tokens(":root {"), ...tokens(':root[data-theme="dark"] {') },
};

type Rgb = [number, number, number];

function linear(colour: string): Rgb {
  const part = (at: number) => {
    const value = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return [part(1), part(3), part(5)];
}

function contrast(a: string, b: string): number {
  const luminance = ([r, g, b]: Rgb) => 0.2126 * r + 0.7152 * g + 0.0722 * b;
  const [high, low] = [luminance(linear(a)), luminance(linear(b))].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
}

function product(matrix: number[][], [x, y, z]: Rgb): Rgb {
  return matrix.map((row) => row[0] * x + row[1] * y + row[2] * z) as Rgb;
}

/** What eyes without red or green cones see, after Viénot, Brettel and Mollon (1999). */
const SEEN: Record<string, number[][]> = {
  all: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protan: [
    [0.11238, 0.88762, 0],
    [0.11238, 0.88762, 0],
    [0.00401, -0.00401, 1],
  ],
  deutan: [
    [0.29275, 0.70725, 0],
    [0.29275, 0.70725, 0],
    [-0.02234, 0.02234, 1],
  ],
};

function lab(rgb: Rgb): Rgb {
  const cones = product(
    [
      [0.4122214708, 0.5363325363, 0.0514459929],
      [0.2119034982, 0.6806995451, 0.1073969566],
      [0.0883024619, 0.2817188376, 0.6299787005],
    ],
    rgb,
  ).map((value) => Math.cbrt(Math.max(0, value))) as Rgb;
  return product(
    [
      [0.2104542553, 0.793617785, -0.0040720468],
      [1.9779984951, -2.428592205, 0.4505937099],
      [0.0259040371, 0.7827717662, -0.808675766],
    ],
    cones,
  );
}

/** The smallest distance in OKLab, times 100, over all kinds of eyes. */
function distance(a: string, b: string): number {
  return Math.min(
    ...Object.values(SEEN).map((matrix) => {
      const [one, other] = [lab(product(matrix, linear(a))), lab(product(matrix, linear(b)))];
      return 100 * Math.hypot(one[0] - other[0], one[1] - other[1], one[2] - other[2]);
    }),
  );
}

const TEXTS = [
  "text-1",
  "text-2",
  "text-3",
  "accent",
  "passed",
  "failed",
  "inconclusive",
  "flaky",
  "running",
  "broken",
  "code-key",
  "code-text",
  "code-value",
];
const GROUNDS = ["bg", "surface-1", "surface-2"];
const SERVICES = Array.from({ length: 10 }, (_, slot) => `service-${slot}`);

for (const [name, theme] of Object.entries(themes)) {
  test(`${name}: every text can be read on every ground`, () => {
    for (const text of TEXTS) {
      for (const ground of GROUNDS) {
        expect(contrast(theme[text], theme[ground]), `${text} on ${ground}`).toBeGreaterThanOrEqual(4.5);
      }
    }
    expect(contrast(theme["on-accent"], theme.accent)).toBeGreaterThanOrEqual(4.5);
    expect(contrast(theme["text-1"], theme.selected)).toBeGreaterThanOrEqual(4.5);
  });

  test(`${name}: controls and bars stand out from the ground`, () => {
    for (const graphic of ["line-strong", ...SERVICES]) {
      expect(contrast(theme[graphic], theme.bg), graphic).toBeGreaterThanOrEqual(3);
    }
  });

  test(`${name}: passed and failed, and any two services, are told apart by all eyes`, () => {
    expect(distance(theme.passed, theme.failed)).toBeGreaterThanOrEqual(10);
    for (const one of SERVICES) {
      for (const other of SERVICES.filter((slot) => slot > one)) {
        expect(distance(theme[one], theme[other]), `${one} and ${other}`).toBeGreaterThanOrEqual(8);
      }
    }
  });
}
