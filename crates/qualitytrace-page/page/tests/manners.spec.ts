/** What readers take for granted: focus, keys, undo, one run for a double click, a page older than its server. */
import type { Page } from "@playwright/test";
import { expect, type Server, test, watch, withServer } from "./server";

async function put(server: Server, id: string, more: object = {}) {
  const trigger = { type: "http", httpRequest: { method: "GET", url: "http://127.0.0.1:9/" } };
  const spec = { id, name: `Test ${id}`, trigger, skipTraceCollection: true, ...more };
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ type: "Test", spec });
  const answer = await server.api("/api/tests", { method: "PUT", headers, body });
  expect(answer.ok, await answer.text()).toBe(true);
}

async function choose(page: Page, action: string) {
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: action }).click();
}

const ids = async (server: Server) => {
  const { items } = await (await server.api("/api/tests?sortBy=name&sortDirection=asc")).json();
  return items.map((item: { spec: { name: string } }) => item.spec.name);
};

test("an empty server begins with a first trace, and one with tests with these", async ({ page }) => {
  await withServer(async (server) => {
    watch(page);
    await page.goto(`${server.url}/`);
    await expect(page.getByRole("heading", { name: "Send a trace" })).toBeVisible();
    await expect(page.getByText("qualitytrace demo --keep")).toBeVisible();
    const span = { traceId: "1", spanId: "1", name: "x", startTimeUnixNano: "1", endTimeUnixNano: "2" };
    const spans = [{ ...span, traceId: "0af7651916cd43dd8448eb211c80319c", spanId: "00f067aa0ba902b7" }];
    const buffer = Buffer.from(JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans }] }] }));
    await page
      .locator("input[type=file]")
      .setInputFiles({ name: "t.json", mimeType: "application/json", buffer });
    await expect(page).toHaveURL(/trace\/0af7651916cd43dd8448eb211c80319c/);
    await put(server, "a");
    await page.goto(`${server.url}/`);
    await expect(page.getByRole("heading", { name: "Tests" })).toBeVisible();
  });
});

test("a test is renamed, copied and deleted, and the deletion is undone", async ({ page }) => {
  await withServer(async (server) => {
    watch(page);
    await put(server, "a");
    await page.goto(`${server.url}/test/a`);
    await choose(page, "Rename");
    await page.getByRole("textbox", { name: "Name" }).fill('Checkout: "quick"');
    await page.getByRole("dialog").getByRole("button", { name: "Rename" }).click();
    await expect(page.getByRole("heading", { name: 'Checkout: "quick"' })).toBeVisible();
    await choose(page, "Duplicate");
    await page.getByRole("textbox", { name: "Name" }).fill("Second");
    await page.getByRole("dialog").getByRole("button", { name: "Duplicate" }).click();
    await expect(page.getByRole("heading", { name: "Second" })).toBeVisible();
    expect(await ids(server)).toEqual(['Checkout: "quick"', "Second"]);

    await choose(page, "Delete");
    const table = page.getByRole("table", { name: "Tests" });
    await expect(table).toContainText("Checkout");
    await expect(table).not.toContainText("Second");
    await page.getByRole("button", { name: "Undo: keep Second" }).click();
    await expect(table).toContainText("Second");
    expect(await ids(server)).toHaveLength(2);

    await page.getByRole("link", { name: "Second" }).click();
    await choose(page, "Delete");
    await expect(page.getByText("Deleted Second")).toBeVisible();
    await expect(page.getByText("Deleted Second")).toBeHidden();
    expect(await ids(server)).toEqual(['Checkout: "quick"']);
  });
});

test("a double click starts one run", async ({ page }) => {
  await withServer(async (server) => {
    watch(page);
    await put(server, "a");
    await page.goto(`${server.url}/test/a`);
    await page.getByRole("button", { name: "Run", exact: true }).dblclick();
    await expect(page).toHaveURL(/\/run\/1/);
    const { items } = await (await server.api("/api/runs")).json();
    expect(items).toHaveLength(1);
  });
});

test("focus goes back to where it was, and arrow keys move in tabs", async ({ page }) => {
  await withServer(async (server) => {
    watch(page);
    await put(server, "a");
    await page.goto(`${server.url}/test/a`);
    const more = page.getByRole("button", { name: "More actions" });
    await choose(page, "Rename");
    await page.keyboard.press("Escape");
    await expect(more).toBeFocused();
    await page.keyboard.press("Control+k");
    await expect(page.getByRole("combobox", { name: "Command" })).toBeFocused();
    await page.keyboard.press("Escape");
    await expect(more).toBeFocused();
    await page.keyboard.press("?");
    await expect(page.getByRole("dialog", { name: "Keyboard shortcuts" })).toBeVisible();
    await page.keyboard.press("Escape");
    await expect(more).toBeFocused();
    await page.getByRole("button", { name: "Theme" }).click();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Escape");
    await expect(page.getByRole("button", { name: "Theme" })).toBeFocused();

    await page.getByRole("tab", { name: "Runs" }).focus();
    await page.keyboard.press("ArrowRight");
    await expect(page.getByRole("tab", { name: "History" })).toBeFocused();
    await expect(page.getByRole("tab", { name: "History" })).toHaveAttribute("aria-selected", "true");
    await page.keyboard.press("End");
    await expect(page.getByRole("tab", { name: "Versions" })).toBeFocused();
    await page.keyboard.press("ArrowRight");
    await expect(page.getByRole("tab", { name: "Runs" })).toHaveAttribute("aria-selected", "true");
  });
});

test("a part that the server no longer has says that a new version is running", async ({ page }) => {
  await withServer(async (server) => {
    await put(server, "a");
    await page.goto(`${server.url}/tests`);
    await expect(page.getByRole("table", { name: "Tests" })).toBeVisible();
    await page.route(/assets\/.*\.js/, (route) => route.fulfill({ status: 404, body: "" }));
    await page.getByRole("link", { name: "New test" }).click();
    await expect(page.getByRole("heading", { name: "A new version is running" })).toBeVisible();
    await expect(page.getByRole("navigation", { name: "Main" })).toBeVisible();
    await page.unroute(/assets\/.*\.js/);
    await page.getByRole("button", { name: "Reload" }).click();
    await expect(page.getByRole("heading", { name: "New test" })).toBeVisible();
  });
});

test("a lost network is told at once, and its return needs nothing", async ({ page, context }) => {
  await withServer(async (server) => {
    await put(server, "a");
    await page.goto(`${server.url}/variablesets`);
    await expect(page.getByRole("heading", { name: "Variables" })).toBeVisible();
    await context.setOffline(true);
    await expect(page.getByRole("status", { name: "Connection" })).toContainText("Disconnected");
    await context.setOffline(false);
    await expect(page.getByRole("status", { name: "Connection" })).toBeHidden();
  });
});
