//! Assertions that hold for a span: about one of its attributes, or the most telling ones.

use crate::assist::complete::attribute;
use crate::assist::standing::is_random;
use crate::definition::secrets::MASK;
use crate::judge::assert_once;
use crate::lang::{
    EvaluationScope, Field, FieldValue, Generator, TraceIndex, Variables, parse_assertion, quote,
};
use crate::names;
use crate::time::{Timestamp, exact_duration};
use crate::trace::StatusCode;
use crate::value::{Inferred, Value, infer};

/// Longest text that an assertion compares with, in bytes.
const MAX_TEXT: usize = 500;
/// Largest JSON text whose members are proposed, in bytes.
const MAX_JSON: usize = 64 * 1024;
/// The smallest bound of a duration, in nanoseconds: below it, a busy machine decides.
const LEAST_BOUND: i64 = 50_000_000;
/// Maximum number of members of a JSON object that are proposed.
const MAX_MEMBERS: usize = 4;

/// An assertion that holds for a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The whole assertion.
    pub assertion: String,
    /// The left side.
    pub left: String,
    /// The comparator.
    pub comparator: &'static str,
    /// The right side; empty where the comparator has none.
    pub expected: String,
    /// The type of the value.
    pub value_type: ValueType,
}

/// The type of a value in an assertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// A number.
    Number,
    /// A text.
    Text,
    /// A duration.
    Duration,
    /// True or false.
    Bool,
    /// A list.
    List,
}

/// Status codes: attributes that say how an operation went, where a span has them.
const CODES: [&str; 8] = [
    names::RESPONSE_STATUS,
    "http.response.status_code",
    "http.status_code",
    "rpc.grpc.status_code",
    "rpc.response.status_code",
    "db.response.status_code",
    "graphql.response.status_code",
    "exit_code",
];

/// Returns assertions about the attribute, the most usual first. Where the span lacks it, that is asserted.
pub(super) fn about(scene: &TraceIndex<'_>, at: usize, name: &str) -> Vec<Proposal> {
    let left = attribute(name);
    let read =
        left.strip_prefix("attr:").map_or(name, |read| if read.starts_with('"') { name } else { read });
    let field = Field::attribute(read, true, true);
    let Some((seen, _)) = field.look(scene, at) else {
        return holding(scene, at, vec![proposal(&left, "!exists", "", ValueType::Text)]);
    };
    let mut proposals = match seen {
        FieldValue::Nanos(nanos) => durations(&left, nanos),
        FieldValue::Text(text) => texts(&left, text),
        FieldValue::Value(value) => of_value(&left, name, value),
        FieldValue::Made(value) => of_value(&left, name, &value),
    };
    proposals.push(proposal(&left, "exists", "", ValueType::Text));
    holding(scene, at, proposals)
}

/// Returns assertions about the outcome of the span: status codes, status, duration and count.
pub(super) fn best(scene: &TraceIndex<'_>, at: usize) -> Vec<Proposal> {
    let span = scene.trace.span(at);
    let mut proposals = Vec::new();
    for code in CODES {
        if let Some(value) = span.attribute(code) {
            proposals.extend(of_value(&attribute(code), code, value).into_iter().take(1));
        }
    }
    let failed = span.status.as_ref().is_some_and(|status| status.code == StatusCode::Error);
    let comparator = if failed { "=" } else { "!=" };
    let status = attribute("tracetest.span.status_code");
    proposals.push(proposal(&status, comparator, &quote("STATUS_CODE_ERROR"), ValueType::Text));
    if span.end.is_some() {
        let nanos = i64::try_from(span.duration().as_nanos()).unwrap_or(i64::MAX);
        proposals.extend(durations(&attribute("tracetest.span.duration"), nanos));
    }
    let count = attribute("tracetest.selected_spans.count");
    proposals.push(proposal(&count, "=", "1", ValueType::Number));
    holding(scene, at, proposals)
}

fn proposal(left: &str, comparator: &'static str, expected: &str, value_type: ValueType) -> Proposal {
    let assertion = format!("{left} {comparator} {expected}").trim_end().to_owned();
    Proposal { assertion, left: left.to_owned(), comparator, expected: expected.to_owned(), value_type }
}

