//! What a server offers to triggers.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::outbound::trigger::{self, Methods, Offered};

/// The methods of a server.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TriggerMethods {
    /// The type of trigger.
    #[serde(rename = "type")]
    kind: MethodsKind,
    /// Who described them.
    from: DescribedBy,
    /// Whether some are left out: there are too many, or the server does not describe them.
    truncated: bool,
    /// gRPC: the services, sorted by name.
    services: Vec<GrpcService>,
    /// GraphQL: the operations in the order of the schema: queries, mutations, subscriptions.
    operations: Vec<GraphqlOperation>,
}

/// A type of trigger whose server has methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MethodsKind {
    /// gRPC.
    Grpc,
    /// GraphQL.
    Graphql,
}

/// Where a description comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DescribedBy {
    /// The server: reflection or introspection.
    Server,
    /// The trigger: `protobufFile`, `descriptorSet` or `schema`.
    Trigger,
}

/// A gRPC service.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrpcService {
    /// The name with its package.
    name: String,
    /// Its methods.
    methods: Vec<GrpcMethod>,
}

/// A gRPC method.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrpcMethod {
    /// Its name.
    name: String,
    /// Service and method, as a trigger's `method` has them.
    full_name: String,
    /// The type of the request.
    input: String,
    /// The type of the response.
    output: String,
    /// Whether it takes a stream of requests.
    client_streaming: bool,
    /// Whether it returns a stream of responses.
    server_streaming: bool,
    /// A request with every field at its default, to be filled in.
    request: Value,
}

/// A GraphQL operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GraphqlOperation {
    /// `query`, `mutation` or `subscription`.
    kind: &'static str,
    /// The name of the field.
    name: String,
    /// The type of its result.
    #[serde(rename = "type")]
    result: String,
    /// Its arguments.
    arguments: Vec<GraphqlArgument>,
    /// A query with a variable for each argument.
    query: String,
}

/// An argument of a GraphQL operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GraphqlArgument {
    /// Its name.
    name: String,
    /// Its type.
    #[serde(rename = "type")]
    kind: String,
    /// Whether it must be given.
    required: bool,
    /// Its default, as the schema writes it.
    default: Option<String>,
}

impl From<Methods> for TriggerMethods {
    fn from(methods: Methods) -> Self {
        let from = if methods.is_from_server { DescribedBy::Server } else { DescribedBy::Trigger };
        let truncated = !methods.is_complete;
        match methods.offered {
            Offered::Services(services) => Self {
                kind: MethodsKind::Grpc,
                from,
                truncated,
                services: services.into_iter().map(Into::into).collect(),
                operations: Vec::new(),
            },
            Offered::Operations(operations) => Self {
                kind: MethodsKind::Graphql,
                from,
                truncated,
                services: Vec::new(),
                operations: operations.into_iter().map(Into::into).collect(),
            },
        }
    }
}

impl From<trigger::Service> for GrpcService {
    fn from(service: trigger::Service) -> Self {
        let methods = service.methods.into_iter().map(|method| GrpcMethod {
            full_name: format!("{}.{}", service.name, method.name),
            name: method.name,
            input: method.input,
            output: method.output,
            client_streaming: method.is_client_streaming,
            server_streaming: method.is_server_streaming,
            request: method.request,
        });
        Self { methods: methods.collect(), name: service.name }
    }
}

impl From<trigger::Operation> for GraphqlOperation {
    fn from(operation: trigger::Operation) -> Self {
        let arguments = operation.arguments.into_iter().map(|argument| GraphqlArgument {
            name: argument.name,
            kind: argument.kind,
            required: argument.is_required,
            default: argument.default,
        });
        Self {
            kind: operation.kind,
            name: operation.name,
            result: operation.result,
            arguments: arguments.collect(),
            query: operation.query,
        }
    }
}
