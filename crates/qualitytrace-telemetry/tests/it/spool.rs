//! Damaged, full and read-only disks: the start succeeds, the damage is reported, the rest is delivered.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use qualitytrace_telemetry::{
    Status, Telemetry,
    config::{Config, Signal, Transport},
};

use crate::{
    basics::{config, sink, under},
    receiver::{Fault, Receiver, number},
};

const NOWHERE: &str = "http://127.0.0.1:1";

/// A configuration with one lossless sink.
fn one(folder: &Path, url: &str) -> Config {
    config(Some(folder), vec![sink("one", url, Transport::Grpc)])
}

fn spans(telemetry: &Telemetry, range: std::ops::Range<i64>) {
    under(telemetry, || {
        for n in range {
            drop(tracing::info_span!("s", n));
        }
    });
}

/// Leaves spans in the spool of a process that ended.
fn leave(folder: &Path, range: std::ops::Range<i64>) {
    let telemetry = Telemetry::start(one(folder, NOWHERE)).unwrap();
    let count = range.end - range.start;
    spans(&telemetry, range);
    let status = telemetry.shutdown(Duration::from_secs(1));
    assert!(status.holds());
    let balance = status.sink("one").unwrap().ledger[&Signal::Traces];
    assert_eq!(balance.created, count.unsigned_abs());
    assert_eq!(balance.queued, balance.created + balance.recovered);
}

fn segments(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "seg") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Starts with a receiver, delivers the rest, and returns the numbers that arrived.
fn drain(folder: &Path) -> (Vec<i64>, Status) {
    let receiver = Receiver::start();
    let telemetry = Telemetry::start(one(folder, &receiver.url())).unwrap();
    let status = telemetry.shutdown(Duration::from_secs(20));
    let got = receiver.stop();
    let mut numbers: Vec<i64> = got.spans.iter().filter_map(|span| number(&span.attributes)).collect();
    numbers.sort_unstable();
    (numbers, status)
}

#[test]
fn what_an_earlier_process_left_is_delivered_once() {
    let folder = tempfile::tempdir().unwrap();
    leave(folder.path(), 0..500);
    leave(folder.path(), 500..700);
    let (numbers, status) = drain(folder.path());
    assert_eq!(numbers, (0..700).collect::<Vec<_>>());
    let balance = status.sink("one").unwrap().ledger[&Signal::Traces];
    assert_eq!((balance.recovered, balance.exported, balance.queued), (700, 700, 0));
    assert!(status.holds());
    let (numbers, _) = drain(folder.path());
    assert!(numbers.is_empty(), "what was acknowledged does not come back");
}

