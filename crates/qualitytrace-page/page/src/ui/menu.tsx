/** A button that opens a list of actions or choices: arrow keys move in it, Escape closes it and goes back to the button. */
import { type ReactNode, useRef, useState } from "react";

export interface MenuItem {
  name: string;
  act: () => void;
  /** For choices: whether it is the chosen one. */
  isChosen?: boolean;
}

const roleOf = ({ isChosen }: MenuItem) =>
  isChosen === undefined ? { role: "menuitem" } : { role: "menuitemradio", "aria-checked": isChosen };

export function Menu(props: {
  name: string;
  title?: string;
  items: readonly MenuItem[];
  children: ReactNode;
}) {
  const { name, title = name, items, children } = props;
  const [isOpen, setOpen] = useState(false);
  const host = useRef<HTMLDivElement>(null);
  const opener = useRef<HTMLButtonElement>(null);
  const close = () => {
    setOpen(false);
    opener.current?.focus();
  };
  const step = (by: number) => {
    const shown = [...(host.current?.querySelectorAll<HTMLElement>("[role^=menuitem]") ?? [])];
    const at = shown.indexOf(document.activeElement as HTMLElement);
    shown[(at + by + shown.length) % shown.length]?.focus();
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: keys and focus come from the buttons in it
    <div
      className="menu-host"
      ref={host}
      onBlur={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget)) setOpen(false);
      }}
      onKeyDown={(event) => {
        if (event.key === "Escape" && isOpen) close();
        if (event.key === "ArrowDown") step(1);
        if (event.key === "ArrowUp") step(-1);
      }}
    >
      <button
        type="button"
        ref={opener}
        aria-label={name}
        title={title}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      >
        {children}
      </button>
      {isOpen && (
        <div role="menu" aria-label={name} className="menu">
          {items.map((item) => (
            <button
              key={item.name}
              type="button"
              {...roleOf(item)}
              onClick={() => {
                close();
                item.act();
              }}
            >
              {item.name}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
