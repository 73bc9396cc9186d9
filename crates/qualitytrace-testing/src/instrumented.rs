//! A small instrumented service for a separate process: it answers, calls others, and exports its spans like the SDKs
//! do ([`exporter`]).
//!
//! | service | request | work |
//! |---|---|---|
//! | `gateway` | `/order?bug=BUG` | calls `stock` and `mail`, sends a message to `worker`, begins a job |
//! | `stock` | `/stock` | looks it up |
//! | `worker` | `/message` | answers at once, then packs |
//! | all | `/healthz` | nothing, but makes a span |
//!
//! Each delivery is printed to standard output as a [`exporter::Delivery`], so that the parent process knows the truth.

pub mod exporter;

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use crate::adversary::http;
use exporter::{Exporter, ExporterOptions, Span, new_id, now, random_below};

/// Timeout of a call to another service.
const CALL_LIMIT: Duration = Duration::from_mins(1);
/// How long the worker packs.
const PACKING: Duration = Duration::from_millis(50);
/// Limit on the bytes of a request's head.
const MAX_HEAD: usize = 8 * 1024;

/// The bug of the system for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Nothing.
    None,
    /// `stock` does not look up.
    NoLookUp,
    /// `stock` has an error.
    StockError,
    /// `gateway` does not call `stock`.
    NoCall,
    /// `worker` does not pack.
    NoPacking,
    /// `worker` has an error.
    WorkerError,
    /// `gateway` sends no message.
    NoMessage,
    /// `gateway` begins no job.
    NoJob,
}

impl Bug {
    const ALL: [Self; 8] = [
        Self::None,
        Self::NoLookUp,
        Self::StockError,
        Self::NoCall,
        Self::NoPacking,
        Self::WorkerError,
        Self::NoMessage,
        Self::NoJob,
    ];

    /// Its number in requests.
    pub fn number(self) -> usize {
        Self::ALL.iter().position(|bug| *bug == self).unwrap_or_default()
    }

    /// The service whose span is absent because of it, if one is.
    pub fn absent_from(self) -> Option<&'static str> {
        match self {
            Self::None | Self::StockError | Self::WorkerError => None,
            Self::NoLookUp | Self::NoCall => Some("stock"),
            Self::NoPacking | Self::NoMessage => Some("worker"),
            Self::NoJob => Some("gateway"),
        }
    }
}

/// The configuration of a service.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// Its port.
    pub port: u16,
    /// The services that it calls: names and ports. Of several ports of one name, each call takes one at random, as behind
    /// a load balancer.
    pub peers: Vec<(String, u16)>,
    /// The share of the traces it begins that it samples, in percent.
    pub sampled: u64,
    /// How long its job goes on after the response; `None` for no job.
    pub job: Option<Duration>,
    /// How it exports.
    pub manner: ExporterOptions,
}

impl Plan {
    /// Converts it to command line arguments; [`Plan::read`] is the inverse.
    pub fn words(&self) -> Vec<String> {
        let peers: Vec<_> = self.peers.iter().map(|(name, port)| format!("{name}:{port}")).collect();
        let mut words = vec![self.name.clone(), self.port.to_string(), peers.join(",")];
        words.push(self.job.map_or(0, |job| job.as_millis()).to_string());
        words.push(self.sampled.to_string());
        words.extend(self.manner.words());
        words
    }

    /// Reads a plan from command line arguments.
    pub fn read(words: &[String]) -> Option<Self> {
        let [name, port, peers, job, sampled, manner @ ..] = words else { return None };
        let peer =
            |word: &str| Some((word.split_once(':')?.0.to_owned(), word.split_once(':')?.1.parse().ok()?));
        let job: u64 = job.parse().ok()?;
        Some(Self {
            name: name.clone(),
            port: port.parse().ok()?,
            peers: peers.split(',').filter(|word| !word.is_empty()).map(peer).collect::<Option<_>>()?,
            job: (job > 0).then_some(Duration::from_millis(job)),
            sampled: sampled.parse().ok()?,
            manner: ExporterOptions::read(manner)?,
        })
    }
}

/// Runs the service until the process ends.
///
/// # Errors
/// If its port is taken.
pub fn serve(plan: Plan) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", plan.port))?;
    let exporter = Exporter::start(&plan.name, plan.manner.clone());
    let running = Arc::new(Running { plan, exporter });
    for stream in listener.incoming().flatten() {
        let running = Arc::clone(&running);
        // An error of a request only affects its client.
        std::thread::spawn(move || drop(running.answer(stream)));
    }
    Ok(())
}

struct Running {
    plan: Plan,
    exporter: Exporter,
}

/// The parent of new spans.
#[derive(Clone)]
struct Context {
    trace: String,
    span: String,
    is_sampled: bool,
}

