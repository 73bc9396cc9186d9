//! The one table of names that have two spellings.
//!
//! Files and clients were written for Tracetest and for its fork Qualitytrace. Internally the `tracetest` spelling
//! is used, because it is the one on the wire; a `qualitytrace` spelling is converted on input.

mod values;

use std::borrow::Cow;

pub(crate) use values::{converted, current_value, grpc_number};

/// The span of the trigger itself: the root of every tested trace.
pub const TRIGGER_SPAN: &str = "Tracetest trigger";
/// Its other spelling.
pub const TRIGGER_SPAN_ALIAS: &str = "Qualitytrace trigger";
/// `service.name` of the trigger span.
pub const TRIGGER_SERVICE: &str = "tracetest";

/// Status of the trigger's response, on the trigger span.
pub const RESPONSE_STATUS: &str = "tracetest.response.status";
/// Body of the trigger's response, on the trigger span.
pub const RESPONSE_BODY: &str = "tracetest.response.body";
/// Headers of the trigger's response as a JSON list of `{key, value}`, on the trigger span.
pub const RESPONSE_HEADERS: &str = "tracetest.response.headers";

/// The message of a gRPC status, on the trigger span.
pub const RESPONSE_MESSAGE: &str = "tracetest.response.message";
/// Further details of a gRPC status as a JSON list, on the trigger span.
pub const RESPONSE_DETAILS: &str = "tracetest.response.details";
/// All messages of a gRPC server's stream as a JSON list, on the trigger span.
pub const RESPONSE_MESSAGES: &str = "tracetest.response.messages";
/// The standard error of a command, on the trigger span.
pub const RESPONSE_STDERR: &str = "tracetest.response.stderr";

const PREFIX: &str = "tracetest.";
const PREFIX_ALIAS: &str = "qualitytrace.";

/// Whether an environment variable is a setting of the product itself.
pub fn is_own_setting(variable: &str) -> bool {
    variable.starts_with("TRACETEST_") || variable.starts_with("QUALITYTRACE_")
}

/// Normalizes an attribute name: `qualitytrace.x` becomes `tracetest.x`, all others stay.
pub fn attribute(name: &str) -> Cow<'_, str> {
    match name.strip_prefix(PREFIX_ALIAS) {
        Some(rest) => Cow::Owned(format!("{PREFIX}{rest}")),
        None => Cow::Borrowed(name),
    }
}

/// Returns the other spelling of an attribute's name: `qualitytrace.x` for `tracetest.x`.
pub fn other_spelling(name: &str) -> Option<String> {
    name.strip_prefix(PREFIX).map(|rest| format!("{PREFIX_ALIAS}{rest}"))
}

/// Normalizes a span name: both spellings of the trigger span become one.
pub fn span(name: &str) -> &str {
    if name == TRIGGER_SPAN_ALIAS { TRIGGER_SPAN } else { name }
}

/// Groups of attribute names that mean the same in different versions of the OpenTelemetry semantic conventions.
const SAME: &[&[&str]] = &[
    &["http.status_code", "http.response.status_code"],
    &["http.method", "http.request.method"],
    &["http.url", "url.full"],
    &["http.target", "url.path"],
    &["http.scheme", "url.scheme"],
    &["http.user_agent", "user_agent.original", "browser.user_agent"],
    &["http.request_content_length", "http.request.body.size"],
    &["http.response_content_length", "http.response.body.size"],
    &["http.client_ip", "client.address"],
    &["http.flavor", "network.protocol.version", "net.protocol.version", "net.app.protocol.version"],
    &["http.resend_count", "http.request.resend_count"],
    &[
        "net.peer.name",
        "server.address",
        "net.host.name",
        "http.host",
        "http.server_name",
        "tls.client.server_name",
    ],
    &["net.peer.port", "server.port", "net.host.port"],
    &["net.peer.ip", "net.sock.peer.addr", "network.peer.address"],
    &["net.sock.peer.port", "network.peer.port"],
    &["net.transport", "network.transport"],
    &["net.protocol.name", "network.protocol.name", "net.app.protocol.name", "messaging.protocol"],
    &["net.host.connection.subtype", "network.connection.subtype"],
    &["net.host.carrier.name", "network.carrier.name"],
    &["net.host.connection.type", "network.connection.type"],
    &["db.system", "db.system.name"],
    &["db.name", "db.namespace", "db.redis.database_index", "db.elasticsearch.cluster.name"],
    &["db.statement", "db.query.text"],
    &["db.operation", "db.operation.name"],
    &[
        "db.sql.table",
        "db.collection.name",
        "db.mongodb.collection",
        "db.cassandra.table",
        "db.cosmosdb.container",
    ],
    &["db.cosmosdb.status_code", "db.response.status_code"],
    &["messaging.destination", "messaging.destination.name"],
    &["messaging.operation", "messaging.operation.type"],
    &["messaging.message_id", "messaging.message.id"],
    &["messaging.conversation_id", "messaging.message.conversation_id"],
    &[
        "messaging.client_id",
        "messaging.client.id",
        "messaging.kafka.client_id",
        "messaging.rocketmq.client_id",
        "messaging.consumer_id",
        "messaging.consumer.id",
    ],
    &["messaging.destination_kind", "messaging.destination.kind"],
    &["messaging.servicebus.destination.subscription_name", "messaging.destination.subscription.name"],
    &["messaging.temp_destination", "messaging.destination.temporary"],
    &[
        "messaging.message_payload_size_bytes",
        "messaging.message.payload_size_bytes",
        "messaging.message.body.size",
    ],
    &["messaging.kafka.message_key", "messaging.kafka.message.key"],
    &[
        "messaging.kafka.consumer_group",
        "messaging.kafka.consumer.group",
        "messaging.consumer.group.name",
        "messaging.rocketmq.client_group",
        "messaging.eventhubs.consumer.group",
    ],
    &[
        "messaging.kafka.partition",
        "messaging.kafka.destination.partition",
        "messaging.destination.partition.id",
    ],
    &["messaging.kafka.message.offset", "messaging.kafka.offset"],
    &["messaging.kafka.tombstone", "messaging.kafka.message.tombstone"],
    &["messaging.rabbitmq.routing_key", "messaging.rabbitmq.destination.routing_key"],
    &["rpc.system", "rpc.system.name"],
    &["rpc.grpc.status_code", "rpc.response.status_code", "rpc.connect_rpc.error_code"],
    &["rpc.jsonrpc.request_id", "jsonrpc.request.id"],
    &["rpc.jsonrpc.version", "jsonrpc.protocol.version"],
    &["message.type", "rpc.message.type"],
    &["message.id", "rpc.message.id"],
    &["faas.execution", "faas.invocation_id"],
    &["faas.id", "cloud.resource_id"],
    &["deployment.environment", "deployment.environment.name"],
    &["code.function", "code.function.name"],
    &["code.filepath", "code.file.path"],
    &["code.lineno", "code.line.number"],
    &["code.column", "code.column.number"],
    &["otel.library.name", "otel.scope.name"],
    &["otel.library.version", "otel.scope.version"],
    &["telemetry.auto.version", "telemetry.distro.version"],
    &["container.runtime", "container.runtime.name"],
    &["enduser.id", "user.id"],
    &["enduser.role", "user.roles"],
    &["az.namespace", "azure.resource_provider.namespace"],
    &["az.service_request_id", "azure.service.request.id"],
    &["db.cassandra.consistency_level", "cassandra.consistency.level"],
    &["db.elasticsearch.node.name", "elasticsearch.node.name"],
    &["feature_flag.variant", "feature_flag.result.variant"],
    &["feature_flag.provider_name", "feature_flag.provider.name"],
    &["feature_flag.evaluation.reason", "feature_flag.result.reason"],
    &["gen_ai.system", "gen_ai.provider.name"],
    &["gen_ai.usage.prompt_tokens", "gen_ai.usage.input_tokens"],
    &["gen_ai.usage.completion_tokens", "gen_ai.usage.output_tokens"],
    &["gen_ai.openai.request.seed", "gen_ai.request.seed"],
    &["vcs.repository.ref.name", "vcs.ref.head.name"],
    &["vcs.repository.ref.revision", "vcs.ref.head.revision"],
    &["vcs.repository.change.id", "vcs.change.id"],
    &["peer.service", "service.peer.name"],
];

