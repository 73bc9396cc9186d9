/** A run: `/test/ID/run/N/TAB`, while it happens and afterwards. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useEffect, useMemo, useState } from "react";
import type { Shape } from "../api/client";
import { judgeNow, run as runOf, stopRun, test as testOf } from "../api/requests";
import { counted, duration } from "../text/format";
import { Icon, OutcomeWord, outcomeOf, WORDS } from "../ui/glyphs";
import { onArrowKeys, Problem, useNow, useTitle } from "../ui/parts";
import { Draft } from "./draft";
import { useDraft } from "./draft-state";
import { Header } from "./header";
import { type Live, settled, useLive } from "./live";
import { again } from "./manner";
import { useMayChange } from "./may-change";
import { type Gates, gateNotes } from "./outcome";
import { Owed } from "./owed";
import { AutomateTab, EventsTab, TriggerTab } from "./run-tabs";
import { useSearchChange } from "./search";
import { useStart, VariablesDialog } from "./start-run";
import { TraceView } from "./trace-view";
import { VerdictTab } from "./verdict";

const TABS = ["trigger", "trace", "test", "events", "automate"] as const;
type Tab = (typeof TABS)[number];

export function RunScreen() {
  const { id, run, tab } = useParams({ strict: false }) as { id: string; run: string; tab?: string };
  const number = Number(run);
  const search = useSearch({ strict: false }) as Record<string, string | undefined>;
  const onSearch = useSearchChange();
  const navigate = useNavigate();
  const { live: told, isRefused } = useLive(id, number);
  const definition = useQuery({ queryKey: ["test", id], queryFn: () => testOf(id) });
  const about = useQuery({
    // Late spans change a run that is over.
    queryKey: ["run", id, number, told.isOver ? told.events.length : 0],
    queryFn: () => runOf(id, number),
    placeholderData: (before, query) => {
      const [, ofTest, ofNumber] = query?.queryKey ?? [];
      return ofTest === id && ofNumber === number ? before : undefined;
    },
  });
  const live = useMemo(() => settled(told, about.data), [told, about.data]);
  const source = useMemo(() => ({ kind: "run", test: id, run: number }) as const, [id, number]);
  const draft = useDraft(source, definition.data?.spec, about.data?.testVersion);
  const name = definition.data?.spec.name ?? id;
  useTitle(live.events.length === 0 ? name : `${WORDS[live.outcome]} · ${name}`);

  // The bare address of a run leads to what is of interest: the trace while it runs, the verdict afterwards.
  const isLoaded = live.events.length > 0;
  useEffect(() => {
    if (tab !== undefined || !isLoaded) return;
    const to = live.verdict === undefined ? "trace" : "test";
    void navigate({ to: "/test/$id/run/$run/$tab", params: { id, run, tab: to }, replace: true });
  }, [tab, isLoaded, live.verdict, navigate, id, run]);

  const failedSpans = useMemo(() => spansOfFailures(live), [live]);
  if (isRefused) {
    return (
      <>
        <Header path={[{ name: "Tests", to: "/tests" }]} title={`${name} › run ${run}`} />
        <div className="problem" role="alert">
          <p>
            There is no run {run} of <b>{id}</b>: it may have been removed.{" "}
            <Link to="/test/$id" params={{ id }}>
              Show its other runs
            </Link>
          </p>
        </div>
      </>
    );
  }
  const shown: Tab = TABS.includes(tab as Tab) ? (tab as Tab) : "trace";
  const passed = live.verdict?.specs.filter((spec) => spec.outcome === "passed").length ?? 0;
  return (
    <>
      <Header
        path={[{ name: "Tests", to: "/tests" }]}
        title={
          <>
            <Link to="/test/$id" params={{ id }}>
              {name}
            </Link>{" "}
            <span className="faint">run {run}</span>
          </>
        }
        state={<State live={live} />}
      >
        <Actions id={id} run={number} name={name} live={live} about={about.data} />
      </Header>
      <div className="tabs" role="tablist" aria-label="Run" onKeyDown={onArrowKeys}>
        {TABS.map((one) => (
          <Link
            key={one}
            role="tab"
            aria-selected={one === shown}
            to="/test/$id/run/$run/$tab"
            params={{ id, run, tab: one }}
            search={((before: object) => before) as never}
          >
            {one[0].toUpperCase() + one.slice(1)}
            {one === "test" && live.verdict !== undefined && (
              <span className="badge">
                {passed}/{live.verdict.specs.length}
              </span>
            )}
          </Link>
        ))}
        <span className="faint about">{about.data && describe(about.data)}</span>
      </div>
      {live.corrected !== undefined && (
        <p className="notice">
          Corrected: {counted(live.corrected.spans, "span")} arrived after the verdict{" "}
          <OutcomeWord outcome={live.corrected.before} /> and made it{" "}
          <OutcomeWord outcome={outcomeOf(live.verdict?.outcome)} />.
        </p>
      )}
      {live.isOver && about.data !== undefined && (
        <GateNotes live={live} gates={about.data.requiredGatesResult} />
      )}
      {live.problem !== undefined && (
        <div className="problem" role="alert">
          <p>{live.problem}</p>
        </div>
      )}
      {live.owed !== undefined && <Owed owed={live.owed} onShow={(span) => onSearch({ span }, false)} />}
      {live.isOver && live.outcome === "inconclusive" && <Missing live={live} />}
      <div className="with-draft">
        {shown === "trigger" && <TriggerTab live={live} draft={draft} />}
        {shown === "trace" && (
          <TraceView
            source={source}
            search={{ ...search, span: search.span ?? search.selectedSpan }}
            onSearch={onSearch}
            pulse={live.spans + (live.isOver ? 0.5 : 0) + (live.corrected?.spans ?? 0)}
            isLive={!live.isOver}
            failedSpans={failedSpans}
            onAssert={draft.begin}
          />
        )}
        {shown === "test" && (
          <VerdictTab
            source={source}
            live={live}
            search={search}
            onSearch={onSearch}
            draft={draft}
            failedSpans={failedSpans}
          />
        )}
        {shown === "events" && <EventsTab live={live} />}
        {shown === "automate" && (
          <AutomateTab
            id={id}
            run={number}
            name={name}
            outcome={live.outcome}
            manner={again(about.data?.variableSet)}
          />
        )}
        <Draft draft={draft} />
      </div>
    </>
  );
}

function describe(about: { testVersion?: number; metadata?: Record<string, unknown> | null }): string {
  const metadata = about.metadata ?? {};
  const told = ["branch", "source", "buildNumber"]
    .map((key) => metadata[key])
    .filter((one) => typeof one === "string");
  return [`v${about.testVersion ?? 1}`, ...told].join(" · ");
}

function State({ live }: { live: Live }) {
  const now = useNow(live.isOver ? 60_000 : 100);
  const elapsed = live.began === undefined ? undefined : (live.ended ?? now) - live.began;
  return (
    <output className="run-state" aria-label="Run state">
      <OutcomeWord outcome={live.outcome}>{live.phase}</OutcomeWord>
      {elapsed !== undefined && <span className="number">{duration(Math.max(0, elapsed) * 1e6)}</span>}
      {!live.isImported && <span className="faint">{counted(live.spans, "span")}</span>}
    </output>
  );
}

function Actions(props: {
  id: string;
  run: number;
  name: string;
  live: Live;
  about: Shape<"Run"> | undefined;
}) {
  const { id, run, name, live, about } = props;
  const mayChange = useMayChange();
  const start = useStart();
  const [problem, setProblem] = useState<unknown>();
  if (!mayChange) return null;
  const attempt = (action: Promise<unknown>) => void action.catch(setProblem);
  return (
    <>
      {problem !== undefined && <Problem error={problem} />}
      {start.problem !== undefined && <Problem error={start.problem} />}
      {!live.isOver && (
        <>
          <button
            type="button"
            disabled={live.phase !== "Waiting"}
            onClick={() => attempt(judgeNow(id, run))}
          >
            Judge now
          </button>
          <button type="button" onClick={() => attempt(stopRun(id, run))}>
            <Icon name="stop" /> Stop
          </button>
        </>
      )}
      {live.isOver && (
        <>
          <Link className="button" to="/compare" search={{ b: `test/${id}/run/${run}` } as never}>
            Compare
          </Link>
          <button
            type="button"
            className="primary"
            disabled={about === undefined}
            onClick={() => start.begin(id, name, again(about?.variableSet))}
          >
            <Icon name="play" /> Run again
          </button>
        </>
      )}
      <VariablesDialog start={start} />
    </>
  );
}

/** What the gates of a run add to the verdict of its specs. */
function GateNotes({ live, gates }: { live: Live; gates: Gates }) {
  const notes = live.verdict === undefined ? [] : gateNotes(gates, outcomeOf(live.verdict.outcome));
  if (live.outcome === "running" || notes.length === 0) return null;
  return (
    <section className="notice" aria-label="Gates">
      {notes.map((note) => (
        <p key={note}>{note}</p>
      ))}
    </section>
  );
}

/** What an inconclusive run lacks. */
function Missing({ live }: { live: Live }) {
  const missing = [...new Set([...(live.verdict?.missing ?? []), ...(live.waitEnded?.debts ?? [])])];
  return (
    <section className="owed" aria-label="Missing">
      <h2>
        <OutcomeWord outcome="inconclusive">What is missing for a verdict</OutcomeWord>
      </h2>
      <ul>
        {missing.map((sentence) => (
          <li key={sentence}>{sentence}</li>
        ))}
      </ul>
    </section>
  );
}

/** The spans that failed assertions are about. */
function spansOfFailures(live: Live): string[] {
  const found = new Set<string>();
  for (const spec of live.verdict?.specs ?? []) {
    for (const assertion of spec.assertions) {
      for (const failure of assertion.failures) if (failure.spanId) found.add(failure.spanId);
    }
  }
  return [...found];
}
