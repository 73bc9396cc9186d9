//! Delivery of spans, logs and metrics to a receiver.

use std::{path::Path, time::Duration};

use qualitytrace_telemetry::{
    Context, KeyValue, SpanExt as _, SpanKind, Telemetry, TraceId,
    config::{Compression, Config, Header, Level, Role, Sampler, Signal, Sink, Transport},
};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::receiver::{Fault, Receiver, number};

/// A sink for all signals with short intervals.
pub(crate) fn sink(id: &str, url: &str, transport: Transport) -> Sink {
    let mut sink = Sink::new(id, transport);
    for signal in Signal::ALL {
        let path =
            if transport == Transport::Http { format!("/v1/{}", signal.name()) } else { String::new() };
        sink.endpoints.insert(signal, format!("{url}{path}"));
    }
    sink.delivery.throttle = Duration::from_millis(5);
    sink.delivery.retry_initial = Duration::from_millis(2);
    sink.delivery.retry_max = Duration::from_millis(20);
    sink
}

pub(crate) fn config(spool: Option<&Path>, sinks: Vec<Sink>) -> Config {
    let mut config = Config::new("test-service");
    config.service_version = Some("1.2.3".to_owned());
    config.spool_path = spool.map(Path::to_path_buf);
    config.sinks = sinks;
    config
}

/// Runs `work` with the telemetry as the thread's subscriber.
pub(crate) fn under<T>(telemetry: &Telemetry, work: impl FnOnce() -> T) -> T {
    let subscriber = tracing_subscriber::registry().with(telemetry.layer());
    tracing::subscriber::with_default(subscriber, work)
}

#[test]
fn spans_logs_and_metrics_arrive_over_both_transports() {
    for transport in [Transport::Grpc, Transport::Http] {
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            let receiver = Receiver::start();
            let folder = tempfile::tempdir().unwrap();
            let mut one = sink("one", &receiver.url(), transport);
            one.compression = compression;
            one.headers.extend(Header::new("authorization", "Bearer x"));
            let telemetry = Telemetry::start(config(Some(folder.path()), vec![one])).unwrap();
            telemetry.meter("m").u64_counter("things").build().add(3, &[KeyValue::new("a", "b")]);
            under(&telemetry, || {
                let outer = tracing::info_span!("outer", otel.kind = "server", n = 1, big = u64::MAX);
                outer.in_scope(|| {
                    tracing::info!(n = 2, "hello");
                    tracing::info_span!("inner", n = 3, password = "p").in_scope(|| {
                        tracing::error!(
                            error = &std::io::Error::other("bad") as &dyn std::error::Error,
                            "oh"
                        );
                    });
                });
            });
            let status = telemetry.shutdown(Duration::from_secs(10));
            assert!(status.holds(), "{status:#?}");
            let got = receiver.stop();
            assert_eq!(got.spans.len(), 2, "{transport:?} {compression:?} {}", status.render());
            assert_eq!(got.logs.len(), 2);
            assert!(got.metrics.iter().any(|metric| metric.name == "things"));
            let outer = got.spans.iter().find(|span| span.name == "outer").unwrap();
            let inner = got.spans.iter().find(|span| span.name == "inner").unwrap();
            assert_eq!(
                (inner.trace_id.clone(), &inner.parent_span_id),
                (outer.trace_id.clone(), &outer.span_id)
            );
            assert_eq!(outer.kind, 2);
            assert_eq!(inner.status.as_ref().map(|status| status.code), Some(2));
            assert_eq!(inner.events[0].name, "exception");
            assert!(
                inner
                    .attributes
                    .iter()
                    .any(|a| a.key == "password" && format!("{a:?}").contains("[redacted]"))
            );
            assert_eq!(got.logs[0].span_id, outer.span_id);
            assert!(outer.end_time_unix_nano > outer.start_time_unix_nano);
            assert!(got.headers.iter().all(|headers| headers["authorization"] == "Bearer x"));
            let names: Vec<&str> = got.resources[0].attributes.iter().map(|a| a.key.as_str()).collect();
            for name in ["service.name", "service.version", "service.instance.id", "host.name", "process.pid"]
            {
                assert!(names.contains(&name), "{names:?}");
            }
        }
    }
}

