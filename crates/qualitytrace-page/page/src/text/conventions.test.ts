import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { convention } from "./conventions";

test("an attribute is known under the name that it had, and under the one of today", () => {
  expect(convention("http.status_code")).toEqual({
    meaning: "The status of the response.",
    aliases: ["http.response.status_code"],
  });
  expect(convention("http.response.status_code").aliases).toEqual(["http.status_code"]);
  expect(convention("my.own")).toEqual({ meaning: undefined, aliases: [] });
  expect(convention("constructor")).toEqual({ meaning: undefined, aliases: [] });
});

test("every alias that is shown is one that the language knows", () => {
  const table = new URL("../../../../qualitytrace-core/src/names.rs", import.meta.url);
  const names = readFileSync(table, "utf8");
  for (const name of [
    "http.response.status_code",
    "server.address",
    "db.query.text",
    "messaging.message.id",
  ]) {
    const { aliases } = convention(name);
    expect(aliases.length).toBeGreaterThan(0);
    for (const alias of aliases) expect(names).toContain(`"${alias}"`);
  }
});
