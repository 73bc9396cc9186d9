//! ClickHouse: the table that the Collector's exporter writes, over the HTTP interface.
//!
//! The table has texts only, so attributes that were numbers are read as texts.

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use qualitytrace_core::definition::Text;
use qualitytrace_core::definition::source::ClickHouse as Definition;
use reqwest::Method;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::answers::Answers;
use super::error::FetchError;
use super::http::{Answer, Http, Settings};
use super::received::Received;
use super::spans::kind;
use crate::base::budget::Lease;
use crate::base::decode::{self, DecodeError, Room};
use crate::outbound::trigger::{Certificates, Endpoint, Gate, Reason, TriggerError};
use crate::receive::trace_files::collected::{self, Collected};
use crate::receive::trace_files::ids;

/// Its name in messages.
pub(super) const NAME: &str = "ClickHouse";
/// Rows of one page.
const PAGE: usize = 2_000;
/// A page of the spans of a trace, in the order of their ids.
const QUERY: &str = "\
SELECT SpanId, ParentSpanId, TraceState, SpanName, SpanKind, ServiceName, ResourceAttributes, ScopeName, ScopeVersion, \
SpanAttributes, toUnixTimestamp64Nano(Timestamp) AS Start, Duration, StatusCode, StatusMessage, \
arrayMap(at -> toUnixTimestamp64Nano(at), `Events.Timestamp`) AS EventTimes, `Events.Name` AS EventNames, \
`Events.Attributes` AS EventAttributes, `Links.TraceId` AS LinkTraces, `Links.SpanId` AS LinkSpans, \
`Links.TraceState` AS LinkStates, `Links.Attributes` AS LinkAttributes \
FROM {database:Identifier}.{table:Identifier} WHERE TraceId = {trace:String} AND SpanId > {after:String} \
ORDER BY SpanId LIMIT {page:UInt32} FORMAT JSONEachRow";

/// The client of a table.
#[derive(Debug)]
pub(super) struct ClickHouse {
    http: Http,
    table: Definition,
}

/// A row, with the names of the table and of the query.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Row {
    span_id: String,
    #[serde(default)]
    parent_span_id: String,
    #[serde(default)]
    trace_state: String,
    #[serde(default)]
    span_name: String,
    #[serde(default)]
    span_kind: String,
    #[serde(default)]
    service_name: String,
    #[serde(default)]
    resource_attributes: Map<String, Value>,
    #[serde(default)]
    scope_name: String,
    #[serde(default)]
    scope_version: String,
    #[serde(default)]
    span_attributes: Map<String, Value>,
    #[serde(deserialize_with = "quoted")]
    start: u64,
    #[serde(default, deserialize_with = "quoted")]
    duration: u64,
    #[serde(default)]
    status_code: String,
    #[serde(default)]
    status_message: String,
    #[serde(default)]
    event_times: Vec<Value>,
    #[serde(default)]
    event_names: Vec<String>,
    #[serde(default)]
    event_attributes: Vec<Map<String, Value>>,
    #[serde(default)]
    link_traces: Vec<String>,
    #[serde(default)]
    link_spans: Vec<String>,
    #[serde(default)]
    link_states: Vec<String>,
    #[serde(default)]
    link_attributes: Vec<Map<String, Value>>,
}

/// The spans of one answer.
pub(super) struct Page {
    count: usize,
    /// The id of the last one.
    last: Option<String>,
    pub(super) spans: ExportTraceServiceRequest,
}

impl Page {
    /// Reads an answer: one document on each line.
    pub(super) fn read(body: &[u8], room: &mut impl Room) -> Result<Self, DecodeError> {
        let rows: Vec<Row> = decode::json_documents(body, room)?;
        let (count, last) = (rows.len(), rows.last().map(|row| row.span_id.clone()));
        Ok(Self { count, last, spans: spans(rows)? })
    }
}

impl ClickHouse {
    /// Creates the client.
    pub(super) fn new(table: &Definition, gate: &Gate, answers: &Answers) -> Result<Self, TriggerError> {
        let none: [(String, Text); 0] = [];
        let settings = Settings {
            name: NAME,
            url: &table.url,
            setting: "the data store's url",
            headers: &none,
            certificates: Certificates { verify: true, ..Certificates::default() },
        };
        Ok(Self { http: Http::new(&settings, gate, answers)?, table: table.clone() })
    }

    /// The peer, for messages.
    pub(super) fn endpoint(&self) -> &Endpoint {
        self.http.endpoint()
    }

