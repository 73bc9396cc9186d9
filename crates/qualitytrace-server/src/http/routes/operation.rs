//! Operations of the `OpenAPI` description, each written where its route is registered.
//!
//! An operation says what the API's description tells about a route: parameters, body and responses. It knows neither
//! the handler nor how the document is made of it.

use qualitytrace_core::definition::Kind;
use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema};

/// A type, as the function that generates its schema.
pub(crate) type Shape = fn(&mut SchemaGenerator) -> Schema;

/// A response: its status and its content.
pub(crate) type Answer = (u16, Content);

/// The schema of a type.
pub(crate) fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// The request body of a route.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Body {
    /// JSON of this type.
    Json(Shape),
    /// JSON as another route returns it.
    Shown(Shape),
    /// The `spec` of a resource.
    Spec(Kind),
    /// A resource, in JSON or YAML.
    Resource(Kind),
    /// Traces in the JSON of another tool, or one such document on each line.
    TraceFile,
}

/// The content of a response.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Content {
    /// Nothing.
    Nothing,
    /// JSON of this type.
    Json(Shape),
    /// JSON of this type, with a header that holds the total count.
    Counted(Shape),
    /// Another content type.
    Other(&'static str),
    /// Server-sent events.
    Events,
    /// JSON or YAML of this type, by content negotiation.
    Negotiated(Shape),
    /// A resource, by content negotiation.
    Resource(Kind),
    /// A list of resources, by content negotiation.
    Resources(Kind),
    /// The `spec` of a resource, by content negotiation.
    Spec(Kind),
    /// A definition as the user wrote it.
    Source,
    /// A trace: JSON of this type, OTLP JSON or Jaeger JSON.
    Trace(Shape),
}

/// The description of one route.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) summary: String,
    /// The path in the description, if it is not that of the route.
    pub(crate) path: Option<&'static str>,
    pub(crate) body: Option<Body>,
    /// Its responses, beside those that any route may return.
    pub(crate) answers: Vec<Answer>,
    /// The query parameters.
    pub(crate) queries: &'static [&'static str],
    /// Whether its data is separate for each tenant.
    pub(crate) is_of_tenant: bool,
    /// The kind of resource that it lists.
    pub(crate) lists: Option<Kind>,
    /// Whether it returns more on request.
    pub(crate) is_augmentable: bool,
    /// Whether it takes the version that it expects to replace.
    pub(crate) is_conditional: bool,
}

/// Describes a route whose data is separate for each tenant.
pub(crate) fn operation(summary: impl Into<String>, answers: impl Into<Vec<Answer>>) -> Operation {
    Operation {
        summary: summary.into(),
        path: None,
        body: None,
        answers: answers.into(),
        queries: &[],
        is_of_tenant: true,
        lists: None,
        is_augmentable: false,
        is_conditional: false,
    }
}

/// Leaves a route out of the description.
pub(crate) const fn hidden() -> Option<Operation> {
    None
}

impl Operation {
    /// Describes one path of a route that has a parameter.
    pub(crate) fn documented_as(self, path: &'static str) -> Self {
        Self { path: Some(path), ..self }
    }

    pub(crate) fn taking(self, body: Body) -> Self {
        Self { body: Some(body), ..self }
    }

    /// Whether the body is a file of any size, which the handler measures.
    pub(crate) fn takes_a_file(&self) -> bool {
        matches!(self.body, Some(Body::TraceFile))
    }

    pub(crate) fn asking(self, queries: &'static [&'static str]) -> Self {
        Self { queries, ..self }
    }

    /// Marks a paginated list of resources of this kind.
    pub(crate) fn listing(self, kind: Kind) -> Self {
        // What only some kinds can be filtered by comes last.
        const ALL: &[&str] =
            &["take", "skip", "query", "sortBy", "sortDirection", "tag", "outcome", "trigger"];
        let count = match kind {
            Kind::Test => ALL.len(),
            Kind::TestSuite => ALL.len() - 2,
            _ => ALL.len() - 3,
        };
        Self { lists: Some(kind), ..self }.asking(&ALL[..count])
    }

    /// Marks a route that takes the version that it expects to replace.
    pub(crate) fn conditional(self) -> Self {
        Self { is_conditional: true, ..self }
    }

    /// Marks a route that is the same for all tenants.
    pub(crate) fn for_all(self) -> Self {
        Self { is_of_tenant: false, ..self }
    }

    /// Marks a route that returns more on request, where resources of this kind have more.
    pub(crate) fn augmentable(self, kind: Kind) -> Self {
        Self { is_augmentable: matches!(kind, Kind::Test | Kind::TestSuite), ..self }
    }
}
