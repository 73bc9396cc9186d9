//! Data stores: where traces already are. Each kind is one module, and one variant of `Client`.
//!
//! What a store answers is converted to OTLP and passed to our own ingest. Waiting, storing and judging are the same
//! for traces that are pulled and for those that are sent to us.

mod azure;
mod clickhouse;
mod connection;
mod credentials;
mod elastic;
mod error;
mod grpc;
mod http;
mod jaeger;
mod opensearch;
mod otlp_json;
mod pull;
mod received;
mod search;
mod signalfx;
mod spans;
mod sumo_logic;
mod tempo;
mod tls;
mod xray;
mod zipkin;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use qualitytrace_core::definition::source::Source;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use self::azure::Azure;
use self::clickhouse::ClickHouse;
use self::jaeger::Jaeger;
use self::search::{Layout, Page, Search};
use self::signalfx::SignalFx;
use self::sumo_logic::SumoLogic;
use self::tempo::Tempo;
use self::xray::XRay;
use self::zipkin::Zipkin;
use crate::config::Live;
use crate::trigger::{Endpoint, Failure, Gate, Reason};

pub(crate) use self::connection::{Checked, Progress as ConnectionProgress, check};
pub(crate) use self::error::FetchError;
pub(crate) use self::pull::{Polled, Pull};
use self::received::Received;

/// Requests to one store at one time, of all runs.
const CONCURRENCY: usize = 8;
/// Stores whose clients are kept.
const MAX_CLIENTS: usize = 64;

/// The clients of all data stores in use.
#[derive(Debug, Clone)]
pub(crate) struct DataStores {
    config: Live,
    made: Arc<Mutex<Vec<Made>>>,
}

/// A client, and what it was made of.
#[derive(Debug)]
struct Made {
    source: Source,
    gate: Gate,
    limit: u64,
    store: Arc<DataStore>,
}

/// One data store, as all runs share it.
#[derive(Debug)]
pub(crate) struct DataStore {
    client: Client,
    permits: Semaphore,
    /// Until when the store does not want to be asked.
    paused_until: Mutex<Option<Instant>>,
}

/// How to query a store.
#[derive(Debug)]
enum Client {
    Jaeger(Jaeger),
    Tempo(Tempo),
    Search(Search),
    SignalFx(SignalFx),
    XRay(XRay),
    Azure(Azure),
    SumoLogic(SumoLogic),
    Zipkin(Zipkin),
    ClickHouse(ClickHouse),
}

impl DataStores {
    /// Creates the clients as they are needed.
    pub(crate) fn new(config: Live) -> Self {
        Self { config, made: Arc::default() }
    }

    /// Returns the store; `None` if traces are sent to us instead.
    pub(crate) fn of(&self, source: &Source) -> Result<Option<Arc<DataStore>>, Failure> {
        if source.is_received() {
            return Ok(None);
        }
        let limits = &self.config.get().limits;
        let (gate, limit) = (Gate::of(limits), limits.decompressed_bytes);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let known =
            made.iter().find(|made| made.source == *source && made.gate == gate && made.limit == limit);
        if let Some(known) = known {
            return Ok(Some(Arc::clone(&known.store)));
        }
        let store = Arc::new(DataStore::new(source, &gate, limit)?);
        if made.len() >= MAX_CLIENTS {
            made.clear();
        }
        made.push(Made { source: source.clone(), gate, limit, store: Arc::clone(&store) });
        Ok(Some(store))
    }
}

impl DataStore {
    fn new(source: &Source, gate: &Gate, limit: u64) -> Result<Self, Failure> {
        let client = match source {
            Source::Jaeger(client) => Client::Jaeger(Jaeger::new(client, gate, limit)?),
            Source::Tempo(tempo) => Client::Tempo(Tempo::new(tempo, gate, limit)?),
            Source::OpenSearch(index) => Client::Search(Search::new(Layout::OpenSearch, index, gate, limit)?),
            Source::ElasticApm(index) => Client::Search(Search::new(Layout::ElasticApm, index, gate, limit)?),
            Source::SignalFx(signalfx) => Client::SignalFx(SignalFx::new(signalfx, gate, limit)?),
            Source::AwsXray(xray) => Client::XRay(XRay::new(xray, gate, limit)?),
            Source::AzureAppInsights(azure) => Client::Azure(Azure::new(azure, gate, limit)?),
            Source::SumoLogic(sumo) => Client::SumoLogic(SumoLogic::new(sumo, gate, limit)?),
            Source::Zipkin(client) => Client::Zipkin(Zipkin::new(client, gate, limit)?),
            Source::ClickHouse(table) => Client::ClickHouse(ClickHouse::new(table, gate, limit)?),
            Source::Received(_) => {
                let message = "traces are sent to this server, there is nothing to query".to_owned();
                return Err(Failure::told(Reason::Unsupported, message));
            }
        };
        Ok(Self { client, permits: Semaphore::new(CONCURRENCY), paused_until: Mutex::default() })
    }

