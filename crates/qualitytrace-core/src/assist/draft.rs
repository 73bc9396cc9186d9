//! The draft of a test, made from a trace: a trigger that repeats the request, and specs that the trace satisfies.

use std::fmt::Write as _;

use super::complete::written_name;
use super::describe::describe;
use crate::budget::{Budget, BudgetError};
use crate::definition::secrets::MASK;
use crate::definition::{Spec, Text};
use crate::judge::{Compiled, Options, Outcome};
use crate::lang::ast::{Clause, Comparator, Literal, SourceRange, Test};
use crate::lang::{Generator, Variables};
use crate::names;
use crate::time::Timestamp;
use crate::trace::{Span, SpanKind, StatusCode, Trace, special};

/// Maximum number of services that get a spec on their database calls, and of those that get one on their answers.
const MAX_SERVICES: usize = 4;

/// Returns the definition of a test in YAML; `None` for a trace without spans. The test begins with the span at `at`,
/// or else with the first one that answers a request.
///
/// The definition is valid, and the trace itself satisfies it. Where the trace does not say how to repeat the
/// request, the test judges the trace itself, and a comment says so.
pub fn draft(trace: &Trace, at: Option<usize>, budget: &Budget) -> Result<Option<String>, BudgetError> {
    let Some(entry) = at.or_else(|| entry(trace)) else { return Ok(None) };
    let specs = specs(trace, entry, budget)?;
    let options = Options {
        near_misses: 0,
        budget: budget.clone(),
        ..Options::new(Generator::in_utc(Timestamp::default(), 0))
    };
    let verdict = Compiled::new(&specs, &[]).judge(trace, &Variables::new(), &options);
    let passes = |index: usize| {
        verdict
            .specs
            .get(index)
            .is_some_and(|spec| spec.outcome() == Outcome::Passed && !spec.assertions.is_empty())
    };
    let mut passing =
        specs.iter().enumerate().filter(|(index, _)| passes(*index)).map(|(_, spec)| spec).peekable();
    let mut text = format!("type: Test\nspec:\n  name: {}\n", scalar(&title(trace.span(entry))));
    write_trigger(trace, entry, &mut text);
    if passing.peek().is_some() {
        text.push_str("  specs:\n");
    }
    for spec in passing {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  - name: {}", scalar(spec.name.as_deref().unwrap_or_default()));
        let _ = writeln!(text, "    selector: {}", scalar(&spec.selector.value));
        text.push_str("    assertions:\n");
        for assertion in &spec.assertions {
            let _ = writeln!(text, "    - {}", scalar(&assertion.value));
        }
    }
    Ok(Some(text))
}

/// Returns the span with which a test begins: the first that answers a request, else the first at all.
fn entry(trace: &Trace) -> Option<usize> {
    let spans = trace.spans();
    let is_own = |span: &&Span| &*span.name == names::TRIGGER_SPAN;
    spans
        .iter()
        .position(answers)
        .or_else(|| spans.iter().position(|span| !is_own(&span)))
        .or_else(|| (!spans.is_empty()).then_some(0))
}

fn answers(span: &Span) -> bool {
    matches!(span.kind, SpanKind::Server | SpanKind::Consumer)
}

fn title(span: &Span) -> String {
    if span.name.is_empty() || span.name.contains(MASK) {
        "A test from a trace".to_owned()
    } else {
        span.name.to_string()
    }
}

// The trigger.

fn write_trigger(trace: &Trace, entry: usize, text: &mut String) {
    let span = trace.span(entry);
    // The caller knows the address, too, and some servers do not tell it.
    let caller = trace.parent(entry).map(|at| trace.span(at)).filter(|span| span.kind == SpanKind::Client);
    let written = http(span, text) || grpc(span, caller, text);
    if !written {
        text.push_str("  # The trace does not say how to repeat the request: this judges the trace itself. Replace the trigger.\n");
        let _ = write!(
            text,
            "  trigger:\n    type: traceid\n    traceid:\n      id: {}\n",
            scalar(&trace.id().to_string())
        );
    }
}

/// Returns the first of these attributes that the span has, if it can be shown.
fn first_of(span: &Span, names: &[&str]) -> Option<String> {
    let values = names.iter().filter_map(|name| span.attribute(name));
    let text = values.map(|value| value.text().into_owned()).find(|text| !text.is_empty())?;
    (!text.contains(MASK) && !text.chars().any(char::is_control)).then_some(text)
}

fn http(span: &Span, text: &mut String) -> bool {
    let Some(method) = first_of(span, &["http.request.method", "http.method"]) else { return false };
    let Some(url) = url(span) else { return false };
    let has_body = matches!(method.as_str(), "POST" | "PUT" | "PATCH");
    if has_body {
        text.push_str(
            "  # The trace has neither the body nor the headers of the request: add what it needs.\n",
        );
    }
    let _ = write!(
        text,
        "  trigger:\n    type: http\n    httpRequest:\n      method: {}\n      url: {}\n",
        scalar(&method),
        scalar(&template(&url))
    );
    true
}

fn url(span: &Span) -> Option<String> {
    let whole = first_of(span, &["url.full", "http.url"]);
    if let Some(whole) = whole.filter(|url| url.starts_with("http://") || url.starts_with("https://")) {
        return Some(whole);
    }
    let scheme = first_of(span, &["url.scheme", "http.scheme"]).unwrap_or_else(|| "http".to_owned());
    let host = host(span)?;
    let path = first_of(span, &["url.path", "http.target"])?;
    let query = first_of(span, &["url.query"]).filter(|_| !path.contains('?'));
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    (path.starts_with('/') && scheme.starts_with("http")).then(|| format!("{scheme}://{host}{path}{query}"))
}

