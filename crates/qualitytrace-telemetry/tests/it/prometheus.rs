//! The Prometheus exposition, read by Prometheus' own parser and checked as by `promtool check metrics`.
//!
//! `QUALITYTRACE_TEST_PROMLINT` names the program that does both; `cargo xtask peers promlint` builds it.

use std::{
    io::Write as _,
    process::{Command, Stdio},
    time::Duration,
};

use qualitytrace_telemetry::{Exposition, KeyValue, Telemetry, config::Transport};

use crate::{
    basics::{config, sink, under},
    config::good,
};

/// The problems of a text; `None` if there are none.
fn complaints(program: &str, format: Exposition, text: &str) -> Option<String> {
    let mut child = Command::new(program)
        .arg(format.content_type())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (!output.status.success()).then_some(said)
}

#[test]
fn prometheus_reads_all_metrics_and_has_nothing_to_say() {
    let Ok(program) = std::env::var("QUALITYTRACE_TEST_PROMLINT") else {
        assert!(
            std::env::var("QUALITYTRACE_REQUIRE_PEERS").is_err(),
            "QUALITYTRACE_TEST_PROMLINT is not set"
        );
        println!("skipped: QUALITYTRACE_TEST_PROMLINT names no linter");
        return;
    };
    let views = "
[telemetry]
exemplar-filter = \"always_on\"
[telemetry.views.fine]
instrument-name = \"fine\"
aggregation = \"base2_exponential_bucket_histogram\"
[telemetry.views.merged]
instrument-name = \"merged\"
attributes.excluded = [\"user\"]
";
    let mut config = config(None, vec![sink("one", "http://127.0.0.1:1", Transport::Grpc)]);
    config.metrics = good("t.toml", views).metrics;
    let telemetry = Telemetry::start(config).unwrap();
    let pairs = [KeyValue::new("http.route", "/a\"b\\c\n"), KeyValue::new("user", 1)];
    let bounds: &[f64] = &[0.1, 1.0];
    under(&telemetry, || {
        let _span = tracing::info_span!("s").entered();
        for name in ["plain", "fine", "merged"] {
            let histogram = telemetry.histogram("shop", name, "s", "How \"long\" it\ntook", bounds);
            for value in [0.05, 0.5, 5.0] {
                histogram.record(value, &pairs);
            }
        }
        telemetry.histogram("shop", "nowhere", "By", "", &[]).record(-3.0, &[]);
    });
    let (shop, other) = (telemetry.meter("shop"), telemetry.meter("other"));
    for meter in [&shop, &other] {
        meter.u64_counter("shared.things").with_description("Things").build().add(1, &pairs);
    }
    shop.f64_gauge("depth").with_unit("By").with_description("Depth").build().record(f64::NAN, &[]);
    shop.i64_up_down_counter("difference").with_description("Difference").build().add(-2, &pairs);
    for format in [Exposition::Prometheus, Exposition::OpenMetrics] {
        let text = telemetry.exposition(format);
        assert_eq!(complaints(&program, format, &text), None, "{text}");
    }
    let broken = "# TYPE a counter\na_total{ 1\n";
    assert!(complaints(&program, Exposition::Prometheus, broken).is_some());
    telemetry.shutdown(Duration::ZERO);
}
