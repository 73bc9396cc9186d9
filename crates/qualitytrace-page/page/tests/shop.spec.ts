/** The demo shop in a real browser: lists, a failing run, click to assert, search, keys, comparison. */
import { expect, expectWritten, test, written } from "./server";

test("tests are listed with outcomes, and the address restores the filters", async ({ shop }) => {
  const table = shop.getByRole("table", { name: "Tests" });
  await expect(table.getByRole("row")).toHaveCount(9);
  await shop.getByRole("searchbox", { name: "Filter tests" }).fill("cart");
  await shop.getByRole("combobox", { name: "Outcome" }).selectOption("failed");
  await expect(table.getByRole("row")).toHaveCount(2);
  await expect(table.getByRole("img", { name: "failed", exact: true })).toBeVisible();
  await expect(table.getByRole("img", { name: "last 2 runs: 2 failed" })).toBeVisible();
  await shop.reload();
  await expect(shop.getByRole("searchbox", { name: "Filter tests" })).toHaveValue("cart");
  await expect(table.getByRole("row")).toHaveCount(2);
});

test("a filter keeps its cursor while it is typed, and suites have one too", async ({ shop, demo }) => {
  const filter = shop.getByRole("searchbox", { name: "Filter tests" });
  await filter.pressSequentially("cart");
  await shop.keyboard.press("Home");
  await shop.keyboard.type("show a ");
  await expect(filter).toHaveValue("show a cart");
  await expect(shop).toHaveURL(/query=show\+a\+cart/);
  await expect(shop.getByRole("table", { name: "Tests" }).getByRole("row")).toHaveCount(2);
  await shop.goto(`${demo.url}/testsuites`);
  const suites = shop.getByRole("table", { name: "Suites" }).getByRole("row");
  await expect(suites).toHaveCount(2);
  await shop.getByRole("searchbox", { name: "Filter suites" }).fill("nothing of the kind");
  await expect(suites).toHaveCount(1);
  await expect(shop.getByText("No suite matches this filter.")).toBeVisible();
});

test("a run is started by keyboard alone, asks for its variables, and shows its verdict without a reload", async ({
  shop,
}) => {
  await shop.getByRole("button", { name: "Run Check out", exact: true }).focus();
  await shop.keyboard.press("Enter");
  const dialog = shop.getByRole("dialog", { name: "Variables" });
  await expect(dialog.getByLabel("GATEWAY")).toHaveValue(/^http/);
  await shop.keyboard.press("Enter");
  await expect(shop).toHaveURL(/\/test\/shop-checkout\/run\/\d+\/trace/);
  await expect(shop.getByRole("status", { name: "Run state" })).toContainText(/Failed|Passed/);
  await expect(shop.getByRole("treegrid", { name: "Spans" }).getByRole("row")).not.toHaveCount(1);
});

test("a failing run explains itself", async ({ shop, demo }) => {
  await shop.goto(`${demo.url}/test/shop-checkout/run/2`);
  await expect(shop).toHaveURL(/\/run\/2\/test$/);
  const first = shop.getByRole("list", { name: "Specs" }).getByRole("listitem").first();
  await expect(first).toContainText("The cart is read once and emptied once");
  await expect(first.getByRole("img", { name: "failed" })).toBeVisible();
  const failures = shop.getByRole("table", { name: /selected_spans.count = 2/ });
  await expect(failures.getByRole("row").nth(1)).toContainText("24SELECT cart_items");
  await expect(
    shop.getByRole("row", { name: /^SELECT cart_items, cart, .*, failed$/ }).first(),
  ).toBeVisible();
  await failures.getByRole("button", { name: "DELETE cart_items" }).click();
  await expect(shop.getByRole("complementary", { name: "Span details" })).toContainText("DELETE cart_items");
});

