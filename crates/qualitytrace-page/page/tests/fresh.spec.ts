/** Servers of their own: nothing stored, spans as they come, tokens, a prefix, odd traces, accessibility. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "@playwright/test";
import { expect, expectWritten, type Server, test, watch, withServer } from "./server";

const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

/** A trigger that nobody answers for: the spans are sent by the test. */
const WAITING = `type: Test
spec:
  id: waiting
  name: Waiting
  trigger:
    type: traceid
    traceid:
      id: \${var:TRACE}
  pollingProfile:
    strategy: periodic
    periodic:
      retryDelay: 1s
      quiet: 2s
      settle: 4s
      timeout: 20s
  specs:
  - name: The charge is made
    selector: span[name = "chrage"]
    assertions:
    - attr:name = "charge"
`;

async function store(server: Server, text: string): Promise<void> {
  const answer = await server.api("/api/tests", {
    method: "POST",
    headers: { "content-type": "text/yaml" },
    body: text,
  });
  expect(answer.status, await answer.text()).toBe(201);
}

/** Starts a run of it by its link. */
async function runByLink(page: Page, server: Server, trace: string): Promise<void> {
  const variables = encodeURIComponent(JSON.stringify([{ key: "TRACE", value: trace }]));
  await page.goto(`${server.url}/test/waiting/run?variables=${variables}`);
  await page.getByRole("region", { name: "Run link" }).getByRole("button", { name: "Run" }).click();
}

test("a fresh server waits for the first span, and shows its trace without a reload", async ({ page }) => {
  await withServer(async (server) => {
    const complaints = watch(page);
    await page.goto(`${server.url}/traces`);
    await expect(page.getByRole("heading", { name: "Send a trace" })).toBeVisible();
    await expect(page.getByText(`OTEL_EXPORTER_OTLP_ENDPOINT=${server.url}`)).toBeVisible();
    await server.send([{ traceId: "1".repeat(32), spanId: "1".repeat(16), name: "first" }]);
    await expect(page.getByRole("row", { name: /^first, shop/ })).toBeVisible();
    await expect(page).toHaveURL(new RegExp(`/trace/${"1".repeat(32)}`));
    // More spans of the same trace appear, and the one that was missing closes the gap.
    await server.send([
      { traceId: "1".repeat(32), spanId: "3".repeat(16), parentSpanId: "2".repeat(16), name: "third" },
    ]);
    await expect(page.getByRole("row", { name: /^parent 22222222/ })).toBeVisible();
    await server.send([
      { traceId: "1".repeat(32), spanId: "2".repeat(16), parentSpanId: "1".repeat(16), name: "second" },
    ]);
    await expect(page.getByRole("row", { name: /^third/ })).toHaveAttribute("aria-level", "3");
    await expect(page.getByRole("row", { name: /^parent 22222222/ })).toBeHidden();
    expect(complaints).toEqual([]);
  });
});

test("a waiting run shows what it owes, grows, is judged on demand, and names the nearest miss", async ({
  page,
}) => {
  await withServer(async (server) => {
    const complaints = watch(page);
    await store(server, WAITING);
    const traceId = "a".repeat(32);
    await server.send([{ traceId, spanId: "a".repeat(16), name: "POST /order", kind: 2 }]);
    await runByLink(page, server, traceId);
    await expect(page.getByRole("status", { name: "Run state" })).toContainText("Waiting");
    await server.send([
      {
        traceId,
        spanId: "b".repeat(16),
        parentSpanId: "a".repeat(16),
        name: "call payment",
        kind: 3,
        attributes: { "server.address": "payment" },
      },
      { traceId, spanId: "c".repeat(16), parentSpanId: "d".repeat(16), name: "charge" },
    ]);
    await expect(page.getByRole("row", { name: /^charge/ })).toBeVisible();
    await expect(page.getByRole("list", { name: "Still owed" })).toContainText("dddddddd");
    await page.getByRole("button", { name: "Judge now" }).click();
    await expect(page.getByRole("status", { name: "Run state" })).toContainText(/Inconclusive|Failed/);
    await page.getByRole("tab", { name: /^Test/ }).click();
    const miss = page.getByRole("region", { name: "Nearest miss" });
    await expect(miss).toContainText("charge");
    await miss.getByRole("button", { name: "Use this selector" }).first().click();
    await expect(miss).toContainText("selects 1 span");
    const draft = page.getByRole("region", { name: "Draft" });
    await expect(draft.getByRole("img", { name: "passed" })).toBeVisible();
    await draft.getByRole("button", { name: "Save" }).click();
    await expect(draft).toContainText("Saved as version 2");
    expect(await (await server.api("/api/tests/waiting/source")).text()).toContain('name = "charge"');
    expect(complaints).toEqual([]);
  });
});

test("a run is stopped", async ({ page }) => {
  await withServer(async (server) => {
    await store(server, WAITING);
    await runByLink(page, server, "beef".repeat(8));
    await page.getByRole("button", { name: "Stop" }).click();
    await expect(page.getByRole("status", { name: "Run state" })).toContainText("Stopped");
  });
});

