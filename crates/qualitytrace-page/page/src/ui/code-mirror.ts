/** CodeMirror with the page's colours, keys and names. A chunk of its own, which `editor.tsx` loads. */
import {
  acceptCompletion,
  autocompletion,
  type CompletionContext,
  type CompletionResult,
  pickedCompletion,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, forEachDiagnostic, lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { Annotation, EditorState, type Extension } from "@codemirror/state";
import {
  Decoration,
  EditorView,
  keymap,
  lineNumbers,
  MatchDecorator,
  placeholder,
  ViewPlugin,
  type ViewUpdate,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { change } from "../text/change";
import { helpful, isListed, type Offer } from "../text/completion";

export type Language = "yaml" | "json" | "text";

export interface Options {
  /** Its accessible name. */
  name: string;
  /** The id of the element that describes it. */
  description: string;
  language: Language;
  text: string;
  selection: { anchor: number; head: number };
  hint: string | undefined;
  isReadOnly: boolean;
  hasLines: boolean;
  onChange: (text: string) => void;
  /** What can stand at a place. */
  complete: (text: string, at: number, signal: AbortSignal) => Promise<readonly Offer[]>;
}

/** An editor on the page. */
export interface Mounted {
  /** Shows another text; what stays of the old one keeps its cursor and its history. */
  show: (text: string) => void;
  /** Underlines what is wrong with a text, if it is still the one that is shown. */
  mark: (text: string, diagnostics: readonly Diagnostic[]) => void;
  /** Moves the cursor to an offset, and the focus to the editor. */
  goTo: (offset: number) => void;
  focus: () => void;
  remove: () => void;
}

/** Changes that come from outside. */
const fromOutside = Annotation.define<boolean>();

/** How long Escape lets the next Tab leave, unless another key is pressed, in milliseconds. */
const LEAVING = 600_000;

export function mount(parent: HTMLElement, options: Options): Mounted {
  const inside = (offset: number) => Math.min(offset, options.text.length);
  const { anchor, head } = options.selection;
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: options.text,
      selection: { anchor: inside(anchor), head: inside(head) },
      extensions: extensions(options),
    }),
  });
  return {
    show: (text) => {
      const shown = view.state.doc.toString();
      if (shown !== text) view.dispatch({ changes: change(shown, text), annotations: fromOutside.of(true) });
    },
    mark: (text, diagnostics) => {
      if (view.state.doc.toString() !== text) return;
      // Of a part with several lines, the first one is enough to find it.
      const end = ({ from, to }: Diagnostic) => Math.min(to, view.state.doc.lineAt(from).to);
      const marks = diagnostics.map((one) => ({ ...one, to: end(one) }));
      view.dispatch(setDiagnostics(view.state, marks));
    },
    goTo: (offset) => {
      view.dispatch({ selection: { anchor: Math.min(offset, view.state.doc.length) }, scrollIntoView: true });
      view.focus();
    },
    focus: () => view.focus(),
    remove: () => view.destroy(),
  };
}

function extensions(options: Options): Extension {
  const { name, description, language, hint, isReadOnly, hasLines, onChange } = options;
  const nonce = document.querySelector<HTMLMetaElement>("meta[property=csp-nonce]")?.nonce ?? "";
  return [
    EditorView.cspNonce.of(nonce),
    EditorState.readOnly.of(isReadOnly),
    EditorView.contentAttributes.of((view) => ({
      "aria-label": name,
      // A text that is scrolled must be reached by keyboard; not every tool knows that what can be edited is.
      tabindex: "0",
      "aria-describedby": description,
      "aria-readonly": String(isReadOnly),
      "aria-invalid": String(hasErrors(view.state)),
    })),
    EditorView.updateListener.of((update) => {
      const isOwn = update.transactions.some((one) => one.annotation(fromOutside) === true);
      if (update.docChanged && !isOwn) onChange(update.state.doc.toString());
    }),
    EditorView.domEventHandlers({ beforeinput: replaceSelected }),
    keys(),
    history(),
    EditorView.lineWrapping,
    hasLines ? [lineNumbers(), lintGutter()] : [],
    hint === undefined ? [] : placeholder(hint),
    bracketMatching(),
    language === "yaml" ? yaml() : language === "json" ? json() : [],
    expressions,
    syntaxHighlighting(colours),
    autocompletion({
      override: [(context) => completions(context, options)],
      // Enter is for a new line until an offer is chosen, so that none is taken by mistake.
      selectOnOpen: false,
      interactionDelay: 0,
      icons: false,
    }),
    look,
  ];
}

