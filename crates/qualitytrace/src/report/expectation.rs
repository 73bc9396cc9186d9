//! What an assertion expects, in the words of a report.

use qualitytrace_core::lang::ast::{Claim, Comparator, Relation};
use qualitytrace_core::lang::parse_assertion;

/// Formats the expected value, after the comparator where that is not `=`.
pub(super) fn expected(assertion: &str, value: &str) -> String {
    let value = or_nothing(value);
    match parse_assertion(assertion).tree.claim {
        Claim::Compare { comparator: Comparator::Equal, .. } | Claim::Hole => value.to_owned(),
        Claim::Compare { comparator, .. } => format!("{} {value}", comparator.as_str()),
        Claim::OneOf { negated: false, .. } => format!("one of {value}"),
        Claim::OneOf { negated: true, .. } => format!("none of {value}"),
        Claim::Exists { negated: false, .. } => "a value".to_owned(),
        Claim::Exists { negated: true, .. } => "no value".to_owned(),
        Claim::Time { relation, .. } => match relation {
            Relation::Before => "it to end before".to_owned(),
            Relation::After => "it to begin after".to_owned(),
            Relation::Overlaps => "it to overlap".to_owned(),
            Relation::Within(_) => format!("<= {value}"),
        },
    }
}

/// The value, or a word for an empty one.
pub(super) fn or_nothing(value: &str) -> &str {
    if value.is_empty() { "nothing" } else { value }
}

#[cfg(test)]
mod tests {
    use super::expected;

    #[test]
    fn the_comparator_is_said_where_it_is_not_equality() {
        for (assertion, value, said) in [
            ("attr:a = 200", "200", "200"),
            ("attr:tracetest.span.duration < 1s", "1s", "< 1s"),
            ("attr:a != \"x\"", "x", "!= x"),
            ("attr:a contains \"x\"", "x", "contains x"),
            ("attr:a is one of [1, 2]", "[1,2]", "one of [1,2]"),
            ("attr:a exists", "", "a value"),
            ("within 2s of span[]", "2s", "<= 2s"),
            ("attr:a <", "1", "1"),
        ] {
            assert_eq!(expected(assertion, value), said, "{assertion}");
        }
    }
}
