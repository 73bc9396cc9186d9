/**
 * Makes pictures of the page with the demo shop: those of the documentation, or with `QUALITYTRACE_SCREENSHOTS` every
 * screen in both themes, in that folder.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "@playwright/test";
import { send } from "./bench-load";
import { expect, type Server, serve, test, written } from "./server";

const DOCS = new URL("../../../../docs/images/", import.meta.url).pathname;
const everything = process.env.QUALITYTRACE_SCREENSHOTS;

async function settled(page: Page): Promise<void> {
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  // A debug build takes its time for 50,000 spans.
  await expect(page.locator("[aria-busy=true]")).toHaveCount(0, { timeout: 60_000 });
  await page.evaluate(() => document.fonts.ready);
  // Two frames: rows, then bars.
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

async function shoot(page: Page, folder: string, name: string, colorScheme: "light" | "dark"): Promise<void> {
  await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
  await expect(page.locator("html")).toHaveAttribute("data-theme", colorScheme);
  await settled(page);
  await page.screenshot({ path: join(folder, `${name}.png`) });
}

/** Begins an assertion on the status of the payment. */
async function draft(page: Page): Promise<void> {
  await page.getByRole("row", { name: /^POST \/charges, payment/ }).click();
  const details = page.getByRole("complementary", { name: "Span details" });
  await details.getByRole("searchbox", { name: "Filter attributes" }).fill("status_code");
  await details.getByRole("button", { name: "Assert http.response.status_code" }).click();
  await expect(page.getByRole("status", { name: "Preview" })).toContainText("holds on 1 of 1 span");
}

/** Mistypes the kind of a span in a definition. */
async function mistake(page: Page): Promise<void> {
  const editor = page.getByRole("textbox", { name: "Definition" });
  await expect(page.locator(".cm-content").first()).toBeVisible();
  const text = await written(editor);
  await editor.fill(text.replace('service.name="payment"', '$& kind="sever"'));
  const problems = page.getByRole("status", { name: "Problems" });
  await expect(problems).toContainText("did you mean `server`?");
  await problems.getByRole("button").click();
}

const RUN = "/test/shop-checkout/run/2";

test("pictures of the documentation", async ({ shop, demo }) => {
  test.skip(everything !== undefined, "every screen is wanted");
  mkdirSync(DOCS, { recursive: true });
  await shop.setViewportSize({ width: 1280, height: 800 });
  await shop.goto(`${demo.url}${RUN}/test`);
  await expect(shop.getByRole("table", { name: /selected_spans.count = 2/ })).toBeVisible();
  await shoot(shop, DOCS, "page-verdict", "light");
  await shop.goto(`${demo.url}${RUN}/trace`);
  await draft(shop);
  await shoot(shop, DOCS, "page-draft", "dark");
  await shop.goto(`${demo.url}/tests`);
  await shoot(shop, DOCS, "page-tests", "light");
  await shop.setViewportSize({ width: 1280, height: 640 });
  await shop.goto(`${demo.url}/test/shop-checkout?tab=definition`);
  await mistake(shop);
  await shoot(shop, DOCS, "page-editor", "light");
  await shop.setViewportSize({ width: 1440, height: 640 });
  await shop.goto(`${demo.url}${RUN}/trace?view=graph`);
  await shoot(shop, DOCS, "page-graph", "light");
});

const SCREENS: Record<string, string> = {
  tests: "/tests",
  test: "/test/shop-checkout",
  history: "/test/shop-checkout?tab=history",
  definition: "/test/shop-checkout?tab=definition",
  versions: "/test/shop-checkout?tab=versions",
  trace: `${RUN}/trace`,
  flame: `${RUN}/trace?view=flame`,
  graph: `${RUN}/trace?view=graph`,
  table: `${RUN}/trace?view=table`,
  verdict: `${RUN}/test`,
  trigger: `${RUN}/trigger`,
  events: `${RUN}/events`,
  automate: `${RUN}/automate`,
  runs: "/runs",
  traces: "/traces",
  compare: "/compare?a=test/shop-show-cart/run/1&b=test/shop-checkout/run/2",
  suites: "/testsuites",
  suite: "/testsuite/shop-buy",
  "suite-run": "/testsuite/shop-buy/run/2",
  variables: "/variablesets",
  status: "/status",
  settings: "/settings",
  start: "/start",
  create: "/test/create",
};

test("every screen", async ({ shop, demo }) => {
  test.skip(everything === undefined, "the pictures of the documentation are wanted");
  mkdirSync(everything ?? "", { recursive: true });
  for (const theme of ["light", "dark"] as const) {
    for (const [name, path] of Object.entries(SCREENS)) {
      await shop.goto(demo.url + path);
      await shoot(shop, everything ?? "", `${name}-${theme}`, theme);
    }
    await shop.goto(`${demo.url}${RUN}/trace`);
    await draft(shop);
    await shoot(shop, everything ?? "", `draft-${theme}`, theme);
    await shop.goto(`${demo.url}/test/shop-checkout?tab=definition`);
    await mistake(shop);
    await shoot(shop, everything ?? "", `mistake-${theme}`, theme);
  }
});

/** Screens of a server of its own, in both themes. */
async function shootAll(page: Page, server: Server, screens: Record<string, string>): Promise<void> {
  mkdirSync(everything ?? "", { recursive: true });
  for (const theme of ["light", "dark"] as const) {
    for (const [name, path] of Object.entries(screens)) {
      await page.goto(server.url + path);
      await shoot(page, everything ?? "", `${name}-${theme}`, theme);
    }
  }
}

test("every list of an empty server", async ({ page }) => {
  test.skip(everything === undefined, "the pictures of the documentation are wanted");
  const server = await serve();
  try {
    await shootAll(page, server, {
      "empty-tests": "/tests",
      "empty-runs": "/runs",
      "empty-traces": "/traces",
      "empty-suites": "/testsuites",
      "empty-variables": "/variablesets",
      "empty-status": "/status",
      "empty-nothing": "/nothing/here",
      "empty-trace": `/trace/${"1".repeat(32)}`,
      "empty-compare": "/compare",
    });
  } finally {
    await server.stop();
  }
});

test("a trace of 50,000 spans", async ({ page }) => {
  test.skip(everything === undefined, "the pictures of the documentation are wanted");
  const server = await serve();
  const trace = "5".repeat(32);
  try {
    await send(server, trace, 0, 50_000, 50_000);
    const span = `${"0".repeat(12)}0101`;
    await shootAll(page, server, {
      "large-trace": `/trace/${trace}?span=${span}`,
      "large-search": `/trace/${trace}?q=operation+12`,
      "large-flame": `/trace/${trace}?view=flame`,
      "large-graph": `/trace/${trace}?view=graph`,
      "large-table": `/trace/${trace}?view=table`,
      "large-traces": "/traces",
    });
  } finally {
    await server.stop();
  }
});
