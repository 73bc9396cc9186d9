import { expect, test, vi } from "vitest";

vi.stubGlobal("document", { baseURI: "http://127.0.0.1/" });
const { fold, settled } = await import("./live");

const start = {
  events: [],
  phase: "",
  outcome: "running",
  isOver: false,
  isImported: false,
  spans: 0,
  owed: undefined,
  verdict: undefined,
  analysis: undefined,
  problem: undefined,
  corrected: undefined,
  waitEnded: undefined,
  reply: undefined,
  trigger: undefined,
  began: undefined,
  ended: undefined,
} as Parameters<typeof fold>[0];

const verdict = (outcome: string) => ({ outcome, missing: [], specs: [], outputs: [] });
const owed = { what: "owed", at: "5", spans: 3, debts: [{ kind: "answer", text: "a call" }], specs: [] };
const after = (...events: Parameters<typeof fold>[1][]) => events.reduce(fold, start);

test("a waiting run shows what it owes, and a judged one does not", () => {
  const waiting = after({ what: "created", at: 1e6 }, { what: "arrived", at: 2e6, spans: 2 }, owed);
  expect([waiting.phase, waiting.spans, waiting.owed?.debts.length, waiting.isOver]).toEqual([
    "Waiting",
    3,
    1,
    false,
  ]);
  const judged = fold(waiting, { what: "judged", at: 3e6, verdict: verdict("failed") });
  expect([judged.phase, judged.outcome, judged.owed, judged.isOver]).toEqual([
    "Failed",
    "failed",
    undefined,
    true,
  ]);
  expect([judged.began, judged.ended]).toEqual([1, 3]);
  expect(fold(judged, owed).owed).toBeUndefined();
});

test("late spans correct a verdict and say what it was before", () => {
  const corrected = after(
    { what: "judged", at: 1, verdict: verdict("failed") },
    { what: "late", at: 2, spans: 1, before: "failed", verdict: verdict("passed") },
  );
  expect([corrected.outcome, corrected.corrected]).toEqual(["passed", { before: "failed", spans: 1 }]);
});

test("a run without a verdict says why", () => {
  const broken = after({ what: "triggerFailed", at: 1, message: "connection refused" });
  expect([broken.outcome, broken.problem]).toEqual(["broken", "connection refused"]);
  expect(after({ what: "stopped", at: 1 }).outcome).toBe("stopped");
});

const run = (failed: string[], more: object = {}) =>
  ({
    state: "FINISHED",
    requiredGatesResult: {
      required: ["analyzer-score", "test-specs"],
      failed,
      passed: failed.length === 0,
    },
    ...more,
  }) as unknown as Parameters<typeof settled>[1];

test("a run whose specs pass has failed if a required gate is not passed", () => {
  const judged = after({ what: "created", at: 1 }, { what: "judged", at: 2, verdict: verdict("passed") });
  const state = (of: Parameters<typeof settled>[1]) => {
    const { outcome, phase } = settled(judged, of);
    return [outcome, phase];
  };
  expect(state(undefined)).toEqual(["running", "Judging"]);
  expect(state(run(["analyzer-score"]))).toEqual(["failed", "Failed"]);
  expect(state(run([]))).toEqual(["passed", "Passed"]);
});

test("a run without a verdict, or that is under way, is what its events say", () => {
  const broken = after({ what: "triggerFailed", at: 1, message: "connection refused" });
  expect(settled(broken, undefined)).toBe(broken);
  const waiting = after({ what: "waiting", at: 1 });
  expect(settled(waiting, run([]))).toBe(waiting);
});

test("an analysis of late spans leaves a run that is over as it is", () => {
  const judged = after({ what: "judged", at: 1, verdict: verdict("passed") });
  const analyzed = fold(judged, { what: "analyzed", at: 2, analysis: { score: 1 } });
  expect([analyzed.phase, analyzed.isOver]).toEqual(["Passed", true]);
});

test("an imported run is over, with the outcome and the times of the other server", () => {
  const imported = after({ what: "imported", at: 5e6, run: null });
  expect([imported.isOver, imported.isImported]).toEqual([true, true]);
  const times = { createdAt: "2026-01-01T00:00:00Z", completedAt: "2026-01-01T00:00:02Z" };
  const shown = settled(imported, run(["test-specs"], times));
  expect([shown.outcome, shown.phase, (shown.ended ?? 0) - (shown.began ?? 0)]).toEqual([
    "failed",
    "Failed",
    2000,
  ]);
});
