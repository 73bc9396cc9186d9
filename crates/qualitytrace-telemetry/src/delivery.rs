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
    queue::{Due, Part, Queue},
    transport::{Answer, Transport},
};
use circuit::{Circuit, CircuitState, Policy};
use complaint::{Complaints, Kind};
use transports::Transports;

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
    /// Takes nothing new; ends when the requests in flight have their responses.
    Stop,
}

impl Mode {
    /// The time at which it ends, whatever is left.
    fn deadline(self) -> Option<Instant> {
        match self {
            Self::Flush(deadline) | Self::Retire(deadline) => Some(deadline),
            Self::Run | Self::Stop => None,
        }
    }
}

/// The health of a delivery, for the status.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Health {
    /// Whether the receiver is believed to be reachable.
    pub circuit: CircuitState,
    /// Requests in a row that failed or were refused.
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
        let mut circuit = Circuit::new();
        let mut requests = FuturesUnordered::new();
        let mut housekeeping = Instant::now();
        let mut tried_at_end = false;
        // The sender of the mode is gone. Requests in flight still get their responses.
        let mut orphaned = false;
        loop {
            let mode = *self.mode.borrow_and_update();
            let now = Instant::now();
            if now >= housekeeping {
                self.queue.expire(SystemTime::now());
                if self.queue.wants_spool() {
                    let (queue, resource) = (self.queue.clone(), self.resource.clone());
                    let sync = self.sink.limits.spool_sync == Sync::Interval;
                    let _ = tokio::task::spawn_blocking(move || tend(&queue, &resource, sync)).await;
                }
                complaints.spool(self.queue.spool_status().as_ref(), now);
                complaints.losses(&self.queue.ledger, now);
                housekeeping = now + Duration::from_secs(1).min(self.sink.limits.spool_age / 4);
            }
            let due = Due {
                items: self.sink.delivery.batch_items,
                bytes: self.sink.delivery.batch_bytes,
                throttle: self.sink.delivery.throttle,
                flush: mode.deadline().is_some(),
            };
            let mut slots = circuit.slots(policy, self.sink.delivery.in_flight, now);
            match mode {
                Mode::Stop => slots = 0,
                // A flush does not wait for the backoff to pass: one attempt is made at once.
                Mode::Flush(_) if !tried_at_end => {
                    tried_at_end = true;
                    slots = slots.max(1);
                }
                Mode::Run | Mode::Flush(_) | Mode::Retire(_) => {}
            }
            while requests.len() < slots {
                let Some(part) = self.queue.next(due, now) else {
                    break;
                };
                self.queue.ledger.of(part.signal).sent(part.count());
                requests.push(send(transports.of(part.signal), (&self.resource, &self.schema_url), part));
            }
            let ended = match mode {
                Mode::Run => orphaned,
                Mode::Stop => requests.is_empty(),
                Mode::Flush(deadline) => {
                    let down = circuit.failures() > 0 && self.queue.survives();
                    (requests.is_empty() && (self.queue.is_empty() || down)) || now >= deadline
                }
                Mode::Retire(deadline) => (requests.is_empty() && self.queue.is_empty()) || now >= deadline,
            };
            if ended {
                break;
            }
            let mut wake = housekeeping;
            if requests.len() < self.sink.delivery.in_flight {
                let due_at = self.queue.due_at(due);
                let open_at = circuit.wait_until();
                if let Some(at) = due_at {
                    wake = wake.min(open_at.map_or(at, |open| open.max(at)));
                }
            }
            if let Some(deadline) = mode.deadline() {
                wake = wake.min(deadline);
            }
            tokio::select! {
                Some((part, answer, took)) = requests.next(), if !requests.is_empty() => {
                    self.settle(part, answer, took, &mut circuit, policy, &mut complaints);
                }
                () = self.queue.wake.notified() => {}
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
        circuit: &mut Circuit,
        policy: Policy,
        complaints: &mut Complaints,
    ) {
        let now = Instant::now();
        let counters = self.queue.ledger.of(part.signal);
        let count = part.count();
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
        cell.0.circuit = circuit.state(policy, now);
        cell.0.failures = circuit.failures().max(refused);
        cell.1 = circuit.wait_until();
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
    future: std::pin::Pin<Box<dyn Future<Output = Answer> + Send>>,
    started: Instant,
}

impl Sending {
    fn into_part(self) -> (Option<Part>, u64) {
        let count = self.part.as_ref().map_or(0, Part::count);
        (self.part, count)
    }
}

impl Future for Sending {
    type Output = (Part, Answer, Duration);

    fn poll(
        self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        let this = self.get_mut();
        match this.future.as_mut().poll(cx) {
            std::task::Poll::Ready(answer) => match this.part.take() {
                Some(part) => std::task::Poll::Ready((part, answer, this.started.elapsed())),
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
            Err(reason) => Answer::Retry { after: None, reason },
        }
    });
    Sending { part: Some(part), future, started: Instant::now() }
}
