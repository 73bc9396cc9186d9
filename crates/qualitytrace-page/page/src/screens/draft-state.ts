/** A draft: changes of a test that are not saved yet, from a click on a value to lines of its definition. */
import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";
import { Refused, type Shape } from "../api/client";
import {
  type Change,
  describe,
  editSource,
  type Source,
  type Spec,
  store,
  type TestSpec,
  type Trial,
} from "../api/requests";
import { useKept, usePassing } from "../ui/parts";
import type { AssertTarget } from "./span-panel";

/** One change of a draft. */
export type Line =
  | { kind: "spec"; selector: string; assertion: string }
  | { kind: "output"; name: string; selector: string; value: string }
  /** The spec that was at this place, with this selector, gets another one. */
  | { kind: "selector"; at: number; name: string; was: string; selector: string; assertions: string[] };

export interface Editing {
  target: AssertTarget;
  description: Shape<"SpanDescription">;
  /** What it becomes. */
  as: "spec" | "output";
  /** The name of the output. */
  name: string;
  selector: string;
  left: string;
  comparator: string;
  expected: string;
  type: string;
}

export interface DraftState {
  source: Source;
  test: string | undefined;
  lines: Line[];
  editing: Editing | undefined;
  problem: unknown;
  saved: string | undefined;
  begin: (target: AssertTarget) => void;
  edit: (change: Partial<Editing>) => void;
  /** Gives a spec of the test another selector. */
  reselect: (at: number, spec: Spec, selector: string) => void;
  cancel: () => void;
  add: () => void;
  remove: (at: number) => void;
  discard: () => void;
  save: () => Promise<void>;
  /** The unified diff of the definition's text. */
  patch: () => Promise<string | undefined>;
}

export const COUNT = "attr:tracetest.selected_spans.count";

/** A draft of a run that had a version of a test, which may have newer ones. */
export function useDraft(source: Source, test: TestSpec | undefined, ofRun: number | undefined): DraftState {
  const [lines, setLines] = useKept<Line[]>(`draft ${source.kind === "run" ? source.test : source.id}`, []);
  const [editing, setEditing] = useState<Editing>();
  const [problem, setProblem] = useState<unknown>();
  const [saved, setSaved] = usePassing<string>();
  const client = useQueryClient();
  const id = test?.id;
  const version = test?.version ?? undefined;
  const begin = useCallback(
    (target: AssertTarget) => {
      setProblem(undefined);
      setSaved(undefined);
      const described =
        target.spanId === undefined
          ? Promise.resolve({ selector: target.selector ?? "span[]", alternatives: [], assertions: [] })
          : describe(source, target.spanId, target.attribute);
      described.then((description) => setEditing(begun(target, description))).catch(setProblem);
    },
    [source, setSaved],
  );
  const attempt = async <T>(
    work: (id: string, version: number, changes: Change[]) => Promise<T>,
  ): Promise<T | undefined> => {
    if (id === undefined || version === undefined) return undefined;
    try {
      const done = await work(
        id,
        version,
        changesOf(lines, version === ofRun ? undefined : (test?.specs ?? [])),
      );
      setProblem(undefined);
      return done;
    } catch (error) {
      const isConflict = error instanceof Refused && error.status === 409;
      setProblem(
        isConflict
          ? new Refused(409, `${error.message} Nothing is lost: save again to add the draft to that version.`)
          : error,
      );
      if (isConflict) await client.invalidateQueries({ queryKey: ["test", id] });
      return undefined;
    }
  };
  const save = async () => {
    const stored = await attempt(async (id, version, changes) => {
      const { text } = await editSource(id, version, changes);
      return store("tests", text, id, `"${version}"`);
    });
    if (stored === undefined) return;
    setLines([]);
    setSaved(`Saved as version ${stored.version}`);
    await client.invalidateQueries({ queryKey: ["test", id] });
    await client.invalidateQueries({ queryKey: ["source", id] });
  };
  return {
    source,
    test: id,
    lines,
    editing,
    problem,
    saved,
    begin,
    edit: (changed) => setEditing((before) => before && { ...before, ...changed }),
    reselect: (at, spec, selector) => {
      const assertions = spec.assertions.map((one) => one.assertion);
      const line: Line = { kind: "selector", at, name: spec.name, was: spec.selector, selector, assertions };
      setSaved(undefined);
      setLines([...lines.filter((one) => one.kind !== "selector" || one.at !== at), line]);
    },
    cancel: () => setEditing(undefined),
    add: () => {
      if (editing === undefined) return;
      setLines([...lines, lineOf(editing)]);
      setEditing(undefined);
    },
    remove: (at) => setLines(lines.filter((_, index) => index !== at)),
    discard: () => {
      setLines([]);
      setEditing(undefined);
      setProblem(undefined);
    },
    save,
    patch: () => attempt(async (id, version, changes) => (await editSource(id, version, changes)).diff),
  };
}

