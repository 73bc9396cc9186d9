//! A lane: one server, one system, and consecutive runs of one test, each compared with the truth.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use qualitytrace_testing::instrumented::Bug;
use serde_json::{Value, json};

use crate::fleet::{Difference, Fleet};
use crate::late_spans_load::client::{Client, Started};
use crate::late_spans_load::program::{Served, beside};

const TEST: &str = "order";
/// When the work for a request is done, and most of it is not exported.
const AFTER_THE_WORK: Duration = Duration::from_millis(500);

/// The fault that is injected into a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// None besides what its services do.
    None,
    /// The system starts before the server listens.
    ClosedPort,
    /// The server is stopped (SIGSTOP) during each run.
    ServerStops,
    /// A service is stopped (SIGSTOP) during each run.
    SystemStops,
    /// The victim is killed (SIGKILL) during each run, and started again.
    Killed,
}

/// The source of the verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Teller {
    /// The events of the server.
    Server,
    /// The exit code of `qualitytrace run`.
    Program,
}

/// The configuration of a lane.
#[derive(Debug, Clone)]
pub(crate) struct Lane {
    pub(crate) difference: Difference,
    pub(crate) trouble: Trouble,
    pub(crate) teller: Teller,
    /// The bug of each run.
    pub(crate) bugs: Vec<Bug>,
    /// Whether every service gets a health check each second, as in clusters.
    pub(crate) is_probed: bool,
}

/// The result of a run.
#[derive(Debug, Clone)]
pub(crate) struct LaneRun {
    pub(crate) bug: Bug,
    /// The number of the run in its lane.
    pub(crate) number: u64,
    /// `passed`, `failed`, or else no verdict.
    pub(crate) verdict: String,
    /// From the last span before the verdict to the verdict.
    pub(crate) after_last: Option<Duration>,
    /// From the last span, or from the later proof that another span does not exist, to the verdict.
    pub(crate) after_evidence: Option<Duration>,
    /// What the server reports about the run.
    pub(crate) told: String,
}

impl LaneRun {
    pub(crate) fn is_wrong(&self) -> bool {
        let has_bug = self.bug != Bug::None;
        self.verdict == if has_bug { "passed" } else { "failed" }
    }

    pub(crate) fn is_decided(&self) -> bool {
        ["passed", "failed"].contains(&self.verdict.as_str())
    }
}

impl Lane {
    /// Does all runs of the lane.
    pub(crate) async fn run(self) -> Vec<LaneRun> {
        let port = qualitytrace_testing::port();
        let to = SocketAddr::from(([127, 0, 0, 1], port));
        let (fleet, server) = if self.trouble == Trouble::ClosedPort {
            let fleet = Fleet::start(to, self.difference).await;
            // The requests that checked whether it listens made spans: every exporter tries in vain.
            tokio::time::sleep(between(8, 25)).await;
            (fleet, served(port).await)
        } else {
            let server = served(port).await;
            (Fleet::start(to, self.difference).await, server)
        };
        let client = Client::new(server.url(""));
        let definition = self.definition(&fleet);
        client.put("/api/tests", &definition).await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("test.json");
        std::fs::write(&file, definition.to_string()).unwrap();

        let mut ended = Vec::new();
        let runs = async {
            for bug in &self.bugs {
                let run = self.one(&client, &server, &file, *bug, ended.len() as u64 + 1);
                let (run, ()) = tokio::join!(run, self.trouble(&server, &fleet));
                ended.push((*bug, run));
            }
        };
        tokio::select! {
            () = runs => {}
            () = self.probes(&fleet) => unreachable!("they never end"),
        }
        ended.into_iter().map(|(bug, run)| run.against(&fleet, bug)).collect()
    }

    fn definition(&self, fleet: &Fleet) -> Value {
        let url = format!("{}/order?bug=${{var:BUG}}", fleet.url("gateway"));
        let trigger = json!({ "type": "http", "httpRequest": { "method": "GET", "url": url } });
        let count = |service: &str, name: &str, number: u8| {
            json!({
                "selector": format!("span[service.name=\"{service}\" name=\"{name}\"]"),
                "assertions": [format!("attr:tracetest.selected_spans.count = {number}")],
            })
        };
        let mut specs = vec![count("gateway", "GET /order", 1), count("stock", "look up", 1)];
        specs.extend([count("worker", "pack", 1), count("stock", "oops", 0), count("worker", "oops", 0)]);
        specs.extend(self.difference.job.map(|_| count("gateway", "job", 1)));
        json!({ "type": "Test", "spec": { "id": TEST, "name": TEST, "trigger": trigger, "specs": specs } })
    }

