//! Every setting of a configuration has an effect or a diagnostic.

use std::{path::Path, time::Duration};

use opentelemetry_proto::tonic::{
    common::v1::{AnyValue, any_value::Value},
    trace::v1::Span,
};
use qualitytrace_telemetry::{
    Telemetry,
    config::{Config, Level, Severity, Signal, Sink},
};

use crate::{
    basics::under,
    config::read,
    receiver::{Got, Receiver},
};

/// Reads a declarative file; returns its diagnostics, one line each.
pub(crate) fn declarative(folder: &Path, text: &str, variables: &[(&str, &str)]) -> (Config, Vec<String>) {
    let path = folder.join("otel.yaml");
    std::fs::write(&path, format!("file_format: '1.1'\n{text}")).unwrap();
    let mut all = vec![("OTEL_CONFIG_FILE", path.to_str().unwrap())];
    all.extend(variables);
    let (config, diagnostics) = read(&[], &all, &[]);
    (config, diagnostics.iter().map(ToString::to_string).collect())
}

fn said(variables: &[(&str, &str)]) -> Vec<String> {
    read(&[], variables, &[]).1.iter().map(ToString::to_string).collect()
}

/// Checks that a file causes this diagnostic, at least as a warning.
fn warns(text: &str, expected: &str) {
    let (_, diagnostics) = read(&[("t.toml", text)], &[], &[]);
    let lines: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    let found = diagnostics.iter().zip(&lines).find(|(_, line)| line.contains(expected));
    let (found, _) = found.unwrap_or_else(|| panic!("{expected}: {lines:?}"));
    assert!(found.severity >= Severity::Warning && lines.len() == 1, "{lines:?}");
}

#[test]
fn settings_that_cannot_work_are_told() {
    let tracer = "[tracer.a]\ntype = \"otel\"\ntransport = \"grpc\"\n";
    warns(
        &format!("{tracer}endpoint = \"host:99999\"\n"),
        "its port is `99999`, expected a number from 1 to 65535",
    );
    warns(&format!("{tracer}endpoint = \"http://host:0/x\"\n"), "its port is `0`");
    warns(&format!("{tracer}throttle = \"10us\"\n"), "`tracer.a.throttle` cannot be `10us`");
    warns(
        "[metrics.open-telemetry]\ntransport = \"grpc\"\ninterval = \"10us\"\n",
        "`metrics.open-telemetry.interval` cannot be `10us`: expected a duration such as `30s`, at least `10ms`",
    );
    warns(
        "[metrics.open-telemetry]\nendpoint = \"http://c:4317\"\n",
        "t.toml:2:12: warning: `metrics.open-telemetry.endpoint` has no effect: `metrics.open-telemetry` has no `transport`; set it to `grpc` or `http`, or to `disable`",
    );
    warns(&format!("{tracer}enable.span-exporter = false\n"), "`tracer.a` sends nothing");
    let (config, lines) =
        read(&[("t.toml", &format!("{tracer}enable.span-exporter = false\nenable = false\n"))], &[], &[]);
    assert!(
        config.sinks.is_empty() && lines.is_empty(),
        "what is switched off may be without signals: {lines:?}"
    );
}

#[test]
fn an_interval_that_is_too_short_is_told() {
    let text = "[metrics.open-telemetry]\ntransport = \"grpc\"\ninterval = \"10us\"\n";
    warns(text, "`metrics.open-telemetry.interval` cannot be `10us`");
}

#[test]
fn an_endpoint_without_a_transport_is_told() {
    let text = "[metrics.open-telemetry]\nendpoint = \"http://c:4317\"\n";
    warns(text, "`metrics.open-telemetry` has no `transport`");
}

#[test]
fn a_tracer_without_a_signal_is_told() {
    let text = "[tracer.a]\ntype = \"otel\"\ntransport = \"grpc\"\nenable.span-exporter = false\n";
    warns(text, "`tracer.a` sends nothing");
}

