//! Responses of the API: JSON bodies, and streaming of large ones.

use std::io::{self, BufWriter, Write};

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::memory::Memory;

/// Responses to requests that hold less memory are serialized at once.
const INLINE_BYTES: u64 = 1 << 20;
/// The chunk size of a streamed response.
const PIECE_BYTES: usize = 64 * 1024;
/// The queue of chunks to be sent.
const PIECES: usize = 4;

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

/// Whether the response to a request is serialized at once.
pub(super) fn is_small(memory: &Memory) -> bool {
    memory.held() < INLINE_BYTES
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
    if is_small(memory) {
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
    if is_small(memory) {
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
