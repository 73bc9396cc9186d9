//! The memory budget of API requests and responses.
//!
//! A request holds bytes for its body, for what is loaded on its behalf and for its response, until the response is
//! sent. What is loaded is measured first. When other requests hold the memory, a request waits for a while and is
//! then refused.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{DefaultBodyLimit, FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::request::Parts;
use hyper::body::{Frame, SizeHint};

use super::App;
use super::error::ApiError;
use crate::base::body::{BodyError, discard, next_data};
use crate::base::budget::{Budget, Lease, MemoryBudgetError};
use crate::base::decode::{Room, json_weight};
use crate::config::Live;
use crate::http::routes::Needed;
use crate::serve::trace_cache::TraceCache;
use crate::storage::store::TraceSize;

/// How long a request waits for memory before it is refused.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Memory that is reserved for an announced body before it has arrived.
const AHEAD_BYTES: u64 = 1 << 20;
/// A body this small may use the last quarter of the memory.
const SMALL_BODY: u64 = 64 << 10;
/// Bytes in memory per byte of a parsed body, at least: JSON trees are larger than their text.
const BODY_FACTOR: u64 = 5;
/// What a line of YAML takes beside its letters.
const LINE: u64 = 128;
/// The same for stored texts: events of runs, and definitions.
const TEXT_FACTOR: u64 = 4;

/// Subscriptions may hold one part of this many.
const SUBSCRIBED_PART: u64 = 4;

/// The memory of all requests.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    budget: Budget,
    /// The part of it for subscriptions, which last as long as their clients want.
    subscriptions: Budget,
    /// Traces that are kept as long as no request needs their memory.
    traces: Arc<TraceCache>,
    config: Live,
}

/// The memory of a subscription, held until dropped.
#[derive(Debug)]
pub(super) struct Subscribed {
    _memory: Memory,
    _part: Lease,
}

impl Shared {
    pub(crate) fn new(config: Live) -> Self {
        let bytes = config.get().limits.api_bytes;
        let (budget, subscriptions) = (Budget::new(bytes), Budget::new(bytes / SUBSCRIBED_PART));
        let traces = Arc::new(TraceCache::new(bytes, &budget));
        Self { budget, subscriptions, traces, config }
    }

    /// Returns the cached traces.
    pub(super) fn traces(&self) -> &TraceCache {
        &self.traces
    }

    /// Reserves memory for a subscription.
    pub(super) async fn subscribe(&self, bytes: u64) -> Result<Subscribed, ApiError> {
        let memory = self.begin();
        self.subscriptions.resize(self.config.get().limits.api_bytes / SUBSCRIBED_PART);
        let mut part = self.subscriptions.lease().map_err(refused)?;
        part.grow(bytes).map_err(refused)?;
        memory.hold(bytes).await?;
        Ok(Subscribed { _memory: memory, _part: part })
    }

    /// The memory of a new request: nothing yet.
    pub(super) fn begin(&self) -> Memory {
        let bytes = self.config.get().limits.api_bytes;
        self.budget.resize(bytes);
        self.traces.resize(bytes);
        Memory { budget: self.budget.clone(), traces: Arc::clone(&self.traces), leases: Arc::default() }
    }
}

/// The memory that one request holds.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    budget: Budget,
    traces: Arc<TraceCache>,
    leases: Arc<Mutex<Vec<Lease>>>,
}

impl Memory {
    /// Reserves more bytes, until the response is sent.
    pub(super) async fn hold(&self, bytes: u64) -> Result<(), ApiError> {
        if bytes > 0 {
            self.keep(self.borrow(bytes).await?);
        }
        Ok(())
    }

    /// Reserves more bytes, until the lease is dropped.
    async fn borrow(&self, bytes: u64) -> Result<Lease, ApiError> {
        let all = self.budget.size();
        if self.held() + bytes > all {
            return Err(refused(MemoryBudgetError::Ever { limit: all }));
        }
        let mut lease = self.budget.lease().map_err(refused)?;
        if lease.grow(bytes).is_err() {
            self.traces.evict(bytes);
            lease.grow_within(bytes, LONGEST_WAIT).await.map_err(refused)?;
        }
        Ok(lease)
    }

