//! The JSON report: one object for the whole run, which `report merge` reads back. docs/report.schema.json describes it.

use std::time::Duration;

use anyhow::{Context, bail};
use qualitytrace_core::gates::Gate;
use qualitytrace_server::wire;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::exchange::{Exchange, Message};
use super::{FailedGate, Link, Outcome, Phases, Source, SpecLines, TestEnding, TestReport};
use crate::client::Flakiness;

/// The version of this format. A field that is added does not change it.
const VERSION: u32 = 1;
/// What a span can end with.
const STATUSES: [&str; 3] = ["unset", "ok", "error"];
/// Limit on the spans of a trace in a report; the rest is counted.
const MAX_SPANS: usize = 2_000;

/// Renders the report.
pub(crate) fn document(reports: &[TestReport], took: Duration) -> String {
    let tests: Vec<Test> = reports.iter().map(Test::of).collect();
    let mut summary = Map::new();
    summary.insert("tests".to_owned(), reports.len().into());
    for report in reports {
        let count = summary.entry(report.outcome.word()).or_insert_with(|| 0.into());
        *count = (count.as_u64().unwrap_or(0) + 1).into();
    }
    let document = json!({
        "version": VERSION,
        "tool": { "name": "qualitytrace", "version": env!("CARGO_PKG_VERSION") },
        "durationMs": milliseconds(took),
        "summary": summary,
        "tests": tests,
    });
    crate::terminal::filter::json(&format!("{document:#}\n"))
}

/// Reads a report back; also returns how long its run took.
pub(crate) fn read(text: &str) -> anyhow::Result<(Vec<TestReport>, Duration)> {
    let document: Value = serde_json::from_str(text).context("this is not JSON")?;
    match document["version"].as_u64() {
        Some(version) if version == u64::from(VERSION) => {}
        Some(version) => bail!("it has version {version} of the format, and this program reads {VERSION}"),
        None => bail!("it is no report of `qualitytrace run --report json`"),
    }
    let took = duration(document["durationMs"].as_f64().unwrap_or(0.0));
    let tests = Vec::<Test>::deserialize(&document["tests"]).context("its tests cannot be read")?;
    Ok((tests.into_iter().map(Test::report).collect::<anyhow::Result<_>>()?, took))
}

/// A test of the report.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Test {
    name: String,
    id: String,
    suite: Option<String>,
    step: Option<String>,
    part: Option<String>,
    file: Option<String>,
    line: Option<usize>,
    /// The lines of its specs.
    spec_lines: Vec<usize>,
    /// The lines of the assertions of each spec.
    assertion_lines: Vec<Vec<usize>>,
    outcome: String,
    run: u64,
    trace_id: String,
    /// The run on the page of the server.
    url: Option<String>,
    duration_ms: f64,
    phases_ms: PhasesMs,
    /// Why there is no verdict.
    reason: Option<String>,
    verdict: Option<wire::Verdict>,
    failed_gates: Vec<GateMessage>,
    /// The required gates that passed, where the specs are not required.
    passed_gates: Option<Vec<String>>,
    notes: Vec<String>,
    /// What was missing from the trace when the wait ended.
    missing: Vec<String>,
    request: Option<Message>,
    response: Option<Message>,
    trace: Option<Trace>,
    flakiness: Option<Flakiness>,
    earlier_runs: Vec<Test>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct PhasesMs {
    trigger: f64,
    wait: f64,
    judge: f64,
}

#[derive(Debug, Serialize, Deserialize)]
struct GateMessage {
    gate: String,
    message: String,
    /// Whether it could still pass once the missing spans come.
    #[serde(default)]
    open: bool,
}

/// The spans of a trace, as a waterfall shows them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Trace {
    spans: Vec<Span>,
    #[serde(default)]
    omitted_spans: usize,
}

/// A span. Times are nanoseconds since the epoch, as texts.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Span {
    id: String,
    depth: usize,
    name: String,
    service: String,
    kind: String,
    status: String,
    start: String,
    end: String,
}

impl Test {
    fn of(report: &TestReport) -> Self {
        let (verdict, reason) = match &report.ending {
            TestEnding::Judged(verdict) => (Some(verdict.clone()), None),
            TestEnding::Broken(why) => (None, Some(why.clone())),
            TestEnding::Skipped(why) => (None, Some(why.to_string())),
        };
        let gate = |gate: &FailedGate| GateMessage {
            gate: gate.name.to_owned(),
            message: gate.message.clone(),
            open: gate.is_open,
        };
        let passed = report.instead_of_specs.as_ref();
        let specs = report.source.as_ref().map_or(&[][..], |source| &source.specs);
        Self {
            name: report.name.clone(),
            id: report.id.clone(),
            suite: report.suite.clone(),
            step: report.step.clone(),
            part: report.part.clone(),
            file: report.source.as_ref().map(|source| source.path.clone()),
            line: report.source.as_ref().map(|source| source.line),
            spec_lines: specs.iter().map(|spec| spec.line).collect(),
            assertion_lines: specs.iter().map(|spec| spec.assertions.clone()).collect(),
            outcome: report.outcome.word().to_owned(),
            run: report.run,
            trace_id: report.trace_id.clone(),
            url: report.link.as_ref().map(ToString::to_string),
            duration_ms: milliseconds(report.phases.total),
            phases_ms: PhasesMs {
                trigger: milliseconds(report.phases.trigger),
                wait: milliseconds(report.phases.wait),
                judge: milliseconds(report.phases.judge),
            },
            reason,
            verdict,
            failed_gates: report.failed_gates.iter().map(gate).collect(),
            passed_gates: passed.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
            notes: report.notes.clone(),
            missing: report.debts.clone(),
            request: report.exchange.request.clone(),
            response: report.exchange.response.clone(),
            trace: report.trace.as_ref().map(Trace::of),
            flakiness: report.flakiness,
            earlier_runs: report.earlier.iter().map(Self::of).collect(),
        }
    }

