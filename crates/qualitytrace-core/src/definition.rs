//! Definitions: tests and the resources around them, as users write them.
//!
//! [`read`] parses a YAML or JSON file into resources. It is total: every text gives the resources that could be
//! read and a list of diagnostics, each with its place in the file. Nothing is dropped silently: an unknown key is
//! a warning.
//!
//! Each kind of resource is one module or folder that has its type, its reader and its JSON side by side. What all of
//! them share is `reader` (fields of a mapping), `shape` (parts of the JSON), `text` and `period`; `write` and this
//! module only choose by kind.

mod analyzer;
mod check;
mod defaults;
mod edit;
mod json;
mod layout;
mod location;
mod period;
mod reader;
mod schema;
pub mod secrets;
pub mod settings;
mod shape;
pub mod source;
mod stored;
pub(crate) mod suite;
mod text;
mod trace_test;
pub mod trigger;
mod variables;
mod write;
mod yaml;

use std::ops::Range;

pub use check::{asserts_nothing, check};
pub use defaults::default_of;
pub use edit::{
    Change, EditError, MAX_CHANGES, edit, has_id, id_place, surroundings, unified_diff,
    with_current_conventions, with_id,
};
pub use layout::{LayoutError, formatted};
pub use location::{Location, location};
pub use schema::{Key, Place, file_schema};
pub use settings::{Config, Demo, PollingProfile, TestRunner};
pub use source::DataStore;
pub use stored::{Flakiness, LastRun, PastRun, Stored, Summary};
pub use suite::{Data, Step, TestSuite};
pub use text::{Origin, Text};
pub use trace_test::{Output, Profile, Spec, Test};
pub use trigger::Trigger;
pub use variables::{Variable, VariableSet};
pub use write::{schemas, spec as to_spec_json, to_json, to_json_stored, to_yaml};

use qualitytrace_config::tree::{Node, Shape};

use crate::analyzer::Analyzer;
use crate::lang::diagnostic::nearest;
use crate::lang::{Diagnostic, Severity};
use reader::Reader;

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// YAML: one or more documents.
    Yaml,
    /// JSON: one document.
    Json,
}

/// The result of reading a file.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// The resources that could be read, in the order of the file.
    pub documents: Vec<Document>,
    /// All errors and warnings, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
}

impl Reading {
    /// Whether the file can be used; `strict` counts warnings as errors.
    pub fn is_usable(&self, strict: bool) -> bool {
        self.diagnostics.iter().all(|diagnostic| !strict && diagnostic.severity == Severity::Warning)
    }
}

/// The code of the diagnostic for a file without any definition.
pub const EMPTY_FILE: &str = "empty-file";

/// One resource of a file.
#[derive(Debug, Clone)]
pub struct Document {
    /// Its content.
    pub resource: Resource,
    /// The bytes of the file that it was read from.
    pub span: Range<usize>,
}

/// A resource that users define.
#[expect(clippy::large_enum_variant, reason = "resources are few, and most of them are tests")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    /// A trigger and what must hold for the trace that it causes.
    Test(Test),
    /// Tests that run in order.
    TestSuite(TestSuite),
    /// Named values that tests can refer to.
    VariableSet(VariableSet),
    /// The source of traces.
    DataStore(DataStore),
    /// How long to wait for a trace.
    PollingProfile(PollingProfile),
    /// The configuration of the analyzer.
    Analyzer(Analyzer),
    /// The gates that a run must pass.
    TestRunner(TestRunner),
    /// Settings of the server.
    Config(Config),
    /// The addresses of a demo system.
    Demo(Demo),
}

