/** What attributes of the OpenTelemetry conventions mean, and the names that they had before. */

const MEANINGS: Record<string, string> = {
  "service.name": "The logical name of the service.",
  "service.version": "The version of the service.",
  "service.instance.id": "Which instance of the service it is.",
  "service.namespace": "The group that the service belongs to.",
  "deployment.environment.name": "Where it is deployed, for example staging.",
  "telemetry.sdk.name": "The SDK that recorded the telemetry.",
  "telemetry.sdk.language": "The language of the SDK.",
  "telemetry.sdk.version": "The version of the SDK.",
  "host.name": "The name of the machine.",
  "process.pid": "The number of the process.",
  "process.runtime.name": "The name of the language runtime.",
  "k8s.pod.name": "The name of the pod.",
  "k8s.namespace.name": "The namespace of the pod.",
  "container.id": "The container.",
  "http.request.method": "The method of the request.",
  "http.response.status_code": "The status of the response.",
  "http.route": "The route that the server matched, with its parameters as names.",
  "http.request.body.size": "The size of the request's body, in bytes.",
  "http.response.body.size": "The size of the response's body, in bytes.",
  "http.request.resend_count": "How often the request was sent again.",
  "url.full": "The whole address, without credentials.",
  "url.path": "The path of the address.",
  "url.query": "What stands behind the question mark.",
  "url.scheme": "The scheme, for example https.",
  "user_agent.original": "The program that sent the request, as it names itself.",
  "client.address": "The client, as the server knows it.",
  "server.address": "The host that was called.",
  "server.port": "The port that was called.",
  "network.peer.address": "The address of the other end of the connection.",
  "network.peer.port": "The port of the other end of the connection.",
  "network.protocol.name": "The protocol, for example http.",
  "network.protocol.version": "The version of the protocol.",
  "network.transport": "What carries the protocol, for example tcp.",
  "error.type": "The class of the error: an exception, or a status.",
  "exception.type": "The class of the exception.",
  "exception.message": "What the exception says.",
  "exception.stacktrace": "Where the exception was thrown.",
  "db.system.name": "The database product.",
  "db.namespace": "The database that was used.",
  "db.query.text": "The query.",
  "db.query.summary": "The query in short, of low cardinality.",
  "db.operation.name": "What the query does, for example SELECT.",
  "db.collection.name": "The table or collection.",
  "db.response.status_code": "The status that the database returned.",
  "db.operation.batch.size": "How many queries were sent together.",
  "messaging.system": "The messaging product.",
  "messaging.destination.name": "The queue or topic.",
  "messaging.operation.name": "What was done with the message.",
  "messaging.operation.type": "Whether the message was sent, received or processed.",
  "messaging.message.id": "The message.",
  "messaging.consumer.group.name": "The group of consumers that received it.",
  "messaging.kafka.message.key": "The key of the Kafka message.",
  "rpc.system": "The kind of remote call, for example grpc.",
  "rpc.service": "The service that was called.",
  "rpc.method": "The method that was called.",
  "rpc.grpc.status_code": "The gRPC status; 0 is OK.",
  "code.function.name": "The function that the span is about.",
  "code.file.path": "The file of the function.",
  "code.line.number": "The line in the file.",
  "thread.id": "The thread.",
  "thread.name": "The name of the thread.",
  "enduser.id": "The user.",
  "session.id": "The session of the user.",
  "feature_flag.key": "The flag that was evaluated.",
  "gen_ai.request.model": "The model that was asked.",
  "gen_ai.usage.input_tokens": "Tokens of the prompt.",
  "gen_ai.usage.output_tokens": "Tokens of the answer.",
  "tracetest.span.duration": "The duration of the span, in nanoseconds.",
  "tracetest.response.status": "The status that the trigger got.",
  "tracetest.response.body": "The body that the trigger got.",
  "tracetest.response.headers": "The headers that the trigger got.",
};

/** Older names of attributes, and the names of today. Selectors and assertions understand both. */
const RENAMED: Record<string, string> = {
  "http.status_code": "http.response.status_code",
  "http.method": "http.request.method",
  "http.url": "url.full",
  "http.target": "url.path",
  "http.scheme": "url.scheme",
  "http.user_agent": "user_agent.original",
  "http.request_content_length": "http.request.body.size",
  "http.response_content_length": "http.response.body.size",
  "http.client_ip": "client.address",
  "http.flavor": "network.protocol.version",
  "net.peer.name": "server.address",
  "net.host.name": "server.address",
  "net.peer.port": "server.port",
  "net.host.port": "server.port",
  "net.peer.ip": "network.peer.address",
  "net.sock.peer.addr": "network.peer.address",
  "net.sock.peer.port": "network.peer.port",
  "net.transport": "network.transport",
  "net.protocol.name": "network.protocol.name",
  "db.system": "db.system.name",
  "db.name": "db.namespace",
  "db.statement": "db.query.text",
  "db.operation": "db.operation.name",
  "db.sql.table": "db.collection.name",
  "messaging.destination": "messaging.destination.name",
  "messaging.operation": "messaging.operation.type",
  "messaging.message_id": "messaging.message.id",
  "deployment.environment": "deployment.environment.name",
};

const OTHERS = new Map<string, string[]>();
for (const [old, name] of Object.entries(RENAMED)) OTHERS.set(name, [...(OTHERS.get(name) ?? []), old]);

export interface Convention {
  meaning: string | undefined;
  /** Other names that selectors and assertions take for the same. */
  aliases: string[];
}

/** What is known of an attribute, under either of its names. */
export function convention(name: string): Convention {
  const today = Object.hasOwn(RENAMED, name) ? RENAMED[name] : name;
  const aliases = [today, ...(OTHERS.get(today) ?? [])].filter((one) => one !== name);
  return {
    meaning: Object.hasOwn(MEANINGS, today) ? MEANINGS[today] : undefined,
    aliases: OTHERS.has(today) ? aliases : [],
  };
}
