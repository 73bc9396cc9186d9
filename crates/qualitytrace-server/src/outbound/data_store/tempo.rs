//! Grafana Tempo: over HTTP, in protobuf or JSON, and over gRPC.

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use qualitytrace_core::definition::source::Tempo as Definition;
use reqwest::Method;
use reqwest::header::ACCEPT;

use super::answers::Answers;
use super::error::FetchError;
use super::grpc::Grpc;
use super::http::{self, Http, Settings};
use super::otlp_json;
use super::received::Received;
use crate::base::budget::Lease;
use crate::base::decode::{DecodeError, Room, flat_protobuf};
use crate::outbound::trigger::{Endpoint, Gate, Reason, TriggerError};
use crate::receive::otlp::weight::decode_traces;

/// Its name in messages.
pub(super) const NAME: &str = "Tempo";
/// The method that returns a trace.
const FIND_TRACE: &str = "/tempopb.Querier/FindTraceByID";
/// A path that every query frontend has; it answers `echo`.
const ECHO: &str = "/api/echo";
const PROTOBUF: &str = "application/protobuf";

/// The client of a Tempo.
#[derive(Debug)]
pub(super) enum Tempo {
    Grpc(Box<Grpc>),
    Http(Box<Http>),
}

#[derive(Clone, PartialEq, prost::Message)]
struct TraceByIdRequest {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(string, tag = "2")]
    block_start: String,
    #[prost(string, tag = "3")]
    block_end: String,
    #[prost(string, tag = "5")]
    query_mode: String,
}

impl TraceByIdRequest {
    /// Asks ingesters and all blocks, as the HTTP API does.
    fn new(trace_id: Vec<u8>) -> Self {
        Self {
            trace_id,
            block_start: "00000000-0000-0000-0000-000000000000".to_owned(),
            block_end: "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF".to_owned(),
            query_mode: "all".to_owned(),
        }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct TraceByIdResponse {
    /// A message whose only field is the list of resources.
    #[prost(bytes = "bytes", tag = "1")]
    trace: Bytes,
    /// 0 for the whole trace, 1 for a part of it: it is larger than Tempo may answer.
    #[prost(int32, tag = "3")]
    status: i32,
    #[prost(string, tag = "4")]
    message: String,
}

impl Tempo {
    /// Creates the client.
    pub(super) fn new(tempo: &Definition, gate: &Gate, answers: &Answers) -> Result<Self, TriggerError> {
        match tempo {
            Definition::Grpc(client) => Ok(Self::Grpc(Box::new(Grpc::new(NAME, client, gate, answers)?))),
            Definition::Http(client) => {
                let settings = Settings {
                    name: NAME,
                    url: &client.url,
                    setting: "the data store's url",
                    headers: &client.headers,
                    certificates: http::certificates(client.tls.as_ref(), gate)?,
                };
                Ok(Self::Http(Box::new(Http::new(&settings, gate, answers)?)))
            }
            Definition::Unset => Err(TriggerError::told(
                Reason::Invalid,
                "the data store does not say how Tempo is asked; write `type: grpc` or `type: http`, with a block of \
                 that name"
                    .to_owned(),
            )),
        }
    }

    /// The peer, for messages.
    pub(super) fn endpoint(&self) -> &Endpoint {
        match self {
            Self::Grpc(client) => client.endpoint(),
            Self::Http(client) => client.endpoint(),
        }
    }

    /// Fetches a trace.
    pub(super) async fn fetch(&self, received: &mut Received<'_>) -> Result<(), FetchError> {
        match self {
            Self::Grpc(client) => {
                let request = TraceByIdRequest::new(received.trace().to_bytes().to_vec());
                let mut messages = client.call(FIND_TRACE, &request).await?;
                while let Some(message) = messages.next().await? {
                    if !received.is_new(&message) {
                        continue;
                    }
                    let answer = flat_protobuf::<TraceByIdResponse>(message).map_err(|error| {
                        let cause = format!("it is no trace: {error}");
                        TriggerError::at(client.endpoint(), Reason::Protocol, &cause)
                    })?;
                    if answer.status != 0 {
                        return Err(
                            TriggerError::at(client.endpoint(), Reason::TooLarge, &answer.message).into()
                        );
                    }
                    let (spans, _lease) = client.spans(answer.trace).await?;
                    received.add(spans).await?;
                }
                Ok(())
            }
            Self::Http(client) => {
                let path = format!("/api/traces/{}", received.trace());
                let request = client.request(Method::GET, &path).header(ACCEPT, PROTOBUF);
                let answer = client.send(request).await?;
                if answer.is_missing() || !received.is_new(&answer.body) {
                    return Ok(());
                }
                let content_type = answer.content_type.clone();
                let read = move |body: Bytes, lease: &mut Lease| read(&content_type, body, lease);
                let (spans, _lease) = client.decode(answer, read).await?;
                received.add(spans).await
            }
        }
    }

    /// Asks for something that every Tempo has.
    pub(super) async fn probe(&self) -> Result<(), FetchError> {
        match self {
            Self::Grpc(client) => {
                let id = [&[0; 15][..], &[1]].concat();
                let mut messages = client.call(FIND_TRACE, &TraceByIdRequest::new(id)).await?;
                messages.next().await.map(|_| ())
            }
            Self::Http(client) => {
                let answer = client.get(ECHO, &[]).await?;
                if answer.is_missing() || answer.body.trim_ascii() != b"echo" {
                    return Err(client.foreign(&format!("`{ECHO}` does not answer `echo`")));
                }
                Ok(())
            }
        }
    }
}

/// Reads the spans of an answer over HTTP.
pub(crate) fn read(
    content_type: &str,
    body: Bytes,
    room: &mut impl Room,
) -> Result<ExportTraceServiceRequest, DecodeError> {
    if content_type.split(';').next().is_some_and(|kind| kind.trim() == PROTOBUF) {
        return decode_traces(body, room);
    }
    otlp_json::read(&body, room)
}