impl Resource {
    /// Returns its kind.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Test(_) => Kind::Test,
            Self::TestSuite(_) => Kind::TestSuite,
            Self::VariableSet(_) => Kind::VariableSet,
            Self::DataStore(_) => Kind::DataStore,
            Self::PollingProfile(_) => Kind::PollingProfile,
            Self::Analyzer(_) => Kind::Analyzer,
            Self::TestRunner(_) => Kind::TestRunner,
            Self::Config(_) => Kind::Config,
            Self::Demo(_) => Kind::Demo,
        }
    }

    /// Returns the test, if it is one.
    pub fn into_test(self) -> Option<Test> {
        match self {
            Self::Test(test) => Some(test),
            _ => None,
        }
    }

    /// Returns its id as the file has it; `None` when the file has none, and for singletons.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Test(test) => test.id.as_deref(),
            Self::TestSuite(suite) => suite.id.as_deref(),
            Self::VariableSet(set) => set.id.as_deref(),
            Self::Demo(demo) => demo.id.as_deref(),
            Self::DataStore(_)
            | Self::PollingProfile(_)
            | Self::Analyzer(_)
            | Self::TestRunner(_)
            | Self::Config(_) => None,
        }
    }
}

/// The kinds of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A trigger and what must hold for the trace that it causes.
    Test,
    /// Tests that run in order.
    TestSuite,
    /// Named values that tests can refer to.
    VariableSet,
    /// The source of traces.
    DataStore,
    /// How long to wait for a trace.
    PollingProfile,
    /// The configuration of the analyzer.
    Analyzer,
    /// The gates that a run must pass.
    TestRunner,
    /// Settings of the server.
    Config,
    /// The addresses of a demo system.
    Demo,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Test,
        Self::TestSuite,
        Self::VariableSet,
        Self::DataStore,
        Self::PollingProfile,
        Self::Analyzer,
        Self::TestRunner,
        Self::Config,
        Self::Demo,
    ];

    /// Returns the name that files and the API use as `type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Test => "Test",
            Self::TestSuite => "TestSuite",
            Self::VariableSet => "VariableSet",
            Self::DataStore => "DataStore",
            Self::PollingProfile => "PollingProfile",
            Self::Analyzer => "Analyzer",
            Self::TestRunner => "TestRunner",
            Self::Config => "Config",
            Self::Demo => "Demo",
        }
    }

    /// Finds the kind with this `type`, old names included.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "Transaction" => Some(Self::TestSuite),
            "Linter" => Some(Self::Analyzer),
            _ => Self::ALL.into_iter().find(|kind| kind.as_str() == name),
        }
    }

    /// Whether a server has exactly one of it, under the id `current`.
    pub const fn is_singleton(self) -> bool {
        match self {
            Self::Test | Self::TestSuite | Self::VariableSet | Self::Demo => false,
            Self::DataStore | Self::PollingProfile | Self::Analyzer | Self::TestRunner | Self::Config => true,
        }
    }
}

/// Types that belong to Tracetest's hosted service.
const HOSTED: [&str; 5] = ["Environment", "EnvironmentToken", "Invite", "Monitor", "Organization"];

/// Whether a diagnostic code is about the syntax of a file rather than about its content.
///
/// The API refuses both, but calls the first "parsing" and the second "validating" errors.
pub fn is_about_form(code: &str) -> bool {
    let forms = ["wrong-type", "duplicate-key", "too-deep", "too-large", "json-syntax", EMPTY_FILE];
    forms.contains(&code) || code.starts_with("yaml-")
}

/// Reads every resource of a file.
pub fn read(source: &str, format: Format) -> Reading {
    read_with(source, format, None)
}

/// Reads a file that is known to hold resources of one kind, whatever its `type` is.
pub fn read_as(source: &str, format: Format, kind: Kind) -> Reading {
    read_with(source, format, Some(kind))
}

/// Reads a resource that was checked when it was stored, without diagnostics. `None` if it cannot be read.
pub fn read_stored(source: &str, format: Format, kind: Kind) -> Option<Resource> {
    let reader = Reader::of_stored(source, format);
    parse(&reader).iter().find_map(|node| resource(&reader, node, Some(kind)))
}

