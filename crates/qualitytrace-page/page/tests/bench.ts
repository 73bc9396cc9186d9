/**
 * Measures the page in a real browser: how soon large traces can be used, frames while they are moved, answers to keys
 * and clicks, spans that stream in, bytes and heap. One JSON object a line goes to the file in `QUALITYTRACE_BENCH`.
 */
import { appendFileSync } from "node:fs";
import { type Browser, test as base, type CDPSession, type Page } from "@playwright/test";
import { send, sendToZipkin } from "./bench-load";
import { type Server, serve } from "./server";

const ROUNDS = Number(process.env.QUALITYTRACE_ROUNDS ?? 5);
const FILE = process.env.QUALITYTRACE_BENCH ?? "/dev/stdout";
const ZIPKIN = process.env.QUALITYTRACE_ZIPKIN;
/** How long something may take that is not measured. */
const DEADLINE = 120_000;
const VIEWPORT = { width: 1600, height: 900 };

function tell(figure: string, value: string, goal: string): void {
  appendFileSync(FILE, `${JSON.stringify({ figure, value, goal })}\n`);
}

/** The smallest value that this share of the values does not exceed. */
function quantile(values: number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}
const median = (values: number[]) => quantile(values, 0.5);
const ms = (value: number) => `${Math.round(value)} ms`;

interface Measured {
  __tasks: { start: number; end: number }[];
  __frames: number[];
  __taps: number[];
  __mark?: typeof performance.mark;
  __seen: [number, number][];
}

/** A page in a context that knows nothing yet, with its long tasks recorded. */
async function cold<T>(browser: Browser, work: (page: Page, cdp: CDPSession) => Promise<T>): Promise<T> {
  const context = await browser.newContext({ viewport: VIEWPORT });
  try {
    const page = await context.newPage();
    await page.addInitScript(() => {
      const global = window as unknown as Measured;
      global.__tasks = [];
      new PerformanceObserver((list) => {
        for (const task of list.getEntries())
          global.__tasks.push({ start: task.startTime, end: task.startTime + task.duration });
      }).observe({ type: "longtask", buffered: true });
    });
    return await work(page, await context.newCDPSession(page));
  } finally {
    await context.close();
  }
}

/** When the page can be used: what is marked is there, and a second without a long task follows. */
async function interactive(page: Page, url: string, isReady: () => boolean): Promise<number> {
  await page.goto(url, { waitUntil: "commit" });
  await page.waitForFunction(isReady, undefined, { timeout: DEADLINE, polling: 50 });
  return page.evaluate(async () => {
    const global = window as unknown as Measured;
    const mark = performance.getEntriesByName("qt:ready").at(-1)?.startTime ?? performance.now();
    for (;;) {
      const last = Math.max(mark, ...global.__tasks.map((task) => task.end));
      if (performance.now() - last > 1000) return last;
      await new Promise((done) => setTimeout(done, 100));
    }
  });
}
// A function and no text: the page's policy forbids to evaluate texts.
const READY = () => performance.getEntriesByName("qt:ready").length > 0;

