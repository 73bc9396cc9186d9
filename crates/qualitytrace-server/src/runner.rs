//! Runs, from the claim to the verdict.
//!
//! [`Runner`] starts runs, ends them on demand, and keeps what they teach. The run itself is one function, in
//! `execute`. Nothing here touches SQL or a socket itself.

mod again;
mod arrivals;
mod control;
mod execute;
mod judging;
mod late;
mod log;
mod memory;
mod resolving;
mod settings;
mod spans;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use qualitytrace_core::id::{SpanId, TraceId};
use qualitytrace_core::run::State;
use qualitytrace_core::wait;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use self::control::{Control, Wish, wished};
use self::execute::Judged;
use self::log::Log;
use self::memory::Memory;
use crate::clock;
use crate::follow::Followers;
use crate::limits::Limits;
use crate::source::Source;
use crate::store::{self, NewRun, Store, StoredTest};
use crate::trigger::Triggers;
use crate::watch::{Caller, Watch};
use crate::wire::What;

/// A run of a test.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RunId {
    /// The test.
    pub test: String,
    /// Counts from 1 within the test.
    pub number: u64,
}

/// Starts runs and carries them out.
#[derive(Debug)]
pub struct Runner {
    store: Store,
    source: Source,
    triggers: Triggers,
    policy: wait::Policy,
    /// How long late spans of a judged run are looked for.
    late_window: Duration,
    /// One permit a run under way.
    turns: Semaphore,
    memory: Memory,
    followers: Arc<Followers<RunId>>,
    watch: Watch,
    control: Control,
    tasks: Mutex<JoinSet<()>>,
}

/// Why a run could not be carried on: our own side failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The test was deleted meanwhile.
    #[error("test {test} is not there any more")]
    Gone {
        /// The test.
        test: String,
    },
    /// The stored definition cannot be read any more.
    #[error("the stored definition of test {test} is not a test")]
    Definition {
        /// The test.
        test: String,
    },
}

/// Variables of a run: names and values, in order.
pub type Variables = Vec<(String, String)>;

impl Runner {
    /// Ready to run tests.
    pub fn new(store: Store, source: Source, policy: wait::Policy, limits: &Limits, watch: Watch) -> Self {
        Self {
            source,
            triggers: Triggers::new(limits),
            policy,
            late_window: limits.late_window,
            turns: Semaphore::new(limits.concurrent_runs),
            memory: Memory::new(store.clone()),
            followers: Arc::default(),
            watch,
            control: Control::default(),
            tasks: Mutex::default(),
            store,
        }
    }

    /// Wakes whenever something has happened to a run.
    pub fn follow(&self, run: RunId) -> watch::Receiver<u64> {
        self.followers.follow(run)
    }

    /// Stores a new run of a test and begins to carry it out.
    pub async fn start(self: &Arc<Self>, test: &StoredTest, variables: Variables) -> Result<RunId, Error> {
        self.start_as_asked(test, variables, "{}".to_owned()).await
    }

    /// The same, with what else was asked for as JSON, to be shown with the run.
    pub async fn start_as_asked(
        self: &Arc<Self>,
        test: &StoredTest,
        variables: Variables,
        request: String,
    ) -> Result<RunId, Error> {
        let new = NewRun {
            test: test.id.clone(),
            test_version: test.version,
            trace: random_trace_id(),
            state: State::Created.as_str(),
            created: clock::now(),
            variables: variables_json(&variables),
            request,
        };
        let gone = || Error::Gone { test: test.id.clone() };
        let number = self.store.insert_run(&new).await?.ok_or_else(gone)?;
        let run = RunId { test: test.id.clone(), number };
        let mut log = self.log(&run, 0);
        log.append(What::Created).await?;
        let (runner, test, id) = (Arc::clone(self), test.clone(), run.clone());
        let wish = self.control.begin(run.clone());
        let caller = Caller::current();
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            let ended = runner.carry_out(&mut log, &test, new.trace, &variables, wish, &caller).await;
            runner.control.end(&run);
            let outcome = ended.as_ref().ok().and_then(|judged| Some(judged.as_ref()?.outcome()));
            runner.watch.run_ended(log.ended().unwrap_or(State::Failed).as_str(), outcome);
            match ended {
                Ok(Some(judged)) => runner.watch_late(&mut log, &test, judged).await,
                Ok(None) => {}
                Err(error) => runner.break_off(&mut log, &error).await,
            }
        });
        Ok(id)
    }

    /// Ends a run, whatever it is doing. `false` when it is not under way here.
    pub fn stop(&self, run: &RunId) -> bool {
        self.control.wish(run, Wish::Stop)
    }

    /// Judges a run with the spans that are here. `false` when it is not under way here.
    pub fn skip_waiting(&self, run: &RunId) -> bool {
        self.control.wish(run, Wish::Skip)
    }

    /// Carries out a run until it ends by itself or by the user's wish.
    async fn carry_out(
        &self,
        log: &mut Log,
        test: &StoredTest,
        trace: TraceId,
        variables: &Variables,
        mut wish: watch::Receiver<Wish>,
        caller: &Caller,
    ) -> Result<Option<Judged>, Error> {
        let skip = wish.clone();
        let ended = tokio::select! {
            ended = self.execute(log, test, trace, variables, skip, caller) => Some(ended?),
            () = wished(&mut wish, Wish::Stop) => None,
        };
        match ended {
            Some(judged) => Ok(judged),
            // Whatever was under way, the trigger included, was dropped with the function that did it.
            None => {
                log.end_anywhere(State::Stopped, What::Stopped).await?;
                Ok(None)
            }
        }
    }

    /// Marks the runs that were under way when the server last went away.
    pub async fn mark_interrupted(&self) -> Result<usize, Error> {
        let mut marked = 0;
        for state in State::ALL.into_iter().filter(|state| !state.is_final()) {
            for run in self.store.runs_in_state(state.as_str()).await? {
                let id = RunId { test: run.test, number: run.number };
                let events = self.store.events(&id.test, id.number, 0).await?;
                let mut log = self.log(&id, events.last().map_or(0, |event| event.seq));
                if log.change_state(state, State::Failed).await? {
                    log.append(What::Interrupted).await?;
                    marked += 1;
                }
            }
        }
        Ok(marked)
    }

    /// Ends every run under way, as if the server had gone away.
    pub async fn shutdown(&self) {
        let mut tasks = std::mem::take(&mut *lock(&self.tasks));
        tasks.shutdown().await;
    }

    /// The log of a run whose last event so far is `seq`.
    fn log(&self, run: &RunId, seq: u64) -> Log {
        Log::new(self.store.clone(), Arc::clone(&self.followers), run.clone(), seq)
    }

    async fn break_off(&self, log: &mut Log, error: &Error) {
        tracing::error!(error = error as &dyn std::error::Error, "a run broke off");
        // The store is probably what failed; the run is then marked at the next start.
        let _ = log.end_anywhere(State::Failed, What::Broken { message: error.to_string() }).await;
    }
}

fn random_trace_id() -> TraceId {
    std::iter::repeat_with(rand::random).find_map(TraceId::from_bytes).unwrap_or_else(random_trace_id)
}

fn random_span_id() -> SpanId {
    std::iter::repeat_with(rand::random).find_map(SpanId::from_bytes).unwrap_or_else(random_span_id)
}

fn variables_json(variables: &Variables) -> String {
    let pairs = variables.iter().map(|(key, value)| (key.clone(), value.clone().into()));
    serde_json::Value::Object(pairs.collect()).to_string()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
