/** Own icons. A verdict is a shape, a word and a colour, never a colour alone. */
import type { ReactNode } from "react";

export type Outcome = "passed" | "failed" | "inconclusive" | "flaky" | "running" | "broken" | "stopped";
/** What a run can end with. */
export const OUTCOMES = ["passed", "failed", "inconclusive", "broken", "stopped"] as const;

const SHAPES: Record<Outcome, ReactNode> = {
  passed: (
    <>
      <circle cx="8" cy="8" r="6.25" fill="currentColor" stroke="none" />
      <path d="m5 8.2 2.1 2.1L11 6.2" stroke="var(--bg)" />
    </>
  ),
  failed: (
    <>
      <rect x="2" y="2" width="12" height="12" rx="1.5" fill="currentColor" stroke="none" />
      <path d="m5.5 5.5 5 5m0-5-5 5" stroke="var(--bg)" />
    </>
  ),
  inconclusive: (
    <>
      <circle cx="8" cy="8" r="6.25" strokeDasharray="2.6 2" />
      <path d="M6.2 6.4a1.9 1.9 0 1 1 2.5 1.9c-.5.2-.7.5-.7 1M8 11.3v.1" />
    </>
  ),
  flaky: <path d="M1.8 8c1.6-5 3.6-5 5 0s3.6 5 5 0c.6-2 1.3-3.2 2.4-3.6" />,
  running: (
    <>
      <circle cx="8" cy="8" r="6.25" opacity="0.3" />
      <path d="M8 1.75A6.25 6.25 0 0 1 14.25 8" className="turning" />
    </>
  ),
  broken: (
    <>
      <circle cx="8" cy="8" r="6.25" />
      <path d="m3.8 12.2 8.4-8.4" />
    </>
  ),
  stopped: <rect x="4.5" y="4.5" width="7" height="7" fill="currentColor" stroke="none" />,
};

export function OutcomeGlyph({ outcome, label = outcome }: { outcome: Outcome; label?: string }) {
  return (
    <svg className={`glyph ${outcome}`} viewBox="0 0 16 16" role="img" aria-label={label}>
      {SHAPES[outcome]}
    </svg>
  );
}

/** The glyph and the word. */
export function OutcomeWord({ outcome, children }: { outcome: Outcome; children?: ReactNode }) {
  return (
    <span className={`outcome ${outcome}`}>
      <svg className={`glyph ${outcome}`} viewBox="0 0 16 16" aria-hidden="true">
        {SHAPES[outcome]}
      </svg>
      {children ?? WORDS[outcome]}
    </span>
  );
}

export const WORDS: Record<Outcome, string> = {
  passed: "Passed",
  failed: "Failed",
  inconclusive: "Inconclusive",
  flaky: "Flaky",
  running: "Running",
  broken: "Broken",
  stopped: "Stopped",
};

/** The outcome that the API names; a run without one is under way. */
export function outcomeOf(name: string | null | undefined): Outcome {
  return name !== null && name !== undefined && name in SHAPES ? (name as Outcome) : "running";
}

const ICONS = {
  tests: "M3 4h10M3 8h10M3 12h6",
  runs: "M5 3.5v9l7-4.5z",
  suites: "M3 3h4v4H3zM9 9h4v4H9zM5 7v4h4",
  traces: "M2 4h7M5 8h8M8 12h4",
  variables:
    "M6 3c-2 0-2 1-2 2.5S4 8 2.5 8C4 8 4 9 4 10.5S4 13 6 13M10 3c2 0 2 1 2 2.5S12 8 13.5 8C12 8 12 9 12 10.5S12 13 10 13",
  status: "M2 8h3l2-5 2.5 10L11.5 8H14",
  settings:
    "M8 5.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5zM8 1.5v2M8 12.5v2M1.5 8h2M12.5 8h2M3.4 3.4l1.4 1.4M11.2 11.2l1.4 1.4M12.6 3.4l-1.4 1.4M4.8 11.2l-1.4 1.4",
  theme: "M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12M5 4v8",
  palette: "M4.5 4.5 2 8l2.5 3.5M11.5 4.5 14 8l-2.5 3.5M9.5 3l-3 10",
  exit: "M9 3H4v10h5M7 8h7m-2.5-2.5L14 8l-2.5 2.5",
  more: "M3 8h.01M8 8h.01M13 8h.01",
  close: "m4 4 8 8m0-8-8 8",
  copy: "M6 6h7v7H6zM3 10V3h7",
  check: "m3 8.5 3.2 3.2L13 5",
  play: "M5 3.5v9l7-4.5z",
  plus: "M8 3v10M3 8h10",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zm3.3 7.8L14 14",
  next: "m6 3 5 5-5 5",
  previous: "m10 3-5 5 5 5",
  stop: "M4 4h8v8H4z",
  link: "M6.5 9.5l3-3M7 5l1.6-1.6a2.9 2.9 0 0 1 4 4L11 9M9 11l-1.6 1.6a2.9 2.9 0 0 1-4-4L5 7",
} as const;

export function Icon({ name }: { name: keyof typeof ICONS }) {
  return (
    <svg className="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={ICONS[name]} />
    </svg>
  );
}
