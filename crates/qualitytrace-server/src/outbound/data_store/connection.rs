//! The connection test of a data store, step by step: port, connectivity, authentication, fetch.

use std::time::Duration;

use qualitytrace_core::definition::source::{Source, Tempo};
use tokio::time::{Instant, timeout_at};

use super::{DataStore, DataStores, FetchError};
use crate::outbound::trigger::{Endpoint, Gate, Reason, TriggerError};

/// How long the whole test may take.
const LIMIT: Duration = Duration::from_millis(4_500);

/// The result of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Checked {
    /// It was not reached.
    Skipped,
    /// It passed.
    Passed(String),
    /// It passed, with something to look at.
    Warned(String),
    /// It failed: the next step for the user, and the cause.
    Failed { message: String, error: String },
}

/// The result of all steps, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) port: Checked,
    pub(crate) connectivity: Checked,
    pub(crate) authentication: Checked,
    pub(crate) fetch: Checked,
}

impl Progress {
    const NONE: Self = Self {
        port: Checked::Skipped,
        connectivity: Checked::Skipped,
        authentication: Checked::Skipped,
        fetch: Checked::Skipped,
    };
}

impl DataStores {
    /// Tests the connection to a data store.
    pub(crate) async fn check(&self, source: &Source) -> Progress {
        let (terms, deadline) = (self.terms(), Instant::now() + LIMIT);
        let opened = timeout_at(deadline, self.open(source, &terms)).await;
        let opened = opened.unwrap_or_else(|_| Err(late(source.kind()).failure));
        check(source, opened, &terms.gate, deadline).await
    }
}

async fn check(
    source: &Source,
    opened: Result<DataStore, TriggerError>,
    gate: &Gate,
    deadline: Instant,
) -> Progress {
    let mut progress = Progress::NONE;
    if source.is_received() {
        return progress;
    }
    let store = match opened {
        Ok(store) => store,
        Err(failure) => {
            let message = "the settings of the data store do not make a connection".to_owned();
            progress.connectivity = Checked::Failed { message, error: failure.message };
            return progress;
        }
    };
    let name = store.name();
    progress.port = port(source, &store);
    for endpoint in store.endpoints() {
        if let Err(error) = reach(endpoint, gate, deadline).await {
            let message = format!("\"{endpoint}\" cannot be reached; start {name} or correct the address");
            progress.connectivity = Checked::Failed { message, error };
            return progress;
        }
    }
    progress.connectivity = Checked::Passed(format!("{name} can be reached"));
    let probed = timeout_at(deadline, store.probe()).await.unwrap_or_else(|_| Err(late(name)));
    if let Err(error) = probed {
        return failed(progress, name, error);
    }
    progress.authentication = Checked::Passed(format!("{name} accepts the request"));
    progress.fetch = Checked::Passed(format!("{name} answers requests for traces"));
    progress
}

/// Puts a failure into the step that it belongs to.
fn failed(mut progress: Progress, name: &str, error: FetchError) -> Progress {
    let TriggerError { reason, message: told, .. } = error.failure;
    match reason {
        Reason::Credentials => {
            let message = format!("{name} does not accept the credentials; correct them in the data store");
            progress.authentication = Checked::Failed { message, error: told };
        }
        // The TCP connection was there; what failed is the protocol above it.
        Reason::Tls | Reason::Cut | Reason::Unreachable | Reason::Refused | Reason::Dns | Reason::Denied => {
            let message =
                format!("{name} was reached, but no connection came about; check its protocol and TLS");
            progress.connectivity = Checked::Failed { message, error: told };
        }
        Reason::Invalid
        | Reason::Timeout
        | Reason::TooLarge
        | Reason::Protocol
        | Reason::Missing
        | Reason::Unsupported => {
            progress.authentication = Checked::Passed(format!("{name} accepts the request"));
            let message = format!("no trace can be read from {name}; check its address, path and tenant");
            progress.fetch = Checked::Failed { message, error: told };
        }
    }
    progress
}

fn late(name: &str) -> FetchError {
    let message = format!("{name} did not answer within {} s", LIMIT.as_secs());
    FetchError::passing(TriggerError::told(Reason::Timeout, message))
}

async fn reach(endpoint: &Endpoint, gate: &Gate, deadline: Instant) -> Result<(), String> {
    match timeout_at(deadline, gate.tcp(&endpoint.host, endpoint.port.unwrap_or(443))).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

/// Compares the ports with the usual ones.
fn port(source: &Source, store: &DataStore) -> Checked {
    let usual: &[u16] = match source {
        Source::Jaeger(client) if super::jaeger::is_http(&client.endpoint) => &[16686, 80, 443],
        Source::Jaeger(_) => &[16685],
        Source::Tempo(Tempo::Grpc(_)) => &[9095],
        Source::Tempo(Tempo::Http(_) | Tempo::Unset) => &[80, 443, 3100, 3200],
        Source::OpenSearch(_) => &[9200, 9250],
        Source::ElasticApm(_) => &[9200],
        Source::Zipkin(_) => &[9411, 80, 443],
        Source::ClickHouse(_) => &[8123, 8443],
        Source::SignalFx(_)
        | Source::AwsXray(_)
        | Source::AzureAppInsights(_)
        | Source::SumoLogic(_)
        | Source::Received(_) => &[443],
    };
    let other =
        store.endpoints().into_iter().filter_map(|endpoint| endpoint.port).find(|port| !usual.contains(port));
    match other {
        Some(port) => {
            let usual: Vec<String> = usual.iter().map(ToString::to_string).collect();
            let name = store.name();
            Checked::Warned(format!(
                "{name} usually answers on port {}, not on \"{port}\"; check the address",
                usual.join(" or ")
            ))
        }
        None => Checked::Passed("the port is the usual one".to_owned()),
    }
}
