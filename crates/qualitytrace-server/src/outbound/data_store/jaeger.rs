//! Jaeger: its query service over gRPC (`jaeger.api_v3`), or its HTTP API.

use bytes::Bytes;
use qualitytrace_core::definition::source::GrpcClient;
use serde_json::{Map, Value};

use super::answers::Answers;
use super::error::FetchError;
use super::grpc::Grpc;
use super::http::{self, Http, Settings};
use super::otlp_json;
use super::received::Received;
use crate::base::budget::Lease;
use crate::outbound::trigger::{Endpoint, Gate, Reason, TriggerError};

/// Its name in messages.
pub(super) const NAME: &str = "Jaeger";
/// The method that returns a trace.
const GET_TRACE: &str = "/jaeger.api_v3.QueryService/GetTrace";
/// A path that every version with this API has.
const SERVICES: &str = "/api/v3/services";

/// The client of a Jaeger.
#[derive(Debug)]
pub(super) enum Jaeger {
    Grpc(Box<Grpc>),
    Http(Box<Http>),
}

#[derive(Clone, PartialEq, prost::Message)]
struct GetTraceRequest {
    #[prost(string, tag = "1")]
    trace_id: String,
}

impl Jaeger {
    /// Creates the client. An endpoint with `http://` or `https://` is that of the HTTP API.
    pub(super) fn new(client: &GrpcClient, gate: &Gate, answers: &Answers) -> Result<Self, TriggerError> {
        if !is_http(&client.endpoint) {
            return Ok(Self::Grpc(Box::new(Grpc::new(NAME, client, gate, answers)?)));
        }
        let settings = Settings {
            name: NAME,
            url: &client.endpoint,
            setting: "the data store's endpoint",
            headers: &client.headers,
            certificates: http::certificates(client.tls.as_ref(), gate)?,
        };
        Ok(Self::Http(Box::new(Http::new(&settings, gate, answers)?)))
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
        let trace_id = received.trace().to_string();
        match self {
            Self::Grpc(client) => {
                let mut messages = client.call(GET_TRACE, &GetTraceRequest { trace_id }).await?;
                while let Some(message) = messages.next().await? {
                    if received.is_new(&message) {
                        let (spans, _lease) = client.spans(message).await?;
                        received.add(spans).await?;
                    }
                }
                Ok(())
            }
            Self::Http(client) => {
                let answer = client.get(&format!("/api/v3/traces/{trace_id}"), &[]).await?;
                if answer.is_missing() {
                    // Its own 404 is JSON; that of another server, or of an older Jaeger, is not.
                    return match client.json::<Map<String, Value>>(answer).await {
                        Ok((told, _lease)) if told.contains_key("error") => Ok(()),
                        _ => Err(client.foreign("it does not have `/api/v3/traces`")),
                    };
                }
                if !received.is_new(&answer.body) {
                    return Ok(());
                }
                let read = |body: Bytes, lease: &mut Lease| otlp_json::read(&body, lease);
                let (spans, _lease) = client.decode(answer, read).await?;
                received.add(spans).await
            }
        }
    }

    /// Asks for something that every Jaeger has.
    pub(super) async fn probe(&self) -> Result<(), FetchError> {
        match self {
            // Any trace will do: that it is not there is an answer, too.
            Self::Grpc(client) => {
                let trace_id = "00000000000000000000000000000001".to_owned();
                let mut messages = client.call(GET_TRACE, &GetTraceRequest { trace_id }).await?;
                messages.next().await.map(|_| ())
            }
            Self::Http(client) => {
                let answer = client.get(SERVICES, &[]).await?;
                let is_missing = answer.is_missing();
                match client.json::<Map<String, Value>>(answer).await {
                    // The list is left out while it is empty.
                    Ok((told, _lease))
                        if !is_missing && (told.is_empty() || told.contains_key("services")) =>
                    {
                        Ok(())
                    }
                    Err(error) if error.failure.reason == Reason::TooLarge => Err(error),
                    _ => Err(client.foreign(&format!("it does not have `{SERVICES}`"))),
                }
            }
        }
    }
}

/// Whether an endpoint is that of the HTTP API.
pub(super) fn is_http(endpoint: &str) -> bool {
    let endpoint = endpoint.trim().to_ascii_lowercase();
    endpoint.starts_with("http://") || endpoint.starts_with("https://")
}