impl Running {
    fn answer(self: &Arc<Self>, mut stream: TcpStream) -> io::Result<()> {
        let head = read_head(&mut stream)?;
        let target = head.split_whitespace().nth(1).unwrap_or("/").to_owned();
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let bug = query.split('&').find_map(|pair| pair.strip_prefix("bug=")?.parse::<usize>().ok());
        let bug = bug.and_then(|number| Bug::ALL.get(number).copied()).unwrap_or(Bug::None);
        let caller = context(&head);
        let is_sampled = caller.is_sampled && random_below(100) < self.plan.sampled;
        let own = Context { trace: caller.trace, span: new_id(8), is_sampled };
        let start = now();
        let server = format!("127.0.0.1:{}", self.plan.port);
        match path {
            "/order" => self.order(&own, bug),
            "/stock" => self.stock(&own, bug),
            "/message" => {
                let (running, own) = (Arc::clone(self), Context { span: caller.span.clone(), ..own.clone() });
                std::thread::spawn(move || running.pack(&own, bug));
            }
            _ => {}
        }
        // A message is traced as messaging, not as an HTTP call.
        if path != "/message" {
            let url = format!("http://{server}{path}");
            self.end(
                &own,
                &own.span,
                &caller.span,
                &format!("GET {path}"),
                2,
                start,
                &[("http.request.method", "GET"), ("url.path", path), ("url.full", &url)],
            );
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok")
    }

    fn order(self: &Arc<Self>, own: &Context, bug: Bug) {
        if bug != Bug::NoCall {
            self.call(own, "stock", "/stock", bug);
        }
        self.call(own, "mail", "/mail", bug);
        if bug != Bug::NoMessage {
            self.send(own, bug);
        }
        if let Some(job) = self.plan.job.filter(|_| bug != Bug::NoJob) {
            let (running, own) = (Arc::clone(self), own.clone());
            std::thread::spawn(move || {
                // Starts after the answer, as jobs do.
                std::thread::sleep(job);
                running.inner(&own, "job", Duration::ZERO);
            });
        }
    }

    fn stock(&self, own: &Context, bug: Bug) {
        if bug != Bug::NoLookUp {
            self.inner(own, "look up", Duration::ZERO);
        }
        if bug == Bug::StockError {
            self.inner(own, "oops", Duration::ZERO);
        }
    }

    fn pack(&self, message: &Context, bug: Bug) {
        let own = Context { span: new_id(8), ..message.clone() };
        let start = now();
        if bug != Bug::NoPacking {
            self.inner(&own, "pack", PACKING);
        }
        if bug == Bug::WorkerError {
            self.inner(&own, "oops", Duration::ZERO);
        }
        self.end(&own, &own.span, &message.span, "orders process", 5, start, MESSAGING);
    }

    /// Calls a peer, if there is one of this name.
    fn call(&self, own: &Context, name: &str, path: &str, bug: Bug) {
        let Some((port, process)) = self.peer(name) else { return };
        let (span, start) = (new_id(8), now());
        ask(process, path, own, &span, bug);
        let (url, port) = (format!("http://127.0.0.1:{port}{path}"), port.to_string());
        self.end(
            own,
            &span,
            &own.span,
            &format!("GET {path}"),
            3,
            start,
            &[
                ("http.request.method", "GET"),
                ("url.full", &url),
                ("server.address", "127.0.0.1"),
                ("server.port", &port),
            ],
        );
    }

    /// Sends a message to the worker, if there is one.
    fn send(&self, own: &Context, bug: Bug) {
        let Some((_, process)) = self.peer("worker") else { return };
        let (span, start) = (new_id(8), now());
        ask(process, "/message", own, &span, bug);
        self.end(own, &span, &own.span, "orders send", 4, start, MESSAGING);
    }

    /// The port of a service, and that of the process which takes the next call.
    fn peer(&self, name: &str) -> Option<(u16, u16)> {
        let ports = self.plan.peers.iter().filter(|(peer, _)| peer == name).map(|(_, port)| *port);
        let ports: Vec<u16> = ports.collect();
        let next = usize::try_from(random_below(ports.len() as u64)).ok()?;
        Some((*ports.first()?, *ports.get(next)?))
    }

    /// Does inner work that takes some real time, as the spans of a real service do.
    fn inner(&self, own: &Context, name: &str, takes: Duration) {
        let start = now();
        std::thread::sleep(takes);
        self.end(own, &new_id(8), &own.span, name, 1, start, &[]);
    }

    #[expect(clippy::too_many_arguments, reason = "a span has so many parts")]
    fn end(
        &self,
        own: &Context,
        span: &str,
        parent: &str,
        name: &str,
        kind: u8,
        start: u64,
        attributes: &[(&str, &str)],
    ) {
        if !own.is_sampled {
            return;
        }
        let owned = attributes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        self.exporter.ended(Span {
            trace: own.trace.clone(),
            id: span.to_owned(),
            parent: parent.to_owned(),
            name: name.to_owned(),
            kind,
            start,
            end: now(),
            attributes: owned,
        });
    }
}

const MESSAGING: &[(&str, &str)] =
    &[("messaging.system", "rabbitmq"), ("messaging.destination.name", "orders")];

fn ask(port: u16, path: &str, own: &Context, span: &str, bug: Bug) {
    let flags = u8::from(own.is_sampled);
    let traceparent = format!("00-{}-{span}-{flags:02x}", own.trace);
    let path = format!("{path}?bug={}", bug.number());
    // A peer without a response is missing in the trace; nothing else depends on it.
    let to = SocketAddr::from(([127, 0, 0, 1], port));
    let _ = http::send(to, "GET", &path, &[("traceparent", &traceparent)], b"", CALL_LIMIT);
}

/// The span context of a request, or a new trace.
fn context(head: &str) -> Context {
    let value = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("traceparent").then_some(value.trim())
    });
    let mut parts = value.unwrap_or_default().split('-').skip(1);
    match (parts.next(), parts.next()) {
        (Some(trace), Some(span)) => {
            let is_sampled = parts.next() != Some("00");
            Context { trace: trace.to_owned(), span: span.to_owned(), is_sampled }
        }
        _ => Context { trace: new_id(16), span: String::new(), is_sampled: true },
    }
}

fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    stream.set_read_timeout(Some(CALL_LIMIT))?;
    let (mut head, mut buffer) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|four| four == b"\r\n\r\n") && head.len() < MAX_HEAD {
        match stream.read(&mut buffer)? {
            0 => break,
            read => head.extend_from_slice(&buffer[..read]),
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}
