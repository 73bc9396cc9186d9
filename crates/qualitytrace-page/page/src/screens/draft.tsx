/** A draft of new specs: from a click on a value to a line in the test, tried before it is saved. */
import { useQueryClient } from "@tanstack/react-query";
import { useBlocker } from "@tanstack/react-router";
import { useCallback, useEffect, useMemo, useState } from "react";
import type { Shape } from "../api/client";
import {
  type Change,
  describe,
  dryRun,
  dryRunLast,
  editSource,
  type Source,
  store,
  type TestSpec,
} from "../api/requests";
import { counted } from "../text/format";
import { Icon, OutcomeGlyph, outcomeOf } from "../ui/glyphs";
import { Copy, Problem, useSettled } from "../ui/parts";
import { LanguageInput } from "./language-input";
import { useMayChange } from "./shell";
import type { AssertTarget } from "./span-panel";

const COMPARATORS: Record<string, string[]> = {
  number: ["=", "!=", "<", "<=", ">", ">="],
  duration: ["<", "<=", ">", ">=", "=", "!="],
  string: ["=", "!=", "contains", "not-contains"],
  bool: ["=", "!="],
  list: ["=", "!=", "contains", "not-contains"],
};

interface Line {
  selector: string;
  assertion: string;
}

interface Editing {
  target: AssertTarget;
  description: Shape<"SpanDescription">;
  selector: string;
  left: string;
  comparator: string;
  expected: string;
  type: string;
}

export interface DraftState {
  source: Source;
  version: number | undefined;
  test: string | undefined;
  lines: Line[];
  editing: Editing | undefined;
  problem: unknown;
  saved: string | undefined;
  begin: (target: AssertTarget) => void;
  edit: (change: Partial<Editing>) => void;
  useSelector: (at: number, selector: string) => void;
  cancel: () => void;
  add: () => void;
  remove: (at: number) => void;
  discard: () => void;
  save: () => Promise<void>;
}

export function useDraft(source: Source, test: TestSpec | undefined): DraftState {
  const [lines, setLines] = useState<Line[]>([]);
  const [editing, setEditing] = useState<Editing>();
  const [problem, setProblem] = useState<unknown>();
  const [saved, setSaved] = useState<string>();
  const client = useQueryClient();
  const id = test?.id;
  const version = test?.version ?? undefined;
  const begin = useCallback(
    (target: AssertTarget) => {
      setProblem(undefined);
      setSaved(undefined);
      describe(source, target.spanId, target.attribute)
        .then((description) => {
          const [first] = description.assertions;
          setEditing({
            target,
            description,
            selector: description.selector,
            left: first?.left ?? `attr:${target.attribute ?? "name"}`,
            comparator: first?.comparator ?? "=",
            expected: first?.expected ?? "",
            type: first?.type ?? "string",
          });
        })
        .catch(setProblem);
    },
    [source],
  );
  const save = async () => {
    if (id === undefined || version === undefined) return;
    try {
      const { text } = await editSource(id, version, lines.map(change));
      const { stored } = await store("tests", text, id, `"${version}"`);
      setLines([]);
      setProblem(undefined);
      setSaved(`Saved as version ${stored.spec.version ?? version + 1}`);
      await client.invalidateQueries({ queryKey: ["test", id] });
    } catch (error) {
      setProblem(error);
    }
  };
  return {
    source,
    version,
    test: id,
    lines,
    editing,
    problem,
    saved,
    begin,
    edit: (changed) => setEditing((before) => before && { ...before, ...changed }),
    useSelector: (at, selector) =>
      setLines((before) => before.map((line, index) => (index === at ? { ...line, selector } : line))),
    cancel: () => setEditing(undefined),
    add: () => {
      if (editing === undefined) return;
      setLines([...lines, { selector: editing.selector, assertion: assertionOf(editing) }]);
      setEditing(undefined);
    },
    remove: (at) => setLines(lines.filter((_, index) => index !== at)),
    discard: () => {
      setLines([]);
      setEditing(undefined);
      setProblem(undefined);
    },
    save,
  };
}