    /// Fetches a trace.
    pub(super) async fn fetch(&self, received: &mut Received<'_>) -> Result<(), FetchError> {
        let trace = received.trace().to_string();
        let mut after = String::new();
        loop {
            let answer = self.ask(&trace, &after).await?;
            let is_new = received.is_new(&answer.body);
            let read = |body: Bytes, lease: &mut Lease| Page::read(&body, lease);
            let (Page { count, last, spans }, _lease) = self.http.decode(answer, read).await?;
            if is_new {
                received.add(spans).await?;
            }
            match last {
                Some(last) if count >= PAGE && last > after => after = last,
                _ => return Ok(()),
            }
        }
    }

    /// Asks for a trace that does not exist.
    pub(super) async fn probe(&self) -> Result<(), FetchError> {
        self.ask("", "").await.map(|_| ())
    }

    async fn ask(&self, trace: &str, after: &str) -> Result<Answer, FetchError> {
        let Definition { database, table, username, password, .. } = &self.table;
        let page = PAGE.to_string();
        let parameters = [
            ("param_database", database.as_str()),
            ("param_table", table),
            ("param_trace", trace),
            ("param_after", after),
            ("param_page", &page),
        ];
        let mut request = self.http.request(Method::POST, "/").query(&parameters).body(QUERY);
        if !username.is_empty() {
            request = request.header("X-ClickHouse-User", username).header("X-ClickHouse-Key", password);
        }
        let answer = self.http.send(request).await?;
        if answer.is_missing() {
            let cause =
                format!("no table `{database}.{table}`; correct the data store's `database` and `table`");
            return Err(TriggerError::at(self.endpoint(), Reason::Missing, &cause).into());
        }
        Ok(answer)
    }
}

/// Reads an integer, in quotes or not.
fn quoted<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let value = Value::deserialize(deserializer)?;
    integer(&value).ok_or_else(|| serde::de::Error::custom(format!("`{value}` is no positive integer")))
}

fn integer(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Converts rows to spans.
fn spans(rows: Vec<Row>) -> Result<ExportTraceServiceRequest, String> {
    let mut collected = Collected::default();
    for mut row in rows {
        let mut resource = attributes(&row.resource_attributes);
        if !row.service_name.is_empty() && !row.resource_attributes.contains_key("service.name") {
            resource.push(collected::text("service.name", &row.service_name));
        }
        let scope = (std::mem::take(&mut row.scope_name), std::mem::take(&mut row.scope_version));
        let span = span(row)?;
        collected.add(&format!("{resource:?}"), scope, span, || resource);
    }
    Ok(collected.into_request())
}

fn span(row: Row) -> Result<Span, String> {
    let events = row.event_times.iter().zip(row.event_names).enumerate().map(|(at, (time, name))| Event {
        time_unix_nano: integer(time).unwrap_or_default(),
        name,
        attributes: row.event_attributes.get(at).map(attributes).unwrap_or_default(),
        ..Event::default()
    });
    let links = row.link_traces.iter().zip(&row.link_spans).enumerate().map(|(at, (trace, span))| {
        Ok(Link {
            trace_id: ids::linked_trace("Links.TraceId", trace)?,
            span_id: ids::span("Links.SpanId", span)?,
            trace_state: row.link_states.get(at).cloned().unwrap_or_default(),
            attributes: row.link_attributes.get(at).map(attributes).unwrap_or_default(),
            ..Link::default()
        })
    });
    let code = match row.status_code.to_ascii_lowercase().trim_start_matches("status_code_") {
        "ok" => StatusCode::Ok,
        "error" => StatusCode::Error,
        _ => StatusCode::Unset,
    };
    Ok(Span {
        span_id: ids::span("SpanId", &row.span_id)?,
        parent_span_id: ids::span("ParentSpanId", &row.parent_span_id)?,
        trace_state: row.trace_state,
        name: row.span_name,
        kind: kind(&row.span_kind).into(),
        start_time_unix_nano: row.start,
        end_time_unix_nano: row.start.saturating_add(row.duration),
        attributes: attributes(&row.span_attributes),
        events: events.collect(),
        links: links.collect::<Result<_, String>>()?,
        status: Some(Status { code: code.into(), message: row.status_message }),
        ..Span::default()
    })
}

fn attributes(fields: &Map<String, Value>) -> Vec<KeyValue> {
    fields.iter().map(|(key, value)| collected::json(key, value)).collect()
}