/// Reads a trigger alone, as it stands in a test, with the errors and warnings about it in the order of the text.
pub fn read_trigger(source: &str, format: Format) -> (Option<Trigger>, Vec<Diagnostic>) {
    let reader = Reader::new(source, format);
    let mut documents = nodes(&reader);
    documents.retain(|document| !document.is_null());
    let errors = reader.errors();
    let trigger = match documents.as_slice() {
        [node] => trigger::read(&reader, node),
        [] => None,
        [_, second, ..] => {
            reader.error("two-triggers", second.span.clone(), "a second document follows the trigger");
            None
        }
    };
    if trigger.is_none() && reader.errors() == errors && errors == 0 {
        let diagnostic = Diagnostic::error("no-trigger", 0..0, "the text is no trigger that can be sent");
        reader.report(diagnostic.helped("write its `type:`, and its details beside it"));
    }
    let mut diagnostics = reader.finish();
    diagnostics.extend(trigger.iter().flat_map(check::check_trigger));
    diagnostics.sort_by_key(|diagnostic| diagnostic.span.start);
    (trigger, diagnostics)
}

/// Whether a text is meant as a definition: it has `type` or `spec`, or cannot be read and contains `spec`.
pub fn is_meant(source: &str, format: Format) -> bool {
    let reader = Reader::new(source, format);
    let documents = nodes(&reader);
    match format {
        Format::Yaml => {
            let has_key = |node: &Node| node.get("type").is_some() || node.get("spec").is_some();
            documents.iter().any(has_key) || (reader.errors() > 0 && source.contains("spec"))
        }
        // The body of a request is often JSON, and may well have a `type`.
        Format::Json => {
            let has_keys = |node: &Node| node.get("type").is_some() && node.get("spec").is_some();
            let names_keys = source.contains("\"type\"") && source.contains("\"spec\"");
            documents.iter().any(has_keys) || (reader.errors() > 0 && names_keys)
        }
    }
}

fn read_with(source: &str, format: Format, kind: Option<Kind>) -> Reading {
    let reader = Reader::new(source, format);
    let documents: Vec<Document> = parse(&reader)
        .iter()
        .filter_map(|node| {
            let resource = resource(&reader, node, kind)?;
            Some(Document { resource, span: node.span.clone() })
        })
        .collect();
    Reading { documents, diagnostics: reader.finish() }
}

fn nodes(reader: &Reader<'_>) -> Vec<Node> {
    match reader.format {
        Format::Yaml => yaml::parse(reader),
        Format::Json => json::parse(reader).into_iter().collect(),
    }
}

fn parse(reader: &Reader<'_>) -> Vec<Node> {
    let documents = nodes(reader);
    // `---` before the first document or after the last one makes an empty document, which is ignored.
    let documents: Vec<Node> = documents.into_iter().filter(|document| !document.is_null()).collect();
    if documents.is_empty() && reader.errors() == 0 {
        let diagnostic = Diagnostic::error(EMPTY_FILE, 0..0, "the file holds no definition");
        reader.report(diagnostic.helped("write `type:` and `spec:`"));
    }
    documents
}

/// Reads the envelope `{type, spec}` and its content.
fn resource(reader: &Reader<'_>, node: &Node, expected: Option<Kind>) -> Option<Resource> {
    let mut fields = reader.fields(node, "a definition")?;
    let kind_text = fields.text("type").filter(|text| !text.is_empty());
    let spec = fields.get("spec");
    let kind = match (expected, kind_text) {
        (Some(kind), _) => kind,
        (None, Some(text)) => kind_named(reader, &text, spec)?,
        (None, None) => {
            let message = "the definition has no `type`";
            if fields.has("trigger") {
                reader.report(
                    Diagnostic::error("no-type", node.span.start..node.span.start, message)
                        .helped("write `type: Test` and put the rest under `spec:`"),
                );
            } else {
                let help = format!("name one of {}", kinds());
                reader.report(
                    Diagnostic::error("no-type", node.span.start..node.span.start, message).helped(help),
                );
                // With a `spec`, the type is probably there under a mistyped key.
                if spec.is_some() {
                    fields.finish();
                }
            }
            return None;
        }
    };
    fields.finish();
    let nothing = Node { shape: Shape::Null, span: node.span.clone() };
    let errors = reader.errors();
    let read = content(reader, kind, spec.unwrap_or(&nothing));
    if spec.is_none() && reader.errors() == errors {
        let message = format!("the {} has no `spec`", kind.as_str());
        let diagnostic = Diagnostic::error("no-spec", node.span.clone(), message);
        reader.report(diagnostic.helped("put its fields under `spec:`"));
        return None;
    }
    read
}