#[test]
fn damaged_segments_are_named_and_the_rest_is_delivered() {
    // The damage to the first of two segments, the reported reason, and how many of its 100 spans are lost; a single
    // damaged record loses only itself.
    type Harm = fn(&Path, Vec<u8>);
    let harms: [(&str, Harm, &str, std::ops::RangeInclusive<usize>); 6] = [
        ("cut", |path, bytes| fs::write(path, &bytes[..6_000]).unwrap(), "cut off", 40..=70),
        (
            "flipped",
            |path, mut bytes| {
                // Spans come first, metrics after them.
                bytes[4_000] ^= 0x40;
                fs::write(path, bytes).unwrap();
            },
            "a record",
            1..=1,
        ),
        (
            "a hole",
            |path, mut bytes| {
                bytes.drain(4_000..4_010);
                fs::write(path, bytes).unwrap();
            },
            "a record",
            1..=2,
        ),
        // The cursor points into the first record, which was moved.
        ("no header", |path, bytes| fs::write(path, &bytes[4..]).unwrap(), "header", 0..=1),
        ("empty", |path, _| fs::write(path, b"").unwrap(), "header", 100..=100),
        ("noise", |path, bytes| fs::write(path, vec![0xa5; bytes.len()]).unwrap(), "header", 100..=100),
    ];
    for (name, harm, reason, lost) in harms {
        let folder = tempfile::tempdir().unwrap();
        leave(folder.path(), 0..100);
        leave(folder.path(), 100..200);
        let first = segments(folder.path()).remove(0);
        harm(&first, fs::read(&first).unwrap());
        let (numbers, status) = drain(folder.path());
        assert!(status.holds(), "{name}: {}", status.render());
        let sink = status.sink("one").unwrap();
        let balance = sink.ledger[&Signal::Traces];
        let lost_items: u64 = sink.ledger.values().map(|balance| balance.dropped.damaged).sum();
        assert_eq!(balance.recovered, numbers.len() as u64 + balance.dropped.damaged, "{name}");
        // Where no span is lost only a header was destroyed.
        assert_eq!(lost_items > 0, name != "no header", "{name}: {}", status.render());
        assert!((100..200).all(|n| numbers.contains(&n)), "{name}: the whole segment is delivered");
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{name}: nothing comes twice");
        assert!(lost.contains(&(200 - numbers.len())), "{name}: {} came", numbers.len());
        let spool = sink.spool.as_ref().unwrap();
        assert_eq!(spool.damage.len(), 1, "{name}: {spool:?}");
        assert!(spool.damage[0].reason.contains(reason), "{name}: {spool:?}");
        assert_eq!(spool.damage[0].file, first.display().to_string());
        let told = format!("bytes of the spool are damaged: {} at byte", first.display());
        assert!(sink.problems.iter().any(|problem| problem.contains(&told)), "{name}: {:?}", sink.problems);
    }
}

#[test]
fn a_damaged_cursor_costs_duplicates_not_items() {
    let folder = tempfile::tempdir().unwrap();
    leave(folder.path(), 0..100);
    let cursor = segments(folder.path())[0].with_file_name("cursor");
    fs::write(cursor, b"nonsense").unwrap();
    let (numbers, status) = drain(folder.path());
    assert_eq!(numbers, (0..100).collect::<Vec<_>>());
    assert!(status.holds());
}

#[test]
fn a_full_spool_drops_and_counts_what_has_no_room() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = one(folder.path(), NOWHERE);
    config.sinks[0].limits.spool_bytes = 100_000;
    config.sinks[0].limits.queue_items = 50;
    let telemetry = Telemetry::start(config).unwrap();
    for batch in 0..40 {
        spans(&telemetry, batch * 100..(batch + 1) * 100);
        // Each batch reaches the spool by itself, so that the cap is reached between batches.
        telemetry.flush(Duration::from_millis(10));
    }
    let status = telemetry.shutdown(Duration::ZERO);
    assert!(status.holds(), "{}", status.render());
    let balance = status.sink("one").unwrap().ledger[&Signal::Traces];
    assert_eq!(balance.created, 4_000);
    assert!(balance.dropped.spool_full > 0 && balance.queued > 0, "{balance:?}");
    assert!(status.sink("one").unwrap().spool.as_ref().unwrap().bytes <= 100_000);
    drop(telemetry);
    let (numbers, _) = drain(folder.path());
    assert_eq!(numbers.len() as u64, balance.queued);
}

#[test]
fn old_items_expire_and_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    leave(folder.path(), 0..300);
    let mut config = one(folder.path(), NOWHERE);
    config.sinks[0].limits.spool_age = Duration::from_millis(1);
    let telemetry = Telemetry::start(config).unwrap();
    spans(&telemetry, 300..350);
    assert!(telemetry.flush(Duration::from_secs(20)), "{}", telemetry.status().render());
    let status = telemetry.shutdown(Duration::ZERO);
    assert!(status.holds());
    assert_eq!(status.sink("one").unwrap().ledger[&Signal::Traces].dropped.expired, 350);
}

#[test]
fn a_spool_that_cannot_be_opened_leaves_the_memory() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, b"not a folder").unwrap();
    let receiver = Receiver::start();
    let telemetry = Telemetry::start(one(&file.join("spool"), &receiver.url())).unwrap();
    spans(&telemetry, 0..100);
    let status = telemetry.shutdown(Duration::from_secs(10));
    assert!(status.holds());
    assert_eq!(receiver.stop().spans.len(), 100);
    let spool = status.sink("one").unwrap().spool.clone().unwrap();
    assert!(spool.problem.unwrap().contains("cannot be opened"));
}

