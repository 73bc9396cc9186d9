/** How traces are read and tests are made: groups, gaps, clocks, events, the graph, files, outputs, forms, sharing. */
import { execFileSync } from "node:child_process";
import { expect, expectWritten, type Span, spanId, test, watch, withServer, written } from "./server";

test("equal siblings are one row, gaps are folded, short spans hidden, clocks marked, events ticked, links followed", async ({
  page,
}) => {
  await withServer(async (server) => {
    const complaints = watch(page);
    const traceId = "7".repeat(32);
    const queries = Array.from({ length: 12 }, (_, at): Span => {
      return {
        traceId,
        spanId: spanId(100 + at),
        parentSpanId: spanId(1),
        name: "SELECT items",
        start: 10 + at,
        length: 1,
      };
    });
    await server.send([
      { traceId, spanId: spanId(1), name: "GET /cart", kind: 2, start: 0, length: 60 },
      ...queries,
      {
        traceId,
        spanId: spanId(2),
        parentSpanId: spanId(1),
        name: "late reply",
        kind: 5,
        start: 9_900,
        length: 50,
        events: [{ name: "retry", after: 20 }],
        links: [{ traceId, spanId: spanId(100) }],
      },
    ]);
    await server.send(
      [{ traceId, spanId: spanId(3), parentSpanId: spanId(1), name: "other clock", start: -20, length: 40 }],
      "elsewhere",
    );
    const asked = page.waitForRequest((request) => request.url().includes(`/spans/${spanId(2)}`));
    await page.goto(`${server.url}/trace/${traceId}`);
    const rows = page.getByRole("treegrid", { name: "Spans" }).getByRole("row");
    const group = page.getByRole("row", { name: /^SELECT items × 12, shop, 12.0 ms/ });
    await expect(group).toHaveAttribute("aria-expanded", "false");
    await expect(rows).toHaveCount(4);
    // The times of events are asked for when their span is in sight.
    await asked;
    await group.click();
    await page.keyboard.press("l");
    await expect(rows).toHaveCount(16);
    await page.keyboard.press("h");
    await expect(rows).toHaveCount(4);
    await page.getByRole("switch", { name: "Group equal" }).click();
    await expect(rows).toHaveCount(15);
    await page.getByRole("searchbox", { name: "Hide shorter than" }).fill("5ms");
    await expect(rows).toHaveCount(3);
    await expect(page).toHaveURL(/min=5ms/);
    await page.getByRole("searchbox", { name: "Hide shorter than" }).fill("");
    await expect(page.getByRole("switch", { name: "Fold gaps" })).toHaveAttribute("aria-checked", "true");
    await expect(page.locator(".wf-ruler .folded")).toHaveText(/9\.\d+ s/);
    await page.locator(".wf-ruler .folded").click();
    await expect(page.locator(".wf-ruler .folded")).toHaveCount(0);
    await expect(page.getByRole("switch", { name: "Fold gaps" })).toHaveAttribute("aria-checked", "false");
    const early = page.getByRole("row", {
      name: /^other clock, elsewhere, 40.0 ms, starts before its parent/,
    });
    await early.click();
    const details = page.getByRole("complementary", { name: "Span details" });
    await expect(details).toContainText("starts 20.0 ms before its parent");
    // The zoom is in the address, and a reload shows the same part of time.
    await page.keyboard.press("z");
    await expect(page).toHaveURL(/from=\d+&to=\d+/);
    const handle = page.getByRole("slider", { name: "Zoom end" });
    const end = await handle.getAttribute("aria-valuenow");
    await page.reload();
    await expect(handle).toHaveAttribute("aria-valuenow", end ?? "");
    await page.getByRole("row", { name: /^late reply/ }).click();
    await details.getByRole("tab", { name: /^Links/ }).click();
    await details.getByRole("button", { name: /in this trace/ }).click();
    await expect(page).toHaveURL(new RegExp(`span=${spanId(100)}`));
    await expect(page.getByRole("row", { name: /^SELECT items/, selected: true })).toBeVisible();
    expect(complaints).toEqual([]);
  });
});

test("a graph of five layers fits into a window of 1280 pixels", async ({ shop, demo }) => {
  await shop.setViewportSize({ width: 1280, height: 800 });
  await shop.goto(`${demo.url}/test/shop-checkout/run/2/trace?view=graph`);
  const graph = shop.getByTestId("graph");
  await expect(graph.getByRole("button", { name: /^SELECT cart_items/ })).toBeVisible();
  expect(await graph.evaluate((host) => host.scrollWidth - host.clientWidth)).toBe(0);
});