test("tokens: a wrong one is refused, a right one leads back, and `read` sees no buttons", async ({
  page,
  demo,
}) => {
  // The browser writes the refusals to its console.
  const complaints = watch(page, /401|403/);
  await page.goto(`${demo.url}/runs?outcome=failed`);
  await expect(page).toHaveURL(/\/login\?next=/);
  await page.getByLabel("Token").fill("wrong-token-0123456789");
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("alert")).toBeVisible();
  await page.getByLabel("Token").fill(demo.token ?? "");
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page).toHaveURL(/\/runs\?outcome=failed/);
  await expect(page.getByRole("table", { name: "Runs" })).toBeVisible();
  expect(
    await page.evaluate(() => document.cookie + JSON.stringify(localStorage) + location.href),
  ).not.toContain(demo.token);
  expect(complaints).toEqual([]);
});

test("below a prefix every screen, asset and stream works", async ({ page }) => {
  await withServer(
    async (server) => {
      const complaints = watch(page, /401|403/);
      await page.goto(`${server.url}/below/trace/${"9".repeat(32)}`);
      await page.getByLabel("Token").fill("read-token-0123456789abcdef");
      await page.getByRole("button", { name: "Sign in" }).click();
      await expect(page).toHaveURL(new RegExp(`/below/trace/${"9".repeat(32)}`));
      await page.goto(`${server.url}/below/tests`);
      await expect(page.getByRole("heading", { name: "Tests" })).toBeVisible();
      await expect(page.getByText("There are no tests yet")).toBeVisible();
      await expect(page.getByRole("link", { name: "New test" })).toBeHidden();
      expect(complaints.filter((one) => !one.includes("404"))).toEqual([]);
    },
    "--server.pathPrefix",
    "/below",
    "--auth.tokens",
    "read:read-token-0123456789abcdef",
  );
});

test("traces with markup, cycles, strange times and long names are drawn as text", async ({ page }) => {
  await withServer(async (server) => {
    const complaints = watch(page);
    const traceId = "e".repeat(32);
    const id = (digit: string) => digit.repeat(16);
    await server.send([
      { traceId, spanId: id("1"), name: "<script>alert(1)</script>", length: 0 },
      { traceId, spanId: id("2"), parentSpanId: id("3"), name: "cycle a" },
      { traceId, spanId: id("3"), parentSpanId: id("2"), name: "cycle b", length: -5 },
      {
        traceId,
        spanId: id("4"),
        parentSpanId: id("1"),
        name: "long ".repeat(2000),
        start: -50,
        status: { code: 2 },
      },
      {
        traceId,
        spanId: id("5"),
        parentSpanId: id("1"),
        name: "\u202edetrevni 🙂",
        attributes: { html: "<img src=x onerror=alert(1)>" },
      },
    ]);
    await page.goto(`${server.url}/trace/${traceId}?span=${id("5")}`);
    await expect(page.getByRole("row", { name: /^<script>alert\(1\)<\/script>/ })).toBeVisible();
    await expect(page.getByRole("row", { name: /^cycle b/ })).toBeVisible();
    await expect(page.getByRole("row", { name: /^long long.*error$/ })).toBeVisible();
    await expect(page.getByRole("table", { name: "Attributes" })).toContainText("<img src=x");
    expect(complaints).toEqual([]);
  });
});

test("traces are filtered, and one becomes a test", async ({ page }) => {
  await withServer(async (server) => {
    const complaints = watch(page);
    await server.send([{ traceId: "5".repeat(32), spanId: "5".repeat(16), name: "quick" }], "alpha");
    await server.send(
      [{ traceId: "6".repeat(32), spanId: "6".repeat(16), name: "slow", length: 900, status: { code: 2 } }],
      "beta",
    );
    await page.goto(`${server.url}/traces`);
    const rows = page.getByRole("table", { name: "Traces" }).getByRole("row");
    await expect(rows).toHaveCount(3);
    await page.getByRole("searchbox", { name: "Longer than" }).fill("500ms");
    await expect(rows).toHaveCount(2);
    await page.getByRole("searchbox", { name: "Service" }).fill("alpha");
    await expect(page.getByText("No trace matches")).toBeVisible();
    await page.getByRole("searchbox", { name: "Longer than" }).fill("");
    await expect(rows).toHaveCount(2);
    await page.getByRole("link", { name: "Make a test" }).click();
    await expectWritten(page.getByRole("textbox", { name: "Definition" }), /type: Test/);
    await page.getByRole("button", { name: "Save" }).click();
    await expect(page).toHaveURL(/\/test\/[^/]+$/);
    expect(complaints).toEqual([]);
  });
});

/** What axe finds that keeps people out. The debugger evaluates it: the page's policy forbids scripts of others. */
async function barriers(page: Page, options: object): Promise<string[]> {
  await page.evaluate(readFileSync(axe, "utf8"));
  return page.evaluate(async (asked) => {
    interface Found {
      violations: { impact: string; id: string; nodes: { html: string }[] }[];
    }
    const { axe: tool } = window as unknown as { axe: { run: (options: object) => Promise<Found> } };
    const found = await tool.run(asked);
    return found.violations
      .filter(({ impact }) => impact === "serious" || impact === "critical")
      .map(({ id, nodes }) => `${id}: ${nodes[0]?.html.slice(0, 200)}`);
  }, options);
}

