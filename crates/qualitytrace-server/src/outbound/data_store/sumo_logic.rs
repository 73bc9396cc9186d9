//! Sumo Logic: a list of spans, and the details of each one.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use qualitytrace_core::definition::Text;
use qualitytrace_core::definition::source::SumoLogic as Definition;
use reqwest::Method;
use serde::Deserialize;
use serde_json::Value;

use super::answers::Answers;
use super::error::FetchError;
use super::http::{Answer, Http, MAX_PAGES, Settings};
use super::received::Received;
use super::spans::{kind, rfc3339};
use crate::base::budget::Lease;
use crate::base::decode::{self, DecodeError, Room};
use crate::outbound::trigger::{Certificates, Endpoint, Gate, TriggerError};
use crate::receive::trace_files::collected::{self, Collected, ScopeName};
use crate::receive::trace_files::ids;

/// Its name in messages.
pub(super) const NAME: &str = "Sumo Logic";
/// Spans of one page.
const PAGE: &str = "100";

/// The client of Sumo Logic.
#[derive(Debug)]
pub(super) struct SumoLogic {
    http: Http,
    access_id: String,
    access_key: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    #[serde(default, alias = "spans")]
    span_page: Vec<Summary>,
    next: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    id: String,
    parent_id: Option<String>,
    operation_name: Option<String>,
    service: Option<String>,
    started_at: String,
    /// Nanoseconds.
    duration: Option<u64>,
    kind: Option<String>,
    status: Option<SpanStatus>,
}

/// The status of a span.
#[derive(Deserialize)]
struct SpanStatus {
    /// `OK`, `ERROR` or `UNKNOWN`.
    #[serde(default)]
    code: String,
    message: Option<String>,
}

/// The details of a span.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Details {
    error_message: Option<String>,
    #[serde(default)]
    fields: BTreeMap<String, Field>,
    #[serde(default)]
    events: Vec<Occurrence>,
    #[serde(default)]
    links: Vec<Linked>,
}

#[derive(Deserialize)]
struct Field {
    #[serde(default)]
    value: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Linked {
    #[serde(default)]
    trace_id: String,
    #[serde(default)]
    span_id: String,
}

#[derive(Deserialize)]
struct Occurrence {
    #[serde(default)]
    name: String,
    timestamp: Option<String>,
    #[serde(default)]
    attributes: Vec<Attribute>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attribute {
    #[serde(alias = "name", alias = "key")]
    attribute_name: String,
    /// Like a `Field`.
    #[serde(default, alias = "value")]
    attribute_value: Value,
}

impl SumoLogic {
    /// Creates the client.
    pub(super) fn new(sumo: &Definition, gate: &Gate, answers: &Answers) -> Result<Self, TriggerError> {
        let none: [(String, Text); 0] = [];
        let settings = Settings {
            name: NAME,
            url: &sumo.url,
            setting: "the data store's url",
            headers: &none,
            certificates: Certificates { verify: true, ..Certificates::default() },
        };
        let http = Http::new(&settings, gate, answers)?;
        Ok(Self { http, access_id: sumo.access_id.clone(), access_key: sumo.access_key.clone() })
    }

    /// The peer, for messages.
    pub(super) fn endpoint(&self) -> &Endpoint {
        self.http.endpoint()
    }

    /// Fetches a trace. The details of a span are fetched once.
    pub(super) async fn fetch(&self, received: &mut Received<'_>) -> Result<(), FetchError> {
        let path = format!("/v1/tracing/traces/{}/spans", received.trace());
        let mut token = None;
        for _ in 0..MAX_PAGES {
            let mut query = vec![("limit", PAGE)];
            query.extend(token.as_deref().map(|token| ("token", token)));
            let answer = self.get(&path, &query).await?;
            if answer.is_missing() {
                return Ok(());
            }
            let (page, _lease) = self.http.json::<Page>(answer).await?;
            for summary in page.span_page {
                let id = ids::span("id", &summary.id).map_err(|cause| self.http.foreign(&cause))?;
                if received.knows(&id) {
                    continue;
                }
                let (details, _lease) = match self.details(&path, &summary.id).await {
                    Ok(details) => details,
                    // The service allows few requests: what was fetched is not fetched again.
                    Err(error) => {
                        received.store().await?;
                        return Err(error);
                    }
                };
                received.add(span(summary, details).map_err(|cause| self.http.foreign(&cause))?).await?;
            }
            token = page.next.filter(|next| !next.is_empty());
            if token.is_none() {
                return Ok(());
            }
        }
        Err(self.http.endless())
    }