test("the views agree on what is selected", async ({ shop, demo }) => {
  await shop.goto(`${demo.url}/test/shop-checkout/run/2/trace`);
  await shop.getByRole("row", { name: /^POST \/charges, payment/ }).click();
  await shop.getByRole("radio", { name: "Graph" }).click();
  const graph = shop.getByTestId("graph");
  const node = graph.getByRole("button", { name: /^POST \/charges, payment/ });
  await expect(node).toHaveClass(/here/);
  await expect(shop.getByRole("complementary", { name: "Span details" })).toContainText("POST /charges");
  await graph.getByRole("button", { name: /^SELECT cart_items, cart, \d spans/ }).click();
  await shop.getByRole("radio", { name: "Waterfall" }).click();
  await expect(shop.getByRole("row", { name: /^SELECT cart_items/, selected: true })).toBeVisible();
  await shop.getByRole("radio", { name: "Flame" }).click();
  await expect(shop.getByTestId("flame")).toHaveAttribute("aria-label", /20 spans in \d+ lanes/);
  await shop.getByRole("radio", { name: "Table" }).click();
  await expect(shop.getByRole("table", { name: "Operations" })).toContainText("SELECT cart_items");
  await expect(shop).toHaveURL(/view=table/);
});

test("details say what attributes mean and what else they are called", async ({ shop, demo }) => {
  await shop.goto(`${demo.url}/test/shop-checkout/run/2/trace`);
  await shop.getByRole("row", { name: /^POST \/charges, payment/ }).click();
  const details = shop.getByRole("complementary", { name: "Span details" });
  await details.getByRole("button", { name: "Copy http.response.status_code" }).focus();
  await expect(details).toContainText("The status of the response. Also found as http.status_code.");
});

