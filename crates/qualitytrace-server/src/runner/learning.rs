//! Learning from runs: the history of each test, and how late each service delivers.

mod samples;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::Span;
use qualitytrace_core::wait::history::Learned;
use qualitytrace_core::wait::{History, Observations, Progress, Register, WaitEnd, register};
use tokio::time::Instant;

use super::{Error, lock};
use crate::base::clock;
use crate::base::redact::Redactor;
use crate::receive::register::SharedRegister;
use crate::storage::store::Store;

/// Histories cached in memory, and the kinds of spans in them (about 200 bytes each); the store has them all.
const HELD_HISTORIES: usize = 10_000;
const HELD_KINDS: usize = 100_000;
/// Attempts to update a history that other servers update too.
const ATTEMPTS: usize = 5;
/// The shortest pause between two writes of the lags.
const LAGS_INTERVAL: Duration = Duration::from_secs(10);
/// The document with the lags of services.
const LAGS: &str = "lags";

/// Histories and lags, shared by all runs.
#[derive(Debug)]
pub(super) struct Learning {
    store: Store,
    /// A cache; unused where other servers may change the stored histories.
    histories: Mutex<Histories>,
    /// What other servers learned about tests that the store may not know yet.
    taught: Mutex<BTreeMap<String, History>>,
    services: SharedRegister,
    /// When the lags were last stored, and their text.
    stored_lags: Mutex<(Option<Instant>, String)>,
}

/// Histories by test.
#[derive(Debug, Default)]
struct Histories {
    by_test: HashMap<String, Arc<History>>,
    /// The kinds of spans in all of them.
    kinds: usize,
}

impl Histories {
    fn get(&self, test: &str) -> Option<&Arc<History>> {
        self.by_test.get(test)
    }

    /// Adds a history, unless there is one; returns the one that is there.
    fn insert(&mut self, test: &str, history: Arc<History>) -> Arc<History> {
        if let Some(known) = self.by_test.get(test) {
            return Arc::clone(known);
        }
        if self.by_test.len() >= HELD_HISTORIES || self.kinds + history.kinds() > HELD_KINDS {
            self.clear();
        }
        self.kinds += history.kinds();
        self.by_test.insert(test.to_owned(), Arc::clone(&history));
        history
    }

