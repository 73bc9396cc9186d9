//! The pipeline of every request of both protocols: read within the budget, decompress, decode, hand to the ingest.

use std::io::Read;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;

use super::json::{Exported, Weight};
use super::protobuf::ProtobufError;
use super::wire::SplitError;
use super::{json, metrics, wire};
use crate::base::body::{BodyError, discard, next_data};
use crate::base::limits::Limits;
use crate::base::request::ConnectInfo;
use crate::receive::ingest::{Accepted, Ingest, IngestError, Lease, MemoryBudgetError, Split};
use crate::receive::register::Sender;

/// Larger messages are decompressed and split on a blocking thread, so that other requests are not delayed.
const INLINE_BYTES: usize = 2 * 1024 * 1024;

/// Bytes that are reserved for a body because it announces them, before they have arrived.
const AHEAD_BYTES: u64 = 4 * 1024 * 1024;

/// A request whose body is not read yet.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) body: Body,
    /// The address of the peer.
    pub(super) from: Option<IpAddr>,
    /// Whether it tells how late its services deliver.
    pub(super) is_live: bool,
}

impl Incoming {
    pub(super) fn new(parts: &http::request::Parts, body: Body) -> Self {
        let from = parts.extensions.get::<ConnectInfo>().map(|info| info.peer);
        Self { body, from, is_live: true }
    }

    /// A request that was made of a file.
    pub(super) fn of_file(message: Bytes) -> Self {
        Self { body: Body::from(message), from: None, is_live: false }
    }
}

/// The signal of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    Traces,
    Metrics,
    Logs,
}

/// The serialization of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Protobuf,
    Json,
}

/// The compression of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Identity,
    Gzip,
    Zstd,
}

impl Encoding {
    pub(super) const KNOWN: &str = "identity, gzip, zstd";

