//! OTLP load generator for benchmarks, on one thread: `loadgen ADDR [--http] [--gzip] [--rate SPANS_PER_SECOND] ...`.
//!
//! Closed loop by default: each of `--senders` sends its next request when the last one is answered. With `--rate`
//! requests fall due by the clock, whether or not the server keeps up; those without a free sender are counted. Ends
//! with one line of JSON.
#![expect(clippy::print_stdout, reason = "the result goes to standard output")]

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    str::FromStr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use serde_json::json;
use tokio::{task::LocalSet, time};

mod answer;
mod link;
mod payload;
mod tally;
mod usage;

use link::{Link, Route};
use payload::{Payload, Shape};
use tally::Tally;
use usage::Usage;

/// Request timeout; a request without a response counts as an error.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// The pause before a sender reconnects.
const RECONNECT_PAUSE: Duration = Duration::from_millis(50);

/// The command line options.
#[derive(Debug)]
struct Options {
    route: Route,
    shape: Shape,
    /// Distinct requests to encode beforehand.
    distinct: u64,
    senders: usize,
    connections: usize,
    warm: Duration,
    measured: Duration,
    /// Spans due per second; `None` for a closed loop.
    rate: Option<f64>,
    /// The process whose processor and memory usage is reported.
    pid: Option<u32>,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self> {
        let addr = args.next().context("usage: loadgen HOST:PORT [options]")?;
        let (mut grpc, mut gzip, mut spans, mut spans_per_trace) = (true, false, 1000, 10);
        let (mut distinct, mut senders, mut connections) = (None, 8, 2);
        let (mut warm, mut measured, mut rate, mut pid) = (2.0, 5.0, None, None);
        while let Some(name) = args.next() {
            match name.as_str() {
                "--http" => grpc = false,
                "--gzip" => gzip = true,
                "--spans" => spans = value(&name, args.next())?,
                "--spans-per-trace" => spans_per_trace = value(&name, args.next())?,
                "--distinct" => distinct = Some(value(&name, args.next())?),
                "--senders" => senders = value(&name, args.next())?,
                "--connections" => connections = value(&name, args.next())?,
                "--warm" => warm = value(&name, args.next())?,
                "--seconds" => measured = value(&name, args.next())?,
                "--rate" => rate = Some(value(&name, args.next())?),
                "--pid" => pid = Some(value(&name, args.next())?),
                other => bail!("`{other}` is not an option of loadgen"),
            }
        }
        // Compressed bodies are sent as they are, so more of them are kept to repeat trace ids less often.
        let distinct = distinct.unwrap_or(if gzip { 128 } else { 16 });
        Ok(Self {
            route: Route { addr, grpc, gzip },
            shape: Shape { spans, spans_per_trace, gzip, grpc },
            distinct,
            senders,
            connections,
            warm: Duration::from_secs_f64(warm),
            measured: Duration::from_secs_f64(measured),
            rate,
            pid,
        })
    }
}

fn value<T: FromStr>(name: &str, text: Option<String>) -> Result<T> {
    let text = text.with_context(|| format!("`{name}` needs a value"))?;
    text.parse().ok().with_context(|| format!("`{name} {text}` is not a value that it takes"))
}

fn main() -> Result<()> {
    let options = Options::parse(std::env::args().skip(1))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, run(Rc::new(options)))
}

