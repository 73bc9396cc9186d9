//! History as a versioned JSON document: for the store, and for a file that a team commits.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::shape::{Key, Node, Shape, fold};
use super::{Answer, Fact, History, MAX_KINDS};
use crate::trace::SpanKind;

/// The version that is written.
const VERSION: u32 = 1;

/// Why a text is not a history.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Not JSON, or not of this form.
    #[error("failed to read the history")]
    Json(#[source] serde_json::Error),
    /// Written by another version.
    #[error("history has version {0}, and this program reads version {VERSION}: delete it to learn anew")]
    Version(u32),
    /// A kind of span stands before its parent.
    #[error("history of test `{test}` puts span {span} below span {parent}, which does not come before it")]
    Order {
        /// The test.
        test: String,
        /// The position of the kind of span.
        span: usize,
        /// The position of the parent that it names.
        parent: usize,
    },
}

/// The histories of these tests as one JSON document. Equal histories give equal texts.
pub fn to_json(tests: &BTreeMap<String, History>) -> String {
    let document = Document {
        version: VERSION,
        tests: tests
            .iter()
            .map(|(id, history)| (id.clone(), history.into()))
            .collect(),
    };
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}

/// Reads what [`to_json`] wrote.
pub fn from_json(text: &str) -> Result<BTreeMap<String, History>, ReadError> {
    let Version { version } = serde_json::from_str(text).map_err(ReadError::Json)?;
    if version != VERSION {
        return Err(ReadError::Version(version));
    }
    let document: Document = serde_json::from_str(text).map_err(ReadError::Json)?;
    let read = |(id, raw): (String, RawHistory)| Ok((id.clone(), raw.into_history(&id)?));
    document.tests.into_iter().map(read).collect()
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

#[derive(Serialize, Deserialize)]
struct Document {
    version: u32,
    tests: BTreeMap<String, RawHistory>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawHistory {
    runs: u32,
    #[serde(default)]
    quiet_doublings: u32,
    #[serde(default)]
    clean_runs: u32,
    #[serde(default)]
    longest_silence_ms: u64,
    #[serde(default)]
    silent_caller: bool,
    spans: Vec<RawSpan>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSpan {
    #[serde(skip_serializing_if = "Option::is_none")]
    below: Option<usize>,
    service: String,
    kind: RawKind,
    name: String,
    count: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fewer: Option<u32>,
    #[serde(default, skip_serializing_if = "is_false")]
    new: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    ends_before_parent: bool,
    #[serde(default, skip_serializing_if = "RawAnswer::is_never")]
    answer: RawAnswer,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(truth: &bool) -> bool {
    !truth
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawKind {
    Unspecified,
    Internal,
    Server,
    Client,
    Producer,
    Consumer,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
enum RawAnswer {
    #[default]
    Never,
    Comes,
    Missed,
}

impl RawAnswer {
    fn is_never(&self) -> bool {
        matches!(self, Self::Never)
    }
}

impl From<&History> for RawHistory {
    fn from(history: &History) -> Self {
        let order = stable_order(&history.shape);
        let mut position = vec![0; order.len()];
        for (at, node) in order.iter().enumerate() {
            position[node.index()] = at;
        }
        let text = |symbol| history.shape.text(symbol).to_string();
        let spans = order.iter().map(|node| {
            let (key, fact) = (history.shape.key(*node), history.facts[node.index()]);
            RawSpan {
                below: key.parent.map(|parent| position[parent.index()]),
                service: text(key.service),
                kind: key.kind.into(),
                name: text(key.name),
                count: fact.usual,
                fewer: fact.fewer,
                new: fact.new,
                ends_before_parent: fact.ends_before_parent,
                answer: fact.answer.into(),
            }
        });
        Self {
            runs: history.runs,
            quiet_doublings: history.doublings,
            clean_runs: history.clean_runs,
            longest_silence_ms: u64::try_from(history.longest_silence.as_millis()).unwrap_or(u64::MAX),
            silent_caller: history.caller_is_silent,
            spans: spans.collect(),
        }
    }
}

/// Pre-order, siblings by service, name and kind: a file that is committed must not change with the order of arrival.
fn stable_order(shape: &Shape) -> Vec<Node> {
    let mut sorted: Vec<Node> = shape.nodes().collect();
    sorted.sort_by_key(|node| {
        let key = shape.key(*node);
        (shape.text(key.service), shape.text(key.name), key.kind)
    });
    let mut children: Vec<Vec<Node>> = vec![Vec::new(); shape.len()];
    let mut stack = Vec::new();
    for node in sorted.into_iter().rev() {
        match shape.key(node).parent {
            Some(parent) => children[parent.index()].push(node),
            None => stack.push(node),
        }
    }
    let mut order = Vec::with_capacity(shape.len());
    while let Some(node) = stack.pop() {
        order.push(node);
        stack.append(&mut children[node.index()]);
    }
    order
}

impl RawHistory {
    fn into_history(self, test: &str) -> Result<History, ReadError> {
        let (mut shape, mut facts) = (Shape::default(), Vec::new());
        let mut nodes: Vec<Node> = Vec::new();
        for (at, span) in self.spans.into_iter().take(MAX_KINDS).enumerate() {
            let out_of_order = |parent| ReadError::Order {
                test: test.to_owned(),
                span: at,
                parent,
            };
            let parent = span
                .below
                .map(|parent| nodes.get(parent).copied().ok_or_else(|| out_of_order(parent)))
                .transpose()?;
            let key = Key {
                parent,
                service: shape.symbol(&span.service),
                kind: span.kind.into(),
                name: shape.symbol(&fold(&span.name)),
            };
            let node = shape.node(key);
            nodes.push(node);
            facts.resize(shape.len(), Fact::default());
            facts[node.index()] = Fact {
                usual: span.count,
                fewer: span.fewer,
                new: span.new,
                ends_before_parent: span.ends_before_parent,
                answer: span.answer.into(),
            };
        }
        Ok(History {
            shape,
            facts,
            runs: self.runs,
            doublings: self.quiet_doublings.min(u32::BITS - 1),
            clean_runs: self.clean_runs,
            longest_silence: Duration::from_millis(self.longest_silence_ms),
            caller_is_silent: self.silent_caller,
            last_late: None,
        })
    }
}

macro_rules! same_variants {
    ($($raw:ident = $core:ident { $($variant:ident),+ })+) => {$(
        impl From<$core> for $raw {
            fn from(value: $core) -> Self {
                match value { $($core::$variant => Self::$variant),+ }
            }
        }

        impl From<$raw> for $core {
            fn from(value: $raw) -> Self {
                match value { $($raw::$variant => Self::$variant),+ }
            }
        }
    )+};
}

same_variants! {
    RawKind = SpanKind { Unspecified, Internal, Server, Client, Producer, Consumer }
    RawAnswer = Answer { Never, Comes, Missed }
}
