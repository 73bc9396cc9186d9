/** A trace, wherever it is shown: search, minimap, waterfall and the selected span. */
import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { columns, type Source } from "../api/requests";
import type { Drawing } from "../draw/drawing";
import { Flame } from "../draw/flame";
import { Minimap } from "../draw/minimap";
import { Waterfall } from "../draw/waterfall";
import { counted, duration, readDuration } from "../text/format";
import { FLAG, KINDS, STATUSES } from "../trace/columns";
import { Follower } from "../trace/follower";
import { View } from "../trace/view";
import { Loading, onArrowKeys, Problem } from "../ui/parts";
import { onThemeChange } from "../ui/theme";
import { useEventTimes } from "./event-times";
import { useTyped } from "./filters";
import { type AssertTarget, MOST_LINKING, type SpanHead, SpanPanel, spanQuery } from "./span-panel";
import { TraceGraph } from "./trace-graph";
import { TraceSearch } from "./trace-search";
import { TraceTable } from "./trace-table";
import { useViewAddress, type ViewSearch } from "./view-address";

/** What of the view is in the address. */
export type TraceSearchParams = {
  span?: string;
  q?: string;
  only?: string;
  view?: string;
  /** Shorter spans are hidden, for example `1ms`. */
  min?: string;
} & ViewSearch;

/** The name of the span of the trigger. */
const TRIGGER = "Tracetest trigger";

const VIEWS = ["waterfall", "flame", "graph", "table"] as const;
type Kind = (typeof VIEWS)[number];

export interface TraceViewProps {
  source: Source;
  search: TraceSearchParams;
  onSearch: (change: TraceSearchParams, isTyping: boolean) => void;
  /** Changes when there may be new spans. */
  pulse?: number;
  /** Whether more spans are expected. */
  isLive?: boolean;
  /** The spans that failed assertions are about. */
  failedSpans?: readonly string[];
  onAssert?: (target: AssertTarget) => void;
}

