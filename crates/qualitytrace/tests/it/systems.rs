//! The systems of `examples/` with real SDKs, tested by the real program: a slow exporter, exporters that found their
//! port closed, and bugs by absence. A verdict may be inconclusive if it names the service that it depends on; it may
//! not be wrong.

#![expect(clippy::print_stdout, reason = "the test says what came, right or inconclusive")]

mod evidence;
mod fleet;
mod projects;

use std::path::Path;
use std::time::Duration;

use fleet::{Fleet, Variable, examples, installed};
use qualitytrace_testing::{DEADLINE, eventually};
use tokio::process::Command;

use crate::late_spans_load::program::Served;
use crate::program;

/// Every 20 s instead of every 5 s.
const SLOW: Variable = ("billing", "OTEL_BSP_SCHEDULE_DELAY", "20000");
/// Billing answers and never sends the receipt.
const NO_RECEIPT: Variable = ("billing", "BUG", "no-receipt");
/// Orders answers and never calls billing.
const NO_INVOICE: Variable = ("orders", "BUG", "no-invoice");
/// Stock queries the shelf once for each item.
const TOO_MANY: Variable = ("stock", "BUG", "n-plus-one");

/// The result of a run of the program.
struct ProgramRun {
    code: Option<i32>,
    text: String,
}

/// Runs a test of `examples/node` as a user does.
async fn run(fleet: &Fleet, test: &str, arguments: &[&str]) -> ProgramRun {
    run_on(fleet, "orders", &examples().join("node/tests").join(test), arguments).await
}

/// Runs a test of the service that it calls.
async fn run_on(fleet: &Fleet, called: &str, test: &Path, arguments: &[&str]) -> ProgramRun {
    let address = format!("{}={}", called.to_uppercase(), fleet.url(called));
    let output = Command::new(program())
        // The project file would start the services itself.
        .args(["run", "--project", "off", "--var", &address])
        .arg(test)
        .args(arguments)
        .output()
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    ProgramRun { code: output.status.code(), text: text.into_owned() }
}

/// How sentences about a silent service, whose spans may be missing, continue.
const SILENT: [&str; 6] = [
    "has sent nothing",
    "has sent no span for it",
    "answered a call",
    "was heard",
    "delivers every",
    "may still work on this request",
];

impl ProgramRun {
    /// Checks that the verdict is right, or inconclusive with a sentence about one of these services.
    fn is_not_wrong(&self, what: &str, has_bug: bool, silent: &[&str]) {
        println!("{what}: {}", self.name());
        match self.code {
            Some(0) => assert!(!has_bug, "{what}: the bug is not found\n{}", self.text),
            // No trace at all: no service can be named, and the report says that nothing came.
            Some(2) if self.text.contains("1 broken") => {
                assert!(
                    self.text.contains("has arrived"),
                    "{what}: what is wrong is not told\n{}",
                    self.text
                );
            }
            Some(2) => assert!(has_bug, "{what}: there is no bug\n{}", self.text),
            // A service that never sent anything is known by its address only.
            Some(4) => assert!(
                self.sentence(silent).is_some() || self.text.contains("no service has answered a call to"),
                "{what}: who is silent?\n{}",
                self.text
            ),
            _ => panic!("{what}: no verdict\n{}", self.text),
        }
    }

    /// Checks for the right verdict, which is due because every exporter delivers.
    fn is_right(&self, what: &str, has_bug: bool) {
        println!("{what}: {}", self.name());
        assert_eq!(self.code, Some(if has_bug { 2 } else { 0 }), "{what}\n{}", self.text);
    }

    fn name(&self) -> String {
        match self.code {
            Some(0) => "passed".to_owned(),
            Some(2) if self.text.contains("1 broken") => "no trace".to_owned(),
            Some(2) => "failed".to_owned(),
            Some(4) => {
                let sentence = self.sentence(&["orders", "billing", "stock"]);
                format!("inconclusive: {}", sentence.unwrap_or_default())
            }
            code => format!("{code:?}"),
        }
    }

