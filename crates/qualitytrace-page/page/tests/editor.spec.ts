/** The editor of definitions: mistakes, completion, keys, and its chunk, which comes late or never. */
import type { Page } from "@playwright/test";
import { expect, expectWritten, type Server, test, watch, withServer } from "./server";

const CHUNK = "**/assets/code-mirror-*.js";
const TEST = `type: Test
spec:
  name: Written
  trigger: {type: traceid, traceid: {id: "${"1".repeat(32)}"}}
  specs:
  - selector: span[kind = "server"]
    assertions:
    - attr:name = "x"
`;

const definition = (page: Page) => page.getByRole("textbox", { name: "Definition" });
const problems = (page: Page) => page.getByRole("status", { name: "Problems" });

/** Opens a new test, and waits for the editor. */
async function open(page: Page, server: Server): Promise<void> {
  await page.goto(`${server.url}/test/create`);
  await expect(page.locator(".cm-content").first()).toBeVisible();
}

test("a mistake is underlined at its letters and told in words until it is mended", async ({ page }) => {
  await withServer(async (server) => {
    const complaints = watch(page);
    await open(page, server);
    const editor = definition(page);
    await editor.fill(TEST.replace('"server"', '"sever"'));
    const marks = page.locator(".cm-lintRange");
    await expect(marks).toHaveText('kind = "sever"');
    await expect(problems(page)).toContainText("Line 6, column 20");
    await expect(problems(page)).toContainText("did you mean `server`?");
    // It may be meant like this.
    await expect(editor).toHaveAttribute("aria-invalid", "false");
    // The place leads to the letter.
    await problems(page).getByRole("button").click();
    await expect(editor).toBeFocused();
    await page.keyboard.type("name = 1 ");
    await expectWritten(editor, /span\[name = 1 kind = "sever"\]/);
    await expect(marks).toHaveText('kind = "sever"');
    await editor.fill(TEST);
    await expect(marks).toHaveCount(0);
    await expect(problems(page)).toBeEmpty();
    await editor.fill(`${TEST}  outputs: [`);
    await expect(problems(page)).toContainText(/Line (9|10), column/);
    await expect(editor).toHaveAttribute("aria-invalid", "true");
    await page.keyboard.press("Control+z");
    // Changes in quick succession are undone together: the text is that of the first or of the second.
    await expectWritten(editor, /"x"\n$/);
    await expect(problems(page)).not.toContainText(/Line (9|10), column/);
    await expect(editor).toHaveAttribute("aria-invalid", "false");
    expect(complaints).toEqual([]);
  });
});

test("a text that could not be checked is not taken for a good one", async ({ page }) => {
  await withServer(async (server) => {
    const complaints = watch(page, /ERR_FAILED|413|400/);
    await open(page, server);
    const editor = definition(page);
    await page.route("**/api/language/check", (route) => route.abort());
    await editor.fill(TEST);
    await expect(problems(page)).toContainText("Not checked");
    await page.unroute("**/api/language/check");
    await editor.fill(TEST.replace("Written", "Written again"));
    await expect(problems(page)).toBeEmpty();
    await editor.fill(`${TEST}# ${"x".repeat(1 << 20)}`);
    await expect(problems(page)).toContainText("1048576 are read at most");
    expect(complaints).toEqual([]);
  });
});