    /// Returns memory for what is decoded, which grows as it is measured.
    pub(super) fn growing(&self) -> Result<GrowingMemory, ApiError> {
        Ok(GrowingMemory { lease: self.budget.lease().map_err(refused)?, traces: Arc::clone(&self.traces) })
    }

    /// Reserves memory for reading stored texts of this size.
    pub(super) async fn hold_texts(&self, bytes: u64) -> Result<(), ApiError> {
        self.hold(bytes.saturating_mul(TEXT_FACTOR)).await
    }

    /// Reserves memory for reading traces.
    pub(super) async fn hold_traces(&self, size: TraceSize) -> Result<(), ApiError> {
        self.hold(size.in_memory()).await
    }

    /// Reserves memory for reading traces, until the lease is dropped.
    pub(super) async fn borrow_traces(&self, size: TraceSize) -> Result<Lease, ApiError> {
        self.borrow(size.in_memory()).await
    }

    /// The bytes held.
    pub(super) fn held(&self) -> u64 {
        self.lock().iter().map(Lease::bytes).sum()
    }

    /// Releases everything: what was loaded is no longer needed.
    pub(super) fn release(&self) {
        self.lock().clear();
    }

    fn keep(&self, lease: Lease) {
        self.lock().push(lease);
    }

    /// Adjusts the memory to the size of the response.
    async fn settle(&self, bytes: u64) -> Result<(), ApiError> {
        let held = self.held();
        if held < bytes {
            return self.hold(bytes - held).await;
        }
        let mut leases = self.lock();
        let mut left = bytes;
        leases.retain_mut(|lease| {
            lease.shrink_to(left.min(lease.bytes()));
            left -= lease.bytes();
            lease.bytes() > 0
        });
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Lease>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Memory that is taken while something is decoded. Traces that are kept make room for it.
#[derive(Debug)]
pub(super) struct GrowingMemory {
    lease: Lease,
    traces: Arc<TraceCache>,
}

impl Room for GrowingMemory {
    fn take(&mut self, bytes: u64) -> Result<(), MemoryBudgetError> {
        match self.lease.grow(bytes) {
            Err(MemoryBudgetError::Now) => {
                self.traces.evict(bytes);
                self.lease.grow(bytes)
            }
            done => done,
        }
    }

    fn taken(&self) -> u64 {
        self.lease.bytes()
    }

    fn shrink_to(&mut self, bytes: u64) {
        self.lease.shrink_to(bytes);
    }
}

/// The bytes of the head of a request.
fn head_bytes(head: &Parts) -> u64 {
    let uri = head.uri.path().len() + head.uri.query().map_or(0, str::len);
    let headers = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len());
    (uri + headers.sum::<usize>()) as u64
}

impl FromRequestParts<App> for Memory {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Self::Rejection> {
        Ok(parts.extensions.get().cloned().unwrap_or_else(|| app.memory.begin()))
    }
}

/// Middleware that receives head and body within the memory budget: half of a request is no request. Then holds the
/// memory of the response until it is sent.
pub(crate) async fn buffer_body(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let limits = shared.config.get().limits.clone();
    let memory = shared.begin();
    let (mut parts, mut body) = request.into_parts();
    if let Err(problem) = memory.hold(head_bytes(&parts)).await {
        discard(body, limits.body_bytes).await;
        return problem.into_response();
    }
    let received = collect(&memory, &mut body, limits.body_bytes, limits.progress_timeout).await;
    let body = match received {
        Ok(body) => body,
        Err(problem) => {
            discard(body, limits.body_bytes).await;
            return problem.into_response();
        }
    };
    let measures_itself = parts.extensions.get::<Needed>().is_some_and(|needed| needed.measures_body);
    let weight = if measures_itself { body.len() as u64 } else { body_weight(&body) };
    if let Err(problem) = memory.hold(weight).await {
        return problem.into_response();
    }
    parts.extensions.insert(memory.clone());
    let mut request = Request::from_parts(parts, Body::from(body));
    DefaultBodyLimit::max(usize::try_from(limits.body_bytes).unwrap_or(usize::MAX)).apply(&mut request);
    let response = next.run(request).await;
    // A streamed response accounts for its own memory.
    if let Some(bytes) = HttpBody::size_hint(response.body()).exact()
        && let Err(problem) = memory.settle(bytes).await
    {
        return problem.into_response();
    }
    response.map(|body| Body::new(LeasedBody { body, memory }))
}

/// What a body takes when it is parsed: `{}` in a list, and an empty line of a list in YAML, take much more than their
/// size.
fn body_weight(body: &[u8]) -> u64 {
    let lines = body.split(|byte| *byte == b'\n').count() as u64;
    (json_weight(body) + lines * LINE).max(body.len() as u64 * BODY_FACTOR)
}

async fn collect(memory: &Memory, body: &mut Body, limit: u64, timeout: Duration) -> Result<Bytes, ApiError> {
    let announced = HttpBody::size_hint(body).lower();
    if announced > limit {
        return Err(too_large(limit));
    }
    let mut lease = memory.budget.lease().map_err(refused)?;
    let mut whole = BytesMut::new();
    loop {
        let data = next_data(body, timeout).await.map_err(|error| ApiError {
            status: match error {
                BodyError::Stalled(_) => StatusCode::REQUEST_TIMEOUT,
                BodyError::Broken(_) => StatusCode::BAD_REQUEST,
            },
            message: error.to_string(),
        })?;
        let Some(data) = data else { break };
        let size = (whole.len() + data.len()) as u64;
        if size > limit {
            return Err(too_large(limit));
        }
        let room = size.max(announced.min(AHEAD_BYTES));
        let missing = room.saturating_sub(lease.bytes());
        let grow = |lease: &mut Lease| {
            if room <= SMALL_BODY { lease.grow(missing) } else { lease.grow_sparingly(missing) }
        };
        if grow(&mut lease).is_err() {
            // A quarter stays free for small requests.
            memory.traces.evict(missing + memory.budget.size() / 4);
            grow(&mut lease).map_err(refused)?;
        }
        whole.reserve(usize::try_from(room).unwrap_or(0).saturating_sub(whole.len()));
        whole.extend_from_slice(&data);
    }
    memory.keep(lease);
    Ok(whole.freeze())
}

fn too_large(limit: u64) -> ApiError {
    let message =
        format!("the body is larger than {limit} bytes (limits.bodyBytes); send less, or raise the limit");
    ApiError { status: StatusCode::PAYLOAD_TOO_LARGE, message }
}

pub(super) fn refused(short: MemoryBudgetError) -> ApiError {
    match short {
        MemoryBudgetError::Now => ApiError {
            status: StatusCode::SERVICE_UNAVAILABLE,
            message: "other requests have the memory (limits.apiBytes); try again later".to_owned(),
        },
        MemoryBudgetError::Ever { limit } => ApiError {
            status: StatusCode::PAYLOAD_TOO_LARGE,
            message: format!(
                "the request takes more memory than the {limit} bytes that there are (limits.apiBytes); ask for less, \
                 or raise the limit"
            ),
        },
    }
}

/// A response body and its memory. Each piece holds the memory until it is written.
struct LeasedBody {
    body: Body,
    memory: Memory,
}

struct Piece {
    data: Bytes,
    _memory: Memory,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl HttpBody for LeasedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        frame.map_ok(|frame| {
            frame.map_data(|data| Bytes::from_owner(Piece { data, _memory: self.memory.clone() }))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        HttpBody::size_hint(&self.body)
    }
}
