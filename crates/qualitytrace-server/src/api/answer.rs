//! Responses of the API: errors, JSON bodies, and streaming of large ones.

use std::io::{self, BufWriter, Write};

use axum::Json;
use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{StatusCode, header};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::memory::Memory;
use super::negotiation::Media;
use crate::{runner, store};

/// The longest error text of the framework.
const LONGEST_WORDS: usize = 64 * 1024;

/// Responses to requests that hold less memory are serialized at once.
const INLINE_BYTES: u64 = 1 << 20;
/// The chunk size of a streamed response.
const PIECE_BYTES: usize = 64 * 1024;
/// The queue of chunks to be sent.
const PIECES: usize = 4;

/// `Retry-After` for requests that were refused for lack of memory or of a database, in seconds.
pub(super) const RETRY_AFTER: u64 = 1;

/// An error response: `{code, error}`.
#[derive(Debug)]
pub(super) struct ApiError {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

impl ApiError {
    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, message: message.into() }
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_FOUND, message: message.into() }
    }

    /// An error of our own side, temporary or permanent.
    fn internal(error: &(dyn std::error::Error + 'static), passing: Option<&str>) -> Self {
        tracing::error!(error, "a request failed");
        if let Some(message) = passing {
            return Self { status: StatusCode::SERVICE_UNAVAILABLE, message: message.to_owned() };
        }
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, message: error.to_string() }
    }

    /// The error in the format that the client accepts.
    pub(super) fn in_form(&self, media: Media) -> Response {
        self.timed(media.answer(self.status, &serde_json::to_value(self.said()).unwrap_or_default()))
    }

    /// Seconds after which the client may retry.
    pub(super) fn retry_after(&self) -> Option<u64> {
        (self.status == StatusCode::SERVICE_UNAVAILABLE).then_some(RETRY_AFTER)
    }

    fn timed(&self, mut response: Response) -> Response {
        if let Some(seconds) = self.retry_after() {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }

    fn said(&self) -> Error<'_> {
        Error { code: self.status.as_u16(), error: &self.message }
    }
}

/// The error of a request that could not be served.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Error<'a> {
    /// The status.
    pub(super) code: u16,
    /// The error message.
    pub(super) error: &'a str,
}

impl From<store::Error> for ApiError {
    fn from(error: store::Error) -> Self {
        Self::internal(&error, error.passing())
    }
}

impl From<runner::Error> for ApiError {
    fn from(error: runner::Error) -> Self {
        Self::internal(&error, error.passing())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.timed((self.status, Json(self.said())).into_response())
    }
}

/// The request succeeded.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Success {
    /// `success`.
    result: &'static str,
}

impl Default for Success {
    fn default() -> Self {
        Self { result: "success" }
    }
}

/// JSON as the legacy API writes it: with a newline at the end.
pub(super) fn plain_json(status: StatusCode, body: &impl Serialize) -> Response {
    let headers = [(CONTENT_TYPE, "application/json; charset=UTF-8")];
    // Data with string keys can always be serialized.
    let text = serde_json::to_string(body).unwrap_or_default();
    (status, headers, text + "\n").into_response()
}

/// The same for a body that may be large: then it is serialized in chunks while it is sent, on a blocking thread,
/// so that its text is never in memory as a whole. The thread ends when the client disconnects.
pub(super) fn json(memory: &Memory, status: StatusCode, body: impl Serialize + Send + 'static) -> Response {
    if memory.held() < INLINE_BYTES {
        return plain_json(status, &body);
    }
    written(status, "application/json; charset=UTF-8", move |pieces| {
        serde_json::to_writer(&mut *pieces, &body)?;
        pieces.write_all(b"\n")
    })
}

/// A JSON document with this content type, written in the same way.
pub(super) fn document(
    memory: &Memory,
    content_type: &'static str,
    body: impl Serialize + Send + 'static,
) -> Response {
    if memory.held() < INLINE_BYTES {
        let text = serde_json::to_string(&body).unwrap_or_default();
        return ([(CONTENT_TYPE, content_type)], text).into_response();
    }
    written(StatusCode::OK, content_type, move |pieces| Ok(serde_json::to_writer(pieces, &body)?))
}

/// A response that `write` produces while it is sent. The closure owns its data.
pub(super) fn written(
    status: StatusCode,
    content_type: &'static str,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static,
) -> Response {
    let (sender, receiver) = mpsc::channel(PIECES);
    // It ends by itself: with the text, or when the receiver is dropped.
    tokio::task::spawn_blocking(move || {
        let mut pieces = BufWriter::with_capacity(PIECE_BYTES, Pieces(sender));
        if let Err(error) = write(&mut pieces).and_then(|()| pieces.flush()) {
            // A truncated response must not look complete.
            let _ = pieces.get_ref().0.blocking_send(Err(error));
        }
    });
    (status, [(CONTENT_TYPE, content_type)], Body::from_stream(ReceiverStream::new(receiver))).into_response()
}

/// Sends what is written into the channel, and blocks while it is full.
struct Pieces(mpsc::Sender<io::Result<Bytes>>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = Bytes::copy_from_slice(bytes);
        self.0.blocking_send(Ok(piece)).map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Middleware that turns the framework's plain-text errors into the API's JSON.
pub(super) async fn said_in_json(response: Response) -> Response {
    let is_plain = response
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|content_type| content_type.as_bytes().starts_with(b"text/plain"));
    let status = response.status();
    if !is_plain || !status.is_client_error() {
        return response;
    }
    let Ok(text) = axum::body::to_bytes(response.into_body(), LONGEST_WORDS).await else {
        return ApiError { status, message: "the request cannot be read".to_owned() }.into_response();
    };
    let message = String::from_utf8_lossy(&text).into_owned();
    // Clients expect this text as it is.
    if message.starts_with("invalid tenant id") {
        return (status, message).into_response();
    }
    ApiError { status, message }.into_response()
}