const SCREENS = [
  "/tests",
  "/test/shop-checkout",
  "/test/shop-checkout?tab=definition",
  "/test/shop-checkout?tab=history",
  "/test/shop-checkout?tab=versions",
  "/test/shop-checkout/run/2/trace",
  "/test/shop-checkout/run/2/test",
  "/test/shop-checkout/run/2/trigger",
  "/test/shop-checkout/run/2/events",
  "/test/shop-checkout/run/2/automate",
  '/test/shop-checkout/run?variables=[{"key":"GATEWAY","value":"http://a"}]',
  "/runs",
  "/traces",
  "/compare?a=test/shop-checkout/run/1&b=test/shop-checkout/run/2",
  "/testsuites",
  "/testsuite/shop-buy",
  "/testsuite/shop-buy/run/2",
  "/variablesets",
  "/status",
  "/settings",
  "/test/shop-checkout/run/2/trace?view=flame",
  "/test/shop-checkout/run/2/trace?view=graph",
  "/test/shop-checkout/run/2/trace?view=table",
  "/start",
  "/test/create",
];

test("no screen keeps anybody out, in either theme", async ({ shop, demo }) => {
  const found: string[] = [];
  for (const path of SCREENS) {
    await shop.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
    await shop.goto(demo.url + path);
    await expect(shop.getByRole("heading", { level: 1 })).toBeVisible();
    await expect(shop.locator("[aria-busy=true]")).toHaveCount(0);
    const light = await barriers(shop, {});
    await shop.emulateMedia({ colorScheme: "dark", reducedMotion: "reduce" });
    await expect(shop.locator("html")).toHaveAttribute("data-theme", "dark");
    const dark = await barriers(shop, { runOnly: ["color-contrast"] });
    found.push(...[...light, ...dark].map((barrier) => `${path}: ${barrier}`));
  }
  expect(found).toEqual([]);
});

test("the frame of the page is there before its scripts, in the colours of the system", async ({
  browser,
}) => {
  await withServer(async (server) => {
    for (const [colorScheme, ground] of [
      ["light", "rgb(255, 255, 255)"],
      ["dark", "rgb(18, 18, 18)"],
    ] as const) {
      const context = await browser.newContext({ javaScriptEnabled: false, colorScheme });
      const page = await context.newPage();
      await page.goto(`${server.url}/tests`);
      await expect(page.locator(".brand svg")).toBeVisible();
      await expect(page.locator("body")).toHaveCSS("background-color", ground);
      await context.close();
    }
  });
});

test("what is empty or missing says so, and what to do next", async ({ page }) => {
  await withServer(async (server) => {
    const complaints = watch(page, /status of 404/);
    await page.goto(`${server.url}/runs`);
    await expect(page.getByText("No test was run yet.")).toBeVisible();
    // Commands to copy name this server.
    for (const path of ["/runs", "/tests", "/testsuites", "/variablesets"]) {
      await page.goto(server.url + path);
      await expect(page.getByText(`--server-url ${server.url}`)).toBeVisible();
    }
    await page.goto(`${server.url}/runs?outcome=failed`);
    await expect(page.getByText("No run matches these filters.")).toBeVisible();
    await page.goto(`${server.url}/compare`);
    await expect(page.getByText("Name two runs or traces.")).toBeVisible();
    await page.goto(`${server.url}/trace/${"1".repeat(32)}`);
    await expect(page.getByRole("alert")).toContainText(`No span of trace ${"1".repeat(32)} is here.`);
    expect(complaints).toEqual([]);
  });
});

test("an unknown address says so and leads on", async ({ page, context, demo }) => {
  const complaints = watch(page, /status of 404/);
  await context.addCookies([{ name: "qualitytrace", value: demo.token ?? "", url: demo.url }]);
  const answer = await page.goto(`${demo.url}/nothing/here`);
  expect(answer?.status()).toBe(404);
  await page.getByRole("paragraph").getByRole("link", { name: "Tests" }).click();
  await expect(page.getByRole("table", { name: "Tests" })).toBeVisible();
  await page.goto(`${demo.url}/test/shop-checkout/run/99999/trace`);
  await expect(page.getByRole("alert")).toContainText("There is no run 99999");
  expect(complaints).toEqual([]);
});

test("lists stay usable on 320 pixels", async ({ shop, demo }) => {
  await shop.setViewportSize({ width: 320, height: 640 });
  for (const path of ["/tests", "/runs", "/traces", "/status"]) {
    await shop.goto(demo.url + path);
    await expect(shop.getByRole("heading", { level: 1 })).toBeVisible();
    const width = await shop.evaluate(() => document.documentElement.scrollWidth);
    expect(width, path).toBeLessThanOrEqual(320);
  }
});
