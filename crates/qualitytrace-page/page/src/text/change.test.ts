import { expect, test } from "vitest";
import { change, lineAndColumn } from "./change";

function check(before: string, after: string, expected: ReturnType<typeof change>): void {
  const { from, to, insert } = change(before, after);
  expect({ from, to, insert }).toEqual(expected);
  expect(before.slice(0, from) + insert + before.slice(to)).toBe(after);
}

test("only what differs is replaced", () => {
  check("url: a\nbody: b", "url: abc\nbody: b", { from: 6, to: 6, insert: "bc" });
  check("abc", "ac", { from: 1, to: 2, insert: "" });
  check("", "a", { from: 0, to: 0, insert: "a" });
  check("same", "same", { from: 4, to: 4, insert: "" });
});

test("letters that repeat belong to one end", () => {
  check("aa", "aaa", { from: 2, to: 2, insert: "a" });
  check("aba", "a", { from: 1, to: 3, insert: "" });
});

test("lines and columns count from one", () => {
  expect(lineAndColumn("a\nbc", 0)).toEqual({ line: 1, column: 1 });
  expect(lineAndColumn("a\nbc", 3)).toEqual({ line: 2, column: 2 });
});