function hasErrors(state: EditorState): boolean {
  let errors = 0;
  forEachDiagnostic(state, ({ severity }) => {
    if (severity === "error") errors += 1;
  });
  return errors > 0;
}

/**
 * Writes over what is selected. A browser would keep the colours of the old text in an element with a style of its own,
 * which the page's policy forbids.
 */
function replaceSelected(event: InputEvent, view: EditorView): boolean {
  const selection = getSelection();
  const isWritten = event.inputType === "insertText" && event.data !== null && !event.isComposing;
  if (!isWritten || selection === null || selection.isCollapsed || view.state.readOnly) return false;
  const range = selection.getRangeAt(0);
  const from = view.posAtDOM(range.startContainer, range.startOffset);
  const to = view.posAtDOM(range.endContainer, range.endOffset);
  const insert = view.state.toText(event.data ?? "");
  view.dispatch({
    changes: { from, to, insert },
    selection: { anchor: from + insert.length },
    scrollIntoView: true,
    userEvent: "input.type",
  });
  return true;
}

function keys(): Extension {
  let [last, before] = ["", ""];
  const leave = (view: EditorView) => {
    // The second one is for what is around the editor: a dialog closes.
    if (before === "Escape") return false;
    view.setTabFocusMode(LEAVING);
    return true;
  };
  return [
    EditorView.domEventObservers({
      keydown: (event) => {
        [last, before] = [event.key, last];
      },
    }),
    keymap.of([
      { key: "Tab", run: acceptCompletion },
      { key: "Escape", run: leave },
      indentWithTab,
      ...historyKeymap,
      ...lintKeymap,
      ...defaultKeymap,
    ]),
  ];
}

async function completions(context: CompletionContext, options: Options): Promise<CompletionResult | null> {
  const abort = new AbortController();
  context.addEventListener("abort", () => abort.abort(), { onDocChange: true });
  const text = context.state.doc.toString();
  // Without an answer there is nothing to offer.
  const offers = await options.complete(text, context.pos, abort.signal).catch(() => []);
  return resultOf(offers, context);
}

function resultOf(offers: readonly Offer[], context: CompletionContext): CompletionResult | null {
  const offered = helpful(offers, context.state.doc.toString(), context.pos, context.explicit);
  if (offered.length === 0) return null;
  return {
    from: Math.min(...offered.map((offer) => offer.from)),
    filter: false,
    // A list of everything needs no other answer when another letter is typed.
    update: (_, __, ___, now) => {
      const typed = now.pos - context.pos;
      const moved = offers.map((offer) => ({ ...offer, to: offer.to + typed }));
      return offers.every(isListed) ? resultOf(moved, now) : null;
    },
    options: offered.map((offer) => ({
      label: offer.label,
      detail: offer.detail || offer.kind,
      apply: (view, completion) => {
        const { from, to, insert } = offer;
        view.dispatch({
          changes: { from, to, insert },
          selection: { anchor: from + insert.length },
          annotations: pickedCompletion.of(completion),
          userEvent: "input.complete",
        });
      },
    })),
  };
}

