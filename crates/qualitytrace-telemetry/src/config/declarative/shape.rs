//! Readers for the shapes of the declarative file. Every node is read through these, so that one of another shape is
//! reported with its position and never skipped.

use qualitytrace_config::{Kind, Located, Origin, Severity, nearest};

use super::Declarative;

/// A key, its position and its value.
type Pair = (String, Origin, Located);

impl Declarative<'_> {
    /// The pairs of a mapping; unknown keys are reported. No value is an empty mapping.
    pub(super) fn map<'n>(&mut self, node: &'n Located, path: &str, known: &[&str]) -> &'n [Pair] {
        let pairs = self.pairs(node, path);
        for (key, origin, _) in pairs.iter().filter(|(key, _, _)| !known.contains(&key.as_str())) {
            let full = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            if key.ends_with("/development") {
                let message = format!("`{full}` is not stable and has no effect here");
                self.report.push(Severity::Warning, origin, &full, message, None);
            } else {
                let help = nearest(key, known.iter().copied()).map_or_else(
                    || format!("expected {}", known.join("|")),
                    |word| format!("did you mean `{word}`?"),
                );
                self.report.error(origin, &full, format!("`{full}` is not a known setting"), Some(help));
            }
        }
        pairs
    }

    /// The pairs of a mapping with arbitrary keys.
    pub(super) fn pairs<'n>(&mut self, node: &'n Located, path: &str) -> &'n [Pair] {
        match &node.kind {
            Kind::Map(pairs) => pairs,
            Kind::Null => &[],
            Kind::Scalar(_) | Kind::List(_) => {
                let name = if path.is_empty() { "the file".to_owned() } else { format!("`{path}`") };
                self.report.error(&node.origin, path, format!("{name} is a mapping"), None);
                &[]
            }
        }
    }

    /// The items of a list. No value is an empty list.
    pub(super) fn list<'n>(&mut self, node: &'n Located, path: &str) -> &'n [Located] {
        match &node.kind {
            Kind::List(items) => items,
            Kind::Null => &[],
            Kind::Scalar(_) | Kind::Map(_) => {
                self.report.error(&node.origin, path, format!("`{path}` is a list"), None);
                &[]
            }
        }
    }

    /// The only pair of a mapping that selects one of several alternatives. `None` where there is none, or where the
    /// reason why it is not valid was reported.
    pub(super) fn one_of<'n>(
        &mut self,
        node: &'n Located,
        path: &str,
        known: &[&str],
    ) -> Option<(&'n str, &'n Located)> {
        let said = self.report.diagnostics.len();
        let pairs = self.map(node, path, known);
        let mut found = pairs.iter().filter(|(key, _, _)| known.contains(&key.as_str()));
        match (found.next(), found.next()) {
            (Some((name, _, body)), None) => Some((name, body)),
            (Some(_), Some((_, origin, _))) => {
                let message = format!("`{path}` is exactly one of {}", known.join("|"));
                self.report.error(origin, path, message, None);
                None
            }
            (None, _) => {
                if self.report.diagnostics.len() == said {
                    let message = format!("`{path}` is exactly one of {}", known.join("|"));
                    self.report.error(&node.origin, path, message, None);
                }
                None
            }
        }
    }

    pub(super) fn scalar(&mut self, node: &Located, key: &str) -> Option<(String, Origin)> {
        let found = node.get(key)?;
        match &found.kind {
            Kind::Scalar(text) => Some((text.clone(), found.origin.clone())),
            Kind::Null => None,
            Kind::List(_) | Kind::Map(_) => {
                self.report.error(&found.origin, key, format!("`{key}` is a single value"), None);
                None
            }
        }
    }

    pub(super) fn parsed<T>(
        &mut self,
        node: &Located,
        key: &str,
        allowed: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<(T, Origin)> {
        let (text, origin) = self.scalar(node, key)?;
        let parsed = parse(&text);
        if parsed.is_none() {
            self.report.bad_value(Severity::Error, &origin, key, &text, allowed);
        }
        Some((parsed?, origin))
    }

    /// The single values of a list.
    pub(super) fn texts(&mut self, node: &Located, key: &str) -> Vec<String> {
        let mut texts = Vec::new();
        for item in self.list(node, key) {
            match &item.kind {
                Kind::Scalar(text) => texts.push(text.clone()),
                Kind::Null | Kind::List(_) | Kind::Map(_) => {
                    self.report.error(&item.origin, key, format!("`{key}` is a list of single values"), None);
                }
            }
        }
        texts
    }
}
