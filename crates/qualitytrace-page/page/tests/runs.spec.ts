/** What starts runs, with which variables, and what is said about how they ended: links, Run again, gates, suites. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Page } from "@playwright/test";
import { expect, type Server, test, watch, withServer } from "./server";

async function ask(server: Server, method: string, path: string, body: object = {}) {
  const headers = { "content-type": "application/json" };
  const answer = await server.api(path, { method, headers, body: JSON.stringify(body) });
  const text = await answer.text();
  expect(answer.ok, text).toBe(true);
  return JSON.parse(text);
}

/** A test that asks an address and judges the answer, without a wait for spans. */
const asking = (id: string, url: string, more: object = {}) => ({
  type: "Test",
  spec: {
    id,
    name: `Test ${id}`,
    skipTraceCollection: true,
    trigger: { type: "http", httpRequest: { method: "GET", url } },
    specs: [
      {
        name: "It answers",
        selector: 'span[name = "Tracetest trigger"]',
        assertions: ["attr:tracetest.response.status = 200"],
      },
    ],
    ...more,
  },
});

/** Starts a run and waits for its end: its stream ends with it. */
async function ran(server: Server, path: string, body: object = {}): Promise<number> {
  const { id } = await ask(server, "POST", `/api/${path}/run`, body);
  await (await server.api(`/api/${path}/run/${id}/events/stream`)).text();
  return id;
}

