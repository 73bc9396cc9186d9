/** Small parts that several screens use. */
import {
  type KeyboardEvent,
  type ReactNode,
  type RefObject,
  useEffect,
  useLayoutEffect,
  useState,
} from "react";
import { Refused, sentence } from "../api/client";
import { ago, durationParts, moment } from "../text/format";
import { Icon } from "./glyphs";

/** A duration, its unit in a quieter colour. */
export function Duration({ ns }: { ns: number | undefined }) {
  if (ns === undefined) return <span className="faint">–</span>;
  const [value, unit] = durationParts(ns);
  return (
    <span className="number">
      {value} <span className="unit">{unit}</span>
    </span>
  );
}

/** A moment in words; in full on hover and focus. */
export function Ago({ at }: { at: string | number | undefined | null }) {
  const now = useNow(10_000);
  if (at === undefined || at === null || at === "") return <span className="faint">–</span>;
  const then = typeof at === "number" ? at : Date.parse(at);
  if (!Number.isFinite(then) || then <= 0) return <span className="faint">never</span>;
  return (
    <time dateTime={new Date(then).toISOString()} title={moment(then)}>
      {ago(then, now)}
    </time>
  );
}

/** The time, again and again. */
export function useNow(every: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}

/** A value after it has not changed for a while. */
export function useSettled<T>(value: T, after: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), after);
    return () => clearTimeout(timer);
  }, [value, after]);
  return settled;
}

/** The width inside of an element, in pixels; 0 until it is known. */
export function useWidth(element: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    if (element.current === null) return;
    const resizing = new ResizeObserver(([entry]) => setWidth(entry.contentRect.width));
    resizing.observe(element.current);
    return () => resizing.disconnect();
  }, [element]);
  return width;
}

/** A value that goes away after a few seconds. */
export function usePassing<T>(): [T | undefined, (value: T | undefined) => void] {
  const [value, setValue] = useState<T>();
  useEffect(() => {
    if (value === undefined) return;
    const timer = setTimeout(() => setValue(undefined), 5000);
    return () => clearTimeout(timer);
  }, [value]);
  return [value, setValue];
}

/** A value that survives a reload of the page, but not that its reader leaves the screen. */
export function useKept<T>(key: string, initial: T): [T, (value: T) => void] {
  const [value, setValue] = useState<T>(() => {
    try {
      const kept = sessionStorage.getItem(key);
      return kept === null ? initial : JSON.parse(kept);
    } catch {
      return initial;
    }
  });
  const keep = (next: T) => {
    setValue(next);
    try {
      sessionStorage.setItem(key, JSON.stringify(next));
    } catch {
      // A browser without room keeps it for this page only.
    }
  };
  useEffect(() => () => sessionStorage.removeItem(key), [key]);
  return [value, keep];
}

/** Moves to the neighbour of a tab or a choice by arrow keys, and to the first and the last one. */
export function onArrowKeys(event: KeyboardEvent<HTMLElement>): void {
  const items = [...event.currentTarget.querySelectorAll<HTMLElement>("[role=tab], [role=radio]")];
  const at = items.indexOf(document.activeElement as HTMLElement);
  const to = {
    ArrowRight: at + 1,
    ArrowDown: at + 1,
    ArrowLeft: at - 1,
    ArrowUp: at - 1,
    Home: 0,
    End: items.length - 1,
  }[event.key];
  if (at < 0 || to === undefined) return;
  event.preventDefault();
  const next = items[(to + items.length) % items.length];
  next?.focus();
  next?.click();
}

/** Copies a text; the button says so for a moment. */
export function Copy({ text, name, icon = "copy" }: { text: string; name: string; icon?: "copy" | "link" }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1200);
  };
  return (
    <button type="button" className="quiet small" aria-label={name} title={name} onClick={copy}>
      <Icon name={isCopied ? "check" : icon} />
    </button>
  );
}

/** Begins an assertion. */
export function AssertButton({ name, onClick }: { name: string; onClick: (() => void) | undefined }) {
  if (onClick === undefined) return null;
  return (
    <button type="button" className="assert" aria-label={name} title={name} onClick={onClick}>
      <Icon name="plus" /> Assert
    </button>
  );
}

/** What went wrong, where it happened, and a way on. */
export function Problem({ error, retry }: { error: unknown; retry?: () => void }) {
  const message = error instanceof Error ? error.message : String(error);
  const isMissing = error instanceof Refused && error.status === 404;
  // Some answers say what is missing, and some say nothing.
  const isNamed = isMissing && message !== sentence(undefined, error.status);
  const what = isNamed
    ? `${message[0].toUpperCase()}${message.slice(1)}.`
    : "There is nothing at this address.";
  return (
    <div className="problem" role="alert">
      <p>{isMissing ? `${what} It may have been removed.` : message}</p>
      {retry !== undefined && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** Something that takes longer than a moment. */
export function Loading() {
  return <div className="loading" aria-busy="true" />;
}

/** What a screen says that has nothing to show: the next step. */
export function Empty({ children }: { children: ReactNode }) {
  return <div className="empty">{children}</div>;
}

/** A command to copy. */
export function Command({ text }: { text: string }) {
  return (
    <div className="command">
      <code>{text}</code>
      <Copy text={text} name="Copy" />
    </div>
  );
}

/** Sets the title of the tab. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = title === "" ? "Qualitytrace" : `${title} · Qualitytrace`;
  }, [title]);
}
