/**
 * A text of several lines, in an editor that is loaded when the first of them is shown. Until then, and if it cannot be
 * loaded, the text is in a plain field; what is typed there stays.
 */
import { type RefObject, useEffect, useId, useLayoutEffect, useRef, useState } from "react";
import { flushSync } from "react-dom";
import { lineAndColumn } from "../text/change";
import type { Offer } from "../text/completion";
import type { Language, Mounted } from "./code-mirror";

/** Something that is wrong with a text. */
export interface Mistake {
  severity: "warning" | "error";
  message: string;
  help: string | null;
  from: number;
  to: number;
}

interface Props {
  /** Its accessible name. */
  name: string;
  language: Language;
  text: string;
  onChange: (text: string) => void;
  isReadOnly?: boolean;
  /** What stands in an empty field. */
  hint?: string;
  /** How many lines are seen; as many as there is room for, if it is not given. */
  lines?: number;
  check?: (text: string, signal: AbortSignal) => Promise<readonly Mistake[]>;
  complete?: (text: string, at: number, signal: AbortSignal) => Promise<readonly Offer[]>;
}

type Library = typeof import("./code-mirror");

/** A text is checked when no key was pressed for so many milliseconds. */
const CHECK_AFTER = 150;

const HELP = "Escape, then Tab leaves the editor. Ctrl+Space shows what can stand at the cursor.";

export function Editor(props: Props) {
  const { name, onChange, isReadOnly = false, hint, lines } = props;
  // An editor knows one kind of line break.
  const text = props.text.replaceAll(/\r\n?/g, "\n");
  const field = useRef<HTMLTextAreaElement>(null);
  const host = useRef<HTMLDivElement>(null);
  const mounted = useRef<Mounted>(undefined);
  const { library, isMissing, left } = useLibrary(field);
  const help = useId();
  const found = useMistakes(text, props.check);
  const latest = useRef(props);
  latest.current = props;

  useLayoutEffect(() => {
    if (library === undefined || host.current === null) return;
    const editor = library.mount(host.current, {
      name,
      description: help,
      language: latest.current.language,
      text: latest.current.text.replaceAll(/\r\n?/g, "\n"),
      selection: { anchor: left.current.anchor, head: left.current.head },
      hint,
      isReadOnly,
      hasLines: lines === undefined || latest.current.check !== undefined,
      onChange: (to) => latest.current.onChange(to),
      complete: async (...asked) => (await latest.current.complete?.(...asked)) ?? [],
    });
    mounted.current = editor;
    if (left.current.isFocused) editor.focus();
    return () => editor.remove();
  }, [library, name, help, hint, isReadOnly, lines, left]);

  // In the commit that brings the text: a key that is pressed later is not undone.
  useLayoutEffect(() => mounted.current?.show(text), [text]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: an editor that is new has no marks yet
  useEffect(() => {
    const marks = found.mistakes.map(({ message, help: more, ...place }) => ({
      ...place,
      message: more === null ? message : `${message}\n${more}`,
    }));
    mounted.current?.mark(found.text, marks);
  }, [found, library]);

  const goTo = (offset: number) => {
    if (mounted.current !== undefined) return mounted.current.goTo(offset);
    field.current?.focus();
    field.current?.setSelectionRange(offset, offset);
  };
  const height = lines === undefined ? undefined : { height: `${lines * 20 + 18}px` };
  return (
    <div
      className={lines === undefined ? "code" : "code framed"}
      aria-busy={library === undefined && !isMissing}
    >
      {library === undefined ? (
        <textarea
          ref={field}
          aria-label={name}
          spellCheck={false}
          style={height}
          readOnly={isReadOnly}
          placeholder={hint}
          value={text}
          onChange={(event) => onChange(event.target.value)}
        />
      ) : (
        <div ref={host} className="code-host" style={height} />
      )}
      {isMissing && (
        <p className="faint code-note">
          The editor could not be loaded; this plain field does the same work.
        </p>
      )}
      {props.check !== undefined && <Mistakes found={found} goTo={goTo} />}
      <p id={help} className="faint code-help">
        {HELP}
      </p>
    </div>
  );
}

interface Left {
  anchor: number;
  head: number;
  isFocused: boolean;
}

/** Loads CodeMirror, and keeps where the cursor was in the plain field when it came. */
function useLibrary(field: RefObject<HTMLTextAreaElement | null>) {
  const [library, setLibrary] = useState<Library>();
  const [isMissing, setMissing] = useState(false);
  const left = useRef<Left>({ anchor: 0, head: 0, isFocused: false });
  useEffect(() => {
    let isOver = false;
    const take = (loaded: Library) => {
      if (isOver) return;
      const { current } = field;
      if (current !== null) {
        const isFocused = document.activeElement === current;
        left.current = { anchor: current.selectionStart, head: current.selectionEnd, isFocused };
      }
      // At once: what is selected or focused until the editor is there would be lost.
      flushSync(() => setLibrary(loaded));
    };
    const whenWritten = (loaded: Library) => {
      // A character that is being composed of several keys belongs to the field it was begun in.
      if (isComposing) field.current?.addEventListener("compositionend", () => take(loaded), { once: true });
      else take(loaded);
    };
    let isComposing = false;
    const compose = (event: Event) => {
      isComposing = event.type === "compositionstart";
    };
    const { current } = field;
    current?.addEventListener("compositionstart", compose);
    current?.addEventListener("compositionend", compose);
    import("./code-mirror").then(whenWritten, () => !isOver && setMissing(true));
    return () => {
      isOver = true;
      current?.removeEventListener("compositionstart", compose);
      current?.removeEventListener("compositionend", compose);
    };
  }, [field]);
  return { library, isMissing, left };
}

interface Found {
  /** The text that was checked. */
  text: string;
  mistakes: readonly Mistake[];
  /** Why a later text could not be checked. */
  unchecked?: string;
}

/** Checks a text while it is written. Without an answer, what was found last stays, and the reason is told. */
function useMistakes(text: string, check: Props["check"]): Found {
  const [found, setFound] = useState<Found>({ text, mistakes: [] });
  useEffect(() => {
    if (check === undefined) return;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      check(text, abort.signal).then(
        (mistakes) => setFound({ text, mistakes }),
        (error: Error) => {
          if (!abort.signal.aborted) setFound((last) => ({ ...last, unchecked: error.message }));
        },
      );
    }, CHECK_AFTER);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text, check]);
  return found;
}

/** The first mistake in words, and how many more there are. */
function Mistakes({ found, goTo }: { found: Found; goTo: (offset: number) => void }) {
  const { mistakes, text, unchecked } = found;
  const first = mistakes.find((one) => one.severity === "error") ?? mistakes[0];
  const { line, column } = lineAndColumn(text, first?.from ?? 0);
  return (
    <output aria-label="Problems" className="code-problems">
      {unchecked !== undefined && <span className="inconclusive">Not checked: {unchecked}</span>}
      {first !== undefined && (
        <>
          <button type="button" className="link" onClick={() => goTo(first.from)}>
            Line {line}, column {column}
          </button>
          <span className={first.severity === "error" ? "bad" : "inconclusive"}>{first.message}</span>
          {first.help !== null && <span className="faint">{first.help}</span>}
          {mistakes.length > 1 && <span className="faint">and {mistakes.length - 1} more</span>}
        </>
      )}
    </output>
  );
}
