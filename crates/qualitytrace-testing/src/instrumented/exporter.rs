//! An exporter that behaves like those of the SDKs: a batch at a fixed interval, in the order in which spans ended;
//! after a refused connection it retries with a growing backoff, and drops a batch after ten seconds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::adversary::http;

/// Spans in a batch, as in SDKs.
const BATCH: usize = 512;
/// How long a batch is retried before it is dropped.
const BATCH_LIMIT: Duration = Duration::from_secs(10);
/// The factor of gRPC's backoff after a refused connection.
const FACTOR: f64 = 1.6;
const LONGEST_PAUSE: Duration = Duration::from_mins(2);

/// The configuration of an exporter.
#[derive(Debug, Clone)]
pub struct ExporterOptions {
    /// Its destination.
    pub to: SocketAddr,
    /// The time between two batches.
    pub every: Duration,
    /// The first backoff after a refused connection: 1 s, or more as if it had been refused often before.
    pub pause: Duration,
    /// After this many batches it stops silently.
    pub dies_after: Option<u64>,
    /// Whether there is no exporter at all.
    pub is_mute: bool,
    /// By how many seconds its clock is ahead.
    pub clock_ahead: i64,
}

impl ExporterOptions {
    pub(super) fn words(&self) -> Vec<String> {
        let dies_after = self.dies_after.map_or_else(|| "-".to_owned(), |batches| batches.to_string());
        let [every, pause] = [self.every, self.pause].map(|time| time.as_millis().to_string());
        let [is_mute, clock] = [self.is_mute.to_string(), self.clock_ahead.to_string()];
        vec![self.to.to_string(), every, pause, dies_after, is_mute, clock]
    }

    pub(super) fn read(words: &[String]) -> Option<Self> {
        let [to, every, pause, dies_after, is_mute, clock] = words else { return None };
        let time = |word: &String| Some(Duration::from_millis(word.parse().ok()?));
        Some(Self {
            to: to.parse().ok()?,
            every: time(every)?,
            pause: time(pause)?,
            dies_after: dies_after.parse().ok(),
            is_mute: is_mute.parse().ok()?,
            clock_ahead: clock.parse().ok()?,
        })
    }

    /// A moment as its clock shows it.
    fn shown(&self, moment: u64) -> u64 {
        moment.saturating_add_signed(self.clock_ahead.saturating_mul(1_000_000_000))
    }
}

/// A span that has ended.
#[derive(Debug, Clone)]
pub(super) struct Span {
    pub(super) trace: String,
    pub(super) id: String,
    /// Empty for the root of a trace.
    pub(super) parent: String,
    pub(super) name: String,
    pub(super) kind: u8,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) attributes: Vec<(String, String)>,
}

/// An acknowledged batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// When, in nanoseconds since the epoch.
    pub at: u64,
    /// The latest end of a span of each trace in it.
    pub ends: BTreeMap<String, u64>,
}

impl Delivery {
    /// Formats it as a line: `AT TRACE:END TRACE:END ...`
    pub fn line(&self) -> String {
        let ends = self.ends.iter().map(|(trace, end)| format!(" {trace}:{end}"));
        format!("{}{}", self.at, ends.collect::<Vec<_>>().concat())
    }

    /// Reads a delivery from a line.
    pub fn read(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let at = words.next()?.parse().ok()?;
        let ends = words.map(|word| {
            let (trace, end) = word.split_once(':')?;
            Some((trace.to_owned(), end.parse().ok()?))
        });
        Some(Self { at, ends: ends.collect::<Option<_>>()? })
    }

    /// The watermark: the latest end of all spans in it.
    pub fn watermark(&self) -> u64 {
        self.ends.values().copied().max().unwrap_or_default()
    }
}

/// A running exporter.
pub(super) struct Exporter {
    queue: Arc<Mutex<Vec<Span>>>,
}

impl Exporter {
    /// Starts it for the service of this name.
    pub(super) fn start(service: &str, manner: ExporterOptions) -> Self {
        let queue = Arc::<Mutex<Vec<Span>>>::default();
        if !manner.is_mute {
            let (queue, service) = (Arc::clone(&queue), service.to_owned());
            std::thread::spawn(move || Sending::new(service, manner).go_on(&queue));
        }
        Self { queue }
    }

    /// Queues a span that has just ended.
    pub(super) fn ended(&self, span: Span) {
        self.queue.lock().expect("no thread panics while it holds the queue").push(span);
    }
}

struct Sending {
    service: String,
    manner: ExporterOptions,
    pause: Duration,
    not_before: Instant,
    batches: u64,
}

