//! `qualitytrace demo`: a healthy shop passes, every bug is caught, and the report says where and why.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use qualitytrace_testing::{DEADLINE, eventually_blocking, port};

/// Runs the demo and returns its exit code and its output.
fn demo(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qualitytrace"));
    let output = command.arg("demo").args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text.into_owned())
}

/// Checks that a shop with this bug fails, and that the report has these texts: the spec, the span, the value.
fn check(bug: &str, told: &[&str]) {
    let (code, text) = demo(&["--break", bug]);
    assert_eq!(code, Some(2), "{text}");
    for expected in told {
        assert!(text.contains(expected), "no `{expected}` in:\n{text}");
    }
}

#[test]
fn a_healthy_shop_passes_again_and_again() {
    let (code, text) = demo(&["--repeat", "2"]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(text.matches("8 passed").count(), 2, "{text}");
    assert!(!text.contains('✘'), "{text}");
}

#[test]
fn a_kept_demo_runs_what_it_suggests_and_ends_when_asked() {
    let program = env!("CARGO_BIN_EXE_qualitytrace");
    // Outside of a clone, with the tests in a folder of their own.
    let folder = tempfile::tempdir().unwrap();
    let mut demo = Command::new(program);
    demo.args(["demo", "--keep"]).current_dir(folder.path()).env("TMPDIR", folder.path());
    let mut kept = demo.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(kept.stdout.take().unwrap()).lines().map(Result::unwrap);
    let suggested = lines.find_map(|line| Some(line.split_once("qualitytrace run ")?.1.to_owned())).unwrap();
    let tests = Path::new(suggested.split(' ').next().unwrap());
    assert!(tests.starts_with(folder.path()) && tests.join("checkout.yaml").is_file(), "{suggested}");
    let run = Command::new(program).arg("run").args(suggested.split(' ')).output().unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    assert_eq!(run.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&run.stderr));
    assert!(text.contains("8 passed"), "{text}");
    let asked = Command::new("kill").args(["-INT", &kept.id().to_string()]).status().unwrap();
    assert!(asked.success());
    assert_eq!(kept.wait().unwrap().code(), Some(0));
}

#[test]
fn slow_payment_is_caught() {
    check("slow-payment", &["✘ The card network answers in time", "`authorize card` (payment)", "got 1.5"]);
}

#[test]
fn n_plus_one_queries_are_caught() {
    check("n-plus-one-queries", &["✘ One query loads the whole cart", "got 5"]);
}

#[test]
fn a_lost_async_step_is_caught() {
    check(
        "lost-async-step",
        &[
            "✘ The order goes to the queue",
            "got order, expected orders",
            "? The worker takes the same order from the queue",
        ],
    );
}

#[test]
fn a_swallowed_error_is_caught() {
    check("swallowed-error", &["✘ The buyer is told", "got 200", "expected 402"]);
}

#[test]
fn a_missing_attribute_is_caught() {
    check(
        "missing-attribute",
        &["✘ The worker takes the same order", "`process orders` (worker)", "shop.order.id"],
    );
}

#[test]
fn a_wrong_total_is_caught() {
    check("wrong-total", &["✘ The buyer sees the right total", "got 4290", "expected 6180"]);
}

#[test]
fn a_duplicate_charge_is_caught() {
    check("duplicate-charge", &["✘ The card is charged once", "got 2"]);
}

#[test]
fn the_bugs_are_listed_one_a_line() {
    let (code, text) = demo(&["--break", "list"]);
    assert_eq!(code, Some(0));
    assert_eq!(
        text.lines()
            .filter_map(|line| line.split_once("  "))
            .map(|(name, _)| name.trim())
            .collect::<Vec<_>>(),
        [
            "slow-payment",
            "n-plus-one-queries",
            "lost-async-step",
            "swallowed-error",
            "missing-attribute",
            "wrong-total",
            "duplicate-charge",
        ]
    );
}

#[test]
fn an_unknown_bug_is_refused_with_the_way_out() {
    let (code, text) = demo(&["--break", "everything"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("there is no bug `everything`"), "{text}");
    assert!(text.contains("--break list"), "{text}");
}

/// A Collector that takes OTLP over gRPC and sends it on over HTTP. Dropping it ends the process.
struct Collector(Child);

impl Collector {
    fn start(program: &str, folder: &Path, to: &str) -> (Self, String) {
        let address = format!("127.0.0.1:{}", port());
        let configuration = format!(
            "receivers: {{ otlp: {{ protocols: {{ grpc: {{ endpoint: '{address}' }} }} }} }}\n\
             exporters: {{ otlphttp: {{ endpoint: '{to}' }} }}\n\
             service:\n  telemetry: {{ metrics: {{ level: none }} }}\n  \
             pipelines: {{ traces: {{ receivers: [otlp], exporters: [otlphttp] }} }}\n"
        );
        let path = folder.join("collector.yaml");
        std::fs::write(&path, configuration).unwrap();
        let mut command = Command::new(program);
        let child = command.arg("--config").arg(path).stderr(Stdio::null()).spawn().unwrap();
        let collector = Self(child);
        eventually_blocking(DEADLINE, "the Collector listens", || TcpStream::connect(&address).ok());
        (collector, format!("http://{address}"))
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_shop_can_be_tested_through_a_jaeger() {
    let peer = |name: &str| std::env::var(format!("QUALITYTRACE_TEST_{name}"));
    let (Ok(jaeger), Ok(collector)) = (peer("JAEGER"), peer("OTELCOL")) else {
        assert!(std::env::var("QUALITYTRACE_REQUIRE_PEERS").is_err(), "Jaeger or the Collector is missing");
        return;
    };
    let [grpc, query, otlp] = jaeger.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (_collector, export) = Collector::start(&collector, folder.path(), otlp);
    for url in [query, grpc] {
        let store = ["--store", "jaeger", "--store-url", url, "--store-export-url", &export];
        let (code, text) = demo(&store);
        assert_eq!(code, Some(0), "{url}: {text}");
        assert!(text.contains("8 passed") && text.contains("are read from Jaeger"), "{url}: {text}");
        let (code, text) = demo(&[&store[..], &["--break", "wrong-total"]].concat());
        assert_eq!(code, Some(2), "{url}: {text}");
        assert!(text.contains("got 4290"), "{url}: {text}");
    }
}

#[test]
fn a_store_of_the_demo_that_cannot_be_used_is_told() {
    let closed = format!("http://127.0.0.1:{}", port());
    let (code, text) = demo(&["--store", "tempo", "--store-url", &closed]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("start Tempo or correct the address"), "{text}");
    let (code, text) = demo(&["--store", "zipkin", "--store-url", &closed]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("--store-export-url"), "{text}");
    let (code, text) = demo(&["--store", "jaeger"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("--store-url"), "{text}");
}
