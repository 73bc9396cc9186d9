//! Spools on disks that fill up and recover, renamed sinks, revoked tokens, and signals that are switched off.

use std::{
    fs,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, SystemTime},
};

use qualitytrace_telemetry::{
    Balance, SinkStatus, Telemetry,
    config::{Config, Signal, Transport},
};
use qualitytrace_testing::{DEADLINE, eventually_blocking};

use crate::{
    basics::{config, sink, under},
    receiver::{Fault, Receiver, number},
};

pub(crate) const NOWHERE: &str = "http://127.0.0.1:1";

fn one(folder: &Path, url: &str) -> Config {
    named(folder, "one", url)
}

/// A configuration with one lossless sink for spans and logs.
pub(crate) fn named(folder: &Path, id: &str, url: &str) -> Config {
    let mut sink = sink(id, url, Transport::Http);
    sink.endpoints.retain(|signal, _| *signal != Signal::Metrics);
    config(Some(folder), vec![sink])
}

pub(crate) fn spans(telemetry: &Telemetry, range: std::ops::Range<i64>) {
    under(telemetry, || range.for_each(|n| drop(tracing::info_span!("s", n))));
}

pub(crate) fn logs(telemetry: &Telemetry, range: std::ops::Range<i64>) {
    under(telemetry, || range.for_each(|n| tracing::info!(n, "l")));
}

pub(crate) fn status(telemetry: &Telemetry) -> SinkStatus {
    telemetry.status().sinks[0].clone()
}

pub(crate) fn balance(telemetry: &Telemetry) -> Balance {
    status(telemetry).ledger[&Signal::Traces]
}

/// Waits until everything recorded so far is in the spool or in the memory of the sink.
pub(crate) fn settle(telemetry: &Telemetry, created: u64) {
    eventually_blocking(DEADLINE, "all spans are counted", || balance(telemetry).created == created);
}

pub(crate) fn span_numbers(receiver: &Receiver) -> Vec<i64> {
    let mut numbers: Vec<i64> =
        receiver.got().spans.iter().filter_map(|span| number(&span.attributes)).collect();
    numbers.sort_unstable();
    numbers
}

/// Counts the segment files below a folder.
pub(crate) fn segments(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    let count = |path: std::path::PathBuf| {
        if path.is_dir() {
            segments(&path)
        } else {
            usize::from(path.extension().is_some_and(|it| it == "seg"))
        }
    };
    entries.map(count).sum()
}

/// A small file system; needs the right to mount.
struct Disk(tempfile::TempDir);

impl Disk {
    fn new(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().ok()?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(folder.path());
        let mounted = mount.status().is_ok_and(|status| status.success());
        if !mounted {
            println!("skipped: this test needs the right to mount a tmpfs");
        }
        mounted.then_some(Self(folder))
    }

    /// Uses up all the space that is left.
    fn fill(&self) {
        use std::io::Write as _;
        let mut file = fs::File::create(self.0.path().join("ballast")).unwrap();
        while file.write_all(&[0; 1_024]).is_ok() {}
    }

