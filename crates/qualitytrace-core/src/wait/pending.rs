//! Debts: what a trace still owes.

use std::fmt;
use std::sync::Arc;

use crate::id::SpanId;
use crate::trace::SpanKind;

/// Something that is still to come, or that never came. Its `Display` is the sentence for the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pending {
    /// The trigger was answered, so a service served it, yet no span stands below the trigger.
    Root {
        /// The trigger's span, when there is one.
        trigger: Option<SpanId>,
        /// The services that have spans here nevertheless, further down.
        others: Vec<Arc<str>>,
    },
    /// A span names a parent that is not here: it exists, or it was dropped.
    Parent {
        /// The parent that is missing.
        id: SpanId,
        /// A span that names it.
        child: Arc<str>,
        /// That span's service.
        service: Arc<str>,
    },
    /// A caller outside made the request that the trace begins with, and sends no span for it.
    Caller {
        /// The span that the caller named as its own.
        id: SpanId,
    },
    /// A call to another service has neither a child nor a span that links to it.
    Answer {
        /// The call.
        id: Option<SpanId>,
        /// Its name.
        name: Arc<str>,
        /// The service that made it.
        service: Arc<str>,
        /// The peer that it called, when the span says so.
        peer: Option<Arc<str>>,
    },
    /// Earlier runs had more spans of this kind.
    Shape {
        /// The service that sends it.
        service: Arc<str>,
        /// Its side of a call.
        kind: SpanKind,
        /// Its name, with `#` where numbers and ids stand.
        name: Arc<str>,
        /// The name of its parent; `None` right below the trigger.
        below: Option<Arc<str>>,
        /// How many are here.
        here: u32,
        /// How many there were in earlier runs.
        usual: u32,
    },
    /// A spec cannot be decided with the spans that are here.
    Spec {
        /// The spec.
        name: String,
    },
    /// The test has no complete run yet that says what to expect.
    First,
    /// Spans arrived a moment ago.
    Quiet,
}

impl Pending {
    /// Returns the name of its kind.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Root { .. } => "root",
            Self::Parent { .. } => "parent",
            Self::Caller { .. } => "caller",
            Self::Answer { .. } => "answer",
            Self::Shape { .. } => "shape",
            Self::Spec { .. } => "spec",
            Self::First => "first",
            Self::Quiet => "quiet",
        }
    }

    /// Returns the span that it is about, if that has an id: the call without an answer, or the span that is missing.
    pub const fn span(&self) -> Option<SpanId> {
        match self {
            Self::Root { trigger: id, .. } | Self::Answer { id, .. } => *id,
            Self::Parent { id, .. } | Self::Caller { id } => Some(*id),
            Self::Shape { .. } | Self::Spec { .. } | Self::First | Self::Quiet => None,
        }
    }

    /// Whether it is a span that a call of this trace or an earlier run leads to expect: of interest even where the
    /// verdict does not depend on it.
    pub fn is_expected(&self) -> bool {
        match self {
            Self::Answer { .. } | Self::Shape { .. } => true,
            Self::Root { .. }
            | Self::Parent { .. }
            | Self::Caller { .. }
            | Self::Spec { .. }
            | Self::First
            | Self::Quiet => false,
        }
    }
}

impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root { others, .. } if !others.is_empty() => write!(
                f,
                "no span of the service that answered the request has arrived, only spans of {} that were called by it: \
                 check that it exports to this server, too, and that its exporter is not slower than the others",
                others.join(", ")
            ),
            Self::Root { trigger: Some(id), .. } => write!(
                f,
                "no span below the trigger span {id} has arrived: check that the system under test exports to this \
                 server (an exporter that ran before the server pauses for up to 2 min) and takes over the trace context \
                 of the request"
            ),
            Self::Root { trigger: None, .. } => f.write_str(
                "no span of this trace has arrived: check that the system under test exports to this server",
            ),
            Self::Parent { id, child, service } => {
                write!(f, "the parent {id} of span `{child}` ({}) has not arrived", service_name(service))
            }
            Self::Caller { id } => write!(f, "the caller's own span {id} has not arrived"),
            Self::Answer { id, name, service, peer } => {
                write!(f, "the call `{name}` ({}", service_name(service))?;
                if let Some(id) = id {
                    write!(f, ", span {id}")?;
                }
                f.write_str(")")?;
                if let Some(peer) = peer {
                    write!(f, " to {peer}")?;
                }
                f.write_str(" has no answering span")
            }
            Self::Shape { service, kind, name, below, here, usual } => {
                write!(f, "the {} span `{name}` ({})", kind.as_str(), service_name(service))?;
                match below {
                    Some(below) => write!(f, " below `{below}`")?,
                    None => f.write_str(" below the trigger")?,
                }
                match here {
                    0 => f.write_str(" of earlier runs has not arrived"),
                    here => write!(f, " has arrived {here} times, and {usual} times in earlier runs"),
                }
            }
            Self::Spec { name } => write!(f, "spec `{name}` cannot be decided with the spans that are here"),
            Self::First => f.write_str("this test has no complete run yet that says which spans to expect"),
            Self::Quiet => f.write_str("spans are still arriving"),
        }
    }
}

fn service_name(service: &str) -> &str {
    if service.is_empty() { "unnamed service" } else { service }
}

/// The number of debts by kind: cheap to count, so that every wake-up can show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PendingCounts {
    /// No span stands below the trigger.
    pub root: bool,
    /// Parents that are not here.
    pub parents: usize,
    /// Calls without an answer.
    pub answers: usize,
    /// Whether earlier runs had kinds of spans that are not here.
    pub shape: bool,
    /// Specs that are not decided.
    pub specs: usize,
    /// The test has no history.
    pub first: bool,
}

impl fmt::Display for PendingCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = [
            self.root.then(|| "a first span".to_owned()),
            counted(self.parents, "parent"),
            counted(self.answers, "answer"),
            self.shape.then(|| "spans known from earlier runs".to_owned()),
            counted(self.specs, "undecided spec"),
            self.first.then(|| "a first look at this test".to_owned()),
        ]
        .into_iter()
        .flatten()
        .collect();
        if parts.is_empty() {
            return f.write_str("a moment of silence");
        }
        f.write_str(&parts.join(", "))
    }
}

fn counted(count: usize, noun: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 {noun}")),
        more => Some(format!("{more} {noun}s")),
    }
}
