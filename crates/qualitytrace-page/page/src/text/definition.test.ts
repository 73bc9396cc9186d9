import { expect, test } from "vitest";
import { read, value, withTrigger, withValue, withVariables } from "./definition";

const TEXT = `# who looks after it
type: Test
spec:
  name: Pay # short
  trigger:
    type: http
    httpRequest:
      method: POST
      # where
      url: http://shop/pay
      headers:
      - key: Accept
        value: text/plain
      body: |
        {"id": 1}
  specs:
  - selector: span[]
    assertions: ["attr:a = 1"]
`;

test("values are read, and a change of one leaves comments and the rest", () => {
  const definition = read(TEXT);
  expect(value(definition, ["spec", "trigger", "httpRequest", "url"])).toBe("http://shop/pay");
  expect(value(definition, ["spec", "trigger", "httpRequest", "headers"])).toEqual([
    { key: "Accept", value: "text/plain" },
  ]);
  const changed = withValue(TEXT, ["spec", "trigger", "httpRequest", "url"], "http://shop/refund");
  expect(changed).toContain("# where\n      url: http://shop/refund");
  expect(changed).toContain("# who looks after it");
  expect(changed).toContain("name: Pay # short");
  expect(changed).toContain('{"id": 1}');
  expect(read(changed).problem).toBeUndefined();
  const [before, after] = [TEXT, changed].map((text) => text.split("\n"));
  expect(after.filter((line, at) => line !== before[at])).toEqual(["      url: http://shop/refund"]);
});

test("an empty value removes its key, and what is missing is made", () => {
  const without = withValue(TEXT, ["spec", "trigger", "httpRequest", "body"], "");
  expect(without).not.toContain("body");
  const timed = withValue(TEXT, ["spec", "trigger", "httpRequest", "timeout"], "3s");
  expect(value(read(timed), ["spec", "trigger", "httpRequest", "timeout"])).toBe("3s");
});

test("a trigger of another type replaces the details", () => {
  const changed = withTrigger(TEXT, "kafka", "kafka", { topic: "orders" });
  expect(value(read(changed), ["spec", "trigger"])).toEqual({ type: "kafka", kafka: { topic: "orders" } });
  expect(changed).toContain("assertions:");
});

test("what cannot be read is told with its place, and never changed", () => {
  const broken = "type: Test\nspec: [";
  expect(read(broken).problem).toMatch(/line 2|end of/i);
  expect(withValue(broken, ["spec", "name"], "x")).toBe(broken);
  expect(read("a: 1\n---\nb: 2\n").problem).toContain("several");
  expect(read("- 1").problem).toContain("type: Test");
  expect(read("").problem).toBeDefined();
});

test("aliases of a hostile text are not multiplied", () => {
  const bomb = `a: &a [1,1,1,1,1,1,1,1,1,1]\n${"bcdefghij"
    .split("")
    .map((name, at) => `${name}: &${name} [${Array(10).fill(`*${"abcdefghi"[at]}`).join(",")}]`)
    .join("\n")}\nspec: {trigger: *j}\n`;
  const definition = read(bomb);
  expect(() => value(definition, ["spec", "trigger"])).not.toThrow("out of memory");
});

test("values are added to a variable set and replaced in it; comments stay, and secrets are secret", () => {
  const text = `type: VariableSet
spec:
  name: staging # the old one
  values:
  - key: GATEWAY # where the shop is
    value: http://localhost:8080
`;
  const pairs = [
    { key: "GATEWAY", value: "http://shop" },
    { key: "DB_PASSWORD", value: "1234" },
  ];
  expect(withVariables(text, pairs)).toBe(`type: VariableSet
spec:
  name: staging # the old one
  values:
  - key: GATEWAY # where the shop is
    value: http://shop
  - key: DB_PASSWORD
    value: "1234"
    type: secret
`);
  expect(withVariables("type: VariableSet\nspec:\n  name: new\n", [{ key: "A", value: "b" }])).toContain(
    "key: A",
  );
});
