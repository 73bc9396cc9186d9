//! Limits, redaction and backoff, as a receiver and the status show them.

use std::time::Duration;

use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use qualitytrace_telemetry::{
    CircuitState, KeyValue, Telemetry,
    config::{Signal, Transport},
};
use qualitytrace_testing::{DEADLINE, eventually_blocking};

use crate::{
    basics::{config, sink, under},
    receiver::{Fault, Receiver, number},
};

#[test]
fn a_receiver_that_asks_for_an_hour_gets_it() {
    for transport in [Transport::Grpc, Transport::Http] {
        let receiver = Receiver::with("127.0.0.1:0", || Fault::BusyForAnHour);
        let mut one = sink("one", &receiver.url(), transport);
        one.endpoints.retain(|signal, _| *signal == Signal::Traces);
        one.delivery.retry_circuit = 1;
        let telemetry = Telemetry::start(config(None, vec![one])).unwrap();
        under(&telemetry, || drop(tracing::info_span!("s")));
        let health = || telemetry.status().sinks[0].health.clone();
        eventually_blocking(DEADLINE, "a request fails", || health().failed_requests > 0);
        let health = health();
        assert!(health.next_attempt_ms.is_some_and(|ms| ms > 3_000_000), "{transport:?} {health:?}");
        assert_eq!(health.circuit, CircuitState::Open);
        let status = telemetry.shutdown(Duration::ZERO);
        assert!(status.holds(), "{}", status.render());
    }
}

#[test]
fn a_partial_success_is_counted_and_its_reason_shown() {
    for transport in [Transport::Grpc, Transport::Http] {
        let receiver = Receiver::with("127.0.0.1:0", || Fault::Partial);
        let mut one = sink("one", &receiver.url(), transport);
        one.endpoints.retain(|signal, _| *signal == Signal::Traces);
        one.delivery.throttle = Duration::from_hours(1);
        let telemetry = Telemetry::start(config(None, vec![one])).unwrap();
        under(&telemetry, || (0..9).for_each(|n| drop(tracing::info_span!("s", n))));
        let status = telemetry.shutdown(Duration::from_secs(10));
        let balance = status.sinks[0].ledger[&Signal::Traces];
        let got = receiver.stop();
        assert_eq!((balance.exported, balance.rejected), (6, 3), "{}", status.render());
        assert_eq!((got.spans.len(), got.rejected.len()), (6, 3));
        let problem = status.sinks[0].health.last_problem.clone().unwrap();
        assert!(problem.contains("3 of 9 items were rejected: no"), "{problem}");
    }
}

#[test]
fn a_flood_is_taken_or_counted() {
    let receiver = Receiver::start();
    let mut config = config(None, vec![sink("one", &receiver.url(), Transport::Grpc)]);
    config.recorder.items = 8;
    config.recorder.block = Duration::ZERO;
    let telemetry = Telemetry::start(config).unwrap();
    under(&telemetry, || (0..5_000).for_each(|n| drop(tracing::info_span!("s", n))));
    let status = telemetry.shutdown(Duration::from_secs(10));
    assert!(status.holds(), "{}", status.render());
    let balance = status.sinks[0].ledger[&Signal::Traces];
    assert_eq!(balance.created, 5_000);
    assert!(balance.dropped.queue_full > 0, "8 records may wait: {}", status.render());
    let numbers = receiver.stop().spans.iter().filter_map(|span| number(&span.attributes)).count();
    assert_eq!(numbers as u64, balance.exported);
}

#[test]
fn what_a_sink_redacts_is_its_own_choice() {
    let receivers = [Receiver::start(), Receiver::start()];
    let mut sinks =
        receivers.iter().zip(["careful", "open"]).map(|(r, id)| sink(id, &r.url(), Transport::Http));
    let (mut careful, mut open) = (sinks.next().unwrap(), sinks.next().unwrap());
    careful.redact = vec!["customer.*".to_owned()];
    open.redact = Vec::new();
    let telemetry = Telemetry::start(config(None, vec![careful, open])).unwrap();
    under(&telemetry, || {
        let span = tracing::info_span!("s", customer.name = "Ada", password = "p");
        span.in_scope(|| tracing::info!(customer.name = "Ada", "seen"));
    });
    telemetry.shutdown(Duration::from_secs(10));
    let [careful, open] = receivers.map(|receiver| {
        let got = receiver.stop();
        // The span, its event and the log record.
        format!("{:?} {:?}", got.spans, got.logs)
    });
    assert_eq!((careful.matches("Ada").count(), careful.matches("[redacted]").count()), (0, 3), "{careful}");
    assert_eq!((open.matches("Ada").count(), open.matches("[redacted]").count()), (3, 0), "{open}");
}

#[test]
fn series_without_end_become_one() {
    let receiver = Receiver::start();
    let telemetry =
        Telemetry::start(config(None, vec![sink("one", &receiver.url(), Transport::Grpc)])).unwrap();
    let counter = telemetry.meter("m").u64_counter("users").build();
    for user in 0..5_000 {
        counter.add(1, &[KeyValue::new("user", user)]);
    }
    telemetry.shutdown(Duration::from_secs(10));
    let got = receiver.stop();
    let metric = got.metrics.iter().find(|metric| metric.name == "users").unwrap();
    let Some(Data::Sum(sum)) = &metric.data else { panic!("{metric:?}") };
    assert!(sum.data_points.len() <= 2_001, "{}", sum.data_points.len());
    let overflow = |key: &str| key == "otel.metric.overflow";
    assert!(sum.data_points.iter().any(|point| point.attributes.iter().any(|a| overflow(&a.key))));
}
