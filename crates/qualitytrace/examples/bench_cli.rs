//! Benchmark of the command line: tests of the demo shop in parallel, again and again, and what one test costs besides its
//! trigger and its wait. `cargo xtask bench cli`; `--runs N` sets the number of repetitions.

#![expect(clippy::print_stdout, reason = "a program that prints what it measured")]
#![expect(clippy::unwrap_used, reason = "a measurement that fails is worth nothing")]

#[path = "../tests/late_spans_load/load.rs"]
#[expect(dead_code, reason = "tests and other measurements use the rest")]
mod late_spans_load;

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use late_spans_load::program::beside;
use qualitytrace_testing::{DEADLINE, within};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

const REPETITIONS: usize = 100;
/// The tests of the parallel measurement: those of the shop, and copies of the ones that only read.
const TESTS: usize = 27;
const READING: [&str; 3] = ["list-products", "show-product", "unknown-product"];

/// The demo: its server, its token and its shop.
struct Demo {
    child: Child,
    server: String,
    token: String,
    gateway: String,
}

impl Demo {
    async fn start() -> Self {
        let mut child = Command::new(beside())
            .args(["demo", "--keep"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = within(DEADLINE, "the demo says how to use it", async {
            loop {
                let line = lines.next_line().await.unwrap().expect("the demo goes on");
                if line.contains("--token-file") {
                    return line;
                }
            }
        })
        .await;
        let after = |flag: &str| {
            let (_, rest) = line.split_once(flag).unwrap();
            rest.split_whitespace().next().unwrap().to_owned()
        };
        let [server, token, gateway] = ["--server", "--token-file", "--var GATEWAY="].map(after);
        Self { child, server, token, gateway }
    }
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let named = arguments.iter().position(|argument| argument == "--runs");
    let repetitions = named.and_then(|at| arguments.get(at + 1)?.parse().ok()).unwrap_or(REPETITIONS);
    let mut demo = Demo::start().await;
    let gateway = format!("GATEWAY={}", demo.gateway);
    let folder = tempfile::tempdir().unwrap();
    let tests = copy_shop(folder.path());
    let on_demo = ["--server", &demo.server, "--token-file", &demo.token];
    let mut rounds = Vec::new();
    for _ in 0..repetitions {
        rounds.push(run(folder.path(), &[&[".", "--var", &gateway][..], &on_demo].concat()).await);
    }
    let not_passed = rounds.iter().filter(|round| round.passed != tests).count();
    println!(
        "{}",
        row(
            &format!("{tests} tests of the shop in parallel, wall time"),
            &rounds,
            |round| round.took,
            not_passed
        )
    );

    let alone = ["one.yaml", "--otlp-grpc-addr", "off", "--otlp-http-addr", "off", "--var", &gateway];
    let one = "type: Test\nspec:\n  id: one\n  name: One\n  skipTraceCollection: true\n  trigger:\n    type: http\n    \
               httpRequest: { method: GET, url: \"${var:GATEWAY}/products\" }\n";
    std::fs::write(folder.path().join("one.yaml"), one).unwrap();
    let mut rounds = Vec::new();
    for _ in 0..repetitions {
        rounds.push(run(folder.path(), &alone).await);
    }
    let not_passed = rounds.iter().filter(|round| round.passed != 1).count();
    println!(
        "{}",
        row(
            "one test, beyond trigger and wait",
            &rounds,
            |round| round.took.saturating_sub(round.needed),
            not_passed
        )
    );
    println!("{}", json!({ "note": format!("{repetitions} repetitions each, process start to exit.") }));
    demo.child.start_kill().unwrap();
    demo.child.wait().await.unwrap();
}

/// One call of `run`.
struct Round {
    took: Duration,
    /// The longest trigger and wait of a test.
    needed: Duration,
    passed: usize,
}

async fn run(folder: &Path, arguments: &[&str]) -> Round {
    let began = Instant::now();
    let output = Command::new(beside())
        .arg("run")
        .args(arguments)
        .args(["--project", "off", "--report", "json=report.json"])
        .current_dir(folder)
        .env("HOME", folder)
        .output();
    let output = within(DEADLINE, "the tests end", output).await.unwrap();
    let took = began.elapsed();
    let report = std::fs::read_to_string(folder.join("report.json")).unwrap_or_else(|_| panic!("{output:?}"));
    let report: Value = serde_json::from_str(&report).unwrap();
    let needed = report["tests"].as_array().unwrap().iter().map(|test| {
        let phases = &test["phasesMs"];
        (phases["trigger"].as_f64().unwrap() + phases["wait"].as_f64().unwrap()) / 1e3
    });
    Round {
        took,
        needed: Duration::from_secs_f64(needed.fold(0.0, f64::max)),
        passed: usize::try_from(report["summary"]["passed"].as_u64().unwrap_or(0)).unwrap(),
    }
}

fn row(what: &str, rounds: &[Round], time: impl Fn(&Round) -> Duration, not_passed: usize) -> Value {
    let mut times: Vec<u128> = rounds.iter().map(|round| time(round).as_millis()).collect();
    times.sort_unstable();
    let at = |part: usize| u64::try_from(times[(times.len() - 1) * part / 100]).unwrap();
    json!({ "what": what, "median ms": at(50), "95 % ms": at(95), "slowest ms": at(100), "not passed": not_passed })
}

/// Copies the tests of the shop, and those that only read until there are enough. Returns how many are reported.
fn copy_shop(folder: &Path) -> usize {
    let shop = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop");
    let mut reported = 0;
    for entry in std::fs::read_dir(&shop).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        // The suite is reported by its steps.
        reported += usize::from(text.contains("type: Test\n"));
        std::fs::write(folder.join(path.file_name().unwrap()), text).unwrap();
    }
    for number in 0..TESTS.saturating_sub(reported) {
        let name = READING[number % READING.len()];
        let text = std::fs::read_to_string(shop.join(format!("{name}.yaml"))).unwrap();
        let copy: String = text
            .lines()
            .map(|line| match line.strip_prefix("  id: ") {
                Some(id) => format!("  id: {id}-{number}\n"),
                None => format!("{line}\n"),
            })
            .collect();
        std::fs::write(folder.join(format!("copy-{number}.yaml")), copy).unwrap();
    }
    reported.max(TESTS)
}
