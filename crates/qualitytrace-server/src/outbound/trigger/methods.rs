//! What a server offers to triggers: the methods of its gRPC services, or its GraphQL operations.

use serde_json::Value;

/// Names and templates in one answer take at most so many bytes; the rest is left out.
pub(super) const MAX_ANSWER_BYTES: usize = 4 << 20;

/// The methods of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Methods {
    /// Whether the server described itself. Otherwise the trigger has the description.
    pub is_from_server: bool,
    /// Whether all of them are listed.
    pub is_complete: bool,
    /// What is offered.
    pub offered: Offered,
}

/// What a server offers, by the kind of trigger.
#[derive(Debug, Clone, PartialEq)]
pub enum Offered {
    /// gRPC services, sorted by name.
    Services(Vec<Service>),
    /// GraphQL operations, in the order of the schema: queries, mutations, subscriptions.
    Operations(Vec<Operation>),
}

/// A gRPC service.
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    /// The name with its package.
    pub name: String,
    /// Its methods, in the order of the protocol.
    pub methods: Vec<Method>,
}

/// A gRPC method.
#[derive(Debug, Clone, PartialEq)]
pub struct Method {
    /// Its name.
    pub name: String,
    /// The type of the request.
    pub input: String,
    /// The type of the response.
    pub output: String,
    /// Whether it takes a stream of requests.
    pub is_client_streaming: bool,
    /// Whether it returns a stream of responses.
    pub is_server_streaming: bool,
    /// A request with every field at its default.
    pub request: Value,
}

/// A GraphQL operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// `query`, `mutation` or `subscription`.
    pub kind: &'static str,
    /// The name of the field.
    pub name: String,
    /// The type of its result.
    pub result: String,
    /// Its arguments.
    pub arguments: Vec<Argument>,
    /// A query with a variable for each argument, which asks for the plain fields of the result.
    pub query: String,
}

/// An argument of a GraphQL operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: String,
    /// Whether it must be given.
    pub is_required: bool,
    /// Its default, as the schema writes it.
    pub default: Option<String>,
}
