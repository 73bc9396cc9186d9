/** Columns for tests. */
import { type ColumnsAnswer, Trace } from "./columns";

/** A span of a sample. Without a parent it is a root; other numbers that are left out are 0. */
export interface SampleSpan {
  parent?: number;
  start?: number;
  duration?: number;
  /** An index into the names or services of the sample. */
  name?: number;
  service?: number;
  status?: number;
}

/** An answer of the API with these spans. The id of a span is its row. */
export function sample(spans: readonly SampleSpan[], more: Partial<ColumnsAnswer> = {}): ColumnsAnswer {
  const { from = 0 } = more;
  const column = (of: (span: SampleSpan) => number | undefined) => spans.map((span) => of(span) ?? 0);
  return {
    traceId: "t",
    revision: String(from),
    from,
    total: from + spans.length,
    origin: "0",
    names: ["first", "second", "third"],
    services: ["s"],
    ids: spans.map((_, index) => (from + index).toString(16).padStart(16, "0")).join(""),
    parent: spans.map(({ parent = -1 }) => parent),
    orphans: [],
    adopted: [],
    name: column(({ name }) => name),
    service: column(({ service }) => service),
    kind: column(() => 0),
    status: column(({ status }) => status),
    flags: column(() => 0),
    start: column(({ start }) => start),
    duration: column(({ duration }) => duration),
    ...more,
  };
}

/** The trace that takes these answers, one after the other. */
export function traceOf(...answers: readonly ColumnsAnswer[]): Trace {
  const trace = new Trace();
  for (const one of answers) trace.take(one);
  return trace;
}
