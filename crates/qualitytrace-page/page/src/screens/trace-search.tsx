/** The search box of a trace: free text or a selector, with its diagnostic under the letter. */
import { useEffect, useId, useRef, useState } from "react";
import { type Source, select } from "../api/requests";
import { count } from "../text/format";
import { rowsWithText } from "../trace/text-search";
import type { View } from "../trace/view";
import { Icon } from "../ui/glyphs";
import { useSettled } from "../ui/parts";
import { COUNT } from "./draft-state";
import { useTyped } from "./filters";
import { LanguageInput } from "./language-input";
import type { AssertTarget } from "./span-panel";

interface Found {
  query: string;
  /** Undefined as long as nothing valid was asked for. */
  rows: number[] | undefined;
  total: number;
  diagnostic?: { message: string; from: number; help: string | null };
  nearest?: { name: string; suggestion: string | null; satisfied: number; conditions: number };
  error?: string;
}

/** The address follows when no key was pressed for so many milliseconds: every change of it draws the screen again. */
const ADDRESS_AFTER = 200;

/** Whether a text is meant as a selector. */
export function isSelector(text: string): boolean {
  return /^\s*span\b/.test(text) || /\[.*=?/.test(text);
}

export function TraceSearch(props: {
  source: Source;
  view: View | undefined;
  version: number;
  query: string;
  isOnly: boolean;
  onChange: (query: string, isOnly: boolean) => void;
  onAssert?: (target: AssertTarget) => void;
}) {
  const { source, view, version, isOnly, onChange, onAssert } = props;
  const [query, setQuery] = useTyped(props.query, (text) => onChange(text, isOnly), ADDRESS_AFTER);
  const [found, setFound] = useState<Found>();
  const settled = useSettled(query, 30);
  const input = useRef<HTMLInputElement>(null);
  const problem = useId();

  // biome-ignore lint/correctness/useExhaustiveDependencies: spans that arrive are searched too
  useEffect(() => {
    if (settled.trim() === "") {
      setFound(undefined);
      return;
    }
    const abort = new AbortController();
    const body = isSelector(settled) ? { query: settled } : { text: settled };
    select(source, body, abort.signal)
      .then((answer) => {
        const [diagnostic] = answer.diagnostics.filter((one) => one.severity === "error");
        const [nearest] = answer.nearest;
        // A mistake leaves the last good result in place.
        setFound((before) =>
          diagnostic === undefined
            ? { query: settled, rows: answer.rows, total: answer.total, nearest }
            : { query: settled, rows: before?.rows, total: answer.total, diagnostic },
        );
      })
      .catch((error) => {
        if (!abort.signal.aborted)
          setFound({ query: settled, rows: [], total: 0, error: String(error.message) });
      });
    return () => abort.abort();
  }, [settled, source, version]);

  // What the page knows is marked at once; the server adds what attributes contain.
  // biome-ignore lint/correctness/useExhaustiveDependencies: the switch has an effect of its own
  useEffect(() => {
    if (view === undefined || query.trim() === "" || isSelector(query)) return;
    view.setMatches(rowsWithText(view.trace, query), isOnly);
    performance.mark("qt:matches");
  }, [view, query]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: a key alone changes nothing that the server found
  useEffect(() => {
    // Until the server has answered, what the page has marked stays.
    if (found === undefined && query.trim() !== "") return;
    view?.setMatches(found === undefined || found.error !== undefined ? undefined : found.rows, isOnly);
    performance.mark("qt:found");
  }, [view, found, isOnly]);

  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const isTyping = (event.target as HTMLElement).closest("input, textarea, [contenteditable]") !== null;
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "/") {
        event.preventDefault();
        input.current?.focus();
        input.current?.select();
      }
      if (event.key === "]") step(view, 1);
      if (event.key === "[") step(view, -1);
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [view]);

  const { diagnostic } = found ?? {};
  return (
    <div className="search">
      <div className="search-line">
        <div className="search-box">
          <Icon name="search" />
          <LanguageInput
            inputRef={input}
            source={source}
            language="selector"
            isOffered={isSelector(query)}
            type="search"
            aria-label="Find spans"
            aria-invalid={diagnostic !== undefined}
            aria-describedby={diagnostic === undefined ? undefined : problem}
            placeholder={'Text, or a selector: span[service.name = "payment"]'}
            value={query}
            onChange={setQuery}
            onKeyDown={(event) => {
              if (event.key === "Enter") step(view, event.shiftKey ? -1 : 1);
              if (event.key === "Escape") setQuery("");
            }}
          />
        </div>
        <output className="matches" aria-label="Matches">
          {found !== undefined &&
            found.error === undefined &&
            found.rows !== undefined &&
            `${count(found.rows.length)} of ${count(found.total)} spans`}
        </output>
        <button
          type="button"
          className="quiet"
          aria-label="Previous match"
          disabled={!found?.rows?.length}
          onClick={() => step(view, -1)}
        >
          <Icon name="previous" />
        </button>
        <button
          type="button"
          className="quiet"
          aria-label="Next match"
          disabled={!found?.rows?.length}
          onClick={() => step(view, 1)}
        >
          <Icon name="next" />
        </button>
        <button
          type="button"
          role="switch"
          className="switch"
          aria-checked={isOnly}
          onClick={() => onChange(query, !isOnly)}
        >
          Only matches
        </button>
        {onAssert !== undefined &&
          isSelector(query) &&
          found?.rows !== undefined &&
          diagnostic === undefined && (
            <button
              type="button"
              className="assert"
              title="Assert how many spans this selects"
              onClick={() => onAssert(countOf(found))}
            >
              <Icon name="plus" /> Assert count
            </button>
          )}
      </div>
      {diagnostic !== undefined && (
        <p className="diagnostic" id={problem}>
          <span className="caret" style={{ paddingLeft: `${Math.min(diagnostic.from, 120)}ch` }}>
            ^
          </span>
          {diagnostic.message}
          {diagnostic.help !== null && <span className="faint"> {diagnostic.help}</span>}
        </p>
      )}
      {found?.error !== undefined && <p className="diagnostic">{found.error}</p>}
      {found?.nearest !== undefined && found.rows?.length === 0 && found.nearest.suggestion !== null && (
        <p className="nearest">
          Nearest: <b>{found.nearest.name}</b>, {found.nearest.satisfied} of {found.nearest.conditions}{" "}
          conditions{" "}
          <button type="button" className="link" onClick={() => setQuery(found.nearest?.suggestion ?? "")}>
            Use <code>{found.nearest.suggestion}</code>
          </button>
        </p>
      )}
    </div>
  );
}

/** An assertion about the number of spans that were found. */
function countOf(found: Found): AssertTarget {
  const expected = String(found.rows?.length ?? 0);
  return {
    label: "count",
    selector: found.query.trim(),
    proposal: { left: COUNT, comparator: "=", expected, type: "number" },
  };
}

function step(view: View | undefined, by: 1 | -1): void {
  view?.next((row) => view.matches?.[row] === 1, by);
}
