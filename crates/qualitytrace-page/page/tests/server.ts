/** Starts the real program, and fails a test whose page complains or asks another origin for something. */
import { type ChildProcess, spawn } from "node:child_process";
import { test as base, expect, type Locator, type Page } from "@playwright/test";

const PROGRAM =
  process.env.QUALITYTRACE_PROGRAM ??
  new URL("../../../../target/debug/qualitytrace", import.meta.url).pathname;
const DEADLINE = 30_000;

export interface Server {
  url: string;
  token: string | undefined;
  /** Where the demo's shop is. */
  shop: string;
  /** Asks the API for something. */
  api: (path: string, request?: RequestInit) => Promise<Response>;
  /** Sends spans. */
  send: (spans: Span[], service?: string) => Promise<void>;
  stop: () => Promise<void>;
  /** Ends it without a warning, as a crash does. */
  kill: () => Promise<void>;
}

export interface Span {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind?: number;
  /** Milliseconds from a moment that all spans share. */
  start?: number;
  length?: number;
  attributes?: Record<string, string | number>;
  status?: { code: number };
  /** Events, with milliseconds after the start of the span. */
  events?: { name: string; after: number }[];
  links?: { traceId: string; spanId: string }[];
}

const EPOCH = BigInt(Date.now()) * 1_000_000n;

/** Runs the program and waits until its output matches. */
async function start(
  args: string[],
  ready: RegExp,
): Promise<{ child: ChildProcess; found: RegExpExecArray; said: string }> {
  const child = spawn(PROGRAM, args, { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      child.kill();
      reject(new Error(`\`${args.join(" ")}\` did not say ${ready} in time:\n${said}`));
    }, DEADLINE);
    const hear = (bytes: Buffer) => {
      said += bytes.toString();
      const found = ready.exec(said);
      if (found === null) return;
      clearTimeout(timer);
      resolve({ child, found, said });
    };
    child.stdout?.on("data", hear);
    child.stderr?.on("data", hear);
    child.on("exit", (code) => reject(new Error(`\`${args.join(" ")}\` ended with ${code}:\n${said}`)));
  });
}

function server(child: ChildProcess, url: string, token: string | undefined, shop: string): Server {
  const authorization: Record<string, string> =
    token === undefined ? {} : { authorization: `Bearer ${token}` };
  const api = (path: string, request: RequestInit = {}) =>
    fetch(url + path, { ...request, headers: { ...authorization, ...(request.headers as object) } });
  const send = async (spans: Span[], service = "shop") => {
    const value = (one: string | number) =>
      typeof one === "number" ? { intValue: one } : { stringValue: one };
    const attributes = (all: Record<string, string | number>) =>
      Object.entries(all).map(([key, one]) => ({ key, value: value(one) }));
    const nanoseconds = (at: number) => String(EPOCH + BigInt(at) * 1_000_000n);
    const body = {
      resourceSpans: [
        {
          resource: { attributes: attributes({ "service.name": service }) },
          scopeSpans: [
            {
              spans: spans.map(({ start: from = 0, length = 10, attributes: own = {}, events, ...span }) => ({
                kind: 1,
                ...span,
                startTimeUnixNano: nanoseconds(from),
                endTimeUnixNano: nanoseconds(from + length),
                attributes: attributes(own),
                events: (events ?? []).map(({ name, after }) => ({
                  name,
                  timeUnixNano: nanoseconds(from + after),
                })),
              })),
            },
          ],
        },
      ],
    };
    const answer = await fetch(`${url}/v1/traces`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    expect(answer.status, await answer.text()).toBe(200);
  };
  const end = (signal: "SIGTERM" | "SIGKILL") =>
    new Promise<void>((resolve) => {
      child.removeAllListeners("exit");
      if (child.exitCode !== null || child.signalCode !== null) return resolve();
      child.on("exit", () => resolve());
      child.kill(signal);
    });
  return { url, token, shop, api, send, stop: () => end("SIGTERM"), kill: () => end("SIGKILL") };
}

/** An empty server. */
export const serve = (...more: string[]) => serveAt("0", "sqlite::memory:", more);

/** A server at a port, with a database. */
export async function serveAt(port: string, database: string, more: string[] = []): Promise<Server> {
  const args = [
    "serve",
    "--database-url",
    database,
    "--server.httpPort",
    port,
    "--otlp-grpc-addr",
    "off",
    "--otlp-http-addr",
    "off",
  ];
  const { child, found } = await start([...args, ...more], /Page\s+(http\S+)/);
  return server(child, found[1], undefined, "");
}

/** Works with an empty server that has these settings, and ends it. */
export async function withServer(
  work: (server: Server) => Promise<void>,
  ...settings: string[]
): Promise<void> {
  const server = await serve(...settings);
  try {
    await work(server);
  } finally {
    await server.stop();
  }
}

/** The id of the span with this number. */
export const spanId = (number: number) => number.toString(16).padStart(16, "0");

/** The demo shop with a bug, and two runs of each of its tests. */
export async function demo(): Promise<Server> {
  const args = ["demo", "--keep", "--break", "n-plus-one-queries", "--repeat", "2"];
  const { child, found, said } = await start(
    args,
    /Open the page\s+(http:\/\/[^/\s]+)\/login#token=(\S+)[\s\S]*See a bug/,
  );
  return server(child, found[1], found[2], /curl (http\S+)\/products/.exec(said)?.[1] ?? "");
}

/** What a page must not do: complain, or ask another origin for something. */
export function watch(page: Page, allowed: RegExp = /^$/): string[] {
  const complaints: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" && !allowed.test(message.text())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("request", (request) => {
    const { hostname, protocol } = new URL(request.url());
    if (hostname !== "127.0.0.1" && !["data:", "blob:"].includes(protocol))
      complaints.push(`asked ${request.url()}`);
  });
  return complaints;
}

/** The text in an editor, or in the plain field that is there before it. */
export const written = (editor: Locator): Promise<string> =>
  editor.evaluate((element) =>
    element instanceof HTMLTextAreaElement
      ? element.value
      : [...element.querySelectorAll(".cm-line")].map((line) => line.textContent).join("\n"),
  );

/** Waits until the text in an editor matches. */
export const expectWritten = (editor: Locator, pattern: RegExp): Promise<void> =>
  expect.poll(() => written(editor)).toMatch(pattern);

interface Fixtures {
  /** A page that has signed in to the demo. */
  shop: Page;
}

/** Tests against the demo shop, with the bug that its tests find. */
export const test = base.extend<Fixtures, { demo: Server }>({
  demo: [
    // biome-ignore lint/correctness/noEmptyPattern: the first argument of a fixture is a pattern
    async ({}, use) => {
      const running = await demo();
      await use(running);
      await running.stop();
    },
    { scope: "worker", timeout: 60_000 },
  ],
  shop: async ({ page, context, demo: running }, use) => {
    // The browser writes refusals to its console: two people saving, a variable without a value.
    const complaints = watch(page, /status of (409|422)/);
    await context.addCookies([
      { name: "qualitytrace", value: running.token ?? "", url: running.url, httpOnly: true },
    ]);
    await page.goto(`${running.url}/tests`);
    await expect(page.getByRole("heading", { name: "Tests" })).toBeVisible();
    await use(page);
    expect(complaints).toEqual([]);
  },
});

export { expect };
