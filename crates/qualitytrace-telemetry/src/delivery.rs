//! The delivery task of a sink: takes parts from the queue, sends them, and settles them by the response.

pub(crate) mod circuit;
mod complaint;
mod transports;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use serde::Serialize;
use tokio::sync::watch;

use crate::{
    config::{Level, Signal, Sink, Sync},
    item,
    ledger::Loss,
    queue::{BatchConditions, Part, Queue},
    transport::{Answer, Transport},
};
use circuit::{Circuit, CircuitState, Policy};
use complaint::{Complaints, Kind};
use transports::Transports;

/// Bytes that are moved at a time from the spool of an earlier folder, while requests wait.
const MIGRATE: usize = 16 << 20;

/// The mode of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Send batches as they close.
    Run,
    /// Shutdown: sends everything; ends when the queue is empty, when the receiver is down and the rest is on disk, or
    /// at the deadline.
    Flush(Instant),
    /// The sink was removed from the configuration: sends everything, with the usual backoff between attempts; ends
    /// when the queue is empty or at the deadline.
    Retire(Instant),
    /// Takes nothing new; ends when the requests in flight have their responses, or at the deadline.
    Stop(Instant),
}

impl Mode {
    /// The time at which it ends, whatever is left.
    fn deadline(self) -> Option<Instant> {
        match self {
            Self::Flush(deadline) | Self::Retire(deadline) | Self::Stop(deadline) => Some(deadline),
            Self::Run => None,
        }
    }
}

/// The health of a delivery, for the status.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Health {
    /// Whether the receiver is believed to be reachable. Each signal has a circuit of its own; this is the worst.
    pub circuit: CircuitState,
    /// Requests of a signal in a row that failed or were refused.
    pub failures: u32,
    /// The last failure, refusal or warning.
    pub last_problem: Option<String>,
    /// When the last request was acknowledged, in milliseconds since 1970.
    pub last_success_ms: Option<u64>,
    /// Milliseconds until the next attempt, while the sink pauses.
    pub next_attempt_ms: Option<u64>,
    /// Requests sent.
    pub requests: u64,
    /// Requests that failed: those that are retried, and those that were refused.
    pub failed_requests: u64,
    /// Requests that were refused (400, 401, 500, ...).
    pub refused_requests: u64,
    /// Total duration of acknowledged requests, in microseconds.
    pub request_micros: u64,
}

pub(crate) struct HealthCell(Mutex<(Health, Option<Instant>)>);

impl HealthCell {
    pub(crate) fn new() -> Self {
        let health = Health {
            circuit: CircuitState::Closed,
            failures: 0,
            last_problem: None,
            last_success_ms: None,
            next_attempt_ms: None,
            requests: 0,
            failed_requests: 0,
            refused_requests: 0,
            request_micros: 0,
        };
        Self(Mutex::new((health, None)))
    }

    fn lock(&self) -> MutexGuard<'_, (Health, Option<Instant>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn read(&self) -> Health {
        let (mut health, until) = self.lock().clone();
        let left = until.and_then(|until| until.checked_duration_since(Instant::now()));
        health.next_attempt_ms = left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        health
    }
}

pub(crate) struct Delivery {
    pub(crate) sink: Sink,
    pub(crate) queue: Arc<Queue>,
    pub(crate) resource: Bytes,
    pub(crate) health: Arc<HealthCell>,
    pub(crate) mode: watch::Receiver<Mode>,
    /// How signals were sent that a reload switched off; items of them may still wait.
    pub(crate) former: BTreeMap<Signal, Sink>,
    /// The schema that the resource follows; empty when none is set.
    pub(crate) schema_url: String,
    /// The least severe line that the delivery writes to the log.
    pub(crate) log_level: Level,
}

