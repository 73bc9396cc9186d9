//! Instrumented services as separate processes: this program, started once more for each of them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use qualitytrace_testing::eventually;
use qualitytrace_testing::instrumented::exporter::{Delivery, ExporterOptions};
use qualitytrace_testing::instrumented::{Plan, serve};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// The argument that makes this program a service; its plan follows.
const SERVICE: &str = "--service";
/// The clock skew within one machine, and the slack that the policy gives.
const SLACK: u64 = 50_000_000;
/// Start timeout of the services.
const START_LIMIT: Duration = Duration::from_mins(1);

/// The services of one lane. They are stopped on drop.
pub(crate) struct Fleet {
    children: Mutex<BTreeMap<&'static str, Vec<Child>>>,
    plans: BTreeMap<&'static str, Vec<Plan>>,
    deliveries: Arc<Mutex<BTreeMap<&'static str, Vec<Delivery>>>>,
}

/// How the services of a lane differ from each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Difference {
    /// The service that is different.
    pub(crate) victim: &'static str,
    /// Its export interval.
    pub(crate) every: Duration,
    /// Its backoff after the first connection was refused.
    pub(crate) pause: Duration,
    /// After this many batches its exporter stops silently.
    pub(crate) dies_after: Option<u64>,
    /// Whether `gateway` calls a peer that sends no spans.
    pub(crate) has_mute_peer: bool,
    /// How long `gateway` goes on after its response.
    pub(crate) job: Option<Duration>,
    /// Whether it has a second process, which sends no spans.
    pub(crate) has_mute_twin: bool,
    /// The share of the traces that `gateway` samples, in percent.
    pub(crate) sampled: u64,
    /// By how many seconds its clock is ahead.
    pub(crate) clock_ahead: i64,
}

/// Runs a service if the arguments say so; returns whether it did.
pub(crate) fn serve_if_asked() -> bool {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [first, plan @ ..] = words.as_slice() else { return false };
    if first != SERVICE {
        return false;
    }
    serve(Plan::read(plan).expect("a plan")).expect("the port is free");
    true
}

impl Fleet {
    /// Starts the services and waits until they listen. All but the victim export every five seconds.
    pub(crate) async fn start(to: SocketAddr, difference: Difference) -> Self {
        let mut names = vec!["stock", "worker", "gateway"];
        names.extend(difference.has_mute_peer.then_some("mail"));
        let mut ports: Vec<_> = names.iter().map(|name| (*name, qualitytrace_testing::port())).collect();
        let twin = difference.has_mute_twin.then(|| (difference.victim, qualitytrace_testing::port()));
        ports.extend(twin);
        let mut fleet =
            Self { children: Mutex::default(), plans: BTreeMap::new(), deliveries: Arc::default() };
        for (name, port) in &ports {
            let is_victim = *name == difference.victim;
            let manner = ExporterOptions {
                to,
                every: if is_victim { difference.every } else { Duration::from_secs(5) },
                pause: if is_victim { difference.pause } else { Duration::from_secs(1) },
                dies_after: difference.dies_after.filter(|_| is_victim),
                is_mute: *name == "mail" || Some((*name, *port)) == twin,
                clock_ahead: if is_victim { difference.clock_ahead } else { 0 },
            };
            let is_gateway = *name == "gateway";
            let peers = ports.iter().filter(|_| is_gateway).map(|(name, port)| ((*name).to_owned(), *port));
            let plan = Plan {
                name: (*name).to_owned(),
                port: *port,
                peers: peers.collect(),
                job: difference.job.filter(|_| is_gateway),
                sampled: if is_gateway { difference.sampled } else { 100 },
                manner,
            };
            fleet.spawn(name, &plan);
            fleet.plans.entry(name).or_default().push(plan);
        }
        for name in fleet.plans.keys() {
            fleet.answers(name).await;
        }
        fleet
    }

    fn spawn(&self, name: &'static str, plan: &Plan) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(SERVICE).args(plan.words()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let deliveries = Arc::clone(&self.deliveries);
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                deliveries.lock().unwrap().entry(name).or_default().extend(Delivery::read(&line));
            }
        });
        self.children.lock().unwrap().entry(name).or_default().push(child);
    }

    /// Kills a service with what it has not exported, and starts it again.
    pub(crate) async fn restart(&self, name: &'static str) {
        let killed = self.children.lock().unwrap().remove(name);
        for mut child in killed.into_iter().flatten() {
            child.kill().await.unwrap();
        }
        for plan in &self.plans[name] {
            self.spawn(name, plan);
        }
        self.answers(name).await;
    }

    async fn answers(&self, name: &str) {
        eventually(START_LIMIT, format!("{name} answers"), async || self.probe(name).await.is_ok()).await;
    }

    /// Sends a health check to a service, which causes a span in a separate trace.
    pub(crate) async fn probe(&self, name: &str) -> reqwest::Result<()> {
        reqwest::get(format!("{}/healthz", self.url(name))).await.map(drop)
    }

    pub(crate) fn url(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}", self.plans[name][0].port)
    }

    pub(crate) fn process(&self, name: &str) -> Option<u32> {
        self.children.lock().unwrap()[name][0].id()
    }

    /// When the last span of a trace was delivered before a given time.
    pub(crate) fn last(&self, trace: &str, before: u64) -> Option<u64> {
        let deliveries = self.deliveries.lock().unwrap();
        let of = deliveries.values().flatten().filter(|delivery| delivery.ends.contains_key(trace));
        of.map(|delivery| delivery.at).filter(|at| *at <= before).max()
    }

    /// When a service first delivered a span that ended after everything that is known of a trace.
    pub(crate) fn proof(&self, trace: &str, service: &str) -> Option<u64> {
        let deliveries = self.deliveries.lock().unwrap();
        let end = deliveries.values().flatten().filter_map(|delivery| delivery.ends.get(trace)).max()?;
        let of = deliveries.get(service)?.iter().filter(|delivery| delivery.watermark() > end + SLACK);
        of.map(|delivery| delivery.at).min()
    }
}
