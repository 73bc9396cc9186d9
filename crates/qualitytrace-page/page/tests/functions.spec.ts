/** What people do around their tests: versions, history, variables, links, histograms, selectors, connections, answers. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, expectWritten, type Server, type Span, spanId, test, watch, withServer } from "./server";

async function put(server: Server, kind: string, text: string, method = "POST"): Promise<void> {
  const headers = { "content-type": "text/yaml" };
  const answer = await server.api(`/api/${kind}`, { method, headers, body: text });
  expect(answer.ok, await answer.text()).toBe(true);
}

test("versions of a test are compared, and an old one is restored", async ({ page }) => {
  await withServer(async (server) => {
    const complaints = watch(page);
    const text = (name: string) => `type: Test
spec:
  id: versions
  name: ${name} # its title
  trigger: {type: traceid, traceid: {id: "${"1".repeat(32)}"}}
`;
    await put(server, "tests", text("First"));
    await put(server, "tests/versions", text("Second"), "PUT");
    await put(server, "tests/versions", text("Third"), "PUT");
    await page.goto(`${server.url}/test/versions`);
    await page.getByRole("tab", { name: "Versions" }).click();
    const changes = page.getByRole("region", { name: "Changes" });
    await expect(changes).toContainText("−   name: Second # its title");
    await expect(changes).toContainText("+   name: Third # its title");
    await page.getByRole("combobox", { name: "Version", exact: true }).selectOption("1");
    await page.getByRole("combobox", { name: "Compared with" }).selectOption("3");
    await expect(changes).toContainText("+   name: First # its title");
    await expect(page).toHaveURL(/version=1&with=3/);
    await page.getByRole("button", { name: "Restore version 1" }).click();
    await expect(page.getByRole("heading", { name: "First" })).toBeVisible();
    await expect(page.getByRole("combobox", { name: "Version", exact: true })).toHaveValue("4");
    expect(await (await server.api("/api/tests/versions/source")).text()).toBe(text("First"));
    expect(complaints).toEqual([]);
  });
});

test("the history says where the time of runs went, and which specs did not pass", async ({ shop, demo }) => {
  await shop.goto(`${demo.url}/test/shop-checkout?tab=history`);
  const phases = shop.getByRole("table", { name: "Phases" });
  await expect(phases.getByRole("row").nth(1)).toContainText(/ms|s/);
  await expect(phases.getByRole("columnheader")).toHaveText([
    "Run",
    "Time",
    "Queue",
    "Trigger",
    "Trace",
    "Verdict",
  ]);
  const specs = shop.getByRole("table", { name: "Specs" });
  const worst = specs.getByRole("row").nth(1);
  await expect(worst).toContainText("The cart is read once and emptied once");
  await expect(worst).toContainText(/(\d+) of \1/);
});

test("variable sets are compared, and lines of a .env file become values", async ({ page }) => {
  await withServer(async (server) => {
    const complaints = watch(page);
    const set = (name: string, values: string) =>
      `type: VariableSet\nspec:\n  id: ${name}\n  name: ${name}\n  values:\n${values}`;
    await put(server, "variablesets", set("staging", "  - key: GATEWAY # the door\n    value: http://a\n"));
    await put(
      server,
      "variablesets",
      set("live", "  - key: GATEWAY\n    value: http://b\n  - key: ONLY\n    value: x\n"),
    );
    await page.goto(`${server.url}/variablesets`);
    await page.getByRole("combobox", { name: "Set A" }).selectOption("staging");
    await page.getByRole("combobox", { name: "Set B" }).selectOption("live");
    await expect(page.getByRole("status", { name: "Summary" })).toHaveText("2 variables of 2 differ.");
    const rows = page.getByRole("table", { name: "Comparison" }).locator("[data-change]");
    await expect(rows.nth(0)).toContainText("http://a");
    await expect(rows.nth(1)).toHaveAttribute("data-change", "only in B");
    await expect(page).toHaveURL(/a=staging&b=live/);
    await page
      .getByRole("heading", { name: /^staging/ })
      .getByRole("button", { name: "Edit" })
      .click();
    const dialog = page.getByRole("dialog", { name: "Variable set" });
    await dialog.getByText("Paste a .env file").click();
    const lines = dialog.getByLabel("Lines of a .env file");
    await lines.fill("nonsense");
    await expect(dialog).toContainText("Line 1 cannot be read");
    await lines.fill("GATEWAY=http://c\nexport DB_PASSWORD='hunter2'\n");
    await dialog.getByRole("button", { name: "Add 2 values" }).click();
    await expectWritten(dialog.getByLabel("Definition"), /GATEWAY # the door\n\s+value: http:\/\/c/);
    await expectWritten(dialog.getByLabel("Definition"), /type: secret/);
    await dialog.getByRole("button", { name: "Save" }).click();
    await expect(page.getByRole("table", { name: "staging" })).toContainText("DB_PASSWORD");
    await expect(page.getByRole("table", { name: "staging" })).not.toContainText("hunter2");
    expect(complaints).toEqual([]);
  });
});

test("variables are offered in the fields of a trigger", async ({ page }) => {
  await withServer(async (server) => {
    const complaints = watch(page);
    const values = "  - key: GATEWAY\n    value: http://a\n  - key: USER\n    value: ada\n";
    await put(
      server,
      "variablesets",
      `type: VariableSet\nspec:\n  id: staging\n  name: staging\n  values:\n${values}`,
    );
    await page.goto(`${server.url}/test/create`);
    const url = page.getByRole("region", { name: "Trigger" }).getByLabel("URL");
    await url.fill("");
    await url.pressSequentially("${var:ga");
    const offers = page.getByRole("listbox", { name: "Completions" }).getByRole("option");
    await expect(offers).toHaveCount(1);
    await expect(offers).toContainText("staging");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await expect(url).toHaveValue("${var:GATEWAY");
    await url.pressSequentially("}/cart");
    await expectWritten(page.getByRole("textbox", { name: "Definition" }), /url: "?\$\{var:GATEWAY\}\/cart/);
    expect(complaints).toEqual([]);
  });
});

test("a span has an address of its own, and says which spans lead to it", async ({ page, context }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await withServer(async (server) => {
    const complaints = watch(page);
    const [here, there] = ["a".repeat(32), "b".repeat(32)];
    await server.send([
      { traceId: here, spanId: spanId(1), name: "produce" },
      { traceId: here, spanId: spanId(2), name: "consume", links: [{ traceId: here, spanId: spanId(1) }] },
      { traceId: here, spanId: spanId(3), name: "audit", links: [{ traceId: there, spanId: spanId(9) }] },
      { traceId: there, spanId: spanId(9), name: "elsewhere" },
    ]);
    await page.goto(`${server.url}/trace/${here}?q=produce&span=${spanId(1)}`);
    const details = page.getByRole("complementary", { name: "Span details" });
    await details.getByRole("button", { name: "Copy link to this span" }).click();
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(
      `${server.url}/trace/${here}?span=${spanId(1)}`,
    );
    await details.getByRole("tab", { name: /^Links/ }).click();
    await expect(details).toContainText("Linked from");
    await details.getByRole("button", { name: "consume" }).click();
    await expect(page).toHaveURL(new RegExp(`span=${spanId(2)}`));
    await page.getByRole("row", { name: /^audit/ }).click();
    await details.getByRole("link", { name: /^bbbbbbbb/ }).click();
    await expect(page).toHaveURL(new RegExp(`/trace/${there}\\?span=${spanId(9)}`));
    await expect(page.getByRole("row", { name: /^elsewhere/, selected: true })).toBeVisible();
    expect(complaints).toEqual([]);
  });
});

test("traces are counted by their duration, and a class of them is a filter", async ({ page }) => {
  await withServer(async (server) => {
    const complaints = watch(page);
    for (const [at, length] of [3, 4, 300, 4000].entries())
      await server.send([
        { traceId: spanId(at + 1).padStart(32, "f"), spanId: spanId(1), name: `takes ${length}`, length },
      ]);
    await page.goto(`${server.url}/traces`);
    const rows = page.getByRole("table", { name: "Traces" }).getByRole("row");
    await expect(rows).toHaveCount(5);
    await page.getByRole("button", { name: "2 ms to 5 ms: 2 traces" }).click();
    await expect(rows).toHaveCount(3);
    await expect(page).toHaveURL(/minDuration=2000000ns&maxDuration=5000000ns/);
    expect(complaints).toEqual([]);
  });
});

/** Numbers that are the same in every run of the tests. */
function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

