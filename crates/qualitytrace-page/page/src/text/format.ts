/** How numbers, times and ids are written. */

/** A duration in nanoseconds with three significant digits, for example `1.24 ms`. */
export function duration(ns: number): string {
  const [value, unit] = durationParts(ns);
  return `${value} ${unit}`;
}

/** The number and the unit of a duration. */
export function durationParts(ns: number): [string, string] {
  const size = Math.abs(ns);
  if (size < 1000) return [String(Math.round(ns)), "ns"];
  if (size < 999.5e3) return [significant(ns / 1e3), "µs"];
  if (size < 999.5e6) return [significant(ns / 1e6), "ms"];
  if (size < 120e9) return [significant(ns / 1e9), "s"];
  if (size < 2 * 3600e9) return [significant(ns / 60e9), "min"];
  return [significant(ns / 3600e9), "h"];
}

function significant(value: number): string {
  const size = Math.abs(value);
  const digits = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return value.toFixed(digits);
}

const UNITS: Record<string, number> = {
  ns: 1,
  us: 1e3,
  µs: 1e3,
  ms: 1e6,
  s: 1e9,
  m: 60e9,
  min: 60e9,
  h: 3600e9,
};

/** The nanoseconds of a text such as `1.5ms`; milliseconds without a unit. Undefined for anything else. */
export function readDuration(text: string): number | undefined {
  const found = /^\s*(\d+(?:\.\d+)?)\s*([a-zµ]*)\s*$/.exec(text);
  if (found === null) return undefined;
  const unit = UNITS[found[2] === "" ? "ms" : found[2]];
  return unit === undefined ? undefined : Number(found[1]) * unit;
}

/** Nanoseconds that the API writes as a text. */
export function nanoseconds(text: string | null | undefined): number | undefined {
  return text === null || text === undefined || text === "" ? undefined : Number(text);
}

/** How long ago a moment is, in words. */
export function ago(then: number, now: number): string {
  const seconds = Math.max(0, (now - then) / 1000);
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}

/** A moment in full, in the reader's own zone. */
export function moment(then: number): string {
  return new Date(then).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

/** A count with separators between thousands. */
export function count(value: number): string {
  // The browser's own formatter takes 30 ms to load, which every first page would wait for.
  return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** `1 span`, `2 spans`. */
export function counted(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** Bytes with a unit. */
export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  let size = value;
  while (size >= 999.5 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return unit === 0 ? `${size} B` : `${significant(size)} ${units[unit]}`;
}

/** Texts of traces may be endless and contain control characters: cut, and without those that change direction. */
export function shown(text: string, longest = 400): string {
  const cut = text.length > longest ? `${text.slice(0, longest)}…` : text;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is replaced
  return cut.replace(/[\u0000-\u0008\u000b-\u001f\u007f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}