    fn report(self) -> anyhow::Result<TestReport> {
        let outcome = Outcome::named(&self.outcome).with_context(|| {
            format!("the test `{}` has the unknown outcome `{}`", self.name, self.outcome)
        })?;
        let reason = self.reason.unwrap_or_default();
        let ending = match self.verdict {
            Some(verdict) => TestEnding::Judged(verdict),
            None if outcome == Outcome::Skipped => TestEnding::Skipped(reason.into()),
            None => TestEnding::Broken(reason),
        };
        // A gate that this version does not have cannot be shown under its name.
        let known = |name: &str| Gate::named(name).map(Gate::as_str);
        let gate = |gate: GateMessage| {
            Some(FailedGate { name: known(&gate.gate)?, message: gate.message, is_open: gate.open })
        };
        // Reports of older versions have no lines of assertions.
        let mut assertions = self.assertion_lines.into_iter();
        let lines = |line| SpecLines { line, assertions: assertions.next().unwrap_or_default() };
        let specs = self.spec_lines.into_iter().map(lines).collect();
        let source = self.file.zip(self.line).map(|(path, line)| Source { path, line, specs });
        let earlier = self.earlier_runs.into_iter().map(Self::report).collect::<anyhow::Result<_>>()?;
        let trace_id = self.trace_id;
        Ok(TestReport {
            suite: self.suite,
            step: self.step,
            part: self.part,
            outcome,
            earlier,
            flakiness: self.flakiness,
            run: self.run,
            link: self.url.as_deref().and_then(Link::of),
            ending,
            phases: Phases {
                trigger: duration(self.phases_ms.trigger),
                wait: duration(self.phases_ms.wait),
                judge: duration(self.phases_ms.judge),
                total: duration(self.duration_ms),
                after_last_span: None,
            },
            debts: self.missing,
            failed_gates: self.failed_gates.into_iter().filter_map(gate).collect(),
            instead_of_specs: self
                .passed_gates
                .map(|names| names.iter().filter_map(|name| known(name)).collect()),
            notes: self.notes,
            trace: self.trace.map(|trace| trace.wire(&trace_id)),
            trace_id,
            exchange: Exchange { request: self.request, response: self.response },
            source,
            ..TestReport::skipped(self.name, self.id)
        })
    }
}

impl Trace {
    fn of(trace: &wire::Trace) -> Self {
        let span = |span: &wire::Span| Span {
            id: span.id.clone(),
            depth: span.depth,
            name: span.name.clone(),
            service: span.service.clone(),
            kind: span.kind.clone(),
            status: span.status.clone(),
            start: span.start.to_string(),
            end: span.end.to_string(),
        };
        Self {
            spans: trace.spans.iter().take(MAX_SPANS).map(span).collect(),
            omitted_spans: trace.spans.len().saturating_sub(MAX_SPANS),
        }
    }

    fn wire(self, trace_id: &str) -> wire::Trace {
        let span = |span: Span| wire::Span {
            id: span.id,
            parent_id: String::new(),
            depth: span.depth,
            name: span.name,
            service: span.service,
            kind: span.kind,
            status: if STATUSES.contains(&&*span.status) { span.status } else { STATUSES[0].to_owned() },
            start: span.start.parse().unwrap_or(0),
            end: span.end.parse().unwrap_or(0),
            attributes: Map::new(),
        };
        wire::Trace { trace_id: trace_id.to_owned(), spans: self.spans.into_iter().map(span).collect() }
    }
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn duration(milliseconds: f64) -> Duration {
    Duration::try_from_secs_f64(milliseconds / 1e3).unwrap_or_default()
}

impl Outcome {
    const ALL: [Self; 9] = [
        Self::Passed,
        Self::Flaky { recovered: true },
        Self::Flaky { recovered: false },
        Self::Failed,
        Self::Inconclusive,
        Self::Broken,
        Self::Stopped,
        Self::Unknown,
        Self::Skipped,
    ];

    /// The outcome of this name in reports.
    fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.word() == word)
    }

    /// Its name in reports.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Flaky { recovered: true } => "recovered",
            Self::Flaky { recovered: false } => "flaky",
            Self::Failed => "failed",
            Self::Inconclusive => "inconclusive",
            Self::Broken => "broken",
            Self::Stopped => "stopped",
            Self::Unknown => "unknown",
            Self::Skipped => "skipped",
        }
    }
}