test("keys, words of the language and variables are completed where they can stand", async ({ page }) => {
  await withServer(async (server) => {
    const complaints = watch(page);
    const set = "type: VariableSet\nspec:\n  id: s\n  name: s\n  values: [{key: GATEWAY, value: x}]\n";
    const headers = { "content-type": "text/yaml" };
    expect((await server.api("/api/variablesets", { method: "POST", headers, body: set })).ok).toBe(true);
    await open(page, server);
    const editor = definition(page);
    const offers = page.getByRole("listbox", { name: "Completions" }).getByRole("option");
    const choose = async (typed: string, offer: RegExp, result: RegExp) => {
      await page.keyboard.press("Control+End");
      await page.keyboard.type(typed);
      await expect(offers.first()).toContainText(offer);
      await expect(page.locator(".cm-tooltip-autocomplete-disabled")).toHaveCount(0);
      await page.keyboard.press("ArrowDown");
      await page.keyboard.press("Enter");
      await expectWritten(editor, result);
      await expect(offers).toHaveCount(0);
    };
    await editor.fill(TEST);
    await choose("  outp", /^outputs/, /\n {2}outputs:$/);
    await choose("\n- selec", /^selector/, /\n {2}- selector: $/);
    await choose("span[]:fir", /^:first/, /selector: span\[\]:first$/);
    await editor.fill("type: Test\nspec:\n  trigger:\n    type: http\n    httpRequest:\n      url: ");
    await choose("${var:gat", /^GATEWAY.*s$/, /url: \$\{var:GATEWAY$/);
    // Enter is for a new line as long as nothing is chosen.
    await editor.fill("type: Te");
    await page.keyboard.type("s");
    await expect(offers.first()).toBeVisible();
    await page.keyboard.press("Enter");
    await expectWritten(editor, /^type: Tes\n/);
    expect(complaints).toEqual([]);
  });
});

test("Tab indents, and after Escape it leaves; a dialog closes with the second Escape", async ({ page }) => {
  await withServer(async (server) => {
    const complaints = watch(page);
    await open(page, server);
    const editor = definition(page);
    await expect(editor).toHaveAccessibleDescription(/Escape, then Tab leaves the editor/);
    await editor.fill("name");
    await page.keyboard.press("Tab");
    await expectWritten(editor, /^ {2}name$/);
    await expect(problems(page)).not.toBeEmpty();
    await page.keyboard.press("Escape");
    await page.keyboard.press("Tab");
    await expect(problems(page).getByRole("button")).toBeFocused();
    await page.keyboard.press("Shift+Tab");
    await expect(editor).toBeFocused();
    await page.keyboard.press("Escape");
    await page.keyboard.press("Shift+Tab");
    await expect(page.getByRole("button", { name: "Save" })).toBeFocused();
    await expectWritten(editor, /^ {2}name$/);
    await page.goto(`${server.url}/variablesets`);
    await page.getByRole("button", { name: "New set" }).click();
    const dialog = page.getByRole("dialog", { name: "Variable set" });
    await expect(dialog.locator(".cm-content")).toBeVisible();
    await dialog.getByLabel("Definition").press("Escape");
    await expect(dialog).toBeVisible();
    await page.keyboard.press("Escape");
    await expect(dialog).toBeHidden();
    expect(complaints).toEqual([]);
  });
});

test("what is typed before the editor is loaded stays, with its cursor", async ({ page }) => {
  await withServer(async (server) => {
    const complaints = watch(page);
    let release = () => {};
    const released = new Promise<void>((done) => {
      release = done;
    });
    await page.route(CHUNK, async (route) => {
      await released;
      await route.continue();
    });
    await page.goto(`${server.url}/test/create`);
    const editor = definition(page);
    await editor.fill("# early\ntype: Test\n");
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("End");
    await page.keyboard.type(" bird");
    await expect(page.locator("textarea[aria-label=Definition]")).toBeFocused();
    release();
    await expect(page.locator(".cm-content").first()).toBeFocused();
    await page.keyboard.type("s");
    await expectWritten(editor, /^# early birds\ntype: Test\n$/);
    expect(complaints).toEqual([]);
  });
});

test("without the editor's chunk, a plain field does its work", async ({ page }) => {
  await withServer(async (server) => {
    const complaints = watch(page, /ERR_FAILED/);
    await page.route(CHUNK, (route) => route.abort());
    await page.goto(`${server.url}/test/create`);
    const editor = definition(page);
    await editor.fill(TEST.replace('"server"', '"sever"'));
    await expect(page.getByText("The editor could not be loaded").first()).toBeVisible();
    await expect(problems(page)).toContainText("did you mean `server`?");
    await editor.fill(TEST);
    await expect(problems(page)).toBeEmpty();
    await page.getByRole("button", { name: "Save" }).click();
    await expect(page.getByRole("heading", { name: "Written" })).toBeVisible();
    expect(complaints).toEqual([]);
  });
});

test("the first screen loads at most 200 kB of scripts, and the editor is none of them", async ({ page }) => {
  await withServer(async (server) => {
    const scripts: Promise<[string, number]>[] = [];
    page.on("requestfinished", (request) => {
      if (request.resourceType() !== "script") return;
      scripts.push(request.sizes().then((sizes) => [request.url(), sizes.responseBodySize]));
    });
    await page.goto(`${server.url}/tests`);
    await expect(page.getByRole("heading", { name: "Tests" })).toBeVisible();
    const loaded = await Promise.all(scripts);
    expect(loaded.length).toBeGreaterThan(0);
    expect(loaded.filter(([url]) => url.includes("code-mirror"))).toEqual([]);
    expect(loaded.reduce((sum, [, bytes]) => sum + bytes, 0)).toBeLessThanOrEqual(200_000);
  });
});