async fn run(options: Rc<Options>) -> Result<()> {
    let payloads = (0..options.distinct)
        .map(|number| Payload::new(options.shape, number))
        .collect::<Result<Vec<_>>>()?;
    let (plain, wire) =
        payloads.first().map(|one| (one.plain_bytes, one.wire_bytes())).context("nothing to send")?;

    let from = Instant::now() + options.warm;
    let until = from + options.measured;
    let state = Rc::new(State {
        payloads,
        sent: Cell::new(0),
        first_trace: first_trace(),
        pace: options.rate.map(|spans| Pace::new(spans, options.shape.spans)),
        tally: RefCell::new(Tally::new(from, until, options.shape.spans as u64)),
        until,
        options: options.clone(),
    });

    let mut links: Vec<Link> = Vec::new();
    for sender in 0..options.senders {
        let shared =
            sender.checked_sub(options.connections).and_then(|at| links.get(at)).and_then(Link::share);
        links.push(match shared {
            Some(link) => link,
            None => Link::connect(&options.route).await?,
        });
    }
    let senders: Vec<_> =
        links.into_iter().map(|link| tokio::task::spawn_local(send_until_end(state.clone(), link))).collect();

    time::sleep_until(from.into()).await;
    let before = Usage::read(options.pid)?;
    time::sleep_until(until.into()).await;
    let after = Usage::read(options.pid)?;
    let memory = options.pid.map(usage::memory).transpose()?;
    senders.iter().for_each(tokio::task::JoinHandle::abort);

    let mut report = state.tally.borrow_mut().report();
    let percent = |of: fn(&Usage) -> f64| {
        ((of(&after) - of(&before)) / options.measured.as_secs_f64() * 1000.0).round() / 10.0
    };
    report["protocol"] = json!(if options.route.grpc { "grpc" } else { "http" });
    report["compression"] = json!(if options.route.gzip { "gzip" } else { "none" });
    report["spans_per_request"] = json!(options.shape.spans);
    report["bytes_per_span"] = json!(plain / options.shape.spans);
    report["wire_bytes_per_span"] = json!(wire / options.shape.spans);
    report["offered_spans_per_second"] = json!(options.rate);
    report["cpu_percent"] = json!(percent(|usage| usage.subject));
    report["generator_cpu_percent"] = json!(percent(|usage| usage.generator));
    report["other_cpu_percent"] =
        json!(percent(|usage| (usage.machine - usage.subject - usage.generator).max(0.0)));
    if let Some((now, peak)) = memory {
        report["rss_mib"] = json!(now.round());
        report["rss_peak_mib"] = json!(peak.round());
    }
    println!("{report}");
    Ok(())
}

/// A trace id that no other run of this program starts with.
fn first_trace() -> u128 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() << 64
}

/// The state shared by all senders; they run on one thread.
struct State {
    options: Rc<Options>,
    payloads: Vec<Payload>,
    sent: Cell<u64>,
    first_trace: u128,
    pace: Option<Pace>,
    tally: RefCell<Tally>,
    until: Instant,
}

impl State {
    /// The next body: payloads in turn, with new trace ids.
    fn next_body(&self) -> bytes::Bytes {
        let number = self.sent.get();
        self.sent.set(number + 1);
        let traces = self.options.shape.spans.div_ceil(self.options.shape.spans_per_trace) as u128;
        let which = usize::try_from(number % self.payloads.len() as u64).unwrap_or(0);
        self.payloads[which].fresh(self.first_trace + u128::from(number) * traces)
    }
}

/// The schedule of requests.
struct Pace {
    started: Instant,
    between: Duration,
    next: Cell<u32>,
}

impl Pace {
    fn new(spans_per_second: f64, spans_per_request: usize) -> Self {
        let spans = f64::from(u32::try_from(spans_per_request).unwrap_or(u32::MAX));
        Self {
            started: Instant::now(),
            between: Duration::from_secs_f64(spans / spans_per_second),
            next: Cell::new(0),
        }
    }

    /// The time of the next request, and how many fell due without a free sender.
    fn claim(&self, now: Instant) -> (Instant, u32) {
        let next = self.next.get();
        let due = self.started + self.between * next;
        let late = now.saturating_duration_since(due).as_secs_f64() / self.between.as_secs_f64();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "requests in a minute, not negative"
        )]
        let missed = late as u32;
        self.next.set(next + missed + 1);
        (self.started + self.between * (next + missed), missed)
    }
}

/// The loop of one sender.
async fn send_until_end(state: Rc<State>, mut link: Link) {
    while Instant::now() < state.until {
        if let Some(pace) = &state.pace {
            let now = Instant::now();
            let (due, missed) = pace.claim(now);
            state.tally.borrow_mut().skipped(now, missed.into());
            time::sleep_until(due.into()).await;
        }
        let body = state.next_body();
        let sent = Instant::now();
        let answer = match time::timeout(ANSWER_LIMIT, link.send(&state.options.route, body)).await {
            Ok(answer) => answer,
            Err(_) => Err(anyhow::anyhow!("no answer within {} s", ANSWER_LIMIT.as_secs())),
        };
        let failed = answer.is_err();
        state.tally.borrow_mut().answered(Instant::now(), sent.elapsed(), answer);
        if failed {
            time::sleep(RECONNECT_PAUSE).await;
            if let Ok(fresh) = Link::connect(&state.options.route).await {
                link = fresh;
            }
        }
    }
}
