//! Signals of one sink go to receivers that fail by themselves.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use qualitytrace_telemetry::{
    Telemetry,
    config::{Config, Signal, Transport},
};
use qualitytrace_testing::{DEADLINE, eventually_blocking};

use crate::{
    basics::{config, sink},
    outage::{balance, logs, named, span_numbers, spans, status},
    receiver::{Fault, Receiver, number},
};

/// A receiver that is down until the switch is set to `false`.
fn switched(down: bool) -> (Receiver, Arc<AtomicBool>) {
    let down = Arc::new(AtomicBool::new(down));
    let switch = down.clone();
    let receiver =
        Receiver::with("127.0.0.1:0", move || if switch.load(SeqCst) { Fault::Busy } else { Fault::None });
    (receiver, down)
}

/// A sink whose spans and logs have receivers of their own, in small batches.
fn apart(folder: &Path, id: &str, for_spans: &Receiver, for_logs: &Receiver) -> Config {
    let mut config = named(folder, id, &for_spans.url());
    config.sinks[0].endpoints.insert(Signal::Logs, format!("{}/v1/logs", for_logs.url()));
    config.sinks[0].delivery.batch_items = 10;
    config
}

fn log_numbers(receiver: &Receiver) -> Vec<i64> {
    let mut numbers: Vec<i64> =
        receiver.got().logs.iter().filter_map(|log| number(&log.attributes)).collect();
    numbers.sort_unstable();
    numbers
}

/// Records logs in more batches than may be in flight, and waits until deliveries of them have failed.
fn fail_logs(telemetry: &Telemetry, for_logs: &Receiver) {
    logs(telemetry, 0..200);
    eventually_blocking(DEADLINE, "200 log records are counted", || {
        status(telemetry).ledger[&Signal::Logs].created == 200
    });
    let tried = for_logs.got().requests;
    eventually_blocking(DEADLINE, "deliveries of logs fail", || for_logs.got().requests > tried + 8);
}

#[test]
fn a_signal_whose_receiver_is_down_does_not_hold_up_the_others() {
    for (spooled, lossy) in [(true, false), (false, false), (false, true)] {
        for in_flight in [1, 4] {
            let folder = tempfile::tempdir().unwrap();
            let (for_spans, (for_logs, _)) = (Receiver::start(), switched(true));
            let mut config = apart(folder.path(), "one", &for_spans, &for_logs);
            config.spool_path = config.spool_path.filter(|_| spooled);
            config.sinks[0].lossy = lossy;
            config.sinks[0].delivery.in_flight = in_flight;
            // The logs fill all the memory that they may have.
            config.sinks[0].limits.queue_items = 150;
            let telemetry = Telemetry::start(config).unwrap();
            fail_logs(&telemetry, &for_logs);
            spans(&telemetry, 0..100);
            eventually_blocking(DEADLINE, "100 spans arrive", || for_spans.got().spans.len() == 100);
            eventually_blocking(DEADLINE, "100 spans are counted", || balance(&telemetry).exported == 100);
            assert!(status(&telemetry).health.failures > 0, "the logs still fail");
            let ended = telemetry.shutdown(Duration::ZERO);
            assert!(ended.holds(), "{}", ended.render());
        }
    }
}

#[test]
fn a_signal_that_hangs_does_not_hold_up_the_others() {
    let for_spans = Receiver::start();
    // It accepts connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut one = sink("one", &for_spans.url(), Transport::Grpc);
    one.endpoints.insert(Signal::Logs, format!("http://{}", silent.local_addr().unwrap()));
    one.delivery.batch_items = 10;
    one.delivery.in_flight = 1;
    one.delivery.timeout = Duration::from_hours(1);
    let telemetry = Telemetry::start(config(None, vec![one])).unwrap();
    logs(&telemetry, 0..200);
    eventually_blocking(DEADLINE, "log records are in flight and others wait", || {
        let balance = status(&telemetry).ledger[&Signal::Logs];
        balance.created == 200 && balance.in_flight > 0
    });
    spans(&telemetry, 0..100);
    eventually_blocking(DEADLINE, "100 spans arrive", || for_spans.got().spans.len() == 100);
    let ended = telemetry.shutdown(Duration::ZERO);
    assert!(ended.holds(), "{}", ended.render());
    assert_eq!(ended.sinks[0].ledger[&Signal::Logs].dropped.shutdown, 200, "{}", ended.render());
}

#[test]
fn spans_that_were_acknowledged_before_a_restart_are_not_sent_again_with_the_logs() {
    let folder = tempfile::tempdir().unwrap();
    let (for_spans, (for_logs, down)) = (Receiver::start(), switched(true));
    let start = |id: &str| Telemetry::start(apart(folder.path(), id, &for_spans, &for_logs)).unwrap();
    let telemetry = start("tracer.old");
    // Both are in the same segment.
    fail_logs(&telemetry, &for_logs);
    spans(&telemetry, 0..100);
    logs(&telemetry, 200..250);
    eventually_blocking(DEADLINE, "100 spans are counted", || balance(&telemetry).exported == 100);
    eventually_blocking(DEADLINE, "250 log records are counted", || {
        status(&telemetry).ledger[&Signal::Logs].created == 250
    });
    eventually_blocking(DEADLINE, "the spool has an owner", || crate::outage::owners(folder.path()) == 1);
    telemetry.shutdown(Duration::ZERO);
    drop(telemetry);
    // The same sink, one that takes its spool over, and that one again.
    for id in ["tracer.old", "tracer.new", "tracer.new"] {
        let telemetry = start(id);
        eventually_blocking(DEADLINE, "250 log records are recovered", || {
            status(&telemetry).ledger[&Signal::Logs].recovered == 250
        });
        assert_eq!(balance(&telemetry).recovered, 0, "{id}");
        telemetry.shutdown(Duration::ZERO);
    }
    down.store(false, SeqCst);
    let telemetry = start("tracer.new");
    let ended = telemetry.shutdown(Duration::from_secs(20));
    assert!(ended.holds(), "{}", ended.render());
    assert_eq!(log_numbers(&for_logs), (0..250).collect::<Vec<_>>());
    assert_eq!(span_numbers(&for_spans), (0..100).collect::<Vec<_>>());
}
