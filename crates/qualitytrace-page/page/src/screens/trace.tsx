/** A trace on its own: `/trace/ID`. */
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useEffect, useMemo, useState } from "react";
import { follow } from "../api/stream";
import { Copy, useTitle } from "../ui/parts";
import { Header } from "./header";
import { useSearchChange } from "./search";
import { TraceView } from "./trace-view";

export function TraceScreen() {
  const { id } = useParams({ from: "/trace/$id" });
  const search = useSearch({ from: "/trace/$id" });
  const navigate = useNavigate();
  const onSearch = useSearchChange();
  const source = useMemo(() => ({ kind: "trace", id }) as const, [id]);
  const pulse = useArrivals(id);
  useTitle(`Trace ${id.slice(0, 8)}`);
  return (
    <>
      <Header path={[{ name: "Traces", to: "/traces" }]} title={`Trace ${id.slice(0, 8)}`}>
        <Copy text={id} name="Copy trace id" />
        <button
          type="button"
          onClick={() => navigate({ to: "/test/create", search: { trace: id, span: search.span } })}
        >
          Make a test
        </button>
      </Header>
      <TraceView source={source} search={search} onSearch={onSearch} pulse={pulse} />
    </>
  );
}

/** After how many milliseconds a stream that the server has ended is asked for again. */
const AGAIN = 1000;

/** Counts the arrivals of spans of a trace. */
function useArrivals(id: string): number {
  const [pulse, setPulse] = useState(0);
  useEffect(
    () =>
      follow(
        "/api/traces/stream",
        (data) => {
          const { traces } = data as { traces?: { traceId: string }[] };
          if (traces?.some((one) => one.traceId === id)) setPulse((before) => before + 1);
        },
        () => {},
        AGAIN,
      ),
    [id],
  );
  return pulse;
}
