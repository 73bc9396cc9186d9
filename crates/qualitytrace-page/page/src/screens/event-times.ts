/** When the events of spans were: asked for when the spans are in sight, because columns only say that there are some. */
import { useMemo, useRef, useState } from "react";
import { type Source, span } from "../api/requests";
import type { View } from "../trace/view";

/** How many spans are asked for at once, and after how long without a change of what is in sight. */
const AT_ONCE = 4;
const AFTER = 200;
/** Times of so many spans are kept. */
const MOST = 2000;

export function useEventTimes(source: Source, view: View) {
  const [times, setTimes] = useState<ReadonlyMap<string, readonly number[]>>(new Map());
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const ask = useMemo(() => {
    const asked = new Set<string>();
    return (rows: readonly number[]) => {
      const ids = rows.map((row) => view.trace.id(row)).filter((id) => !asked.has(id));
      clearTimeout(timer.current);
      if (ids.length === 0 || asked.size >= MOST) return;
      timer.current = setTimeout(async () => {
        const origin = BigInt(view.trace.origin);
        for (let at = 0; at < ids.length; at += AT_ONCE) {
          const some = ids.slice(at, at + AT_ONCE);
          for (const id of some) asked.add(id);
          const found = await Promise.allSettled(some.map((id) => span(source, id)));
          const known = found.flatMap((one, index): [string, number[]][] => {
            // A span that cannot be read is drawn without ticks.
            const events = one.status === "fulfilled" ? one.value.events : [];
            return [[some[index], events.map((event) => Number(BigInt(event.time) - origin))]];
          });
          setTimes((before) => new Map([...before, ...known]));
        }
      }, AFTER);
    };
  }, [source, view]);
  return { times, ask };
}