#[test]
fn a_lossy_sink_drops_when_its_memory_is_full() {
    let mut config = config(None, vec![sink("one", NOWHERE, Transport::Grpc)]);
    config.sinks[0].lossy = true;
    config.sinks[0].limits.queue_items = 100;
    config.sinks[0].delivery.batch_items = 10;
    let telemetry = Telemetry::start(config).unwrap();
    spans(&telemetry, 0..1_000);
    let status = telemetry.shutdown(Duration::from_millis(20));
    assert!(status.holds(), "{}", status.render());
    let balance = status.sink("one").unwrap().ledger[&Signal::Traces];
    assert_eq!(balance.dropped.queue_full + balance.dropped.shutdown, 1_000, "{balance:?}");
    assert!(balance.dropped.queue_full >= 800, "{balance:?}");
}

#[test]
fn two_processes_may_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::with("127.0.0.1:0", || Fault::Busy);
    let a = Telemetry::start(one(folder.path(), &receiver.url())).unwrap();
    let b = Telemetry::start(one(folder.path(), &receiver.url())).unwrap();
    let path = |telemetry: &Telemetry| telemetry.status().sink("one").unwrap().spool.clone().unwrap().path;
    assert_ne!(path(&a), path(&b));
    a.shutdown(Duration::ZERO);
    b.shutdown(Duration::ZERO);
}

/// A small or read-only file system; needs the right to mount. Unmounted when dropped.
struct Mount(tempfile::TempDir);

impl Mount {
    fn tmpfs(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().ok()?;
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(folder.path())
            .status()
            .is_ok_and(|status| status.success());
        if !mounted {
            println!("skipped: this test needs the right to mount a tmpfs");
        }
        mounted.then_some(Self(folder))
    }

    fn read_only(&self) {
        let status = Command::new("mount").args(["-o", "remount,ro"]).arg(self.0.path()).status();
        assert!(status.unwrap().success());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_is_named_and_what_was_written_is_delivered() {
    let Some(mount) = Mount::tmpfs("256k") else { return };
    let telemetry = Telemetry::start(one(mount.0.path(), NOWHERE)).unwrap();
    for batch in 0..50 {
        spans(&telemetry, batch * 100..(batch + 1) * 100);
        telemetry.flush(Duration::from_millis(5));
    }
    let during = telemetry.status();
    let status = telemetry.shutdown(Duration::ZERO);
    assert!(status.holds(), "{}", status.render());
    let problem = during.sink("one").unwrap().spool.as_ref().unwrap().problem.clone();
    assert!(problem.as_ref().is_some_and(|problem| problem.contains("cannot be written")), "{problem:?}");
    let balance = status.sink("one").unwrap().ledger[&Signal::Traces];
    assert_eq!(balance.created, 5_000);
    assert!(balance.queued > 0 && balance.dropped.shutdown > 0, "{balance:?}");
    drop(telemetry);
    let (numbers, status) = drain(mount.0.path());
    assert_eq!(numbers.len() as u64, balance.queued);
    assert!(status.holds());
}

#[test]
fn a_read_only_spool_is_delivered_and_new_items_stay_in_memory() {
    let Some(mount) = Mount::tmpfs("4m") else { return };
    leave(mount.0.path(), 0..100);
    mount.read_only();
    let receiver = Receiver::start();
    let telemetry = Telemetry::start(one(mount.0.path(), &receiver.url())).unwrap();
    spans(&telemetry, 100..150);
    let status = telemetry.shutdown(Duration::from_secs(10));
    assert!(status.holds(), "{}", status.render());
    let mut numbers: Vec<i64> =
        receiver.stop().spans.iter().filter_map(|span| number(&span.attributes)).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..150).collect::<Vec<_>>());
    let spool = status.sink("one").unwrap().spool.clone().unwrap();
    assert!(spool.problem.is_some(), "{spool:?}");
}
