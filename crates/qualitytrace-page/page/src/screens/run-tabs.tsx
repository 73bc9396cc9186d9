/** The tabs of a run beside its trace and its verdict: trigger, events, automate. */
import { useState } from "react";
import { address } from "../api/address";
import { Refused } from "../api/client";
import { columns, events as eventsOf, junit, otlpOfTrace, source, verdict } from "../api/requests";
import { bytes, duration, shown } from "../text/format";
import { Trace } from "../trace/columns";
import type { Outcome } from "../ui/glyphs";
import { AssertButton, Command, Copy, Problem } from "../ui/parts";
import type { DraftState } from "./draft-state";
import { JsonBody } from "./json-body";
import type { Live, RunEvent } from "./live";
import type { Manner } from "./manner";
import { download, downloadArchive, report } from "./share";

/** Longer bodies are cut: the page stays usable. */
const LONGEST_BODY = 200_000;

export function TriggerTab({ live, draft }: { live: Live; draft: DraftState }) {
  const { reply, trigger } = live;
  const spanId = live.events.find((event) => event.what === "triggering")?.spanId as string | undefined;
  const assert = (attribute: string, label: string) =>
    spanId === undefined ? undefined : () => draft.begin({ spanId, attribute, label });
  const request = trigger?.httpRequest as
    | { method?: string; url?: string; headers?: { key: string; value: string }[]; body?: string }
    | undefined;
  return (
    <div className="two">
      <section className="half" aria-label="Request">
        <h2>Request</h2>
        {trigger === undefined && <p className="faint">Not sent yet.</p>}
        {request !== undefined && (
          <>
            <p className="mono strong">
              {request.method} {request.url}
            </p>
            <Headers headers={request.headers ?? []} />
            {request.body && <Body text={request.body} />}
          </>
        )}
        {trigger !== undefined && request === undefined && <Body text={JSON.stringify(trigger, null, 2)} />}
      </section>
      <section className="half" aria-label="Answer">
        <h2>
          Answer <span className="faint">{reply && took(live)}</span>
        </h2>
        {reply === undefined && <p className="faint">No answer yet.</p>}
        {reply !== undefined && (
          <>
            <p className="mono strong">
              {reply.status ?? reply.statusCode ?? reply.type}{" "}
              <AssertButton name="Assert status" onClick={assert("tracetest.response.status", "status")} />
            </p>
            <Headers
              headers={reply.headers ?? []}
              onAssert={
                spanId === undefined
                  ? undefined
                  : (key, value) =>
                      draft.begin({ spanId, label: `header ${key}`, ...aboutHeader(key, value) })
              }
            />
            {reply.body !== undefined && reply.body !== "" && (
              <>
                <p>
                  <span className="faint">
                    {bytes(reply.body.length)}
                    {reply.truncated === true && ", cut by the server"}
                  </span>{" "}
                  <AssertButton name="Assert body" onClick={assert("tracetest.response.body", "body")} />
                </p>
                <JsonBody
                  text={reply.body}
                  onAssert={
                    spanId === undefined
                      ? undefined
                      : (path, value) => draft.begin({ spanId, label: path, ...aboutNode(path, value) })
                  }
                >
                  <Body text={reply.body} />
                </JsonBody>
              </>
            )}
          </>
        )}
      </section>
    </div>
  );
}

const BODY = "tracetest.response.body";
const HEADERS = "tracetest.response.headers";

/** An assertion about a node of the answer. */
function aboutNode(path: string, value: string | number | boolean | null) {
  const left = `attr:${BODY} | json_path '${path.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  const type = typeof value === "number" ? "number" : typeof value === "boolean" ? "bool" : "string";
  return { attribute: BODY, proposal: { left, comparator: "=", expected: literal(value), type } };
}

function literal(value: string | number | boolean | null): string {
  if (value === null) return '"<nil>"';
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}

/** An assertion about a header of the answer: headers are a list of pairs. */
function aboutHeader(key: string, value: string) {
  const left = `attr:${HEADERS} | json_path '$[?(@.key=="${key.replaceAll(/["'\\]/g, "")}")].value'`;
  return {
    attribute: HEADERS,
    proposal: { left, comparator: "=", expected: JSON.stringify(value), type: "string" },
  };
}

function took(live: Live): string {
  const at = (what: string) => Number(live.events.find((event) => event.what === what)?.at ?? 0);
  return duration(at("triggered") - at("triggering"));
}

