//! JSON Schemas of requests and responses, derived from their types.

use qualitytrace_core::definition::{self, Kind};
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use crate::http::routes::operation::{Body, Content, Shape};
use crate::serve::api::negotiation::{Form, MEDIA};

/// The path of the schemas in the document.
const PATH: &str = "/components/schemas";

/// The schemas requested so far.
pub(super) struct Schemas {
    /// Schemas of what is written.
    answers: SchemaGenerator,
    /// Schemas of what is read: other keys are optional there. They are inlined.
    bodies: SchemaGenerator,
}

impl Schemas {
    pub(super) fn new() -> Self {
        let answers = SchemaSettings::draft2020_12().for_serialize();
        let answers = answers.with(|settings| settings.definitions_path = PATH.into());
        let bodies = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
        Self { answers: answers.into_generator(), bodies: bodies.into_generator() }
    }

    /// The content of a response, by content type.
    pub(super) fn content(&mut self, content: &Content) -> Map<String, Value> {
        match content {
            Content::Nothing => Map::new(),
            Content::Json(shape) | Content::Counted(shape) => typed("application/json", &self.answer(*shape)),
            Content::Other(media) => typed(media, &json!({ "type": "string" })),
            // Each event has a sequence number under `id` and JSON under `data`.
            Content::Events => typed("text/event-stream", &json!({})),
            Content::Trace(shape) => {
                let mut all = typed("application/json", &self.answer(*shape));
                for other in ["application/vnd.otlp+json", "application/vnd.jaeger+json"] {
                    all.extend(typed(other, &json!({ "type": "object" })));
                }
                all
            }
            Content::Source => {
                let mut all = typed("text/yaml", &json!({}));
                all.extend(typed("application/json", &json!({})));
                all
            }
            Content::Negotiated(shape) => negotiated(&self.answer(*shape)),
            Content::Resource(kind) => negotiated(&reference(kind.as_str())),
            Content::Resources(kind) => negotiated(&reference(&format!("{}List", kind.as_str()))),
            Content::Spec(kind) => negotiated(&reference(&spec(*kind))),
        }
    }

    /// The content of a request body, by content type.
    pub(super) fn body(&mut self, body: &Body) -> Map<String, Value> {
        match body {
            Body::Json(shape) => typed("application/json", &Value::from(shape(&mut self.bodies))),
            Body::Shown(shape) => typed("application/json", &self.answer(*shape)),
            Body::Spec(kind) => typed("application/json", &reference(&spec(*kind))),
            Body::TraceFile => typed("application/json", &json!({ "type": ["object", "array"] })),
            Body::Resource(kind) => {
                let mut all = typed("application/json", &reference(kind.as_str()));
                all.extend(typed("text/yaml", &reference(kind.as_str())));
                for content in all.values_mut() {
                    content["example"] = example(*kind);
                }
                all
            }
        }
    }

    fn answer(&mut self, shape: Shape) -> Value {
        shape(&mut self.answers).into()
    }

    /// Every schema by its name.
    pub(super) fn all(mut self) -> Map<String, Value> {
        let mut all = definition::schemas(PATH);
        for kind in Kind::ALL {
            let (name, spec) = (kind.as_str(), reference(&spec(kind)));
            all.insert(name.to_owned(), object(&json!({ "type": { "const": name }, "spec": spec })));
            let items = json!({ "type": "array", "items": reference(name) });
            let list = json!({ "count": { "type": "integer", "minimum": 0 }, "items": items });
            all.insert(format!("{name}List"), object(&list));
        }
        all.extend(self.answers.take_definitions(true));
        all
    }
}

/// An example of a resource.
fn example(kind: Kind) -> Value {
    let request = json!({ "method": "GET", "url": "http://localhost:8080/orders" });
    let spec =
        json!({ "selector": "span[name=\"GET /orders\"]", "assertions": ["attr:http.status_code = 200"] });
    let spec = match kind {
        Kind::Test => {
            let trigger = json!({ "type": "http", "httpRequest": request });
            json!({ "id": "orders", "name": "List orders", "trigger": trigger, "specs": [spec] })
        }
        Kind::TestSuite => json!({ "id": "shop", "name": "The shop", "steps": ["orders"] }),
        Kind::VariableSet => {
            json!({ "id": "local", "name": "Local", "values": [{ "key": "HOST", "value": "localhost" }] })
        }
        Kind::Demo => json!({ "id": "demo", "name": "Pokeshop", "type": "pokeshop", "enabled": true }),
        Kind::DataStore | Kind::PollingProfile | Kind::Analyzer | Kind::TestRunner | Kind::Config => {
            return definition::to_json(&definition::default_of(kind));
        }
    };
    json!({ "type": kind.as_str(), "spec": spec })
}

/// An object with exactly these keys, all required.
fn object(properties: &Value) -> Value {
    let required: Vec<&String> = properties.as_object().into_iter().flatten().map(|(key, _)| key).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// The name of the schema of a `spec`.
fn spec(kind: Kind) -> String {
    format!("{}Spec", kind.as_str())
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#{PATH}/{name}") })
}

fn typed(media: &str, schema: &Value) -> Map<String, Value> {
    Map::from_iter([(media.to_owned(), json!({ "schema": schema }))])
}

/// JSON and YAML under all their media types; a YAML stream is any number of documents.
fn negotiated(schema: &Value) -> Map<String, Value> {
    let one = |form| match form {
        Form::Json | Form::Yaml => schema.clone(),
        Form::YamlStream => json!({ "type": "string" }),
    };
    MEDIA.iter().flat_map(|media| typed(media.name, &one(media.form))).collect()
}