#[test]
fn a_missing_certificate_is_told_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("no.pem"), "no certificate").unwrap();
    let tracer = "[tracer.a]\ntype = \"otel\"\ntransport = \"http\"\nendpoint = \"https://c\"\n";
    let path = folder.path().join("t.toml").display().to_string();
    for (file, expected) in
        [("missing.pem", "No such file"), ("no.pem", "there is no certificate among them")]
    {
        let (config, said) = read(&[(&path, &format!("{tracer}tls.ca = \"{file}\"\n"))], &[], &[]);
        assert!(said.is_empty(), "{said:?}");
        let lines: Vec<String> = config.verify().iter().map(ToString::to_string).collect();
        assert_eq!(lines.len(), 1, "{lines:?}");
        let place = format!("{path}:5:10: warning: `tls.ca` of `tracer.a` cannot be used");
        assert!(lines[0].starts_with(&place) && lines[0].contains(expected), "{lines:?}");
    }
    let (config, _) = read(&[(&path, tracer)], &[], &[]);
    assert!(config.verify().is_empty());
}

#[test]
fn standard_variables_that_bound_queues_and_records_are_honoured() {
    let (config, diagnostics) = read(
        &[],
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "12"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "11"),
            ("OTEL_BSP_EXPORT_TIMEOUT", "1300"),
            ("OTEL_BLRP_MAX_QUEUE_SIZE", "22"),
            ("OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", "21"),
            ("OTEL_BLRP_EXPORT_TIMEOUT", "30000"),
            ("OTEL_METRIC_EXPORT_TIMEOUT", "2300"),
            ("OTEL_LOG_LEVEL", "ERROR"),
            ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "100"),
            ("OTEL_ATTRIBUTE_COUNT_LIMIT", "50"),
            ("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "101"),
            ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "51"),
            ("OTEL_SPAN_EVENT_COUNT_LIMIT", "7"),
            ("OTEL_SPAN_LINK_COUNT_LIMIT", "8"),
            ("OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", "9"),
            ("OTEL_LINK_ATTRIBUTE_COUNT_LIMIT", "10"),
            ("OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT", "0"),
        ],
        &[],
    );
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let of = |sink: &Sink| {
        let timeout = u64::try_from(sink.delivery.timeout.as_millis()).unwrap();
        (sink.limits.queue_items, sink.delivery.batch_items, timeout)
    };
    let [traces, metrics, logs] = config.sinks.as_slice() else { panic!("{config:?}") };
    assert_eq!((of(traces), of(logs)), ((12, 11, 1_300), (22, 21, 10_000)));
    assert_eq!(metrics.delivery.timeout, Duration::from_millis(2_300));
    assert_eq!(config.log_level, Level::Error);
    let limits = config.limits;
    assert_eq!((limits.span_attributes.count, limits.span_attributes.length), (51, 101));
    assert_eq!((limits.log_attributes.count, limits.log_attributes.length), (0, 100));
    assert_eq!((limits.events, limits.links, limits.event_attributes), (7, 8, 9));
    let bad = said(&[("OTEL_SPAN_EVENT_COUNT_LIMIT", "-1"), ("OTEL_LOG_LEVEL", "loud")]);
    assert_eq!(bad.len(), 2, "{bad:?}");
}

#[test]
fn a_limit_of_the_standard_counts() {
    let (config, _) = read(&[], &[("OTEL_SPAN_EVENT_COUNT_LIMIT", "7")], &[]);
    assert_eq!(config.limits.events, 7);
}

#[test]
fn the_log_level_of_the_standard_counts() {
    let (config, _) = read(&[], &[("OTEL_LOG_LEVEL", "ERROR")], &[]);
    assert_eq!(config.log_level, Level::Error);
}

#[test]
fn variables_that_mean_nothing_are_named() {
    let check = |name: &str, expected: &str| {
        let lines = said(&[(name, "1")]);
        assert!(lines.len() == 1 && lines[0].contains(expected), "{name}: {lines:?}");
        assert!(lines[0].contains(name), "{lines:?}");
    };
    check("OTEL_EXPORTER_OTLP_ENDPIONT", "did you mean `OTEL_EXPORTER_OTLP_ENDPOINT`?");
    check("OTEL_TRACE_SAMPLER", "did you mean `OTEL_TRACES_SAMPLER`?");
    check("OTEL_BSP_MAX_QUEU_SIZE", "did you mean `OTEL_BSP_MAX_QUEUE_SIZE`?");
    check("OTEL_EXPORTER_ZIPKIN_ENDPOINT", "has no effect here");
    check("OTEL_EXPORTER_OTLP_HEADERS", "no endpoint is set, and no exporter is named `otlp`");
    assert!(said(&[("OTEL_JAVAAGENT_ENABLED", "1"), ("OTEL_EXPORTER_OTLP_ENDPIONT", "")]).is_empty());
    // A user-defined variable that a file refers to is no mistake.
    let text = "[tracer.a]\ntype = \"otel\"\ntransport = \"grpc\"\nheaders = [\"a: %{env:OTEL_TOKEN}%\"]\n";
    let (_, diagnostics) = read(&[("t.toml", text)], &[("OTEL_TOKEN", "x")], &[]);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
}

