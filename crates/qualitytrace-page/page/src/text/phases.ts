/** Where the time of a run went. */

export const PHASES = ["Queue", "Trigger", "Trace", "Verdict"] as const;

interface Times {
  createdAt?: string;
  serviceTriggeredAt?: string;
  serviceTriggerCompletedAt?: string;
  obtainedTraceAt?: string;
  completedAt?: string;
}

/** The nanoseconds of each phase. A moment that is missing belongs to the phase before it. */
export function phases(of: Times): number[] {
  const moments = [of.serviceTriggeredAt, of.serviceTriggerCompletedAt, of.obtainedTraceAt, of.completedAt];
  let before = Date.parse(of.createdAt ?? "");
  return moments.map((moment) => {
    const at = Date.parse(moment ?? "");
    if (!Number.isFinite(before) || !Number.isFinite(at) || at < before) return 0;
    const length = (at - before) * 1e6;
    before = at;
    return length;
  });
}