    fn empty(&self) {
        fs::remove_file(self.0.path().join("ballast")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_disk_that_the_spool_filled_is_used_again_when_the_receiver_is_back() {
    let Some(disk) = Disk::new("256k") else { return };
    let down = Arc::new(AtomicBool::new(true));
    let switch = down.clone();
    let receiver =
        Receiver::with("127.0.0.1:0", move || if switch.load(SeqCst) { Fault::Busy } else { Fault::None });
    let telemetry = Telemetry::start(one(disk.0.path(), &receiver.url())).unwrap();
    for batch in 0..50 {
        spans(&telemetry, batch * 100..(batch + 1) * 100);
        settle(&telemetry, (batch.unsigned_abs() + 1) * 100);
    }
    let problem = status(&telemetry).spool.unwrap().problem.unwrap();
    assert!(problem.contains("cannot be written"), "{problem}");
    assert!(status(&telemetry).problems.iter().any(|told| told.contains("cannot be written")));
    down.store(false, SeqCst);
    assert!(telemetry.flush(Duration::from_secs(30)), "{}", telemetry.status().render());
    assert_eq!(span_numbers(&receiver), (0..5_000).collect::<Vec<_>>());
    // The space is freed, and the problem is over, before anything else is written.
    eventually_blocking(DEADLINE, "the problem is over and the spool is empty", || {
        status(&telemetry).problems.is_empty() && segments(disk.0.path()) == 0
    });
    down.store(true, SeqCst);
    spans(&telemetry, 5_000..5_100);
    settle(&telemetry, 5_100);
    let now = status(&telemetry);
    assert_eq!((now.memory_items, now.spool.unwrap().problem), (0, None), "they are on the disk");
    down.store(false, SeqCst);
    let status = telemetry.shutdown(Duration::from_secs(20));
    assert!(status.holds(), "{}", status.render());
    assert_eq!(span_numbers(&receiver), (0..5_100).collect::<Vec<_>>());
}

#[test]
fn a_spool_that_is_removed_is_noticed_and_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("spools");
    let receiver = Receiver::with("127.0.0.1:0", || Fault::Busy);
    let telemetry = Telemetry::start(one(&root, &receiver.url())).unwrap();
    spans(&telemetry, 0..20);
    settle(&telemetry, 20);
    fs::remove_dir_all(&root).unwrap();
    eventually_blocking(DEADLINE, "the removed folder is reported", || {
        status(&telemetry).spool.unwrap().problem.is_some_and(|told| told.contains("was removed"))
    });
    spans(&telemetry, 20..40);
    settle(&telemetry, 40);
    eventually_blocking(DEADLINE, "the spool is written again", || {
        segments(&root) > 0 && status(&telemetry).spool.unwrap().problem.is_none()
    });
    telemetry.shutdown(Duration::ZERO);
    drop(telemetry);
    let receiver = Receiver::start();
    Telemetry::start(one(&root, &receiver.url())).unwrap().shutdown(Duration::from_secs(20));
    assert_eq!(span_numbers(&receiver), (20..40).collect::<Vec<_>>());
}

#[test]
fn what_waits_in_memory_goes_to_the_disk_when_there_is_room() {
    let Some(disk) = Disk::new("512k") else { return };
    let telemetry = Telemetry::start(one(disk.0.path(), NOWHERE)).unwrap();
    disk.fill();
    spans(&telemetry, 0..200);
    settle(&telemetry, 200);
    eventually_blocking(DEADLINE, "items are kept in memory", || status(&telemetry).memory_items > 0);
    disk.empty();
    eventually_blocking(DEADLINE, "no item is in memory or in flight", || {
        status(&telemetry).memory_items == 0 && balance(&telemetry).in_flight == 0
    });
    let ended = telemetry.shutdown(Duration::ZERO);
    assert_eq!(ended.sinks[0].ledger[&Signal::Traces].dropped.total(), 0, "{}", ended.render());
    drop(telemetry);
    let receiver = Receiver::start();
    Telemetry::start(one(disk.0.path(), &receiver.url())).unwrap().shutdown(Duration::from_secs(20));
    assert_eq!(span_numbers(&receiver), (0..200).collect::<Vec<_>>());
}

#[test]
fn a_spool_that_cannot_be_opened_is_opened_later() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("spools");
    fs::write(&root, "in the way").unwrap();
    let telemetry = Telemetry::start(one(&root, NOWHERE)).unwrap();
    spans(&telemetry, 0..50);
    settle(&telemetry, 50);
    eventually_blocking(DEADLINE, "50 items are in memory", || status(&telemetry).memory_items == 50);
    fs::remove_file(&root).unwrap();
    let spooled =
        || status(&telemetry).spool.is_some_and(|spool| spool.bytes > 1_000 && spool.problem.is_none());
    eventually_blocking(DEADLINE, "the items are in the spool", || {
        spooled() && status(&telemetry).memory_items == 0
    });
    let status = telemetry.shutdown(Duration::ZERO);
    assert!(status.holds(), "{}", status.render());
    assert_eq!(status.sinks[0].ledger[&Signal::Traces].queued, 50);
}

#[test]
fn a_capacity_that_is_used_up_by_what_was_acknowledged_is_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start();
    let mut config = one(folder.path(), &receiver.url());
    config.sinks[0].limits.spool_bytes = 60_000;
    config.sinks[0].limits.queue_items = 1;
    let telemetry = Telemetry::start(config).unwrap();
    for batch in 0..40 {
        spans(&telemetry, batch * 50..(batch + 1) * 50);
        assert!(telemetry.flush(Duration::from_secs(20)), "{}", telemetry.status().render());
    }
    let status = telemetry.shutdown(Duration::from_secs(10));
    assert_eq!(status.sinks[0].ledger[&Signal::Traces].dropped.total(), 0, "{}", status.render());
}