test("a click on an attribute becomes a line of the test, and its comments stay", async ({ shop, demo }) => {
  const before = await (await demo.api("/api/tests/shop-checkout/source")).text();
  expect(before).toContain("# ");
  await shop.goto(`${demo.url}/test/shop-checkout/run/2/trace`);
  await shop.getByRole("row", { name: /^POST \/charges, payment/ }).click();
  const details = shop.getByRole("complementary", { name: "Span details" });
  await details.getByRole("searchbox", { name: "Filter attributes" }).fill("status_code");
  await details.getByRole("button", { name: "Assert http.response.status_code" }).click();
  const draft = shop.getByRole("region", { name: "Draft" });
  await expect(draft.getByLabel("Expected")).toHaveValue("201");
  await expect(draft.getByRole("status", { name: "Preview" })).toContainText("holds on 1 of 1 span");
  await draft.getByLabel("Expected").fill("200");
  await expect(draft.getByRole("status", { name: "Preview" })).toContainText("holds on 0 of 1 span");
  await draft.getByLabel("Comparator").selectOption(">=");
  await expect(draft.getByRole("status", { name: "Preview" })).toContainText("holds on 1 of 1 span");
  await draft.getByRole("button", { name: "Add to draft" }).click();
  await draft.getByRole("button", { name: "Save" }).click();
  await expect(draft).toContainText("Saved as version 2");
  const after = await (await demo.api("/api/tests/shop-checkout/source")).text();
  expect(after).toContain("attr:http.response.status_code >= 200");
  for (const comment of before.split("\n").filter((line) => line.trim().startsWith("#")))
    expect(after).toContain(comment);
});

test("of two who save, the second is told and nothing is lost", async ({ shop, demo }) => {
  await shop.goto(`${demo.url}/test/shop-list-products?tab=definition`);
  const editor = shop.getByRole("textbox", { name: "Definition" });
  await expectWritten(editor, /type: Test/);
  const text = await written(editor);
  const other = await demo.api("/api/tests/shop-list-products", {
    method: "PUT",
    headers: { "content-type": "text/yaml" },
    body: text.replace(/name: .*/, "name: Renamed by another"),
  });
  expect(other.status).toBe(200);
  await editor.fill(text.replace(/name: .*/, "name: Renamed here"));
  await shop.getByRole("button", { name: "Save" }).click();
  await expect(shop.getByRole("alert")).toContainText(/version/);
  await expectWritten(editor, /Renamed here/);
  const conflict = shop.getByRole("region", { name: "Conflict" });
  await expect(conflict).toContainText("− ");
  await expect(conflict).toContainText("Renamed by another");
  await expect(conflict).toContainText("Renamed here");
  expect(await (await demo.api("/api/tests/shop-list-products/source")).text()).toContain(
    "Renamed by another",
  );
});

test("spans are found by text and by selector, and a mistake is marked", async ({ shop, demo }) => {
  await shop.goto(`${demo.url}/test/shop-checkout/run/2/trace`);
  const box = shop.getByRole("searchbox", { name: "Find spans" });
  const matches = shop.getByRole("status", { name: "Matches" });
  await box.fill('span[service.name = "cart"]');
  await expect(matches).toHaveText("6 of 20 spans");
  await box.fill('span[service.name = "cart');
  await expect(box).toHaveAttribute("aria-invalid", "true");
  await expect(matches).toHaveText("6 of 20 spans");
  await box.fill("authorize");
  await expect(matches).toHaveText("1 of 20 spans");
  await shop.getByRole("switch", { name: "Only matches" }).click();
  const rows = shop.getByRole("treegrid", { name: "Spans" }).getByRole("row");
  await expect(rows).toHaveCount(5);
  await shop.getByRole("button", { name: "Next match" }).click();
  await expect(shop.getByRole("row", { name: /^authorize card/ })).toHaveAttribute("aria-selected", "true");
  await box.fill('span[service.name = "carts"]');
  await expect(matches).toHaveText("0 of 20 spans");
  await expect(shop.getByText("Nearest:")).toBeVisible();
});

test("a search in the address marks names before the server has answered", async ({ shop, demo }) => {
  await shop.route("**/select", () => {});
  await shop.goto(`${demo.url}/test/shop-checkout/run/2/trace?q=authorize`);
  await expect(shop.getByRole("row", { name: /^POST \/checkout/ })).toHaveClass(/dim/);
  await expect(shop.getByRole("row", { name: /^authorize card/ })).not.toHaveClass(/dim/);
});