    /// Asks for a trace that does not exist.
    pub(super) async fn probe(&self) -> Result<(), FetchError> {
        let path = format!("/v1/tracing/traces/{:032x}/spans", 1);
        self.get(&path, &[("limit", PAGE)]).await.map(|_| ())
    }

    async fn details(&self, path: &str, id: &str) -> Result<(Details, Lease), FetchError> {
        let answer = self.get(&format!("{path}/{id}"), &[]).await?;
        if answer.is_missing() {
            Err(self.http.pending(&format!("the span {id}")))
        } else {
            self.http.json(answer).await
        }
    }

    async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Answer, FetchError> {
        let request = self.http.request(Method::GET, path).query(query);
        self.http.send(request.basic_auth(&self.access_id, Some(&self.access_key))).await
    }
}

/// A span, with what is told of it in two answers.
#[derive(Deserialize)]
struct SpanParts {
    summary: Summary,
    details: Details,
}

/// Reads a span and its details.
pub(super) fn read(body: &[u8], room: &mut impl Room) -> Result<ExportTraceServiceRequest, DecodeError> {
    let SpanParts { summary, details } = decode::json(body, room)?;
    Ok(span(summary, details)?)
}

/// Converts a span.
fn span(summary: Summary, details: Details) -> Result<ExportTraceServiceRequest, String> {
    let start = rfc3339("startedAt", &summary.started_at)?;
    let word = |name: &str| details.fields.get(name).and_then(|field| field.value.as_str());
    let kind = kind(summary.kind.as_deref().or_else(|| word("span.kind")).unwrap_or_default());
    let service = summary.service.as_deref().or_else(|| word("service.name")).unwrap_or_default();
    let resource =
        if service.is_empty() { Vec::new() } else { vec![collected::text("service.name", service)] };
    let span = Span {
        span_id: ids::span("id", &summary.id)?,
        parent_span_id: ids::span("parentId", summary.parent_id.as_deref().unwrap_or_default())?,
        name: summary.operation_name.unwrap_or_default(),
        kind: kind.into(),
        start_time_unix_nano: start,
        end_time_unix_nano: start.saturating_add(summary.duration.unwrap_or_default()),
        attributes: details.fields.iter().map(|(name, field)| collected::json(name, &field.value)).collect(),
        events: details.events.into_iter().map(event).collect::<Result<_, _>>()?,
        links: details.links.iter().map(link).collect::<Result<_, _>>()?,
        status: summary.status.map(|told| status(told, details.error_message)),
        ..Span::default()
    };
    let mut collected = Collected::default();
    collected.add(service, ScopeName::default(), span, || resource);
    Ok(collected.into_request())
}

/// Converts the status. The message of the error may be in the details only.
fn status(told: SpanStatus, error: Option<String>) -> Status {
    let code = match told.code.to_ascii_uppercase().as_str() {
        "OK" => StatusCode::Ok,
        "ERROR" => StatusCode::Error,
        _ => StatusCode::Unset,
    };
    let message = told.message.filter(|message| !message.is_empty()).or(error);
    Status { code: code.into(), message: message.unwrap_or_default() }
}

fn link(linked: &Linked) -> Result<Link, String> {
    Ok(Link {
        trace_id: ids::linked_trace("traceId", &linked.trace_id)?,
        span_id: ids::span("spanId", &linked.span_id)?,
        ..Link::default()
    })
}

fn event(occurrence: Occurrence) -> Result<Event, String> {
    let time = occurrence.timestamp.as_deref().map(|time| rfc3339("timestamp", time)).transpose()?;
    let attribute = |attribute: &Attribute| -> KeyValue {
        let value = &attribute.attribute_value;
        collected::json(&attribute.attribute_name, value.get("value").unwrap_or(value))
    };
    Ok(Event {
        time_unix_nano: time.unwrap_or_default(),
        name: occurrence.name,
        attributes: occurrence.attributes.iter().map(attribute).collect(),
        ..Event::default()
    })
}
