import { expect, test } from "vitest";
import { phases } from "./phases";

test("each phase ends where the next one begins", () => {
  const at = (milliseconds: number) => new Date(1e12 + milliseconds).toISOString();
  const times = {
    createdAt: at(0),
    serviceTriggeredAt: at(1),
    serviceTriggerCompletedAt: at(31),
    obtainedTraceAt: at(331),
    completedAt: at(333),
  };
  expect(phases(times)).toEqual([1e6, 30e6, 300e6, 2e6]);
});

test("a run that broke has no time in the phases that it never had", () => {
  const zero = "0001-01-01T00:00:00Z";
  const times = {
    createdAt: "2026-01-01T00:00:00Z",
    serviceTriggeredAt: "2026-01-01T00:00:01Z",
    serviceTriggerCompletedAt: zero,
    obtainedTraceAt: zero,
    completedAt: "2026-01-01T00:00:03Z",
  };
  expect(phases(times)).toEqual([1e9, 0, 0, 2e9]);
  expect(phases({})).toEqual([0, 0, 0, 0]);
});
