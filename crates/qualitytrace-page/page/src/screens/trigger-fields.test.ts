import { expect, test } from "vitest";
import { read, value, withValue } from "../text/definition";
import { TRIGGERS, template } from "./trigger-fields";

test("each type of trigger begins with a text that its form reads", () => {
  for (const [type, { block, initial }] of Object.entries(TRIGGERS)) {
    const definition = read(template(type));
    expect(definition.problem).toBeUndefined();
    expect(value(definition, ["spec", "trigger"])).toEqual({ type, [block]: initial });
  }
  expect(template("constructor")).toBe(template("http"));
});

test("what is written into a form is in the text, and read from it again", () => {
  for (const [type, { block, fields }] of Object.entries(TRIGGERS)) {
    for (const { path, kind } of fields) {
      const written = {
        text: 'a "text": with # signs',
        area: "two\nlines: {}\n",
        choice: "PUT",
        pairs: [{ key: "X-A", value: "1" }],
        names: { A: "x: y" },
        list: ["a:1", "b:2"],
      }[kind];
      const full = ["spec", "trigger", block, ...path];
      const text = withValue(template(type), full, written);
      expect(value(read(text), full), `${type} ${path.join(".")}`).toEqual(written);
    }
  }
});
