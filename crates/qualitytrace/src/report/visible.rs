//! Escapes untrusted texts for a terminal: they cannot end a line, send control codes or change the text direction.

use super::{FailedGate, TestEnding, TestReport, brief};
use crate::terminal::filter::is_unseen;

/// Escapes control characters, line separators and direction marks.
pub(crate) fn text(text: &str) -> String {
    if !text.contains(is_unseen) {
        return text.to_owned();
    }
    let shown = |letter: char| match letter {
        letter if is_unseen(letter) => letter.escape_default().to_string(),
        letter => letter.to_string(),
    };
    text.chars().map(shown).collect()
}

/// The report with every text escaped, except for the trace, of which only some spans are shown.
pub(super) fn report(report: &TestReport) -> TestReport {
    let some = |known: &Option<String>| known.as_deref().map(text);
    let all = |texts: &[String]| texts.iter().map(|known| text(known)).collect();
    TestReport {
        name: text(&report.name),
        id: text(&report.id),
        suite: some(&report.suite),
        step: some(&report.step),
        part: some(&report.part),
        trace_id: text(&report.trace_id),
        earlier: report.earlier.iter().map(self::report).collect(),
        ending: match &report.ending {
            TestEnding::Skipped(why) => TestEnding::Skipped(text(why).into()),
            TestEnding::Judged(verdict) => TestEnding::Judged(brief::each_text(verdict, text)),
            TestEnding::Broken(why) => TestEnding::Broken(text(why)),
        },
        debts: all(&report.debts),
        undecided: all(&report.undecided),
        failed_gates: report.failed_gates.iter().map(gate).collect(),
        notes: all(&report.notes),
        ..report.clone()
    }
}

fn gate(gate: &FailedGate) -> FailedGate {
    FailedGate { message: text(&gate.message), ..gate.clone() }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_steers_a_terminal_is_spelled_out() {
        assert_eq!(super::text("a\nb\t\u{1b}[31m\u{202e}c"), "a\\nb\\t\\u{1b}[31m\\u{202e}c");
        assert_eq!(super::text("plain, ü, 漢字, 👍"), "plain, ü, 漢字, 👍");
    }
}
