import { expect, test } from "vitest";
import { helpful, type Offer } from "./completion";

const offer = (kind: string, label: string, from: number, to: number, insert = label): Offer => ({
  kind,
  label,
  insert,
  detail: "",
  from,
  to,
});
const labels = (offers: Offer[], text: string, at = text.length, isAskedFor = false) =>
  helpful(offers, text, at, isAskedFor).map((one) => one.label);

test("keys that contain what is typed are offered, and those that begin with it come first", () => {
  const keys = ["description", "id", "specs", "trigger"].map((name) => offer("key", name, 2, 3, `${name}:`));
  expect(labels(keys, "  d")).toEqual(["description", "id"]);
  expect(labels(keys, "  S")).toEqual(["specs", "description"]);
});

test("before a letter is typed, keys are offered to those who ask", () => {
  const keys = [offer("key", "name", 2, 2, "name: ")];
  expect(labels(keys, "  ")).toEqual([]);
  expect(labels(keys, "  ", 2, true)).toEqual(["name"]);
});

test("what is written already is not offered", () => {
  expect(labels([offer("choice", "http", 6, 10)], "type: http")).toEqual([]);
  expect(labels([offer("choice", "http", 6, 9)], "type: htt")).toEqual(["http"]);
});

test("what the server has matched with the word stays, whatever its label is", () => {
  const found = [offer("attribute", "http.route", 0, 4, "attr:http.route"), offer("value", "payment", 0, 4)];
  expect(labels(found, '"pay')).toEqual(["http.route", "payment"]);
});