/** Marks `${...}`, which a run replaces by a value. */
const marked = new MatchDecorator({
  regexp: /\$\{[^}\n]*\}/g,
  decoration: Decoration.mark({ class: "cm-expression" }),
});
const expressions = ViewPlugin.define(
  (view) => ({
    decorations: marked.createDeco(view),
    update(update: ViewUpdate) {
      this.decorations = marked.updateDeco(update, this.decorations);
    },
  }),
  { decorations: (plugin) => plugin.decorations },
);

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--code-key)" },
  { tag: tags.string, color: "var(--code-text)" },
  {
    tag: [tags.number, tags.bool, tags.null, tags.keyword, tags.typeName, tags.labelName, tags.meta],
    color: "var(--code-value)",
  },
  { tag: tags.comment, color: "var(--text-3)", fontStyle: "italic" },
  { tag: [tags.separator, tags.punctuation, tags.bracket], color: "var(--text-2)" },
]);

const wavy = (colour: string) => ({
  backgroundImage: "none",
  paddingBottom: "0",
  textDecoration: `underline wavy ${colour}`,
  textUnderlineOffset: "4px",
  textDecorationSkipInk: "none",
});

const look = EditorView.theme({
  "&": { height: "100%", color: "var(--text-1)", backgroundColor: "var(--bg)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { font: "400 12px / 20px var(--mono)", fontVariantLigatures: "none", overflow: "auto" },
  ".cm-content": { padding: "8px 0", caretColor: "var(--text-1)" },
  ".cm-content:focus-visible": { outline: "none" },
  ".cm-line": { padding: "0 12px 0 8px" },
  ".cm-placeholder": { color: "var(--text-3)" },
  ".cm-expression, .cm-expression *": { color: "var(--code-value)" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--text-3)", border: "0" },
  ".cm-lineNumbers .cm-gutterElement": { padding: "0 4px 0 8px", minWidth: "32px" },
  ".cm-gutter-lint": { width: "14px" },
  ".cm-lint-marker": { width: "8px", height: "8px", marginTop: "6px", borderRadius: "2px" },
  ".cm-lint-marker-error": { content: "''", background: "var(--failed)" },
  ".cm-lint-marker-warning": { content: "''", background: "var(--inconclusive)", borderRadius: "4px" },
  ".cm-lintRange-error": wavy("var(--failed)"),
  ".cm-lintRange-warning": wavy("var(--inconclusive)"),
  ".cm-lintPoint-error:after": { borderBottomColor: "var(--failed)" },
  ".cm-lintPoint-warning:after": { borderBottomColor: "var(--inconclusive)" },
  "&.cm-focused .cm-matchingBracket": {
    backgroundColor: "var(--selected)",
    outline: "1px solid var(--accent)",
  },
  "&.cm-focused .cm-nonmatchingBracket": { backgroundColor: "transparent", color: "var(--failed)" },
  ".cm-tooltip": {
    border: "0",
    borderRadius: "var(--radius-float)",
    boxShadow: "var(--shadow)",
    backgroundColor: "var(--bg)",
    color: "var(--text-1)",
    font: "400 12px / 20px var(--font)",
    maxWidth: "min(560px, 92vw)",
    overflow: "hidden",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { font: "400 12px / 20px var(--mono)", maxHeight: "240px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": {
    display: "flex",
    alignItems: "baseline",
    justifyContent: "space-between",
    gap: "16px",
    padding: "2px 8px",
  },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { background: "var(--selected)", color: "var(--text-1)" },
  ".cm-completionDetail": {
    color: "var(--text-2)",
    font: "400 12px / 20px var(--font)",
    fontStyle: "normal",
    overflow: "hidden",
    textOverflow: "ellipsis",
    maxWidth: "40ch",
    marginLeft: "0",
  },
  ".cm-diagnostic": { padding: "4px 8px", borderLeftWidth: "3px", whiteSpace: "pre-wrap" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--failed)" },
  ".cm-diagnostic-warning": { borderLeftColor: "var(--inconclusive)" },
});
