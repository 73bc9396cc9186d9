//! Writes resources in the JSON of the API: the keys, their order, and which empty ones are left out.
//!
//! Each JSON shape is a type, and [`schemas`] describes these types, so a changed key changes its schema.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use serde::Serialize;
use serde_json::{Map, Value};

use super::analyzer::AnalyzerSpec;
use super::settings::config::ConfigSpec;
use super::settings::demo::DemoSpec;
use super::settings::polling_profile::PollingProfileSpec;
use super::settings::test_runner::TestRunnerSpec;
use super::source::DataStoreSpec;
use super::stored::Stored;
use super::suite::TestSuiteSpec;
use super::trace_test::TestSpec;
use super::variables::VariableSetSpec;
use super::{Kind, Resource};

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
        Resource::Test(test) => json(&TestSpec::of(id, test, stored)),
        Resource::TestSuite(suite) => json(&TestSuiteSpec::of(id, suite, stored)),
        Resource::VariableSet(set) => json(&VariableSetSpec::of(id, set, stored)),
        Resource::DataStore(store) => json(&DataStoreSpec::of(id, store, stored)),
        Resource::PollingProfile(profile) => json(&PollingProfileSpec::of(id, profile)),
        Resource::Analyzer(analyzer) => json(&AnalyzerSpec::of(id, analyzer)),
        Resource::TestRunner(runner) => json(&TestRunnerSpec::of(id, runner)),
        Resource::Config(config) => json(&ConfigSpec::of(id, config)),
        Resource::Demo(demo) => json(&DemoSpec::of(id, demo)),
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
    generator.subschema_for::<TestSpec>();
    generator.subschema_for::<TestSuiteSpec>();
    generator.subschema_for::<VariableSetSpec>();
    generator.subschema_for::<DataStoreSpec>();
    generator.subschema_for::<PollingProfileSpec>();
    generator.subschema_for::<AnalyzerSpec>();
    generator.subschema_for::<TestRunnerSpec>();
    generator.subschema_for::<ConfigSpec>();
    generator.subschema_for::<DemoSpec>();
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