function Headers(props: {
  headers: { key: string; value: string }[];
  onAssert?: (key: string, value: string) => void;
}) {
  const { headers, onAssert } = props;
  return (
    <table className="attributes" aria-label="Headers">
      <tbody>
        {headers.map((header, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a header may be there twice
          <tr key={index}>
            <th scope="row">{shown(header.key, 200)}</th>
            <td>
              <code>{shown(header.value, 2000)}</code>
              {onAssert !== undefined && (
                <span className="actions">
                  <AssertButton
                    name={`Assert ${header.key}`}
                    onClick={() => onAssert(header.key, header.value)}
                  />
                </span>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Body({ text }: { text: string }) {
  let full = text;
  if (text.length <= LONGEST_BODY && /^\s*[[{]/.test(text)) {
    try {
      full = JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      // Not JSON: it is shown as it is.
    }
  }
  return (
    <div className="body">
      <Copy text={text} name="Copy body" />
      <pre>{full.slice(0, LONGEST_BODY)}</pre>
      {full.length > LONGEST_BODY && (
        <p className="faint">{bytes(full.length - LONGEST_BODY)} more are not shown.</p>
      )}
    </div>
  );
}

export function EventsTab({ live }: { live: Live }) {
  const [first] = live.events;
  const began = Number(first?.at ?? 0);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be reached by keyboard
    <section className="scroll" aria-label="Events of the run" tabIndex={0}>
      <table className="list" aria-label="Events">
        <thead>
          <tr>
            <th className="right narrow">Time</th>
            <th>Event</th>
            <th>What</th>
          </tr>
        </thead>
        <tbody>
          {live.events.map((event) => (
            <tr key={event.seq}>
              <td className="right number">{duration(Number(event.at) - began)}</td>
              <th scope="row">{event.what}</th>
              <td className="faint told">{told(event)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** What an event says beside its name. */
function told(event: RunEvent): string {
  const { what, seq, at, ...rest } = event;
  if (what === "judged") return String((event.verdict as { outcome?: string }).outcome);
  if (what === "analyzed") return `score ${(event.analysis as { score?: number }).score}`;
  if (what === "triggered") return String((event.reply as { status?: string }).status ?? "");
  if (what === "resolved") return String((event.trigger as { type?: string } | undefined)?.type ?? "");
  if (typeof event.message === "string") return event.message;
  const text = Object.entries(rest).map(
    ([key, value]) => `${key} ${typeof value === "object" ? JSON.stringify(value) : value}`,
  );
  return shown(text.join(" · "), 400);
}

export function AutomateTab(props: {
  id: string;
  run: number;
  name: string;
  outcome: Outcome;
  /** How the run was started. */
  manner: Manner;
}) {
  const { id, run, name, outcome } = props;
  const [problem, setProblem] = useState<unknown>();
  const server = address("");
  const { variables = [], variableSetId } = props.manner;
  const set = variableSetId === undefined ? "" : ` --vars ${quoted(variableSetId)}`;
  const pairs = variables
    .map(({ key, value, type }) =>
      type === "secret" ? ` --secret ${quoted(key)}` : ` --var ${quoted(`${key}=${value}`)}`,
    )
    .join("");
  const link = address(`/test/${encodeURIComponent(id)}/run`);
  const exported = address(`/api/tests/${encodeURIComponent(id)}/run/${run}`);
  const save = (work: () => Promise<void>) => void work().then(() => setProblem(undefined), setProblem);
  const html = async () => {
    const [trace, judged] = await Promise.all([traceOfRun(id, run), verdict(id, run)]);
    return report({ test: name, run, address: `${link}/${run}`, outcome, specs: judged.specs, trace });
  };
  const page = async () => download(`${id}-${run}.html`, "text/html", await html());
  const bundle = async () => {
    const { traceId } = await traceOfRun(id, run);
    const parts: [string, Promise<string>][] = [
      ["report.html", html()],
      ["trace.otlp.json", otlpOfTrace(traceId)],
      ["junit.xml", junit(id, run)],
      ["events.json", eventsOf(id, run).then((events) => JSON.stringify(events, null, 2))],
      ["test.yaml", source("tests", id).then(({ text }) => text)],
    ];
    const entries = parts.map(async ([part, made]) => {
      const text = await made.catch(unlessMissing);
      return text === undefined ? [] : [{ name: part, text }];
    });
    await downloadArchive(`${id}-${run}.tar.gz`, (await Promise.all(entries)).flat());
  };
  const otlp = async () => {
    const { traceId } = await traceOfRun(id, run);
    download(`${id}-${run}.otlp.json`, "application/json", await otlpOfTrace(traceId));
  };
  return (
    <div className="pad automate">
      <h2>Command line</h2>
      <Command text={`qualitytrace run ${quoted(`${id}.yaml`)} --server ${server}${set}${pairs}`} />
      <h2>Continuous integration</h2>
      <Command text={`qualitytrace run tests/ --server ${server} --junit report.xml`} />
      <h2>Run link</h2>
      <p className="faint">Opens this page, asks, starts a run, and shows it.</p>
      <Command text={link} />
      <h2>Share</h2>
      <p className="faint">
        The address of this page shows exactly this view. What follows is files; secrets are not in them.
      </p>
      {problem !== undefined && <Problem error={problem} />}
      <ul className="exports">
        <li>
          <button type="button" className="link" onClick={() => save(page)}>
            HTML report
          </button>{" "}
          <span className="faint">one file that opens anywhere, without a network</span>
        </li>
        <li>
          <button type="button" className="link" onClick={() => save(bundle)}>
            Bundle
          </button>{" "}
          <span className="faint">report, trace, results, events and definition in one archive</span>
        </li>
        <li>
          <a href={`${exported}/junit.xml`} download={`${id}-${run}.xml`}>
            JUnit
          </a>{" "}
          <span className="faint">for continuous integration</span>
        </li>
        <li>
          <button type="button" className="link" onClick={() => save(otlp)}>
            OTLP
          </button>{" "}
          <span className="faint">the trace, which can be dropped on the list of traces</span>
        </li>
        <li>
          <a href={`${exported}/export`} download={`${id}-${run}.json`}>
            Run with its test
          </a>{" "}
          <span className="faint">JSON</span>
        </li>
        <li>
          <a href={address(`/api/tests/${encodeURIComponent(id)}/source`)} download={`${id}.yaml`}>
            Definition
          </a>{" "}
          <span className="faint">YAML, as its author wrote it</span>
        </li>
      </ul>
    </div>
  );
}

/** A run may have no span but that of its trigger, and its test may be gone: the rest is worth a file. */
function unlessMissing(problem: unknown): undefined {
  if (!(problem instanceof Refused && problem.status === 404)) throw problem;
}

/** The whole trace of a run. */
async function traceOfRun(test: string, run: number): Promise<Trace> {
  const trace = new Trace();
  trace.take(await columns({ kind: "run", test, run }, 0, undefined, new AbortController().signal));
  return trace;
}

function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