fn content(reader: &Reader<'_>, kind: Kind, spec: &Node) -> Option<Resource> {
    match kind {
        Kind::Test => trace_test::read(reader, spec).map(Resource::Test),
        Kind::TestSuite => suite::read(reader, spec).map(Resource::TestSuite),
        Kind::VariableSet => variables::read(reader, spec).map(Resource::VariableSet),
        Kind::DataStore => source::read(reader, spec).map(Resource::DataStore),
        Kind::PollingProfile => settings::polling_profile::read(reader, spec).map(Resource::PollingProfile),
        Kind::Analyzer => analyzer::read(reader, spec).map(Resource::Analyzer),
        Kind::TestRunner => settings::test_runner::read(reader, spec).map(Resource::TestRunner),
        Kind::Config => settings::config::read(reader, spec).map(Resource::Config),
        Kind::Demo => settings::demo::read(reader, spec).map(Resource::Demo),
    }
}

fn kind_named(reader: &Reader<'_>, text: &Text, spec: Option<&Node>) -> Option<Kind> {
    let name = text.value.as_str();
    // Before there were hosted environments, a variable set was called an environment.
    if name == "Environment" && spec.is_some_and(|spec| spec.get("values").is_some()) {
        return Some(Kind::VariableSet);
    }
    if let Some(kind) = Kind::named(name) {
        return Some(kind);
    }
    let span = text.place(0..name.len());
    if HOSTED.contains(&name) {
        let message = format!("`{name}` belongs to the hosted service of Tracetest and has no meaning here");
        reader.report(Diagnostic::error("hosted-type", span, message).helped("remove this document"));
        return None;
    }
    let message = format!("`{name}` is not a type of definition");
    let help = match nearest(name, Kind::ALL.map(Kind::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("name one of {}", kinds()),
    };
    reader.report(Diagnostic::error("unknown-type", span, message).helped(help));
    None
}

fn kinds() -> String {
    let names: Vec<String> = Kind::ALL.iter().map(|kind| format!("`{}`", kind.as_str())).collect();
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
        let tests = reading.documents.into_iter().filter_map(|document| match document.resource {
            Resource::Test(test) => Some(test),
            _ => None,
        });
        (tests.collect(), reading.diagnostics)
    }

    /// Returns the bytes of the file that hold `part` of the first assertion.
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
            (">\n\n          attr:a\n          = b\n", "a = b", "a\n          = b"),
            (">\n\n          attr:a\n          = b\n", "a = b", "a\n          = b"),
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
    fn a_trigger_alone_is_read_as_in_a_test() {
        let (trigger, found) = read_trigger("type: http\nhttpRequest:\n  url: ${1 +}\n", Format::Yaml);
        assert_eq!(trigger.map(|trigger| trigger.kind()), Some("http"));
        assert!(found.iter().all(|found| !found.is_error()) && found[0].span.start > 30, "{found:?}");
        for (source, code) in [
            ("", "no-trigger"),
            ("{}", "no-trigger"),
            ("type: htp\n", "unknown-trigger"),
            ("type: [", "yaml-syntax"),
            ("type: k6\n---\ntype: k6\n", "two-triggers"),
            ("http", "wrong-type"),
        ] {
            let (trigger, found) = read_trigger(source, Format::Yaml);
            assert_eq!(trigger, None, "{source}");
            assert_eq!(found.iter().find(|found| found.is_error()).map(|found| found.code), Some(code));
        }
    }

    #[test]
    fn a_billion_laughs_are_refused() {
        let mut source = "a: &a [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for (name, before) in [("b", "a"), ("c", "b"), ("d", "c"), ("e", "d"), ("f", "e"), ("g", "f")] {
            let aliases = vec![format!("*{before}"); 10].join(", ");
            source = format!("{source}{name}: &{name} [{aliases}]\n");
        }
        let (_, diagnostics) = tests(&source);
        assert_eq!(diagnostics[0].code, "too-large");
    }
}