impl Delivery {
    pub(crate) async fn run(mut self) {
        // Made before the spool is read, so that damage found in it is logged.
        let mut complaints = Complaints::new(&self.sink.id, self.log_level, &self.queue);
        let queue = self.queue.clone();
        // Reading the spool of an earlier process may take a second, so it runs on a blocking thread.
        let _ = tokio::task::spawn_blocking(move || queue.recover()).await;
        let policy = Policy {
            initial: self.sink.delivery.retry_initial,
            max: self.sink.delivery.retry_max,
            threshold: self.sink.delivery.retry_circuit,
        };
        let mut transports = Transports::new(&self.sink, std::mem::take(&mut self.former));
        let mut circuits = Signal::ALL.map(|_| Circuit::new());
        let mut requests = FuturesUnordered::new();
        let mut in_flight = [0_usize; 3];
        let mut housekeeping = Instant::now();
        let mut tried_at_end = [false; 3];
        // The sender of the mode is gone. Requests in flight still get their responses.
        let mut orphaned = false;
        loop {
            let mode = *self.mode.borrow_and_update();
            let now = Instant::now();
            if now >= housekeeping {
                self.queue.expire(SystemTime::now());
                if self.queue.uses_disk() {
                    let (queue, resource) = (self.queue.clone(), self.resource.clone());
                    let sync = self.sink.limits.spool_sync == Sync::Interval;
                    let _ = tokio::task::spawn_blocking(move || tend(&queue, &resource, sync)).await;
                }
                complaints.spool(self.queue.spool_status().as_ref(), now);
                complaints.losses(&self.queue.ledger, now);
                housekeeping = now + Duration::from_secs(1).min(self.sink.limits.spool_age / 4);
            }
            let due = BatchConditions {
                items: self.sink.delivery.batch_items,
                bytes: self.sink.delivery.batch_bytes,
                throttle: self.sink.delivery.throttle,
                flush: mode.deadline().is_some(),
            };
            let mut wake = mode.deadline().map_or(housekeeping, |deadline| housekeeping.min(deadline));
            for signal in Signal::ALL.into_iter().filter(|_| !matches!(mode, Mode::Stop(_))) {
                let (circuit, in_flight) = (&mut circuits[signal as usize], &mut in_flight[signal as usize]);
                let tried = &mut tried_at_end[signal as usize];
                if matches!(mode, Mode::Flush(_)) && *in_flight == 0 && !*tried {
                    // A flush does not wait for the backoff to pass: one attempt is made at once.
                    *tried = true;
                    circuit.resume();
                }
                let max = self.sink.delivery.in_flight;
                let attempt = |in_flight: usize| circuit.next_attempt(policy, in_flight, max, now);
                while attempt(*in_flight).is_some_and(|at| at <= now) {
                    let Some(part) = self.queue.next(signal, due, now) else {
                        break;
                    };
                    self.queue.ledger.of(signal).sent(part.count());
                    requests.push(send(transports.of(signal), (&self.resource, &self.schema_url), part));
                    *in_flight += 1;
                }
                // Only what a response does not have to free first is a reason to wake up.
                if let (Some(due_at), Some(at)) = (self.queue.due_at(signal, due), attempt(*in_flight)) {
                    wake = wake.min(at.max(due_at));
                }
            }
            let flushed = |signal: Signal| {
                let down = tried_at_end[signal as usize] && circuits[signal as usize].failures() > 0;
                self.queue.is_empty(signal) || down && self.queue.survives(signal)
            };
            let ended = match mode {
                Mode::Run => orphaned,
                Mode::Stop(deadline) => requests.is_empty() || now >= deadline,
                Mode::Flush(deadline) => {
                    (requests.is_empty() && Signal::ALL.into_iter().all(flushed)) || now >= deadline
                }
                Mode::Retire(deadline) => {
                    let empty = Signal::ALL.into_iter().all(|signal| self.queue.is_empty(signal));
                    (requests.is_empty() && empty) || now >= deadline
                }
            };
            if ended {
                break;
            }
            tokio::select! {
                Some((part, response, took)) = requests.next(), if !requests.is_empty() => {
                    in_flight[part.signal as usize] -= 1;
                    let answer = response.unwrap_or_else(|reason| {
                        transports.renew(part.signal);
                        Answer::Retry { after: None, reason }
                    });
                    self.settle(part, answer, took, &mut circuits, policy, &mut complaints);
                }
                // The delivery that follows a stopped one needs the notifications.
                () = self.queue.wake.notified(), if !matches!(mode, Mode::Stop(_)) => {}
                () = tokio::time::sleep_until(wake.into()) => {}
                changed = self.mode.changed(), if !orphaned => orphaned = changed.is_err(),
            }
        }
        // Requests without a response: their items go back to the queue.
        for request in std::mem::take(&mut requests) {
            let (part, count) = request.into_part();
            if let Some(part) = part {
                self.queue.ledger.of(part.signal).returned(count);
                self.queue.put_back(part);
            }
        }
        complaints.losses(&self.queue.ledger, Instant::now());
    }

