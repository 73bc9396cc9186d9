import { expect, test } from "vitest";
import { Trace } from "../trace/columns";
import { report } from "./share";

const trace = new Trace();
trace.take({
  traceId: "t".repeat(32),
  revision: "1",
  from: 0,
  total: 2,
  origin: "0",
  names: ["<script>alert(1)</script>", "child"],
  services: ['"shop"'],
  ids: "a".repeat(16) + "b".repeat(16),
  parent: [-1, 0],
  orphans: [],
  adopted: [],
  name: [0, 1],
  service: [0, 0],
  kind: [0, 0],
  status: [0, 0],
  flags: [0, 0],
  start: [0, 25],
  duration: [100, 50],
});

test("a report needs no network and runs nothing, and texts of traces are texts", () => {
  const failure = {
    expected: "1",
    observed: "<b>2</b>",
    span: "child",
    spanId: "b".repeat(16),
    service: "shop",
  };
  const assertion = { assertion: "attr:a = 1", outcome: "failed", passed: 0, failed: 1, failures: [failure] };
  const spec = { name: "Quick & good", selector: "span[]", outcome: "failed", assertions: [assertion] };
  const address = "http://127.0.0.1/test/pay/run/3";
  const html = report({ test: "Pay", run: 3, address, outcome: "failed", specs: [spec] as never, trace });
  expect(html).not.toMatch(/<script|<b>|src=|href=|url\(|@import/);
  expect(html).toContain("&lt;script&gt;alert(1)&lt;/script&gt;");
  expect(html).toContain("Quick &amp; good");
  expect(html).toContain('class="guilty"');
  expect(html).toContain("left:25.00%;width:50.00%");
});