/** The intervals between frames while something is done. */
async function frames(page: Page, work: () => Promise<void>): Promise<number[]> {
  await page.evaluate(() => {
    const global = window as unknown as Measured;
    global.__frames = [];
    let last = performance.now();
    const next = (now: number) => {
      global.__frames.push(now - last);
      last = now;
      requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
  });
  await work();
  return page.evaluate(() => (window as unknown as Measured).__frames.slice(2));
}

const late = (intervals: number[]) =>
  `${((intervals.filter((one) => one > 20).length / intervals.length) * 100).toFixed(1)} % over 20 ms, p95 ${quantile(intervals, 0.95).toFixed(1)} ms`;

async function during(milliseconds: number, step: (at: number) => Promise<void>): Promise<void> {
  const began = Date.now();
  for (let at = 0; Date.now() - began < milliseconds; at += 1) await step(at);
}

/** The time from each key or click to the frame after the page has marked that it has answered. */
async function answers(
  page: Page,
  mark: string,
  count: number,
  act: (at: number) => Promise<void>,
): Promise<number[]> {
  await page.evaluate((wanted) => {
    const global = window as unknown as Measured;
    global.__taps = [];
    let began = 0;
    for (const kind of ["keydown", "pointerdown"])
      window.addEventListener(kind, () => (began = performance.now()), { capture: true });
    global.__mark ??= performance.mark.bind(performance);
    const marking = global.__mark;
    performance.mark = (name, options) => {
      if (name === wanted && began !== 0) {
        const from = began;
        began = 0;
        requestAnimationFrame(() => global.__taps.push(performance.now() - from));
      }
      return marking(name, options);
    };
  }, mark);
  for (let at = 0; at < count; at += 1) {
    await act(at);
    await page.waitForFunction((wanted) => (window as unknown as Measured).__taps.length > wanted, at, {
      timeout: DEADLINE,
    });
    await page.waitForTimeout(60);
  }
  return page.evaluate(() => (window as unknown as Measured).__taps);
}

/** A test of a trace, and a run of it that has ended. */
async function run(server: Server, name: string, traceId: string): Promise<string> {
  const text = `type: Test
spec:
  id: ${name}
  name: ${name}
  trigger: {type: traceid, traceid: {id: "${traceId}"}}
  specs:
  - selector: span[name = "operation 1"]
    assertions: [attr:server.port = 8080]
  pollingProfile:
    strategy: periodic
    periodic: {retryDelay: 1s, quiet: 300ms, settle: 300ms, timeout: 5s}
`;
  const headers = { "content-type": "text/yaml" };
  await server.api("/api/tests", { method: "POST", headers, body: text });
  await server.api(`/api/tests/${name}/run`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: "{}",
  });
  const url = `${server.url}/test/${name}/run/1/trace`;
  for (const began = Date.now(); Date.now() - began < DEADLINE; ) {
    const answer = await server.api(`/api/tests/${name}/run/1?without=trace,results,linter`);
    const { state } = (await answer.json()) as { state: string };
    if (/FINISHED|FAILED|STOPPED/.test(state)) return url;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error(`the run of ${name} did not end within ${ms(DEADLINE)}`);
}

const traceId = (digit: string) => digit.repeat(32);

base("the page is measured", async ({ browser }) => {
  const server = await serve();
  try {
    await firstLoad(browser, server);
    const urls: Record<number, string> = {};
    for (const [size, digit] of [
      [10_000, "1"],
      [50_000, "5"],
      [100_000, "a"],
      [200_000, "2"],
    ] as const) {
      await send(server, traceId(digit), 0, size, size);
      urls[size] = await run(server, `large-${size}`, traceId(digit));
    }
    const soon: Record<number, number> = {};
    for (const [size, goal] of [
      [10_000, ""],
      [50_000, "< 1.0 s"],
      [200_000, "< 3 s"],
    ] as const) {
      const times: number[] = [];
      for (let round = 0; round < ROUNDS; round += 1)
        times.push(await cold(browser, (page) => interactive(page, urls[size], READY)));
      soon[size] = median(times);
      tell(`open a run of ${size.toLocaleString("en")} spans: interactive`, ms(soon[size]), goal);
    }
    await cold(browser, (page) => motion(page, urls[100_000]));
    await cold(browser, (page, cdp) => hands(page, cdp, urls[50_000]));
    await cold(browser, (page) => live(page, server));
    await cold(browser, (page, cdp) => coming(page, cdp, urls[10_000]));
    if (ZIPKIN !== undefined) await zipkin(browser, soon[10_000]);
  } finally {
    await server.stop();
  }
});

async function firstLoad(browser: Browser, server: Server): Promise<void> {
  const paints: number[] = [];
  let bytes = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    bytes = 0;
    await cold(browser, async (page, cdp) => {
      const scripts = new Set<string>();
      await cdp.send("Network.enable");
      cdp.on("Network.responseReceived", ({ requestId, response }) => {
        if (response.mimeType.includes("javascript")) scripts.add(requestId);
      });
      cdp.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => {
        if (scripts.has(requestId)) bytes += encodedDataLength;
      });
      await page.goto(`${server.url}/tests`, { waitUntil: "networkidle" });
      paints.push(
        await page.evaluate(
          () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Number.NaN,
        ),
      );
    });
  }
  tell("first load: JavaScript, as it is sent", `${(bytes / 1000).toFixed(0)} kB`, "≤ 200 kB");
  tell("first load: first contentful paint", ms(median(paints)), "< 300 ms");
}

/** Scrolls, and zooms by dragging. */
async function motion(page: Page, url: string): Promise<void> {
  await interactive(page, url, READY);
  await page.mouse.move(400, 500);
  const scrolled = await frames(page, () =>
    during(5000, async () => {
      await page.mouse.wheel(0, 400);
      await page.waitForTimeout(8);
    }),
  );
  tell("scroll 100,000 spans", late(scrolled), "≤ 1 % over 20 ms");
  const box = (await page.getByTestId("minimap").boundingBox()) ?? { x: 0, y: 0, width: 100, height: 10 };
  await page.mouse.move(box.x + 10, box.y + 10);
  await page.mouse.down();
  const zoomed = await frames(page, () =>
    during(5000, async (at) => {
      const share = 0.15 + 0.8 * Math.abs(Math.sin(at / 40));
      await page.mouse.move(box.x + box.width * share, box.y + 10);
      await page.waitForTimeout(8);
    }),
  );
  await page.mouse.up();
  tell("zoom 100,000 spans by dragging", late(zoomed), "≤ 1 % over 20 ms");
}

