//! `qualitytrace eval`: the value of an expression on a trace.

use anyhow::bail;
use clap::Args;
use qualitytrace_core::budget::Budget;
use qualitytrace_core::judge::{FailureReason, assert_once};
use qualitytrace_core::lang::ast::{Assertion, Claim, Expr};
use qualitytrace_core::lang::{
    self, EvaluationScope, Generator, Variables, diagnose_assertion, diagnose_expression, evaluate,
    parse_assertion, parse_expression, parse_selector,
};
use qualitytrace_core::trace::Trace;
use qualitytrace_server::base::clock;
use serde_json::{Value, json};

use super::subject;
use crate::cli::Exit;
use crate::cli::target::{Output, Target};
use crate::report::visible;
use crate::terminal::{self, style};

#[derive(Debug, Args)]
#[command(after_help = "An expression is evaluated; an assertion is also judged, on each span alone.

Examples:
  qualitytrace eval 'attr:http.response.status_code' --trace trace.json
  qualitytrace eval 'attr:tracetest.span.duration < 100ms' --on 'span[kind=\"client\"]' --trace trace.json
  qualitytrace eval 'count(span[name=\"pay\"])' --test checkout --run 3
  qualitytrace eval 'var:USER' --var USER=ada --trace trace.json

Exit codes: 0 it has a value and holds, 1 the trace cannot be had, 2 it has no value or does not hold, 3 it is invalid.")]
pub(crate) struct Options {
    /// Expression or assertion, like `attr:tracetest.span.duration < 100ms`
    #[arg(value_name = "EXPRESSION")]
    expression: String,
    /// Spans to evaluate it on, one after the other [default: the first span without a parent]
    #[arg(long, value_name = "SELECTOR")]
    on: Option<String>,
    /// Variable; may be given more than once
    #[arg(long = "var", value_name = "NAME=VALUE")]
    variables: Vec<String>,
    #[command(flatten)]
    subject: subject::Options,
}

/// What is evaluated.
enum Parsed {
    Value(Expr),
    Assertion(lang::Parsed<Assertion>),
}

/// Evaluates the expression on each span.
pub(crate) async fn eval(options: Options, before: Target) -> anyhow::Result<Exit> {
    let Some(parsed) = parsed(&options.expression) else { return Ok(Exit::Definition) };
    let mut given = Variables::new();
    for variable in &options.variables {
        let Some((name, value)) = variable.split_once('=') else {
            bail!("`{variable}` is no variable; write --var NAME=VALUE");
        };
        given.set(name, value);
    }
    let selector = parse_selector(options.on.as_deref().unwrap_or_default());
    if !selector.is_valid() {
        complain("--on", options.on.as_deref().unwrap_or_default(), &selector.diagnostics);
        return Ok(Exit::Definition);
    }
    let output = options.subject.output(&before);
    let subject = options.subject.load(before).await?;
    let variables = subject.variables.merged(&given);
    let trace = &subject.trace;
    let selected = match &options.on {
        Some(_) => lang::select(&selector.tree, trace, &Budget::default())?,
        None => trace.roots().take(1).collect(),
    };
    if selected.is_empty() {
        terminal::err(&format!(
            "`{}` selects no span; `qualitytrace select` shows what comes nearest\n",
            options.on.as_deref().unwrap_or_default()
        ));
        return Ok(Exit::NotPassed);
    }
    let (mut exit, mut rows) = (Exit::Passed, Vec::new());
    for at in &selected {
        let span = &*trace.span(*at).name;
        let name = match selected.len() {
            1 => String::new(),
            _ => format!("{}: ", style::faint(visible::text(span))),
        };
        match value(&parsed, trace, *at, &selected, &variables) {
            Ok(Evaluated { value, holds, shown }) => {
                if holds == Some(false) {
                    exit = Exit::NotPassed;
                }
                if output == Output::Pretty {
                    terminal::out(&format!("{name}{shown}\n"));
                }
                rows.push(json!({ "span": span, "value": value, "holds": holds }));
            }
            Err(why) => {
                exit = Exit::NotPassed;
                if output == Output::Pretty {
                    terminal::err(&format!("{name}{} {}\n", style::bad("no value:"), visible::text(&why)));
                }
                rows.push(json!({ "span": span, "error": why }));
            }
        }
    }
    terminal::out(&output.text_of(&Value::from(rows)).unwrap_or_default());
    Ok(exit)
}

/// Parses the text as an expression or as an assertion; prints what is wrong with it.
fn parsed(text: &str) -> Option<Parsed> {
    let expression = parse_expression(text);
    if expression.is_valid() {
        complain("expression", text, &diagnose_expression(text));
        return Some(Parsed::Value(expression.tree));
    }
    // Most of an assertion is an expression, so its errors are those of an expression, too, and those of a comparator.
    let assertion = parse_assertion(text);
    complain("expression", text, &diagnose_assertion(text));
    assertion.is_valid().then_some(Parsed::Assertion(assertion))
}

fn complain(name: &str, text: &str, diagnostics: &[lang::Diagnostic]) {
    if !diagnostics.is_empty() {
        let shown = lang::render(name, text, diagnostics, style::coloured());
        terminal::err(&format!("{}\n\n", terminal::filter::adopted(shown.trim_end())));
    }
}

/// What came out on one span.
struct Evaluated {
    value: String,
    /// Whether an assertion holds; `None` for an expression.
    holds: Option<bool>,
    /// Both, for people.
    shown: String,
}

/// The value on a span, and whether it holds.
fn value(
    parsed: &Parsed,
    trace: &Trace,
    at: usize,
    selection: &[usize],
    variables: &Variables,
) -> Result<Evaluated, String> {
    let budget = Budget::default();
    let surroundings = EvaluationScope {
        trace: Some(trace),
        span: Some(at),
        selection: Some(selection),
        variables,
        generator: Generator::in_utc(clock::now(), rand::random()),
        aliases: true,
        budget: &budget,
    };
    match parsed {
        Parsed::Value(expr) => {
            let item = evaluate(expr, &surroundings).map_err(|error| error.text)?;
            let value = item.text().into_owned();
            Ok(Evaluated { shown: visible::text(&value), value, holds: None })
        }
        Parsed::Assertion(assertion) => {
            let result = assert_once(assertion, &surroundings);
            if let Some(why) = result.error.filter(|_| result.failure != Some(FailureReason::NoMatch)) {
                return Err(why);
            }
            let mark = if result.passed { style::good("✔") } else { style::bad("✘") };
            let observed = visible::text(&result.observed_text);
            let expected = match &assertion.tree.claim {
                Claim::Compare { comparator, .. } => {
                    format!(" {} {}", comparator.as_str(), visible::text(&result.expected_text))
                }
                Claim::OneOf { .. } | Claim::Exists { .. } | Claim::Time { .. } | Claim::Hole => {
                    String::new()
                }
            };
            let shown = format!("{mark} {observed}{expected}");
            Ok(Evaluated { value: result.observed_text.clone(), holds: Some(result.passed), shown })
        }
    }
}
