import { expect, test } from "vitest";
import { sinceWhen, whatChanged, whatHappened } from "./failure-story";

const spec = (name: string, outcome: string, assertion: string, failures: object[], selected = 1) => ({
  name,
  selector: "span[]",
  outcome,
  selected,
  assertions: [{ assertion, failed: failures.length, failures: failures as never }],
});

test("the first failed spec is told in words", () => {
  const failure = { expected: "1", observed: "2", span: null, service: null };
  const twice = spec("Charged once", "failed", "attr:tracetest.selected_spans.count = 1", [failure], 2);
  expect(whatHappened([spec("fine", "passed", "attr:a = 1", []), twice])).toEqual({
    spec: "Charged once",
    text: "2 spans selected, where the test expects 1.",
  });
  const none = { ...twice, selected: 0 };
  expect(whatHappened([none, twice])?.text).toBe(
    "no span matches its selector, where the test expects 1. 1 further spec failed, too.",
  );
  const slow = { expected: "1s", observed: "1.501690197s", span: "authorize", service: "payment" };
  const late = spec("", "failed", "attr:tracetest.span.duration < 1s", [slow, slow]);
  expect(whatHappened([late])).toEqual({
    spec: "span[]",
    text: "tracetest.span.duration is 1.5s on authorize of payment, and on 1 more span, where the test expects 1s.",
  });
  const absent = { expected: "x", observed: "", span: "a", service: "" };
  expect(whatHappened([spec("b", "failed", "attr:k = x", [absent])])?.text).toBe(
    "k is not there on a, where the test expects x.",
  );
  expect(whatHappened([spec("fine", "passed", "attr:a = 1", [])])).toBeUndefined();
});

test("a row of failures begins after the last run that passed", () => {
  const runs = ["failed", "inconclusive", "failed", "broken", "passed", "failed"].map((outcome, at) => ({
    run: 6 - at,
    outcome,
  }));
  expect(sinceWhen(runs, 6)).toEqual({ first: runs[2], passed: runs[4] });
  expect(sinceWhen(runs, 4).first).toEqual(runs[2]);
  expect(sinceWhen(runs, 1)).toEqual({ first: runs[5], passed: undefined });
});

test("what changed is counted and named", () => {
  const rows = [1, 2, 3, 4].map((at) => ({ change: "added", name: `q${at}`, service: "cart" }));
  expect(whatChanged({ added: 4, removed: 0, slower: 1, changed: 0 }, rows)).toEqual([
    "4 spans new: q1 (cart), q2 (cart), q3 (cart)",
    "1 span slower",
  ]);
});
