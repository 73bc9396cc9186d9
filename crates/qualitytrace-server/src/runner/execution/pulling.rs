//! The trace of a run in a data store: pulled while the run waits for it, and for a while after the verdict.

use std::sync::Arc;
use std::time::Duration;

use qualitytrace_core::definition::secrets::secrets;
use qualitytrace_core::definition::{Format, Kind, Resource};
use qualitytrace_core::id::TraceId;
use tokio::time::Instant;

use super::Execution;
use super::arrivals::{Arrivals, WaitOutcome};
use super::settings::read;
use crate::base::redact::Redactor;
use crate::outbound::data_store::Pull;
use crate::runner::Error;
use crate::runner::retry::retry_while_unavailable;
use crate::storage::store::{CURRENT, beside};

/// Where the trace of a run is.
#[derive(Debug)]
pub(super) enum Pulling {
    /// Its spans are sent to this server.
    Nothing,
    /// In this data store.
    From {
        /// The polls.
        pull: Box<Pull>,
        /// Hides the store's credentials in what it answers.
        redactor: Redactor,
    },
    /// In a data store that cannot be used, for this reason.
    Failed(String),
}

impl Pulling {
    /// Pulls the trace while the run waits for it.
    pub(super) async fn during(
        &mut self,
        wait: impl Future<Output = Result<WaitOutcome, Error>>,
        timeout: Duration,
    ) -> Result<WaitOutcome, Error> {
        match self {
            Self::Nothing => wait.await,
            Self::Failed(message) => Ok(WaitOutcome::Unreadable(message.clone())),
            Self::From { pull, redactor } => {
                let until = Instant::now() + timeout;
                tokio::select! {
                    waited = wait => waited,
                    error = pull.follow(until) => {
                        Ok(WaitOutcome::Unreadable(unreadable(&redactor.text(&error.failure.message))))
                    }
                }
            }
        }
    }

    /// Explains why the run has no trace, if it is in a data store.
    pub(super) fn explain(&self, waited: &WaitOutcome, trace: TraceId) -> Option<String> {
        match (self, waited) {
            (_, WaitOutcome::Unreadable(message)) => Some(message.clone()),
            (Self::From { pull, .. }, _) => {
                let name = pull.store_name();
                Some(format!(
                    "no span of this trace has arrived: the data store {name} does not have trace {trace}; check that the \
                     system under test, or its Collector, exports to {name}, and that it takes over the `traceparent` \
                     header"
                ))
            }
            (Self::Nothing | Self::Failed(_), _) => None,
        }
    }
}

fn unreadable(message: &str) -> String {
    format!("the trace cannot be read from the data store: {message}")
}

impl Execution {
    /// Prepares to pull the trace of a run of this test. `is_live` says whether it is being recorded now.
    pub(super) async fn pull(
        &self,
        test: &str,
        arrivals: &mut Arrivals,
        is_live: bool,
    ) -> Result<Pulling, Error> {
        let id = beside(test, CURRENT);
        let stored =
            retry_while_unavailable(|| async { Ok(self.store.resource(Kind::DataStore, &id).await?) })
                .await?;
        let Some(stored) = stored else { return Ok(Pulling::Nothing) };
        let resource = read(Kind::DataStore, &stored.spec).documents.into_iter().next();
        let Some(Resource::DataStore(data_store)) = resource.map(|document| document.resource) else {
            return Ok(Pulling::Nothing);
        };
        let store = match self.data_stores.of(&data_store.source).await {
            Ok(Some(store)) => store,
            Ok(None) => return Ok(Pulling::Nothing),
            Err(failure) => return Ok(Pulling::Failed(unreadable(&failure.message))),
        };
        let text = format!("{{\"spec\":{}}}", stored.spec);
        let secrets = secrets(&text, Format::Json, Kind::DataStore);
        let redactor = Redactor::of(secrets.iter().map(|secret| secret.value.as_str()));
        let (trace, source) = arrivals.followed();
        let (pull, polled) = Pull::new(store, Arc::clone(source.ingest()), trace, is_live);
        arrivals.polled = Some(polled);
        Ok(Pulling::From { pull: Box::new(pull), redactor })
    }

    /// Goes on pulling for spans that come after the verdict, in a task of its own: every second for the time `often`.
    pub(super) fn pull_late(&self, pulling: Pulling, often: Duration) {
        let Pulling::From { pull, .. } = pulling else { return };
        let now = Instant::now();
        let (often_until, deadline) = (now + often, now + self.late_window());
        self.tasks.spawn(async move { pull.follow_late(often_until, deadline).await });
    }
}
