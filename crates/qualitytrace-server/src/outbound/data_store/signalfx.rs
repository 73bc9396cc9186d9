//! SignalFx (Splunk): a trace is a list of segments, each of which is fetched.

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use qualitytrace_core::definition::Text;
use qualitytrace_core::definition::source::SignalFx as Definition;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Map, Number, Value};

use super::answers::Answers;
use super::error::FetchError;
use super::http::{Answer, Http, Settings};
use super::received::Received;
use super::spans::{kind, rfc3339};
use crate::base::budget::Lease;
use crate::base::decode::{self, DecodeError, Room};
use crate::outbound::trigger::{Certificates, Endpoint, Gate, TriggerError};
use crate::receive::trace_files::collected::{self, Collected, ScopeName};
use crate::receive::trace_files::{ids, numbers};

/// Its name in messages.
pub(super) const NAME: &str = "SignalFx";

/// The client of SignalFx.
#[derive(Debug)]
pub(super) struct SignalFx {
    http: Http,
    token: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Segment {
    #[serde(default)]
    trace_id: String,
    span_id: String,
    parent_id: Option<String>,
    operation_name: Option<String>,
    service_name: Option<String>,
    start_time: String,
    duration_micros: Option<Number>,
    tags: Option<Map<String, Value>>,
    process_tags: Option<Map<String, Value>>,
}

impl SignalFx {
    /// Creates the client.
    pub(super) fn new(signalfx: &Definition, gate: &Gate, answers: &Answers) -> Result<Self, TriggerError> {
        let usual = format!("https://api.{}.signalfx.com", signalfx.realm.trim());
        let url = if signalfx.url.trim().is_empty() { &usual } else { &signalfx.url };
        let none: [(String, Text); 0] = [];
        let settings = Settings {
            name: NAME,
            url,
            setting: "the data store's realm",
            headers: &none,
            certificates: Certificates { verify: true, ..Certificates::default() },
        };
        Ok(Self { http: Http::new(&settings, gate, answers)?, token: signalfx.token.trim().to_owned() })
    }

    /// The peer, for messages.
    pub(super) fn endpoint(&self) -> &Endpoint {
        self.http.endpoint()
    }

    /// Fetches a trace.
    pub(super) async fn fetch(&self, received: &mut Received<'_>) -> Result<(), FetchError> {
        let trace = received.trace();
        let answer = self.get(&format!("/v2/apm/trace/{trace}/segments")).await?;
        if answer.is_missing() {
            return Ok(());
        }
        let (times, _lease) = self.http.json::<Vec<i64>>(answer).await?;
        for time in times {
            let answer = self.get(&format!("/v2/apm/trace/{trace}/{time}")).await?;
            if answer.is_missing() {
                return Err(self.http.pending(&format!("the segment {time}")));
            }
            if received.is_new(&answer.body) {
                let read = |body: Bytes, lease: &mut Lease| read(&body, lease);
                let (spans, _lease) = self.http.decode(answer, read).await?;
                received.add(spans).await?;
            }
        }
        Ok(())
    }

    /// Asks for the segments of a trace that does not exist.
    pub(super) async fn probe(&self) -> Result<(), FetchError> {
        self.get(&format!("/v2/apm/trace/{:032x}/segments", 1)).await.map(|_| ())
    }

    async fn get(&self, path: &str) -> Result<Answer, FetchError> {
        // Access tokens of an organisation are sent as `X-SF-TOKEN`, too.
        let request = self.http.request(Method::GET, path).bearer_auth(&self.token);
        self.http.send(request.header("X-SF-TOKEN", &self.token)).await
    }
}

/// Converts the spans of a segment. A tag of the span wins over one of its process.
pub(super) fn read(body: &[u8], room: &mut impl Room) -> Result<ExportTraceServiceRequest, DecodeError> {
    let segments: Vec<Segment> = decode::json(body, room)?;
    let mut collected = Collected::default();
    for segment in segments {
        let process = segment.process_tags.clone().unwrap_or_default();
        let mut resource: Vec<_> = process.iter().map(|(key, value)| collected::json(key, value)).collect();
        if let Some(service) = segment.service_name.as_deref().filter(|name| !name.is_empty())
            && !process.contains_key("service.name")
        {
            resource.push(collected::text("service.name", service));
        }
        let span = span(segment)?;
        collected.add(&format!("{resource:?}"), ScopeName::default(), span, || resource);
    }
    Ok(collected.into_request())
}

fn span(segment: Segment) -> Result<Span, String> {
    let mut tags = segment.tags.unwrap_or_default();
    let kind = kind(tags.shift_remove("span.kind").as_ref().and_then(Value::as_str).unwrap_or_default());
    let is_error = tags.get("error").is_some_and(|error| *error == true || *error == "true");
    let start = rfc3339("startTime", &segment.start_time)?;
    Ok(Span {
        trace_id: match segment.trace_id.as_str() {
            "" => Vec::new(),
            id => ids::trace("traceId", id)?,
        },
        span_id: ids::span("spanId", &segment.span_id)?,
        parent_span_id: ids::span("parentId", segment.parent_id.as_deref().unwrap_or_default())?,
        name: segment.operation_name.unwrap_or_default(),
        kind: kind.into(),
        start_time_unix_nano: start,
        end_time_unix_nano: numbers::end(start, segment.duration_micros.as_ref())?,
        attributes: tags.iter().map(|(key, value)| collected::json(key, value)).collect(),
        status: is_error.then(|| Status { code: StatusCode::Error.into(), message: String::new() }),
        ..Span::default()
    })
}
