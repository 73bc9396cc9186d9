//! The milestones of a run, folded from the first bytes of its events: what a run contains besides may be large.

use qualitytrace_core::id::SpanId;
use qualitytrace_core::time::Timestamp;
use serde::Deserialize;

use crate::storage::store::StoredEvent;
use crate::wire::event::KIND;

/// When a run came how far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Milestones {
    /// The span of the trigger.
    pub(crate) span: Option<SpanId>,
    /// When the trigger was sent.
    pub(crate) triggered: Option<Timestamp>,
    /// When the trigger got its response.
    pub(crate) answered: Option<Timestamp>,
    /// Whether the run waited for spans.
    pub(crate) waited: bool,
    /// Whether the wait has ended.
    pub(crate) obtained: bool,
    /// When it was judged first.
    pub(crate) judged: Option<Timestamp>,
    /// Whether it contains another run: it was imported, or judges the trace of an earlier run.
    pub(crate) contains_run: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Triggering {
    span_id: String,
}

impl Milestones {
    /// Folds the first bytes of events, in their order.
    pub(crate) fn of(openings: &[StoredEvent]) -> Self {
        let mut milestones = Self::default();
        for opening in openings {
            milestones.add(opening);
        }
        milestones
    }

    fn add(&mut self, opening: &StoredEvent) {
        match kind(&opening.body) {
            "imported" | "again" => self.contains_run = true,
            "triggering" => {
                let sent: Option<Triggering> = serde_json::from_str(&opening.body).ok();
                self.span = sent.and_then(|sent| sent.span_id.parse().ok());
                self.triggered = Some(opening.at);
            }
            "triggered" | "triggerFailed" => self.answered = Some(opening.at),
            "waiting" | "late" => self.waited = true,
            "waitEnded" | "waitSkipped" => self.obtained = true,
            "judged" => self.judged = self.judged.or(Some(opening.at)),
            _ => {}
        }
    }
}

/// Returns the kind of an event, of which the first bytes are given.
fn kind(opening: &str) -> &str {
    let rest = opening.strip_prefix("{\"").and_then(|rest| rest.strip_prefix(KIND));
    let rest = rest.and_then(|rest| rest.strip_prefix("\":\""));
    rest.and_then(|rest| rest.split('"').next()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::RunEventKind;

    #[test]
    fn a_kind_is_read_from_the_first_bytes_of_an_event() {
        let span = "00f067aa0ba902b7";
        let events = [
            RunEventKind::Triggering { span_id: span.to_owned() },
            RunEventKind::Waiting { quiet: 1, settle: 2, timeout: 3, confirm: None },
        ];
        let openings: Vec<StoredEvent> = events
            .iter()
            .zip(1..)
            .map(|(event, seq)| StoredEvent {
                seq,
                at: Timestamp::from_nanos(seq),
                body: serde_json::to_string(event).unwrap(),
            })
            .collect();
        let expected = Milestones {
            span: span.parse().ok(),
            triggered: Some(Timestamp::from_nanos(1)),
            waited: true,
            ..Milestones::default()
        };
        assert_eq!(Milestones::of(&openings), expected);
        assert_eq!(kind("{\"what\":\"judged\",\"verdict\":{\"outco"), "judged");
        assert_eq!(kind("{\"wh"), "");
    }
}
