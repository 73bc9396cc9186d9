import { expect, test } from "vitest";
import { diff, hunks } from "./diff";

const written = (before: string, after: string) =>
  diff(before, after).map(({ kind, text }) => ({ same: " ", removed: "-", added: "+" })[kind] + text);

test("changed lines are told, and the others stay", () => {
  expect(written("a\nb\nc\nd", "a\nB\nc\nd\ne")).toEqual([" a", "-b", "+B", " c", " d", "+e"]);
  expect(written("same", "same")).toEqual([" same"]);
  expect(written("", "x")).toEqual(["-", "+x"]);
});

test("applied to the text before, a difference gives the text after", () => {
  const words = ["a", "b", "c"];
  for (let seed = 1; seed < 200; seed += 1) {
    const text = (salt: number) =>
      Array.from({ length: (seed * salt) % 9 }, (_, at) => words[(seed * (at + salt) * 7) % 3]).join("\n");
    const [before, after] = [text(3), text(5)];
    const lines = diff(before, after);
    const side = (kind: string) => lines.filter((line) => line.kind !== kind).map((line) => line.text);
    expect(side("added").join("\n")).toBe(before);
    expect(side("removed").join("\n")).toBe(after);
  }
});

test("far from a change, lines are left out", () => {
  const lines = diff("1\n2\n3\n4\n5\n6\n7", "1\n2\n3\n4\n5\n6\n8");
  expect(hunks(lines, 1).map((line) => line?.text)).toEqual([undefined, "6", "7", "8"]);
});
