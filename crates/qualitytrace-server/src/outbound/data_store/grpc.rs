//! The gRPC client of a data store: one connection, kept while it works.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::Uri;
use http::uri::PathAndQuery;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use qualitytrace_core::definition::source::GrpcClient;
use qualitytrace_telemetry::codec::Verbatim;
use tonic::client::Grpc as TonicClient;
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use super::answers::{Answers, short_of_memory};
use super::error::FetchError;
use super::http::{ANSWER_TIMEOUT, CONNECT_TIMEOUT, unanswered};
use super::tls;
use crate::base::budget::Lease;
use crate::base::decode::{DecodeError, decoded};
use crate::outbound::trigger::{
    Endpoint, Gate, Reason, Role, Security, TriggerError, append_metadata, grpc_client, transport_failure,
};
use crate::receive::otlp::weight::decode_traces;

/// The setting that names the peer.
const SETTING: &str = "the data store's endpoint";

/// The client of one store.
#[derive(Debug)]
pub(super) struct Grpc {
    endpoint: Endpoint,
    security: Security,
    metadata: MetadataMap,
    compression: Option<CompressionEncoding>,
    gate: Gate,
    answers: Answers,
    connected: Mutex<Option<TonicClient<Channel>>>,
}

impl Grpc {
    /// Creates the client.
    pub(super) fn new(
        name: &'static str,
        client: &GrpcClient,
        gate: &Gate,
        answers: &Answers,
    ) -> Result<Self, TriggerError> {
        let endpoint = endpoint(name, &client.endpoint)?;
        gate.host(&endpoint.host)?;
        let tls = client.tls.as_ref();
        let security = if tls.is_some_and(|tls| tls.insecure) {
            Security::Plain
        } else {
            let skips = tls.is_some_and(|tls| tls.insecure_skip_verify);
            Security::Tls(tls::certificates(tls, gate.verifies(!skips))?)
        };
        let mut metadata = MetadataMap::new();
        for (key, value) in client.headers.iter().filter(|(key, _)| !key.trim().is_empty()) {
            append_metadata(&mut metadata, key, &value.value)?;
        }
        Ok(Self {
            endpoint,
            security,
            metadata,
            compression: compression(name, &client.compression)?,
            gate: gate.clone(),
            answers: answers.clone(),
            connected: Mutex::default(),
        })
    }

