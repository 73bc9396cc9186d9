//! Azure Application Insights: a Kusto query for the rows of a trace.

mod identity;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::span::{Event, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use qualitytrace_core::definition::Text;
use qualitytrace_core::definition::source::AzureAppInsights as Definition;
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use self::identity::Identity;
use super::answers::Answers;
use super::error::FetchError;
use super::http::{Answer, Http, Settings};
use super::received::Received;
use super::spans::rfc3339;
use crate::base::budget::Lease;
use crate::base::decode::{self, DecodeError, Room};
use crate::outbound::trigger::{Certificates, Endpoint, Gate, Reason, TriggerError};
use crate::receive::trace_files::collected::{self, Collected, ScopeName};
use crate::receive::trace_files::ids;

/// Its name in messages.
pub(super) const NAME: &str = "Azure Application Insights";
/// The address of the query API.
const URL: &str = "https://api.loganalytics.io";
/// The column of what a user has set.
const CUSTOM: &str = "customDimensions";
/// What a member of a row takes beside its name.
const ROW_MEMBER: u64 = 400;
/// Columns of a row that are not attributes of their own.
const OWN: [&str; 9] = [
    "timestamp",
    "itemType",
    "id",
    "operation_Id",
    "operation_ParentId",
    "name",
    "duration",
    "customDimensions",
    "success",
];

/// The client of a resource.
#[derive(Debug)]
pub(super) struct Azure {
    http: Http,
    resource: String,
    login: Login,
}

/// Where the token comes from.
#[derive(Debug)]
enum Login {
    /// The definition.
    Token(String),
    /// Azure Active Directory.
    Identity(Identity),
}

#[derive(Deserialize)]
struct Tables {
    tables: Vec<Table>,
    /// Why they have a part of the rows.
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Value>>,
}

#[derive(Deserialize)]
struct Column {
    name: String,
}

type Row = Map<String, Value>;

impl Azure {
    /// Creates the client.
    pub(super) fn new(azure: &Definition, gate: &Gate, answers: &Answers) -> Result<Self, TriggerError> {
        let none: [(String, Text); 0] = [];
        let settings = Settings {
            name: NAME,
            url: if azure.url.trim().is_empty() { URL } else { &azure.url },
            setting: "the data store's url",
            headers: &none,
            certificates: Certificates { verify: true, ..Certificates::default() },
        };
        let http = Http::new(&settings, gate, answers)?;
        let login = match azure.access_token.trim() {
            _ if azure.use_azure_active_directory_auth => {
                Login::Identity(Identity::new(http.url("").origin().ascii_serialization())?)
            }
            "" => {
                let message = "the data store has no `accessToken`; get one with `az account get-access-token \
                               --resource https://api.loganalytics.io`, use the server's own identity \
                               (`useAzureActiveDirectoryAuth: true`), or let the Collector send spans to this server \
                               (`connectionType: collector`)";
                return Err(TriggerError::told(Reason::Unsupported, message.to_owned()));
            }
            token => Login::Token(token.to_owned()),
        };
        Ok(Self { http, resource: azure.resource_arm_id.trim().trim_matches('/').to_owned(), login })
    }

    /// The peer, for messages.
    pub(super) fn endpoint(&self) -> &Endpoint {
        self.http.endpoint()
    }

    /// Fetches a trace.
    pub(super) async fn fetch(&self, received: &mut Received<'_>) -> Result<(), FetchError> {
        let query = format!(
            "union isfuzzy=true requests, dependencies, pageViews, customEvents, traces, exceptions | where operation_Id \
             == \"{}\"",
            received.trace()
        );
        let answer = self.ask(&query).await?;
        if !received.is_new(&answer.body) {
            return Ok(());
        }
        let read = |body: Bytes, lease: &mut Lease| read(&body, lease);
        let ((error, spans), _lease) = self.http.decode(answer, read).await?;
        if let Some(error) = error {
            let failure = TriggerError::at(self.endpoint(), Reason::TooLarge, &error.to_string());
            return Err(FetchError::passing(failure));
        }
        received.add(spans).await
    }

    /// Asks for nothing of the resource.
    pub(super) async fn probe(&self) -> Result<(), FetchError> {
        self.ask("requests | take 0").await.map(|_| ())
    }

