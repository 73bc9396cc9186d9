/** A field for the test language: what can stand at the cursor is offered, from the spans of this trace. */
import {
  type ChangeEvent,
  type InputHTMLAttributes,
  type KeyboardEvent,
  type Ref,
  useEffect,
  useId,
  useImperativeHandle,
  useRef,
  useState,
} from "react";
import type { Shape } from "../api/client";
import { complete, type Source } from "../api/requests";
import { isInExpression, type Variable, variablesAt } from "../text/template";

type Item = Shape<"Completion">;
type Form = "selector" | "assertion" | "expression" | "template";

type Field = HTMLInputElement | HTMLTextAreaElement;

interface Props extends Omit<InputHTMLAttributes<HTMLInputElement>, "onChange" | "value" | "form"> {
  /** The spans that it may be about. */
  source?: Source;
  language: Form;
  /** The variables that a template can refer to. */
  variables?: readonly Variable[];
  /** Whether the text is in the language at all. */
  isOffered?: boolean;
  value: string;
  onChange: (value: string) => void;
  inputRef?: Ref<Field>;
  onLeave?: () => void;
  /** How many lines are seen of a text that has several. */
  lines?: number;
}

/** How many items are shown at once. */
const SHOWN = 10;

export function LanguageInput(props: Props) {
  const {
    source,
    language,
    variables,
    isOffered = true,
    value,
    onChange,
    inputRef,
    onLeave,
    onKeyDown,
    lines,
    ...rest
  } = props;
  const [items, setItems] = useState<Item[]>([]);
  const [chosen, setChosen] = useState(-1);
  const [caret, setCaret] = useState<number>();
  const input = useRef<Field>(null);
  const list = useId();
  useImperativeHandle(inputRef, () => input.current!);

  useEffect(() => {
    if (caret === undefined || !isOffered) {
      setItems([]);
      return;
    }
    const before = value.slice(0, caret);
    // Most of a long text is no template: the server is asked inside of an expression only.
    if (lines !== undefined && !isInExpression(before)) {
      setItems([]);
      return;
    }
    const known = variablesAt(before, variables ?? []);
    if (known !== undefined) {
      setItems(known.slice(0, SHOWN));
      setChosen(-1);
      return;
    }
    const abort = new AbortController();
    const timer = setTimeout(() => {
      complete(value, Math.min(caret, value.length), language, source, abort.signal)
        .then((answer) => {
          // What is written already is no help.
          const isNew = (item: Item) => value.slice(item.from, item.to) !== item.insert;
          setItems(answer.items.filter(isNew).slice(0, SHOWN));
          setChosen(-1);
        })
        .catch(() => setItems([]));
    }, 80);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [value, caret, isOffered, language, source, variables, lines]);

  const close = () => {
    setCaret(undefined);
    setItems([]);
  };
  const accept = (item: Item) => {
    onChange(value.slice(0, item.from) + item.insert + value.slice(item.to));
    const end = item.from + item.insert.length;
    requestAnimationFrame(() => {
      input.current?.focus();
      input.current?.setSelectionRange(end, end);
      setCaret(end);
    });
  };
  const isOpen = items.length > 0;
  const common = {
    value,
    spellCheck: false,
    autoComplete: "off",
    "aria-autocomplete": "list",
    "aria-controls": isOpen ? list : undefined,
    "aria-activedescendant": chosen >= 0 ? `${list}-${chosen}` : undefined,
    onChange: (event: ChangeEvent<Field>) => {
      onChange(event.target.value);
      setCaret(event.target.selectionStart ?? event.target.value.length);
    },
    onBlur: () => {
      close();
      onLeave?.();
    },
    onKeyDown: (event: KeyboardEvent<Field>) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (isOpen && step !== undefined) setChosen((chosen + step + items.length) % items.length);
      else if (isOpen && (event.key === "Tab" || event.key === "Enter") && chosen >= 0) accept(items[chosen]);
      else if (isOpen && event.key === "Escape") close();
      else return onKeyDown?.(event as KeyboardEvent<HTMLInputElement>);
      event.preventDefault();
    },
  } as const;
  return (
    <span className="language">
      {lines === undefined ? (
        <input {...rest} {...common} ref={input as Ref<HTMLInputElement>} />
      ) : (
        <textarea
          id={rest.id}
          className={rest.className}
          placeholder={rest.placeholder}
          rows={lines}
          {...common}
          ref={input as Ref<HTMLTextAreaElement>}
        />
      )}
      {isOpen && (
        <span className="completions" role="listbox" id={list} aria-label="Completions">
          {items.map((item, index) => (
            <span
              key={`${item.kind} ${item.label}`}
              id={`${list}-${index}`}
              role="option"
              tabIndex={-1}
              aria-selected={index === chosen}
              // The field keeps the focus.
              onMouseDown={(event) => {
                event.preventDefault();
                accept(item);
              }}
            >
              <code>{item.label}</code> <span className="faint">{item.detail || item.kind}</span>
            </span>
          ))}
        </span>
      )}
    </span>
  );
}