fn host(span: &Span) -> Option<String> {
    let host = first_of(span, &["server.address", "net.host.name", "http.host", "http.server_name"])?;
    is_host(&host).then(|| with_port(host, first_of(span, &["server.port", "net.host.port"])))
}

fn is_host(text: &str) -> bool {
    !text.contains(['/', ' ', '@'])
}

fn with_port(host: String, port: Option<String>) -> String {
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    match port.filter(|port| port.parse::<u16>().is_ok()) {
        Some(port) if !has_port => format!("{host}:{port}"),
        _ => host,
    }
}

fn grpc(span: &Span, caller: Option<&Span>, text: &mut String) -> bool {
    let is_grpc = first_of(span, &["rpc.system", "rpc.system.name"]).is_some_and(|system| system == "grpc");
    let host = host(span).or_else(|| caller.and_then(peer));
    let (true, Some((service, method)), Some(host)) = (is_grpc, called(span), host) else { return false };
    text.push_str("  # The trace does not have the message of the request: add it. Without protobufFile the server must offer reflection.\n");
    let name = service.rsplit('.').next().unwrap_or(&service);
    let _ = write!(
        text,
        "  trigger:\n    type: grpc\n    grpc:\n      address: {}\n      service: {}\n      method: {}\n      request: '{{}}'\n",
        scalar(&template(&host)),
        scalar(&template(name)),
        scalar(&template(&format!("{service}.{method}"))),
    );
    true
}

/// The service and the method of a call, as the older conventions have them, or the newer ones: `package.Service/Method`.
fn called(span: &Span) -> Option<(String, String)> {
    let method = first_of(span, &["rpc.method"])?;
    if let Some((service, method)) = method.trim_start_matches('/').split_once('/') {
        return Some((service.to_owned(), method.to_owned()));
    }
    Some((first_of(span, &["rpc.service"])?, method))
}

/// The host that a client calls.
fn peer(span: &Span) -> Option<String> {
    let host = first_of(span, &["server.address", "net.peer.name"]).filter(|host| is_host(host))?;
    Some(with_port(host, first_of(span, &["server.port", "net.peer.port"])))
}

/// Writes a text so that a template means its characters.
fn template(text: &str) -> String {
    text.replace("${", "\\${")
}

// The specs.

fn specs(trace: &Trace, entry: usize, budget: &Budget) -> Result<Vec<Spec>, BudgetError> {
    let mut specs = vec![about(trace, entry, budget)?];
    let has_failed =
        |span: &Span| span.status.as_ref().is_some_and(|status| status.code == StatusCode::Error);
    if !trace.spans().iter().any(has_failed) {
        let nothing = "attr:tracetest.selected_spans.count = 0".to_owned();
        specs.push(spec(
            "No span reports an error".to_owned(),
            "span[status = error]".to_owned(),
            vec![nothing],
        ));
    }
    let mut answering: Vec<&str> = vec![trace.span(entry).service()];
    let mut querying: Vec<(&str, usize)> = Vec::new();
    for (at, span) in trace.spans().iter().enumerate() {
        let service = span.service();
        if service.is_empty() || service.contains(MASK) {
            continue;
        }
        if special::span_type(span) == "database" {
            if let Some((_, count)) = querying.iter_mut().find(|(known, _)| *known == service) {
                *count += 1;
            } else if querying.len() < MAX_SERVICES {
                querying.push((service, 1));
            }
        }
        if answers(span) && !answering.contains(&service) && answering.len() <= MAX_SERVICES {
            answering.push(service);
            specs.push(about(trace, at, budget)?);
        }
    }
    for (service, count) in querying {
        let clause = Clause {
            name: written_name("service.name"),
            test: Test::Compare(Comparator::Equal, Literal::Text(service.to_owned())),
            place: SourceRange::default(),
        };
        let selector = format!("span[{clause} tracetest.span.type=\"database\"]");
        let calls = format!("attr:tracetest.selected_spans.count = {count}");
        let plural = if count == 1 { "" } else { "s" };
        specs.push(spec(format!("{service} makes {count} database call{plural}"), selector, vec![calls]));
    }
    Ok(specs)
}

/// A spec on one span: how it went, and how long it may take.
fn about(trace: &Trace, at: usize, budget: &Budget) -> Result<Spec, BudgetError> {
    let description = describe(trace, at, None, budget)?;
    let span = trace.span(at);
    let name = match span.service() {
        service if service.is_empty() || service.contains(MASK) => {
            format!("{} goes as recorded", title(span))
        }
        service => format!("{} of {service} goes as recorded", title(span)),
    };
    let assertions = description.assertions.into_iter().map(|proposal| proposal.assertion).collect();
    Ok(spec(name, description.selector, assertions))
}

fn spec(name: String, selector: String, assertions: Vec<String>) -> Spec {
    Spec {
        name: Some(name),
        selector: Text::from(selector),
        within: None,
        assertions: assertions.into_iter().map(Text::from).collect(),
    }
}

// YAML.

/// Writes a text as a scalar: plain where every reader of YAML takes it for this text, else in double quotes.
fn scalar(text: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || " _-./=[]()<>\"':$\\+~*!,|".contains(c);
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(is_safe)
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.ends_with([' ', ':'])
        && !matches!(
            text.to_ascii_lowercase().as_str(),
            "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
        );
    if is_plain {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
