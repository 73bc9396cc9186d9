import { defineConfig } from "@playwright/test";
import base from "./playwright.config";

// `cargo xtask bench page`: measurements, and no tests.
export default defineConfig({ ...base, testMatch: "bench.ts", timeout: 3_600_000, reporter: "line" });
