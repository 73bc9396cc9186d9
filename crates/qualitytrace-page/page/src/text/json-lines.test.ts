import { expect, test } from "vitest";
import { jsonLines } from "./json-lines";

test("every value of an answer has its path", () => {
  const lines = jsonLines('{"id": 7, "items": [{"a b": null}, []], "ok": true}') ?? [];
  const paths = lines.flatMap((line) => (line.value === undefined ? [] : [line.value.path]));
  expect(paths).toEqual(["$.id", '$.items[0]["a b"]', "$.ok"]);
  const text = lines.map(
    (line) => line.before + (line.value === undefined ? "" : JSON.stringify(line.value.scalar)) + line.after,
  );
  expect(JSON.parse(text.join(""))).toEqual({ id: 7, items: [{ "a b": null }, []], ok: true });
});

test("what is no JSON, too long or too deep is shown as text", () => {
  expect(jsonLines("plain")).toBeUndefined();
  expect(jsonLines("[1, 2")).toBeUndefined();
  expect(jsonLines(`[${"1,".repeat(5000)}1]`)).toBeUndefined();
  expect(jsonLines("[".repeat(100) + "]".repeat(100))).toBeUndefined();
});
