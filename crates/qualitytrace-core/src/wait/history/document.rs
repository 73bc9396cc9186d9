//! Histories as a versioned JSON document, for the store and for a file that a team commits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::register::{Address, ENOUGH_DELIVERIES, Entries, Largest, Register, Service};
use super::super::shape::{Key, Node, Shape, fold};
use super::fact::{Answer, Fact, RecentMaximum, Steady};
use super::{History, MAX_KINDS};
use crate::trace::SpanKind;

/// The version that is written.
const VERSION: u32 = 2;
/// The version without processes, calls and addresses of calls; it is still read.
const OLDER_VERSION: u32 = 1;

/// Why a text cannot be read as a history.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Not JSON, or not of this form.
    #[error("failed to read the history")]
    Json(#[source] serde_json::Error),
    /// Written by another version.
    #[error("history has version {0}, and this program reads version {VERSION}: delete it to start again")]
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

/// All learned state: what a file keeps from one process to the next.
#[derive(Debug, Clone, Default)]
pub struct Learned {
    /// The history of each test, by its id.
    pub tests: BTreeMap<String, History>,
    /// How the services deliver.
    pub services: Register,
}

impl Learned {
    /// Returns the JSON document. Equal content gives equal text.
    pub fn to_json(&self) -> String {
        let services = self.services.services();
        let addresses = self.services.addresses();
        let document = Document {
            version: VERSION,
            services: services.iter().map(|(name, service)| (name.to_string(), (*service).into())).collect(),
            addresses: addresses
                .iter()
                .map(|(text, address)| (text.to_string(), RawAddress::of(address, &self.services)))
                .collect(),
            answers: BTreeMap::new(),
            tests: self.tests.iter().map(|(id, history)| (id.clone(), history.into())).collect(),
        };
        let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Reads what [`Learned::to_json`] wrote.
    pub fn from_json(text: &str) -> Result<Self, ReadError> {
        let Version { version } = serde_json::from_str(text).map_err(ReadError::Json)?;
        if ![OLDER_VERSION, VERSION].contains(&version) {
            return Err(ReadError::Version(version));
        }
        let document: Document = serde_json::from_str(text).map_err(ReadError::Json)?;
        let is_older = version == OLDER_VERSION;
        let read = |(id, raw): (String, RawHistory)| Ok((id.clone(), raw.into_history(&id, is_older)?));
        let services = document.services.into_iter().map(|(name, service)| (name, service.into()));
        let older = document.answers.into_iter().map(|(text, services)| {
            let address = RawAddress { services, calls: String::new(), mute_runs: 0 };
            (text, address)
        });
        let addresses = document.addresses.into_iter().chain(older);
        Ok(Self {
            tests: document.tests.into_iter().map(read).collect::<Result<_, _>>()?,
            services: Register::remembered(services, addresses.map(|(text, raw)| (text, raw.into()))),
        })
    }
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

#[derive(Serialize, Deserialize)]
struct Document {
    version: u32,
    #[serde(default)]
    services: BTreeMap<String, RawService>,
    /// The addresses that are called.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    addresses: BTreeMap<String, RawAddress>,
    /// The services that answered calls to each address, as the older version has them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    answers: BTreeMap<String, Vec<String>>,
    tests: BTreeMap<String, RawHistory>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawService {
    flushes: u32,
    largest_lag_ms: u64,
    disorder_ms: u64,
    #[serde(default, skip_serializing_if = "is_none")]
    overtaking_ms: u64,
    /// The services that it calls.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    calls: BTreeSet<String>,
    /// Whether it causes work elsewhere without a span of the call.
    #[serde(default, skip_serializing_if = "is_false")]
    bare_edges: bool,
    /// How long it works on after each kind of entry.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    later_ms: BTreeMap<String, u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawAddress {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    services: Vec<String>,
    /// The last calls: `+` with a span, `-` without.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    calls: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    mute_runs: u32,
}

impl RawAddress {
    fn of(address: &Address, register: &Register) -> Self {
        Self {
            services: address.services.iter().map(ToString::to_string).collect(),
            calls: address.remembered_calls(|end| register.has_everyone_passed(address, end)),
            mute_runs: address.mute_runs(),
        }
    }
}

impl From<RawAddress> for Address {
    fn from(raw: RawAddress) -> Self {
        Self::remembered(raw.services, &raw.calls, raw.mute_runs)
    }
}

impl From<&Service> for RawService {
    fn from(service: &Service) -> Self {
        Self {
            // A larger number would change the file with every run and add no information.
            flushes: service.deliveries.min(ENOUGH_DELIVERIES),
            largest_lag_ms: whole_millis(service.largest_lag()),
            disorder_ms: whole_millis(service.disorder.get()),
            overtaking_ms: whole_millis(service.overtaking.get()),
            calls: service.calls.iter().map(ToString::to_string).collect(),
            bare_edges: service.has_bare_edges,
            later_ms: service
                .entries
                .remembered()
                .into_iter()
                .map(|(name, later)| (name.to_owned(), whole_millis(later)))
                .collect(),
        }
    }
}

impl From<RawService> for Service {
    fn from(raw: RawService) -> Self {
        let largest = |millis| Largest::new(Duration::from_millis(millis));
        Self {
            deliveries: raw.flushes,
            lag: largest(raw.largest_lag_ms),
            disorder: largest(raw.disorder_ms),
            overtaking: largest(raw.overtaking_ms),
            calls: raw.calls.into_iter().map(Arc::from).collect(),
            has_bare_edges: raw.bare_edges,
            entries: Entries::restored(
                raw.later_ms.into_iter().map(|(name, later)| (name, Duration::from_millis(later))),
            ),
            ..Self::default()
        }
    }
}

/// Converts to milliseconds, rounded up: zero must stay the sign of perfect order.
fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawHistory {
    runs: u32,
    #[serde(default)]
    awaited_runs: u32,
    #[serde(default)]
    quiet_doublings: u32,
    #[serde(default)]
    clean_runs: u32,
    #[serde(default)]
    longest_ms: u64,
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
    /// The address that it calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    /// How many of them every span of the parent's kind has.
    each: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    each_last: Option<u32>,
    /// The largest number in a run; zero while only one run had it.
    most: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    most_since: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    runs_since: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    absent_runs: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    idle_runs: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    unproven_runs: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    varies: u32,
    #[serde(default, skip_serializing_if = "is_false")]
    ends_before_parent: bool,
    #[serde(default, skip_serializing_if = "RawAnswer::is_never")]
    answer: RawAnswer,
    /// How long after the answer to the trigger such a span ended at most.
    #[serde(default, skip_serializing_if = "is_none")]
    late_ms: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(truth: &bool) -> bool {
    !truth
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none(millis: &u64) -> bool {
    *millis == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
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
    New,
    Once,
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
                peer: key.peer.map(text),
                each: fact.each.value,
                each_last: fact.each.other,
                most: fact.most.value,
                most_since: fact.most.since,
                runs_since: fact.most.runs,
                absent_runs: fact.most.absent,
                idle_runs: fact.most.idle,
                unproven_runs: fact.unproven,
                varies: fact.varies,
                ends_before_parent: fact.ends_before_parent,
                answer: fact.answer.into(),
                late_ms: whole_millis(fact.late),
            }
        });
        Self {
            runs: history.runs,
            awaited_runs: history.awaited_runs,
            quiet_doublings: history.doublings,
            clean_runs: history.clean_runs,
            longest_ms: whole_millis(history.longest),
            silent_caller: history.caller_is_silent,
            spans: spans.collect(),
        }
    }
}

/// Returns the nodes in pre-order, siblings by service, name and kind: a committed file must not change with the
/// order of arrival.
fn stable_order(shape: &Shape) -> Vec<Node> {
    let mut sorted: Vec<Node> = shape.nodes().collect();
    sorted.sort_by_key(|node| {
        let key = shape.key(*node);
        (shape.text(key.service), shape.text(key.name), key.kind, key.peer.map(|peer| shape.text(peer)))
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
    fn into_history(self, test: &str, is_older: bool) -> Result<History, ReadError> {
        let (mut shape, mut facts) = (Shape::default(), Vec::new());
        shape.has_older_calls = is_older;
        let mut nodes: Vec<Node> = Vec::new();
        for (at, span) in self.spans.into_iter().take(MAX_KINDS).enumerate() {
            let out_of_order = |parent| ReadError::Order { test: test.to_owned(), span: at, parent };
            let parent = span
                .below
                .map(|parent| nodes.get(parent).copied().ok_or_else(|| out_of_order(parent)))
                .transpose()?;
            let key = Key {
                parent,
                service: shape.symbol(&span.service),
                kind: span.kind.into(),
                name: shape.symbol(&fold(&span.name)),
                peer: span.peer.as_deref().map(|peer| shape.symbol(peer)),
            };
            let node = shape.node(key);
            nodes.push(node);
            facts.resize(shape.len(), Fact::default());
            facts[node.index()] = Fact {
                each: Steady { value: span.each, other: span.each_last },
                most: RecentMaximum {
                    value: span.most,
                    since: span.most_since,
                    runs: span.runs_since,
                    absent: span.absent_runs,
                    idle: span.idle_runs,
                },
                varies: span.varies,
                ends_before_parent: span.ends_before_parent,
                answer: span.answer.into(),
                late: Duration::from_millis(span.late_ms),
                unproven: span.unproven_runs,
            };
        }
        let mut history = History {
            shape,
            facts,
            required: Vec::new(),
            occasional: Vec::new(),
            services: BTreeSet::new(),
            runs: self.runs,
            awaited_runs: self.awaited_runs.max(self.runs),
            doublings: self.quiet_doublings.min(u32::BITS - 1),
            clean_runs: self.clean_runs,
            longest: Duration::from_millis(self.longest_ms),
            caller_is_silent: self.silent_caller,
            last_late: None,
            last_decided: None,
            left_out: 0,
        };
        history.list_kinds();
        Ok(history)
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
    RawAnswer = Answer { Never, New, Once, Comes, Missed }
}