#[test]
fn the_old_name_of_the_declarative_file_works_and_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("o.yaml");
    let text = "file_format: '1.1'\ntracer_provider: {processors: [{batch: {exporter: {otlp_http: }}}]}\n";
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let (config, diagnostics) = read(&[], &[("OTEL_EXPERIMENTAL_CONFIG_FILE", path)], &[]);
    assert_eq!(config.sinks.len(), 1);
    assert_eq!(config.sinks[0].level, Level::Info, "as everywhere else");
    assert!(diagnostics[0].to_string().contains("is the old name of `OTEL_CONFIG_FILE`"), "{diagnostics:?}");
    let (_, lines) = declarative(
        folder.path(),
        "",
        &[("OTEL_BSP_SCHEDULE_DELAY", "1"), ("OTEL_EXPERIMENTAL_CONFIG_FILE", path)],
    );
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines.iter().all(|line| line.contains("has no effect")), "{lines:?}");
}

/// What a receiver gets of a span with events, links and attributes, and of a log record.
fn recorded(text: &str) -> Got {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start();
    let text = text.replace("URL", &receiver.url());
    let (config, lines) = declarative(folder.path(), &text, &[]);
    assert!(lines.is_empty(), "{lines:?}");
    let telemetry = Telemetry::start(config).unwrap();
    under(&telemetry, || {
        let other = tracing::info_span!("other");
        let span = tracing::info_span!("span", long = "0123456789", b = 2, c = 3);
        (0..3).for_each(|_| {
            span.follows_from(&other);
        });
        span.in_scope(|| {
            for _ in 0..3 {
                tracing::info!(long = "0123456789", e = 1, f = 2, "event");
            }
        });
    });
    telemetry.shutdown(Duration::from_secs(10));
    receiver.stop()
}

const PROVIDERS: &str = "
tracer_provider:
  id_generator: {random: }
  processors: [{batch: {export_timeout: 3000, exporter: {otlp_http: {endpoint: URL/v1/traces}}}}]
  LIMITS
logger_provider:
  processors: [{batch: {exporter: {otlp_http: {endpoint: URL/v1/logs}}}}]
";

fn span(got: &Got) -> Span {
    got.spans.iter().find(|span| span.name == "span").unwrap().clone()
}

#[test]
fn declarative_limits_bound_what_is_recorded() {
    let limits = "limits: {attribute_count_limit: 1, event_count_limit: 2, link_count_limit: 1, event_attribute_count_limit: 2, attribute_value_length_limit: 4}";
    let got = recorded(&PROVIDERS.replace("LIMITS", limits));
    let span = span(&got);
    assert_eq!((span.attributes.len(), span.dropped_attributes_count), (1, 2), "{span:?}");
    assert_eq!((span.events.len(), span.dropped_events_count), (2, 1), "{span:?}");
    assert_eq!((span.links.len(), span.dropped_links_count), (1, 2), "{span:?}");
    let event = &span.events[0];
    assert_eq!((event.attributes.len(), event.dropped_attributes_count), (2, 1), "{event:?}");
    let text = |value: &Option<AnyValue>| format!("{value:?}");
    assert!(text(&span.attributes[0].value).contains("\"0123\""), "{span:?}");
    assert!(text(&event.attributes[0].value).contains("\"0123\""), "{event:?}");
    let log = &got.logs[0];
    assert!(
        log.attributes.len() >= 3 && format!("{log:?}").contains("0123456789"),
        "logs have limits of their own"
    );

    let got = recorded(&format!(
        "attribute_limits: {{attribute_count_limit: 2, attribute_value_length_limit: 3}}\n{}",
        PROVIDERS.replace("LIMITS", "")
    ));
    let (span, log) = (self::span(&got), &got.logs[0]);
    assert_eq!((span.attributes.len(), log.attributes.len()), (2, 2), "{span:?} {log:?}");
    // In quotes: times have such digits by chance.
    assert!(!format!("{span:?}{log:?}").contains("\"0123"), "{span:?} {log:?}");
}

