//! gRPC triggers: calls of any method, without generated code.
//!
//! Every call is sent as a stream of messages and read as one: on the wire, the four kinds of methods are the same.

mod catalogue;
mod message;
mod mistake;
mod protocol;
mod reflection;
mod size;

use std::error::Error;
use std::sync::Mutex;
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use http::Uri;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use prost_reflect::{DescriptorPool, MethodDescriptor};
use qualitytrace_core::definition::trigger::{ApiKeyLocation, Auth, Grpc};
use qualitytrace_core::run::{GrpcReply, Reply};
use qualitytrace_telemetry::codec::Verbatim;
use tonic::codec::CompressionEncoding;
use tonic::metadata::{Ascii, Binary, KeyAndValueRef, MetadataKey, MetadataMap, MetadataValue};
use tonic::transport::{self, Channel};
use tonic::{Code, Status, TimeoutExpired};

use super::connect::{Gate, Security};
use super::cut;
use super::failure::{Endpoint, Reason, Role, TriggerError, causes, root_cause};
use super::http::{Sender, basic};
use super::methods::{Methods, Offered};
use super::progress;
use super::propagation::Context;
use crate::base::decode::{Allowance, protobuf_weight};

/// Default timeout of the whole call.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Characters of an invalid text that are shown.
const SHOWN: usize = 40;
/// What a message takes beside its text.
const BYTES_OF_MESSAGE: usize = 64;
/// The message of tonic for a response beyond its limit; it has no error type to look for.
const TOO_LARGE: &str = "Error, decoded message length too large";

pub(crate) type Client = tonic::client::Grpc<Channel>;

/// Sends the call of a trigger and waits for its response.
pub(super) async fn send(
    call: &Grpc,
    context: &Context,
    http: &Sender,
    reply_bytes: u64,
) -> Result<Reply, TriggerError> {
    let (endpoint, security) = peer(call, http)?;
    let timeout = timeout(call);
    let work = exchange(call, context, http, &endpoint, &security, timeout, reply_bytes);
    let answered = progress::within(timeout, &endpoint, work).await;
    answered.map_err(|failure| advised(failure, &security))
}

/// Lists the services of the protocol that the trigger has, or that its server describes.
pub(super) async fn methods(call: &Grpc, http: &Sender, reply_bytes: u64) -> Result<Methods, TriggerError> {
    if let Some(pool) = given_protocol(call)? {
        let (services, is_complete) = catalogue::services(&pool, |_| true);
        return Ok(Methods { is_from_server: false, is_complete, offered: Offered::Services(services) });
    }
    let (endpoint, security) = peer(call, http)?;
    let work = async {
        let auth = http.granted_for(call.auth.as_ref(), call.tls.as_ref(), call.ssl_verification).await?;
        let metadata = metadata(call, auth.as_ref())?;
        let limit = usize::try_from(reply_bytes).unwrap_or(usize::MAX);
        let mut client = client(&endpoint, &security, limit, http.gate()).await?;
        reflection::describe_all(&mut client, &metadata, &endpoint).await
    };
    let described = progress::within(timeout(call), &endpoint, work).await;
    let all = described.map_err(|failure| advised(failure, &security))?;
    let (services, is_complete) =
        catalogue::services(&all.pool, |name| all.services.iter().any(|known| known == name));
    let is_complete = is_complete && all.is_complete;
    Ok(Methods { is_from_server: true, is_complete, offered: Offered::Services(services) })
}

/// Returns the server of a call, and how to connect to it.
fn peer(call: &Grpc, http: &Sender) -> Result<(Endpoint, Security), TriggerError> {
    let (endpoint, tls) = endpoint(&call.address.value)?;
    let security = if tls || call.tls.is_some() {
        Security::Tls(http.gate().certificates(call.tls.as_ref(), call.ssl_verification))
    } else {
        Security::Plain
    };
    Ok((endpoint, security))
}

fn timeout(call: &Grpc) -> Duration {
    call.timeout.as_ref().map_or(TIMEOUT, |timeout| timeout.duration)
}

