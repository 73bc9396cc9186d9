/** The verdict of a run: why it failed, with expected and observed side by side. */
import { Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import type { Shape } from "../api/client";
import { type Source, type Spec, select } from "../api/requests";
import { counted, duration, shown } from "../text/format";
import { OutcomeGlyph, OutcomeWord, outcomeOf } from "../ui/glyphs";
import { Copy } from "../ui/parts";
import type { DraftState } from "./draft-state";
import { FailureStory } from "./failure-story";
import type { Live } from "./live";
import { TraceView } from "./trace-view";

export function VerdictTab(props: {
  source: Source;
  live: Live;
  search: Record<string, string | undefined>;
  onSearch: (change: Record<string, string | undefined>, isTyping: boolean) => void;
  draft: DraftState;
  failedSpans: string[];
}) {
  const { source, live, search, onSearch, draft, failedSpans } = props;
  const { verdict } = live;
  if (verdict === undefined) {
    return <p className="faint pad">{withoutVerdict(live)}</p>;
  }
  const order = verdict.specs
    .map((spec, index) => ({ spec, index }))
    .sort((a, b) => rank(a.spec.outcome) - rank(b.spec.outcome) || a.index - b.index);
  const asked = search.spec ?? search.selectedAssertion;
  const chosen = order.find((one) => String(one.index) === asked) ?? order[0];
  const failing = verdict.specs.filter((spec) => spec.outcome === "failed").length;
  const spans = chosen === undefined ? [] : spansOf(chosen.spec);
  return (
    <>
      {source.kind === "run" && failing > 0 && (
        <FailureStory test={source.test} run={source.run} specs={verdict.specs} />
      )}
      <div className="verdict">
        <div className="specs">
          <h2>
            Specs <span className="faint">{summary(verdict.specs.length, failing)}</span>
          </h2>
          <ul aria-label="Specs">
            {order.map(({ spec, index }) => (
              <li key={index}>
                <button
                  type="button"
                  className={index === chosen?.index ? "spec here" : "spec"}
                  aria-pressed={index === chosen?.index}
                  onClick={() => onSearch({ spec: String(index), selectedAssertion: undefined }, false)}
                >
                  <OutcomeGlyph outcome={outcomeOf(spec.outcome)} />
                  <span className="title">{spec.name || spec.selector}</span>
                  <span className="faint number">{counted(spec.selected, "span")}</span>
                </button>
              </li>
            ))}
          </ul>
          {verdict.outputs.length > 0 && (
            <>
              <h2>Outputs</h2>
              <dl className="pairs pad">
                {verdict.outputs.map((output) => (
                  <div key={output.name}>
                    <dt>{output.name}</dt>
                    <dd>
                      {output.error ? (
                        <span className="bad">{output.error}</span>
                      ) : (
                        <code>{shown(output.value)}</code>
                      )}
                    </dd>
                  </div>
                ))}
              </dl>
            </>
          )}
          {live.analysis !== undefined && (
            <Analysis analysis={live.analysis} onShow={(span) => onSearch({ span }, false)} />
          )}
        </div>
        <div className="spec-detail">
          {chosen !== undefined && (
            <SpecDetail
              key={chosen.index}
              source={source}
              spec={chosen.spec}
              onShow={(span) => onSearch({ span }, false)}
              onUse={(selector) => draft.reselect(chosen.index, chosen.spec, selector)}
            />
          )}
          <TraceView
            source={source}
            search={search}
            onSearch={onSearch}
            failedSpans={spans.length > 0 ? spans : failedSpans}
            onAssert={draft.begin}
          />
        </div>
      </div>
    </>
  );
}

function withoutVerdict(live: Live): string {
  if (live.isImported) return "This run was imported: of its verdict, only the outcome is shown.";
  return live.isOver ? "This run has no verdict." : "The verdict comes when the trace is complete.";
}

function rank(outcome: string): number {
  return ["failed", "inconclusive", "passed"].indexOf(outcome);
}

function summary(total: number, failing: number): string {
  return failing === 0 ? `${total}` : `${total} · ${failing} failed`;
}

function spansOf(spec: Spec): string[] {
  return spec.assertions.flatMap((assertion) =>
    assertion.failures.flatMap((one) => (one.spanId ? [one.spanId] : [])),
  );
}

function SpecDetail(props: {
  source: Source;
  spec: Spec;
  onShow: (span: string) => void;
  onUse: (selector: string) => void;
}) {
  const { source, spec, onShow, onUse } = props;
  return (
    <section className="why" aria-label={spec.name || spec.selector}>
      <header>
        <OutcomeWord outcome={outcomeOf(spec.outcome)}>{spec.name || "Spec"}</OutcomeWord>
        <span className="faint">
          selects {counted(spec.selected, "span")}
          {spec.longest !== null && `, ≤ ${duration(Number(spec.longest))}`}
        </span>
      </header>
      <p className="selector">
        <code>{spec.selector}</code> <Copy text={spec.selector} name="Copy selector" />
      </p>
      {spec.problem !== null && <p className="bad">{spec.problem}</p>}
      {spec.advice !== null && <Advice text={spec.advice} />}
      {spec.selected === 0 && (
        <NearestMiss source={source} selector={spec.selector} onShow={onShow} onUse={onUse} />
      )}
      <ul className="assertions">
        {spec.assertions.map((assertion, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the same assertion may be there twice
          <li key={index}>
            <p>
              <OutcomeGlyph outcome={outcomeOf(assertion.outcome)} />
              <code>{assertion.assertion}</code>
              <span className="faint">{failedPart(assertion)}</span>
            </p>
            {assertion.failures.length > 0 && <Failures assertion={assertion} onShow={onShow} />}
            {assertion.advice !== null && <Advice text={assertion.advice} />}
          </li>
        ))}
      </ul>
    </section>
  );
}

/** What helps to correct a failure; the trace that it names can be opened. */
function Advice({ text }: { text: string }) {
  const [before, ...after] = text.split(/(?<=is in trace )([0-9a-f]{32})\b/);
  const [id, ...rest] = after;
  return (
    <p className="advice">
      {before}
      {id !== undefined && (
        <Link to="/trace/$id" params={{ id }}>
          {id}
        </Link>
      )}
      {rest.join("")}
    </p>
  );
}

/** How many spans an assertion fails on. One about their number says how many there are instead. */
function failedPart(assertion: Spec["assertions"][number]): string {
  const { failed, passed, failures } = assertion;
  if (failed === 0) return "";
  const [first] = failures;
  if (
    first !== undefined &&
    /^attr:(tracetest|qualitytrace)\.selected_spans\.count\b/.test(assertion.assertion)
  )
    return `${first.observed} selected, expected ${first.expected}`;
  return `${failed} of ${counted(failed + passed, "span")} failed`;
}

interface Alike {
  expected: string;
  observed: string;
  error: string | undefined;
  on: Spec["assertions"][number]["failures"];
}

/** Failures with the same expected and observed values, together. */
function alike(failures: Spec["assertions"][number]["failures"]): Alike[] {
  const found = new Map<string, Alike>();
  for (const failure of failures) {
    const { expected, observed } = failure;
    const error = failure.error && failure.error !== "no match" ? failure.error : undefined;
    const key = JSON.stringify([expected, observed, error]);
    const known = found.get(key) ?? { expected, observed, error, on: [] };
    known.on.push(failure);
    found.set(key, known);
  }
  return [...found.values()];
}

function Failures({
  assertion,
  onShow,
}: {
  assertion: Spec["assertions"][number];
  onShow: (span: string) => void;
}) {
  return (
    <table className="failures" aria-label={`Failures of ${assertion.assertion}`}>
      <thead>
        <tr>
          <th>Expected</th>
          <th>Observed</th>
          <th>On</th>
        </tr>
      </thead>
      <tbody>
        {alike(assertion.failures).map((one) => {
          const [expected, observed] = different(one.expected, one.observed);
          return (
            <tr key={`${one.expected} ${one.observed} ${one.error}`}>
              <td>
                <code>{expected}</code>
              </td>
              <td>
                <code className="bad">{observed}</code>
                {one.error !== undefined && <span className="faint"> {one.error}</span>}
              </td>
              <td className="on">
                {one.on.map((failure, index) => (
                  // biome-ignore lint/suspicious/noArrayIndexKey: a span may fail twice
                  <span key={index}>
                    {failure.spanId ? (
                      <button type="button" className="link" onClick={() => onShow(failure.spanId!)}>
                        {failure.span} <span className="faint">({failure.service})</span>
                      </button>
                    ) : (
                      <span className="faint">the selection</span>
                    )}
                  </span>
                ))}
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

/** Two texts with the part in which they differ marked. */
function different(expected: string, observed: string) {
  const longest = Math.min(expected.length, observed.length);
  let begin = 0;
  while (begin < longest && expected[begin] === observed[begin]) begin += 1;
  let end = 0;
  while (end < longest - begin && expected[expected.length - 1 - end] === observed[observed.length - 1 - end])
    end += 1;
  const marked = (text: string) => {
    const middle = text.slice(begin, text.length - end);
    if (begin + end < 4) return shown(text, 2000);
    return (
      <>
        {shown(text.slice(0, begin), 500)}
        <mark>{shown(middle, 1000)}</mark>
        {shown(text.slice(text.length - end), 500)}
      </>
    );
  };
  return [marked(expected), marked(observed)];
}

/** The span that a selector without a match nearly selects, and what is different about it. */
function NearestMiss(props: {
  source: Source;
  selector: string;
  onShow: (span: string) => void;
  onUse: (selector: string) => void;
}) {
  const { source, selector, onShow, onUse } = props;
  const [tried, setTried] = useState(selector);
  const [found, setFound] = useState<Shape<"Selected2">>();
  useEffect(() => {
    const abort = new AbortController();
    select(source, { query: tried }, abort.signal)
      .then(setFound)
      .catch(() => {});
    return () => abort.abort();
  }, [source, tried]);
  if (found === undefined) return null;
  if (tried !== selector) {
    return (
      <section className="miss" aria-label="Nearest miss">
        <p>
          <OutcomeGlyph outcome={found.count > 0 ? "passed" : "failed"} /> <code>{tried}</code> selects{" "}
          {counted(found.count, "span")}: the draft below has it. <Copy text={tried} name="Copy selector" />{" "}
          <button type="button" className="link" onClick={() => setTried(selector)}>
            Back
          </button>
        </p>
      </section>
    );
  }
  if (found.nearest.length === 0) return null;
  return (
    <section className="miss" aria-label="Nearest miss">
      {found.nearest.slice(0, 3).map((near) => (
        <div key={near.spanId}>
          <p>
            Nearest:{" "}
            <button type="button" className="link" onClick={() => onShow(near.spanId)}>
              {near.name}
            </button>{" "}
            <span className="faint">
              {near.satisfied} of {near.conditions} conditions
            </span>
          </p>
          <ul>
            {near.failing.map((failing) => (
              <li key={failing.condition}>
                <code className="wrong">{failing.condition}</code> but it is{" "}
                <code>{failing.actual === null ? "not there" : shown(failing.actual, 300)}</code>
                {failing.didYouMean !== null && (
                  <>
                    : did you mean <code>{failing.didYouMean}</code>?
                  </>
                )}
              </li>
            ))}
          </ul>
          {near.suggestion !== null && (
            <button
              type="button"
              onClick={() => {
                setTried(near.suggestion ?? selector);
                onUse(near.suggestion ?? selector);
              }}
            >
              Use this selector
            </button>
          )}
        </div>
      ))}
    </section>
  );
}

function Analysis({
  analysis,
  onShow,
}: {
  analysis: Shape<"ShortAnalysis">;
  onShow: (span: string) => void;
}) {
  const rules = analysis.plugins.flatMap((plugin) => plugin.rules).filter((rule) => !rule.holds);
  return (
    <details className="analysis">
      <summary>
        Analyzer <span className="number">{analysis.score}</span>{" "}
        <span className="faint">
          {rules.length === 0 ? "every rule holds" : `${counted(rules.length, "rule")} broken`}
        </span>
      </summary>
      {rules.map((rule) => (
        <section key={rule.id} className="entry">
          <h3>
            {rule.name} <span className="faint">{rule.level}</span>
          </h3>
          <p className="faint">{rule.errorDescription}</p>
          <ul>
            {rule.failures.slice(0, 10).map((failure) => (
              <li key={failure.spanId}>
                <button
                  type="button"
                  className="link"
                  onClick={() => failure.spanId && onShow(failure.spanId)}
                >
                  {failure.errors?.[0]?.description ?? failure.errors?.[0]?.value ?? failure.spanId}
                </button>
              </li>
            ))}
          </ul>
        </section>
      ))}
    </details>
  );
}
