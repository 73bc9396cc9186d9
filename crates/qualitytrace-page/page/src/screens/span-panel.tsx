/** One span in full. */
import { queryOptions, useQueries, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useEffect, useState } from "react";
import { type Source, type SpanDetail, span } from "../api/requests";
import { convention } from "../text/conventions";
import { counted, duration, nanoseconds, shown } from "../text/format";
import { Icon } from "../ui/glyphs";
import { AssertButton, Copy, Loading, onArrowKeys, Problem } from "../ui/parts";

type Attribute = SpanDetail["attributes"][number];
const TABS = ["Attributes", "Events", "Links", "Logs", "Raw"] as const;

/** What an assertion is wanted about. */
export interface AssertTarget {
  /** The span; not needed where a selector is given. */
  spanId?: string;
  attribute?: string;
  label: string;
  selector?: string;
  /** An assertion to begin with, instead of the one that fits the attribute. */
  proposal?: { left: string; comparator: string; expected: string; type: string };
}

/** Details that were asked for so many milliseconds ago are not asked for again. */
const FRESH = 10_000;

/** The request for a span in full. */
export const spanQuery = (source: Source, id: string) =>
  queryOptions({ queryKey: ["span", source, id], queryFn: () => span(source, id), staleTime: FRESH });

/** What is known of a span before its details have come. */
export type SpanHead = Pick<
  SpanDetail,
  "spanId" | "name" | "service" | "kind" | "duration" | "end" | "status" | "statusMessage"
>;

export function SpanPanel(props: {
  source: Source;
  spanId: string;
  /** Undefined for a span that has not arrived. */
  head: SpanHead | undefined;
  /** How many nanoseconds it starts before its parent. */
  ahead: number;
  /** The spans of this trace that have links. */
  linking: readonly string[];
  onShow: (spanId: string) => void;
  onClose: () => void;
  onAssert?: (target: AssertTarget) => void;
}) {
  const { source, spanId, ahead, linking, onShow, onClose, onAssert } = props;
  const [tab, setTab] = useState<(typeof TABS)[number]>("Attributes");
  const [filter, setFilter] = useState("");
  const detail = useQuery(spanQuery(source, spanId));
  const it = detail.data;
  const head = it ?? props.head;
  useEffect(() => {
    if (it?.spanId === spanId) performance.mark("qt:details");
  }, [it, spanId]);
  return (
    <aside className="panel" aria-label="Span details">
      {detail.isError && <Problem error={detail.error} retry={() => detail.refetch()} />}
      {head === undefined && detail.isPending && <Loading />}
      {head !== undefined && (
        <>
          <header className="panel-head">
            <h2>{shown(head.name, 300)}</h2>
            <Copy text={permalink(head.spanId)} name="Copy link to this span" icon="link" />
            <button type="button" className="quiet small" aria-label="Close details" onClick={onClose}>
              <Icon name="close" />
            </button>
          </header>
          <Facts it={head} ahead={ahead} onAssert={onAssert}>
            {it !== undefined && <Dropped it={it} />}
          </Facts>
          <div className="tabs small" role="tablist" aria-label="Span" onKeyDown={onArrowKeys}>
            {TABS.map((name) => (
              <button
                key={name}
                type="button"
                role="tab"
                aria-selected={tab === name}
                onClick={() => setTab(name)}
              >
                {name} {it !== undefined && badge(it, name)}
              </button>
            ))}
          </div>
          <div className="panel-body">
            {tab === "Attributes" && (
              <>
                <input
                  type="search"
                  className="filter"
                  aria-label="Filter attributes"
                  placeholder="Filter attributes"
                  value={filter}
                  onChange={(event) => setFilter(event.target.value)}
                />
                {it !== undefined && <Attributes it={it} filter={filter} onAssert={onAssert} />}
              </>
            )}
            {tab === "Events" && it !== undefined && <Events it={it} />}
            {tab === "Links" && it !== undefined && (
              <Links it={it} source={source} linking={linking} onShow={onShow} />
            )}
            {tab === "Logs" && it !== undefined && <Logs it={it} />}
            {tab === "Raw" && it !== undefined && (
              <pre className="raw">{JSON.stringify(it, null, 2).slice(0, 200_000)}</pre>
            )}
          </div>
        </>
      )}
    </aside>
  );
}

