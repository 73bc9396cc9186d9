/** A JSON text as lines, with the path of each of its values. */

export type Scalar = string | number | boolean | null;

export interface JsonLine {
  depth: number;
  /** What stands before the value, and after it. */
  before: string;
  after: string;
  value?: { path: string; scalar: Scalar };
}

/** Longer answers are shown as text. */
const MOST_LINES = 2000;
const LONGEST = 200_000;
const DEEPEST = 60;

/** The lines of a JSON text, with the path of each value; undefined for other texts and for long ones. */
export function jsonLines(text: string): JsonLine[] | undefined {
  if (text.length > LONGEST || !/^\s*[[{]/.test(text)) return undefined;
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return undefined;
  }
  const lines: JsonLine[] = [];
  return write(parsed, "$", 0, "", "", lines) ? lines : undefined;
}

/** Writes a value; false if there is too much of it. */
function write(
  value: unknown,
  path: string,
  depth: number,
  before: string,
  after: string,
  lines: JsonLine[],
): boolean {
  if (lines.length >= MOST_LINES || depth > DEEPEST) return false;
  if (typeof value !== "object" || value === null) {
    lines.push({ depth, before, after, value: { path, scalar: value as Scalar } });
    return true;
  }
  const isList = Array.isArray(value);
  const entries: [string, unknown][] = isList
    ? value.map((one, index) => [`${path}[${index}]`, one])
    : Object.entries(value).map(([key, one]) => [child(path, key), one]);
  const [open, close] = isList ? ["[", "]"] : ["{", "}"];
  if (entries.length === 0) {
    lines.push({ depth, before: `${before}${open}${close}`, after });
    return true;
  }
  lines.push({ depth, before: before + open, after: "" });
  const names = isList ? [] : Object.keys(value);
  for (const [index, [to, one]] of entries.entries()) {
    const name = isList ? "" : `${JSON.stringify(names[index])}: `;
    const comma = index < entries.length - 1 ? "," : "";
    if (!write(one, to, depth + 1, name, comma, lines)) return false;
  }
  lines.push({ depth, before: close, after });
  return true;
}

/** The path of a member. */
function child(path: string, key: string): string {
  return /^[A-Za-z_]\w*$/.test(key) ? `${path}.${key}` : `${path}["${key.replaceAll(/["\\]/g, "\\$&")}"]`;
}
