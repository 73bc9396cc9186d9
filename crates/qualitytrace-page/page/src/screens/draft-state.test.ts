import { expect, test, vi } from "vitest";
import type { Line } from "./draft-state";

vi.stubGlobal("document", { baseURI: "http://127.0.0.1/" });
const { changesOf, lineOf, nameOf, trialOf, yaml } = await import("./draft-state");

const LINES: Line[] = [
  { kind: "spec", selector: 'span[name = "it\'s"]', assertion: "attr:a = 1" },
  { kind: "output", name: "ID", selector: "span[]", value: "attr:id" },
  {
    kind: "selector",
    at: 1,
    name: "Quick",
    was: "span[b = 1]",
    selector: "span[b = 2]",
    assertions: ["attr:a = 1", "attr:b < 2"],
  },
];

test("a draft is YAML that a file takes, quotes included", () => {
  expect(yaml(LINES)).toBe(`specs:
- selector: 'span[name = "it''s"]'
  assertions:
  - 'attr:a = 1'
- name: 'Quick'
  selector: 'span[b = 2]'
  assertions:
  - 'attr:a = 1'
  - 'attr:b < 2'
outputs:
- name: 'ID'
  selector: 'span[]'
  value: 'attr:id'
`);
});

test("a line is tried as what it becomes", () => {
  expect(trialOf(LINES[1])).toEqual({
    specs: [],
    outputs: [{ name: "ID", selector: "span[]", value: "attr:id" }],
  });
  expect(trialOf(LINES[2]).specs[0].assertions).toEqual(["attr:a = 1", "attr:b < 2"]);
});

test("an assertion becomes a line of a spec, or its left side an output", () => {
  const editing = {
    target: { label: "$.items[0].id" },
    description: { selector: "span[]", alternatives: [], assertions: [] },
    as: "spec" as const,
    name: nameOf("$.items[0].id"),
    selector: "span[]",
    left: "attr:id",
    comparator: "=",
    expected: "7",
    type: "number",
  };
  expect(lineOf(editing)).toEqual({ kind: "spec", selector: "span[]", assertion: "attr:id = 7" });
  expect(lineOf({ ...editing, as: "output" })).toEqual({
    kind: "output",
    name: "ID",
    selector: "span[]",
    value: "attr:id",
  });
});

test("a new selector goes to the spec that the run has judged, wherever it is in a newer version", () => {
  const other = { name: "Other", selector: "span[]", assertions: ["attr:a = 1"] };
  const judged = { name: "Quick", selector: "span[b = 1]", assertions: ["attr:a = 1", "attr:b < 2"] };
  const place = (specs: Parameters<typeof changesOf>[1]) => changesOf([LINES[2]], specs);
  expect(place(undefined)).toMatchObject([{ type: "changeSpec", at: 1, spec: { selector: "span[b = 2]" } }]);
  expect(place([other, other, judged])).toMatchObject([{ type: "changeSpec", at: 2 }]);
  expect(place([judged, other])).toMatchObject([{ type: "changeSpec", at: 0 }]);
  for (const changed of [{ selector: "span[b = 3]" }, { name: "Slow" }, { assertions: ["attr:a = 1"] }])
    expect(() => place([other, { ...judged, ...changed }])).toThrow(/“Quick” is not in it/);
});