function Facts(props: {
  it: SpanHead;
  ahead: number;
  onAssert?: (target: AssertTarget) => void;
  children: ReactNode;
}) {
  const { it, ahead, onAssert, children } = props;
  const length = nanoseconds(it.duration) ?? 0;
  return (
    <dl className="facts">
      <dt>Service</dt>
      <dd>{shown(it.service, 200) || "none"}</dd>
      <dt>Kind</dt>
      <dd>{it.kind}</dd>
      <dt>Duration</dt>
      <dd>
        {it.end === null ? "not ended" : duration(length)}
        {onAssert !== undefined && (
          <AssertButton
            name="Assert duration"
            onClick={() =>
              onAssert({ spanId: it.spanId, attribute: "tracetest.span.duration", label: "duration" })
            }
          />
        )}
      </dd>
      {it.status !== "unset" && (
        <>
          <dt>Status</dt>
          <dd className={it.status === "error" ? "bad" : undefined}>
            {it.status} {shown(it.statusMessage, 500)}
          </dd>
        </>
      )}
      {ahead > 0 && (
        <>
          <dt>Clock</dt>
          <dd className="inconclusive">
            starts {duration(ahead)} before its parent: the clocks of their machines may differ. It is drawn
            as it was sent.
          </dd>
        </>
      )}
      {children}
      <dt>Span id</dt>
      <dd className="mono">
        {it.spanId.slice(0, 8)} <Copy text={it.spanId} name="Copy span id" />
      </dd>
    </dl>
  );
}

/** What the sender of a span left out. */
function Dropped({ it }: { it: SpanDetail }) {
  if (it.droppedAttributes + it.droppedEvents + it.droppedLinks === 0) return null;
  return (
    <>
      <dt>Dropped</dt>
      <dd className="inconclusive">
        by its sender: {counted(it.droppedAttributes, "attribute")}, {counted(it.droppedEvents, "event")},{" "}
        {counted(it.droppedLinks, "link")}
      </dd>
    </>
  );
}

function badge(it: SpanDetail, tab: (typeof TABS)[number]) {
  const size = {
    Attributes: it.attributes.length + it.resource.attributes.length + it.scope.attributes.length,
    Events: it.events.length,
    Links: it.links.length,
    Logs: it.logCount,
    Raw: 0,
  }[tab];
  return size > 0 ? <span className="badge">{size}</span> : null;
}

function Attributes(props: { it: SpanDetail; filter: string; onAssert?: (target: AssertTarget) => void }) {
  const { it, filter, onAssert } = props;
  const scope = [it.scope.name, it.scope.version].filter((part) => part !== "").join(" ");
  const parts: [string, Attribute[], boolean][] = [
    ["Span", it.attributes, true],
    ["Resource", it.resource.attributes, true],
    [scope === "" ? "Scope" : `Scope ${shown(scope, 100)}`, it.scope.attributes, false],
  ];
  const wanted = filter.toLowerCase();
  const [pointed, setPointed] = useState("");
  const isWanted = (one: Attribute) => `${one.key} ${text(one.value)}`.toLowerCase().includes(wanted);
  return (
    <>
      <table className="attributes" aria-label="Attributes">
        {parts.map(([title, attributes, canAssert]) => {
          const rows = attributes.filter(isWanted);
          if (rows.length === 0) return null;
          return (
            <tbody key={title}>
              <tr>
                <th colSpan={2} scope="rowgroup">
                  {title}
                </th>
              </tr>
              {rows.map((one) => (
                <tr
                  key={one.key}
                  onMouseEnter={() => setPointed(one.key)}
                  onFocus={() => setPointed(one.key)}
                >
                  <th scope="row" title={one.key}>
                    {shown(one.key, 200)}
                  </th>
                  <td>
                    <Value attribute={one} />
                    <span className="actions">
                      <Copy text={text(one.value)} name={`Copy ${one.key}`} />
                      {canAssert && onAssert !== undefined && (
                        <AssertButton
                          name={`Assert ${one.key}`}
                          onClick={() => onAssert({ spanId: it.spanId, attribute: one.key, label: one.key })}
                        />
                      )}
                    </span>
                  </td>
                </tr>
              ))}
            </tbody>
          );
        })}
      </table>
      <p className="meaning" aria-live="polite">
        {about(pointed) || " "}
      </p>
    </>
  );
}

/** What the conventions say about an attribute. */
function about(name: string): string {
  const { meaning, aliases } = convention(name);
  const known = aliases.length > 0 ? `Also found as ${aliases.join(", ")}.` : undefined;
  return [meaning, known].filter((one) => one !== undefined).join(" ");
}

