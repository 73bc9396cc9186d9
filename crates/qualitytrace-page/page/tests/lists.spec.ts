/** Lists of more than a page: what is searched, filtered and sorted is everything, not what is loaded. */
import type { Page } from "@playwright/test";
import { expect, type Server, test, watch, withServer } from "./server";

const TESTS = 700;

async function put(server: Server, path: string, body: object) {
  const headers = { "content-type": "application/json" };
  const answer = await server.api(path, { method: "PUT", headers, body: JSON.stringify(body) });
  expect(answer.ok, await answer.text()).toBe(true);
}

/** The first test that is stored fails when it is run, and so does none of the others. */
async function fill(server: Server) {
  for (let at = 0; at < TESTS; at += 1) {
    const id = `t${at}`;
    const trigger =
      at === 1
        ? { type: "kafka", kafka: { brokerUrls: ["127.0.0.1:9"], topic: "orders", messageValue: "x" } }
        : { type: "http", httpRequest: { method: "GET", url: "http://127.0.0.1:9/" } };
    const tags = at === 2 ? ["nightly"] : ["all"];
    const name = at === 0 ? "Oldest of all" : `Test ${String(at).padStart(4, "0")}`;
    await put(server, "/api/tests", { type: "Test", spec: { id, name, trigger, tags } });
  }
  for (let at = 0; at < 230; at += 1) {
    const name = `Suite ${String(at).padStart(3, "0")}`;
    await put(server, "/api/testsuites", { type: "TestSuite", spec: { id: `s${at}`, name, steps: ["t0"] } });
    const spec = {
      id: `v${at}`,
      name: `Set ${String(at).padStart(3, "0")}`,
      values: [{ key: "A", value: `${at}` }],
    };
    await put(server, "/api/variablesets", { type: "VariableSet", spec });
  }
}

const rows = (page: Page, name: string) => page.getByRole("table", { name }).locator("tbody tr");

test("a list of many is searched, filtered and sorted on the server, and grows as it is read", async ({
  page,
}) => {
  await withServer(async (server) => {
    watch(page);
    await fill(server);
    await page.goto(`${server.url}/tests`);
    await expect(page.getByText(String(TESTS), { exact: true })).toBeVisible();
    await expect(rows(page, "Tests")).toHaveCount(50);
    await page.getByRole("button", { name: "More tests" }).scrollIntoViewIfNeeded();
    await expect(rows(page, "Tests")).toHaveCount(100);

    await page.getByRole("searchbox", { name: "Filter tests" }).fill("oldest");
    await expect(rows(page, "Tests")).toHaveCount(1);
    await expect(rows(page, "Tests")).toContainText("Oldest of all");
    await page.getByRole("searchbox", { name: "Filter tests" }).fill("nothing has this name");
    await expect(page.getByText("No test matches these filters.")).toBeVisible();
    await page.getByRole("searchbox", { name: "Filter tests" }).fill("");

    await page.getByRole("combobox", { name: "Trigger" }).selectOption("kafka");
    await expect(rows(page, "Tests")).toHaveCount(1);
    await expect(rows(page, "Tests")).toContainText("Test 0001");
    await page.getByRole("combobox", { name: "Trigger" }).selectOption("");
    await page.getByRole("combobox", { name: "Tag" }).selectOption("nightly");
    await expect(rows(page, "Tests")).toHaveCount(1);
    await expect(rows(page, "Tests")).toContainText("Test 0002");
    await page.reload();
    await expect(page.getByRole("combobox", { name: "Tag" })).toHaveValue("nightly");
    await expect(rows(page, "Tests")).toHaveCount(1);

    const started = await server.api("/api/tests/t0/run", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: "{}",
    });
    const run = await started.json();
    await (await server.api(`/api/tests/t0/run/${run.id}/events/stream`)).text();
    await page.goto(`${server.url}/tests?outcome=broken`);
    await expect(rows(page, "Tests")).toHaveCount(1);
    await expect(rows(page, "Tests")).toContainText("Oldest of all");

    await page.goto(`${server.url}/tests`);
    await page.getByRole("button", { name: "Test", exact: true }).click();
    await expect(rows(page, "Tests").first()).toContainText("Oldest of all");
    await page.getByRole("button", { name: /^Test/ }).click();
    await expect(rows(page, "Tests").first()).toContainText("Test 0699");
    await expect(page).toHaveURL(/sort=-name/);

    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Command" }).fill("run oldest");
    await expect(page.getByRole("option", { name: "Run Oldest of all" })).toBeVisible();
    await page.getByRole("combobox", { name: "Command" }).fill("suite 007");
    await page.getByRole("option", { name: "Suite 007" }).click();
    await expect(page.getByRole("heading", { name: "Suite 007" })).toBeVisible();

    await page.goto(`${server.url}/testsuites`);
    await page.getByRole("searchbox", { name: "Filter suites" }).fill("003");
    await expect(rows(page, "Suites")).toHaveCount(1);
    await page.goto(`${server.url}/variablesets`);
    await page.getByRole("searchbox", { name: "Filter sets" }).fill("set 229");
    await expect(page.getByRole("heading", { name: /Set 229/ })).toBeVisible();
    await expect(page.getByRole("heading", { name: /Set 000/ })).toBeHidden();
    await page.goto(`${server.url}/variablesets?a=v0&b=v229`);
    await expect(page.getByRole("combobox", { name: "Set B" })).toHaveValue("v229");
  });
});