#[test]
fn a_resource_has_types_and_a_schema() {
    let resource = "
resource:
  schema_url: https://opentelemetry.io/schemas/1.30.0
  attributes:
    - {name: t, value: a}
    - {name: b, value: true, type: bool}
    - {name: i, value: 7, type: int}
    - {name: d, value: 1.5, type: double}
    - {name: ts, value: [a, b], type: string_array}
    - {name: is, value: [1, 2], type: int_array}
";
    let got = recorded(&format!("{resource}{}", PROVIDERS.replace("LIMITS", "")));
    let value = |name: &str| {
        let attributes = &got.resources[0].attributes;
        attributes.iter().find(|a| a.key == name).unwrap().value.clone().unwrap().value.unwrap()
    };
    assert_eq!(value("t"), Value::StringValue("a".to_owned()));
    assert_eq!((value("b"), value("i")), (Value::BoolValue(true), Value::IntValue(7)));
    assert_eq!(value("d"), Value::DoubleValue(1.5));
    let Value::ArrayValue(numbers) = value("is") else { panic!("{:?}", value("is")) };
    assert_eq!(numbers.values[1].value, Some(Value::IntValue(2)));
    assert!(matches!(value("ts"), Value::ArrayValue(_)));
    assert_eq!(got.schemas, ["https://opentelemetry.io/schemas/1.30.0"]);

    let folder = tempfile::tempdir().unwrap();
    let wrong = "resource: {attributes: [{name: a, value: x, type: int}, {name: b, value: 1, type: inte}, {name: c, value: [1], type: int}]}\n";
    let (_, lines) = declarative(folder.path(), wrong, &[]);
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].contains("cannot be `x`") && lines[1].contains("did you mean `int`?"), "{lines:?}");
}

#[test]
fn words_of_the_schema_without_effect_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let text = "
log_level: warn
distribution: {mine: }
tracer_provider:
  id_generator: {sequential: }
  processors: [{batch: {export_timeout: 3000, exporter: {otlp_grpc: {endpoint: 'c:4317'}}}}]
logger_provider:
  processors: [{batch: {exporter: {otlp_grpc: {endpoint: 'c:4317', tls: {insecure: true}}}}}]
meter_provider:
  readers: [{periodic: {interval: 5, timeout: 100, producers: [], exporter: {otlp_http: }}}]
";
    let (config, lines) = declarative(folder.path(), text, &[]);
    for word in ["distribution", "id_generator.sequential", "`interval` cannot be `5`", "periodic.producers"]
    {
        assert!(lines.iter().any(|line| line.contains(word)), "{word}: {lines:?}");
    }
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(config.log_level, Level::Warn);
    let urls: Vec<&str> =
        config.sinks.iter().flat_map(|sink| sink.endpoints.values()).map(String::as_str).collect();
    assert_eq!(
        urls[..2],
        ["https://c:4317", "http://c:4317"],
        "gRPC is secure unless the file says otherwise"
    );
    assert_eq!(config.sinks[0].delivery.timeout, Duration::from_secs(3));
    assert_eq!(config.sinks[2].delivery.timeout, Duration::from_millis(100));
    assert!(config.sinks[2].endpoints.contains_key(&Signal::Metrics));
}

#[test]
fn a_sink_of_the_declarative_file_takes_what_is_info() {
    let folder = tempfile::tempdir().unwrap();
    let text = "tracer_provider: {processors: [{batch: {exporter: {otlp_http: }}}]}\n";
    let (config, _) = declarative(folder.path(), text, &[]);
    assert_eq!(config.sinks[0].level, Level::Info);
}

#[test]
fn the_schema_of_the_declarative_file_is_told_to_the_receiver() {
    let resource = "resource: {schema_url: 'https://opentelemetry.io/schemas/1.30.0'}\n";
    let got = recorded(&format!("{resource}{}", PROVIDERS.replace("LIMITS", "")));
    assert_eq!(got.schemas, ["https://opentelemetry.io/schemas/1.30.0"]);
}

#[test]
fn the_export_timeout_of_the_declarative_file_counts() {
    let folder = tempfile::tempdir().unwrap();
    let exporter = "exporter: {otlp_grpc: {endpoint: 'c:4317'}}";
    let text =
        format!("tracer_provider: {{processors: [{{batch: {{export_timeout: 3000, {exporter}}}}}]}}\n");
    let (config, _) = declarative(folder.path(), &text, &[]);
    assert_eq!(config.sinks[0].delivery.timeout, Duration::from_secs(3));
}