/// Leaves spans in the spool of a sink.
pub(crate) fn leave(folder: &Path, id: &str, range: std::ops::Range<i64>) {
    let telemetry = Telemetry::start(named(folder, id, NOWHERE)).unwrap();
    let count = (range.end - range.start).unsigned_abs();
    spans(&telemetry, range);
    settle(&telemetry, count);
    // Wait for the file that names its sink.
    eventually_blocking(DEADLINE, "the spool has an owner", || owners(folder) > 0);
    telemetry.shutdown(Duration::ZERO);
}

pub(crate) fn owners(folder: &Path) -> usize {
    let folders = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    folders.filter(|folder| folder.join("sink.json").exists()).count()
}

#[test]
fn the_spool_of_a_renamed_sink_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    leave(folder.path(), "tracer.old", 0..100);
    // A sink with another address: the spool is reported and stays.
    let receiver = Receiver::start();
    let telemetry = Telemetry::start(named(folder.path(), "tracer.new", &receiver.url())).unwrap();
    eventually_blocking(DEADLINE, "the orphan is found", || telemetry.status().orphans.len() == 1);
    let orphan = telemetry.status().orphans[0].clone();
    assert_eq!(orphan.sink.as_deref(), Some("tracer.old"));
    assert!(orphan.bytes > 1_000 && Path::new(&orphan.path).exists(), "{orphan:?}");
    assert!(telemetry.status().render().contains("spool without a sink"));
    telemetry.shutdown(Duration::from_secs(5));
    drop(telemetry);
    // A sink with the same address under another name: the items are delivered.
    let telemetry = Telemetry::start(named(folder.path(), "tracer.new", NOWHERE)).unwrap();
    eventually_blocking(DEADLINE, "100 items are recovered", || balance(&telemetry).recovered == 100);
    telemetry.reload(named(folder.path(), "tracer.new", &receiver.url()));
    assert!(telemetry.flush(Duration::from_secs(20)), "{}", telemetry.status().render());
    assert_eq!(span_numbers(&receiver), (0..100).collect::<Vec<_>>());
    assert!(!Path::new(&orphan.path).exists(), "it is not delivered twice");
    let status = telemetry.shutdown(Duration::from_secs(5));
    assert!(status.holds() && status.orphans.is_empty(), "{}", status.render());
}

#[test]
fn the_spool_of_a_former_sink_expires() {
    let folder = tempfile::tempdir().unwrap();
    leave(folder.path(), "tracer.old", 0..100);
    let slots = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path().join("0"));
    for file in slots.flat_map(|slot| fs::read_dir(slot).unwrap()).map(|entry| entry.unwrap().path()) {
        let old = SystemTime::now() - Duration::from_hours(25);
        fs::File::options().write(true).open(file).unwrap().set_modified(old).unwrap();
    }
    let telemetry = Telemetry::start(named(folder.path(), "tracer.new", "http://127.0.0.1:2")).unwrap();
    eventually_blocking(DEADLINE, "one folder is left", || fs::read_dir(folder.path()).unwrap().count() == 1);
    assert!(telemetry.status().orphans.is_empty());
    telemetry.shutdown(Duration::ZERO);
}

#[test]
fn what_two_processes_left_in_one_folder_is_delivered_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let both = [(); 2].map(|()| Telemetry::start(one(folder.path(), NOWHERE)).unwrap());
    for (telemetry, from) in both.iter().zip([0, 100]) {
        spans(telemetry, from..from + 100);
        settle(telemetry, 100);
    }
    for telemetry in both {
        telemetry.shutdown(Duration::ZERO);
    }
    let receiver = Receiver::start();
    // A process that another test starts inherits the locks of both folders until it has begun its own program.
    eventually_blocking(DEADLINE, "what both have left is delivered", || {
        let telemetry = Telemetry::start(one(folder.path(), &receiver.url())).unwrap();
        let status = telemetry.shutdown(Duration::from_secs(20));
        let delivered = span_numbers(&receiver);
        if delivered == (0..200).collect::<Vec<_>>() { Ok(()) } else { Err(status.render()) }
    });
}

