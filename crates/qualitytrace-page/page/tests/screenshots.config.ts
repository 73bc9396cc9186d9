import { defineConfig } from "@playwright/test";
import base from "./playwright.config";

// `cargo xtask screenshots`: pictures of the page, and no tests.
export default defineConfig({ ...base, testMatch: "screenshots.ts", timeout: 300_000 });
