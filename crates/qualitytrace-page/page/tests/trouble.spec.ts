/** What goes wrong: a server that dies, a network that is off, two people who save, tokens that end, late spans. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "@playwright/test";
import { expect, expectWritten, type Server, serve, serveAt, test, watch, written } from "./server";

/** A port that is free now. */
function freePort(): Promise<string> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(String(typeof address === "object" ? address?.port : "")));
    });
  });
}

/** A test of a trace that the scenario sends. */
const definition = (id: string, window: string) => `type: Test
spec:
  id: ${id}
  name: Waiting
  trigger:
    type: traceid
    traceid:
      id: \${var:TRACE}
  pollingProfile:
    strategy: periodic
    periodic:
      retryDelay: 1s
      quiet: ${window}
      settle: ${window}
      timeout: 30s
  specs:
  - name: The charge is made
    selector: span[name = "charge"]
    assertions:
    - attr:tracetest.selected_spans.count = 1
`;

async function store(server: Server, text: string): Promise<void> {
  const headers = { "content-type": "text/yaml" };
  const answer = await server.api("/api/tests", { method: "POST", headers, body: text });
  expect(answer.status, await answer.text()).toBe(201);
}

/** Starts a run by its link. */
async function runByLink(page: Page, server: Server, test: string, trace: string): Promise<void> {
  const variables = encodeURIComponent(JSON.stringify([{ key: "TRACE", value: trace }]));
  await page.goto(`${server.url}/test/${test}/run?variables=${variables}`);
  await page.getByRole("region", { name: "Run link" }).getByRole("button", { name: "Run" }).click();
}

