//! What is given for a setting: its macros are replaced, and a value of the wrong kind is reported.

use qualitytrace_config::{KeyedValue, Kind, Located, Macros, Origin, Report, Severity};

use super::slot;

/// The text of a setting that has a single value; `None` if there is none, or if the reason was reported.
pub(super) fn text(
    given: &KeyedValue,
    expected: &str,
    macros: Macros<'_>,
    report: &mut Report,
) -> Option<String> {
    match &given.value.kind {
        Kind::Scalar(text) => given.expand(text, macros, report),
        Kind::Null => None,
        Kind::List(_) | Kind::Map(_) => {
            let origin = &given.value.origin;
            report.bad_value(Severity::Error, origin, &given.key, "a list or map", expected);
            None
        }
    }
}

/// The items of a setting that is a list or a text with commas, each with its position; `None` if it has no value, or if
/// the reason was reported. An empty list is a value.
pub(super) fn items(
    given: &KeyedValue,
    expected: &str,
    macros: Macros<'_>,
    report: &mut Report,
) -> Option<Vec<(String, Origin)>> {
    let origin = &given.value.origin;
    match &given.value.kind {
        Kind::Scalar(text) => {
            let text = given.expand(text, macros, report)?;
            Some(slot::split(&text).into_iter().map(|item| (item, origin.clone())).collect())
        }
        Kind::List(items) => {
            let item = |item: &Located| Some((given.item(item, macros, report)?, item.origin.clone()));
            Some(items.iter().filter_map(item).collect())
        }
        Kind::Null => None,
        Kind::Map(_) => {
            report.bad_value(Severity::Error, origin, &given.key, "a map", expected);
            None
        }
    }
}
