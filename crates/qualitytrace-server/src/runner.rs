//! Runs, from the claim to the verdict.
//!
//! A run is one function read from top to bottom. It touches no SQL and no socket itself, and its two hard choices, is
//! the trace complete and did it pass, are calls to pure functions.

mod arrivals;
mod judging;
mod log;
mod memory;
mod resolving;

use std::sync::Arc;

use qualitytrace_core::definition::{self, Format, Resource, Test};
use qualitytrace_core::id::{SpanId, TraceId};
use qualitytrace_core::lang::Generator;
use qualitytrace_core::run::{State, TriggerSpan};
use qualitytrace_core::wait::{self, Debt, Ended, Meaning};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use self::arrivals::Arrivals;
use self::judging::Judge;
use self::log::Log;
use self::memory::Memory;
use crate::clock;
use crate::follow::Followers;
use crate::limits::Limits;
use crate::source::Source;
use crate::store::{self, NewRun, Store, StoredTest};
use crate::trigger::{Context, Triggers};
use crate::wire::{Outcome, What};

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
    /// One permit a run under way.
    turns: Semaphore,
    memory: Memory,
    followers: Arc<Followers<RunId>>,
    tasks: std::sync::Mutex<JoinSet<()>>,
}

/// Why a run could not be carried on: our own side failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
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
    pub fn new(store: Store, source: Source, policy: wait::Policy, limits: &Limits) -> Self {
        Self {
            source,
            triggers: Triggers::new(limits),
            policy,
            turns: Semaphore::new(limits.concurrent_runs),
            memory: Memory::new(store.clone()),
            followers: Arc::default(),
            tasks: std::sync::Mutex::default(),
            store,
        }
    }

    /// Wakes whenever something has happened to a run.
    pub fn follow(&self, run: RunId) -> watch::Receiver<u64> {
        self.followers.follow(run)
    }

    /// Stores a new run of a test and begins to carry it out.
    pub async fn start(self: &Arc<Self>, test: &StoredTest, variables: Variables) -> Result<RunId, Error> {
        let new = NewRun {
            test: test.id.clone(),
            test_version: test.version,
            trace: random_trace_id(),
            state: State::Created.as_str(),
            created: clock::now(),
            variables: variables_json(&variables),
        };
        let number = self.store.insert_run(&new).await?;
        let run = RunId { test: test.id.clone(), number };
        let mut log = self.log(&run, 0);
        log.append(What::Created).await?;
        let (runner, test, id) = (Arc::clone(self), test.clone(), run.clone());
        let task = async move {
            if let Err(error) = runner.execute(&mut log, &test, new.trace, variables).await {
                runner.break_off(&mut log, &error).await;
            }
        };
        let mut tasks = self.tasks.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
        Ok(id)
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
        let mut tasks =
            std::mem::take(&mut *self.tasks.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        tasks.shutdown().await;
    }

    async fn execute(
        &self,
        log: &mut Log,
        stored: &StoredTest,
        trace_id: TraceId,
        variables: Variables,
    ) -> Result<(), Error> {
        let test = read(stored)?;
        // The semaphore is never closed.
        let _turn = self.turns.acquire().await;
        if !log.change_state(State::Created, State::Executing).await? {
            return Ok(());
        }
        let mut generator = Generator::in_utc(clock::now(), rand::random());
        log.append(What::Resolving).await?;
        let trigger = match resolving::resolve(&test, &variables, &mut generator) {
            Ok(trigger) => trigger,
            Err(message) => {
                return log.end(State::Executing, State::TriggerFailed, What::NotResolved { message }).await;
            }
        };
        log.append(What::Resolved).await?;

        let context = Context { trace: trace_id, span: random_span_id(), baggage: String::new() };
        let history = self.memory.history(&stored.id).await?;
        let mut arrivals = Arrivals::follow(self.source.clone(), &context, history);
        log.append(What::Triggering { span_id: context.span.to_string() }).await?;
        let start = clock::now();
        let reply = match self.triggers.send(&trigger, &context).await {
            Ok(reply) => reply,
            Err(failure) => {
                return log.end(State::Executing, State::TriggerFailed, What::from(&failure)).await;
            }
        };
        let end = clock::now();
        log.append(What::Triggered { reply: (&reply).into() }).await?;
        log.change_state(State::Executing, State::AwaitingTrace).await?;

        let judge = Judge::compile(&test, &variables, generator);
        let root = TriggerSpan { id: context.span, trace: trace_id, start, end }.to_span(&reply);
        let ended = if test.skip_trace_collection {
            None
        } else {
            log.append(What::waiting(&self.policy)).await?;
            arrivals.progress.answered(end);
            let ended =
                arrivals.wait(&self.policy, &self.memory, log, |trace| judge.standing(trace), &root).await?;
            log.append(What::wait_ended(&ended, &arrivals.progress)).await?;
            Some(ended)
        };
        let missing = match ended.as_ref().map(|ended| (ended.meaning(), debts(ended))) {
            None | Some((Meaning::Judge, _)) => Vec::new(),
            Some((Meaning::Inconclusive, debts)) => debts,
            Some((Meaning::NoTrace, debts)) => {
                let what = What::NoTrace { message: debts.join("; ") };
                return log.end(State::AwaitingTrace, State::TraceFailed, what).await;
            }
        };
        log.change_state(State::AwaitingTrace, State::AwaitingTestResults).await?;
        log.append(What::Judging).await?;
        let verdict = judge.verdict(&arrivals.trace(&root), missing);
        if let Some(ended) = &ended {
            let passed = verdict.outcome == Outcome::Passed;
            self.memory.learn(&stored.id, &arrivals.progress, ended, passed).await?;
        }
        log.end(State::AwaitingTestResults, State::Finished, What::Judged { verdict }).await
    }

    /// The log of a run whose last event so far is `seq`.
    fn log(&self, run: &RunId, seq: u64) -> Log {
        Log::new(self.store.clone(), Arc::clone(&self.followers), run.clone(), seq)
    }

    async fn break_off(&self, log: &mut Log, error: &Error) {
        tracing::error!(error = error as &dyn std::error::Error, "a run broke off");
        // The store is probably what failed; the run is then marked at the next start.
        let _ = log.fail(error.to_string()).await;
    }
}

/// What was still owed and could matter, a sentence each.
fn debts(ended: &Ended) -> Vec<String> {
    ended.debts.iter().filter(|debt| **debt != Debt::First).map(ToString::to_string).collect()
}

fn read(stored: &StoredTest) -> Result<Test, Error> {
    let format = if stored.format == "json" { Format::Json } else { Format::Yaml };
    let reading = definition::read_as(&stored.definition, format, definition::Kind::Test);
    match reading.documents.into_iter().next().map(|document| document.resource) {
        Some(Resource::Test(test)) => Ok(test),
        _ => Err(Error::Definition { test: stored.id.clone() }),
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
