/** A run as it happens: its stream of events, folded into what the screen shows. */
import { useEffect, useMemo, useState } from "react";
import type { Shape } from "../api/client";
import { follow } from "../api/stream";
import { type Outcome, outcomeOf, WORDS } from "../ui/glyphs";
import { setConnected } from "./connection";
import { outcomeOfRun } from "./outcome";

export interface RunEvent {
  seq?: number;
  at: number | string;
  what: string;
  [field: string]: unknown;
}

export interface Debt {
  kind: string;
  text: string;
  spanId?: string;
  since: string;
  until: string;
}

export interface Owed {
  spans: number;
  debts: Debt[];
  unnamedDebts: number;
  specs: { name: string; outcome: "passed" | "failed" | "passing" | "failing" }[];
  quietUntil: string;
  settleUntil: string;
  timeoutAt: string;
}

export interface Live {
  events: RunEvent[];
  /** What it does, in a word. */
  phase: string;
  outcome: Outcome;
  isOver: boolean;
  /** Whether it happened on another server: its events stayed there. */
  isImported: boolean;
  spans: number;
  owed: Owed | undefined;
  verdict: Shape<"ShortVerdict"> | undefined;
  analysis: Shape<"ShortAnalysis"> | undefined;
  /** Why there is no verdict. */
  problem: string | undefined;
  /** The outcome before late spans changed it, and how many they were. */
  corrected: { before: Outcome; spans: number } | undefined;
  waitEnded: { reason: string; debts: string[] } | undefined;
  reply: Reply | undefined;
  trigger: Record<string, unknown> | undefined;
  /** Milliseconds since the epoch. */
  began: number | undefined;
  ended: number | undefined;
}

export interface Reply {
  type: string;
  statusCode?: number;
  status?: string;
  headers?: { key: string; value: string }[];
  body?: string;
  truncated?: boolean;
}

const START: Live = {
  events: [],
  phase: "Loading",
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
};

const PHASES: Record<string, string> = {
  created: "Queued",
  requeued: "Queued",
  resolving: "Resolving",
  resolved: "Resolving",
  triggering: "Triggering",
  triggered: "Triggered",
  waiting: "Waiting",
  resumed: "Waiting",
  arrived: "Waiting",
  waitEnded: "Judging",
  waitSkipped: "Judging",
  analyzed: "Judging",
  judging: "Judging",
};

/** How long after the end of a run its stream is asked again for late spans. */
const LATE_EVERY = 2000;

/** The state after one more event. */
export function fold(before: Live, event: RunEvent): Live {
  if (event.what === "owed") {
    const owed = event as unknown as Owed;
    return before.isOver ? before : { ...before, owed, spans: owed.spans, phase: "Waiting" };
  }
  const at = Number(event.at) / 1e6;
  const after: Live = { ...before, events: [...before.events, event] };
  after.began ??= at;
  // Late spans are analyzed after the end.
  if (!before.isOver) after.phase = PHASES[event.what] ?? after.phase;
  const over = (outcome: Outcome, problem?: string) =>
    Object.assign(after, {
      outcome,
      problem,
      phase: WORDS[outcome],
      isOver: true,
      ended: at,
      owed: undefined,
    });
  switch (event.what) {
    case "resolved":
      after.trigger = event.trigger as Live["trigger"];
      break;
    case "triggered":
      after.reply = event.reply as Reply;
      break;
    case "arrived":
      after.spans = Number(event.spans);
      break;
    case "waitEnded":
      after.waitEnded = { reason: String(event.reason), debts: (event.debts as string[] | undefined) ?? [] };
      after.owed = undefined;
      break;
    case "waitSkipped":
      after.waitEnded = {
        reason: "a client asked to judge now",
        debts: (event.debts as string[] | undefined) ?? [],
      };
      break;
    case "analyzed":
      after.analysis = event.analysis as Live["analysis"];
      break;
    case "judged": {
      const verdict = event.verdict as Shape<"ShortVerdict">;
      after.verdict = verdict;
      over(outcomeOf(verdict.outcome));
      break;
    }
    case "late": {
      const verdict = event.verdict as Shape<"ShortVerdict">;
      after.corrected = { before: outcomeOf(String(event.before)), spans: Number(event.spans) };
      after.verdict = verdict;
      over(outcomeOf(verdict.outcome));
      break;
    }
    case "imported":
      over("running");
      after.isImported = true;
      break;
    case "stopped":
      over("stopped", "The run was stopped.");
      break;
    case "interrupted":
      over(
        "inconclusive",
        "The server was restarted before the answer to the trigger was stored, and the trigger is not sent twice. Run the test again.",
      );
      break;
    case "notResolved":
    case "triggerFailed":
    case "noTrace":
      over("broken", String(event.message ?? "The run could not be executed."));
      break;
    case "broken":
      over("inconclusive", String(event.message ?? "The run could not be executed."));
      break;
    case "again":
      return { ...((event.events as RunEvent[] | undefined) ?? []).reduce(fold, before), isOver: false };
  }
  return after;
}

/**
 * The state of a run with its outcome. The verdict among its events is that of its specs; the run itself says what its
 * gates made of it, and nothing is said before that is known.
 */
export function settled(live: Live, run: Shape<"Run"> | undefined): Live {
  if (!live.isOver || (live.verdict === undefined && !live.isImported)) return live;
  const outcome = run === undefined ? "running" : outcomeOfRun(run);
  const phase = outcome === "running" ? "Judging" : WORDS[outcome];
  if (!live.isImported || run === undefined) return { ...live, outcome, phase };
  const [began, ended] = [Date.parse(run.createdAt), Date.parse(run.completedAt)];
  return { ...live, outcome, phase, began, ended, problem: run.lastErrorState || undefined };
}

/** Follows a run. */
export function useLive(test: string, run: number): { live: Live; isRefused: boolean } {
  const [live, setLive] = useState(START);
  const [isRefused, setRefused] = useState(false);
  useEffect(() => {
    setLive(START);
    setRefused(false);
    // A run that is over sends all its events at once: they are folded before anything is drawn.
    let waiting: RunEvent[] = [];
    let frame = 0;
    const flush = () => {
      frame = 0;
      const events = waiting;
      waiting = [];
      setLive((before) => events.reduce(fold, before));
    };
    const stop = follow(
      `/api/tests/${encodeURIComponent(test)}/run/${run}/events/stream?short=true&owed=true`,
      (data) => {
        waiting.push(data as RunEvent);
        if (frame === 0) frame = requestAnimationFrame(flush);
      },
      (connection) => {
        setConnected(connection !== "lost");
        setRefused(connection === "refused");
      },
      LATE_EVERY,
    );
    return () => {
      stop();
      cancelAnimationFrame(frame);
    };
  }, [test, run]);
  return useMemo(() => ({ live, isRefused }), [live, isRefused]);
}
