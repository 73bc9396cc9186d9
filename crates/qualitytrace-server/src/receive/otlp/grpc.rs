//! OTLP over gRPC: three unary methods.
//!
//! A unary call is one length-prefixed message each way and a status in the trailers. It is implemented here without a
//! gRPC framework because the message must stay bytes: bounded by the budget before it is read and decompressed, and
//! never decoded into structs.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use base64::Engine;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body_util::{BodyExt, Full};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use tonic::Code;

use super::intake::{self, Encoding, Format, Framing, Incoming, IntakeError, Signal};
use super::status::{response_message, status_message};
use crate::http::access::RequiredAccess;
use crate::http::routes::Routes;
use crate::http::routes::operation::hidden;
use crate::receive::ingest::{Accepted, Ingest, IngestError};

const GRPC: &str = "application/grpc";
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const GRPC_ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// Length of the header before each message: one byte of flags, four of length.
const FRAME_HEADER: usize = 5;

/// Returns the routes of the three collector services.
pub(crate) fn services(ingest: Arc<Ingest>) -> Routes {
    let services = [
        ("trace.v1.TraceService", Signal::Traces),
        ("metrics.v1.MetricsService", Signal::Metrics),
        ("logs.v1.LogsService", Signal::Logs),
    ];
    let routes = services.into_iter().fold(Routes::new(), |routes, (name, signal)| {
        let handler = move |State(ingest): State<Arc<Ingest>>, request: Request| async move {
            export(&ingest, signal, request).await
        };
        let path = format!("/opentelemetry.proto.collector.{name}/Export");
        routes.post(&path, RequiredAccess::Deliver, handler, hidden())
    });
    routes.with_state(ingest)
}

/// Responds to a call of an unknown method. `None` when the request is not a gRPC call.
pub fn unknown_method(headers: &HeaderMap, path: &str) -> Option<Response> {
    is_grpc(headers).then(|| failure(Code::Unimplemented, &format!("unknown method {path}"), None))
}

async fn export(ingest: &Arc<Ingest>, signal: Signal, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if !is_grpc(&parts.headers) {
        let mut response =
            Response::new(Body::from("this endpoint speaks gRPC; OTLP over HTTP is at /v1/traces\n"));
        *response.status_mut() = http::StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return response;
    }
    let named = parts.headers.get(&GRPC_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let Some(encoding) = Encoding::named(named) else {
        let message = format!("grpc-encoding `{named}` is not supported: use one of {}", Encoding::KNOWN);
        return failure(Code::Unimplemented, &message, None);
    };
    let sender = ingest.sender(&parts);
    let incoming = Incoming::new(&parts, body);
    let outcome = intake::take(ingest, sender, signal, Format::Protobuf, incoming, Frame { encoding }).await;
    match outcome {
        Ok(accepted) => success(&accepted),
        Err(refusal) => {
            let (code, retry) = match &refusal {
                IntakeError::TooLarge { .. } | IntakeError::Malformed(_) | IntakeError::Incomplete(_) => {
                    (Code::InvalidArgument, None)
                }
                IntakeError::Later(IngestError::Busy | IngestError::Full { .. }) => {
                    (Code::ResourceExhausted, Some(ingest.limits().retry_after))
                }
                IntakeError::Later(IngestError::Failed { .. }) => {
                    (Code::Unavailable, Some(ingest.limits().retry_after))
                }
            };
            failure(code, &refusal.to_string(), retry)
        }
    }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(GRPC.as_bytes()))
}

/// The one message of a unary call.
struct Frame {
    /// The compression that the call announces.
    encoding: Encoding,
}

impl Framing for Frame {
    fn announced(&self, beginning: &[u8]) -> u64 {
        match beginning {
            [_, a, b, c, d, ..] => FRAME_HEADER as u64 + u64::from(u32::from_be_bytes([*a, *b, *c, *d])),
            _ => 0,
        }
    }

    fn message(self, mut body: Bytes) -> Result<(Encoding, Bytes), IntakeError> {
        if body.len() < FRAME_HEADER {
            return Err(IntakeError::Malformed("the call carries no message".to_owned()));
        }
        let encoding = match body.get_u8() {
            0 => Encoding::Identity,
            1 => self.encoding,
            flags => {
                return Err(IntakeError::Malformed(format!("the message has unknown flags {flags}")));
            }
        };
        let length = body.get_u32() as usize;
        if body.len() != length {
            let carried = body.len();
            return Err(IntakeError::Malformed(format!(
                "the message announces {length} bytes and has {carried}"
            )));
        }
        Ok((encoding, body))
    }
}

fn success(accepted: &Accepted) -> Response {
    let message = response_message(accepted);
    let mut frame = BytesMut::with_capacity(FRAME_HEADER + message.len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.put_slice(&message);
    let mut trailers = HeaderMap::new();
    trailers.insert(GRPC_STATUS, HeaderValue::from(0));
    let body = Full::new(frame.freeze()).with_trailers(async move { Some(Ok(trailers)) });
    grpc_response(Body::new(body))
}

/// Builds a failed response: a status without a message travels in the headers.
fn failure(code: Code, message: &str, retry_after: Option<std::time::Duration>) -> Response {
    let mut response = grpc_response(Body::empty());
    let headers = response.headers_mut();
    headers.insert(GRPC_STATUS, HeaderValue::from(code as i32));
    if let Ok(message) = HeaderValue::from_str(&percent_encoded(message)) {
        headers.insert(GRPC_MESSAGE, message);
    }
    if retry_after.is_some() {
        let details = status_message(code, message, retry_after);
        if let Ok(details) =
            HeaderValue::from_str(&base64::engine::general_purpose::STANDARD_NO_PAD.encode(details))
        {
            headers.insert(GRPC_DETAILS, details);
        }
    }
    response
}

fn grpc_response(body: Body) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
    response.headers_mut().insert(GRPC_ACCEPT_ENCODING, HeaderValue::from_static("identity,gzip,zstd"));
    response
}

/// What gRPC escapes in `grpc-message`: all but printable ASCII, and `%`.
const MESSAGE: &AsciiSet = &CONTROLS.add(b'%');

fn percent_encoded(message: &str) -> String {
    utf8_percent_encode(message, MESSAGE).to_string()
}
