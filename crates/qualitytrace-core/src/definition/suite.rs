//! Reading a test suite.

use super::node::Node;
use super::reader::Reader;
use super::text::Text;

/// Tests that run one after the other; the outputs of each are variables of the later ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TestSuite {
    /// Names the suite; `None` until it is stored, when one is made up.
    pub id: Option<String>,
    /// A title for people.
    pub name: String,
    /// What it is about.
    pub description: String,
    /// The tests: ids, or paths for the command line.
    pub steps: Vec<Text>,
}

pub(super) fn read(reader: &Reader<'_>, node: &Node) -> Option<TestSuite> {
    let mut fields = reader.fields(node, "a test suite")?;
    let suite = TestSuite {
        id: fields.string("id").filter(|id| !id.is_empty()),
        name: fields.required_name("test suite name cannot be empty"),
        description: fields.string("description").unwrap_or_default(),
        steps: fields.texts("steps"),
    };
    fields.int("version");
    fields.text("createdAt");
    // `env` belongs to the first suites ever; `fullSteps` and `summary` to answers of the API.
    fields.ignore(&["summary", "fullSteps", "env"]);
    fields.finish();
    for step in suite.steps.iter().filter(|step| step.is_empty()) {
        reader.error("empty-step", step.place(0..0), "this step names no test");
    }
    Some(suite)
}
