//! What users write: tests and the resources around them.
//!
//! [`read`] turns a YAML or JSON file into resources. It is total: every text gives the resources that could be read
//! and a list of all that is wrong with it, each with its place in the file. Nothing is dropped in silence: a key that
//! means nothing is a warning.

mod json;
mod node;
mod reader;
mod test;
mod text;
pub mod trigger;
mod yaml;

use std::ops::Range;

pub use test::{Output, Spec, Test};
pub use text::{Origin, Text};
pub use trigger::Trigger;

use crate::lang::{Diagnostic, Severity};
use node::{Node, Shape};
use reader::{Reader, nearest};

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// YAML: one or more documents.
    Yaml,
    /// JSON: one document.
    Json,
}

/// What a file says.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// The resources that could be read, in the order of the file.
    pub documents: Vec<Document>,
    /// All that is wrong or odd about the file, in its order.
    pub diagnostics: Vec<Diagnostic>,
}

impl Reading {
    /// Whether nothing stands against using the file; `strict` counts warnings too.
    pub fn is_usable(&self, strict: bool) -> bool {
        self.diagnostics
            .iter()
            .all(|diagnostic| !strict && diagnostic.severity == Severity::Warning)
    }
}

/// One resource of a file.
#[derive(Debug, Clone)]
pub struct Document {
    /// What it says.
    pub resource: Resource,
    /// The bytes of the file that it was read from.
    pub span: Range<usize>,
}

/// One thing that users define.
#[derive(Debug, Clone, PartialEq)]
pub enum Resource {
    /// A trigger and what must hold for the trace that it causes.
    Test(Test),
}

impl Resource {
    /// What kind of thing it is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Test(_) => Kind::Test,
        }
    }
}

/// The kinds of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A trigger and what must hold for the trace that it causes.
    Test,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 1] = [Self::Test];

    /// The word that files and the API use as `type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Test => "Test",
        }
    }
}

/// Reads every resource of a file.
pub fn read(source: &str, format: Format) -> Reading {
    read_with(source, format, None)
}

/// Reads a file that is known to hold resources of one kind, whatever its `type` says.
pub fn read_as(source: &str, format: Format, kind: Kind) -> Reading {
    read_with(source, format, Some(kind))
}

fn read_with(source: &str, format: Format, kind: Option<Kind>) -> Reading {
    let reader = Reader::new(source, format);
    let documents: Vec<Document> = parse(&reader)
        .iter()
        .filter_map(|node| {
            let resource = resource(&reader, node, kind)?;
            Some(Document {
                resource,
                span: node.span.clone(),
            })
        })
        .collect();
    Reading {
        documents,
        diagnostics: reader.finish(),
    }
}

fn parse(reader: &Reader<'_>) -> Vec<Node> {
    let documents = match reader.format {
        Format::Yaml => yaml::parse(reader),
        Format::Json => json::parse(reader).into_iter().collect(),
    };
    // `---` before the first document or after the last one makes an empty document, which says nothing.
    documents
        .into_iter()
        .filter(|document| !document.is_null())
        .collect()
}

/// Reads the envelope `{type, spec}` and what is in it.
fn resource(reader: &Reader<'_>, node: &Node, expected: Option<Kind>) -> Option<Resource> {
    let mut fields = reader.fields(node, "a definition")?;
    let kind_text = fields.text("type").filter(|text| !text.is_empty());
    let spec = fields.get("spec");
    let kind = match (expected, kind_text) {
        (Some(kind), _) => kind,
        (None, Some(text)) => kind_named(reader, &text)?,
        (None, None) => {
            let message = "the definition has no `type`";
            if fields.has("trigger") {
                reader.error_with_help(
                    "no-type",
                    node.span.start..node.span.start,
                    message,
                    "write `type: Test` and put the rest under `spec:`",
                );
            } else {
                let help = format!("name one of {}", kinds());
                reader.error_with_help("no-type", node.span.start..node.span.start, message, help);
            }
            return None;
        }
    };
    fields.finish();
    let Some(spec) = spec else {
        reader.error_with_help(
            "no-spec",
            node.span.clone(),
            format!("the {} has no `spec`", kind.as_str()),
            "put its fields under `spec:`",
        );
        return None;
    };
    match kind {
        Kind::Test => test::read(reader, spec).map(Resource::Test),
    }
}