    /// The name of the store, for messages.
    pub(crate) fn name(&self) -> &'static str {
        match &self.client {
            Client::Jaeger(_) => jaeger::NAME,
            Client::Tempo(_) => tempo::NAME,
            Client::Search(search) => search.name(),
            Client::SignalFx(_) => signalfx::NAME,
            Client::XRay(_) => xray::NAME,
            Client::Azure(_) => azure::NAME,
            Client::SumoLogic(_) => sumo_logic::NAME,
            Client::Zipkin(_) => zipkin::NAME,
            Client::ClickHouse(_) => clickhouse::NAME,
        }
    }

    /// The peers of the store.
    pub(crate) fn endpoints(&self) -> Vec<&Endpoint> {
        match &self.client {
            Client::Jaeger(client) => vec![client.endpoint()],
            Client::Tempo(client) => vec![client.endpoint()],
            Client::Search(search) => search.endpoints(),
            Client::SignalFx(client) => vec![client.endpoint()],
            Client::XRay(client) => vec![client.endpoint()],
            Client::Azure(client) => vec![client.endpoint()],
            Client::SumoLogic(client) => vec![client.endpoint()],
            Client::Zipkin(client) => vec![client.endpoint()],
            Client::ClickHouse(client) => vec![client.endpoint()],
        }
    }

    /// Whether it is a service on the internet, which takes seconds until a span can be read and counts requests.
    fn is_hosted(&self) -> bool {
        matches!(self.client, Client::SignalFx(_) | Client::XRay(_) | Client::Azure(_) | Client::SumoLogic(_))
    }

    /// Fetches what the store has of a trace. Nothing is received if it does not know the trace.
    async fn fetch(&self, received: &mut Received<'_>) -> Result<(), FetchError> {
        match &self.client {
            Client::Jaeger(client) => client.fetch(received).await,
            Client::Tempo(client) => client.fetch(received).await,
            Client::Search(client) => client.fetch(received).await,
            Client::SignalFx(client) => client.fetch(received).await,
            Client::XRay(client) => client.fetch(received).await,
            Client::Azure(client) => client.fetch(received).await,
            Client::SumoLogic(client) => client.fetch(received).await,
            Client::Zipkin(client) => client.fetch(received).await,
            Client::ClickHouse(client) => client.fetch(received).await,
        }
    }

    /// Asks for something that every store of this kind has: whether it can be used, without a trace.
    async fn probe(&self) -> Result<(), FetchError> {
        match &self.client {
            Client::Jaeger(client) => client.probe().await,
            Client::Tempo(client) => client.probe().await,
            Client::Search(client) => client.probe().await,
            Client::SignalFx(client) => client.probe().await,
            Client::XRay(client) => client.probe().await,
            Client::Azure(client) => client.probe().await,
            Client::SumoLogic(client) => client.probe().await,
            Client::Zipkin(client) => client.probe().await,
            Client::ClickHouse(client) => client.probe().await,
        }
    }

    /// How long the store still does not want to be asked.
    fn pause(&self) -> Duration {
        let until = *self.paused_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.map(|until| until.saturating_duration_since(Instant::now())).unwrap_or_default()
    }

    /// Leaves the store alone for a time, or for longer if it has asked for that before.
    fn pause_for(&self, time: Duration) {
        let mut until = self.paused_until.lock().unwrap_or_else(PoisonError::into_inner);
        *until = (*until).max(Some(Instant::now() + time));
    }

    /// Waits until the store may be asked. Returns the permit, and how long other requests have held it.
    async fn turn(&self) -> Result<(SemaphorePermit<'_>, Duration), FetchError> {
        loop {
            let pause = self.pause();
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            let asked = Instant::now();
            let Ok(permit) = self.permits.acquire().await else {
                let message = "the server is stopping".to_owned();
                return Err(FetchError::passing(Failure::told(Reason::Timeout, message)));
            };
            // The store may have asked another run for a pause meanwhile.
            if self.pause().is_zero() {
                return Ok((permit, asked.elapsed()));
            }
        }
    }
}

/// The answers of data stores, converted without a connection: for tests against recorded answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// Tempo over HTTP.
    Tempo,
    /// A page of an OpenSearch index.
    OpenSearch,
    /// A page of an Elastic APM index.
    ElasticApm,
    /// A segment of SignalFx.
    SignalFx,
}

impl Recorded {
    /// Converts the body of an answer to spans.
    pub fn read(self, content_type: &str, body: Bytes) -> Result<ExportTraceServiceRequest, String> {
        match self {
            Self::Tempo => tempo::read(content_type, body),
            Self::OpenSearch => Layout::OpenSearch.read(Page::read(&body)?.into_documents()),
            Self::ElasticApm => Layout::ElasticApm.read(Page::read(&body)?.into_documents()),
            Self::SignalFx => signalfx::read(&body),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt as _;
    use qualitytrace_core::definition::source::HttpClient;

    use super::*;

    #[tokio::test]
    async fn the_longest_pause_holds_also_for_requests_that_wait_for_their_turn() {
        let client = HttpClient { url: "http://localhost:9411".to_owned(), ..HttpClient::default() };
        let store = DataStore::new(&Source::Zipkin(client), &Gate::default(), 1).unwrap();
        let others = store.permits.acquire_many(u32::try_from(CONCURRENCY).unwrap()).await.unwrap();
        let mut turn = pin!(store.turn());
        assert!(turn.as_mut().now_or_never().is_none());
        store.pause_for(Duration::from_mins(1));
        store.pause_for(Duration::from_secs(1));
        assert!(store.pause() > Duration::from_secs(30));
        drop(others);
        assert!(turn.as_mut().now_or_never().is_none(), "the store was asked during its pause");
    }
}
