//! Writing resources in the form that the API speaks: the keys, their order, and what is left out when it is empty.

mod settings;
mod source;
mod test;
mod trigger;

use serde_json::{Map, Value, json};

use super::{Kind, Resource, Text};

/// What a server knows about a resource beside its definition. Empty for one that is not stored.
#[derive(Debug, Clone, Default)]
pub struct Stored {
    /// Its id, when the definition has none.
    pub id: Option<String>,
    /// When it was first stored, in RFC 3339.
    pub created_at: Option<String>,
    /// How often it has changed, counted from 1.
    pub version: Option<u32>,
    /// The tests of a suite, in full.
    pub full_steps: Option<Vec<Value>>,
    /// How its runs went.
    pub summary: Option<Value>,
}

/// The resource as `{type, spec}`.
pub fn to_json(resource: &Resource) -> Value {
    to_json_stored(resource, &Stored::default())
}

/// The stored resource as `{type, spec}`.
pub fn to_json_stored(resource: &Resource, stored: &Stored) -> Value {
    json!({ "type": resource.kind().as_str(), "spec": spec(resource, stored) })
}

/// What stands under `spec`.
pub fn spec(resource: &Resource, stored: &Stored) -> Value {
    let mut out = Object::default();
    let id = match resource.kind() {
        Kind::Config | Kind::DataStore | Kind::PollingProfile | Kind::Analyzer | Kind::TestRunner => {
            Some("current")
        }
        Kind::Test | Kind::TestSuite | Kind::VariableSet | Kind::Demo => {
            resource.id().or(stored.id.as_deref())
        }
    };
    out.filled("id", id.unwrap_or_default());
    match resource {
        Resource::Test(test) => test::test(&mut out, test, stored),
        Resource::TestSuite(suite) => test::suite(&mut out, suite, stored),
        Resource::VariableSet(set) => settings::variables(&mut out, set, stored),
        Resource::DataStore(store) => source::data_store(&mut out, store, stored),
        Resource::PollingProfile(profile) => settings::polling_profile(&mut out, profile),
        Resource::Analyzer(analyzer) => settings::analyzer(&mut out, analyzer),
        Resource::TestRunner(runner) => settings::test_runner(&mut out, runner),
        Resource::Config(config) => settings::config(&mut out, config),
        Resource::Demo(demo) => settings::demo(&mut out, demo),
    }
    out.into()
}

/// A JSON value as YAML, in the style of definition files.
pub fn to_yaml(value: &Value) -> String {
    let options = serde_saphyr::ser_options! {
        // A folded text reads back the same but is no fun to edit.
        folded_wrap_chars: 1_000_000,
        yaml_12: true,
        no_lang_directive: true,
    };
    serde_saphyr::to_string_with_options(value, options).unwrap_or_default()
}

/// An object that is being written.
#[derive(Default)]
struct Object(Map<String, Value>);

impl Object {
    /// A key that is always there.
    fn put(&mut self, key: &str, value: impl Into<Value>) {
        self.0.insert(key.to_owned(), value.into());
    }

    /// A text that is left out when it is empty.
    fn filled(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.put(key, text);
        }
    }

    /// A truth value that is left out when it is false.
    fn flag(&mut self, key: &str, flag: bool) {
        if flag {
            self.put(key, flag);
        }
    }

    /// A value that is left out when there is none.
    fn maybe<T: Into<Value>>(&mut self, key: &str, value: Option<T>) {
        if let Some(value) = value {
            self.put(key, value);
        }
    }

    /// A list that is left out when it is empty.
    fn list(&mut self, key: &str, items: Vec<Value>) {
        if !items.is_empty() {
            self.put(key, items);
        }
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Self {
        Self::Object(object.0)
    }
}

fn texts(texts: &[Text]) -> Vec<Value> {
    texts.iter().map(|text| text.value.clone().into()).collect()
}
