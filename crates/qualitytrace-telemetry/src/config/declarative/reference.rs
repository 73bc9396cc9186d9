//! References to variables inside the declarative file.

use std::collections::BTreeMap;

use crate::config::{
    diagnostic::Report,
    text::{Kind, Node},
};

/// `${NAME}`, `${env:NAME}` and `${NAME:-default}`; `$$` is a dollar.
pub(super) fn substitute(node: &mut Node, environment: &BTreeMap<String, String>, report: &mut Report) {
    match &mut node.kind {
        Kind::Null => {}
        Kind::List(items) => items.iter_mut().for_each(|item| substitute(item, environment, report)),
        Kind::Map(pairs) => pairs.iter_mut().for_each(|(_, _, item)| substitute(item, environment, report)),
        Kind::Scalar(text) => {
            if !text.contains('$') {
                return;
            }
            match expand(text, environment) {
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

fn expand(text: &str, environment: &BTreeMap<String, String>) -> Option<String> {
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
            let (name, default) = reference.split_once(":-").unwrap_or((reference, ""));
            let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || !name.chars().all(good) {
                return None;
            }
            out.push_str(
                environment.get(name).filter(|found| !found.is_empty()).map_or(default, String::as_str),
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
