import { expect, test } from "vitest";
import { ago, bytes, counted, duration, readDuration, shown } from "./format";

test("durations have three significant digits and a unit", () => {
  const written = [0, 999, 1240, 185_000, 999_600, 12_345_678, 999_700_000, 1.5e9, 3.5e12, 9e13].map(
    duration,
  );
  expect(written).toEqual([
    "0 ns",
    "999 ns",
    "1.24 µs",
    "185 µs",
    "1.00 ms",
    "12.3 ms",
    "1.00 s",
    "1.50 s",
    "58.3 min",
    "25.0 h",
  ]);
});

test("a negative duration keeps its sign", () => expect(duration(-1500)).toBe("-1.50 µs"));

test("times are told in words", () => {
  expect([1, 30, 90, 7200, 200_000].map((seconds) => ago(0, seconds * 1000))).toEqual([
    "just now",
    "30 s ago",
    "1 min ago",
    "2 h ago",
    "2 d ago",
  ]);
});

test("counts have the right number", () => {
  expect([counted(1, "span"), counted(50_000, "span"), bytes(1_500_000)]).toEqual([
    "1 span",
    "50,000 spans",
    "1.50 MB",
  ]);
});

test("texts of traces are cut and cannot turn the direction of what follows", () => {
  expect(shown("a\u202eb\u0000c")).toBe("a\ufffdb\ufffdc");
  expect(shown("x".repeat(1000))).toHaveLength(401);
});

test("durations are read as people write them", () => {
  expect(readDuration("1.5ms")).toBe(1.5e6);
  expect(readDuration(" 200 µs ")).toBe(200e3);
  expect(readDuration("2")).toBe(2e6);
  expect(readDuration("")).toBeUndefined();
  expect(readDuration("1 parsec")).toBeUndefined();
});