test("a trace is read with the keyboard", async ({ shop, demo }) => {
  await shop.goto(`${demo.url}/test/shop-checkout/run/2/trace`);
  const grid = shop.getByRole("treegrid", { name: "Spans" });
  await expect(grid.getByRole("row")).toHaveCount(20);
  await grid.focus();
  await shop.keyboard.press("j");
  await shop.keyboard.press("j");
  const second = shop.getByRole("row", { name: /^POST \/checkout/ });
  await expect(second).toHaveAttribute("aria-selected", "true");
  await shop.keyboard.press("h");
  await expect(second).toHaveAttribute("aria-expanded", "false");
  await expect(grid.getByRole("row")).toHaveCount(2);
  await shop.keyboard.press("l");
  await expect(grid.getByRole("row")).toHaveCount(20);
  await shop.keyboard.press("e");
  await expect(
    shop.getByRole("row", { name: /^SELECT cart_items, .*, failed$/, selected: true }),
  ).toBeVisible();
  await shop.keyboard.press("Escape");
  await expect(shop.getByRole("complementary", { name: "Span details" })).toBeHidden();
  await shop.keyboard.press("/");
  await expect(shop.getByRole("searchbox", { name: "Find spans" })).toBeFocused();
  await shop.keyboard.press("Control+k");
  await shop.getByRole("combobox", { name: "Command" }).fill("traces");
  await shop.keyboard.press("Enter");
  await expect(shop.getByRole("heading", { name: "Traces" })).toBeVisible();
  await shop.keyboard.press("?");
  await expect(shop.getByRole("dialog", { name: "Keyboard shortcuts" })).toBeVisible();
});

test("a link shows the same view again, also one of Tracetest, and Back returns", async ({ shop, demo }) => {
  const found = await (
    await demo.api("/api/tests/shop-checkout/run/2/select?query=span%5Bname%3D%22pack%20order%22%5D")
  ).json();
  const [span] = found.spanIds;
  await shop.goto(`${demo.url}/test/shop-checkout/run/2/trace?span=${span}&q=worker`);
  await expect(shop.getByRole("row", { name: /^pack order/ })).toHaveAttribute("aria-selected", "true");
  await expect(shop.getByRole("searchbox", { name: "Find spans" })).toHaveValue("worker");
  await shop.goto(`${demo.url}/test/shop-checkout/run/2/trace?selectedSpan=${span}`);
  await expect(shop.getByRole("complementary", { name: "Span details" })).toContainText("pack order");
  await shop.getByRole("tablist", { name: "Run" }).getByRole("tab", { name: "Events" }).click();
  await expect(shop.getByRole("table", { name: "Events" })).toContainText("judged");
  await shop.goBack();
  await expect(shop.getByRole("treegrid", { name: "Spans" })).toBeVisible();
});

test("a run is compared with the one before it, and another is chosen from a list", async ({
  shop,
  demo,
}) => {
  await shop.goto(`${demo.url}/compare?b=test/shop-checkout/run/2`);
  await expect(shop.getByRole("combobox", { name: "Run A" })).toHaveValue("1");
  await shop.getByRole("combobox", { name: "Run B" }).selectOption("1");
  await expect(shop).toHaveURL(/b=test%2Fshop-checkout%2Frun%2F1|b=test\/shop-checkout\/run\/1/);
});

test("two runs are compared", async ({ shop, demo }) => {
  await shop.goto(`${demo.url}/compare?a=test/shop-show-cart/run/1&b=test/shop-checkout/run/2`);
  await expect(shop.getByRole("status", { name: "Summary" })).toContainText(/\d+ added/);
  const rows = shop.getByRole("treegrid", { name: "Comparison" });
  await expect(rows.locator('[data-change="added"]').first()).toBeVisible();
  await shop.getByRole("button", { name: "Swap" }).click();
  await expect(shop.getByRole("status", { name: "Summary" })).toContainText(/\d+ removed/);
});
