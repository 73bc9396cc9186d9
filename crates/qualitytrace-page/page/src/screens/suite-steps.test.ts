import { expect, test } from "vitest";
import { about, stepsOf } from "./suite-steps";

const planned = (test: string, more: object = {}) => ({
  name: test,
  test,
  title: `Test ${test}`,
  version: 1,
  retries: 0,
  repeat: 1,
  role: "step",
  ...more,
});
const gates = { required: ["test-specs"], failed: [] as string[], passed: true };
const run = (id: number, traceId: string, more: object = {}) => ({
  id,
  traceId,
  state: "FINISHED",
  requiredGatesResult: gates,
  ...more,
});
const shown = (events: object[], runs: object[]) => stepsOf(events as never, runs as never);

test("steps have the tests that they were planned with: setup, rows, teardown, one that was skipped", () => {
  const steps = shown(
    [
      {
        what: "planned",
        steps: [
          planned("login", { role: "setup" }),
          planned("buy", { row: 1, values: [["WHO", "ada"]] }),
          planned("buy", { row: 2, values: [["WHO", "bob"]] }),
          planned("pay"),
          planned("logout", { role: "teardown", name: "Leave" }),
        ],
      },
      { what: "stepStarted", step: 0, attempt: 1, run: 1, traceId: "a" },
      { what: "stepEnded", step: 0, outcome: "passed" },
      { what: "stepStarted", step: 1, attempt: 1, run: 7, traceId: "b" },
      { what: "stepStarted", step: 2, attempt: 1, run: 8, traceId: "c" },
      { what: "stepsSkipped", steps: [3] },
      { what: "stepStarted", step: 4, attempt: 1, run: 1, traceId: "d" },
    ],
    [
      run(1, "a"),
      run(7, "b", { outputs: [{ name: "ID", value: "41" }] }),
      run(8, "c", { state: "EXECUTING" }),
      run(1, "d"),
    ],
  );
  expect(steps.map((step) => [step.planned.test, step.run?.id, step.outcome, about(step)])).toEqual([
    ["login", 1, "passed", "setup"],
    ["buy", 7, "passed", "row 1, WHO = ada, ID = 41"],
    ["buy", 8, "running", "row 2, WHO = bob"],
    ["pay", undefined, "stopped", "skipped"],
    ["logout", 1, "passed", "Leave, teardown"],
  ]);
});

test("a step has the outcome of its last run, and of all of them if they disagree", () => {
  const plan = { what: "planned", steps: ["a", "b", "c", "d", "e"].map((name) => planned(name)) };
  const started = (step: number, traceId: string) => ({
    what: "stepStarted",
    step,
    attempt: 1,
    run: 1,
    traceId,
  });
  const failed = { ...gates, failed: ["test-specs"], passed: false };
  const steps = shown(
    [
      plan,
      started(0, "a1"),
      started(0, "a2"),
      { what: "stepEnded", step: 0, outcome: "flaky" },
      started(1, "b"),
      { what: "stepEnded", step: 1, outcome: "inconclusive" },
      started(2, "c"),
      { what: "stepEnded", step: 2, outcome: "failed" },
      started(3, "removed"),
      { what: "stepEnded", step: 3, outcome: "failed" },
    ],
    [
      run(2, "a2"),
      run(1, "b", { requiredGatesResult: failed, missing: ["a call has no answer"] }),
      // Late spans have corrected it.
      run(1, "c"),
    ],
  );
  expect(steps.map((step) => [step.planned.test, step.outcome])).toEqual([
    ["a", "flaky"],
    ["b", "inconclusive"],
    ["c", "passed"],
    ["d", "failed"],
  ]);
});
