/** Every request of the page, in its own words. */
import type { ColumnsAnswer } from "../trace/columns";
import { address } from "./address";
import { ask, client, type Shape, text } from "./client";

/** Where a trace is: on its own, or of a run. */
export type Source = { kind: "trace"; id: string } | { kind: "run"; test: string; run: number };

export interface Trial {
  specs: { name?: string; selector: string; assertions: string[] }[];
  outputs?: { name: string; selector: string; value: string }[];
}

const AUGMENTED = { "X-Tracetest-Augmented": "true" } as const;
const ofTrace = (source: { id: string }) => ({ path: { id: source.id } });
const ofRun = (source: { test: string; run: number }) => ({ path: { id: source.test, number: source.run } });

export const session = () => ask(client.GET("/api/session"));
export const signIn = (token: string) => ask(client.POST("/api/session", { body: { token } }));
export const signOut = () => ask(client.DELETE("/api/session"));
export const info = () => ask(client.GET("/api/info"));

export interface ListFilter {
  query?: string;
  take?: number;
  skip?: number;
  sortBy?: "created" | "name" | "last_run";
  sortDirection?: "asc" | "desc";
}
export interface TestFilter extends ListFilter {
  outcome?: string;
  trigger?: string;
  tag?: string;
}
export const tests = (filter: TestFilter = {}) =>
  ask(client.GET("/api/tests", { params: { query: filter, header: AUGMENTED } }));
/** Tests by name, without a summary of their runs. */
export const findTests = (query: string, take: number) =>
  ask(client.GET("/api/tests", { params: { query: { query, take, sortBy: "last_run" } } }));
export const tags = () => ask(client.GET("/api/tags"));
export const test = (id: string) =>
  ask(client.GET("/api/tests/{id}", { params: { path: { id }, header: AUGMENTED } }));
export const deleteTest = (id: string) => ask(client.DELETE("/api/tests/{id}", { params: { path: { id } } }));

export interface RunFilter {
  test?: string;
  outcome?: string;
  branch?: string;
  source?: string;
  take?: number;
  next?: string;
}
export const runs = (filter: RunFilter) =>
  ask(client.GET("/api/runs", { params: { query: { ...filter, take: filter.take ?? 50 } } }));
export const run = (test: string, number: number) =>
  ask(
    client.GET("/api/tests/{id}/run/{number}", {
      params: { path: { id: test, number }, query: { without: "trace,results,linter" } },
    }),
  );
export const verdict = (test: string, number: number) =>
  ask(client.GET("/api/tests/{id}/run/{number}/verdict", { params: { path: { id: test, number } } }));
export const events = (test: string, number: number) =>
  ask(client.GET("/api/tests/{id}/run/{number}/events", { params: { path: { id: test, number } } }));

export interface Variable {
  key: string;
  value: string;
  type?: "secret";
}
export const startRun = (test: string, variables: Variable[] = [], variableSetId?: string) =>
  ask(
    client.POST("/api/tests/{id}/run", {
      params: { path: { id: test } },
      body: { variables, variableSetId, metadata: { source: "web" } },
    }),
  );
export const stopRun = (test: string, number: number) =>
  ask(client.POST("/api/tests/{id}/run/{number}/stop", { params: { path: { id: test, number } } }));
export const judgeNow = (test: string, number: number) =>
  ask(client.POST("/api/tests/{id}/run/{number}/skipPolling", { params: { path: { id: test, number } } }));

export async function columns(
  source: Source,
  from: number,
  revision: string | undefined,
  signal: AbortSignal,
): Promise<ColumnsAnswer> {
  const query = from === 0 ? {} : { from: String(from), revision };
  if (source.kind === "trace") {
    return ask(client.GET("/api/traces/{id}/columns", { params: { ...ofTrace(source), query }, signal }));
  }
  const params = { ...ofRun(source), query };
  return ask(client.GET("/api/tests/{id}/run/{number}/trace/columns", { params, signal }));
}

/** A trace as OTLP JSON. */
export const otlpOfTrace = async (id: string) =>
  (await text(`/api/traces/${encodeURIComponent(id)}`, { headers: { Accept: "application/vnd.otlp+json" } }))
    .text;

/** Results of a run for continuous integration. */
export const junit = async (test: string, number: number) =>
  (await text(`/api/tests/${encodeURIComponent(test)}/run/${number}/junit.xml`, {})).text;

/** Stores the traces of a file of OTLP, Jaeger or Zipkin. */
export async function storeTraceFile(body: Blob): Promise<Shape<"ReceivedFile">> {
  const headers = { "Content-Type": "application/json", Accept: "application/json" };
  return JSON.parse((await text("/api/traces", { method: "POST", headers, body })).text);
}