    fn settle(
        &self,
        part: Part,
        answer: Answer,
        took: Duration,
        circuits: &mut [Circuit; 3],
        policy: Policy,
        complaints: &mut Complaints,
    ) {
        let now = Instant::now();
        let counters = self.queue.ledger.of(part.signal);
        let count = part.count();
        let circuit = &mut circuits[part.signal as usize];
        let mut cell = self.health.lock();
        cell.0.requests += 1;
        let mut kind = Kind::Refusal;
        let mut refused = 0;
        let answer = match answer {
            Answer::Unauthorized { reason } if self.sink.delivery.retry_unauthorized => {
                let reason = format!("{reason} (the items are kept: `retry.unauthorized` is set)");
                Answer::Retry { after: None, reason }
            }
            Answer::Unauthorized { reason } => Answer::Refused { reason },
            other => other,
        };
        let problem = match answer {
            Answer::Accepted { rejected, message } => {
                counters.accepted(count, rejected);
                part.settle();
                circuit.success();
                cell.0.last_success_ms = Some(crate::clock::now() / 1_000_000);
                cell.0.request_micros += u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                (rejected > 0 || !message.is_empty())
                    .then(|| format!("{rejected} of {count} items were rejected: {message}"))
            }
            Answer::Retry { after, reason } => {
                counters.returned(count);
                self.queue.put_back(part);
                circuit.failure(policy, now, after, jitter());
                cell.0.failed_requests += 1;
                kind = Kind::Failure;
                Some(reason)
            }
            Answer::Refused { reason } | Answer::Unauthorized { reason } => {
                counters.given_up(Loss::NonRetryable, count);
                part.settle();
                // The receiver is reachable: a backoff would not change its response.
                circuit.success();
                cell.0.failed_requests += 1;
                cell.0.refused_requests += 1;
                refused = cell.0.failures.saturating_add(1);
                Some(format!("{count} items were refused: {reason}"))
            }
            Answer::TooLarge { reason } => {
                circuit.success();
                if part.items.len() > 1 {
                    counters.returned(count);
                    let (first, second) = part.split();
                    self.queue.put_back(second);
                    self.queue.put_back(first);
                    None
                } else {
                    counters.given_up(Loss::TooLarge, count);
                    part.settle();
                    Some(reason)
                }
            }
        };
        if let Some(worst) = circuits.iter().max_by_key(|circuit| circuit.failures()) {
            cell.0.circuit = worst.state(policy, now);
            cell.0.failures = worst.failures().max(refused);
            cell.1 = worst.wait_until();
        }
        let Some(problem) = problem else { return };
        cell.0.last_problem = Some(problem.clone());
        drop(cell);
        complaints.problem(kind, &problem, now);
    }
}

/// Periodic maintenance of the disk queue.
fn tend(queue: &Queue, resource: &Bytes, sync: bool) {
    if queue.open_spool() {
        queue.recover();
    }
    queue.tidy();
    queue.unload(resource);
    queue.migrate(resource, MIGRATE);
    if sync {
        queue.sync();
    }
}

/// A random number in 0..1 for jitter.
fn jitter() -> f64 {
    use opentelemetry_sdk::trace::{IdGenerator as _, RandomIdGenerator};
    let bytes = RandomIdGenerator::default().new_span_id().to_bytes();
    f64::from(u16::from_le_bytes([bytes[0], bytes[1]])) / 65_536.0
}

/// A request in flight, which returns its part when it is cancelled.
struct Sending {
    part: Option<Part>,
    future: std::pin::Pin<Box<dyn Future<Output = Result<Answer, String>> + Send>>,
    started: Instant,
}

impl Sending {
    fn into_part(self) -> (Option<Part>, u64) {
        let count = self.part.as_ref().map_or(0, Part::count);
        (self.part, count)
    }
}

impl Future for Sending {
    type Output = (Part, Result<Answer, String>, Duration);

    fn poll(
        self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        let this = self.get_mut();
        match this.future.as_mut().poll(cx) {
            std::task::Poll::Ready(response) => match this.part.take() {
                Some(part) => std::task::Poll::Ready((part, response, this.started.elapsed())),
                None => std::task::Poll::Pending,
            },
            std::task::Poll::Pending => std::task::Poll::Pending,
        }
    }
}

fn send(
    transport: Result<Arc<Transport>, String>,
    (resource, schema_url): (&Bytes, &str),
    part: Part,
) -> Sending {
    let signal = part.signal;
    let request = item::request(part.resource.as_ref().unwrap_or(resource), schema_url, &part.items);
    let future = Box::pin(async move {
        match transport {
            Ok(transport) => transport.send(signal, request).await,
            Err(reason) => Err(reason),
        }
    });
    Sending { part: Some(part), future, started: Instant::now() }
}