test("nodes and headers of an answer, counts and outputs become lines of a draft", async ({ shop, demo }) => {
  await shop.goto(`${demo.url}/test/shop-list-products/run/2/trigger`);
  await shop
    .getByRole("region", { name: "Answer" })
    .getByRole("button", { name: /^Assert \$\[0\]|^Assert \$\..*\[0\]/ })
    .first()
    .click();
  const draft = shop.getByRole("region", { name: "Draft" });
  const preview = draft.getByRole("status", { name: "Preview" });
  await expect(draft.getByLabel("Value")).toHaveValue(/json_path '\$/);
  await expect(preview).toContainText("holds on 1 of 1 span");
  await draft.getByRole("button", { name: "Add to draft" }).click();
  await shop
    .getByRole("region", { name: "Answer" })
    .getByRole("button", { name: /^Assert content-type/i })
    .click();
  await expect(preview).toContainText("holds on 1 of 1 span");
  await draft.getByRole("radio", { name: "Output" }).click();
  await draft.getByLabel("Name").fill("KIND");
  await expect(preview).toContainText("application/json");
  await draft.getByRole("button", { name: "Add to draft" }).click();
  await shop.getByRole("tablist", { name: "Run" }).getByRole("tab", { name: "Trace" }).click();
  await shop.getByRole("searchbox", { name: "Find spans" }).fill('span[service.name = "catalogue"]');
  await shop.getByRole("button", { name: "Assert count" }).click();
  await expect(draft.getByLabel("Value")).toHaveValue("attr:tracetest.selected_spans.count");
  await expect(preview).toContainText("holds on");
  await draft.getByRole("button", { name: "Add to draft" }).click();
  await expect(draft).toContainText("3 changes");
  const downloading = shop.waitForEvent("download");
  await draft.getByRole("button", { name: "Download patch" }).click();
  const download = await downloading;
  expect(download.suggestedFilename()).toBe("shop-list-products.patch");
  let patch = "";
  for await (const piece of await download.createReadStream()) patch += piece;
  expect(patch).toContain("+");
  expect(patch).toContain("KIND");
  await draft.getByRole("button", { name: "Save" }).click();
  await expect(draft).toContainText(/Saved as version \d/);
  const text = await (await demo.api("/api/tests/shop-list-products/source")).text();
  expect(text).toContain("name: KIND");
  expect(text).toContain("json_path");
});

test("a file of traces is dropped in, and a broken one is told with its place", async ({ page }) => {
  await withServer(async (server) => {
    const complaints = watch(page, /status of 400/);
    await server.send([{ traceId: "9".repeat(32), spanId: spanId(1), name: "here already" }]);
    await page.goto(`${server.url}/traces`);
    const file = page.getByLabel("Open a file");
    await file.setInputFiles({
      name: "broken.json",
      mimeType: "application/json",
      buffer: Buffer.from('{"resourceSpans": ['),
    });
    await expect(page.getByRole("alert")).toContainText(/broken\.json.*line 1/);
    const zipkin = [
      {
        traceId: "8".repeat(32),
        id: spanId(5),
        name: "from a file",
        timestamp: Date.now() * 1000,
        duration: 5000,
      },
    ];
    await file.setInputFiles({
      name: "zipkin.json",
      mimeType: "application/json",
      buffer: Buffer.from(JSON.stringify(zipkin)),
    });
    await expect(page).toHaveURL(new RegExp(`/trace/${"8".repeat(32)}`));
    await expect(page.getByRole("row", { name: /^from a file/ })).toBeVisible();
    expect(complaints).toEqual([]);
  });
});

test("form and text of a trigger edit each other, for every type; a request is sent without saving", async ({
  page,
}) => {
  await withServer(async (server) => {
    const complaints = watch(page);
    await page.goto(`${server.url}/test/create`);
    const editor = page.getByRole("textbox", { name: "Definition" });
    const form = page.getByRole("region", { name: "Trigger" });
    await form.getByLabel("URL").fill(`${server.url}/healthz`);
    await expectWritten(editor, new RegExp(`url: ${server.url}/healthz`));
    await form.getByRole("group", { name: "Headers" }).getByRole("button", { name: "Add" }).click();
    await form.getByLabel("Headers name 1").fill("X-Shop");
    await form.getByLabel("Headers value 1").fill("1");
    await expectWritten(editor, /- key: X-Shop\n\s+value: "1"/);
    await editor.fill((await written(editor)).replace("method: GET", "method: GET # only look"));
    await form.getByLabel("Name", { exact: true }).fill("Is it well");
    await expectWritten(editor, /method: GET # only look/);
    await form.getByRole("button", { name: "Send without saving" }).click();
    await expect(form.getByRole("status", { name: "Answer" })).toContainText("200");
    const text = await written(editor);
    await editor.fill(`${text}  broken: [`);
    await expect(form).toContainText("The form comes back");
    await editor.fill(text);
    for (const [type, label, written] of [
      ["grpc", "Address", "localhost:1234"],
      ["graphql", "Query", "{ products { id } }"],
      ["kafka", "Brokers", "a:1, b:2"],
      ["traceid", "Trace id", "f".repeat(32)],
      ["exec", "Command", "true"],
      ["playwrightengine", "Target", "http://shop"],
      ["http", "URL", `${server.url}/readyz`],
    ]) {
      await form.getByLabel("Type").selectOption(type);
      await expectWritten(editor, new RegExp(`type: ${type}`));
      await form.getByLabel(label, { exact: true }).fill(written);
      const last = written.split(", ").at(-1) ?? "";
      await expectWritten(editor, new RegExp(last.replaceAll(/[{}]/g, "\\$&")));
    }
    await page.getByRole("button", { name: "Save" }).click();
    await expect(page).toHaveURL(/\/test\/[^/]+$/);
    await expect(page.getByRole("heading", { name: "Is it well" })).toBeVisible();
    // Tracetest's address of the same screen.
    await page.goto(`${server.url}/test/create/kafka`);
    await expectWritten(editor, /topic: orders/);
    expect(complaints).toEqual([]);
  });
});

test("a run is shared as one page that opens without a network, as JUnit and as OTLP", async ({
  shop,
  demo,
}) => {
  await shop.goto(`${demo.url}/test/shop-checkout/run/2/automate`);
  const saved = async (name: string, role: "button" | "link") => {
    const downloading = shop.waitForEvent("download");
    await shop.getByRole(role, { name, exact: true }).click();
    let text = "";
    for await (const piece of await (await downloading).createReadStream()) text += piece;
    return text;
  };
  const html = await saved("HTML report", "button");
  expect(html).toContain("SELECT cart_items");
  const reader = await shop.context().newPage();
  const asked: string[] = [];
  reader.on("request", (request) => asked.push(request.url()));
  await reader.setContent(html);
  await expect(reader.getByRole("heading", { name: /run 2 failed/ })).toBeVisible();
  expect(asked).toEqual([]);
  await reader.close();
  const bundle = shop.waitForEvent("download");
  await shop.getByRole("button", { name: "Bundle" }).click();
  const archive = await (await bundle).path();
  const listed = execFileSync("tar", ["-tzf", archive], { encoding: "utf8" });
  expect(listed.trim().split("\n")).toEqual([
    "report.html",
    "trace.otlp.json",
    "junit.xml",
    "events.json",
    "test.yaml",
  ]);
  const unpacked = (file: string) =>
    execFileSync("tar", ["-xzOf", archive, file], { encoding: "utf8", maxBuffer: 1e8 });
  expect(unpacked("report.html")).toContain("SELECT cart_items");
  expect(unpacked("test.yaml")).toContain("id: shop-checkout");
  expect(JSON.parse(unpacked("trace.otlp.json")).resourceSpans.length).toBeGreaterThan(0);
  expect(await saved("JUnit", "link")).toContain("<testsuite");
  expect(JSON.parse(await saved("OTLP", "button")).resourceSpans.length).toBeGreaterThan(0);
});

test("the history of a test and the steps of a suite are drawn", async ({ shop, demo }) => {
  await shop.goto(`${demo.url}/test/shop-checkout?tab=history`);
  await expect(shop.getByRole("img", { name: /^Durations of \d+ runs/ })).toBeVisible();
  await expect(shop.getByRole("link", { name: "run 2", exact: true })).toBeVisible();
  await shop.goto(`${demo.url}/testsuite/shop-buy`);
  const graph = shop.getByRole("group", { name: /^\d+ steps of the suite/ });
  await expect(graph.getByRole("button").first()).toBeVisible();
});
