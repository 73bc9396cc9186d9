//! The lines below the reports while tests run: how far each is, what it waits for, and until when.

use std::time::{Duration, Instant};

use qualitytrace_server::wire::RunEventKind;

use super::visible;
use crate::client::events::{StreamItem, WaitStatus};
use crate::terminal::{columns, counted};

/// How many running tests are shown; the rest is counted.
const MOST_ROWS: usize = 10;
/// The widest column of names.
const NAME_WIDTH: usize = 32;
/// The width of the column of times.
const TIME_WIDTH: usize = 8;

/// A test that is running.
#[derive(Debug, Clone)]
pub(super) struct Running {
    pub(super) name: String,
    pub(super) since: Instant,
    pub(super) stage: Stage,
}

/// How far a test is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    /// It waits for its turn on the server.
    Queued,
    /// Its trigger was sent.
    Triggered,
    /// It waits for spans.
    Waiting {
        spans: usize,
        /// What is owed, with the number of further debts.
        debt: Option<(String, usize)>,
        /// When the wait ends if nothing more arrives, where that is known.
        until: Option<Instant>,
    },
    Judging,
    /// It failed because spans are missing, which may still come.
    Confirming {
        until: Instant,
    },
}

impl Stage {
    /// The stage after a message of the server; `None` when it is the same.
    pub(super) fn after(&self, seen: &StreamItem, now: Instant) -> Option<Self> {
        let event = match seen {
            StreamItem::Owed(owed) => return Some(Self::of_owed(owed, now)),
            StreamItem::Event(event) => event,
        };
        match &event.what {
            RunEventKind::Triggering { .. } => Some(Self::Triggered),
            RunEventKind::Waiting { .. } => Some(Self::Waiting { spans: 0, debt: None, until: None }),
            RunEventKind::Arrived { spans: new, .. } => match self {
                Self::Waiting { debt, until, .. } => {
                    Some(Self::Waiting { spans: *new, debt: debt.clone(), until: *until })
                }
                Self::Queued | Self::Triggered | Self::Judging | Self::Confirming { .. } => None,
            },
            RunEventKind::WaitEnded { .. } | RunEventKind::WaitSkipped { .. } | RunEventKind::Judging => {
                Some(Self::Judging)
            }
            _ => None,
        }
    }

    fn of_owed(owed: &WaitStatus, now: Instant) -> Self {
        let others = owed.debts.len().saturating_sub(1) + owed.unnamed_debts;
        let debt = owed.debts.first().map(|debt| (debt.text.clone(), others));
        Self::Waiting { spans: owed.spans, debt, until: now.checked_add(owed.left()) }
    }

    fn sentence(&self, now: Instant) -> String {
        let left = |until: Instant| seconds(until.saturating_duration_since(now));
        match self {
            Self::Queued => "queued".to_owned(),
            Self::Triggered => "triggered".to_owned(),
            Self::Judging => "judging".to_owned(),
            Self::Confirming { until } => {
                format!("failed; missing spans may still arrive: {} at most", left(*until))
            }
            Self::Waiting { spans, debt, until } => {
                let spans = counted(*spans, "span");
                let until = until.map(|until| format!(": {} at most", left(until))).unwrap_or_default();
                match debt {
                    None => format!("{spans}, nothing owed{until}"),
                    Some((debt, 0)) => format!("{spans}, {debt}{until}"),
                    Some((debt, others)) => format!("{spans}, {debt} (and {others} more){until}"),
                }
            }
        }
    }
}

