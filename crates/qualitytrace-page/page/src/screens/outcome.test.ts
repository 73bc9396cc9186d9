import { expect, test } from "vitest";
import { type Gates, gateNotes, outcomeOfRun, outcomeOfSuite } from "./outcome";

const gates = (required: string[], failed: string[] = [], inconclusive: string[] = []): Gates => ({
  required,
  failed,
  inconclusive,
  passed: !failed.some((gate) => required.includes(gate)),
});
const finished = (of: Gates, missing: string[] = []) => ({
  state: "FINISHED",
  requiredGatesResult: of,
  missing,
});
const BOTH = ["analyzer-score", "test-specs"];

test("the required gates decide how a run ended, whatever its specs say", () => {
  expect(outcomeOfRun(finished(gates(BOTH)))).toBe("passed");
  expect(outcomeOfRun(finished(gates(BOTH, ["analyzer-score"])))).toBe("failed");
  expect(outcomeOfRun(finished(gates(["analyzer-score"], ["test-specs"])))).toBe("passed");
  expect(outcomeOfRun(finished(gates(["analyzer-score"], ["test-specs"]), ["a call"]))).toBe("passed");
});

test("a run is inconclusive if only missing spans keep it from passing", () => {
  expect(outcomeOfRun(finished(gates(BOTH, ["test-specs"]), ["a call has no answer"]))).toBe("inconclusive");
  expect(outcomeOfRun(finished(gates(BOTH, ["analyzer-score"], ["analyzer-score"])))).toBe("inconclusive");
  expect(outcomeOfRun(finished(gates(BOTH, BOTH, ["analyzer-score"])))).toBe("failed");
});

test("a run without a verdict is under way, stopped, broken, or was ended by its server", () => {
  const at = (state: string) => outcomeOfRun({ state, requiredGatesResult: gates(BOTH) });
  expect(
    ["CREATED", "AWAITING_TRACE", "STOPPED", "TRIGGER_FAILED", "ANALYZING_ERROR", "FAILED"].map(at),
  ).toEqual(["running", "running", "stopped", "broken", "broken", "inconclusive"]);
});

test("gates are told where they and the specs differ", () => {
  expect(gateNotes(gates(BOTH, ["test-specs"]), "failed")).toEqual([]);
  expect(gateNotes(gates(BOTH, ["analyzer-score"]), "passed")).toEqual([
    "The required gate analyzer-score is not passed.",
  ]);
  expect(gateNotes(gates([], ["test-specs", "analyzer-score"]), "failed")).toEqual([
    "The specs do not count: test-specs is not a required gate of this run.",
  ]);
  expect(gateNotes(gates(BOTH, ["analyzer-score"], ["analyzer-score"]), "passed")).toEqual([
    "The required gate analyzer-score is undecided: spans are missing.",
  ]);
});

test("a suite is inconclusive if none of its steps failed, and some could not be decided", () => {
  const passed = finished(gates(BOTH));
  const undecided = finished(gates(BOTH, ["test-specs"]), ["a call has no answer"]);
  const failed = finished(gates(BOTH, ["test-specs"]));
  const suite = (fail: number, ...steps: object[]) =>
    outcomeOfSuite({ state: "FINISHED", fail, steps } as never);
  expect(suite(0, passed)).toBe("passed");
  expect(suite(1, passed, undecided)).toBe("inconclusive");
  expect(suite(2, failed, undecided)).toBe("failed");
  // The run of the step that failed was removed.
  expect(suite(2, undecided)).toBe("failed");
});