/** Keys, clicks and drafts, and the heap with all of it open. */
async function hands(page: Page, cdp: CDPSession, url: string): Promise<void> {
  await interactive(page, url, READY);
  const box = page.getByRole("searchbox", { name: "Find spans" });
  await box.focus();
  const text = "operation 123";
  const clear = async () => {
    await box.fill("");
    await page.waitForTimeout(500);
  };
  const type = async (at: number) => {
    if (at > 0 && at % text.length === 0) await clear();
    await page.keyboard.press(text[at % text.length]);
  };
  // Names and services are found by the page, attributes by the server.
  const keys = await answers(page, "qt:matches", 3 * text.length, type);
  tell("key to highlight at 50,000 spans, p95", ms(quantile(keys, 0.95)), "< 150 ms");
  await clear();
  const found = await answers(page, "qt:found", text.length, type);
  tell("key to the server's count at 50,000 spans, median", ms(median(found)), "");
  await clear();
  const clicks = await answers(page, "qt:details", 40, (at) => page.mouse.click(300, 260 + (at % 20) * 24));
  tell("click to details at 50,000 spans, p95", ms(quantile(clicks, 0.95)), "< 100 ms");
  await page.getByRole("searchbox", { name: "Filter attributes" }).fill("server.port");
  await page.getByRole("button", { name: "Assert server.port" }).click();
  await page.getByRole("status", { name: "Preview" }).getByText("holds on").waitFor();
  await page.getByLabel("Expected").focus();
  await page.keyboard.press("End");
  const drafts = await answers(page, "qt:preview", 10, (at) =>
    page.keyboard.press(at % 2 === 0 ? "1" : "Backspace"),
  );
  tell("draft to preview at 50,000 spans, p95", ms(quantile(drafts, 0.95)), "< 300 ms");
  tell("heap with 50,000 spans open", `${(await heap(page, cdp)).toFixed(1)} MB`, "≤ 60 MB");
}

async function heap(page: Page, cdp: CDPSession): Promise<number> {
  await cdp.send("HeapProfiler.enable");
  await cdp.send("HeapProfiler.collectGarbage");
  await page.waitForTimeout(200);
  const { usedSize } = await cdp.send("Runtime.getHeapUsage");
  return usedSize / 1e6;
}

/** 5,000 spans a second for 20 seconds. */
async function live(page: Page, server: Server): Promise<void> {
  const id = traceId("f");
  const total = 100_000;
  await send(server, id, 0, 10, total);
  await page.goto(`${server.url}/trace/${id}`);
  await page.waitForFunction(READY, undefined, { timeout: DEADLINE });
  await page.evaluate(() => {
    const global = window as unknown as Measured;
    global.__seen = [];
    const look = () => {
      const shown = document.querySelector(".toolbar .summary")?.textContent ?? "";
      const spans = Number(/([\d,]+) spans?/.exec(shown)?.[1].replaceAll(",", "") ?? 0);
      if (spans !== global.__seen.at(-1)?.[1]) global.__seen.push([Date.now(), spans]);
      requestAnimationFrame(look);
    };
    look();
  });
  const sent: [number, number][] = [];
  const intervals = await frames(page, async () => {
    const began = Date.now();
    for (let at = 0; at < 200; at += 1) {
      await send(server, id, 10 + at * 500, 510 + at * 500, total);
      sent.push([Date.now(), 510 + at * 500]);
      const due = began + (at + 1) * 100;
      if (due > Date.now()) await new Promise((done) => setTimeout(done, due - Date.now()));
    }
    await page.waitForTimeout(1000);
  });
  const seen = await page.evaluate(() => (window as unknown as Measured).__seen);
  const delays = sent.map(([at, spans]) =>
    Math.max(0, (seen.find(([, shown]) => shown >= spans)?.[0] ?? Number.POSITIVE_INFINITY) - at),
  );
  tell("5,000 spans/s for 20 s: visible after their answer, p95", ms(quantile(delays, 0.95)), "≤ 300 ms");
  tell("5,000 spans/s for 20 s: longest frame", ms(Math.max(...intervals)), "≤ 150 ms");
}

/** Fifty runs are opened and left. */
async function coming(page: Page, cdp: CDPSession, url: string): Promise<void> {
  await interactive(page, url, READY);
  const round = async () => {
    await page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Status" }).click();
    await page.getByRole("heading", { name: "Status" }).waitFor();
    await page.goBack();
    await page.getByRole("treegrid", { name: "Spans" }).getByRole("row").first().waitFor();
  };
  for (let at = 0; at < 5; at += 1) await round();
  const before = await heap(page, cdp);
  for (let at = 0; at < 50; at += 1) await round();
  tell(
    "heap after 50 runs were opened and left",
    `${((await heap(page, cdp)) - before).toFixed(1)} MB more`,
    "< 10 MB",
  );
}

/** Zipkin's own page with the same 10,000 spans. */
async function zipkin(browser: Browser, ours: number): Promise<void> {
  const id = traceId("1");
  await sendToZipkin(ZIPKIN ?? "", id, 10_000);
  const times: number[] = [];
  for (let round = 0; round < Math.min(3, ROUNDS); round += 1) {
    const isReady = () => document.body.textContent.includes("operation 1");
    times.push(await cold(browser, (page) => interactive(page, `${ZIPKIN}/zipkin/traces/${id}`, isReady)));
  }
  tell("Zipkin's page with 10,000 spans: interactive", ms(median(times)), "");
  tell("how much sooner ours is", `${(median(times) / ours).toFixed(0)} times`, "≥ 20 times");
}
