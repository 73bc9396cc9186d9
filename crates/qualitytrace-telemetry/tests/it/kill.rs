//! An outage, a `kill -9` during it, and a restart: only items of the last milliseconds are lost.
//!
//! The server is this test program itself, started again as a child.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::Write as _,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use qualitytrace_telemetry::{
    Telemetry,
    config::{Level, Signal, Transport},
};
use qualitytrace_testing::{DEADLINE, eventually_blocking};
use tracing_subscriber::{layer::SubscriberExt as _, util::SubscriberInitExt as _};

use crate::{
    basics::{config, sink, under},
    receiver::{Receiver, number},
};

/// The documented loss of a `kill -9`.
const BOUND: Duration = Duration::from_millis(20);

/// Spans per second; `QUALITYTRACE_RATE=20000` puts an outage of ten minutes into one.
fn rate() -> u64 {
    std::env::var("QUALITYTRACE_RATE").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000)
}

fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

/// The child process; does nothing in the test process.
#[test]
fn child() {
    let Ok(mode) = std::env::var("QUALITYTRACE_TEST_CHILD") else {
        return;
    };
    let variable = |name: &str| std::env::var(name).unwrap();
    let folder = variable("QUALITYTRACE_TEST_FOLDER");
    let folder = Path::new(&folder);
    let mut one = sink("one", &variable("QUALITYTRACE_TEST_URL"), Transport::Grpc);
    one.endpoints.retain(|signal, _| signal.name() == "traces");
    one.delivery.retry_max = Duration::from_millis(500);
    if mode == "feedback" {
        one.level = Level::Trace;
        one.endpoints.insert(Signal::Logs, variable("QUALITYTRACE_TEST_URL"));
    }
    let telemetry = Telemetry::start(config(Some(&folder.join("spool")), vec![one])).unwrap();
    if mode == "feedback" {
        return feedback(&telemetry, folder);
    }
    if mode == "drain" {
        let started = Instant::now();
        // The balance is zero until the spool is read.
        eventually_blocking(DEADLINE, "the spool is read", || {
            telemetry.status().sinks[0].ledger.values().any(|balance| balance.recovered > 0)
        });
        assert!(telemetry.flush(Duration::from_mins(1)), "{}", telemetry.status().render());
        let took = started.elapsed();
        let status = telemetry.shutdown(Duration::from_secs(5));
        assert!(status.holds());
        fs::write(folder.join("drained"), format!("{}", took.as_millis())).unwrap();
        return;
    }
    let mut created = File::create(folder.join("created")).unwrap();
    under(&telemetry, || {
        let (started, rate) = (Instant::now(), rate());
        for n in 0_u64.. {
            let due = started + Duration::from_nanos(n * 1_000_000_000 / rate);
            // A steady rate in real time: this process is killed from outside.
            thread::sleep(due.saturating_duration_since(Instant::now()));
            drop(tracing::info_span!("s", n, route = "/api/tests/{id}", status = 200, user = "user-007"));
            let mut line = [0; 16];
            line[..8].copy_from_slice(&n.to_le_bytes());
            line[8..].copy_from_slice(&now().to_le_bytes());
            created.write_all(&line).unwrap();
        }
    });
}

/// Installs a subscriber for the whole process, deliveries included, that takes everything.
fn feedback(telemetry: &Telemetry, folder: &Path) {
    tracing_subscriber::registry().with(telemetry.layer()).init();
    for round in 0..5 {
        for n in 0..10 {
            drop(tracing::info_span!("s", n, round));
        }
        assert!(telemetry.flush(Duration::from_secs(20)));
    }
    let status = telemetry.shutdown(Duration::from_secs(5));
    let created: u64 = status.sinks[0].ledger.values().map(|balance| balance.created).sum();
    fs::write(folder.join("created"), created.to_string()).unwrap();
}

#[test]
fn delivery_does_not_feed_itself() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start();
    assert!(start("feedback", folder.path(), &receiver.url()).wait().unwrap().success());
    assert_eq!(fs::read_to_string(folder.path().join("created")).unwrap(), "50");
    assert_eq!(receiver.stop().spans.len(), 50);
}

fn start(mode: &str, folder: &Path, url: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["kill::child", "--exact", "--test-threads=1"])
        .env("QUALITYTRACE_TEST_CHILD", mode)
        .env("QUALITYTRACE_TEST_FOLDER", folder)
        .env("QUALITYTRACE_TEST_URL", url)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// The items that the child made, each with its time.
fn created(folder: &Path) -> Vec<(i64, u64)> {
    let bytes = fs::read(folder.join("created")).unwrap_or_default();
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    bytes.chunks_exact(16).map(|line| (i64::try_from(word(&line[..8])).unwrap(), word(&line[8..]))).collect()
}

fn resident_bytes(child: &Child) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let kibibytes = text.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
    kibibytes.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[test]
fn a_kill_during_an_outage_loses_only_the_last_milliseconds() {
    // `QUALITYTRACE_OUTAGE_SECONDS=600` is the full test.
    let seconds =
        std::env::var("QUALITYTRACE_OUTAGE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let folder = tempfile::tempdir().unwrap();
    // A reserved port without a listener, to listen on later.
    let address = format!("127.0.0.1:{}", qualitytrace_testing::port());
    let url = format!("http://{address}");
    let mut child = start("emit", folder.path(), &url);
    let mut most = 0;
    let enough = rate() * seconds;
    let lines = || fs::metadata(folder.path().join("created")).map_or(0, |meta| meta.len() / 16);
    let outage = Duration::from_secs(seconds) + DEADLINE;
    eventually_blocking(outage, format!("{enough} spans are made"), || {
        assert!(child.try_wait().unwrap().is_none(), "the child ended by itself");
        most = most.max(resident_bytes(&child));
        let lines = lines();
        if lines >= enough { Ok(()) } else { Err(lines) }
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let created = created(folder.path());
    let (_, last) = *created.last().unwrap();

    let receiver = Receiver::with(&address, || crate::receiver::Fault::None);
    let status = start("drain", folder.path(), &url).wait().unwrap();
    assert!(status.success());
    let got = receiver.stop();
    let came: BTreeSet<i64> = got.spans.iter().filter_map(|span| number(&span.attributes)).collect();
    let lost: Vec<u64> = created.iter().filter(|(n, _)| !came.contains(n)).map(|(_, at)| last - at).collect();
    let window = Duration::from_nanos(lost.iter().copied().max().unwrap_or(0));
    let drained = fs::read_to_string(folder.path().join("drained")).unwrap();
    println!(
        "{{\"created\":{},\"delivered\":{},\"lost\":{},\"lost_window_us\":{},\"drained_ms\":{drained},\"most_resident_bytes\":{most}}}",
        created.len(),
        came.len(),
        lost.len(),
        window.as_micros(),
    );
    assert!(window < BOUND, "spans made {window:?} before the kill are lost");
    assert!(most < 256 << 20, "the child grew to {most} bytes");
}
