//! Data stores: where traces already are. Each kind is one module, and one variant of `Client`.
//!
//! What a store answers is converted to OTLP and passed to our own ingest. Waiting, storing and judging are the same
//! for traces that are pulled and for those that are sent to us.

mod answers;
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
mod recorded;
mod search;
mod signalfx;
mod spans;
mod sumo_logic;
mod tempo;
mod tls;
mod xray;
mod zipkin;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use qualitytrace_core::definition::source::Source;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use self::answers::Answers;
use self::azure::Azure;
use self::clickhouse::ClickHouse;
use self::jaeger::Jaeger;
use self::search::{Layout, Search};
use self::signalfx::SignalFx;
use self::sumo_logic::SumoLogic;
use self::tempo::Tempo;
use self::tls::Files;
use self::xray::XRay;
use self::zipkin::Zipkin;
use crate::base::budget::Budget;
use crate::base::files::AllowedFiles;
use crate::config::Live;
use crate::outbound::trigger::{Endpoint, Gate, Reason, TriggerError};
use crate::storage::provision::data_store_files;

pub(crate) use self::connection::{Checked, Progress as ConnectionProgress};
pub(crate) use self::error::FetchError;
pub(crate) use self::pull::{Polled, Pull};
use self::received::Received;
pub use self::recorded::StoreAnswer;

/// Requests to one store at one time, of all runs.
const CONCURRENCY: usize = 8;
/// Stores whose clients are kept.
const MAX_CLIENTS: usize = 64;

/// The clients of all data stores in use.
#[derive(Debug, Clone)]
pub(crate) struct DataStores {
    config: Live,
    made: Arc<Mutex<Vec<CachedClient>>>,
    /// The memory of all answers.
    budget: Budget,
    /// The files that the definitions to provision name.
    provisioned: Arc<BTreeSet<String>>,
}

/// A client, and what it was made of.
#[derive(Debug)]
struct CachedClient {
    source: Source,
    terms: ConnectionTerms,
    store: Arc<DataStore>,
}

/// What the server's settings say about connections to data stores.
#[derive(Debug, PartialEq, Eq)]
struct ConnectionTerms {
    gate: Gate,
    /// The longest answer.
    limit: u64,
    /// Where the files may be that a store names.
    files: AllowedFiles,
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
        let provisioned = Arc::new(data_store_files(&config.get().provisioning));
        let budget = Budget::new(config.get().limits.api_bytes);
        Self { config, made: Arc::default(), budget, provisioned }
    }

    /// Returns the store; `None` if traces are sent to us instead.
    pub(crate) async fn of(&self, source: &Source) -> Result<Option<Arc<DataStore>>, TriggerError> {
        if source.is_received() {
            return Ok(None);
        }
        let terms = self.terms();
        if let Some(known) = self.known(source, &terms) {
            return Ok(Some(known));
        }
        let store = Arc::new(self.open(source, &terms).await?);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.len() >= MAX_CLIENTS {
            made.clear();
        }
        made.push(CachedClient { source: source.clone(), terms, store: Arc::clone(&store) });
        Ok(Some(store))
    }

    fn known(&self, source: &Source, terms: &ConnectionTerms) -> Option<Arc<DataStore>> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let known = made.iter().find(|made| made.source == *source && made.terms == *terms);
        known.map(|known| Arc::clone(&known.store))
    }

    /// Returns what the server's settings say about every store.
    fn terms(&self) -> ConnectionTerms {
        let config = self.config.get();
        self.budget.resize(config.limits.api_bytes);
        ConnectionTerms {
            gate: Gate::of(&config.limits),
            limit: config.limits.decompressed_bytes,
            files: config.safety.data_store_files.clone(),
        }
    }

    /// Creates the client of a store, with the certificates that it names.
    async fn open(&self, source: &Source, terms: &ConnectionTerms) -> Result<DataStore, TriggerError> {
        let files = Files { allowed: terms.files.clone(), provisioned: &self.provisioned };
        let answers = Answers { limit: terms.limit, budget: self.budget.clone() };
        DataStore::new(&files.read(source).await?, &terms.gate, &answers)
    }
}

impl DataStore {
    fn new(source: &Source, gate: &Gate, answers: &Answers) -> Result<Self, TriggerError> {
        let client = match source {
            Source::Jaeger(client) => Client::Jaeger(Jaeger::new(client, gate, answers)?),
            Source::Tempo(tempo) => Client::Tempo(Tempo::new(tempo, gate, answers)?),
            Source::OpenSearch(index) => {
                Client::Search(Search::new(Layout::OpenSearch, index, gate, answers)?)
            }
            Source::ElasticApm(index) => {
                Client::Search(Search::new(Layout::ElasticApm, index, gate, answers)?)
            }
            Source::SignalFx(signalfx) => Client::SignalFx(SignalFx::new(signalfx, gate, answers)?),
            Source::AwsXray(xray) => Client::XRay(XRay::new(xray, gate, answers)?),
            Source::AzureAppInsights(azure) => Client::Azure(Azure::new(azure, gate, answers)?),
            Source::SumoLogic(sumo) => Client::SumoLogic(SumoLogic::new(sumo, gate, answers)?),
            Source::Zipkin(client) => Client::Zipkin(Zipkin::new(client, gate, answers)?),
            Source::ClickHouse(table) => Client::ClickHouse(ClickHouse::new(table, gate, answers)?),
            Source::Received(_) => {
                let message = "traces are sent to this server, there is nothing to query".to_owned();
                return Err(TriggerError::told(Reason::Unsupported, message));
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
                return Err(FetchError::passing(TriggerError::told(Reason::Timeout, message)));
            };
            // The store may have asked another run for a pause meanwhile.
            if self.pause().is_zero() {
                return Ok((permit, asked.elapsed()));
            }
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
        let answers = Answers { limit: 1, budget: Budget::new(1) };
        let store = DataStore::new(&Source::Zipkin(client), &Gate::default(), &answers).unwrap();
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