    async fn ask(&self, query: &str) -> Result<Answer, FetchError> {
        let request = self.http.request(Method::POST, &format!("/v1/{}/query", self.resource));
        let token = match &self.login {
            Login::Token(token) => token.clone(),
            Login::Identity(identity) => identity.token().await?,
        };
        let request = request.bearer_auth(token).header(CONTENT_TYPE, "application/json");
        let answer = self.http.send(request.body(json!({ "query": query }).to_string())).await?;
        if answer.is_missing() {
            let cause = format!("no resource `{}`; correct the data store's `resourceArmId`", self.resource);
            return Err(TriggerError::at(self.endpoint(), Reason::Missing, &cause).into());
        }
        Ok(answer)
    }
}

/// Reads an answer: why it has a part of the rows, and the spans.
pub(super) fn read(
    body: &[u8],
    room: &mut impl Room,
) -> Result<(Option<Value>, ExportTraceServiceRequest), DecodeError> {
    let mut tables: Tables = decode::json(body, room)?;
    let error = tables.error.take();
    Ok((error, spans(tables, room)?))
}

/// Converts the rows of an answer. Log lines, exceptions, custom events and whatever else has no id are events of the
/// span that they name as their parent.
fn spans(answer: Tables, room: &mut impl Room) -> Result<ExportTraceServiceRequest, DecodeError> {
    let mut events: BTreeMap<Vec<u8>, Vec<Event>> = BTreeMap::new();
    let mut spans = Vec::new();
    for table in answer.tables {
        let names: Vec<String> = table.columns.into_iter().map(|column| column.name).collect();
        for values in table.rows {
            // The names of the columns are repeated in every row, and in the attributes that are made of it.
            let repeated = names.iter().take(values.len()).map(|name| 2 * name.len() as u64 + ROW_MEMBER);
            room.take(repeated.sum())?;
            let mut row: Row = names.iter().cloned().zip(values).collect();
            unfold(&mut row, room)?;
            let is_event = ["trace", "exception", "customEvent"].contains(&text(&row, "itemType"));
            if is_event || id(text(&row, "id")).is_empty() {
                events.entry(parent(&row)).or_default().push(event(&row)?);
            } else {
                spans.push(row);
            }
        }
    }
    let mut collected = Collected::default();
    for row in spans {
        let service = text(&row, "cloud_RoleName").to_owned();
        let resource = || vec![collected::text("service.name", &service)];
        let mut span = span(&row)?;
        span.events = events.remove(&span.span_id).unwrap_or_default();
        collected.add(&service, ScopeName::default(), span, resource);
    }
    Ok(collected.into_request())
}

/// Puts the custom dimensions in the place of the text that they are written as.
fn unfold(row: &mut Row, room: &mut impl Room) -> Result<(), DecodeError> {
    let Some(custom) = row.get_mut(CUSTOM) else { return Ok(()) };
    if let Value::String(written) = custom {
        *custom = match decode::json::<Row>(written.as_bytes(), room) {
            Ok(fields) => Value::Object(fields),
            Err(DecodeError::Malformed(_)) => Value::Null,
            Err(short) => return Err(short),
        };
    }
    Ok(())
}

fn text<'r>(row: &'r Row, name: &str) -> &'r str {
    row.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn span(row: &Row) -> Result<Span, String> {
    let start = rfc3339("timestamp", text(row, "timestamp"))?;
    // Milliseconds.
    let duration = row.get("duration").and_then(Value::as_f64).filter(|time| (0.0..1e12).contains(time));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is within the range")]
    let duration = duration.map_or(0, |millis| (millis * 1e6).round() as u64);
    let is_failed = matches!(row.get("success"), Some(Value::Bool(false)))
        || text(row, "success").eq_ignore_ascii_case("false");
    Ok(Span {
        span_id: id(text(row, "id")),
        parent_span_id: parent(row),
        name: text(row, "name").to_owned(),
        kind: kind(text(row, "itemType"), text(row, "type")).into(),
        start_time_unix_nano: start,
        end_time_unix_nano: start.saturating_add(duration),
        attributes: attributes(row),
        status: is_failed.then(|| Status { code: StatusCode::Error.into(), message: String::new() }),
        ..Span::default()
    })
}

/// The parent; a root names the operation itself, which has 32 digits.
fn parent(row: &Row) -> Vec<u8> {
    let written = text(row, "operation_ParentId");
    if written == text(row, "operation_Id") { Vec::new() } else { id(written) }
}

/// Reads an id: 16 digits, also as `|TRACE.SPAN.`. Older libraries number work in other ways (`|TRACE.2.1.`): each such
/// text becomes one id, wherever it stands.
fn id(written: &str) -> Vec<u8> {
    let last = written.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    ids::span("id", if last.len() == 16 { last } else { written }).unwrap_or_else(|_| {
        let mut hasher = DefaultHasher::new();
        written.hash(&mut hasher);
        hasher.finish().to_be_bytes().to_vec()
    })
}

fn kind(item: &str, of: &str) -> SpanKind {
    match item {
        "request" if of.starts_with("Queue") => SpanKind::Consumer,
        "request" => SpanKind::Server,
        "dependency" if of.starts_with("InProc") => SpanKind::Internal,
        "dependency" if of.starts_with("Queue") => SpanKind::Producer,
        "dependency" => SpanKind::Client,
        _ => SpanKind::Unspecified,
    }
}

fn event(row: &Row) -> Result<Event, String> {
    let mut names = ["message", "outerMessage", "problemId", "name"].into_iter().map(|name| text(row, name));
    Ok(Event {
        time_unix_nano: rfc3339("timestamp", text(row, "timestamp"))?,
        name: names.find(|name| !name.is_empty()).unwrap_or_default().to_owned(),
        attributes: attributes(row),
        ..Event::default()
    })
}

/// The custom dimensions, which a user set, and the other columns that have a value.
fn attributes(row: &Row) -> Vec<KeyValue> {
    let none = Map::new();
    let custom = row.get(CUSTOM).and_then(Value::as_object).unwrap_or(&none);
    let is_set = |value: &Value| !value.is_null() && *value != "";
    let columns = row.iter().filter(|(name, value)| {
        !OWN.contains(&name.as_str()) && is_set(value) && !custom.contains_key(name.as_str())
    });
    custom.iter().chain(columns).map(|(name, value)| collected::json(name, value)).collect()
}
