/** An assertion or output that is being written: where, what, and how it goes on this run and the last ones. */
import { useEffect, useMemo, useState } from "react";
import type { Shape } from "../api/client";
import { dryRun, dryRunLast, type Source } from "../api/requests";
import { counted, shown } from "../text/format";
import { OutcomeGlyph, outcomeOf } from "../ui/glyphs";
import { onArrowKeys, useSettled } from "../ui/parts";
import { COUNT, type DraftState, type Editing, type Line, lineOf, trialOf } from "./draft-state";
import { LanguageInput } from "./language-input";

const COMPARATORS: Record<string, string[]> = {
  number: ["=", "!=", "<", "<=", ">", ">="],
  duration: ["<", "<=", ">", ">=", "=", "!="],
  string: ["=", "!=", "contains", "not-contains"],
  bool: ["=", "!="],
  list: ["=", "!=", "contains", "not-contains"],
};

export function Editor({ draft, editing }: { draft: DraftState; editing: Editing }) {
  const { description, target } = editing;
  const line = useMemo(() => lineOf(editing), [editing]);
  const isOutput = editing.as === "output";
  const wider =
    target.spanId === undefined
      ? []
      : [{ title: "only this span", selector: description.selector, count: 1 }, ...description.alternatives];
  const selected = wider.find((one) => one.selector === editing.selector)?.count;
  return (
    <form
      className="assertion"
      onSubmit={(event) => {
        event.preventDefault();
        draft.add();
      }}
    >
      <div className="chips">
        <span className="faint">
          {isOutput ? "Output" : "Assert"} {shown(target.label, 80)}
          {wider.length > 0 && " on"}
        </span>
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
        <span className="grow" />
        <span className="segments" role="radiogroup" aria-label="As" onKeyDown={onArrowKeys}>
          {(["spec", "output"] as const).map((as) => (
            <button
              key={as}
              type="button"
              role="radio"
              aria-checked={as === editing.as}
              onClick={() => draft.edit({ as })}
            >
              {as === "spec" ? "Assertion" : "Output"}
            </button>
          ))}
        </span>
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
      <div className={isOutput ? "parts output" : "parts"}>
        {isOutput && (
          <label>
            <span>Name</span>
            <input
              className="mono"
              spellCheck={false}
              value={editing.name}
              onChange={(event) => draft.edit({ name: event.target.value })}
            />
          </label>
        )}
        <label>
          <span>Value</span>
          <input
            className="mono"
            spellCheck={false}
            value={editing.left}
            onChange={(event) => draft.edit({ left: event.target.value })}
          />
        </label>
        {!isOutput && (
          <>
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
          </>
        )}
      </div>
      {!isOutput && (description.assertions.length > 1 || selected !== undefined) && (
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
              {shown(one.assertion, 80)}
            </button>
          ))}
          {selected !== undefined && (
            <button
              type="button"
              className="chip mono"
              onClick={() =>
                draft.edit({ left: COUNT, comparator: "=", expected: String(selected), type: "number" })
              }
            >
              {COUNT} = {selected}
            </button>
          )}
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

type Result = Shape<"DryRunResult">;

/** Evaluates a line on the run. */
function useTried(source: Source, line: Line): { result: Result | undefined; error: string | undefined } {
  const settled = useSettled(line, 40);
  const [found, setFound] = useState<{ result: Result | undefined; error: string | undefined }>({
    result: undefined,
    error: undefined,
  });
  useEffect(() => {
    const abort = new AbortController();
    dryRun(source, trialOf(settled), abort.signal)
      .then((result) => setFound({ result, error: undefined }))
      .catch((error) => {
        if (!abort.signal.aborted) setFound({ result: undefined, error: error.message });
      });
    return () => abort.abort();
  }, [source, settled]);
  return found;
}

function Preview({ draft, line }: { draft: DraftState; line: Line }) {
  const { result, error } = useTried(draft.source, line);
  useEffect(() => {
    if (result !== undefined) performance.mark("qt:preview");
  }, [result]);
  const settled = useSettled(line, 400);
  const [past, setPast] = useState<{ run: number; outcome: string }[]>([]);
  const { test } = draft;
  useEffect(() => {
    let isOver = false;
    if (test === undefined || settled.kind === "output") {
      setPast([]);
      return;
    }
    dryRunLast(test, trialOf(settled))
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
        {result !== undefined && <PreviewText result={result} />}
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

function PreviewText({ result }: { result: Result }) {
  const [spec] = result.specs;
  const [output] = result.outputs;
  if (spec === undefined) {
    if (output === undefined) return null;
    if (output.error) return <span className="bad">{output.error}</span>;
    return (
      <>
        is <code>{shown(output.value, 200)}</code>
      </>
    );
  }
  const [assertion] = spec.assertions;
  if (spec.problem !== null) return <span className="bad">{spec.problem}</span>;
  const holds = assertion?.passed ?? 0;
  const all = holds + (assertion?.failed ?? 0);
  const [failure] = assertion?.failures ?? [];
  return (
    <>
      <OutcomeGlyph outcome={outcomeOf(spec.outcome)} /> holds on {holds} of {counted(all, "span")}
      {failure !== undefined && <span className="faint"> observed {shown(failure.observed, 120)}</span>}
    </>
  );
}

/** How a line of the draft goes on the run. */
export function Tried({ source, line }: { source: Source; line: Line }) {
  const { result } = useTried(source, line);
  if (result === undefined) return <span className="glyph" />;
  const isBroken = result.outputs.some((output) => output.error);
  const outcome = line.kind === "output" ? (isBroken ? "failed" : "passed") : outcomeOf(result.outcome);
  return <OutcomeGlyph outcome={outcome} />;
}
