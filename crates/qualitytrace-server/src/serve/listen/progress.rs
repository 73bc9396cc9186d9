//! Stalled responses: a connection with a response that the client does not read is closed.
//!
//! Over HTTP/2 a client can stop reading one response while the socket stays writable, so only the body can notice it.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Bytes of a body that are handed over at one time.
const PIECE: usize = 64 * 1024;
/// Smaller responses are not watched: what a client can hold of them is bounded by its streams.
const SMALL: u64 = 1024;

/// The responses under way on one connection.
#[derive(Debug, Clone)]
pub(super) struct Answers {
    began: Instant,
    started: Arc<Notify>,
    under_way: Arc<Mutex<Vec<Weak<Beat>>>>,
}

/// The progress of a response.
#[derive(Debug)]
struct Beat {
    /// When data was last handed over, in milliseconds after the connection began.
    moved: AtomicU64,
    /// Whether the server has yet to produce data; the client is not to blame then.
    is_ours: AtomicBool,
}

impl Answers {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), started: Arc::default(), under_way: Arc::default() }
    }

    /// Wraps a body to watch its progress.
    pub(super) fn watch(&self, body: Body) -> Body {
        if HttpBody::size_hint(&body).exact().is_some_and(|bytes| bytes <= SMALL) {
            return body;
        }
        let beat = Arc::new(Beat { moved: AtomicU64::new(self.now()), is_ours: AtomicBool::new(true) });
        self.lock().push(Arc::downgrade(&beat));
        self.started.notify_one();
        Body::new(Watched { body, began: self.began, beat, rest: Bytes::new(), is_over: false })
    }

    /// Returns when a response has made no progress for `timeout`.
    pub(super) async fn stalled(&self, timeout: Duration) {
        let longest = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        loop {
            if self.lock().is_empty() {
                self.started.notified().await;
            }
            tokio::time::sleep(timeout / 2).await;
            let now = self.now();
            let mut is_stalled = false;
            self.lock().retain(|beat| {
                let Some(beat) = beat.upgrade() else { return false };
                let still = now.saturating_sub(beat.moved.load(Ordering::Relaxed));
                is_stalled |= !beat.is_ours.load(Ordering::Relaxed) && still >= longest;
                true
            });
            if is_stalled {
                return;
            }
        }
    }

    fn now(&self) -> u64 {
        millis(self.began)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Weak<Beat>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn millis(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

struct Watched {
    body: Body,
    began: Instant,
    beat: Arc<Beat>,
    /// Data taken from the body and not handed over yet.
    rest: Bytes,
    /// Whether the body has ended; not all bodies can be polled again then.
    is_over: bool,
}

/// A piece of a response. It keeps the response under way until it is written.
struct Piece {
    data: Bytes,
    _beat: Arc<Beat>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Watched {
    fn piece(&mut self) -> Frame<Bytes> {
        let data = self.rest.split_to(self.rest.len().min(PIECE));
        self.beat.moved.store(millis(self.began), Ordering::Relaxed);
        self.beat.is_ours.store(false, Ordering::Relaxed);
        Frame::data(Bytes::from_owner(Piece { data, _beat: Arc::clone(&self.beat) }))
    }
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if self.rest.is_empty() {
            self.beat.is_ours.store(true, Ordering::Relaxed);
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                other => {
                    // The rest is for the client to read.
                    self.beat.is_ours.store(false, Ordering::Relaxed);
                    self.is_over = true;
                    return Poll::Ready(other);
                }
            }
        }
        Poll::Ready(Some(Ok(self.piece())))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, rest) = (HttpBody::size_hint(&self.body), self.rest.len() as u64);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn an_answer_that_is_not_taken_is_noticed_and_one_that_is_made_slowly_is_not() {
        let timeout = Duration::from_millis(100);
        let answers = Answers::new();
        let slow = futures_util::stream::once(async move {
            tokio::time::sleep(3 * timeout).await;
            Ok::<_, std::io::Error>(Bytes::from(vec![0; 3 * PIECE]))
        });
        let mut body = answers.watch(Body::from_stream(slow));
        let watched = answers.stalled(timeout);
        tokio::pin!(watched);
        let first = tokio::select! {
            () = &mut watched => panic!("the answer itself is waited for"),
            frame = body.frame() => frame.unwrap().unwrap().into_data().unwrap(),
        };
        assert_eq!(first.len(), PIECE);
        let began = Instant::now();
        watched.await;
        assert!(began.elapsed() >= timeout, "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn an_answer_is_under_way_until_its_last_piece_is_written() {
        let (timeout, answers) = (Duration::from_millis(50), Answers::new());
        let whole = answers.watch(Body::from(vec![0; PIECE])).frame().await.unwrap().unwrap();
        answers.stalled(timeout).await;
        drop(whole);
        assert!(tokio::time::timeout(10 * timeout, answers.stalled(timeout)).await.is_err());
    }
}
