import { expect, test } from "vitest";
import { isInExpression, variablesAt } from "./template";

const VARIABLES = [
  { name: "GATEWAY", detail: "staging" },
  { name: "GATE_PORT", detail: "staging" },
  { name: "USER", detail: "production" },
];
const names = (before: string) => variablesAt(before, VARIABLES)?.map((item) => item.insert);

test("variables are offered where one is begun", () => {
  expect(names("http://${var:")).toEqual(["GATEWAY", "GATE_PORT", "USER"]);
  expect(names("http://${var:gate")).toEqual(["GATEWAY", "GATE_PORT"]);
  expect(names("${env:U")).toEqual(["USER"]);
  expect(names("${var:USER")).toEqual([]);
});

test("what is written of the name is replaced", () => {
  expect(variablesAt("a ${var:GA", VARIABLES)?.[0]).toMatchObject({ from: 8, to: 10 });
});

test("elsewhere the server is asked", () => {
  expect(names("http://shop")).toBeUndefined();
  expect(names(`\${var:GATEWAY}/`)).toBeUndefined();
  expect(names("${uuid")).toBeUndefined();
});

test("an expression ends with its brace", () => {
  expect(isInExpression('{"user": "${var:U')).toBe(true);
  expect(isInExpression(`{"user": "\${var:USER}", "card`)).toBe(false);
  expect(isInExpression('{"user": {}')).toBe(false);
});
