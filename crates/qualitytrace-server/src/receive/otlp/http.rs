//! OTLP over HTTP: `/v1/traces`, `/v1/metrics`, `/v1/logs`, in protobuf or JSON.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tonic::Code;
use tower_http::cors::{Any, CorsLayer};

use super::intake::{self, Encoding, Format, Framing, Incoming, IntakeError, Signal};
use super::status::{response_message, status_message};
use crate::base::body::{BodyError, discard};
use crate::http::access::RequiredAccess;
use crate::http::routes::Routes;
use crate::http::routes::operation::hidden;
use crate::receive::ingest::{Accepted, Ingest, IngestError};

const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";
/// How many characters of a wrong path are told.
const SHOWN_PATH: usize = 60;

/// Returns the routes of the three endpoints.
pub(crate) fn routes(ingest: Arc<Ingest>) -> Routes {
    let endpoints = [("traces", Signal::Traces), ("metrics", Signal::Metrics), ("logs", Signal::Logs)];
    let routes = endpoints.into_iter().fold(Routes::new(), |routes, (name, signal)| {
        let handler = move |State(ingest): State<Arc<Ingest>>, request: Request| async move {
            export(&ingest, signal, request).await
        };
        routes.post(&format!("/v1/{name}"), RequiredAccess::Deliver, handler, hidden())
    });
    routes.with_state(ingest)
}

/// Allows browsers of any origin. Must be outside of the token check: browsers send preflight requests without a token.
pub(crate) fn cors() -> CorsLayer {
    CorsLayer::new().allow_origin(Any).allow_methods([http::Method::POST]).allow_headers(Any)
}

/// Notes spans that were posted to a path that takes none: a run without a trace then says so.
pub(crate) fn note_misdirected(ingest: &Ingest, request: &Parts) {
    let path = request.uri.path();
    let of = |kind| request.headers.get(CONTENT_TYPE).is_some_and(|given| given.as_bytes().starts_with(kind));
    let is_otlp = of(PROTOBUF.as_bytes()) || (of(JSON.as_bytes()) && path.contains("v1/trace"));
    let is_other = path.contains("v1/metrics") || path.contains("v1/logs");
    // Where deliveries need a token, one without it changes no verdict.
    if request.method == Method::POST && is_otlp && !is_other && !ingest.requires_token() {
        let shown: String = path.chars().take(SHOWN_PATH).collect();
        let reason = format!(
            "it was posted to {shown:?}, and spans go to /v1/traces: write OTEL_EXPORTER_OTLP_ENDPOINT without a path, or \
             OTEL_EXPORTER_OTLP_TRACES_ENDPOINT with it"
        );
        ingest.refusals().note(&ingest.sender(request), reason, false);
    }
}

async fn export(ingest: &Arc<Ingest>, signal: Signal, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let (format, encoding) = match content_encoding(&parts.headers) {
        Ok(content_encoding) => content_encoding,
        Err((format, message)) => {
            discard(body, ingest.limits().body_bytes).await;
            return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, format, Code::InvalidArgument, &message);
        }
    };
    let sender = ingest.sender(&parts);
    let incoming = Incoming::new(&parts, body);
    match intake::take(ingest, sender, signal, format, incoming, SingleMessage { encoding }).await {
        Ok(accepted) => accept(format, signal, &accepted),
        Err(refusal) => refused(format, &refusal, ingest.limits().retry_after.as_secs().max(1)),
    }
}

/// A body that is one message.
pub(super) struct SingleMessage {
    pub(super) encoding: Encoding,
}

impl Framing for SingleMessage {
    fn announced(&self, _beginning: &[u8]) -> u64 {
        0
    }

    fn message(self, body: Bytes) -> Result<(Encoding, Bytes), IntakeError> {
        Ok((self.encoding, body))
    }
}

/// Reads format and compression from the headers. Fails with the error message and the format to respond in.
fn content_encoding(headers: &HeaderMap) -> Result<(Format, Encoding), (Format, String)> {
    let sent = text(headers, &CONTENT_TYPE);
    let format = format(sent).ok_or_else(|| {
        let message = format!("content type `{sent}` is not supported: send {PROTOBUF} or {JSON}");
        (format(text(headers, &ACCEPT)).unwrap_or(Format::Json), message)
    })?;
    let sent = text(headers, &CONTENT_ENCODING);
    let encoding = Encoding::named(sent).ok_or_else(|| {
        (format, format!("content encoding `{sent}` is not supported: use one of {}", Encoding::KNOWN))
    })?;
    Ok((format, encoding))
}

fn accept(format: Format, signal: Signal, accepted: &Accepted) -> Response {
    let body = match format {
        Format::Protobuf => response_message(accepted),
        Format::Json => json_response(signal, accepted).into(),
    };
    answer(StatusCode::OK, format, body.into())
}

fn json_response(signal: Signal, accepted: &Accepted) -> String {
    if accepted.rejected == 0 && accepted.message.is_empty() {
        return "{}".to_owned();
    }
    let rejected = match signal {
        Signal::Traces => "rejectedSpans",
        Signal::Metrics => "rejectedDataPoints",
        Signal::Logs => "rejectedLogRecords",
    };
    // OTLP writes 64-bit numbers as text.
    serde_json::json!({ "partialSuccess": { rejected: accepted.rejected.to_string(), "errorMessage": accepted.message } })
        .to_string()
}

fn refused(format: Format, refusal: &IntakeError, retry_after: u64) -> Response {
    let message = refusal.to_string();
    let (status, code) = match refusal {
        IntakeError::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, Code::InvalidArgument),
        IntakeError::Incomplete(BodyError::Stalled(_)) => {
            (StatusCode::REQUEST_TIMEOUT, Code::InvalidArgument)
        }
        IntakeError::Malformed(_) | IntakeError::Incomplete(_) => {
            (StatusCode::BAD_REQUEST, Code::InvalidArgument)
        }
        IntakeError::Later(IngestError::Busy | IngestError::Full { .. }) => {
            (StatusCode::TOO_MANY_REQUESTS, Code::ResourceExhausted)
        }
        IntakeError::Later(IngestError::Failed { .. }) => {
            (StatusCode::SERVICE_UNAVAILABLE, Code::Unavailable)
        }
    };
    let mut response = refuse(status, format, code, &message);
    if matches!(refusal, IntakeError::Later(_)) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(retry_after));
    }
    response
}

fn refuse(status: StatusCode, format: Format, code: Code, message: &str) -> Response {
    let body = match format {
        Format::Protobuf => status_message(code, message, None),
        Format::Json => serde_json::json!({ "code": code as i32, "message": message }).to_string().into(),
    };
    answer(status, format, body.into())
}

fn answer(status: StatusCode, format: Format, body: Body) -> Response {
    let content_type = match format {
        Format::Protobuf => PROTOBUF,
        Format::Json => JSON,
    };
    (status, [(CONTENT_TYPE, content_type)], body).into_response()
}

fn format(content_type: &str) -> Option<Format> {
    match content_type.split(';').next().unwrap_or_default().trim() {
        PROTOBUF | "application/protobuf" => Some(Format::Protobuf),
        JSON => Some(Format::Json),
        _ => None,
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
