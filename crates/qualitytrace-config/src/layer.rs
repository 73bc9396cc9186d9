//! Layers of settings: files, then variables, then flags. The highest layer that has a key decides its value.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::diagnostic::{Origin, Report};
use crate::located::{Leaf, Located};
use crate::toml;

/// A configuration file; a name that ends in `.toml` is TOML, everything else is YAML.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct File {
    /// Its name, for messages and for relative file names in it.
    pub path: String,
    /// Its text.
    pub text: String,
}

impl File {
    /// A file by its name and its text.
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into() }
    }

    /// Reads all keys with their values; reports what cannot be read.
    pub fn leaves(&self, report: &mut Report) -> Vec<Leaf> {
        let extension = Path::new(&self.path).extension();
        if extension.is_some_and(|extension| extension.eq_ignore_ascii_case("toml")) {
            return toml::leaves(&self.path, &self.text, report);
        }
        let tree = Located::from_yaml(&self.path, &self.text, report);
        tree.map(|tree| tree.flatten()).unwrap_or_default()
    }
}

/// A key with the value of the highest layer that has it.
#[derive(Debug, Clone)]
pub struct KeyedValue {
    /// The key, as the user wrote it.
    pub key: String,
    /// Its value.
    pub value: Located,
    /// The folder that file names in the value are relative to.
    pub base: Option<PathBuf>,
}

/// All keys, each with the value of the highest layer. What is added later overrides what was added before.
#[derive(Debug, Clone)]
pub struct Layers {
    entries: BTreeMap<String, KeyedValue>,
    normalise: fn(&str) -> String,
}

impl Layers {
    /// No keys. `normalise` gives all spellings of a key one form.
    pub fn new(normalise: fn(&str) -> String) -> Self {
        Self { entries: BTreeMap::new(), normalise }
    }

    /// Adds the keys of a file. A known key that is given twice is an error.
    pub fn add_file(&mut self, file: &File, is_known: impl Fn(&str) -> bool, report: &mut Report) {
        let base = Path::new(&file.path).parent().map(Path::to_path_buf);
        let mut seen = BTreeSet::new();
        for leaf in file.leaves(report) {
            if !seen.insert((self.normalise)(&leaf.key)) && is_known(&leaf.key) {
                let message = format!("`{}` is given twice", leaf.key);
                report.error(&leaf.value.origin, &leaf.key, message, None);
            }
            self.put(leaf, base.clone());
        }
    }

    /// Adds the variables that stand for one of the keys: a prefix and the key in capitals. Underscores, dots and
    /// dashes are ignored: `HTTPPORT` and `HTTP_PORT` are the same. A later prefix goes before an earlier one.
    pub fn add_variables(
        &mut self,
        environment: &BTreeMap<String, String>,
        prefixes: &[&str],
        keys: &BTreeSet<String>,
    ) {
        for prefix in prefixes {
            let mut set: BTreeMap<String, Vec<(&String, &String)>> = BTreeMap::new();
            for (name, text) in environment.iter().filter(|(_, text)| !text.is_empty()) {
                if let Some(rest) = name.strip_prefix(prefix) {
                    set.entry(rest.replace('_', "")).or_default().push((name, text));
                }
            }
            for key in keys {
                let found = set.get(&key.replace(['.', '-', '_'], "").to_ascii_uppercase());
                for (name, text) in found.into_iter().flatten() {
                    let value = Located::scalar(*text, Origin::Environment((*name).clone()));
                    self.put(Leaf { key: key.clone(), value }, None);
                }
            }
        }
    }

    /// Adds flags, as dotted keys and values.
    pub fn add_flags(&mut self, flags: &[(String, String)]) {
        for (key, text) in flags {
            let value = Located::scalar(text, Origin::Flag(key.clone()));
            self.put(Leaf { key: key.clone(), value }, None);
        }
    }

    /// Iterates over all keys, in the order of their normalised forms.
    pub fn iter(&self) -> impl Iterator<Item = &KeyedValue> {
        self.entries.values()
    }

    /// Keeps only the keys that the predicate accepts.
    pub fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.entries.retain(|_, given| is_kept(&given.key));
    }

    fn put(&mut self, leaf: Leaf, base: Option<PathBuf>) {
        let Leaf { key, value } = leaf;
        self.entries.insert((self.normalise)(&key), KeyedValue { key, value, base });
    }
}

/// Whether two keys are the same in another spelling: `httpPort`, `http-port` and `HTTP_PORT`.
pub fn same_key(a: &str, b: &str) -> bool {
    normalised(a) == normalised(b)
}

/// Normalises a key: dashes, underscores and case are ignored.
pub fn normalised(key: &str) -> String {
    key.replace(['-', '_'], "").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn a_higher_layer_overrides_a_lower_one() {
        let mut layers = Layers::new(normalised);
        let mut report = Report::default();
        for text in ["http-port: 1\nhost: a\n", "httpPort: 2\n"] {
            layers.add_file(&File::new("c.yaml", text), |_| true, &mut report);
        }
        let shown = |layers: &Layers| {
            let line = |given: &KeyedValue| match &given.value.kind {
                Kind::Scalar(text) => format!("{}={text} {}", given.key, given.value.origin),
                other => format!("{other:?}"),
            };
            layers.iter().map(line).collect::<Vec<_>>()
        };
        assert_eq!(shown(&layers), ["host=a c.yaml:2:7", "httpPort=2 c.yaml:1:11"]);
        let environment = [("A_HOST", "b"), ("B_HTTP_PORT", "3"), ("A_HTTPPORT", "4"), ("A_PATH", "x")];
        let environment = environment.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
        let keys = ["host", "http-port"].map(str::to_owned).into();
        layers.add_variables(&environment, &["A_", "B_"], &keys);
        assert_eq!(shown(&layers), ["host=b $A_HOST", "http-port=3 $B_HTTP_PORT"]);
        layers.add_flags(&[("host".to_owned(), "c".to_owned())]);
        assert_eq!(shown(&layers), ["host=c --host", "http-port=3 $B_HTTP_PORT"]);
        assert_eq!(report.diagnostics, []);
    }

    #[test]
    fn a_known_key_is_given_once_in_a_file() {
        let mut report = Report::default();
        let file = File::new("c.toml", "host = 1\nHOST = 2\nother = 1\nOTHER = 2\n");
        Layers::new(normalised).add_file(&file, |key| same_key(key, "host"), &mut report);
        let said: Vec<String> = report.diagnostics.iter().map(ToString::to_string).collect();
        assert_eq!(said, ["c.toml:2:8: error: `HOST` is given twice"]);
    }
}