test("a server that dies in mid-run is told, nothing typed is lost, and the run goes on without a gap", async ({
  page,
}) => {
  const folder = mkdtempSync(join(tmpdir(), "qualitytrace-page-"));
  const [port, database] = [await freePort(), `sqlite://${join(folder, "page.db")}`];
  let server = await serveAt(port, database);
  try {
    // The browser writes lost connections to its console.
    const complaints = watch(page, /ERR_|Failed to load resource/);
    await store(server, definition("waiting", "20s"));
    const traceId = "a".repeat(32);
    await server.send([{ traceId, spanId: "a".repeat(16), name: "POST /order", kind: 2 }]);
    await runByLink(page, server, "waiting", traceId);
    await expect(page.getByRole("row", { name: /^POST \/order/ })).toBeVisible();
    await page.getByRole("searchbox", { name: "Find spans" }).fill("order");
    const bar = page.getByRole("status", { name: "Connection" });
    await expect(bar).toBeHidden();
    await server.kill();
    await expect(bar).toContainText("Disconnected");
    await expect(page.getByRole("row", { name: /^POST \/order/ })).toBeVisible();
    await page.getByRole("searchbox", { name: "Find spans" }).pressSequentially(" now");
    server = await serveAt(port, database);
    await expect(bar).toBeHidden();
    await expect(page.getByRole("searchbox", { name: "Find spans" })).toHaveValue("order now");
    await server.send([{ traceId, spanId: "b".repeat(16), parentSpanId: "a".repeat(16), name: "charge" }]);
    const state = page.getByRole("status", { name: "Run state" });
    await expect(state).toContainText(/Waiting|Passed|Broken/);
    await page.getByRole("tablist", { name: "Run" }).getByRole("tab", { name: "Events" }).click();
    const events = page.getByRole("table", { name: "Events" }).getByRole("rowheader");
    await expect(events.filter({ hasText: /^created$/ })).toHaveCount(1);
    await expect(events.filter({ hasText: /^triggering$/ })).toHaveCount(1);
    expect(complaints).toEqual([]);
  } finally {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
});

test("spans after the verdict correct it, and the correction is shown as one", async ({ page }) => {
  const server = await serve();
  try {
    const complaints = watch(page);
    await store(server, definition("late", "20s"));
    const traceId = "b".repeat(32);
    await server.send([{ traceId, spanId: "a".repeat(16), name: "POST /order", kind: 2 }]);
    await runByLink(page, server, "late", traceId);
    const state = page.getByRole("status", { name: "Run state" });
    await expect(state).toContainText("Waiting");
    await page.getByRole("button", { name: "Judge now" }).click();
    await expect(state).toContainText(/Failed|Inconclusive/);
    await server.send([{ traceId, spanId: "b".repeat(16), parentSpanId: "a".repeat(16), name: "charge" }]);
    await expect(state).toContainText("Passed");
    await expect(page.getByText("arrived after the verdict")).toContainText(
      /Corrected: 1 span.*made it Passed/,
    );
    await expect(page.getByRole("row", { name: /^charge/ })).toBeVisible();
    expect(complaints).toEqual([]);
  } finally {
    await server.stop();
  }
});

test("with the network off what is loaded stays, a save says so, and works when it is back", async ({
  page,
  context,
}) => {
  const server = await serve();
  try {
    const complaints = watch(page, /ERR_INTERNET_DISCONNECTED|Failed to load resource/);
    await store(server, definition("offline", "300ms"));
    await page.goto(`${server.url}/test/offline?tab=definition`);
    const editor = page.getByRole("textbox", { name: "Definition" });
    await expectWritten(editor, /name: Waiting/);
    await context.setOffline(true);
    await editor.fill((await written(editor)).replace("name: Waiting", "name: Written offline"));
    await page.getByRole("button", { name: "Save" }).click();
    await expect(page.getByRole("alert")).toContainText("does not answer");
    await expect(page.getByRole("status", { name: "Connection" })).toContainText("Disconnected");
    await expectWritten(editor, /Written offline/);
    await context.setOffline(false);
    await expect(page.getByRole("status", { name: "Connection" })).toBeHidden();
    await page.getByRole("button", { name: "Save" }).click();
    await expect(page.getByText("Saved as version 2")).toBeVisible();
    expect(complaints).toEqual([]);
  } finally {
    await server.stop();
  }
});

/** Adds an assertion on an attribute of the span with this name to the draft. */
async function addAssertion(page: Page, row: RegExp, attribute: string): Promise<void> {
  await page.getByRole("row", { name: row }).first().click();
  const details = page.getByRole("complementary", { name: "Span details" });
  await details.getByRole("searchbox", { name: "Filter attributes" }).fill(attribute);
  await details.getByRole("button", { name: `Assert ${attribute}` }).click();
  await page.getByRole("button", { name: "Add to draft" }).click();
}

test("of two drafts the second is told about the first, keeps its lines, and both are saved", async ({
  shop,
  demo,
}) => {
  const other = await shop.context().newPage();
  for (const page of [shop, other]) await page.goto(`${demo.url}/test/shop-show-cart/run/2/trace`);
  await addAssertion(shop, /^GET \/cart/, "http.request.method");
  await addAssertion(other, /^GET \/cart/, "http.response.status_code");
  const draft = (page: Page) => page.getByRole("region", { name: "Draft" });
  await draft(shop).getByRole("button", { name: "Save" }).click();
  await expect(draft(shop)).toContainText("Saved as version 2");
  await draft(other).getByRole("button", { name: "Save" }).click();
  await expect(draft(other).getByRole("alert")).toContainText("Nothing is lost");
  await expect(draft(other)).toContainText("http.response.status_code");
  await draft(other).getByRole("button", { name: "Save" }).click();
  await expect(draft(other)).toContainText("Saved as version 3");
  const text = await (await demo.api("/api/tests/shop-show-cart/source")).text();
  expect(text).toContain("attr:http.request.method =");
  expect(text).toContain("attr:http.response.status_code =");
  await other.close();
});

test("a draft that is not saved is asked about before it is left", async ({ shop, demo }) => {
  await shop.goto(`${demo.url}/test/shop-show-cart/run/1/trace`);
  await addAssertion(shop, /^GET \/cart/, "http.request.method");
  const questions: string[] = [];
  shop.on("dialog", (dialog) => {
    questions.push(dialog.message());
    void (questions.length === 1 ? dialog.dismiss() : dialog.accept());
  });
  // The tabs of the run share the draft.
  await shop.getByRole("tablist", { name: "Run" }).getByRole("tab", { name: "Events" }).click();
  await expect(shop.getByRole("table", { name: "Events" })).toBeVisible();
  expect(questions).toEqual([]);
  const runs = shop.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Runs" });
  await runs.click();
  await expect(shop.getByRole("region", { name: "Draft" })).toBeVisible();
  await runs.click();
  await expect(shop.getByRole("heading", { name: "Runs" })).toBeVisible();
  expect(questions).toEqual(["The draft is not saved. Leave it?", "The draft is not saved. Leave it?"]);
});

test("a text that was begun before another one was stored never replaces it unasked", async ({
  page,
  context,
}) => {
  const server = await serve();
  try {
    const complaints = watch(page, /status of 409|ERR_INTERNET_DISCONNECTED|Failed to load resource/);
    await store(server, definition("begun", "300ms"));
    await page.goto(`${server.url}/test/begun?tab=definition`);
    const editor = page.getByRole("textbox", { name: "Definition" });
    await expectWritten(editor, /name: Waiting/);
    await editor.fill((await written(editor)).replace("name: Waiting", "name: Begun here"));
    const theirs = definition("begun", "300ms").replace("name: Waiting", "name: Stored by another");
    const headers = { "content-type": "text/yaml" };
    const stored = await server.api("/api/tests/begun", { method: "PUT", headers, body: theirs });
    expect(stored.status).toBe(200);
    // When the network is back, the page loads the newest version of everything.
    await context.setOffline(true);
    await page.waitForFunction(() => !navigator.onLine);
    const loaded = page.waitForResponse((answer) => answer.url().endsWith("/api/tests/begun/source"));
    await context.setOffline(false);
    await (await loaded).finished();
    await page.getByRole("button", { name: "Save" }).click();
    const conflict = page.getByRole("region", { name: "Conflict" });
    await expect(conflict).toContainText("Stored by another");
    expect(await (await server.api("/api/tests/begun/source")).text()).toBe(theirs);
    await conflict.getByRole("button", { name: "Replace it by mine" }).click();
    await expect(page.getByText("Saved as version 3")).toBeVisible();
    expect(complaints).toEqual([]);
  } finally {
    await server.stop();
  }
});

test("a new selector replaces the spec of the run, although the test has another version now", async ({
  page,
}) => {
  const server = await serve();
  try {
    const complaints = watch(page);
    const wrong = definition("moved", "20s").replace('"charge"', '"chrage"');
    await store(server, wrong);
    const traceId = "c".repeat(32);
    await server.send([{ traceId, spanId: "a".repeat(16), name: "charge" }]);
    await runByLink(page, server, "moved", traceId);
    await page.getByRole("button", { name: "Judge now" }).click();
    const state = page.getByRole("status", { name: "Run state" });
    await expect(state).toContainText(/Failed|Inconclusive/);
    const first =
      '  - name: It comes first\n    selector: span[name = "first"]\n    assertions:\n    - attr:name = "first"\n';
    const headers = { "content-type": "text/yaml" };
    const body = wrong.replace("  specs:\n", `  specs:\n${first}`);
    const stored = await server.api("/api/tests/moved", { method: "PUT", headers, body });
    expect(stored.status).toBe(200);
    await page.goto(`${server.url}/test/moved/run/1/test`);
    const miss = page.getByRole("region", { name: "Nearest miss" });
    await miss.getByRole("button", { name: "Use this selector" }).first().click();
    const draft = page.getByRole("region", { name: "Draft" });
    await draft.getByRole("button", { name: "Save" }).click();
    await expect(draft).toContainText("Saved as version 3");
    const text = await (await server.api("/api/tests/moved/source")).text();
    expect(text).toContain(first);
    expect(text).not.toContain("chrage");
    expect(complaints).toEqual([]);
  } finally {
    await server.stop();
  }
});

test("a setting and a variable set that are not saved are asked about before they are left", async ({
  page,
}) => {
  const server = await serve();
  try {
    const complaints = watch(page);
    const questions: string[] = [];
    page.on("dialog", (dialog) => {
      questions.push(dialog.message());
      void (questions.length % 2 === 1 ? dialog.dismiss() : dialog.accept());
    });
    await page.goto(`${server.url}/settings?tab=polling`);
    const setting = page.getByRole("textbox", { name: "Waiting" });
    await expectWritten(setting, /type: PollingProfile/);
    await setting.fill(`${await written(setting)}# mine\n`);
    const runs = page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Runs" });
    await runs.click();
    await expectWritten(setting, /# mine/);
    await runs.click();
    await expect(page.getByRole("heading", { name: "Runs" })).toBeVisible();
    await page.goto(`${server.url}/variablesets`);
    await page.getByRole("button", { name: "New set" }).click();
    const dialog = page.getByRole("dialog", { name: "Variable set" });
    await expect(dialog.locator(".cm-content")).toBeVisible();
    await dialog.getByLabel("Definition").fill("type: VariableSet # mine\n");
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await expectWritten(dialog.getByLabel("Definition"), /# mine/);
    await dialog.getByRole("button", { name: "Cancel" }).focus();
    await page.keyboard.press("Escape");
    await expect(dialog).toBeHidden();
    const [left, closed] = [
      "The setting is not saved. Leave it?",
      "The variable set is not saved. Leave it?",
    ];
    expect(questions).toEqual([left, left, closed, closed]);
    expect(complaints).toEqual([]);
  } finally {
    await server.stop();
  }
});

test("a token that ends leads to sign in and back to the same view, below a prefix and at the root", async ({
  page,
}) => {
  const port = await freePort();
  const [first, second] = ["read-token-0123456789abcdef", "full-token-0123456789abcdef"];
  const prefix = ["--server.pathPrefix", "/below"];
  let server = await serveAt(port, "sqlite::memory:", [...prefix, "--auth.tokens", `read:${first}`]);
  try {
    const complaints = watch(page, /401|403|404|ERR_/);
    const signIn = async (token: string) => {
      await page.getByLabel("Token").fill(token);
      await page.getByRole("button", { name: "Sign in" }).click();
    };
    for (const root of ["", "/below"]) {
      await page.context().clearCookies();
      await page.goto(`${server.url}${root}/tests`);
      await signIn(first);
      await expect(page).toHaveURL(`${server.url}${root}/tests`);
      await expect(page.getByText("There are no tests yet")).toBeVisible();
      await expect(page.getByRole("link", { name: "New test" })).toBeHidden();
    }
    for (const screen of ["runs", "traces", "testsuites", "variablesets", "status", "settings", "start"]) {
      await page.goto(`${server.url}/below/${screen}`);
      await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    }
    await server.stop();
    server = await serveAt(port, "sqlite::memory:", [...prefix, "--auth.tokens", `full:${second}`]);
    await page.goto(`${server.url}/below/runs?outcome=failed`);
    await expect(page).toHaveURL(/\/below\/login\?next=/);
    await signIn(second);
    await expect(page).toHaveURL(`${server.url}/below/runs?outcome=failed`);
    expect(complaints).toEqual([]);
  } finally {
    await server.stop();
  }
});

test("no secret of a test is in the page, its storage, its address, or in what it is sent", async ({
  page,
}) => {
  const server = await serve();
  const secret = "s3cr3t-of-the-shop-0123456789";
  try {
    const complaints = watch(page, /status of (404|422)/);
    const received: string[] = [];
    page.on("response", async (response) => {
      const body = await response.text().catch(() => "");
      if (body.includes(secret)) received.push(response.url());
    });
    const headers = { "content-type": "text/yaml" };
    const set = `type: VariableSet\nspec:\n  id: keys\n  name: Keys\n  values:\n  - key: API_KEY\n    value: ${secret}\n    type: secret\n`;
    const stored = await server.api("/api/variablesets", { method: "POST", headers, body: set });
    expect(stored.status, await stored.text()).toBe(201);
    await store(
      server,
      `type: Test
spec:
  id: secret
  name: Secret
  trigger:
    type: http
    httpRequest:
      method: POST
      url: ${server.url}/api/expressions/resolve
      headers:
      - key: Content-Type
        value: application/json
      - key: X-Key
        value: \${var:API_KEY}
      body: '{"expression": "\${var:API_KEY}"}'
  specs:
  - selector: span[name = "Tracetest trigger"]
    assertions:
    - attr:tracetest.response.body = "other"
  pollingProfile:
    strategy: periodic
    periodic: {retryDelay: 1s, quiet: 100ms, settle: 100ms, timeout: 5s}
`,
    );
    const started = await server.api("/api/tests/secret/run", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ variableSetId: "keys" }),
    });
    expect(started.status, await started.text()).toBe(200);
    await page.goto(`${server.url}/test/secret/run/1`);
    await expect(page.getByRole("status", { name: "Run state" })).toContainText(/Failed|Broken|Inconclusive/);
    const seen: string[] = [];
    for (const path of ["trigger", "trace", "test", "events", "automate"]) {
      await page.goto(`${server.url}/test/secret/run/1/${path}`);
      await expect(page.getByRole("status", { name: "Run state" })).not.toContainText("Loading");
      seen.push(await page.content());
    }
    const downloading = page.waitForEvent("download");
    await page.getByRole("button", { name: "HTML report" }).click();
    const file = await (await downloading).createReadStream();
    for await (const piece of file) seen.push(piece.toString());
    const bundling = page.waitForEvent("download");
    await page.getByRole("button", { name: "Bundle" }).click();
    const archive = await (await bundling).path();
    seen.push(execFileSync("tar", ["-xzOf", archive], { encoding: "utf8", maxBuffer: 1e8 }));
    for (const path of ["/variablesets", "/test/secret?tab=definition", "/tests"]) {
      await page.goto(server.url + path);
      await expect(page.locator("[aria-busy=true]")).toHaveCount(0);
      seen.push(await page.content());
    }
    seen.push(
      await page.evaluate(
        () => JSON.stringify({ ...localStorage, ...sessionStorage }) + document.cookie + location.href,
      ),
    );
    expect(seen.filter((text) => text.includes(secret))).toEqual([]);
    expect(received).toEqual([]);
    expect(seen.join("")).toContain("API_KEY");
    expect(complaints).toEqual([]);
  } finally {
    await server.stop();
  }
});