/// Adds advice if the server may speak another protocol.
fn advised(failure: TriggerError, security: &Security) -> TriggerError {
    match failure.reason {
        // A server that expects TLS closes the connection, or sends bytes that are not HTTP/2.
        Reason::Cut | Reason::Protocol | Reason::Unreachable if *security == Security::Plain => {
            failure.and("; check that it is a gRPC server; if it speaks TLS, write the trigger's `tls: true`")
        }
        _ => failure,
    }
}

async fn exchange(
    call: &Grpc,
    context: &Context,
    http: &Sender,
    endpoint: &Endpoint,
    security: &Security,
    timeout: Duration,
    reply_bytes: u64,
) -> Result<Reply, TriggerError> {
    let (service, method) = protocol::names(call)?;
    let auth = http.granted_for(call.auth.as_ref(), call.tls.as_ref(), call.ssl_verification).await?;
    let metadata = metadata(call, auth.as_ref())?;
    let given = given_protocol(call)?;
    // Errors in the test itself are reported before a connection is made.
    let known = given.map(|pool| prepare(&pool, &service, &method, call).map(|ready| (pool, ready)));
    let known = known.transpose()?;
    let limit = usize::try_from(reply_bytes).unwrap_or(usize::MAX);
    let mut client = client(endpoint, security, limit, http.gate()).await?;
    let (pool, (method, messages)) = match known {
        Some(known) => known,
        None => {
            let pool = reflection::describe(&mut client, &metadata, &service, endpoint).await?;
            let ready = prepare(&pool, &service, &method, call)?;
            (pool, ready)
        }
    };
    let mut request = tonic::Request::new(tokio_stream::iter(messages));
    *request.metadata_mut() = metadata;
    for (name, value) in context.headers() {
        let value = value.parse::<MetadataValue<Ascii>>();
        let value =
            value.map_err(|_| TriggerError::invalid(format!("`{name}` cannot be sent as metadata")))?;
        request.metadata_mut().insert(name, value);
    }
    request.set_timeout(timeout);
    let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
    let path = PathAndQuery::try_from(path).map_err(|error| TriggerError::invalid(error.to_string()))?;
    let ready = client.ready().await;
    ready.map_err(|error| TriggerError::at(endpoint, Reason::Unreachable, &root_cause(&error)))?;
    let mut reply = GrpcReply { status: name(Code::Ok).to_owned(), ..GrpcReply::default() };
    let ended = match client.streaming(request, path, Verbatim).await {
        Ok(answer) => {
            let (headers, stream, _) = answer.into_parts();
            reply.metadata = pairs(&headers);
            progress::answers();
            read(stream, &method, limit, &mut reply).await?
        }
        Err(status) => {
            reply.metadata = pairs(status.metadata());
            Some(status)
        }
    };
    if let Some(status) = ended {
        if let Some(failure) = transport_failure(&status, endpoint) {
            return Err(failure);
        }
        reply.code = status.code().into();
        name(status.code()).clone_into(&mut reply.status);
        status.message().clone_into(&mut reply.message);
        reply.details = message::details(status.details(), &pool)?;
    }
    Ok(Reply::Grpc(Box::new(reply)))
}

/// Checks whether a text is a protocol definition that a trigger can use.
pub fn check_protocol(text: &str) -> Result<(), TriggerError> {
    protocol::compile(&Grpc { protobuf_file: text.into(), ..Grpc::default() }).map(drop)
}

/// Returns the protocol definition of the test; `None` if the server is to be asked by reflection.
fn given_protocol(call: &Grpc) -> Result<Option<DescriptorPool>, TriggerError> {
    if !call.protobuf_file.value.trim().is_empty() {
        return protocol::compile(call).map(Some);
    }
    if call.descriptor_set.value.trim().is_empty() {
        return Ok(None);
    }
    let text: String = call.descriptor_set.value.split_whitespace().collect();
    let bytes = base64::engine::general_purpose::STANDARD.decode(&text).map_err(|_| {
        TriggerError::invalid(format!(
            "the trigger's `descriptorSet` is neither base64 nor the path of a file: `{}`; write a path as `./NAME`, \
             for the command line to read it",
            shown(&text)
        ))
    })?;
    if protobuf_weight(&bytes, reflection::DESCRIPTOR, Allowance::DESCRIPTION).is_none() {
        let limit = Allowance::DESCRIPTION;
        return Err(TriggerError::invalid(format!(
            "the trigger's `descriptorSet` takes more memory than the {limit} bytes that there are for it; leave out the \
             messages that it does not need"
        )));
    }
    // Measured: above.
    DescriptorPool::decode(bytes.as_slice()).map(Some).map_err(|error| {
        TriggerError::invalid(format!(
            "the trigger's `descriptorSet` is no `FileDescriptorSet`: {error}; make one with `protoc \
             --include_imports --descriptor_set_out=FILE`"
        ))
    })
}

