//! A changed configuration takes effect without losing an item.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use qualitytrace_telemetry::{
    Telemetry,
    config::{Compression, Config, Signal, Transport},
};
use qualitytrace_testing::{DEADLINE, eventually_blocking};

use crate::{
    basics::{config, sink, under},
    receiver::{Fault, Receiver, number},
};

fn spans(telemetry: &Telemetry, range: std::ops::Range<i64>) {
    under(telemetry, || range.for_each(|n| drop(tracing::info_span!("s", n))));
}

#[test]
fn every_kind_of_change_keeps_every_item() {
    let folder = tempfile::tempdir().unwrap();
    let receivers = [Receiver::start(), Receiver::start()];
    let nowhere = sink("one", "http://127.0.0.1:1", Transport::Grpc);
    let telemetry = Telemetry::start(config(Some(folder.path()), vec![nowhere])).unwrap();
    // Nothing can be delivered; all items wait.
    spans(&telemetry, 0..100);
    let at = |url: &str, transport: Transport| config(Some(folder.path()), vec![sink("one", url, transport)]);
    let mut changes: Vec<Config> = vec![
        at(&receivers[0].url(), Transport::Grpc),
        at(&receivers[1].url(), Transport::Http),
        at(&receivers[0].url(), Transport::Http),
    ];
    changes[1].sinks[0].compression = Compression::Gzip;
    changes[2].sinks[0].service_name = Some("renamed".to_owned());
    let mut without = changes[0].clone();
    without.sinks.clear();
    changes.push(without);
    for (index, change) in (1..).zip(changes) {
        telemetry.reload(change);
        spans(&telemetry, index * 100..(index + 1) * 100);
    }
    // The last change removed the only sink; the first one is back, with the items that it had.
    telemetry.reload(at(&receivers[0].url(), Transport::Grpc));
    spans(&telemetry, 500..600);
    assert!(telemetry.flush(Duration::from_secs(20)), "{}", telemetry.status().render());
    let status = telemetry.shutdown(Duration::from_secs(10));
    assert!(status.holds(), "{}", status.render());
    let mut numbers: Vec<i64> = Vec::new();
    let mut resources = Vec::new();
    for receiver in receivers {
        let got = receiver.stop();
        numbers.extend(got.spans.iter().filter_map(|span| number(&span.attributes)));
        resources.extend(got.resources);
    }
    numbers.sort_unstable();
    // While there was no sink no span was recorded.
    let expected: Vec<i64> = (0..400).chain(500..600).collect();
    assert_eq!(numbers, expected);
    assert!(format!("{resources:?}").contains("renamed"));
}

#[test]
fn an_unchanged_sink_is_left_alone_and_an_added_one_begins() {
    let folder = tempfile::tempdir().unwrap();
    let receivers = [Receiver::start(), Receiver::start()];
    let one = sink("one", &receivers[0].url(), Transport::Grpc);
    let two = sink("two", &receivers[1].url(), Transport::Http);
    let telemetry = Telemetry::start(config(Some(folder.path()), vec![one.clone()])).unwrap();
    spans(&telemetry, 0..10);
    assert!(telemetry.flush(Duration::from_secs(10)));
    let requests = telemetry.status().sink("one").unwrap().health.requests;
    telemetry.reload(config(Some(folder.path()), vec![one, two]));
    assert_eq!(telemetry.status().sink("one").unwrap().health.requests, requests, "its history stays");
    spans(&telemetry, 10..20);
    let status = telemetry.shutdown(Duration::from_secs(10));
    assert!(status.holds());
    let [one, two] = receivers.map(Receiver::stop);
    assert_eq!((one.spans.len(), two.spans.len()), (20, 10));
    assert_eq!(status.sink("two").unwrap().ledger[&Signal::Traces].created, 10);
}

/// Records 30 spans for a sink whose receiver fails, and takes the sink away.
fn retired_while_down(folder: &Path, receiver: &Receiver) -> Telemetry {
    let gone = sink("gone", &receiver.url(), Transport::Http);
    let telemetry = Telemetry::start(config(Some(folder), vec![gone])).unwrap();
    spans(&telemetry, 0..30);
    eventually_blocking(DEADLINE, "a delivery fails", || {
        telemetry.status().sink("gone").unwrap().health.failures > 0
    });
    telemetry.reload(config(Some(folder), Vec::new()));
    telemetry
}

#[test]
fn a_sink_that_is_taken_away_delivers_when_its_receiver_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let down = Arc::new(AtomicBool::new(true));
    let switch = down.clone();
    let receiver =
        Receiver::with("127.0.0.1:0", move || if switch.load(SeqCst) { Fault::Busy } else { Fault::None });
    let telemetry = retired_while_down(folder.path(), &receiver);
    // It fails once more after the change, and its items are still not dropped.
    let failed = receiver.got().requests;
    eventually_blocking(DEADLINE, "the receiver gets further requests", || {
        receiver.got().requests > failed + 1
    });
    down.store(false, SeqCst);
    eventually_blocking(DEADLINE, "30 spans arrive", || receiver.got().spans.len() == 30);
    eventually_blocking(DEADLINE, "30 spans are counted as exported", || {
        telemetry.status().sink("gone").unwrap().ledger[&Signal::Traces].exported == 30
    });
    let status = telemetry.shutdown(Duration::from_secs(10));
    assert!(status.holds(), "{}", status.render());
}