#[test]
fn a_caller_is_continued_and_handed_on() {
    let receiver = Receiver::start();
    let telemetry =
        Telemetry::start(config(None, vec![sink("one", &receiver.url(), Transport::Grpc)])).unwrap();
    let mut incoming = http::HeaderMap::new();
    incoming
        .insert("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().unwrap());
    incoming.insert("tracestate", "vendor=1".parse().unwrap());
    incoming.insert("baggage", "user=a".parse().unwrap());
    let outgoing = under(&telemetry, || {
        let span = tracing::info_span!("handler");
        span.continue_from(&telemetry.propagators().extract(&incoming).unwrap());
        span.in_scope(|| {
            tracing::info_span!("call").in_scope(|| {
                let mut headers = http::HeaderMap::new();
                telemetry.propagators().inject(&Context::current().unwrap(), &mut headers);
                headers
            })
        })
    });
    telemetry.shutdown(Duration::from_secs(10));
    let got = receiver.stop();
    let call = got.spans.iter().find(|span| span.name == "call").unwrap();
    let handler = got.spans.iter().find(|span| span.name == "handler").unwrap();
    let hex = |bytes: &[u8]| {
        let parts: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        parts.concat()
    };
    assert_eq!(hex(&handler.parent_span_id), "b7ad6b7169203331");
    assert_eq!(
        outgoing["traceparent"],
        format!("00-0af7651916cd43dd8448eb211c80319c-{}-01", hex(&call.span_id))
    );
    assert_eq!(outgoing["tracestate"], "vendor=1");
    assert_eq!(outgoing["baggage"], "user=a");
    assert_eq!(handler.flags & 0x300, 0x300);
    assert_eq!(call.flags & 0x300, 0x100);
    assert!(telemetry.propagators().extract(&http::HeaderMap::new()).is_none());
}

#[test]
fn each_sink_samples_and_filters_by_itself() {
    let receivers = [Receiver::start(), Receiver::start(), Receiver::start()];
    let mut quarter = sink("quarter", &receivers[0].url(), Transport::Http);
    quarter.sampler = Sampler::parent_based(Sampler::Ratio(0.25));
    let mut debug = sink("debug", &receivers[1].url(), Transport::Http);
    debug.level = Level::Debug;
    let info = sink("info", &receivers[2].url(), Transport::Http);
    let telemetry = Telemetry::start(config(None, vec![quarter, debug, info])).unwrap();
    under(&telemetry, || {
        for _ in 0..400 {
            let _outer = tracing::info_span!("outer").entered();
            let _middle = tracing::debug_span!("middle").entered();
            let _inner = tracing::info_span!("inner").entered();
            tracing::debug!("quiet");
        }
    });
    let status = telemetry.shutdown(Duration::from_secs(10));
    assert!(status.holds(), "{}", status.render());
    let [quarter, debug, info] = receivers.map(Receiver::stop);
    let b = status.sink("quarter").unwrap().ledger[&Signal::Traces];
    assert_eq!(b.created, 1_200);
    assert_eq!(b.exported, u64::try_from(quarter.spans.len()).unwrap());
    assert!((60..140).contains(&(quarter.spans.len() / 2)), "{}", quarter.spans.len());
    assert_eq!((debug.spans.len(), info.spans.len()), (1_200, 800));
    assert_eq!((debug.logs.len(), info.logs.len()), (400, 0));
    // Where `middle` is not sent, `outer` is the parent of `inner`.
    for (spans, parent) in [(&info.spans, "outer"), (&debug.spans, "middle")] {
        for inner in spans.iter().filter(|span| span.name == "inner") {
            let found = spans.iter().find(|span| span.span_id == inner.parent_span_id).unwrap();
            assert_eq!(found.name, parent);
        }
    }
}

#[test]
fn the_application_tracer_has_sinks_and_ids_of_its_own() {
    let receiver = Receiver::start();
    let other = Receiver::start();
    let mut application = sink("app", &receiver.url(), Transport::Grpc);
    application.role = Role::Application;
    application.service_name = Some("app-name".to_owned());
    application.endpoints.retain(|signal, _| *signal == Signal::Traces);
    let server = sink("server", &other.url(), Transport::Grpc);
    let telemetry = Telemetry::start(config(None, vec![application, server])).unwrap();
    let id = TraceId::from(7_u128);
    let mut span =
        telemetry.application_tracer().start("Qualitytrace trigger", SpanKind::Client, Some(id), None);
    span.text("trigger.type", "http");
    span.failed("no answer");
    assert!(span.context().sampled);
    span.end();
    let status = telemetry.shutdown(Duration::from_secs(10));
    assert!(status.holds());
    let (got, other) = (receiver.stop(), other.stop());
    assert_eq!((got.spans.len(), other.spans.len()), (1, 0));
    assert_eq!(got.spans[0].trace_id, id.to_bytes());
    assert!(format!("{:?}", got.resources[0]).contains("app-name"));
}

#[test]
fn open_spans_are_sent_and_marked_at_shutdown() {
    let receiver = Receiver::start();
    let telemetry =
        Telemetry::start(config(None, vec![sink("one", &receiver.url(), Transport::Grpc)])).unwrap();
    under(&telemetry, || {
        let open = tracing::info_span!("open").entered();
        let status = telemetry.shutdown(Duration::from_secs(10));
        assert!(status.holds());
        drop(open);
    });
    let got = receiver.stop();
    assert_eq!(got.spans.len(), 1);
    assert!(got.spans[0].attributes.iter().any(|a| a.key == "span.open_at_shutdown"));
}

#[test]
fn a_request_that_is_too_large_is_split_and_a_refused_one_is_counted() {
    for transport in [Transport::Grpc, Transport::Http] {
        let receiver = Receiver::with("127.0.0.1:0", || Fault::Larger(7));
        let telemetry =
            Telemetry::start(config(None, vec![sink("one", &receiver.url(), transport)])).unwrap();
        under(&telemetry, || (0..100).for_each(|n| drop(tracing::info_span!("s", n))));
        let status = telemetry.shutdown(Duration::from_secs(10));
        assert!(status.holds());
        let mut numbers: Vec<i64> =
            receiver.stop().spans.iter().filter_map(|span| number(&span.attributes)).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..100).collect::<Vec<_>>());

        let receiver = Receiver::with("127.0.0.1:0", || Fault::Refuse);
        let telemetry =
            Telemetry::start(config(None, vec![sink("one", &receiver.url(), transport)])).unwrap();
        under(&telemetry, || (0..100).for_each(|n| drop(tracing::info_span!("s", n))));
        let status = telemetry.shutdown(Duration::from_secs(10));
        assert!(status.holds());
        assert_eq!(status.sink("one").unwrap().ledger[&Signal::Traces].dropped.non_retryable, 100);
    }
}

