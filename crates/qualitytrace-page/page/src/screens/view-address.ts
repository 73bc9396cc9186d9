/** The zoom of a trace and the span that it is focused on, in the address: a link shows the same picture again. */
import { useEffect, useRef } from "react";
import type { View } from "../trace/view";

export type ViewSearch = {
  /** Nanoseconds from the start of the trace. */
  from?: string;
  to?: string;
  /** A span whose subtree is shown alone. */
  focus?: string;
};

/** How long the view must stand still before it is written. */
const AFTER = 250;

export function useViewAddress(
  view: View | undefined,
  search: ViewSearch,
  onSearch: (change: ViewSearch, isTyping: boolean) => void,
): void {
  const latest = useRef({ search, onSearch });
  useEffect(() => {
    latest.current = { search, onSearch };
  });
  useEffect(() => {
    if (view === undefined) return;
    read(view, latest.current.search);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const write = () => {
      const known = latest.current.search;
      const found = written(view);
      if (found.from === known.from && found.to === known.to && found.focus === known.focus) return;
      latest.current.onSearch(found, true);
    };
    const leave = view.subscribe(() => {
      clearTimeout(timer);
      timer = setTimeout(write, AFTER);
    });
    return () => {
      leave();
      clearTimeout(timer);
    };
  }, [view]);
}

/** Arranges a view as an address says. */
function read(view: View, { from, to, focus }: ViewSearch): void {
  const row = focus === undefined ? -1 : view.trace.row(focus);
  if (row >= 0) view.setFocus(row);
  const [begin, end] = [Number(from ?? Number.NaN), Number(to ?? Number.NaN)];
  if (end > begin) view.setZoom(view.tree.from + begin, view.tree.from + end);
}

/** What an address says about a view. */
function written(view: View): ViewSearch {
  const { zoom, tree } = view;
  const offset = (moment: number) => String(Math.round(moment - tree.from));
  return {
    from: zoom && offset(zoom.from),
    to: zoom && offset(zoom.to),
    focus: view.isSpan(view.focus) ? view.trace.id(view.focus) : undefined,
  };
}
