//! Request bodies: reading with a timeout, and discarding those of refused requests.

use std::time::Duration;

use bytes::{Buf as _, Bytes};
use http_body_util::BodyExt as _;
use hyper::body::Body;

/// Timeout for the next part of a body that is being discarded.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);

/// Why the next part of a body could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the body stopped for longer than {} s (limits.progressTimeout); try again", .0.as_secs_f64())]
    Stalled(Duration),
    #[error("the body of the request ends too early: {0}")]
    Broken(String),
}

/// Returns the next data of a body; `None` at its end. Fails when nothing arrives within `timeout`.
pub(crate) async fn next_data<B>(body: &mut B, timeout: Duration) -> Result<Option<Bytes>, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    loop {
        let frame = tokio::time::timeout(timeout, body.frame()).await;
        match frame.map_err(|_| BodyError::Stalled(timeout))? {
            None => return Ok(None),
            Some(Err(error)) => return Err(BodyError::Broken(error.to_string())),
            // Trailers are ignored.
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// Receives and discards the rest of a body, up to a limit: a client that is still sending does not read the response.
pub(crate) async fn discard(mut body: impl Body + Unpin, limit: u64) {
    let mut thrown_away = 0;
    while thrown_away < limit
        && let Ok(Some(Ok(frame))) = tokio::time::timeout(DISCARD_TIMEOUT, body.frame()).await
    {
        thrown_away += frame.data_ref().map_or(0, |data| data.remaining() as u64);
    }
}