/** Something that listens on a port of its own, and what it was sent. */
async function listening(
  answer: string,
  work: (url: string, heard: string[]) => Promise<void>,
): Promise<void> {
  const heard: string[] = [];
  const listener = createServer((request, response) => {
    heard.push(`${request.url} ${request.headers.authorization ?? ""}`);
    response.setHeader("content-type", "text/html");
    response.end(answer);
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  try {
    await work(`http://127.0.0.1:${(listener.address() as AddressInfo).port}`, heard);
  } finally {
    listener.close();
  }
}

test("a failed run opens with what happened, since when, and what changed", async ({ page }) => {
  await listening("ok", async (url) => {
    await withServer(async (server) => {
      watch(page);
      const specs = [
        {
          name: "It answers well",
          selector: 'span[name = "Tracetest trigger"]',
          assertions: ["attr:tracetest.response.status = var:STATUS"],
        },
      ];
      await ask(server, "PUT", "/api/tests", asking("t", url, { specs }));
      const variables = (value: string) => [{ key: "STATUS", value }];
      await ran(server, "tests/t", { variables: variables("200") });
      await ran(server, "tests/t", {
        variables: variables("201"),
        metadata: { commit: "0123456789abcdef0123" },
      });
      await ran(server, "tests/t", { variables: variables("201") });
      await page.goto(`${server.url}/test/t/run/3/test`);
      const story = page.getByRole("region", { name: "What happened" });
      await expect(story).toContainText("It answers well: tracetest.response.status is 200");
      await expect(story).toContainText("where the test expects 201");
      await expect(story).toContainText("Failing since run 2");
      await expect(story).toContainText("commit 0123456789ab");
      await expect(story).toContainText("run 1 passed. The trace has the same spans since then.");
      await story.getByRole("link", { name: "run 2" }).click();
      await page.getByRole("tab", { name: "Test" }).click();
      await expect(story).toContainText("This is the first failure: run 1 passed.");
      await story.getByRole("link", { name: "Compare" }).click();
      await expect(page.getByRole("combobox", { name: "Run A" })).toHaveValue("1");
      await page.goto(`${server.url}/test/t/run/1/test`);
      await expect(page.getByRole("list", { name: "Specs" })).toBeVisible();
      await expect(story).toBeHidden();
    });
  });
});

const state = (page: Page) => page.getByRole("status", { name: "Run state" });

test("a link of a site that does not say who it is starts nothing before the reader has seen its variables", async ({
  page,
}) => {
  await withServer(async (server) => {
    const complaints = watch(page);
    await ask(server, "POST", "/api/tests", asking("health", `${server.url}/\${var:PATH}`));
    const variables = encodeURIComponent('[{"key":"PATH","value":"healthz"}]');
    const link = `${server.url}/test/health/run?variables=${variables}`;
    await listening(`<a rel="noreferrer" href="${link}">a prize</a>`, async (elsewhere) => {
      await page.goto(elsewhere);
      await page.getByRole("link", { name: "a prize" }).click();
      const question = page.getByRole("region", { name: "Run link" });
      await expect(question).toContainText("health");
      await expect(question).toContainText("PATHhealthz");
      expect(await page.evaluate(() => document.referrer)).toBe("");
      expect(await (await server.api("/api/tests/health/run")).json()).toEqual([]);
      await question.getByRole("button", { name: "Run" }).click();
      await expect(page).toHaveURL(/\/test\/health\/run\/1\/trace/);
      await expect(state(page)).toContainText("Passed");
    });
    expect(complaints).toEqual([]);
  });
});

test("a run that the reader chooses in the palette starts without a question", async ({ page }) => {
  await withServer(async (server) => {
    const complaints = watch(page);
    await ask(server, "POST", "/api/tests", asking("health", `${server.url}/healthz`));
    await page.goto(`${server.url}/tests`);
    await expect(page.getByRole("table", { name: "Tests" })).toContainText("Test health");
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Command" }).fill("Run Test health");
    await page.keyboard.press("Enter");
    await expect(page).toHaveURL(/\/test\/health\/run\/1\/trace/);
    expect(complaints).toEqual([]);
  });
});

const SECRETS = { ofSet: "s3cr3t-of-the-set", given: "s3cr3t-that-was-given" };

test("Run again sends the variable set and what was given beside it, and asks for a secret that was", async ({
  page,
}) => {
  await withServer(async (server) => {
    const complaints = watch(page);
    await listening("{}", async (url, heard) => {
      const headers = [{ key: "Authorization", value: `\${var:KEY}-\${var:EXTRA}` }];
      const httpRequest = { method: "GET", url: `${url}/\${var:WHO}`, headers };
      await ask(server, "POST", "/api/tests", asking("t", url, { trigger: { type: "http", httpRequest } }));
      const values = [
        { key: "WHO", value: "ada" },
        { key: "KEY", value: SECRETS.ofSet, type: "secret" },
      ];
      const set = { type: "VariableSet", spec: { id: "keys", name: "Keys", values } };
      await ask(server, "POST", "/api/variablesets", set);
      const extra = { key: "EXTRA", value: SECRETS.given, type: "secret" };
      const who = { key: "WHO", value: "bob" };
      await ran(server, "tests/t", { variableSetId: "keys", variables: [who, extra] });
      await page.goto(`${server.url}/test/t/run/1/automate`);
      await expect(page.getByText("--vars keys --var WHO=bob --secret EXTRA")).toBeVisible();
      await page.getByRole("button", { name: "Run again" }).click();
      const dialog = page.getByRole("dialog", { name: "Variables" });
      await expect(dialog.getByRole("textbox")).toHaveCount(1);
      await expect(dialog.getByLabel("EXTRA")).toHaveAttribute("type", "password");
      await expect(dialog.getByLabel("EXTRA")).toHaveValue("");
      await dialog.getByLabel("EXTRA").fill(SECRETS.given);
      await dialog.getByRole("button", { name: "Run" }).click();
      await expect(page).toHaveURL(/\/test\/t\/run\/2\/trace/);
      await expect(state(page)).toContainText("Passed");
      expect(heard).toEqual(Array(2).fill(`/bob ${SECRETS.ofSet}-${SECRETS.given}`));
      const again = await (await server.api("/api/tests/t/run/2")).text();
      expect(again).not.toContain(SECRETS.given);
      expect(JSON.parse(again).variableSet.id).toBe("keys");
    });
    expect(complaints).toEqual([]);
  });
});

test("a suite is run again without the outputs of its last run", async ({ page }) => {
  await withServer(async (server) => {
    // A variable without a value is refused, and the browser writes that to its console.
    const complaints = watch(page, /status of 422/);
    const value = "attr:tracetest.response.body | json_path '$.id'";
    const outputs = [{ name: "ORDER_ID", selector: 'span[name = "Tracetest trigger"]', value }];
    await listening('{"id": "41"}', async (url, heard) => {
      await ask(server, "POST", "/api/tests", asking("order", `${url}/order/\${var:WHO}`, { outputs }));
      await ask(server, "POST", "/api/tests", asking("pay", `${url}/pay/\${var:ORDER_ID}`));
      const suite = { id: "buy", name: "Buy", steps: ["order", "pay"] };
      await ask(server, "POST", "/api/testsuites", { type: "TestSuite", spec: suite });
      await ran(server, "testsuites/buy", { variables: [{ key: "WHO", value: "ada" }] });
      expect(heard.splice(0)).toEqual(["/order/ada ", "/pay/41 "]);
      // The first step has no output any more: nothing may take its place.
      await ask(server, "PUT", "/api/tests/order", asking("order", `${url}/order/\${var:WHO}`));
      await page.goto(`${server.url}/testsuite/buy`);
      await page.getByRole("button", { name: "Run", exact: true }).click();
      const dialog = page.getByRole("dialog", { name: "Variables" });
      await expect(dialog.getByRole("textbox")).toHaveCount(1);
      await dialog.getByLabel("ORDER_ID").fill("42");
      await dialog.getByRole("button", { name: "Run" }).click();
      await expect(page).toHaveURL(/\/testsuite\/buy\/run\/2/);
      await expect(page.getByRole("table", { name: "Steps" }).getByRole("rowheader")).toHaveCount(2);
      await expect.poll(() => heard).toEqual(["/order/ada ", "/pay/42 "]);
    });
    expect(complaints).toEqual([]);
  });
});

test("a run has the outcome of its gates, and says so where its specs say something else", async ({
  page,
}) => {
  await withServer(async (server) => {
    const complaints = watch(page);
    await ask(server, "PUT", "/api/analyzers/current", { spec: { name: "A", enabled: false } });
    await ask(server, "POST", "/api/tests", asking("t", `${server.url}/nothing/here`));
    await ran(server, "tests/t", { requiredGates: ["test-specs"] });
    await ran(server, "tests/t", { requiredGates: ["analyzer-rules"] });
    const { items } = await (await server.api("/api/runs?test=t")).json();
    expect(items.map((one: { outcome: string }) => one.outcome)).toEqual(["passed", "failed"]);
    await page.goto(`${server.url}/test/t/run/1/test`);
    await expect(state(page)).toContainText("Failed");
    await expect(page).toHaveTitle(/^Failed · Test t/);
    await expect(page.getByRole("region", { name: "Gates" })).toBeHidden();
    await page.goto(`${server.url}/test/t/run/2/test`);
    await expect(state(page)).toContainText("Passed");
    await expect(page).toHaveTitle(/^Passed · Test t/);
    await expect(page.getByRole("region", { name: "Gates" })).toContainText("The specs do not count");
    await expect(
      page.getByRole("list", { name: "Specs" }).getByRole("img", { name: "failed" }),
    ).toBeVisible();
    expect(complaints).toEqual([]);
  });
});

test("an imported run is over, with its outcome, and cannot be stopped", async ({ page }) => {
  await withServer(async (server) => {
    // A trace of the trigger alone was not sent to this server.
    const complaints = watch(page, /status of 404/);
    await ask(server, "POST", "/api/tests", asking("here", `${server.url}/nothing/here`));
    await ran(server, "tests/here", { requiredGates: ["test-specs"] });
    const travels = await (await server.api("/api/tests/here/run/1/export")).json();
    travels.test.id = "there";
    await ask(server, "POST", "/api/tests/import", travels);
    await page.goto(`${server.url}/test/there/run/1`);
    await expect(state(page)).toContainText("Failed");
    await expect(page.getByRole("button", { name: "Run again" })).toBeVisible();
    await expect(page.getByRole("button", { name: "Stop" })).toBeHidden();
    await page.goto(`${server.url}/test/there/run/1/test`);
    await expect(page.getByText("This run was imported")).toBeVisible();
    expect(complaints).toEqual([]);
  });
});

test("the steps of a suite's run are the tests that ran: setup, rows and teardown, whatever the suite is now", async ({
  page,
}) => {
  await withServer(async (server) => {
    const complaints = watch(page);
    for (const id of ["login", "buy", "pay", "logout"])
      await ask(server, "POST", "/api/tests", asking(id, `${server.url}/healthz`));
    const suite = (steps: string[]) => ({
      type: "TestSuite",
      spec: {
        id: "s",
        name: "S",
        setup: ["login"],
        steps,
        teardown: ["logout"],
        data: { rows: [{ WHO: "ada" }, { WHO: "bob" }] },
      },
    });
    await ask(server, "POST", "/api/testsuites", suite(["buy", "pay"]));
    await ran(server, "testsuites/s");
    await ask(server, "PUT", "/api/testsuites/s", suite(["pay"]));
    await page.goto(`${server.url}/testsuite/s/run/1`);
    const steps = page.getByRole("table", { name: "Steps" }).getByRole("rowheader");
    const names = steps.getByRole("link");
    await expect(names).toHaveText(["login", "buy", "pay", "buy", "pay", "logout"].map((id) => `Test ${id}`));
    await expect(steps.nth(0)).toContainText("setup");
    await expect(steps.nth(3)).toContainText("row 2, WHO = bob");
    await expect(steps.nth(5)).toContainText("teardown");
    await names.nth(3).click();
    await expect(page).toHaveURL(/\/test\/buy\/run\/2\//);
    expect(complaints).toEqual([]);
  });
});