test("the selector of a draft selects the clicked span and no other, in twenty random traces", async ({
  page,
}) => {
  await withServer(async (server) => {
    const complaints = watch(page);
    await put(
      server,
      "tests",
      `type: Test
spec:
  id: random
  name: Random
  trigger: {type: traceid, traceid: {id: "\${var:TRACE}"}}
  pollingProfile:
    strategy: periodic
    periodic: {retryDelay: 1s, quiet: 50ms, settle: 50ms, timeout: 1s}
`,
    );
    const clicked: string[] = [];
    for (let round = 1; round <= 20; round += 1) {
      const next = random(round);
      const traceId = spanId(round).padStart(32, "c");
      const spans = Array.from({ length: 4 + next(24) }, (_, at): Span => {
        return {
          traceId,
          spanId: spanId(1000 * round + at + 1),
          parentSpanId: at === 0 ? undefined : spanId(1000 * round + next(at) + 1),
          name: `step ${next(5)}`,
          kind: 1 + next(3),
          start: at,
          attributes: { "http.route": `/r/${next(4)}`, "item.kind": `kind ${next(3)}`, "item.number": at },
        };
      });
      await server.send(spans, `service ${next(3)}`);
      const started = await server.api("/api/tests/random/run", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ variables: [{ key: "TRACE", value: traceId }] }),
      });
      expect(started.ok).toBe(true);
      clicked.push(spans[next(spans.length)].spanId);
    }
    for (const [at, span] of clicked.entries()) {
      const run = `/test/random/run/${at + 1}`;
      await page.goto(`${server.url}${run}/trace?span=${span}`);
      const details = page.getByRole("complementary", { name: "Span details" });
      await details.getByRole("button", { name: "Assert http.route" }).click();
      const draft = page.getByRole("region", { name: "Draft" });
      await expect(draft.getByRole("status", { name: "Preview" })).toContainText("holds on 1 of 1 span");
      await expect(page.getByRole("status", { name: "Run state" })).toContainText(
        /Passed|Failed|Inconclusive/,
      );
      const query = await draft.getByLabel("Selector").inputValue();
      const found = await server.api(
        `/api/tests/random/run/${at + 1}/select?query=${encodeURIComponent(query)}`,
      );
      expect(((await found.json()) as { spanIds: string[] }).spanIds, query).toEqual([span]);
    }
    expect(complaints).toEqual([]);
  });
});

