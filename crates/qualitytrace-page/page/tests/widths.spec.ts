/** Every screen at every width: nothing scrolls sideways as a whole, and what matters is seen. */
import type { Page } from "@playwright/test";
import { expect, test } from "./server";

const WIDTHS = [320, 390, 640, 960, 1280, 1920];
const SCREENS: [path: string, shown: string][] = [
  ["/tests", "table[aria-label=Tests]"],
  ["/runs", "table[aria-label=Runs]"],
  ["/testsuites", "table[aria-label=Suites]"],
  ["/traces", "table[aria-label=Traces]"],
  ["/variablesets", "main"],
  ["/settings", "main"],
  ["/status", "main"],
  ["/test/shop-checkout", "main h1"],
  ["/test/shop-checkout/run/2/trigger", "main h1"],
  ["/test/shop-checkout/run/2/trace", "[role=treegrid] [role=row]"],
  ["/test/shop-checkout/run/2/test", ".failures"],
  ["/test/shop-checkout/run/2/events", "table[aria-label=Events]"],
  ["/test/shop-checkout/run/2/automate", "main h1"],
];

/** How much wider than the window the page is. */
const excess = (page: Page) =>
  page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

test("no screen scrolls sideways", async ({ shop, demo }) => {
  for (const [path, shown] of SCREENS) {
    await shop.goto(`${demo.url}${path}`);
    await expect(shop.locator(shown).first(), path).toBeVisible();
    for (const width of WIDTHS) {
      await shop.setViewportSize({ width, height: 800 });
      await expect.poll(() => excess(shop), { message: `${path} at ${width}` }).toBeLessThanOrEqual(0);
    }
  }
});

test("names can be read and verdicts are seen on a phone, and half of a trace are its times", async ({
  shop,
  demo,
}) => {
  await shop.setViewportSize({ width: 390, height: 800 });
  await shop.goto(`${demo.url}/tests`);
  const name = await shop.getByRole("link", { name: "Put two products into a new cart" }).boundingBox();
  expect(name?.width).toBeGreaterThan(90);
  await shop.goto(`${demo.url}/test/shop-checkout/run/2/test`);
  const failures = shop.getByRole("table", { name: /selected_spans.count = 2/ });
  await failures.scrollIntoViewIfNeeded();
  const box = await failures.boundingBox();
  expect((box?.x ?? 999) + (box?.width ?? 999)).toBeLessThanOrEqual(390);
  await expect(shop.getByText("4 selected, expected 2")).toBeVisible();

  await shop.setViewportSize({ width: 1280, height: 800 });
  await shop.goto(`${demo.url}/test/shop-checkout/run/2/trace`);
  const [row, bars] = [shop.locator(".wf-row").first(), shop.locator(".wf-row .wf-duration").first()];
  await expect(row).toBeVisible();
  const [whole, last] = [await row.boundingBox(), await bars.boundingBox()];
  const times = (whole?.x ?? 0) + (whole?.width ?? 0) - ((last?.x ?? 0) + (last?.width ?? 0));
  expect(times / (whole?.width ?? 1)).toBeGreaterThan(0.5);
});