    /// Does one run, and returns the verdict of the teller.
    async fn one(&self, client: &Client, server: &Served, file: &PathBuf, bug: Bug, number: u64) -> Ended {
        let bug = bug.number().to_string();
        match self.teller {
            Teller::Server => {
                let run = client.start_with(TEST, &[("BUG", &bug)]).await;
                let events = client.events(&run).await;
                let told = events.all("judged").next().cloned().unwrap_or_default();
                Ended {
                    verdict: events.verdict().to_owned(),
                    at: events.judged_at(),
                    told: told.to_string(),
                    run,
                }
            }
            Teller::Program => {
                let mut command = tokio::process::Command::new(beside());
                command.arg("run").arg(file).args(["--server", &server.url("")]);
                let output = command.args(["--var", &format!("BUG={bug}")]).output().await.unwrap();
                let at = now();
                let told = String::from_utf8_lossy(&output.stdout).into_owned();
                let verdict = match output.status.code() {
                    Some(0) => "passed",
                    Some(2) if !told.contains("broken") => "failed",
                    _ => "none",
                };
                let shown = client.shown(TEST, number).await;
                let trace = shown["traceId"].as_str().unwrap_or_default().to_owned();
                let run = Started { test: TEST.to_owned(), number, trace };
                Ended { verdict: verdict.to_owned(), at, told, run }
            }
        }
    }

    /// Injects the fault during a run.
    async fn trouble(&self, server: &Served, fleet: &Fleet) {
        let process = match self.trouble {
            Trouble::None | Trouble::ClosedPort => return,
            Trouble::Killed => {
                tokio::time::sleep(rand::random_range(AFTER_THE_WORK..4 * AFTER_THE_WORK)).await;
                return fleet.restart(self.difference.victim).await;
            }
            Trouble::ServerStops => server.child.id(),
            Trouble::SystemStops => fleet.process(["gateway", "stock", "worker"][rand::random_range(0..3)]),
        };
        let process = rustix::process::Pid::from_raw(process.unwrap().try_into().unwrap()).unwrap();
        tokio::time::sleep(between(0, 6)).await;
        rustix::process::kill_process(process, rustix::process::Signal::STOP).unwrap();
        tokio::time::sleep(between(1, 8)).await;
        rustix::process::kill_process(process, rustix::process::Signal::CONT).unwrap();
    }

    async fn probes(&self, fleet: &Fleet) {
        if !self.is_probed {
            std::future::pending::<()>().await;
        }
        loop {
            for name in ["gateway", "stock", "worker"] {
                // A stopped service is probed again later.
                let _ = tokio::time::timeout(Duration::from_secs(1), fleet.probe(name)).await;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

/// A run that is over.
struct Ended {
    run: Started,
    verdict: String,
    /// When the verdict came, in nanoseconds since the epoch.
    at: u64,
    told: String,
}

impl Ended {
    fn against(self, fleet: &Fleet, bug: Bug) -> LaneRun {
        let last = fleet.last(&self.run.trace, self.at);
        let evidence = match bug.absent_from() {
            None => last,
            Some(service) => fleet.proof(&self.run.trace, service).max(last).filter(|at| *at <= self.at),
        };
        let since =
            |moment: Option<u64>| moment.map(|moment| Duration::from_nanos(self.at.saturating_sub(moment)));
        let (after_last, after_evidence) = (since(last), since(evidence));
        LaneRun {
            bug,
            number: self.run.number,
            after_last,
            after_evidence,
            verdict: self.verdict,
            told: self.told,
        }
    }
}

async fn served(port: u16) -> Served {
    let (port, database) = (port.to_string(), "sqlite::memory:");
    let quiet = ["--otlp-grpc-addr", "off", "--otlp-http-addr", "off", "--database-url", database];
    Served::start_with(&beside(), &[&["--server.httpPort", &port], &quiet[..]].concat()).await
}

/// A random duration between two numbers of seconds.
fn between(from: u64, to: u64) -> Duration {
    rand::random_range(Duration::from_secs(from)..Duration::from_secs(to))
}

fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}