    /// Returns the encoding of this name; an empty name means no compression.
    pub(super) fn named(name: &str) -> Option<Self> {
        // Names of codings are case-insensitive.
        match name.trim().to_ascii_lowercase().as_str() {
            "" | "identity" | "none" => Some(Self::Identity),
            "gzip" | "x-gzip" => Some(Self::Gzip),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum IntakeError {
    #[error("the body is larger than the limit of {limit} bytes ({name})")]
    TooLarge { limit: u64, name: &'static str },
    #[error("{0}")]
    Malformed(String),
    #[error(transparent)]
    Incomplete(#[from] BodyError),
    #[error(transparent)]
    Later(#[from] IngestError),
}

impl IntakeError {
    /// Whether the same request may succeed when it is sent again.
    fn may_retry(&self) -> bool {
        match self {
            Self::TooLarge { .. } | Self::Malformed(_) => false,
            Self::Incomplete(_) | Self::Later(_) => true,
        }
    }
}

impl From<MemoryBudgetError> for IntakeError {
    fn from(short: MemoryBudgetError) -> Self {
        match short {
            MemoryBudgetError::Now => Self::Later(IngestError::Busy),
            MemoryBudgetError::Ever { limit } => Self::TooLarge { limit, name: "limits.ingestBytes" },
        }
    }
}

impl From<ProtobufError> for IntakeError {
    fn from(malformed: ProtobufError) -> Self {
        Self::Malformed(format!("the body is not a valid OTLP request: {malformed}"))
    }
}

impl From<serde_json::Error> for IntakeError {
    fn from(error: serde_json::Error) -> Self {
        Self::Malformed(format!("the body is not valid OTLP JSON: {error}"))
    }
}

impl From<SplitError> for IntakeError {
    fn from(reason: SplitError) -> Self {
        match reason {
            SplitError::Malformed(malformed) => malformed.into(),
            SplitError::NoRoom(short) => short.into(),
        }
    }
}

/// How a body frames its message.
pub(super) trait Framing: Send + 'static {
    /// Returns the size of a body that begins with these bytes, as far as they announce it; 0 if they do not.
    fn announced(&self, beginning: &[u8]) -> u64;
    /// Extracts the message of a body, with its compression.
    fn message(self, body: Bytes) -> Result<(Encoding, Bytes), IntakeError>;
}

/// Reads and ingests a request. `sender` identifies the sender in the budget and in the list of refusals.
pub(super) async fn take(
    ingest: &Arc<Ingest>,
    sender: String,
    signal: Signal,
    format: Format,
    request: Incoming,
    framing: impl Framing,
) -> Result<Accepted, IntakeError> {
    let outcome = process(ingest, sender.clone(), signal, format, request, framing).await;
    if signal == Signal::Traces {
        match &outcome {
            Ok(_) => ingest.refusals().delivered(&sender),
            Err(refusal) => ingest.refusals().note(&sender, refusal.to_string(), refusal.may_retry()),
        }
    }
    if let Err(refusal) = &outcome {
        let counters = ingest.counters();
        let counter = match refusal {
            IntakeError::Later(IngestError::Busy) => &counters.refused_busy,
            IntakeError::Later(IngestError::Full { .. }) => &counters.refused_full,
            IntakeError::Later(IngestError::Failed { .. }) => &counters.refused_failed,
            IntakeError::TooLarge { .. } | IntakeError::Malformed(_) | IntakeError::Incomplete(_) => {
                &counters.refused_invalid
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
    outcome
}

async fn process(
    ingest: &Arc<Ingest>,
    sender: String,
    signal: Signal,
    format: Format,
    Incoming { body, from, is_live }: Incoming,
    framing: impl Framing,
) -> Result<Accepted, IntakeError> {
    let mut lease = ingest.budget().lease_for(sender)?;
    let body = read(body, &framing, &mut lease, &ingest.limits()).await?;
    let (encoding, message) = framing.message(body)?;
    let limit = ingest.limits().decompressed_bytes;
    let small = message.len() <= INLINE_BYTES;
    let work = move || -> Result<(Decoded, Lease), IntakeError> {
        let message = decompress(encoding, message, &mut lease, limit)?;
        Ok((decode(signal, format, message, &mut lease)?, lease))
    };
    let (decoded, lease) = if small {
        work()?
    } else {
        tokio::task::spawn_blocking(work)
            .await
            .map_err(|_| IngestError::Failed { reason: "the server is stopping".into() })??
    };
    let known = |senders: Vec<Sender>| {
        let live = senders.into_iter().filter(|_| is_live);
        live.map(|sender| sender.at(from)).collect()
    };
    Ok(match decoded {
        Decoded::Spans(mut split) => {
            split.senders = known(split.senders);
            ingest.spans(split, lease).await?
        }
        Decoded::Logs(mut split) => {
            split.senders = known(split.senders);
            ingest.logs(split, lease).await?
        }
        Decoded::Metrics(points, senders) => ingest.metrics(points, &known(senders)),
    })
}

/// Reads the body within the limits. The rest of a refused body is received and discarded.
async fn read(
    mut body: Body,
    framing: &impl Framing,
    lease: &mut Lease,
    limits: &Limits,
) -> Result<Bytes, IntakeError> {
    let outcome = collect(&mut body, framing, lease, limits).await;
    if outcome.is_err() {
        discard(body, limits.body_bytes).await;
    }
    outcome
}

async fn collect(
    body: &mut Body,
    framing: &impl Framing,
    lease: &mut Lease,
    limits: &Limits,
) -> Result<Bytes, IntakeError> {
    let limit = limits.body_bytes;
    let too_large = IntakeError::TooLarge { limit, name: "limits.bodyBytes" };
    let mut announced = hyper::body::Body::size_hint(body).lower();
    if announced > limit {
        return Err(too_large);
    }
    let mut leased = 0;
    let mut whole = BytesMut::new();
    while let Some(data) = next_data(body, limits.progress_timeout).await? {
        if whole.is_empty() {
            announced = announced.max(framing.announced(&data));
        }
        let size = (whole.len() + data.len()) as u64;
        if size.max(announced) > limit {
            return Err(too_large);
        }
        let room = size.max(announced.min(AHEAD_BYTES));
        lease.grow(room.saturating_sub(leased))?;
        leased = leased.max(room);
        whole.reserve(usize::try_from(room).unwrap_or(0).saturating_sub(whole.len()));
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

fn decompress(
    encoding: Encoding,
    message: Bytes,
    lease: &mut Lease,
    limit: u64,
) -> Result<Bytes, IntakeError> {
    match encoding {
        Encoding::Identity if message.len() as u64 > limit => Err(too_large_inside(limit)),
        Encoding::Identity => Ok(message),
        // A gzip body may be several members, one after the other.
        Encoding::Gzip => {
            inflate(flate2::read::MultiGzDecoder::new(&message[..]), message.len(), 1, lease, limit)
        }
        Encoding::Zstd => {
            let decoder = zstd::stream::read::Decoder::with_buffer(&message[..])
                .map_err(|error| IntakeError::Malformed(format!("the body is not valid zstd: {error}")))?;
            // Its window holds what was decompressed a second time.
            inflate(decoder, message.len(), 2, lease, limit)
        }
    }
}

fn too_large_inside(limit: u64) -> IntakeError {
    IntakeError::TooLarge { limit, name: "limits.decompressedBytes" }
}

/// Decompresses a message within the limits. While it is decompressed it is in memory so many times.
fn inflate(
    mut decoder: impl Read,
    packed: usize,
    copies: u64,
    lease: &mut Lease,
    limit: u64,
) -> Result<Bytes, IntakeError> {
    /// Decompressed bytes between two checks of the limits.
    const STEP: u64 = 256 * 1024;
    let before = lease.bytes();
    let mut whole = Vec::with_capacity(packed.saturating_mul(4).min(1024 * 1024));
    loop {
        lease.grow(copies * STEP)?;
        let read =
            decoder.by_ref().take(STEP).read_to_end(&mut whole).map_err(|error| {
                IntakeError::Malformed(format!("the body cannot be decompressed: {error}"))
            })?;
        if whole.len() as u64 > limit {
            return Err(too_large_inside(limit));
        }
        if (read as u64) < STEP {
            lease.shrink_to(before + whole.len() as u64);
            return Ok(whole.into());
        }
    }
}

enum Decoded {
    Spans(Split),
    Logs(Split),
    /// The number of data points, and their senders.
    Metrics(u64, Vec<Sender>),
}

fn decode(signal: Signal, format: Format, message: Bytes, lease: &mut Lease) -> Result<Decoded, IntakeError> {
    let message = match (format, signal) {
        (Format::Protobuf, _) => message,
        (Format::Json, Signal::Traces) => converted::<ExportTraceServiceRequest>(signal, &message, lease)?,
        (Format::Json, Signal::Logs) => converted::<ExportLogsServiceRequest>(signal, &message, lease)?,
        (Format::Json, Signal::Metrics) => converted::<ExportMetricsServiceRequest>(signal, &message, lease)?,
    };
    Ok(match signal {
        Signal::Traces => Decoded::Spans(wire::split_traces(&message, lease)?),
        Signal::Logs => Decoded::Logs(wire::split_logs(&message, lease)?),
        Signal::Metrics => {
            let (points, senders) = metrics::count(&message)?;
            Decoded::Metrics(points, senders)
        }
    })
}

/// Converts a message from JSON to protobuf. What this takes is leased until it is done.
fn converted<T: Message + Exported>(
    signal: Signal,
    text: &[u8],
    lease: &mut Lease,
) -> Result<Bytes, IntakeError> {
    let before = lease.bytes();
    let weight = Weight::of(text, signal == Signal::Metrics);
    lease.grow(weight.decoded)?;
    let request: T = json::decode_if(text, || lease.grow(weight.as_values).map_err(IntakeError::from))?;
    lease.grow(request.encoded_len() as u64)?;
    let message = Bytes::from(request.encode_to_vec());
    drop(request);
    lease.shrink_to(before + message.len() as u64);
    Ok(message)
}