/** The beginning of an assertion: what the click proposes, or what fits the attribute. */
function begun(target: AssertTarget, description: Editing["description"]): Editing {
  const [first] = description.assertions;
  const proposal = target.proposal ?? {
    left: first?.left ?? `attr:${target.attribute ?? "name"}`,
    comparator: first?.comparator ?? "=",
    expected: first?.expected ?? "",
    type: first?.type ?? "string",
  };
  const selector = target.selector ?? description.selector;
  return { target, description, as: "spec", name: nameOf(target.label), selector, ...proposal };
}

/** A name for an output: the last word of what was clicked. */
export function nameOf(label: string): string {
  const words = label.split(/[^\p{L}\p{N}]+/u).filter((word) => word !== "");
  return (words.at(-1) ?? "value").toUpperCase();
}

/** The line that an edited assertion or output becomes. */
export function lineOf(editing: Editing): Line {
  const { selector, left, comparator, expected, name } = editing;
  if (editing.as === "output") return { kind: "output", name: name.trim() || "VALUE", selector, value: left };
  return { kind: "spec", selector, assertion: `${left} ${comparator} ${expected}`.trim() };
}

/** What the API tries a line as. */
export function trialOf(line: Line): Trial {
  const { selector } = line;
  if (line.kind === "output")
    return { specs: [], outputs: [{ name: line.name, selector, value: line.value }] };
  return { specs: [{ selector, assertions: line.kind === "spec" ? [line.assertion] : line.assertions }] };
}

/** The changes that lines make of a version with these specs, or of the version of the run. */
export function changesOf(lines: readonly Line[], specs: TestSpec["specs"]): Change[] {
  return lines.map((line) => {
    const { selector } = line;
    if (line.kind === "output")
      return { type: "addOutput", output: { name: line.name, selector, value: line.value } };
    if (line.kind === "spec") return { type: "addSpec", spec: { selector, assertions: [line.assertion] } };
    const spec = { name: line.name || undefined, selector, assertions: line.assertions };
    return { type: "changeSpec", at: specs === undefined ? line.at : placeOf(line, specs), spec };
  });
}

/** Where the spec of a line is in another version: only the spec that the run has judged may be replaced. */
function placeOf(line: Line & { kind: "selector" }, specs: NonNullable<TestSpec["specs"]>): number {
  const judged = JSON.stringify([line.name, line.was, line.assertions]);
  const place = specs.findIndex(
    ({ name = "", selector = "", assertions = [] }) =>
      JSON.stringify([name, selector, assertions]) === judged,
  );
  if (place >= 0) return place;
  throw new Error(
    `The test has another version now, and “${line.name || line.was}” is not in it as this run has judged it. Run the test again, or change its definition.`,
  );
}

/** The new lines of a draft as YAML, for a file. */
export function yaml(lines: Line[]): string {
  const quoted = (text: string) => `'${text.replaceAll("'", "''")}'`;
  const specs = lines.flatMap((line) => {
    if (line.kind === "output") return [];
    const assertions = line.kind === "spec" ? [line.assertion] : line.assertions;
    const name = line.kind === "selector" && line.name !== "" ? `name: ${quoted(line.name)}\n  ` : "";
    const listed = assertions.map((one) => `\n  - ${quoted(one)}`).join("");
    return [`- ${name}selector: ${quoted(line.selector)}\n  assertions:${listed}\n`];
  });
  const outputs = lines.flatMap((line) =>
    line.kind === "output"
      ? [
          `- name: ${quoted(line.name)}\n  selector: ${quoted(line.selector)}\n  value: ${quoted(line.value)}\n`,
        ]
      : [],
  );
  return [
    specs.length > 0 ? `specs:\n${specs.join("")}` : "",
    outputs.length > 0 ? `outputs:\n${outputs.join("")}` : "",
  ].join("");
}