#[test]
fn the_end_of_the_process_does_not_wait_for_a_sink_that_is_gone_and_down() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::with("127.0.0.1:0", || Fault::Busy);
    let telemetry = retired_while_down(folder.path(), &receiver);
    let begun = Instant::now();
    let status = telemetry.shutdown(Duration::from_secs(20));
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    let gone = status.sink("gone").unwrap().ledger[&Signal::Traces];
    assert_eq!((gone.queued, gone.dropped.total()), (30, 0), "{}", status.render());
}

const NOWHERE: &str = "http://127.0.0.1:1";

/// A configuration with one sink of spans, in the folder of spools or without a spool.
fn one(folder: Option<&Path>, url: &str) -> Config {
    let mut one = sink("one", url, Transport::Http);
    one.endpoints.retain(|signal, _| *signal == Signal::Traces);
    config(folder, vec![one])
}

/// Waits until this many spans are in the queue.
fn queued(telemetry: &Telemetry, count: u64) {
    eventually_blocking(DEADLINE, "all spans are queued", || {
        let balance = telemetry.status().sink("one").unwrap().ledger[&Signal::Traces];
        balance.queued + balance.in_flight == count
    });
}

/// The numbers of the spans that the next process delivers.
fn next_process(folder: &Path) -> Vec<i64> {
    let receiver = Receiver::start();
    let telemetry = Telemetry::start(one(Some(folder), &receiver.url())).unwrap();
    let status = telemetry.shutdown(Duration::from_secs(20));
    assert!(status.holds(), "{}", status.render());
    let mut numbers: Vec<i64> =
        receiver.stop().spans.iter().filter_map(|span| number(&span.attributes)).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn a_change_of_the_spool_keeps_items_that_wait_beyond_the_end_of_the_process() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let at = |folder: usize| one(Some(folders[folder].path()), NOWHERE);
    let changed = |change: fn(&mut Config)| {
        let mut config = at(1);
        change(&mut config);
        config
    };
    let befores = [
        ("another folder", at(0)),
        ("no folder", one(None, NOWHERE)),
        ("lossy", changed(|config| config.sinks[0].lossy = true)),
        ("switched off", changed(|config| config.sinks[0].limits.spool = false)),
    ];
    for (name, before) in befores {
        let telemetry = Telemetry::start(before).unwrap();
        spans(&telemetry, 0..100);
        queued(&telemetry, 100);
        telemetry.reload(at(1));
        spans(&telemetry, 100..200);
        queued(&telemetry, 200);
        let status = telemetry.shutdown(Duration::from_millis(10));
        assert!(status.holds(), "{name}: {}", status.render());
        let balance = status.sink("one").unwrap().ledger[&Signal::Traces];
        assert_eq!((balance.queued, balance.dropped.total()), (200, 0), "{name}: {}", status.render());
        drop(telemetry);
        assert_eq!(next_process(folders[1].path()), (0..200).collect::<Vec<_>>(), "{name}");
        assert!(next_process(folders[0].path()).is_empty(), "{name}: nothing is left behind");
    }
}

#[test]
fn items_in_the_spool_of_an_earlier_folder_are_delivered() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let receiver = Receiver::start();
    for after in [Some(folders[1].path()), None] {
        let telemetry = Telemetry::start(one(Some(folders[0].path()), NOWHERE)).unwrap();
        spans(&telemetry, 0..100);
        queued(&telemetry, 100);
        let before = receiver.got().spans.len();
        telemetry.reload(one(after, &receiver.url()));
        assert!(telemetry.flush(Duration::from_secs(20)), "{}", telemetry.status().render());
        let status = telemetry.shutdown(Duration::from_secs(5));
        assert!(status.holds(), "{}", status.render());
        assert_eq!(receiver.got().spans.len(), before + 100);
    }
}

#[test]
fn a_spool_that_is_switched_off_gets_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let telemetry = Telemetry::start(one(Some(folder.path()), NOWHERE)).unwrap();
    spans(&telemetry, 0..50);
    queued(&telemetry, 50);
    let mut without = one(Some(folder.path()), NOWHERE);
    without.sinks[0].limits.spool = false;
    telemetry.reload(without);
    spans(&telemetry, 50..100);
    queued(&telemetry, 100);
    let status = telemetry.shutdown(Duration::from_millis(10));
    let balance = status.sink("one").unwrap().ledger[&Signal::Traces];
    assert_eq!((balance.queued, balance.dropped.shutdown), (50, 50), "{}", status.render());
    drop(telemetry);
    assert_eq!(next_process(folder.path()), (0..50).collect::<Vec<_>>());
}

#[test]
fn requests_of_a_replaced_delivery_are_settled_at_the_end_of_the_process() {
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let receiver = Receiver::with("127.0.0.1:0", move || {
        let _ = gate.recv();
        Fault::None
    });
    let telemetry = Telemetry::start(one(None, &receiver.url())).unwrap();
    spans(&telemetry, 0..10);
    let balance = || telemetry.status().sink("one").unwrap().ledger[&Signal::Traces];
    eventually_blocking(DEADLINE, "all spans are in flight", || balance().in_flight == 10);
    let mut changed = one(None, &receiver.url());
    changed.sinks[0].compression = Compression::Gzip;
    telemetry.reload(changed);
    let status = telemetry.shutdown(Duration::from_millis(100));
    drop(open);
    let balance = status.sink("one").unwrap().ledger[&Signal::Traces];
    assert_eq!((balance.in_flight, balance.dropped.shutdown), (0, 10), "{}", status.render());
}
