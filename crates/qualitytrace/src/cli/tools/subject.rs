//! The trace that a tool looks at: of a file, of a server, or of a run.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use clap::Args;
use qualitytrace_core::id::TraceId;
use qualitytrace_core::lang::Variables;
use qualitytrace_core::trace::{Span, Trace, stored};
use qualitytrace_server::receive::otlp::convert;
use qualitytrace_server::receive::trace_files;
use qualitytrace_server::wire;
use serde_json::{Value, json};

use crate::cli::files::regular;
use crate::cli::target::{Output, Target};
use crate::client::Client;
use crate::terminal;

/// The media type of OTLP JSON.
pub(crate) const OTLP: &str = "application/vnd.otlp+json";

#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct Options {
    /// Trace file: OTLP, Jaeger or Zipkin JSON; or the id of a trace of the server
    #[arg(long, value_name = "FILE|ID", required_unless_present = "test", conflicts_with = "test")]
    trace: Option<String>,
    /// Trace of the file to look at, if it has several
    #[arg(long, value_name = "ID", requires = "trace")]
    trace_id: Option<String>,
    /// Test of the server; its run has the trace
    #[arg(long, value_name = "ID", requires = "run")]
    test: Option<String>,
    /// Number of the run
    #[arg(long, value_name = "N", requires = "test")]
    run: Option<u64>,
    #[command(flatten)]
    target: Target,
}

/// A trace, and the variables that are known with it.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) trace: Trace,
    pub(crate) variables: Variables,
}

impl Options {
    /// The format of the output.
    pub(crate) fn output(&self, before: &Target) -> Output {
        self.target.output.or(before.output).unwrap_or(Output::Pretty)
    }

    /// Loads the trace.
    pub(crate) async fn load(self, before: Target) -> anyhow::Result<Subject> {
        let target = self.target.or(before);
        if let (Some(test), Some(run)) = (&self.test, self.run) {
            return of_run(&target.client()?, test, run).await;
        }
        let name = self.trace.unwrap_or_default();
        let trace = if !Path::new(&name).exists() && name.parse::<TraceId>().is_ok() {
            of_server(&target.client()?, &name).await?
        } else {
            of_file(&name, self.trace_id.as_deref())?
        };
        Ok(Subject { trace, variables: Variables::new() })
    }
}

/// The trace of a file; without an id, the first.
pub(crate) fn of_file(name: &str, id: Option<&str>) -> anyhow::Result<Trace> {
    let bytes = regular::read(Path::new(name)).with_context(|| format!("failed to read {name}"))?;
    let mut traces = read(&bytes).with_context(|| format!("{name} is no trace file"))?;
    let Some(id) = id else {
        if let [first, _, ..] = traces.as_slice() {
            terminal::err(&format!(
                "{name} has {} traces; this is the first, {}; choose another with --trace-id\n",
                traces.len(),
                first.id()
            ));
        }
        return Ok(traces.swap_remove(0));
    };
    let found = traces.into_iter().find(|trace| trace.id().to_string() == id.to_lowercase());
    found.with_context(|| format!("{name} has no trace {id}; `qualitytrace trace list {name}` lists them"))
}

/// The traces of a file, in its order; there is at least one. Spans that cannot be read are reported.
pub(crate) fn read(bytes: &[u8]) -> anyhow::Result<Vec<Trace>> {
    let file = trace_files::read(bytes, None)?;
    for problem in file.refused.problems.iter().take(3) {
        terminal::err(&format!("{}: {}; this is left out\n", problem.location, problem.reason));
    }
    let order = file.traces();
    let mut spans: BTreeMap<TraceId, Vec<Span>> = BTreeMap::new();
    for (id, span) in convert::spans(file.request) {
        if let Some(id) = id {
            spans.entry(id).or_default().push(span);
        }
    }
    let traces: Vec<Trace> =
        order.into_iter().filter_map(|(id, _)| Some(Trace::assemble(id, spans.remove(&id)?))).collect();
    if traces.is_empty() {
        bail!("it has no span that can be read");
    }
    Ok(traces)
}

/// A trace of a server.
pub(crate) async fn of_server(client: &Client, id: &str) -> anyhow::Result<Trace> {
    let Some(bytes) = client.trace_as(id, OTLP).await? else {
        bail!(
            "the server at {} has no span of trace {id}; `qualitytrace trace list` shows what it has",
            client.base()
        );
    };
    read(&bytes)?.into_iter().next().context("the server's answer is not a trace")
}

/// The trace of a run, with the span of its trigger, and the variables of the run.
async fn of_run(client: &Client, test: &str, number: u64) -> anyhow::Result<Subject> {
    let run = client.run_document(test, number).await?;
    let id = run["traceId"].as_str().unwrap_or_default();
    let trigger = &run["trace"]["flat"][run["spanId"].as_str().unwrap_or_default()];
    let trace = match client.trace_as(id, OTLP).await? {
        Some(bytes) => read(&bytes)?.into_iter().next(),
        None => None,
    };
    let trace = match (trace, trigger_span(id, trigger)) {
        (Some(trace), Some(span)) => trace.with_trigger(span),
        (Some(trace), None) => trace,
        (None, Some(span)) => Trace::assemble(id.parse()?, [span]),
        (None, None) => bail!(
            "run {number} of test `{test}` has no trace; it is {}",
            run["state"].as_str().unwrap_or("unknown")
        ),
    };
    let mut variables = Variables::new();
    for variable in run["variableSet"]["values"].as_array().into_iter().flatten() {
        if let (Some(key), Some(value)) = (variable["key"].as_str(), variable["value"].as_str()) {
            variables.set(key, value);
        }
    }
    Ok(Subject { trace, variables })
}

/// The span of a trigger, as a run shows it.
fn trigger_span(trace: &str, shown: &Value) -> Option<Span> {
    let root = json!({
        "ID": shown["id"],
        "Name": shown["name"],
        "Kind": shown["kind"],
        "StartTime": shown["startTime"],
        "EndTime": shown["endTime"],
        "Attributes": shown["attributes"],
    });
    let read = stored::read(&json!({ "ID": trace, "RootSpan": root })).ok()?;
    read.spans().first().cloned()
}

/// A trace in the form that is drawn.
pub(crate) fn drawable(trace: Trace) -> anyhow::Result<wire::Trace> {
    let shown = serde_json::to_value(wire::trace::Document(trace))?;
    Ok(serde_json::from_value(shown)?)
}
