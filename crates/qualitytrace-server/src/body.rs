//! Bodies of requests that are refused.

use std::time::Duration;

use bytes::Buf as _;
use http_body_util::BodyExt as _;
use hyper::body::Body;

/// How long to wait for more of a body that nobody wants.
const PATIENCE: Duration = Duration::from_millis(500);

/// Receives what is left of a body and throws it away, up to a limit: a client that is busy sending does not look for an
/// answer.
pub(crate) async fn discard(mut body: impl Body + Unpin, limit: u64) {
    let mut thrown_away = 0;
    while thrown_away < limit
        && let Ok(Some(Ok(frame))) = tokio::time::timeout(PATIENCE, body.frame()).await
    {
        thrown_away += frame.data_ref().map_or(0, |data| data.remaining() as u64);
    }
}