export function span(source: Source, id: string) {
  if (source.kind === "trace") {
    return ask(
      client.GET("/api/traces/{id}/spans/{span}", { params: { path: { id: source.id, span: id } } }),
    );
  }
  const path = { id: source.test, number: source.run, span: id };
  return ask(client.GET("/api/tests/{id}/run/{number}/spans/{span}", { params: { path } }));
}

export function select(source: Source, body: { query: string } | { text: string }, signal?: AbortSignal) {
  if (source.kind === "trace") {
    return ask(client.POST("/api/traces/{id}/select", { params: ofTrace(source), body, signal }));
  }
  return ask(client.POST("/api/tests/{id}/run/{number}/select", { params: ofRun(source), body, signal }));
}

export function describe(source: Source, spanId: string, attribute?: string) {
  const body = { spanId, attribute };
  if (source.kind === "trace") {
    return ask(client.POST("/api/traces/{id}/describe", { params: ofTrace(source), body }));
  }
  return ask(client.POST("/api/tests/{id}/run/{number}/describe", { params: ofRun(source), body }));
}

export function dryRun(source: Source, body: Trial, signal?: AbortSignal) {
  if (source.kind === "trace") {
    return ask(client.POST("/api/traces/{id}/dry-run", { params: ofTrace(source), body, signal }));
  }
  return ask(client.POST("/api/tests/{id}/run/{number}/dry-run", { params: ofRun(source), body, signal }));
}

export const dryRunLast = (test: string, body: Trial, last = 10) =>
  ask(
    client.PUT("/api/tests/{id}/dry-run", {
      params: { path: { id: test }, query: { runs: String(last) } },
      body,
    }),
  );

export const complete = (
  text: string,
  at: number,
  form: "selector" | "assertion" | "expression" | "template" | "definition",
  source: Source | undefined,
  signal?: AbortSignal,
) => {
  const where =
    source === undefined
      ? {}
      : source.kind === "trace"
        ? { traceId: source.id }
        : { testId: source.test, run: source.run };
  return ask(client.POST("/api/language/complete", { body: { text, at, in: form, ...where }, signal }));
};

/** What is wrong with the text of a definition. */
export const checkDefinition = async (text: string, signal: AbortSignal) =>
  (await ask(client.POST("/api/language/check", { body: { text, in: "definition" }, signal }))).diagnostics;

/** A definition as its author wrote it, with the version to store it against; the newest, or the one with a number. */
export async function source(kind: "tests" | "testsuites" | "variablesets", id: string, version?: number) {
  const headers = { Accept: "text/yaml" };
  const wanted = version === undefined ? "" : `?version=${version}`;
  const found = await text(`/api/${kind}/${encodeURIComponent(id)}/source${wanted}`, { headers });
  return { text: found.text, etag: found.headers.get("ETag") ?? "*" };
}

/** The kinds of resources of which a server has one each. */
export type Single = "datastores" | "pollingprofiles" | "analyzers" | "testrunners";

/** A resource that exists once: as it was written, or with its defaults if it was never stored. */
export async function current(kind: Single) {
  const headers = { Accept: "text/yaml" };
  const shown = await text(`/api/${kind}/current`, { headers });
  const isWritten = shown.headers.get("ETag") !== '"0"';
  if (isWritten) {
    const found = await text(`/api/${kind}/current/source`, { headers });
    return { text: found.text, etag: found.headers.get("ETag") ?? "*" };
  }
  // Nobody has created the defaults: the time is that of the server's start, and no part of a definition.
  return { text: shown.text.replace(/^ *createdAt: .*\n?/m, ""), etag: shown.headers.get("ETag") ?? "*" };
}

/** Tries the connection to the data store that is in force, step by step. */
export async function testConnection() {
  const stored = await ask(client.GET("/api/datastores/{id}", { params: { path: { id: "current" } } }));
  return ask(client.POST("/api/config/connection", { body: stored.spec }));
}

