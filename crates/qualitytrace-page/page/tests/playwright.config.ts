import { defineConfig } from "@playwright/test";

// The system's browser; the test of the workspace names it.
const executablePath = process.env.QUALITYTRACE_TEST_CHROMIUM ?? "/usr/bin/chromium";

export default defineConfig({
  testDir: ".",
  outputDir: "../test-results",
  // Limits are for what hangs: a machine may be slow.
  timeout: 240_000,
  expect: { timeout: 30_000 },
  workers: 1,
  reporter: "list",
  use: {
    viewport: { width: 1440, height: 900 },
    launchOptions: { executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] },
  },
});
