//! Environment variable references in the declarative file.

use std::collections::BTreeMap;

use qualitytrace_config::{Kind, Located, Report, Severity};

/// Replaces `${NAME}`, `${env:NAME}` and `${NAME:-default}` in all values; `$$` is a dollar.
pub(super) fn substitute(node: &mut Located, environment: &BTreeMap<String, String>, report: &mut Report) {
    match &mut node.kind {
        Kind::Null => {}
        Kind::List(items) => items.iter_mut().for_each(|item| substitute(item, environment, report)),
        Kind::Map(pairs) => pairs.iter_mut().for_each(|(_, _, item)| substitute(item, environment, report)),
        Kind::Scalar(text) => {
            if !text.contains('$') {
                return;
            }
            let mut unset = Vec::new();
            let expanded = expand(text, environment, &mut unset);
            for name in unset {
                let message = format!("`${{{name}}}` is empty: the variable `{name}` is not set");
                let help = Some(format!("set it, or write what counts without it: `${{{name}:-default}}`"));
                report.push(Severity::Warning, &node.origin, &name, message, help);
            }
            match expanded {
                Some(done) if done.is_empty() => node.kind = Kind::Null,
                Some(done) => *text = done,
                None => {
                    let message = format!("`{text}` is not a reference such as `${{NAME:-default}}`");
                    report.error(&node.origin, "", message, None);
                }
            }
        }
    }
}

/// Returns `None` for an invalid reference. Variables without a value and without a default are added to `unset`.
fn expand(text: &str, environment: &BTreeMap<String, String>, unset: &mut Vec<String>) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("$$") {
            out.push('$');
            rest = after;
        } else if let Some(inner) = rest.strip_prefix("${") {
            let end = inner.find('}')?;
            let reference = inner[..end].strip_prefix("env:").unwrap_or(&inner[..end]);
            let (name, default) =
                reference.split_once(":-").map_or((reference, None), |(name, default)| (name, Some(default)));
            let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(good) {
                return None;
            }
            let found = environment.get(name);
            if found.is_none() && default.is_none() {
                unset.push(name.to_owned());
            }
            out.push_str(
                found.map(String::as_str).filter(|found| !found.is_empty()).or(default).unwrap_or_default(),
            );
            rest = &inner[end + 1..];
        } else {
            out.push('$');
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    Some(out)
}
