/** What a reader takes away: files, and one HTML page that opens anywhere without a network. */
import type { Shape } from "../api/client";
import { duration, shown } from "../text/format";
import { type Entry, tar } from "../text/tar";
import type { Trace } from "../trace/columns";
import { layout, visible } from "../trace/layout";

/** Saves a text as a file. */
export function download(name: string, type: string, text: BlobPart): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name.replaceAll(/[^\w.-]+/g, "-");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Saves files as one compressed archive. */
export async function downloadArchive(name: string, entries: readonly Entry[]): Promise<void> {
  const archive = new Blob([tar(entries, new Date())]).stream().pipeThrough(new CompressionStream("gzip"));
  download(name, "application/gzip", await new Response(archive).blob());
}

/** Rows of a trace in a report; the rest is counted. */
const MOST_ROWS = 2000;

const STYLE = `
:root { color-scheme: light dark; font: 13px/20px system-ui, sans-serif; --line: #8884; --passed: #0d766b; --failed: #b0161c; --inconclusive: #8a6200; }
@media (prefers-color-scheme: dark) { :root { --passed: #45dccb; --failed: #f2685b; --inconclusive: #f6ac41; } }
body { margin: 24px auto; padding: 0 24px; max-width: 1200px; }
h1 { font-size: 20px; } h2 { font-size: 14px; margin: 24px 0 4px; }
code { font: 12px/20px ui-monospace, monospace; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: 2px 12px 2px 0; vertical-align: top; border-bottom: 1px solid var(--line); font-weight: 400; }
.passed { color: var(--passed); } .failed, .broken { color: var(--failed); } .inconclusive { color: var(--inconclusive); }
.axis { width: 45%; position: relative; } .bar { position: absolute; top: 6px; height: 10px; min-width: 2px; background: #5f6878; } .guilty .bar { background: var(--failed); } .guilty th { color: var(--failed); font-weight: 600; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; } .faint { opacity: 0.7; }
`;

export interface Reported {
  test: string;
  run: number;
  /** Where the run can be looked at. */
  address: string;
  outcome: string;
  /** The results of its specs; none where there is no verdict. */
  specs: Shape<"RunVerdict">["specs"];
  trace: Trace;
}

/** A run as one HTML file without scripts: nothing in it is asked for over a network. */
export function report(of: Reported): string {
  const { outcome, specs, trace } = of;
  const guilty = new Set(
    (specs ?? []).flatMap((spec) =>
      spec.assertions.flatMap((one) => one.failures.flatMap((failure) => failure.spanId ?? [])),
    ),
  );
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${escaped(of.test)} · run ${of.run}</title>
<style>${STYLE}</style>
<h1>${escaped(of.test)} · run ${of.run} <span class="${escaped(outcome)}">${escaped(outcome)}</span></h1>
<p class="faint">${escaped(of.address)} · trace ${escaped(trace.traceId)}</p>
${(specs ?? []).map(spec).join("\n")}
<h2>Trace</h2>
${rows(trace, guilty)}
</html>
`;
}

function spec(it: Shape<"ShortSpec">): string {
  const assertions = it.assertions.map((assertion) => {
    const failures = assertion.failures.map(
      (failure) =>
        `<tr><td>expected <code>${escaped(shown(failure.expected, 2000))}</code></td><td>observed <code class="failed">${escaped(shown(failure.observed, 2000))}</code></td><td>${escaped(failure.span ?? "the selection")}</td></tr>`,
    );
    const table = failures.length > 0 ? `<table>${failures.join("")}</table>` : "";
    return `<p class="${escaped(assertion.outcome)}">${escaped(assertion.outcome)} <code>${escaped(assertion.assertion)}</code></p>${table}`;
  });
  return `<section><h2 class="${escaped(it.outcome)}">${escaped(it.outcome)} · ${escaped(it.name || it.selector)}</h2><p><code>${escaped(it.selector)}</code></p>${assertions.join("")}</section>`;
}

function rows(trace: Trace, guilty: ReadonlySet<string>): string {
  const tree = layout(trace);
  const order = visible(tree, { collapsed: new Uint8Array(tree.total), focus: -1 });
  const percent = (ns: number) => ((ns / (tree.to - tree.from)) * 100).toFixed(2);
  const lines = [...order.slice(0, MOST_ROWS)].map((row) => {
    if (row >= trace.total)
      return `<tr><td colspan="4">parent ${escaped(tree.missing[row - tree.spans] ?? "")} never came</td></tr>`;
    const isGuilty = guilty.has(trace.id(row));
    const length = Math.max(0, trace.duration[row]);
    return `<tr${isGuilty ? ' class="guilty"' : ""}><th style="padding-left:${Math.min(tree.depth[row], 24)}em">${isGuilty ? "✘ " : ""}${escaped(shown(trace.nameOf(row), 200))}</th><td>${escaped(shown(trace.serviceOf(row), 100))}</td><td class="number">${escaped(duration(trace.duration[row]))}</td><td class="axis"><span class="bar" style="left:${percent(trace.start[row] - tree.from)}%;width:${percent(length)}%"></span></td></tr>`;
  });
  const more = order.length > MOST_ROWS ? `<p>and ${order.length - MOST_ROWS} more rows</p>` : "";
  return `<table>${lines.join("\n")}</table>${more}`;
}

function escaped(text: string): string {
  const entities: Record<string, string> = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "'": "&#39;",
  };
  return text.replaceAll(/[&<>"']/g, (letter) => entities[letter]);
}