/// Returns the beginning of an invalid text.
fn shown(text: &str) -> String {
    let start: String = text.chars().take(SHOWN).collect();
    if start.len() < text.len() { start + "..." } else { start }
}

/// Finds the method and encodes its messages.
fn prepare(
    pool: &DescriptorPool,
    service: &str,
    method: &str,
    call: &Grpc,
) -> Result<(MethodDescriptor, Vec<Bytes>), TriggerError> {
    let method = protocol::method(pool, service, method)?;
    let messages = message::encode(&call.request.value, &method.input(), method.is_client_streaming())?;
    Ok((method, messages))
}

/// Reads messages to the end, or to the limit, which counts for the messages as they are sent and as they are kept;
/// returns the status if it is an error.
async fn read(
    mut stream: tonic::Streaming<Bytes>,
    method: &MethodDescriptor,
    limit: usize,
    reply: &mut GrpcReply,
) -> Result<Option<Status>, TriggerError> {
    let kind = method.output();
    let mut messages = Vec::new();
    let (mut room, mut room_of_texts) = (limit, limit.saturating_mul(cut::MOST_ESCAPES));
    let status = loop {
        match stream.message().await {
            Ok(Some(bytes)) if bytes.len() > room => {
                reply.truncated = true;
                break None;
            }
            Ok(Some(bytes)) => {
                room -= bytes.len();
                let shown = message::to_json(bytes, &kind, room_of_texts)?;
                room_of_texts = room_of_texts.saturating_sub(shown.text.len() + BYTES_OF_MESSAGE);
                // Of a stream, only whole messages are kept.
                if !(shown.is_truncated && method.is_server_streaming()) {
                    messages.push(shown.text);
                }
                if shown.is_truncated {
                    reply.truncated = true;
                    break None;
                }
            }
            Ok(None) => break None,
            Err(status) => break Some(status),
        }
    };
    reply.body = messages.last().cloned().unwrap_or_default();
    reply.messages = method.is_server_streaming().then_some(messages);
    Ok(status)
}

/// Parses host and port of an address, and whether it asks for TLS.
fn endpoint(address: &str) -> Result<(Endpoint, bool), TriggerError> {
    let text = address.trim();
    let wrong = || {
        TriggerError::invalid(format!("`{text}` is no address; write the trigger's `address` as host:port"))
    };
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let uri: Uri = with_scheme.parse().map_err(|_| wrong())?;
    let tls = match uri.scheme_str() {
        Some("https" | "grpcs") => true,
        Some("http" | "grpc" | "dns") => false,
        _ => return Err(wrong()),
    };
    let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?.to_owned();
    let port = match (uri.port_u16(), text.contains("://")) {
        (None, false) => {
            return Err(TriggerError::invalid(format!(
                "`{text}` has no port; write the trigger's `address` as host:port"
            )));
        }
        (None, true) => Some(if tls { 443 } else { 80 }),
        (port, _) => port,
    };
    Ok((Endpoint { role: Role::System, host, port, setting: "the trigger's address" }, tls))
}

/// Creates a client on a connection of its own.
pub(crate) async fn client(
    endpoint: &Endpoint,
    security: &Security,
    limit: usize,
    gate: &Gate,
) -> Result<Client, TriggerError> {
    let connection = Mutex::new(Some(gate.connect(endpoint, security, &[b"h2"]).await?));
    let uri = |scheme: &str| format!("{scheme}://{endpoint}").parse::<Uri>();
    let origin = uri(if *security == Security::Plain { "http" } else { "https" });
    let (Ok(http), Ok(origin)) = (uri("http"), origin) else {
        return Err(TriggerError::invalid(format!("`{endpoint}` is no address")));
    };
    // The connection exists already. A second one is refused, because its failure would not be classified.
    let connector = tower::service_fn(move |_: Uri| {
        let connection = connection.lock().ok().and_then(|mut connection| connection.take());
        std::future::ready(
            connection.map(TokioIo::new).ok_or(std::io::Error::other("the connection was lost")),
        )
    });
    let channel = transport::Endpoint::from(http).origin(origin).connect_with_connector(connector).await;
    let channel =
        channel.map_err(|error| TriggerError::at(endpoint, Reason::Unreachable, &root_cause(&error)))?;
    Ok(Client::new(channel)
        .max_decoding_message_size(limit)
        .accept_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Zstd))
}