fn kind_named(reader: &Reader<'_>, text: &Text) -> Option<Kind> {
    let found = Kind::ALL.into_iter().find(|kind| kind.as_str() == text.value);
    if found.is_none() {
        let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
        let help = match nearest(&text.value, &names) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("name one of {}", kinds()),
        };
        reader.error_with_help(
            "unknown-type",
            text.place(0..text.value.len()),
            format!("`{}` is not a type of definition", text.value),
            help,
        );
    }
    found
}

fn kinds() -> String {
    let names: Vec<String> = Kind::ALL
        .iter()
        .map(|kind| format!("`{}`", kind.as_str()))
        .collect();
    names.join(", ")
}

/// Whether a value is a mapping.
fn is_map(node: &Node) -> bool {
    matches!(node.shape, Shape::Map(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tests(source: &str) -> (Vec<Test>, Vec<Diagnostic>) {
        let reading = read(source, Format::Yaml);
        let tests = reading
            .documents
            .into_iter()
            .map(|document| match document.resource {
                Resource::Test(test) => test,
            });
        (tests.collect(), reading.diagnostics)
    }

    /// What `part` of the first assertion stands on in the file.
    fn placed(source: &str, part: &str) -> String {
        let (tests, diagnostics) = tests(source);
        assert_eq!(diagnostics, [], "{source}");
        let text = &tests[0].specs[0].assertions[0];
        let start = text.value.find(part).expect("the part is in the text");
        source[text.place(start..start + part.len())].to_owned()
    }

    fn file(assertion: &str) -> String {
        format!(
            "# é\ntype: Test\nspec:\n  name: n\n  trigger:\n    type: k6\n  specs:\n    - assertions:\n        - {assertion}\n"
        )
    }

    #[test]
    fn a_part_of_a_text_is_found_in_the_file() {
        for (assertion, part, expected) in [
            ("attr:a = 1", "a = 1", "a = 1"),
            ("attr:ä = 1 # why", "= 1", "= 1"),
            ("'attr:a = \"it''s\"'", "= \"it's", "= \"it''s"),
            ("'attr:a = \"it''s\"'", "s\"", "s\""),
            (r#""attr:a = \"b\" x""#, "b\" x", r#"b\" x"#),
            (r#""\u00e9 \x41 = b""#, "A = b", r"\x41 = b"),
            (r#""\ud834\udd1e = b""#, "= b", "= b"),
            ("attr:a\n          = b", "= b", "= b"),
            ("attr:a\n          = b", "a =", "a\n          ="),
            ("|\n          attr:a\n            = b\n", "= b", "= b"),
            ("|\n          attr:a\n            = b\n", "  = b", "  = b"),
            ("|-\n          attr:a\n          = b", "a\n=", "a\n          ="),
            (">\n          attr:a\n          = b\n", "= b", "= b"),
            ("\"attr:a \\\n          = b\"", "= b", "= b"),
        ] {
            assert_eq!(placed(&file(assertion), part), expected, "{assertion}");
        }
    }

    #[test]
    fn an_unknown_key_is_a_warning_with_a_guess() {
        let (_, diagnostics) = tests("type: Test\nspec:\n  nmae: x\n  trigger: {type: k6}\n");
        assert_eq!(diagnostics.len(), 1);
        assert_eq!(diagnostics[0].code, "unknown-key");
        assert_eq!(diagnostics[0].severity, Severity::Warning);
        assert_eq!(diagnostics[0].span, 19..23);
        assert_eq!(diagnostics[0].help.as_deref(), Some("did you mean `name`?"));
    }

    #[test]
    fn a_broken_document_does_not_hide_the_next() {
        let (tests, diagnostics) = tests("type: [\n---\ntype: Test\nspec: {name: b, trigger: {type: k6}}\n");
        assert_eq!(tests.len(), 1);
        assert_eq!(diagnostics.len(), 1);
        assert_eq!(diagnostics[0].code, "yaml-syntax");
    }

    #[test]
    fn a_billion_laughs_are_refused() {
        let mut source = "a: &a [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for (name, before) in [
            ("b", "a"),
            ("c", "b"),
            ("d", "c"),
            ("e", "d"),
            ("f", "e"),
            ("g", "f"),
        ] {
            let aliases = vec![format!("*{before}"); 10].join(", ");
            source.push_str(&format!("{name}: &{name} [{aliases}]\n"));
        }
        let (_, diagnostics) = tests(&source);
        assert_eq!(diagnostics[0].code, "too-large");
    }
}
