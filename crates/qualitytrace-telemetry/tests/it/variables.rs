//! Settings from the standard variables, and settings that several formats share.

use std::time::Duration;

use qualitytrace_telemetry::config::{Compression, Sampler, Severity, Signal, Sink, Temporality, Transport};

use crate::config::{good, read};

#[test]
fn standard_variables_follow_the_specification() {
    let of = |pairs: &[(&str, &str)]| read(&[], pairs, &[]);
    assert!(of(&[]).0.sinks.is_empty(), "nothing is sent unless asked for");
    assert!(of(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]).0.sinks.is_empty());
    assert!(!of(&[("OTEL_SDK_DISABLED", "TRUE")]).0.enabled);
    let (config, _) = of(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/base/"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t:1/own"),
        ("OTEL_LOGS_EXPORTER", "none"),
        ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "0.5"),
        ("OTEL_SERVICE_NAME", "mine"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a=b%2Cc,service.name=other"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "ca.pem"),
    ]);
    assert_eq!(config.service_name, "mine");
    assert_eq!(config.resource, [("a".to_owned(), "b,c".into())]);
    assert_eq!(config.sinks.len(), 2);
    assert_eq!(config.sinks[0].endpoints[&Signal::Traces], "http://t:1/own");
    assert_eq!(config.sinks[0].sampler, Sampler::parent_based(Sampler::Ratio(0.5)));
    assert_eq!(config.sinks[0].delivery.timeout, Duration::from_millis(2500));
    assert_eq!(config.sinks[0].tls.ca.as_deref().unwrap().to_str(), Some("ca.pem"));
    assert_eq!(config.sinks[1].endpoints[&Signal::Metrics], "http://c:4318/base/v1/metrics");
    let (config, diagnostics) =
        of(&[("OTEL_TRACES_EXPORTER", "otlp"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grcp")]);
    assert_eq!(config.sinks[0].endpoints[&Signal::Traces], "http://localhost:4318/v1/traces");
    assert_eq!(
        diagnostics[0].to_string(),
        "$OTEL_EXPORTER_OTLP_PROTOCOL: warning: `OTEL_EXPORTER_OTLP_PROTOCOL` cannot be `grcp`: expected grpc|http/protobuf; did you mean `grpc`?"
    );
}

#[test]
fn json_is_understood_and_sent_as_protobuf() {
    let (config, diagnostics) =
        read(&[], &[("OTEL_TRACES_EXPORTER", "otlp"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")], &[]);
    assert_eq!(config.sinks[0].transport, Transport::Http);
    assert_eq!(diagnostics[0].severity, Severity::Note);
}

#[test]
fn every_standard_variable_has_its_effect() {
    let (config, diagnostics) = read(
        &[],
        &[
            ("OTEL_METRICS_EXPORTER", "otlp"),
            ("OTEL_TRACES_EXPORTER", "otlp"),
            ("OTEL_LOGS_EXPORTER", "otlp"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"),
            ("OTEL_EXPORTER_OTLP_INSECURE", "true"),
            ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "https://logs/own"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=b,authorization=Bearer%20x"),
            ("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "c=d"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1500"),
            ("OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", "2500"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_EXPORTER_OTLP_LOGS_COMPRESSION", "zstd"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "ca.pem"),
            ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "own.pem"),
            ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "own.key"),
            ("OTEL_BSP_SCHEDULE_DELAY", "111"),
            ("OTEL_BLRP_SCHEDULE_DELAY", "222"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "333"),
            ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "Delta"),
            ("OTEL_TRACES_SAMPLER", "always_off"),
        ],
        &[],
    );
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let [traces, metrics, logs] = config.sinks.as_slice() else { panic!("{config:?}") };
    assert_eq!(traces.endpoints[&Signal::Traces], "http://collector:4317");
    assert_eq!(logs.endpoints[&Signal::Logs], "https://logs/own");
    assert_eq!([traces.transport, logs.transport], [Transport::Grpc, Transport::Http]);
    let pairs =
        |sink: &Sink| sink.headers.iter().map(|h| format!("{}={}", h.name, h.value)).collect::<Vec<_>>();
    assert_eq!(pairs(traces), ["a=b", "authorization=Bearer x"]);
    assert_eq!(pairs(logs), ["c=d"]);
    let ms = |sink: &Sink| sink.delivery.timeout.as_millis();
    assert_eq!([ms(traces), ms(logs)], [1500, 2500]);
    assert_eq!([traces.compression, logs.compression], [Compression::Gzip, Compression::Zstd]);
    let tls = [&metrics.tls.ca, &metrics.tls.certificate, &metrics.tls.key];
    assert_eq!(tls.map(|file| file.as_deref().unwrap().to_str().unwrap()), ["ca.pem", "own.pem", "own.key"]);
    assert_eq!(traces.delivery.throttle, Duration::from_millis(111));
    assert_eq!(logs.delivery.throttle, Duration::from_millis(222));
    assert_eq!(metrics.interval, Duration::from_millis(333));
    assert_eq!(metrics.temporality, Temporality::Delta);
    assert_eq!(traces.sampler, Sampler::AlwaysOff);
    let (_, diagnostics) = read(
        &[],
        &[("OTEL_METRICS_EXPORTER", "otlp"), ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "detla")],
        &[],
    );
    assert_eq!(
        diagnostics[0].to_string(),
        "$OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: warning: `OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE` cannot be `detla`: expected cumulative|delta|lowmemory; did you mean `delta`?"
    );
}

#[test]
fn temporality_is_a_setting_of_every_dialect() {
    let toml = "[tracer.a]\ntype = \"otel\"\ntransport = \"grpc\"\nenable.metric-exporter = true\ntemporality = \"delta\"\n[metrics.open-telemetry]\ntransport = \"grpc\"\ntemporality = \"lowmemory\"\n";
    let yaml = "telemetry: {exporters: {c: {temporality: delta, exporter: {type: collector, collector: {endpoint: 'a:1'}}}}}\nserver: {telemetry: {exporter: c}}\n";
    let of =
        |path: &str, text: &str| good(path, text).sinks.iter().map(|s| s.temporality).collect::<Vec<_>>();
    assert_eq!(of("a.toml", toml), [Temporality::Delta, Temporality::LowMemory]);
    assert_eq!(of("a.yaml", yaml), [Temporality::Delta]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("o.yaml");
    let text = "file_format: '1.1'\nmeter_provider: {readers: [{periodic: {exporter: {otlp_http: {temporality_preference: low_memory}}}}]}\n";
    std::fs::write(&path, text).unwrap();
    let (config, diagnostics) = read(&[], &[("OTEL_CONFIG_FILE", path.to_str().unwrap())], &[]);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    assert_eq!(config.sinks[0].temporality, Temporality::LowMemory);
    assert!(config.render().contains("lowmemory"), "{}", config.render());
}

#[test]
fn headers_come_from_files_and_variables() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("token"), "from-file\n").unwrap();
    let text = "[tracer.a]\ntype = \"otel\"\ntransport = \"grpc\"\nheaders = [\"Authorization: Bearer %{file:token}%\", \"X-Key: %{env:KEY}%\"]\n";
    let path = folder.path().join("t.toml").to_str().unwrap().to_owned();
    let (config, diagnostics) = read(&[(&path, text)], &[("KEY", "from-variable")], &[]);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let values: Vec<&str> = config.sinks[0].headers.iter().map(|header| header.value.as_str()).collect();
    assert_eq!(values, ["Bearer from-file", "from-variable"]);
    let (_, diagnostics) = read(&[("t.toml", text)], &[], &[]);
    assert!(diagnostics.iter().all(|d| d.severity == Severity::Error), "{diagnostics:?}");
    assert_eq!(diagnostics.len(), 2, "a missing file and a missing variable are both named");
}