/// Builds the metadata of the test, with its credentials.
fn metadata(call: &Grpc, auth: Option<&Auth>) -> Result<MetadataMap, TriggerError> {
    let mut metadata = MetadataMap::new();
    for entry in call.metadata.iter().filter(|entry| !entry.key.value.trim().is_empty()) {
        append(&mut metadata, &entry.key.value, &entry.value.value)?;
    }
    match auth {
        // The token has been fetched before.
        None | Some(Auth::OAuth2(_)) => {}
        Some(Auth::Basic { username, password }) => {
            let login = basic(&username.value, &password.value);
            append(&mut metadata, "authorization", &login)?;
        }
        Some(Auth::Bearer { token }) => append(&mut metadata, "authorization", &token.value)?,
        Some(Auth::ApiKey { key, value, place: ApiKeyLocation::Header }) => {
            append(&mut metadata, &key.value, &value.value)?;
        }
        Some(Auth::ApiKey { place: ApiKeyLocation::Query, .. }) => {
            return Err(TriggerError::invalid("a gRPC call has no query; send the API key `in: header`"));
        }
    }
    Ok(metadata)
}

/// Adds metadata to a call.
pub(crate) fn append(metadata: &mut MetadataMap, key: &str, value: &str) -> Result<(), TriggerError> {
    let key = key.trim().to_ascii_lowercase();
    let bad_key = || TriggerError::invalid(format!("`{key}` is not a metadata key"));
    if key.ends_with("-bin") {
        let bytes = base64::engine::general_purpose::STANDARD.decode(value.trim());
        let bytes =
            bytes.map_err(|_| TriggerError::invalid(format!("the value of `{key}` is not base64")))?;
        let name = MetadataKey::<Binary>::from_bytes(key.as_bytes()).map_err(|_| bad_key())?;
        metadata.append_bin(name, MetadataValue::from_bytes(&bytes));
    } else {
        let name = MetadataKey::<Ascii>::from_bytes(key.as_bytes()).map_err(|_| bad_key())?;
        let value = value.parse().map_err(|_| {
            TriggerError::invalid(format!("the value of metadata `{key}` has characters that cannot be sent"))
        })?;
        metadata.append(name, value);
    }
    Ok(())
}

fn pairs(metadata: &MetadataMap) -> Vec<(String, String)> {
    let pair = |entry: KeyAndValueRef<'_>| match entry {
        KeyAndValueRef::Ascii(key, value) => {
            (key.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        }
        KeyAndValueRef::Binary(key, value) => {
            (key.to_string(), String::from_utf8_lossy(value.as_encoded_bytes()).into_owned())
        }
    };
    metadata.iter().map(pair).collect()
}

/// Returns a failure if a status was made by the client library, not by the server.
pub(crate) fn transport_failure(status: &Status, endpoint: &Endpoint) -> Option<TriggerError> {
    if status.code() == Code::OutOfRange && status.message().starts_with(TOO_LARGE) {
        let limit = match endpoint.role {
            Role::DataStore(_) => "raise `limits.decompressedBytes`",
            Role::System | Role::TokenServer | Role::Proxy => "raise `limits.replyBytes`",
        };
        return Some(TriggerError::at(endpoint, Reason::TooLarge, limit));
    }
    let source = status.source()?;
    let expired = causes(status).any(<dyn Error>::is::<TimeoutExpired>);
    let reason = if expired { Reason::Timeout } else { Reason::Cut };
    Some(TriggerError::at(endpoint, reason, &root_cause(source)))
}

/// Returns the canonical name of a status code.
const fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