/// The lines, each narrower than the terminal; none when nothing is running.
pub(super) fn frame(
    (done, total): (usize, usize),
    running: &[&Running],
    now: Instant,
    (width, height): (usize, usize),
) -> Vec<String> {
    if running.is_empty() {
        return Vec::new();
    }
    // The last columns stay free: terminals break the line there, and echo Ctrl-C.
    let width = width.saturating_sub(3);
    // A frame that fills the terminal would scroll.
    let rows = running.len().min(MOST_ROWS).min(height.saturating_sub(3)).max(1);
    let names = running.iter().take(rows).map(|test| columns::width(&visible::text(&test.name)));
    let name_width = names.max().unwrap_or(0).min(NAME_WIDTH).min(width / 3);
    let confirming = running.iter().filter(|test| matches!(test.stage, Stage::Confirming { .. })).count();
    let counts = [(running.len() - confirming, "running"), (confirming, "being confirmed")];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let done = std::iter::once(format!("{done}/{total} done"));
    let counts: Vec<String> = done.chain(counts.map(|(count, word)| format!("{count} {word}"))).collect();
    let mut lines = vec![columns::cut(&counts.join(", "), width)];
    for test in running.iter().take(rows) {
        let name = columns::fitted(&visible::text(&test.name), name_width);
        let time = seconds(now.saturating_duration_since(test.since));
        let sentence = visible::text(&test.stage.sentence(now));
        lines.push(columns::cut(&format!("  {name} {time:>TIME_WIDTH$}  {sentence}"), width));
    }
    if running.len() > rows {
        lines.push(columns::cut(&format!("  and {} more", running.len() - rows), width));
    }
    lines
}

/// A duration that is shown while it passes.
fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use qualitytrace_server::wire;

    use super::*;

    fn check(width: usize, height: usize, expected: &str) {
        let began = Instant::now();
        let now = began + Duration::from_millis(2_340);
        let owed = r#"{"what":"owed","at":"1000000000","spans":12,"quietUntil":"1100000000","unnamedDebts":1,
            "debts":[{"kind":"answer","text":"the answer of `payment`\nto a call","since":"0","until":"4200000000"},
                     {"kind":"root","text":"the root","since":"0","until":"2000000000"}]}"#;
        let owed = StreamItem::Owed(serde_json::from_str(owed).unwrap());
        let event = |what| StreamItem::Event(wire::Event { seq: 1, at: 1, what });
        let after = |stage: Stage, seen: &StreamItem| stage.after(seen, now).unwrap_or(stage);
        let waiting = after(
            Stage::Triggered,
            &event(RunEventKind::Waiting { quiet: 1, settle: 1, timeout: 1, confirm: None }),
        );
        let some = after(waiting, &event(RunEventKind::Arrived { new: 1, spans: 1 }));
        let running = |name: &str, stage: Stage| Running { name: name.to_owned(), since: began, stage };
        let tests = [
            running("Checkout", after(Stage::Triggered, &owed)),
            running("注文を確認する、それから支払う、そして待つ", some),
            running("Bad\u{1b}[31m name", Stage::Queued),
            running("Late", Stage::Confirming { until: now + Duration::from_secs(9) }),
        ];
        let lines = frame((3, 27), &tests.iter().collect::<Vec<_>>(), now, (width, height));
        for line in &lines {
            assert!(columns::width(line) < width, "{line:?} does not fit");
        }
        assert_eq!(lines.join("\n"), expected);
    }

    #[test]
    fn each_running_test_has_a_line_that_fits() {
        check(
            100,
            24,
            "3/27 done, 3 running, 1 being confirmed
  Checkout                            2.3 s  12 spans, the answer of `payment`\\nto a call (and 2…
  注文を確認する、それから支払う…     2.3 s  1 span, nothing owed
  Bad\\u{1b}[31m name                  2.3 s  queued
  Late                                2.3 s  failed; missing spans may still arrive: 9.0 s at mo…",
        );
        check(
            40,
            5,
            "3/27 done, 3 running, 1 being confir…
  Checkout        2.3 s  12 spans, t…
  注文を確認…     2.3 s  1 span, not…
  and 2 more",
        );
        check(10, 1, "3/27 d…\n  C…  …\n  and …");
    }

    #[test]
    fn a_test_goes_through_its_stages() {
        let now = Instant::now();
        let event = |what| StreamItem::Event(wire::Event { seq: 1, at: 1, what });
        let triggering = event(RunEventKind::Triggering { span_id: String::new() });
        assert_eq!(Stage::Queued.after(&triggering, now), Some(Stage::Triggered));
        assert_eq!(Stage::Queued.after(&event(RunEventKind::Judging), now), Some(Stage::Judging));
        assert_eq!(Stage::Judging.after(&event(RunEventKind::Created), now), None);
        assert_eq!(frame((1, 1), &[], now, (80, 24)), [] as [String; 0]);
    }
}
