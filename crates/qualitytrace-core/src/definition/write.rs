//! Writes resources in the JSON of the API: the keys, their order, and which empty ones are left out.
//!
//! Each JSON shape is a type, and [`schemas`] describes these types, so a changed key changes its schema.

mod settings;
mod source;
mod test;
mod trigger;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::{Kind, Resource, Text};

pub use test::{Flakiness, LastRun, Summary};

/// The server's data about a resource beside its definition. Empty for one that is not stored.
#[derive(Debug, Clone, Default)]
pub struct Stored {
    /// Its id, when the definition has none.
    pub id: Option<String>,
    /// When it was first stored, in RFC 3339.
    pub created_at: Option<String>,
    /// Its version, counted from 1.
    pub version: Option<u32>,
    /// The tests of a suite, in full.
    pub full_steps: Option<Vec<Value>>,
    /// A summary of its runs.
    pub summary: Option<Summary>,
}

/// Returns the resource as `{type, spec}`.
pub fn to_json(resource: &Resource) -> Value {
    to_json_stored(resource, &Stored::default())
}

/// Returns the stored resource as `{type, spec}`.
pub fn to_json_stored(resource: &Resource, stored: &Stored) -> Value {
    serde_json::json!({ "type": resource.kind().as_str(), "spec": spec(resource, stored) })
}

/// Returns the content of `spec`.
pub fn spec(resource: &Resource, stored: &Stored) -> Value {
    let id = match resource.kind() {
        Kind::Config | Kind::DataStore | Kind::PollingProfile | Kind::Analyzer | Kind::TestRunner => {
            Some("current")
        }
        Kind::Test | Kind::TestSuite | Kind::VariableSet | Kind::Demo => {
            resource.id().or(stored.id.as_deref())
        }
    };
    let id = id.unwrap_or_default();
    match resource {
        Resource::Test(test) => json(&test::TestSpec::of(id, test, stored)),
        Resource::TestSuite(suite) => json(&test::TestSuiteSpec::of(id, suite, stored)),
        Resource::VariableSet(set) => json(&settings::VariableSetSpec::of(id, set, stored)),
        Resource::DataStore(store) => json(&source::DataStoreSpec::of(id, store, stored)),
        Resource::PollingProfile(profile) => json(&settings::PollingProfileSpec::of(id, profile)),
        Resource::Analyzer(analyzer) => json(&settings::AnalyzerSpec::of(id, analyzer)),
        Resource::TestRunner(runner) => json(&settings::TestRunnerSpec::of(id, runner)),
        Resource::Config(config) => json(&settings::ConfigSpec::of(id, config)),
        Resource::Demo(demo) => json(&settings::DemoSpec::of(id, demo)),
    }
}

/// Returns the JSON Schemas of all specs, each named by its kind and `Spec`, and of their parts. References
/// between them begin with `#` and `path`. A client may leave out every key of a spec, so none is required.
pub fn schemas(path: &'static str) -> Map<String, Value> {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
        settings.definitions_path = path.into();
        settings.transforms.push(Box::new(RecursiveTransform(requiring_nothing)));
    });
    let mut generator = settings.into_generator();
    generator.subschema_for::<test::TestSpec>();
    generator.subschema_for::<test::TestSuiteSpec>();
    generator.subschema_for::<settings::VariableSetSpec>();
    generator.subschema_for::<source::DataStoreSpec>();
    generator.subschema_for::<settings::PollingProfileSpec>();
    generator.subschema_for::<settings::AnalyzerSpec>();
    generator.subschema_for::<settings::TestRunnerSpec>();
    generator.subschema_for::<settings::ConfigSpec>();
    generator.subschema_for::<settings::DemoSpec>();
    generator.take_definitions(true)
}

fn requiring_nothing(schema: &mut Schema) {
    schema.remove("required");
}

/// Formats a JSON value as YAML, in the style of definition files.
pub fn to_yaml(value: &Value) -> String {
    let options = serde_saphyr::ser_options! {
        // A folded text reads back the same but is hard to edit.
        folded_wrap_chars: 1_000_000,
        yaml_12: true,
        no_lang_directive: true,
    };
    serde_saphyr::to_string_with_options(value, options).unwrap_or_default()
}

/// Serialization of these types cannot fail.
fn json(spec: &impl Serialize) -> Value {
    serde_json::to_value(spec).unwrap_or_default()
}

/// Whether a value is the default one and left out.
fn is_blank<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// An object with keys of the user's own, in their order.
#[derive(Debug, Default, PartialEq, JsonSchema)]
#[schemars(with = "std::collections::BTreeMap<String, String>", inline)]
struct Pairs<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Pairs<'a> {
    fn of(pairs: &'a [(String, Text)]) -> Self {
        Self(pairs.iter().map(|(name, value)| (name.as_str(), value.value.as_str())).collect())
    }

    fn sorted(mut self) -> Self {
        self.0.sort_by_key(|(name, _)| *name);
        self
    }
}

impl Serialize for Pairs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

fn texts(texts: &[Text]) -> Vec<&str> {
    texts.iter().map(|text| text.value.as_str()).collect()
}
