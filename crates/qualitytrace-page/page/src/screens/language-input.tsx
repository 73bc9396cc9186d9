/** A field of one line for the test language: what can stand at the cursor is offered, from the spans of this trace. */
import {
  type InputHTMLAttributes,
  type Ref,
  useEffect,
  useId,
  useImperativeHandle,
  useRef,
  useState,
} from "react";
import { complete, type Source } from "../api/requests";
import { helpful, type Offer } from "../text/completion";
import { type Variable, variablesAt } from "../text/template";

type Form = "selector" | "assertion" | "expression" | "template";

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
  inputRef?: Ref<HTMLInputElement>;
  onLeave?: () => void;
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
    ...rest
  } = props;
  const [items, setItems] = useState<Offer[]>([]);
  const [chosen, setChosen] = useState(-1);
  const [caret, setCaret] = useState<number>();
  const input = useRef<HTMLInputElement>(null);
  const list = useId();
  useImperativeHandle(inputRef, () => input.current!);

  useEffect(() => {
    if (caret === undefined || !isOffered) {
      setItems([]);
      return;
    }
    const before = value.slice(0, caret);
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
          setItems(helpful(answer.items, value, caret, true).slice(0, SHOWN));
          setChosen(-1);
        })
        .catch(() => setItems([]));
    }, 80);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [value, caret, isOffered, language, source, variables]);

  const close = () => {
    setCaret(undefined);
    setItems([]);
  };
  const accept = (item: Offer) => {
    onChange(value.slice(0, item.from) + item.insert + value.slice(item.to));
    const end = item.from + item.insert.length;
    requestAnimationFrame(() => {
      input.current?.focus();
      input.current?.setSelectionRange(end, end);
      setCaret(end);
    });
  };
  const isOpen = items.length > 0;
  return (
    <span className="language">
      <input
        {...rest}
        ref={input}
        value={value}
        spellCheck={false}
        autoComplete="off"
        aria-autocomplete="list"
        aria-controls={isOpen ? list : undefined}
        aria-activedescendant={chosen >= 0 ? `${list}-${chosen}` : undefined}
        onChange={(event) => {
          onChange(event.target.value);
          setCaret(event.target.selectionStart ?? event.target.value.length);
        }}
        onBlur={() => {
          close();
          onLeave?.();
        }}
        onKeyDown={(event) => {
          const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
          if (isOpen && step !== undefined) setChosen((chosen + step + items.length) % items.length);
          else if (isOpen && (event.key === "Tab" || event.key === "Enter") && chosen >= 0)
            accept(items[chosen]);
          else if (isOpen && event.key === "Escape") close();
          else return onKeyDown?.(event);
          event.preventDefault();
        }}
      />
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
