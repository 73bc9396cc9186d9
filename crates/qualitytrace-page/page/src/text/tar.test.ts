import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tar } from "./tar";

test("the system's own tar unpacks an archive", () => {
  const folder = mkdtempSync(join(tmpdir(), "qualitytrace-tar-"));
  try {
    const entries = [
      { name: "run.html", text: "<p>läuft</p>" },
      { name: "empty.txt", text: "" },
      { name: "large.json", text: "x".repeat(1024) },
    ];
    writeFileSync(join(folder, "a.tar"), tar(entries, new Date(1e12)));
    expect(execFileSync("tar", ["-tf", "a.tar"], { cwd: folder, encoding: "utf8" })).toBe(
      "run.html\nempty.txt\nlarge.json\n",
    );
    execFileSync("tar", ["-xf", "a.tar"], { cwd: folder });
    for (const { name, text } of entries) expect(readFileSync(join(folder, name), "utf8")).toBe(text);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("a name that does not fit is refused", () => {
  expect(() => tar([{ name: "ä".repeat(51), text: "" }], new Date(0))).toThrow(RangeError);
});
