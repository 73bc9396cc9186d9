//! What attributes mean, after OpenTelemetry's semantic conventions and our own attributes, for editors.

use crate::names;

/// Attributes and what they mean.
const MEANINGS: [(&str, &str); 74] = [
    ("client.address", "The address of the client: a domain name, an IP address or a socket."),
    ("cloud.provider", "The provider of the cloud, such as `aws`, `azure` or `gcp`."),
    ("cloud.region", "The region of the cloud that the resource runs in."),
    ("code.function.name", "The function that the span is about, with its namespace."),
    ("container.id", "The id of the container."),
    ("db.collection.name", "The table, collection or container that the operation is about."),
    ("db.namespace", "The name of the database, as its server calls it."),
    ("db.operation.name", "The operation, such as `SELECT` or `findAndModify`."),
    ("db.query.text", "The query that is executed."),
    ("db.response.status_code", "The status code of the database's answer."),
    ("db.statement", "The query that is executed. Newer: `db.query.text`."),
    ("db.system", "The database management system. Newer: `db.system.name`."),
    ("db.system.name", "The database management system, such as `postgresql` or `redis`."),
    ("deployment.environment.name", "The environment that the service is deployed to, such as `staging`."),
    ("enduser.id", "The id of the user."),
    ("error.type", "The class of error that the operation ended with."),
    ("exception.message", "The message of the exception."),
    ("exception.stacktrace", "The stack trace of the exception."),
    ("exception.type", "The type of the exception."),
    ("faas.name", "The name of the function that is executed."),
    ("faas.trigger", "What caused the execution of the function, such as `http` or `timer`."),
    ("graphql.operation.name", "The name of the GraphQL operation."),
    ("graphql.operation.type", "`query`, `mutation` or `subscription`."),
    ("host.name", "The name of the host."),
    ("http.method", "The method of the request. Newer: `http.request.method`."),
    ("http.request.body.size", "The size of the request's body in bytes."),
    ("http.request.method", "The method of the request, such as `GET`."),
    ("http.request.resend_count", "How often the request was sent again."),
    ("http.response.body.size", "The size of the response's body in bytes."),
    ("http.response.status_code", "The status code of the response."),
    ("http.route", "The route that matched the request, such as `/orders/{id}`."),
    ("http.status_code", "The status code of the response. Newer: `http.response.status_code`."),
    ("http.target", "The path and query of the request. Newer: `url.path` and `url.query`."),
    ("http.url", "The whole address of the request. Newer: `url.full`."),
    ("k8s.namespace.name", "The namespace of Kubernetes that the pod runs in."),
    ("k8s.pod.name", "The name of the pod."),
    ("messaging.batch.message_count", "The number of messages of the batch."),
    ("messaging.destination.name", "The name of the queue or topic."),
    ("messaging.message.id", "The id of the message."),
    ("messaging.operation.name", "The operation of the messaging system, such as `ack` or `send`."),
    ("messaging.operation.type", "`create`, `send`, `receive`, `process` or `settle`."),
    ("messaging.system", "The messaging system, such as `kafka` or `rabbitmq`."),
    ("net.peer.name", "The name of the other side. Newer: `server.address`."),
    ("net.peer.port", "The port of the other side. Newer: `server.port`."),
    ("network.peer.address", "The address of the other side of the connection."),
    ("network.protocol.name", "The application protocol, such as `http`."),
    ("network.protocol.version", "The version of the protocol, such as `1.1` or `2`."),
    ("network.transport", "`tcp`, `udp`, `unix`, `pipe` or `quic`."),
    ("peer.service", "The name of the remote service, as the caller knows it."),
    ("process.pid", "The id of the process."),
    ("rpc.grpc.status_code", "The status code of the gRPC call; 0 is success."),
    ("rpc.method", "The method that is called."),
    ("rpc.service", "The service that is called, with its package."),
    ("rpc.system", "The system of remote calls, such as `grpc`."),
    ("server.address", "The address of the server: a domain name, an IP address or a socket."),
    ("server.port", "The port of the server."),
    ("service.instance.id", "The id of one instance of the service."),
    ("service.name", "The logical name of the service."),
    ("service.namespace", "The namespace of the service's name."),
    ("service.version", "The version of the service."),
    ("telemetry.sdk.language", "The language of the SDK that recorded the span."),
    ("telemetry.sdk.name", "The SDK that recorded the span."),
    ("tracetest.response.body", "The body of the trigger's response. On the trigger's span."),
    ("tracetest.response.headers", "The headers of the trigger's response, as JSON. On the trigger's span."),
    ("tracetest.response.status", "The status of the trigger's response. On the trigger's span."),
    ("tracetest.selected_spans.count", "How many spans the selector selects."),
    ("tracetest.span.duration", "How long the span took, as a duration."),
    ("tracetest.span.kind", "`server`, `client`, `producer`, `consumer` or `internal`."),
    ("tracetest.span.name", "The name of the span."),
    ("tracetest.span.type", "`http`, `database`, `rpc`, `messaging`, `faas`, `exception` or `general`."),
    ("url.full", "The whole address of the request."),
    ("url.path", "The path of the address."),
    ("url.query", "The query of the address."),
    ("user_agent.original", "The `User-Agent` header of the request."),
];

/// Returns the attributes that have a meaning.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    MEANINGS.iter().map(|(name, _)| *name)
}

/// Returns what an attribute means; `None` when no convention names it.
pub fn meaning(attribute: &str) -> Option<&'static str> {
    let name = names::attribute(attribute);
    MEANINGS.iter().find(|(known, _)| *known == &*name).map(|(_, meaning)| *meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_sorted_and_found_in_both_spellings() {
        assert!(MEANINGS.is_sorted());
        assert!(meaning("http.route").is_some());
        assert_eq!(meaning("qualitytrace.span.duration"), meaning("tracetest.span.duration"));
        assert!(meaning("qualitytrace.span.duration").is_some());
        assert_eq!(meaning("shop.order"), None);
    }
}