function assertionOf(editing: { left: string; comparator: string; expected: string }): string {
  return `${editing.left} ${editing.comparator} ${editing.expected}`.trim();
}

function change(line: Line): Change {
  return { type: "addSpec", spec: { selector: line.selector, assertions: [line.assertion] } };
}

/** The draft as YAML, for a file. */
function yaml(lines: Line[]): string {
  const quoted = (text: string) => `'${text.replaceAll("'", "''")}'`;
  const specs = lines.map(
    (line) => `- selector: ${quoted(line.selector)}\n  assertions:\n  - ${quoted(line.assertion)}`,
  );
  return `specs:\n${specs.join("\n")}\n`;
}

export function Draft({ draft }: { draft: DraftState }) {
  const { lines, editing } = draft;
  const mayChange = useMayChange();
  const isUnsaved = lines.length > 0;
  useBlocker({
    shouldBlockFn: ({ current, next }) => {
      const isSameRun = current.pathname.split("/run/")[0] === next.pathname.split("/run/")[0];
      return isUnsaved && !isSameRun && !window.confirm("The draft is not saved. Leave it?");
    },
    enableBeforeUnload: isUnsaved,
  });
  if (!isUnsaved && editing === undefined && draft.problem === undefined && draft.saved === undefined)
    return null;
  return (
    <section className="draft" aria-label="Draft">
      {editing !== undefined && <Editor draft={draft} editing={editing} />}
      {draft.problem !== undefined && <Problem error={draft.problem} />}
      {draft.saved !== undefined && !isUnsaved && <p className="saved">{draft.saved}</p>}
      {isUnsaved && (
        <>
          <header>
            <h2>Draft</h2>
            <span className="faint">{counted(lines.length, "change")}</span>
            <span className="grow" />
            <Copy text={yaml(lines)} name="Copy YAML" />
            <button type="button" onClick={draft.discard}>
              Discard
            </button>
            {mayChange && (
              <button type="button" className="primary" onClick={draft.save}>
                Save
              </button>
            )}
          </header>
          <ul>
            {lines.map((line, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: the same line may be in it twice
              <li key={index}>
                <Tried source={draft.source} line={line} />
                <code>{line.selector}</code>
                <code>{line.assertion}</code>
                <button
                  type="button"
                  className="quiet small"
                  aria-label="Remove"
                  onClick={() => draft.remove(index)}
                >
                  <Icon name="close" />
                </button>
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

function Editor({ draft, editing }: { draft: DraftState; editing: Editing }) {
  const { description } = editing;
  const line = useMemo(() => ({ selector: editing.selector, assertion: assertionOf(editing) }), [editing]);
  const wider = [
    { title: "only this span", selector: description.selector, count: 1 },
    ...description.alternatives,
  ];
  return (
    <form
      className="assertion"
      onSubmit={(event) => {
        event.preventDefault();
        draft.add();
      }}
    >
      <div className="chips">
        <span className="faint">Assert {editing.target.label} on</span>
        {wider.slice(0, 6).map((one) => (
          <button
            key={one.selector}
            type="button"
            className={one.selector === editing.selector ? "chip here" : "chip"}
            title={one.selector}
            onClick={() => draft.edit({ selector: one.selector })}
          >
            {one.title} <span className="badge">{one.count}</span>
          </button>
        ))}
      </div>
      <div className="field">
        <span aria-hidden="true">Selector</span>
        <LanguageInput
          className="mono"
          aria-label="Selector"
          source={draft.source}
          language="selector"
          value={editing.selector}
          onChange={(selector) => draft.edit({ selector })}
        />
      </div>
      <div className="parts">
        <label>
          <span>Value</span>
          <input
            className="mono"
            spellCheck={false}
            value={editing.left}
            onChange={(event) => draft.edit({ left: event.target.value })}
          />
        </label>
        <label>
          <span>Comparator</span>
          <select
            value={editing.comparator}
            onChange={(event) => draft.edit({ comparator: event.target.value })}
          >
            {[...new Set([editing.comparator, ...(COMPARATORS[editing.type] ?? COMPARATORS.string)])].map(
              (one) => (
                <option key={one}>{one}</option>
              ),
            )}
          </select>
        </label>
        <label>
          <span>Expected</span>
          <input
            className="mono"
            spellCheck={false}
            value={editing.expected}
            onChange={(event) => draft.edit({ expected: event.target.value })}
          />
        </label>
      </div>
      {description.assertions.length > 1 && (
        <div className="chips">
          <span className="faint">or</span>
          {description.assertions.slice(0, 5).map((one) => (
            <button
              key={one.assertion}
              type="button"
              className="chip mono"
              onClick={() =>
                draft.edit({
                  left: one.left,
                  comparator: one.comparator,
                  expected: one.expected,
                  type: one.type,
                })
              }
            >
              {one.assertion}
            </button>
          ))}
        </div>
      )}
      <footer>
        <Preview draft={draft} line={line} />
        <span className="grow" />
        <button type="button" onClick={draft.cancel}>
          Cancel
        </button>
        <button type="submit" className="primary">
          Add to draft
        </button>
      </footer>
    </form>
  );
}

type Tried = Shape<"ShortSpec">;

/** Evaluates a line on the run. */
function useTried(source: Source, line: Line): { spec: Tried | undefined; error: string | undefined } {
  const settled = useSettled(line, 100);
  const [found, setFound] = useState<{ spec: Tried | undefined; error: string | undefined }>({
    spec: undefined,
    error: undefined,
  });
  useEffect(() => {
    const abort = new AbortController();
    dryRun(source, { specs: [{ selector: settled.selector, assertions: [settled.assertion] }] }, abort.signal)
      .then((answer) => setFound({ spec: answer.specs[0], error: undefined }))
      .catch((error) => {
        if (!abort.signal.aborted) setFound({ spec: undefined, error: error.message });
      });
    return () => abort.abort();
  }, [source, settled]);
  return found;
}

function Preview({ draft, line }: { draft: DraftState; line: Line }) {
  const { spec, error } = useTried(draft.source, line);
  const settled = useSettled(line, 400);
  const [past, setPast] = useState<{ run: number; outcome: string }[]>([]);
  const { test } = draft;
  useEffect(() => {
    let isOver = false;
    if (test === undefined) return;
    dryRunLast(test, { specs: [{ selector: settled.selector, assertions: [settled.assertion] }] })
      .then((answer) => {
        const runs = answer.runs.map((one) => ({ run: one.run, outcome: one.verdict?.outcome ?? "broken" }));
        if (!isOver) setPast(runs);
      })
      .catch(() => !isOver && setPast([]));
    return () => {
      isOver = true;
    };
  }, [test, settled]);
  return (
    <>
      <output aria-label="Preview" className="preview">
        {error !== undefined && <span className="bad">{error}</span>}
        {spec !== undefined && <PreviewText spec={spec} />}
      </output>
      {past.length > 0 && (
        <span className="past">
          <span className="faint">last {past.length} runs</span>
          {[...past].reverse().map((one) => (
            <OutcomeGlyph
              key={one.run}
              outcome={outcomeOf(one.outcome)}
              label={`run ${one.run}: ${one.outcome}`}
            />
          ))}
        </span>
      )}
    </>
  );
}

function PreviewText({ spec }: { spec: Tried }) {
  const [assertion] = spec.assertions;
  if (spec.problem !== null) return <span className="bad">{spec.problem}</span>;
  const holds = assertion?.passed ?? 0;
  const all = holds + (assertion?.failed ?? 0);
  const [failure] = assertion?.failures ?? [];
  return (
    <>
      <OutcomeGlyph outcome={outcomeOf(spec.outcome)} /> holds on {holds} of {counted(all, "span")}
      {failure !== undefined && <span className="faint"> observed {failure.observed}</span>}
    </>
  );
}

function Tried({ source, line }: { source: Source; line: Line }) {
  const { spec } = useTried(source, line);
  return spec === undefined ? <span className="glyph" /> : <OutcomeGlyph outcome={outcomeOf(spec.outcome)} />;
}