#[test]
fn a_test_reports_what_each_receiver_answers() {
    let good = Receiver::start();
    let bad = Receiver::with("127.0.0.1:0", || Fault::Refuse);
    let mut down = sink("down", "http://127.0.0.1:1", Transport::Grpc);
    down.endpoints.retain(|signal, _| *signal == Signal::Traces);
    let sinks =
        vec![sink("good", &good.url(), Transport::Grpc), sink("bad", &bad.url(), Transport::Http), down];
    let telemetry = Telemetry::start(config(None, sinks)).unwrap();
    let probes = telemetry.test();
    let said: Vec<(&str, bool)> = probes.iter().map(|probe| (probe.sink.as_str(), probe.ok)).collect();
    let expected = [
        ("good", true),
        ("good", true),
        ("good", true),
        ("bad", false),
        ("bad", false),
        ("bad", false),
        ("down", false),
    ];
    assert_eq!(said, expected, "{probes:#?}");
    assert!(probes[3].answer.contains("400"), "{probes:#?}");
    let got = good.stop();
    assert_eq!((got.spans.len(), got.logs.len(), got.metrics.len()), (1, 1, 1));
    telemetry.shutdown(Duration::ZERO);
}

#[test]
fn metrics_are_also_openmetrics_text() {
    let telemetry =
        Telemetry::start(config(None, vec![sink("one", "http://127.0.0.1:1", Transport::Grpc)])).unwrap();
    let meter = telemetry.meter("m");
    meter.u64_counter("http.requests").build().add(2, &[KeyValue::new("http.route", "/a\"b")]);
    let histogram =
        meter.f64_histogram("http.duration").with_unit("s").with_boundaries(vec![0.1, 1.0]).build();
    for value in [0.05, 0.5, 0.7, 5.0] {
        histogram.record(value, &[]);
    }
    let text = telemetry.prometheus();
    for line in [
        "# TYPE http_requests counter",
        r#"http_requests_total{http_route="/a\"b"} 2"#,
        "# TYPE http_duration_seconds histogram",
        r#"http_duration_seconds_bucket{le="0.1"} 1"#,
        r#"http_duration_seconds_bucket{le="1.0"} 3"#,
        r#"http_duration_seconds_bucket{le="+Inf"} 4"#,
        "http_duration_seconds_count 4",
        "# EOF",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(text.contains("otel_sdk_exporter_span_exported_total{"), "{text}");
    assert!(text.contains("process_memory_usage_bytes"), "{text}");
    telemetry.shutdown(Duration::ZERO);
}

#[test]
fn a_panic_is_an_exception_of_its_span() {
    let receiver = Receiver::start();
    let telemetry =
        Telemetry::start(config(None, vec![sink("one", &receiver.url(), Transport::Grpc)])).unwrap();
    qualitytrace_telemetry::record_panics();
    under(&telemetry, || {
        let earlier = tracing::info_span!("earlier");
        let span = tracing::info_span!("careless");
        span.follows_from(&earlier);
        let caught = span.in_scope(|| std::panic::catch_unwind(|| panic!("as planned")));
        assert!(caught.is_err());
    });
    telemetry.shutdown(Duration::from_secs(10));
    let got = receiver.stop();
    let span = got.spans.iter().find(|span| span.name == "careless").unwrap();
    let earlier = got.spans.iter().find(|span| span.name == "earlier").unwrap();
    assert_eq!(span.links[0].span_id, earlier.span_id);
    assert_eq!(span.status.as_ref().map(|status| status.code), Some(2));
    let event = &span.events[0];
    assert_eq!(event.name, "exception");
    let text = format!("{:?}", event.attributes);
    for expected in ["exception.type", "as planned", "exception.stacktrace"] {
        assert!(text.contains(expected), "{text}");
    }
    assert!(got.logs.iter().any(|log| log.span_id == span.span_id && log.severity_text == "ERROR"));
}

#[test]
fn suppressed_work_is_not_recorded() {
    let receiver = Receiver::start();
    let telemetry =
        Telemetry::start(config(None, vec![sink("one", &receiver.url(), Transport::Grpc)])).unwrap();
    under(&telemetry, || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(qualitytrace_telemetry::Suppressed::new(async {
            tracing::info_span!("hidden").in_scope(|| tracing::info!("hidden"));
        }));
        tracing::info_span!("seen").in_scope(|| {});
    });
    telemetry.shutdown(Duration::from_secs(10));
    let got = receiver.stop();
    let names: Vec<&str> = got.spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!((names, got.logs.len()), (vec!["seen"], 0));
}

#[test]
fn a_histogram_names_the_trace_of_a_value() {
    let receiver = Receiver::start();
    let telemetry =
        Telemetry::start(config(None, vec![sink("one", &receiver.url(), Transport::Grpc)])).unwrap();
    let histogram = telemetry.histogram("m", "http.duration", "s", "How long", &[0.1, 1.0]);
    let id = under(&telemetry, || {
        let span = tracing::info_span!("s").entered();
        histogram.record(0.5, &[KeyValue::new("b", 1), KeyValue::new("a", "x")]);
        span.telemetry_context().unwrap().trace_id
    });
    let text = telemetry.prometheus();
    let expected =
        format!("http_duration_seconds_bucket{{a=\"x\",b=\"1\",le=\"1.0\"}} 1 # {{trace_id=\"{id}\",");
    assert!(text.contains(&expected), "{text}");
    telemetry.shutdown(Duration::from_secs(10));
    assert!(format!("{:?}", receiver.stop().metrics).contains(&format!("{:?}", id.to_bytes().to_vec())));
}