fn of_value(left: &str, name: &str, value: &Value) -> Vec<Proposal> {
    match value {
        Value::Int(_) | Value::Float(_) => numbers(left, name, &value.text()),
        Value::Bool(truth) => vec![proposal(left, "=", &truth.to_string(), ValueType::Bool)],
        Value::Duration(nanos) => {
            let mut proposals = vec![proposal(left, "=", &exact_duration(*nanos), ValueType::Duration)];
            proposals.extend(durations(left, *nanos));
            proposals
        }
        Value::String(text) => match infer(text) {
            Inferred::Number => numbers(left, name, text),
            Inferred::Duration(nanos) => {
                let mut proposals = vec![proposal(left, "=", &quote(text), ValueType::Duration)];
                proposals.extend(durations(left, nanos));
                proposals
            }
            Inferred::Json => members(left, text),
            Inferred::Array | Inferred::Text => texts(left, text),
        },
        Value::List(items) => {
            let scalar = |item: &&Value| !matches!(item, Value::List(_) | Value::Object(_) | Value::Null);
            let first = items.iter().find(scalar).map(|item| quote(&item.text()));
            first.map(|first| proposal(left, "contains", &first, ValueType::List)).into_iter().collect()
        }
        Value::Null | Value::Bytes(_) | Value::Object(_) => Vec::new(),
    }
}

fn numbers(left: &str, name: &str, text: &str) -> Vec<Proposal> {
    let mut proposals = vec![proposal(left, "=", text, ValueType::Number)];
    let is_http = name.starts_with("http.") || name == names::RESPONSE_STATUS;
    if is_http && name.contains("status") {
        proposals.push(proposal(left, "<", "400", ValueType::Number));
    } else {
        proposals.push(proposal(left, "<=", text, ValueType::Number));
        proposals.push(proposal(left, ">=", text, ValueType::Number));
    }
    proposals
}

fn texts(left: &str, text: &str) -> Vec<Proposal> {
    if text.is_empty() || text.len() > MAX_TEXT || text.contains(MASK) {
        return Vec::new();
    }
    let equal = proposal(left, "=", &quote(text), ValueType::Text);
    let word = text.split(|c: char| !c.is_alphanumeric()).max_by_key(|word| word.len()).unwrap_or_default();
    let contains = proposal(left, "contains", &quote(word), ValueType::Text);
    if is_random(text) {
        // It differs in the next run; what it looks like does not.
        return vec![proposal(left, "exists", "", ValueType::Text), equal];
    }
    if word.len() > 2 && word.len() < text.len() { vec![equal, contains] } else { vec![equal] }
}

/// Proposes a bound that leaves room for slower machines: at least three times what was measured, and round.
fn durations(left: &str, nanos: i64) -> Vec<Proposal> {
    let enough = nanos.saturating_mul(3).max(LEAST_BOUND);
    let mut bound: i64 = 1_000_000;
    let mut steps = [2, 5, 10].iter().cycle();
    let mut unit: i64 = 1_000_000;
    while bound < enough {
        let Some(step) = steps.next() else { break };
        bound = unit.saturating_mul(*step);
        if *step == 10 {
            unit = bound;
        }
        if bound == i64::MAX {
            return Vec::new();
        }
    }
    vec![proposal(left, "<", &exact_duration(bound), ValueType::Duration)]
}

/// Proposes the members of a JSON object that are numbers, texts or truth values.
fn members(left: &str, text: &str) -> Vec<Proposal> {
    if text.len() > MAX_JSON || text.contains(MASK) {
        return Vec::new();
    }
    let Ok(serde_json::Value::Object(members)) = serde_json::from_str(text) else { return Vec::new() };
    let is_plain = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let propose = |(name, value): (&String, &serde_json::Value)| {
        let left = format!("{left} | json_path '$.{name}'");
        match value {
            serde_json::Value::Number(number) => {
                Some(proposal(&left, "=", &number.to_string(), ValueType::Number))
            }
            serde_json::Value::String(text) if text.len() <= MAX_TEXT && !is_random(text) => {
                Some(proposal(&left, "=", &quote(text), ValueType::Text))
            }
            serde_json::Value::Bool(truth) => Some(proposal(&left, "=", &truth.to_string(), ValueType::Bool)),
            serde_json::Value::Null
            | serde_json::Value::String(_)
            | serde_json::Value::Array(_)
            | serde_json::Value::Object(_) => None,
        }
    };
    members.iter().filter(|(name, _)| is_plain(name)).filter_map(propose).take(MAX_MEMBERS).collect()
}

/// Keeps the assertions that hold for the span, each once.
fn holding(scene: &TraceIndex<'_>, at: usize, proposals: Vec<Proposal>) -> Vec<Proposal> {
    let variables = Variables::new();
    let surroundings = EvaluationScope {
        trace: Some(scene.trace),
        span: Some(at),
        selection: Some(&[at]),
        variables: &variables,
        generator: Generator::in_utc(Timestamp::default(), 0),
        aliases: true,
        budget: scene.budget,
    };
    let mut kept: Vec<Proposal> = Vec::new();
    for proposal in proposals {
        let parsed = parse_assertion(&proposal.assertion);
        let is_known = kept.iter().any(|known| known.assertion == proposal.assertion);
        if !is_known && assert_once(&parsed, &surroundings).passed {
            kept.push(proposal);
        }
    }
    kept
}
