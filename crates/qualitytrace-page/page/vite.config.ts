import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

/** The server that `npm run dev` passes requests on to. */
const server = process.env.QUALITYTRACE_SERVER ?? "http://127.0.0.1:11633";

/** In a built page the server fills these in. */
const placeholders: Plugin = {
  name: "placeholders",
  apply: "serve",
  transformIndexHtml: (html) => html.replace("{base}", "/").replace("{nonce}", "development"),
};

export default defineConfig({
  base: "./",
  plugins: [react(), placeholders],
  build: {
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 700,
  },
  server: {
    proxy: Object.fromEntries(["/api", "/v1", "/metrics"].map((path) => [path, { target: server }])),
  },
});