    /// The peer, for messages.
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Calls a method and returns its messages, as they come.
    pub(super) async fn call(
        &self,
        path: &'static str,
        message: &impl Message,
    ) -> Result<Messages<'_>, FetchError> {
        let mut client = self.client().await?;
        let mut request = tonic::Request::new(Bytes::from(message.encode_to_vec()));
        *request.metadata_mut() = self.metadata.clone();
        if let Err(error) = self.answered(client.ready()).await? {
            self.disconnect();
            return Err(TriggerError::at(&self.endpoint, Reason::Cut, &error.to_string()).into());
        }
        let path = PathAndQuery::from_static(path);
        match self.answered(client.server_streaming(request, path, Verbatim)).await? {
            Ok(answer) => Ok(Messages { client: self, stream: Some(answer.into_inner()) }),
            Err(status) if is_missing(&status) => Ok(Messages { client: self, stream: None }),
            Err(status) => Err(self.failure(&status)),
        }
    }

    /// Decodes the spans of a message. What they become takes memory of the lease that is returned.
    pub(super) async fn spans(
        &self,
        message: Bytes,
    ) -> Result<(ExportTraceServiceRequest, Lease), FetchError> {
        let mut lease = self.answers.lease(&self.endpoint)?;
        let short = |error| short_of_memory(&self.endpoint, error);
        lease.grow(message.len() as u64).map_err(|error| short(error.into()))?;
        decoded(message, lease, decode_traces).await.map_err(|error| match error {
            DecodeError::Malformed(cause) => {
                let cause = format!("it answers with something else than spans: {cause}");
                TriggerError::at(&self.endpoint, Reason::Protocol, &cause).into()
            }
            DecodeError::TooLarge { .. } | DecodeError::Busy => short(error),
        })
    }

    /// Returns the connected client.
    async fn client(&self) -> Result<TonicClient<Channel>, FetchError> {
        let known = self.connected.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known {
            return Ok(known);
        }
        let limit = usize::try_from(self.answers.limit).unwrap_or(usize::MAX);
        let connecting = grpc_client(&self.endpoint, &self.security, limit, &self.gate);
        let client = match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
            Ok(client) => client.map_err(|failure| self.advised(failure))?,
            Err(_) => {
                let cause = "no connection came about in time; check whether it speaks TLS";
                return Err(TriggerError::at(&self.endpoint, Reason::Unreachable, cause).into());
            }
        };
        let client = match self.compression {
            Some(encoding) => client.send_compressed(encoding),
            None => client,
        };
        *self.connected.lock().unwrap_or_else(PoisonError::into_inner) = Some(client.clone());
        Ok(client)
    }

    /// Waits for an answer. The connection is dropped when none comes, or when the caller waits no longer: its other
    /// end may be gone.
    async fn answered<T>(&self, answer: impl Future<Output = T>) -> Result<T, FetchError> {
        let mut awaited = AnswerGuard { client: self, is_here: false };
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, answer).await;
        awaited.is_here = answer.is_ok();
        answer.map_err(|_| unanswered(&self.endpoint))
    }

    /// Drops the connection; the next call makes another.
    fn disconnect(&self) {
        *self.connected.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn failure(&self, status: &Status) -> FetchError {
        if let Some(failure) = transport_failure(status, &self.endpoint) {
            if failure.reason != Reason::TooLarge {
                self.disconnect();
            }
            return self.advised(failure).into();
        }
        let cause = format!("{:?}: {}", status.code(), status.message());
        let at = |reason| TriggerError::at(&self.endpoint, reason, &cause);
        match status.code() {
            Code::Unauthenticated | Code::PermissionDenied => at(Reason::Credentials).into(),
            Code::Unimplemented => at(Reason::Missing)
                .and("; check that the endpoint is the gRPC port of its query service")
                .into(),
            Code::InvalidArgument | Code::FailedPrecondition => at(Reason::Missing).into(),
            _ => {
                let message = format!("{} cannot answer: {cause}", self.endpoint.named());
                FetchError::passing(TriggerError::told(Reason::Timeout, message))
            }
        }
    }

    /// Adds advice if the server may speak another protocol.
    fn advised(&self, failure: TriggerError) -> TriggerError {
        match failure.reason {
            Reason::Cut | Reason::Protocol | Reason::Unreachable if self.security == Security::Plain => {
                failure.and("; check that it is a gRPC server; if it speaks TLS, remove `tls.insecure`")
            }
            _ => failure,
        }
    }
}

/// An answer that is waited for.
struct AnswerGuard<'a> {
    client: &'a Grpc,
    is_here: bool,
}

impl Drop for AnswerGuard<'_> {
    fn drop(&mut self) {
        if !self.is_here {
            self.client.disconnect();
        }
    }
}

/// The messages of an answer.
#[derive(Debug)]
pub(super) struct Messages<'a> {
    client: &'a Grpc,
    /// `None` if the store does not have what was asked for.
    stream: Option<Streaming<Bytes>>,
}

impl Messages<'_> {
    /// Returns the next message.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, FetchError> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        match self.client.answered(stream.message()).await? {
            Ok(message) => Ok(message),
            Err(status) if is_missing(&status) => Ok(None),
            Err(status) => Err(self.client.failure(&status)),
        }
    }
}

fn is_missing(status: &Status) -> bool {
    status.code() == Code::NotFound || status.message().contains("trace not found")
}

/// Returns how calls are compressed.
fn compression(name: &str, written: &str) -> Result<Option<CompressionEncoding>, TriggerError> {
    match written.trim() {
        "" | "none" => Ok(None),
        "gzip" => Ok(Some(CompressionEncoding::Gzip)),
        "zstd" => Ok(Some(CompressionEncoding::Zstd)),
        other => Err(TriggerError::invalid(format!(
            "this server cannot compress calls of {name} with `{other}`; set `compression` to gzip, zstd or none"
        ))),
    }
}

/// Parses host and port.
fn endpoint(name: &'static str, written: &str) -> Result<Endpoint, TriggerError> {
    let text = written.trim();
    let wrong = || {
        TriggerError::invalid(format!(
            "`{text}`, the endpoint of {name}, is no address; write it as HOST:PORT"
        ))
    };
    let bare = text.split_once("://").map_or(text, |(_, rest)| rest);
    let uri: Uri = format!("http://{bare}").parse().map_err(|_| wrong())?;
    let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?.to_owned();
    let port = uri.port_u16().ok_or_else(wrong)?;
    Ok(Endpoint { role: Role::DataStore(name), host, port: Some(port), setting: SETTING })
}
