/** The filters of a list. Each is a word of the address. */
import { useEffect, useRef, useState } from "react";
import { useSearchChange } from "./search";

export type Filter<Name extends string> = { name: Name; label: string } & (
  | { hint: string }
  | { any: string; options: readonly string[] }
);

export function Filters<Name extends string>(props: {
  name?: string;
  filters: readonly Filter<Name>[];
  search: { [name in Name]?: string };
}) {
  const { name, filters, search } = props;
  const change = useSearchChange();
  return (
    // Enter in a filter starts nothing.
    <form className="filters" aria-label={name} onSubmit={(event) => event.preventDefault()}>
      {filters.map((filter) =>
        "options" in filter ? (
          <select
            key={filter.name}
            aria-label={filter.label}
            value={search[filter.name] ?? ""}
            onChange={(event) => change({ [filter.name]: event.target.value || undefined }, false)}
          >
            <option value="">{filter.any}</option>
            {filter.options.map((option) => (
              <option key={option}>{option}</option>
            ))}
          </select>
        ) : (
          <FilterText
            key={filter.name}
            label={filter.label}
            hint={filter.hint}
            value={search[filter.name] ?? ""}
            onChange={(value) => change({ [filter.name]: value || undefined }, true)}
          />
        ),
      )}
    </form>
  );
}

function FilterText(props: {
  label: string;
  hint: string;
  value: string;
  onChange: (value: string) => void;
}) {
  const { label, hint, value, onChange } = props;
  const [typed, setTyped] = useTyped(value, onChange);
  return (
    <input
      type="search"
      aria-label={label}
      placeholder={hint}
      value={typed}
      onChange={(event) => setTyped(event.target.value)}
    />
  );
}

/**
 * A text that is in the address. The address follows a moment later, and the field does not wait for it: its cursor
 * would jump, and quick keys would be lost. With `after`, it follows when nothing was typed for so many milliseconds.
 */
export function useTyped(value: string, onChange: (value: string) => void, after = 0) {
  const [typed, setTyped] = useState(value);
  const latest = useRef(onChange);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => {
    latest.current = onChange;
  });
  useEffect(() => () => clearTimeout(timer.current), []);
  // What was typed and is not in the address yet.
  const sent = useRef<string[]>([]);
  useEffect(() => {
    const at = sent.current.indexOf(value);
    sent.current = at < 0 ? [] : sent.current.slice(at + 1);
    // Back and links change the address, too.
    if (at < 0) setTyped(value);
  }, [value]);
  const type = (text: string) => {
    setTyped(text);
    clearTimeout(timer.current);
    const send = () => {
      sent.current.push(text);
      latest.current(text);
    };
    if (after === 0) send();
    else timer.current = setTimeout(send, after);
  };
  return [typed, type] as const;
}