/** The text of a value. */
export function text(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

const LONG = 300;

function Value({ attribute }: { attribute: Attribute }) {
  const [isWhole, setWhole] = useState(false);
  const full = pretty(text(attribute.value));
  const isLong = full.length > LONG || full.includes("\n");
  return (
    <>
      <code className={`value ${attribute.type}`} title={attribute.type}>
        {shown(full, isWhole ? 100_000 : LONG)}
      </code>
      {isLong && full.length > LONG && (
        <button type="button" className="link" onClick={() => setWhole(!isWhole)}>
          {isWhole ? "less" : `all ${full.length} characters`}
        </button>
      )}
    </>
  );
}

/** JSON is set out over lines. */
function pretty(value: string): string {
  if (value.length > 100_000 || !/^\s*[[{]/.test(value)) return value;
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    return value;
  }
}

function Pairs({ attributes }: { attributes: Attribute[] }) {
  return (
    <dl className="pairs">
      {attributes.map((one) => (
        <div key={one.key}>
          <dt>{shown(one.key, 200)}</dt>
          <dd>
            <Value attribute={one} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Events({ it }: { it: SpanDetail }) {
  if (it.events.length === 0) return <p className="faint pad">This span has no events.</p>;
  const start = BigInt(it.start);
  return it.events.map((event, index) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: events have no id, and never change their order
    <section className="entry" key={index}>
      <h3>
        {shown(event.name, 200)}{" "}
        <span className="faint">{duration(Number(BigInt(event.time) - start))} after its start</span>
      </h3>
      <Pairs attributes={event.attributes} />
    </section>
  ));
}

/** The address of a span, without what else is in the address of the view. */
function permalink(spanId: string): string {
  return `${location.origin}${location.pathname}?span=${spanId}`;
}

function Links(props: {
  it: SpanDetail;
  source: Source;
  linking: readonly string[];
  onShow: (spanId: string) => void;
}) {
  const { it, source, linking, onShow } = props;
  const { from, isPending } = useLinkedFrom(it, source, linking);
  return (
    <>
      {it.links.length === 0 && <p className="faint pad">This span links to no other.</p>}
      {it.links.map((link) => (
        <section className="entry" key={`${link.traceId}${link.spanId}`}>
          <h3 className="mono">
            {link.traceId === it.traceId ? (
              <button type="button" className="link" onClick={() => onShow(link.spanId)}>
                {link.spanId.slice(0, 8)} in this trace
              </button>
            ) : (
              <Link to="/trace/$id" params={{ id: link.traceId }} search={{ span: link.spanId }}>
                {link.traceId.slice(0, 8)} / {link.spanId.slice(0, 8)}
              </Link>
            )}
          </h3>
          <Pairs attributes={link.attributes} />
        </section>
      ))}
      {(from.length > 0 || isPending) && <h3 className="pad">Linked from</h3>}
      {from.map((one) => (
        <section className="entry" key={one.spanId}>
          <button type="button" className="link" onClick={() => onShow(one.spanId)}>
            {shown(one.name, 200)}
          </button>{" "}
          <span className="faint">{shown(one.service, 100)}</span>
        </section>
      ))}
    </>
  );
}

/** Spans with links that are asked for when the links to one of them are looked at. */
export const MOST_LINKING = 50;

/** The spans of this trace that link to a span. Columns say which have links, and details say where they lead. */
function useLinkedFrom(it: SpanDetail, source: Source, linking: readonly string[]) {
  const asked = useQueries({
    queries: linking
      .filter((id) => id !== it.spanId)
      .slice(0, MOST_LINKING)
      .map((id) => spanQuery(source, id)),
  });
  const leadsHere = (link: SpanDetail["links"][number]) =>
    link.traceId === it.traceId && link.spanId === it.spanId;
  return {
    from: asked.flatMap(({ data }) => (data?.links.some(leadsHere) ? [data] : [])),
    isPending: asked.some((one) => one.isPending),
  };
}

function Logs({ it }: { it: SpanDetail }) {
  if (it.logs.length === 0) return <p className="faint pad">No log record names this span.</p>;
  const start = BigInt(it.start);
  return it.logs.map((log, index) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: log records have no id, and never change their order
    <section className="entry" key={index}>
      <h3>
        {log.severityText || log.eventName || "log"}{" "}
        <span className="faint">{duration(Number(BigInt(log.time) - start))} after its start</span>
      </h3>
      <p className="mono">{shown(text(log.body.value), 2000)}</p>
      <Pairs attributes={log.attributes} />
    </section>
  ));
}