export function TraceView(props: TraceViewProps) {
  const { source, search, onSearch, pulse, isLive = false, failedSpans, onAssert } = props;
  const key = source.kind === "trace" ? source.id : `${source.test}/${source.run}`;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the key says what the source is
  const follower = useMemo(() => new Follower((...asked) => columns(source, ...asked)), [key]);
  const version = useSyncExternalStore(follower.subscribe, follower.snapshot);
  const [view, setView] = useState<View>();
  const body = useRef<HTMLDivElement>(null);

  useEffect(() => () => follower.stop(), [follower]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each pulse asks for what is new
  useEffect(() => void follower.refresh(), [follower, pulse]);
  useEffect(() => {
    if (version === 0) return;
    setView((before) => {
      if (before?.trace === follower.trace) {
        before.sync();
        return before;
      }
      performance.mark("qt:data");
      return new View(follower.trace);
    });
  }, [follower, version]);

  const select = useCallback(
    (row: number) => {
      const id = row >= 0 && row < follower.trace.total ? follower.trace.id(row) : undefined;
      onSearch({ span: id }, true);
    },
    [follower, onSearch],
  );

  const wanted = search.span;
  const kind: Kind = VIEWS.find((one) => one === search.view) ?? "waterfall";
  // biome-ignore lint/correctness/useExhaustiveDependencies: the wanted span may be among the new ones
  useEffect(() => {
    if (view === undefined) return;
    const row = wanted === undefined ? -1 : view.trace.row(wanted);
    // A group or a placeholder has no address.
    if (row < 0 && view.selected >= view.tree.spans) return;
    if (row !== view.selected && (row >= 0 || wanted === undefined)) view.select(row);
  }, [view, wanted, version]);

  useViewAddress(view, search, onSearch);
  const shortest = readDuration(search.min ?? "") ?? 0;
  useEffect(() => view?.setShortest(shortest), [view, shortest]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: a failed span may be among the new ones
  useEffect(() => {
    view?.setMarks(view.trace.rowsOf(failedSpans ?? []));
  }, [view, failedSpans, version]);

  if (follower.error !== undefined && follower.trace.total === 0) {
    return <Problem error={follower.error} retry={() => follower.refresh()} />;
  }
  if (view === undefined) return <Loading />;
  if (follower.trace.total === 0) {
    return <p className="faint pad">{isLive ? "No span has arrived yet." : "This trace has no spans."}</p>;
  }
  return (
    <div className="trace">
      <TraceSearch
        source={source}
        view={view}
        version={isLive ? version : 0}
        query={search.q ?? ""}
        isOnly={search.only === "1"}
        onChange={(q, isOnly) => onSearch({ q: q || undefined, only: isOnly ? "1" : undefined }, true)}
        onAssert={onAssert}
      />
      <Toolbar
        view={view}
        version={version}
        kind={kind}
        min={search.min ?? ""}
        onKind={(next) => onSearch({ view: next }, false)}
        onMin={(min) => onSearch({ min: min || undefined }, true)}
      />
      <div className={wanted === undefined ? "trace-body" : "trace-body with-panel"} ref={body}>
        {kind === "waterfall" && (
          <Canvas
            source={source}
            view={view}
            isLive={isLive}
            onSelect={select}
            onEscape={() => onSearch({ span: undefined }, true)}
          />
        )}
        {kind === "flame" && <FlameView view={view} onSelect={select} />}
        {kind === "graph" && <TraceGraph view={view} version={version} selected={wanted} onSelect={select} />}
        {kind === "table" && (
          <TraceTable
            view={view}
            version={version}
            onSelect={select}
            onFind={(q) => onSearch({ q, view: undefined }, false)}
          />
        )}
        {wanted !== undefined && (
          <SpanPanel
            source={source}
            spanId={wanted}
            head={headOf(view, wanted)}
            ahead={view.ahead(view.trace.row(wanted))}
            linking={linkingSpans(view)}
            onShow={(span) => onSearch({ span }, false)}
            onClose={() => {
              body.current?.querySelector<HTMLElement>("[tabindex='0']")?.focus();
              onSearch({ span: undefined }, true);
            }}
            onAssert={onAssert}
          />
        )}
      </div>
    </div>
  );
}

/** What the columns say about a span. */
function headOf({ trace }: View, spanId: string): SpanHead | undefined {
  const row = trace.row(spanId);
  if (row < 0) return undefined;
  const isOpen = (trace.flags[row] & FLAG.open) !== 0;
  return {
    spanId,
    name: trace.nameOf(row),
    service: trace.serviceOf(row),
    kind: KINDS[trace.kind[row]],
    duration: String(trace.duration[row]),
    end: isOpen ? null : "",
    status: STATUSES[trace.status[row]],
    statusMessage: "",
  };
}

/** The first spans that have links. */
function linkingSpans({ trace }: View): string[] {
  const found: string[] = [];
  for (let row = 0; row < trace.total && found.length <= MOST_LINKING; row += 1)
    if ((trace.flags[row] & FLAG.links) !== 0) found.push(trace.id(row));
  return found;
}

/** Draws again when a switch of the view is flipped, here or in the picture. */
function useSwitches(view: View): void {
  const subscribe = useCallback((listener: () => void) => view.subscribe(listener), [view]);
  useSyncExternalStore(subscribe, () =>
    [view.isCriticalShown, view.isGrouped, view.isFolded, view.gap !== undefined].join(),
  );
}

/** The span of the trigger, which no service sent: it is not counted anywhere. */
function triggers({ total, name, names }: View["trace"]): number {
  for (let row = 0; row < Math.min(total, 50); row += 1) if (names[name[row]] === TRIGGER) return 1;
  return 0;
}

function Toolbar(props: {
  view: View;
  version: number;
  kind: Kind;
  min: string;
  onKind: (kind: Kind | undefined) => void;
  onMin: (min: string) => void;
}) {
  const { view, version, kind, min, onKind, onMin } = props;
  const { host } = useDrawing(Minimap, view);
  useSwitches(view);
  const { trace, tree } = view;
  const [shortest, setShortest] = useTyped(min, onMin);
  return (
    <div className="toolbar" data-version={version}>
      <div className="minimap" ref={host} />
      <div className="segments" role="radiogroup" aria-label="View" onKeyDown={onArrowKeys}>
        {VIEWS.map((one) => (
          <button
            key={one}
            type="button"
            role="radio"
            aria-checked={one === kind}
            onClick={() => onKind(one === "waterfall" ? undefined : one)}
          >
            {one[0].toUpperCase() + one.slice(1)}
          </button>
        ))}
      </div>
      <div className="buttons">
        <span className="faint summary">
          {counted(trace.total - triggers(trace), "span")} · {counted(trace.services.length, "service")} ·{" "}
          {duration(tree.to - tree.from)}
        </span>
        <button type="button" className="quiet" onClick={() => view.collapseAll(true)}>
          Collapse all
        </button>
        <button type="button" className="quiet" onClick={() => view.collapseAll(false)}>
          Expand all
        </button>
        <Switch
          name="Critical path"
          isOn={view.isCriticalShown}
          onFlip={() => view.showCritical(!view.isCriticalShown)}
        />
        <Switch name="Group equal" isOn={view.isGrouped} onFlip={() => view.setGrouped(!view.isGrouped)} />
        {view.gap !== undefined && (
          <Switch name="Fold gaps" isOn={view.isFolded} onFlip={() => view.setFolded(!view.isFolded)} />
        )}
        <input
          type="search"
          className="shortest"
          aria-label="Hide shorter than"
          title="Hide spans that are shorter, for example 1ms"
          placeholder="hide < 1ms"
          aria-invalid={shortest !== "" && readDuration(shortest) === undefined}
          value={shortest}
          onChange={(event) => setShortest(event.target.value)}
        />
        <button type="button" className="quiet" onClick={() => view.setZoom(tree.from, tree.to)}>
          Reset zoom
        </button>
      </div>
    </div>
  );
}

function Switch({ name, isOn, onFlip }: { name: string; isOn: boolean; onFlip: () => void }) {
  return (
    <button type="button" role="switch" className="switch" aria-checked={isOn} onClick={onFlip}>
      {name}
    </button>
  );
}

/** A drawing in an element of its own, as long as the view is shown. */
function useDrawing<Kind extends Drawing>(Made: new (host: HTMLElement) => Kind, view: View) {
  const host = useRef<HTMLDivElement>(null);
  const drawing = useRef<Kind>(undefined);
  useEffect(() => {
    const made = new Made(host.current!);
    drawing.current = made;
    made.show(view);
    const leave = onThemeChange(() => made.schedule());
    return () => {
      leave();
      made.destroy();
    };
  }, [Made, view]);
  return { host, drawing };
}

function FlameView({ view, onSelect }: { view: View; onSelect: (row: number) => void }) {
  const { host, drawing: flame } = useDrawing(Flame, view);
  useEffect(() => {
    if (flame.current !== undefined) flame.current.onSelect = onSelect;
  });
  return <div className="flame" ref={host} />;
}

function Canvas(props: {
  source: Source;
  view: View;
  isLive: boolean;
  onSelect: (row: number) => void;
  onEscape: () => void;
}) {
  const { source, view, isLive, onSelect, onEscape } = props;
  const events = useEventTimes(source, view);
  const queries = useQueryClient();
  const { host, drawing: waterfall } = useDrawing(Waterfall, view);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each view is measured
  useEffect(() => {
    performance.mark("qt:rows");
    requestAnimationFrame(() => requestAnimationFrame(() => performance.mark("qt:ready")));
  }, [view]);
  useEffect(() => {
    const made = waterfall.current;
    if (made === undefined) return;
    made.onSelect = onSelect;
    // The details are on their way before the button of the mouse comes up.
    made.onPress = (row) => {
      if (view.isSpan(row)) void queries.prefetchQuery(spanQuery(source, view.trace.id(row)));
    };
    made.onOpen = onSelect;
    made.onEscape = onEscape;
    made.onEvents = events.ask;
    made.eventTimes = events.times;
    made.texts = {
      missing: (id) => `parent ${id.slice(0, 8)} ${isLive ? "is not here yet" : "never came"}`,
    };
    made.schedule();
  });
  return (
    <div className="waterfall">
      <div className="wf-head" aria-hidden="true">
        <span className="wf-name">Span</span>
        <span className="wf-service">Service</span>
        <span className="wf-duration">Duration</span>
      </div>
      <div className="wf-host" ref={host} />
    </div>
  );
}