    /// The sentence of the report about one of these silent services.
    fn sentence(&self, services: &[&str]) -> Option<&str> {
        let of_replicas = |name: &&str| format!("the processes of {name}");
        let sentences = || {
            let silent = services.iter().flat_map(|name| SILENT.map(|verb| format!("{name} {verb}")));
            silent.chain(services.iter().map(of_replicas))
        };
        self.text.lines().map(str::trim).find(|line| sentences().any(|sentence| line.contains(&sentence)))
    }
}

async fn served() -> Served {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Served::start(program(), "sqlite::memory:", &[]).await
}

/// Two runs on one server of a system in which billing is slow.
async fn with_a_slow_exporter(installed: &Path, bug: Option<Variable>) {
    let server = served().await;
    let variables: Vec<_> = [SLOW].into_iter().chain(bug).collect();
    let fleet = Fleet::start(installed, &server.url(""), &variables).await;
    for number in 1..=2 {
        let came = run(&fleet, "order.yaml", &["--server", &server.url("")]).await;
        let what = format!("billing every 20 s, {}, run {number}", bug.map_or("no bug", |(.., bug)| bug));
        came.is_not_wrong(&what, bug.is_some(), &["billing"]);
    }
}

#[tokio::test]
async fn no_verdict_is_wrong_when_one_exporter_delivers_every_20_s() {
    let Some(installed) = installed() else { return };
    tokio::join!(with_a_slow_exporter(&installed, None), with_a_slow_exporter(&installed, Some(NO_RECEIPT)));
}

/// A system that has found its port closed for a while, and then `run` with a server of its own.
async fn after_a_closed_port(installed: &Path, bug: Option<Variable>) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let otlp = format!("127.0.0.1:{}", qualitytrace_testing::port());
    let variables: Vec<_> = bug.into_iter().collect();
    let fleet = Fleet::start(installed, &format!("http://{otlp}"), &variables).await;
    // The request to `/healthz` made a span: each exporter tries to send it in vain.
    eventually(DEADLINE, "billing has tried to export twice", async || {
        fleet.said("billing", "UNAVAILABLE") >= 2
    })
    .await;
    let came = run(&fleet, "order.yaml", &["--otlp-grpc-addr", "off", "--otlp-http-addr", &otlp]).await;
    let what = format!("back-off after a closed port, {}", bug.map_or("no bug", |(.., bug)| bug));
    came.is_not_wrong(&what, bug.is_some(), &["orders", "billing", "stock"]);
}

#[tokio::test]
async fn no_verdict_is_wrong_when_exporters_have_found_their_port_closed() {
    let Some(installed) = installed() else { return };
    tokio::join!(after_a_closed_port(&installed, None), after_a_closed_port(&installed, Some(NO_INVOICE)));
}

/// Sends billing a health check every second of real time, as a cluster would: its exporter then has spans to send.
async fn probe(billing: String) {
    loop {
        let _ = reqwest::get(format!("{billing}/healthz")).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test]
async fn bugs_by_absence_are_found_where_exporters_deliver() {
    let Some(installed) = installed() else { return };
    let server = served().await;
    let mut fleet = Fleet::start(&installed, &server.url(""), &[]).await;
    let there = ["--server", &server.url("")];
    tokio::select! {
        () = probe(fleet.url("billing")) => unreachable!("it never ends"),
        () = async {
            run(&fleet, "order.yaml", &there).await.is_right("defaults, no bug", false);
            run(&fleet, "sold-out.yaml", &there).await.is_right("defaults, sold out", false);
            fleet.restart("orders", &[NO_INVOICE]).await;
            run(&fleet, "order.yaml", &there).await.is_right("defaults, no invoice", true);
            fleet.restart("orders", &[]).await;
            fleet.restart("stock", &[TOO_MANY]).await;
            run(&fleet, "order.yaml", &there).await.is_right("defaults, N+1", true);
        } => {}
    }
}
