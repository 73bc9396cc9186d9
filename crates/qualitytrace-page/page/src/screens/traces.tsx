/** What arrived, newest first: `/traces`. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { type TraceSummary, traces } from "../api/requests";
import { follow } from "../api/stream";
import { count, counted } from "../text/format";
import { Icon } from "../ui/glyphs";
import { Ago, Duration, Loading, Problem, useSettled, useTitle } from "../ui/parts";
import { setConnected } from "./connection";
import { DurationHistogram } from "./duration-histogram";
import { Filters } from "./filters";
import { FirstMinutes } from "./first-minutes";
import { Header } from "./header";
import { useMayChange } from "./may-change";
import { useSearchChange } from "./search";
import { FileButton, FileProblems, useTraceFiles } from "./trace-files";

const FILTERS = [
  { name: "service", label: "Service", hint: "service" },
  { name: "name", label: "Name", hint: "name" },
  { name: "minDuration", label: "Longer than", hint: "longer than, e.g. 200ms" },
  { name: "maxDuration", label: "Shorter than", hint: "shorter than, e.g. 2s" },
  { name: "attribute", label: "Attribute", hint: "attribute, e.g. http.route=/cart" },
  { name: "status", label: "Status", any: "any status", options: ["ok", "error", "unset"] },
] as const;

export function TracesScreen() {
  const search = useSearch({ from: "/traces" });
  const change = useSearchChange();
  const [isPaused, setPaused] = useState(false);
  const [arrived, setArrived] = useState(0);
  const filter = useSettled(search, 250);
  const mayChange = useMayChange();
  const files = useTraceFiles();
  useTitle("Traces");
  const found = useInfiniteQuery({
    queryKey: ["traces", filter],
    queryFn: ({ pageParam }) => traces({ ...filter, next: pageParam }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
    placeholderData: (before) => before,
  });
  const { refetch } = found;
  useEffect(
    () =>
      follow(
        "/api/traces/stream",
        (data) => {
          const { what, spans } = data as { what: string; spans?: number };
          if (what === "arrived") setArrived((before) => before + (spans ?? 0));
        },
        (connection) => setConnected(connection !== "lost"),
        1000,
      ),
    [],
  );
  // biome-ignore lint/correctness/useExhaustiveDependencies: arrivals make the list old
  useEffect(() => {
    if (isPaused) return;
    const timer = setTimeout(() => void refetch(), 300);
    return () => clearTimeout(timer);
  }, [arrived, isPaused, refetch]);
  const items = found.data?.pages.flatMap((page) => page.items) ?? [];
  const isFiltered = Object.keys(search).length > 0;
  if (found.isSuccess && items.length === 0 && !isFiltered)
    return (
      <div className="drop" {...(mayChange ? files.target : {})}>
        <FirstMinutes />
        <FileProblems files={files} />
        {mayChange && (
          <p className="pad faint">
            or look at a file of traces: <FileButton files={files} />
          </p>
        )}
      </div>
    );
  return (
    <div className="drop" {...(mayChange ? files.target : {})}>
      <Header
        title="Traces"
        state={arrived > 0 && <span className="faint number">{counted(arrived, "span")} since you look</span>}
      >
        {mayChange && <FileButton files={files} />}
        <button type="button" aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
          {isPaused ? "Resume" : "Pause"}
        </button>
      </Header>
      <FileProblems files={files} />
      <Filters name="Filter traces" filters={FILTERS} search={search} />
      {found.isPending && <Loading />}
      {found.isError && <Problem error={found.error} retry={() => found.refetch()} />}
      {found.isSuccess && items.length === 0 && <p className="faint pad">No trace matches these filters.</p>}
      <DurationHistogram
        durations={items.map((trace) => trace.duration)}
        onChoose={(minDuration, maxDuration) => change({ minDuration, maxDuration }, false)}
      />
      {items.length > 0 && <Table items={items} />}
      {found.hasNextPage && (
        <p className="pad">
          <button type="button" onClick={() => found.fetchNextPage()}>
            More traces
          </button>
        </p>
      )}
    </div>
  );
}

function Table({ items }: { items: TraceSummary[] }) {
  return (
    <div className="scroll">
      <table className="list" aria-label="Traces">
        <thead>
          <tr>
            <th>Trace</th>
            <th>Service</th>
            <th className="right">Spans</th>
            <th className="right">Services</th>
            <th className="right">Duration</th>
            <th>Began</th>
            <th className="narrow" aria-label="Actions" />
          </tr>
        </thead>
        <tbody>
          {items.map((trace) => (
            <tr key={trace.traceId}>
              <th scope="row">
                <span className="with-glyph">
                  {trace.status === "error" ? (
                    <i className="wf-mark error" title="has an error" />
                  ) : (
                    <span className="glyph" />
                  )}
                  <Link to="/trace/$id" params={{ id: trace.traceId }}>
                    {trace.name || "(no name)"}
                  </Link>
                  <span className="faint mono trigger">{trace.traceId.slice(0, 8)}</span>
                </span>
              </th>
              <td>{trace.service}</td>
              <td className="right number">{count(trace.spans)}</td>
              <td className="right number" title={trace.services.join(", ")}>
                {trace.services.length}
              </td>
              <td className="right">
                <Duration ns={trace.duration} />
              </td>
              <td>
                <Ago at={trace.startTime} />
              </td>
              <td>
                <Link
                  className="button quiet"
                  to="/test/create"
                  search={{ trace: trace.traceId } as never}
                  aria-label="Make a test"
                  title="Make a test of it"
                >
                  <Icon name="plus" />
                </Link>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