    /// Changes a history, if it is here.
    fn change<T>(&mut self, test: &str, change: impl FnOnce(&mut History) -> T) -> Option<T> {
        let history = Arc::make_mut(self.by_test.get_mut(test)?);
        self.kinds -= history.kinds();
        let changed = change(history);
        self.kinds += history.kinds();
        Some(changed)
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Learning {
    /// Loads what is stored. Known services go into the register that the ingest feeds.
    pub(super) async fn open(store: Store, services: SharedRegister) -> Result<Self, Error> {
        let known = stored_services(&store).await?;
        {
            let mut services = services.lock();
            services.take_over(known);
            services.listens(clock::now());
        }
        Ok(Self {
            store,
            histories: Mutex::default(),
            taught: Mutex::default(),
            services,
            stored_lags: Mutex::default(),
        })
    }

    /// Adopts what other servers learned.
    pub(super) fn teach(&self, learned: Learned) {
        lock(&self.taught).extend(learned.tests);
        lock(&self.histories).clear();
        self.services.lock().take_over(learned.services);
    }

    /// Returns the history of a test.
    pub(super) async fn history(&self, test: &str) -> Result<Arc<History>, Error> {
        if let Some(known) = lock(&self.histories).get(test) {
            return Ok(Arc::clone(known));
        }
        let history = Arc::new(self.load(test).await?.0);
        if self.store.is_shared() {
            return Ok(history);
        }
        Ok(lock(&self.histories).insert(test, history))
    }

    /// Learns from a run that has ended.
    pub(super) async fn learn(
        &self,
        test: &str,
        run: &Progress,
        ended: &WaitEnd,
        passed: bool,
    ) -> Result<(), Error> {
        let mute = run.mute_addresses();
        self.services.lock().stayed_mute(&mute);
        self.store_lags(false).await?;
        self.change(test, |history| history.learn(run, ended, passed)).await
    }

    /// Learns that spans arrived after the verdict.
    pub(super) async fn late(&self, test: &str, run: &Progress, passed: bool) -> Result<(), Error> {
        let learn = |history: &mut History| {
            history.late(run, passed);
            true
        };
        self.change(test, learn).await
    }

    /// Updates a history, and stores it if `change` returns `true`.
    async fn change(&self, test: &str, change: impl Fn(&mut History) -> bool) -> Result<(), Error> {
        if self.store.is_shared() {
            return self.change_shared(test, change).await;
        }
        self.history(test).await?;
        let changed =
            lock(&self.histories).change(test, |history| change(history).then(|| write(test, history)));
        match changed.flatten() {
            Some(body) => Ok(self.store.put_history(test, &body).await?),
            None => Ok(()),
        }
    }

    /// Updates a history that other servers may update too, with compare-and-set: what they learned is not lost.
    async fn change_shared(&self, test: &str, change: impl Fn(&mut History) -> bool) -> Result<(), Error> {
        for _ in 0..ATTEMPTS {
            let (mut history, before) = self.load(test).await?;
            if !change(&mut history) {
                return Ok(());
            }
            let after = write(test, &history);
            if self.store.replace_history(test, before.as_deref(), &after).await? {
                return Ok(());
            }
        }
        tracing::debug!(test, "many runs taught at once; what one of them taught is left out");
        Ok(())
    }

    /// Loads the history of a test, and its stored document.
    async fn load(&self, test: &str) -> Result<(History, Option<String>), Error> {
        let body = self.store.history(test).await?;
        let stored = body.as_deref().and_then(|body| read(test, body));
        let history = stored.or_else(|| lock(&self.taught).get(test).cloned());
        Ok((history.unwrap_or_default(), body))
    }

    /// Records how late a span arrived that another server may have received. The ingest records what arrives here.
    pub(super) fn arrived(&self, span: &Span, at: Timestamp) {
        if !self.store.is_shared() {
            return;
        }
        let mut services = self.services.lock();
        // On this server, an unnamed process is identified by its address, which other servers do not know.
        if register::names_process(&span.resource) || !services.has_heard(span.service()) {
            services.arrived(span, at);
        }
    }

    /// Records what the spans of a trace show about services, addresses and clocks. Secrets are left out: this is stored
    /// unsealed.
    pub(super) fn observed(&self, mut observations: Observations, redactor: &Redactor) {
        if observations.is_empty() {
            return;
        }
        if !redactor.is_empty() {
            observations.retain(|text| redactor.text(text) == text);
        }
        self.services.lock().observe(observations);
    }

    /// The register of services.
    pub(super) fn services(&self) -> MutexGuard<'_, Register> {
        self.services.lock()
    }

    /// Stores the lags: at once, or when the last write was long enough ago.
    pub(super) async fn store_lags(&self, now: bool) -> Result<(), Error> {
        {
            let mut stored = lock(&self.stored_lags);
            if !now && stored.0.is_some_and(|at| at.elapsed() < LAGS_INTERVAL) {
                return Ok(());
            }
            stored.0 = Some(Instant::now());
        }
        let mut services = self.services.lock().clone();
        if self.store.is_shared() {
            // Other servers hear other services.
            services.take_over(stored_services(&self.store).await?);
        }
        let body = Learned { tests: BTreeMap::new(), services }.to_json();
        if lock(&self.stored_lags).1 == body {
            return Ok(());
        }
        self.store.put_document(LAGS, &body).await?;
        lock(&self.stored_lags).1 = body;
        Ok(())
    }

    /// Returns everything that runs on this server learned.
    pub(super) async fn learned(&self) -> Result<Learned, Error> {
        let mut tests = BTreeMap::new();
        for (test, body) in self.store.histories().await? {
            tests.extend(read(&test, &body).map(|history| (test, history)));
        }
        Ok(Learned { tests, services: self.services.lock().clone() })
    }
}

/// Loads the stored register of services.
async fn stored_services(store: &Store) -> Result<Register, Error> {
    let stored = store.document(LAGS).await?;
    let stored = stored.and_then(|body| Learned::from_json(&body).ok());
    Ok(stored.map(|learned| learned.services).unwrap_or_default())
}

fn read(test: &str, body: &str) -> Option<History> {
    match Learned::from_json(body) {
        Ok(mut learned) => learned.tests.remove(test),
        Err(error) => {
            tracing::warn!(
                test,
                error = &error as &dyn std::error::Error,
                "the test's history is unreadable and is reset"
            );
            None
        }
    }
}

fn write(test: &str, history: &History) -> String {
    let tests = BTreeMap::from([(test.to_owned(), history.clone())]);
    Learned { tests, services: Register::default() }.to_json()
}