/// The current names of attributes that older conventions call otherwise, where one name became one other.
const CURRENT: &[(&str, &str)] = &[
    ("code.column", "code.column.number"),
    ("code.filepath", "code.file.path"),
    ("code.function", "code.function.name"),
    ("code.lineno", "code.line.number"),
    ("db.cassandra.table", "db.collection.name"),
    ("db.mongodb.collection", "db.collection.name"),
    ("db.name", "db.namespace"),
    ("db.operation", "db.operation.name"),
    ("db.sql.table", "db.collection.name"),
    ("db.statement", "db.query.text"),
    ("db.system", "db.system.name"),
    ("deployment.environment", "deployment.environment.name"),
    ("faas.execution", "faas.invocation_id"),
    ("faas.id", "cloud.resource_id"),
    ("http.client_ip", "client.address"),
    ("http.flavor", "network.protocol.version"),
    ("http.method", "http.request.method"),
    ("http.request_content_length", "http.request.body.size"),
    ("http.resend_count", "http.request.resend_count"),
    ("http.response_content_length", "http.response.body.size"),
    ("http.scheme", "url.scheme"),
    ("http.status_code", "http.response.status_code"),
    ("http.url", "url.full"),
    ("http.user_agent", "user_agent.original"),
    ("messaging.client_id", "messaging.client.id"),
    ("messaging.conversation_id", "messaging.message.conversation_id"),
    ("messaging.destination", "messaging.destination.name"),
    ("messaging.kafka.consumer_group", "messaging.consumer.group.name"),
    ("messaging.kafka.message_key", "messaging.kafka.message.key"),
    ("messaging.kafka.partition", "messaging.destination.partition.id"),
    ("messaging.message_id", "messaging.message.id"),
    ("messaging.operation", "messaging.operation.type"),
    ("messaging.rabbitmq.routing_key", "messaging.rabbitmq.destination.routing_key"),
    ("net.protocol.name", "network.protocol.name"),
    ("net.protocol.version", "network.protocol.version"),
    ("net.sock.peer.addr", "network.peer.address"),
    ("net.sock.peer.port", "network.peer.port"),
    ("net.transport", "network.transport"),
    ("rpc.grpc.status_code", "rpc.response.status_code"),
    ("rpc.system", "rpc.system.name"),
];

/// Returns the current name of an attribute of older conventions; `None` where it stays, or became several.
pub(crate) fn current(name: &str) -> Option<&'static str> {
    CURRENT.iter().find(|(old, _)| *old == name).map(|(_, current)| *current)
}

/// Returns the names of the attribute in other versions of the semantic conventions, in the order of the table.
pub fn conventions(name: &str) -> Vec<&'static str> {
    if name == "rpc.service" {
        // Newer conventions have it at the beginning of the method.
        return vec!["rpc.method"];
    }
    let group = SAME.iter().find(|group| group.contains(&name));
    let names = group.into_iter().flat_map(|group| group.iter().copied());
    names.filter(|other| *other != name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_current_name_is_read_under_its_old_one_too() {
        for (old, current) in CURRENT {
            assert!(conventions(current).contains(old), "{old} and {current} are in no group");
        }
    }
}