#[test]
fn a_token_that_is_rotated_costs_nothing_if_items_are_held() {
    for transport in [Transport::Grpc, Transport::Http] {
        for hold in [true, false] {
            let rotated = Arc::new(AtomicBool::new(false));
            let switch = rotated.clone();
            let receiver = Receiver::with("127.0.0.1:0", move || {
                if switch.load(SeqCst) { Fault::None } else { Fault::Unauthorized }
            });
            let mut one = sink("one", &receiver.url(), transport);
            one.endpoints.retain(|signal, _| *signal == Signal::Traces);
            one.delivery.retry_unauthorized = hold;
            let telemetry = Telemetry::start(config(None, vec![one])).unwrap();
            spans(&telemetry, 0..100);
            settle(&telemetry, 100);
            eventually_blocking(DEADLINE, "a request fails", || {
                status(&telemetry).health.failed_requests > 0
            });
            let problem = status(&telemetry).health.last_problem.unwrap();
            assert!(problem.contains("who are you"), "{problem}");
            if !hold {
                eventually_blocking(DEADLINE, "100 items are dropped", || {
                    balance(&telemetry).dropped.non_retryable == 100
                });
                let status = status(&telemetry);
                assert!(status.health.refused_requests > 0 && status.health.failures > 0, "{status:?}");
                assert!(
                    status.problems.iter().any(|told| told.contains("100 spans were lost")),
                    "{status:?}"
                );
            }
            rotated.store(true, SeqCst);
            let ended = telemetry.shutdown(Duration::from_secs(20));
            assert!(ended.holds());
            assert_eq!(span_numbers(&receiver).len(), if hold { 100 } else { 0 }, "{}", ended.render());
        }
    }
}

#[test]
fn what_waits_of_a_signal_that_is_switched_off_is_delivered() {
    // The address of the logs can be derived from that of the spans, or not.
    for path in ["/v1/logs", "/own/log/path"] {
        for restart in [false, true].into_iter().filter(|restart| !restart || path == "/v1/logs") {
            let folder = tempfile::tempdir().unwrap();
            let down = Arc::new(AtomicBool::new(true));
            let switch = down.clone();
            let receiver =
                Receiver::with(
                    "127.0.0.1:0",
                    move || {
                        if switch.load(SeqCst) { Fault::Busy } else { Fault::None }
                    },
                );
            let mut with_logs = one(folder.path(), &receiver.url());
            with_logs.sinks[0].endpoints.insert(Signal::Logs, format!("{}{path}", receiver.url()));
            let mut without = with_logs.clone();
            without.sinks[0].endpoints.remove(&Signal::Logs);
            let mut telemetry = Telemetry::start(with_logs).unwrap();
            logs(&telemetry, 0..100);
            eventually_blocking(DEADLINE, "100 log records are counted", || {
                status(&telemetry).ledger[&Signal::Logs].created == 100
            });
            eventually_blocking(DEADLINE, "the first request is sent", || receiver.got().requests > 0);
            if restart {
                telemetry.shutdown(Duration::ZERO);
                telemetry = Telemetry::start(without).unwrap();
            } else {
                telemetry.reload(without);
            }
            logs(&telemetry, 100..200);
            // One request may still be that of the earlier delivery.
            let tried = receiver.got().requests;
            eventually_blocking(DEADLINE, "two more requests", || receiver.got().requests > tried + 1);
            down.store(false, SeqCst);
            eventually_blocking(DEADLINE, "100 log records arrive", || receiver.got().logs.len() == 100);
            let ended = telemetry.shutdown(Duration::from_secs(20));
            let mut numbers: Vec<i64> =
                receiver.got().logs.iter().filter_map(|log| number(&log.attributes)).collect();
            numbers.sort_unstable();
            assert_eq!(numbers, (0..100).collect::<Vec<_>>(), "{path} {restart}: {}", ended.render());
            let paths = receiver.got().paths;
            let is_former = |found: &String| !found.contains("log") || found == path;
            assert!(paths.iter().all(is_former), "{paths:?}");
            assert!(ended.holds(), "{}", ended.render());
        }
    }
}

#[test]
fn a_sink_that_comes_back_has_what_it_had() {
    let folder = tempfile::tempdir().unwrap();
    let mut gone = one(folder.path(), NOWHERE);
    gone.sinks.clear();
    // The first retry comes after at least half a minute: the items wait while the sink is away.
    let mut slow = one(folder.path(), NOWHERE);
    slow.sinks[0].delivery.retry_initial = Duration::from_mins(1);
    slow.sinks[0].delivery.retry_max = Duration::from_mins(1);
    let telemetry = Telemetry::start(slow).unwrap();
    spans(&telemetry, 0..100);
    settle(&telemetry, 100);
    telemetry.reload(gone);
    let receiver = Receiver::start();
    telemetry.reload(one(folder.path(), &receiver.url()));
    assert!(telemetry.flush(Duration::from_secs(20)), "{}", telemetry.status().render());
    eventually_blocking(DEADLINE, "100 spans arrive", || receiver.got().spans.len() == 100);
    let status = telemetry.shutdown(Duration::from_secs(5));
    assert!(status.holds() && status.retired.is_empty(), "{}", status.render());
}