/** Stores a definition; with a version, only if that is still the stored one. */
export async function store(
  kind: "tests" | "testsuites" | "variablesets" | Single,
  definition: string,
  id?: string,
  etag?: string,
) {
  const headers: HeadersInit = { "Content-Type": "text/yaml", Accept: "application/json" };
  if (etag !== undefined) headers["If-Match"] = etag;
  const path = id === undefined ? `/api/${kind}` : `/api/${kind}/${encodeURIComponent(id)}`;
  const answer = await text(path, { method: id === undefined ? "POST" : "PUT", headers, body: definition });
  const { spec } = JSON.parse(answer.text) as { spec: { id: string; version?: number | null } };
  const numbered = (tag: string | null | undefined) => Number((tag ?? "").replaceAll('"', ""));
  // Without a version in the answer, it is the one after the version that was replaced.
  const version = spec.version ?? (numbered(answer.headers.get("ETag")) || numbered(etag) + 1);
  return { id: spec.id, version, warning: answer.headers.get("X-Qualitytrace-Warning") };
}

/** Whether the server answers again. */
export const isAlive = () =>
  fetch(address("/healthz")).then(
    (answer) => answer.ok,
    () => false,
  );

export const editSource = (id: string, version: number, changes: Change[]) =>
  ask(client.POST("/api/tests/{id}/source/edit", { params: { path: { id } }, body: { version, changes } }));

export type Change =
  | { type: "addSpec"; spec: { name?: string | null; selector: string; assertions: string[] } }
  | { type: "addOutput"; output: { name: string; selector: string; value: string } }
  | { type: "changeSpec"; at: number; spec: { name?: string | null; selector: string; assertions: string[] } }
  | { type: "addAssertion"; spec: number; assertion: string };

/** Sends a trigger once; nothing is stored. */
export const tryTrigger = (trigger: object) =>
  ask(client.POST("/api/trigger/try", { body: { trigger: trigger as Record<string, unknown> } as never }));
/** What the server of a trigger offers. */
export const triggerMethods = (trigger: object) =>
  ask(
    client.POST("/api/trigger/methods", { body: { trigger: trigger as Record<string, unknown> } as never }),
  );

export interface TraceFilter {
  service?: string;
  name?: string;
  status?: string;
  minDuration?: string;
  maxDuration?: string;
  attribute?: string;
  take?: number;
  next?: string;
}
export const traces = (filter: TraceFilter) =>
  ask(client.GET("/api/traces", { params: { query: { ...filter, take: filter.take ?? 50 } } }));
export const testOfTrace = (id: string, spanId?: string) =>
  ask(client.POST("/api/traces/{id}/test", { params: { path: { id } }, body: { spanId } }));

export const compare = (a: string, b: string, only: boolean) =>
  ask(
    client.GET("/api/compare", {
      params: { query: { a, b, only: only ? "differences" : undefined, take: 5000 } },
    }),
  );

export const services = () => ask(client.GET("/api/services"));
export const ingestStatus = () => ask(client.GET("/api/ingest/status"));
export const telemetryStatus = () => ask(client.GET("/api/telemetry/status"));

export const suites = (filter: ListFilter & { tag?: string } = {}) =>
  ask(client.GET("/api/testsuites", { params: { query: filter, header: AUGMENTED } }));
export const findSuites = (query: string, take: number) =>
  ask(client.GET("/api/testsuites", { params: { query: { query, take, sortBy: "last_run" } } }));
export const suite = (id: string) =>
  ask(client.GET("/api/testsuites/{id}", { params: { path: { id }, header: AUGMENTED } }));
export const suiteRuns = (id: string) =>
  ask(client.GET("/api/testsuites/{id}/run", { params: { path: { id }, query: { take: 20 } } }));
export const suiteRun = (id: string, number: number) =>
  ask(client.GET("/api/testsuites/{id}/run/{number}", { params: { path: { id, number } } }));
export const suiteEvents = (id: string, number: number) =>
  ask(client.GET("/api/testsuites/{id}/run/{number}/events", { params: { path: { id, number } } }));
export type SuiteEvent = Awaited<ReturnType<typeof suiteEvents>>[number];
export const startSuite = (id: string, variables: Variable[] = [], variableSetId?: string) =>
  ask(
    client.POST("/api/testsuites/{id}/run", {
      params: { path: { id } },
      body: { variables, variableSetId },
    }),
  );

export const variableSets = (filter: { query?: string; take?: number; skip?: number } = {}) =>
  ask(
    client.GET("/api/variablesets", {
      params: { query: { ...filter, sortBy: "name", sortDirection: "asc" } },
    }),
  );
export const variableSet = (id: string) =>
  ask(client.GET("/api/variablesets/{id}", { params: { path: { id } } }));

export type Verdict = Shape<"RunVerdict">;
export type Spec = Shape<"ShortSpec">;
export type SpanDetail = Shape<"SpanDetail">;
export type RunSummary = Shape<"RunSummary">;
export type TestSpec = Shape<"TestSpec">;
export type TraceSummary = Shape<"TraceSummary">;
