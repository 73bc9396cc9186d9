//! What earlier runs taught: the history of each test, and how late each service delivers.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::Span;
use qualitytrace_core::wait::history::Learned;
use qualitytrace_core::wait::{Ended, History, Lags, Progress};

use super::{Error, lock};
use crate::store::Store;

/// Tests whose history is held in memory; the store has them all.
const HELD_HISTORIES: usize = 10_000;

/// Histories and lags, shared by all runs.
#[derive(Debug)]
pub(super) struct Memory {
    store: Store,
    histories: Mutex<HashMap<String, Arc<History>>>,
    lags: Mutex<Lags>,
}

impl Memory {
    pub(super) fn new(store: Store) -> Self {
        Self { store, histories: Mutex::default(), lags: Mutex::default() }
    }

    /// What is known of a test.
    pub(super) async fn history(&self, test: &str) -> Result<Arc<History>, Error> {
        if let Some(known) = lock(&self.histories).get(test) {
            return Ok(Arc::clone(known));
        }
        let stored = self.store.history(test).await?;
        let history = stored.and_then(|body| read(test, &body)).unwrap_or_default();
        let mut held = lock(&self.histories);
        if held.len() >= HELD_HISTORIES {
            held.clear();
        }
        Ok(Arc::clone(held.entry(test.to_owned()).or_insert_with(|| Arc::new(history))))
    }

    /// Learns from a run that ended.
    pub(super) async fn learn(
        &self,
        test: &str,
        run: &Progress,
        ended: &Ended,
        passed: bool,
    ) -> Result<(), Error> {
        self.change(test, |history| history.learn(run, ended, passed)).await
    }

    /// Learns that spans came after the verdict.
    pub(super) async fn late(&self, test: &str, run: &Progress) -> Result<(), Error> {
        let learn = |history: &mut History| {
            history.late(run);
            true
        };
        self.change(test, learn).await
    }

    /// Changes a history and, if `change` says that it did, stores it.
    async fn change(&self, test: &str, change: impl FnOnce(&mut History) -> bool) -> Result<(), Error> {
        self.history(test).await?;
        let changed = {
            let mut held = lock(&self.histories);
            let Some(history) = held.get_mut(test) else { return Ok(()) };
            let history = Arc::make_mut(history);
            change(history).then(|| write(test, history))
        };
        match changed {
            Some(body) => Ok(self.store.put_history(test, &body).await?),
            None => Ok(()),
        }
    }

    /// Notes how late a span came.
    pub(super) fn arrived(&self, span: &Span, at: Timestamp) {
        lock(&self.lags).arrived(span, at);
    }

    /// How late each service delivers.
    pub(super) fn lags(&self) -> MutexGuard<'_, Lags> {
        lock(&self.lags)
    }
}

fn read(test: &str, body: &str) -> Option<History> {
    match Learned::from_json(body) {
        Ok(mut learned) => learned.tests.remove(test),
        Err(error) => {
            tracing::warn!(
                test,
                error = &error as &dyn std::error::Error,
                "the test's history is unreadable and starts anew"
            );
            None
        }
    }
}

fn write(test: &str, history: &History) -> String {
    let tests = BTreeMap::from([(test.to_owned(), history.clone())]);
    Learned { tests, lags: Lags::default() }.to_json()
}