impl Sending {
    fn new(service: String, manner: ExporterOptions) -> Self {
        Self { service, pause: manner.pause, manner, not_before: Instant::now(), batches: 0 }
    }

    fn go_on(mut self, queue: &Mutex<Vec<Span>>) {
        loop {
            // A real exporter in another process: the interval is what the tests are about.
            std::thread::sleep(self.manner.every);
            loop {
                let batch: Vec<Span> = {
                    let mut queue = queue.lock().expect("no thread panics while it holds the queue");
                    let end = queue.len().min(BATCH);
                    queue.drain(..end).collect()
                };
                if batch.is_empty() {
                    break;
                }
                if self.manner.dies_after.is_none_or(|batches| self.batches < batches) {
                    self.deliver(&batch);
                }
            }
        }
    }

    /// Retries until the batch is accepted or too old.
    fn deliver(&mut self, batch: &[Span]) {
        let (body, began) = (body(&self.service, batch, &self.manner), Instant::now());
        let json = [("content-type", "application/json")];
        while began.elapsed() < BATCH_LIMIT {
            if Instant::now() < self.not_before {
                // Back-off after a refusal, as exporters do.
                let wait = self.not_before.min(began + BATCH_LIMIT);
                std::thread::sleep(wait.saturating_duration_since(Instant::now()));
                continue;
            }
            let answer =
                http::send(self.manner.to, "POST", "/v1/traces", &json, body.as_bytes(), BATCH_LIMIT);
            if answer.is_ok_and(|answer| answer.status == 200) {
                self.pause = self.manner.pause;
                self.batches += 1;
                tell(batch);
                return;
            }
            self.not_before = Instant::now() + self.pause;
            self.pause = self.pause.mul_f64(FACTOR).min(LONGEST_PAUSE);
        }
    }
}

fn tell(batch: &[Span]) {
    let mut ends = BTreeMap::new();
    for span in batch {
        let end: &mut u64 = ends.entry(span.trace.clone()).or_default();
        *end = (*end).max(span.end);
    }
    let mut out = std::io::stdout().lock();
    // The parent process may be gone, and then this one soon ends, too.
    let _ = writeln!(out, "{}", Delivery { at: now(), ends }.line()).and_then(|()| out.flush());
}

/// The batch as OTLP in JSON. No text in it needs to be escaped.
fn body(service: &str, batch: &[Span], manner: &ExporterOptions) -> String {
    let attribute =
        |(key, value): (&str, &str)| format!(r#"{{"key":"{key}","value":{{"stringValue":"{value}"}}}}"#);
    let process = std::process::id().to_string();
    let of = [("service.name", service), ("host.name", "localhost"), ("service.instance.id", &process)];
    let mut text =
        format!(r#"{{"resourceSpans":[{{"resource":{{"attributes":[{}]}},"#, of.map(attribute).join(","));
    text.push_str(r#""scopeSpans":[{"spans":["#);
    for (index, span) in batch.iter().enumerate() {
        let attributes: Vec<_> = span.attributes.iter().map(|(key, value)| attribute((key, value))).collect();
        let _ = write!(
            text,
            r#"{}{{"traceId":"{}","spanId":"{}","parentSpanId":"{}","name":"{}","kind":{},"startTimeUnixNano":"{}","endTimeUnixNano":"{}","attributes":[{}]}}"#,
            if index == 0 { "" } else { "," },
            span.trace,
            span.id,
            span.parent,
            span.name,
            span.kind,
            manner.shown(span.start),
            manner.shown(span.end),
            attributes.join(",")
        );
    }
    text + "]}]}]}"
}

/// A random id of this many bytes.
pub(super) fn new_id(bytes: usize) -> String {
    (0..bytes / 8).map(|_| format!("{:016x}", random() | 1)).collect::<Vec<_>>().concat()
}

/// A random number below a limit; 0 if the limit is.
pub(super) fn random_below(limit: u64) -> u64 {
    random().checked_rem(limit).unwrap_or_default()
}

fn random() -> u64 {
    // Each `RandomState` has random keys.
    RandomState::new().build_hasher().finish()
}

/// Nanoseconds since the epoch.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_is_read_as_it_was_told() {
        let ends = BTreeMap::from([("a".to_owned(), 3), ("b".to_owned(), 5)]);
        let delivery = Delivery { at: 7, ends };
        assert_eq!(delivery.line(), "7 a:3 b:5");
        assert_eq!(Delivery::read(&delivery.line()), Some(delivery.clone()));
        assert_eq!(delivery.watermark(), 5);
    }
}