test("a data store behind a closed port: the step that fails is named within three seconds", async ({
  page,
}) => {
  await withServer(async (server) => {
    const complaints = watch(page);
    const closed = createServer();
    await new Promise<void>((done) => closed.listen(0, "127.0.0.1", done));
    const { port } = closed.address() as AddressInfo;
    await new Promise((done) => closed.close(done));
    const text = `type: DataStore
spec:
  name: Jaeger
  type: jaeger
  default: true
  jaeger:
    endpoint: 127.0.0.1:${port}
    tls: {insecure: true}
`;
    await put(server, "datastores/current", text, "PUT");
    await page.goto(`${server.url}/settings?tab=dataStore`);
    const region = page.getByRole("region", { name: "Connection test" });
    await region.getByRole("button", { name: "Test the connection" }).click();
    const step = region.getByRole("paragraph").filter({ hasText: "A connection is made" });
    await expect(step).toContainText(String(port));
    await expect(step.locator(".failed").first()).toBeVisible();
    await expect(region).not.toContainText("The port answers");
    // The port is an unusual one, which is a hint and no failure.
    await expect(region.getByText("The port is the usual one")).toHaveClass(/inconclusive/);
    expect(complaints).toEqual([]);
  });
});

test("a JSON answer of ten megabytes leaves the page usable", async ({ page }) => {
  const item = { name: "a thing of the shop", tags: ["one", "two"], price: 12.5 };
  const body = JSON.stringify(Array.from({ length: 145_000 }, (_, at) => ({ at, ...item })));
  expect(body.length).toBeGreaterThan(10_000_000);
  const answering = createServer((_, answer) => {
    answer.setHeader("content-type", "application/json");
    answer.end(body);
  });
  await new Promise<void>((done) => answering.listen(0, "127.0.0.1", done));
  const { port } = answering.address() as AddressInfo;
  try {
    await withServer(async (server) => {
      const complaints = watch(page);
      await put(
        server,
        "tests",
        `type: Test
spec:
  id: large
  name: Large
  trigger: {type: http, httpRequest: {method: GET, url: "http://127.0.0.1:${port}/"}}
  pollingProfile:
    strategy: periodic
    periodic: {retryDelay: 1s, quiet: 100ms, settle: 100ms, timeout: 2s}
`,
      );
      await server.api("/api/tests/large/run", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: "{}",
      });
      await (await server.api("/api/tests/large/run/1/events/stream")).text();
      await page.goto(`${server.url}/test/large/run/1/trigger`);
      const answer = page.getByRole("region", { name: "Answer" });
      await expect(answer).toContainText("a thing of the shop", { timeout: 90_000 });
      await expect(answer).toContainText(/not shown|cut by the server/);
      await page.getByRole("tablist", { name: "Run" }).getByRole("tab", { name: "Events" }).click();
      await expect(page.getByRole("table", { name: "Events" })).toBeVisible();
      await page.getByRole("tablist", { name: "Run" }).getByRole("tab", { name: "Trigger" }).click();
      await expect(answer).toContainText("a thing of the shop");
      expect(complaints).toEqual([]);
    });
  } finally {
    answering.close();
  }
});
