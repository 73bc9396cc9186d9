//! `qualitytrace select`: which spans a selector selects.

use std::collections::HashSet;

use clap::Args;
use qualitytrace_core::budget::Budget;
use qualitytrace_core::judge::{UnknownService, nearest_misses};
use qualitytrace_core::lang::{self, diagnose_selector, parse_selector};
use qualitytrace_core::trace::Trace;

use super::subject;
use crate::cli::Exit;
use crate::cli::target::{Output, Target};
use crate::report::visible;
use crate::report::waterfall::{self, Mark};
use crate::terminal::{self, style};

/// Near misses that are shown.
const MAX_NEAREST: usize = 3;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  qualitytrace select 'span[kind=\"server\"]' --trace trace.json
  qualitytrace select 'span[name=\"pay\"]' --trace 4bf92f3577b34da6a3ce929d0e0e4736 -s http://localhost:11633
  qualitytrace select 'span[http.status_code >= 500]' --test checkout --run 3 --output json

Exit codes: 0 spans are selected, 1 the trace cannot be had, 2 nothing is selected, 3 the selector is invalid.")]
pub(crate) struct Options {
    /// Selector, like `span[name="GET /orders"]`
    #[arg(value_name = "SELECTOR")]
    selector: String,
    #[command(flatten)]
    subject: subject::Options,
}

/// Draws the trace with the selected spans marked.
pub(crate) async fn select(options: Options, before: Target) -> anyhow::Result<Exit> {
    let format = options.subject.output(&before);
    let diagnostics = diagnose_selector(&options.selector);
    if !diagnostics.is_empty() {
        let shown = lang::render("selector", &options.selector, &diagnostics, style::coloured());
        terminal::err(&format!("{}\n\n", terminal::filter::adopted(shown.trim_end())));
    }
    let parsed = parse_selector(&options.selector);
    if !parsed.is_valid() {
        return Ok(Exit::Definition);
    }
    let trace = options.subject.load(before).await?.trace;
    let selected = lang::select(&parsed.tree, &trace, &Budget::default())?;
    if format == Output::Pretty {
        let marked: HashSet<usize> = selected.iter().copied().collect();
        let drawn = subject::drawable(trace.clone())?;
        let count = terminal::counted(trace.spans().len(), "span");
        terminal::out(&format!("{} of {count} selected\n\n", selected.len()));
        let mark = |at: usize| if marked.contains(&at) { Mark::Selected } else { Mark::Plain };
        terminal::out(&waterfall::rows(&drawn, usize::MAX, mark).join("\n"));
        terminal::out("\n");
    } else {
        terminal::out(&listed(&trace, &selected, format));
    }
    if !selected.is_empty() {
        return Ok(Exit::Passed);
    }
    if let Some(unknown) = UnknownService::of(&parsed.tree, &trace) {
        terminal::err(&format!("\n{}\n", visible::text(&unknown.to_string())));
    }
    for miss in nearest_misses(&parsed.tree, &trace, MAX_NEAREST, true, &Budget::default()) {
        let satisfied = match miss.satisfied {
            0 => String::new(),
            satisfied => format!(" satisfies {satisfied} of {} conditions", miss.conditions),
        };
        terminal::err(&format!("\nnearest: `{}`{satisfied}\n", visible::text(&miss.name)));
        for failed in &miss.failing {
            let actual = failed.actual.as_deref().map_or_else(
                || "is not there".to_owned(),
                |actual| format!("is `{}`", visible::text(actual)),
            );
            let guess = failed.did_you_mean.as_ref();
            let guess = guess.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
            terminal::err(&format!("  {}: {actual}{guess}\n", visible::text(&failed.condition)));
        }
        if let Some(suggestion) = &miss.suggestion {
            terminal::err(&format!("  this selects it: {}\n", visible::text(suggestion)));
        }
    }
    Ok(Exit::NotPassed)
}

/// The selected spans for programs.
fn listed(trace: &Trace, selected: &[usize], format: Output) -> String {
    let spans: Vec<serde_json::Value> = selected
        .iter()
        .map(|at| {
            let span = trace.span(*at);
            serde_json::json!({
                "spanId": span.id.map(|id| id.to_string()),
                "name": &*span.name,
                "service": span.service(),
                "start": span.start.as_nanos().to_string(),
            })
        })
        .collect();
    let found = serde_json::json!({
        "traceId": trace.id().to_string(),
        "total": trace.spans().len(),
        "selected": spans,
    });
    format.text_of(&found).unwrap_or_default()
}
