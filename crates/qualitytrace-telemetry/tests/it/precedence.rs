//! Which layer decides when layers name the same setting in different ways.

use qualitytrace_telemetry::config::{Config, Header, Severity};

use crate::config::read;

type Pairs<'a> = &'a [(&'a str, &'a str)];

/// Reads a file, variables and flags that must be without errors.
fn good(text: &str, environment: Pairs<'_>, flags: Pairs<'_>) -> Config {
    let (config, diagnostics) = read(&[("c.yaml", text)], environment, flags);
    assert!(diagnostics.iter().all(|d| d.severity < Severity::Error), "{diagnostics:#?}");
    config
}

#[test]
fn a_higher_layer_wins_whatever_name_it_uses() {
    const BLOCK: &str = "telemetry.exporters.main";
    let settings: [(&str, &str, &[&str]); 6] = [
        ("endpoint", "c:1", &["endpoint", "exporter.collector.endpoint"]),
        ("compression", "gzip", &["compression", "exporter.collector.compression"]),
        ("batch.items", "7", &["batch.items", "exporter.collector.batch.items"]),
        ("service-name", "s", &["service-name", "serviceName", "service_name"]),
        ("interval", "3s", &["interval", "metricsReaderInterval", "metrics-reader-interval"]),
        ("tls.ca", "ca.pem", &["tls.ca", "tls.caFile", "exporter.collector.tls.ca"]),
    ];
    for (setting, value, names) in settings {
        let base = if setting == "endpoint" { "" } else { "telemetry.exporters.main.endpoint: 'b:1'\n" };
        let check = |text: &str, environment: Pairs<'_>, flags: Pairs<'_>, expected: &str| {
            let text = format!("{base}{text}server.telemetry.exporter: main\n");
            let config = good(&text, environment, flags);
            assert_eq!(config.sinks[0].origins[setting].to_string(), expected, "{text}");
        };
        for of_flag in names {
            let flag = format!("{BLOCK}.{of_flag}");
            let flags = [(flag.as_str(), value)];
            let by_flag = format!("--{flag}");
            for of_other in names {
                let key = format!("{BLOCK}.{of_other}");
                let line = format!("{key}: '{value}'\n");
                let variable = format!("QUALITYTRACE_{}", key.replace(['.', '-'], "_").to_ascii_uppercase());
                let variables = [(variable.as_str(), value)];
                check(&line, &[], &flags, &by_flag);
                check("", &variables, &flags, &by_flag);
                let line = format!("{flag}: '{value}'\n");
                check(&line, &variables, &[], &format!("${variable}"));
            }
        }
    }
}

#[test]
fn a_variable_sets_a_nested_setting_that_no_file_names() {
    let text = "telemetry.exporters.main.endpoint: 'b:1'\nserver.telemetry.exporter: main\n";
    let name = "TELEMETRY_EXPORTERS_MAIN_EXPORTER_COLLECTOR_COMPRESSION";
    let [ours, theirs] = ["QUALITYTRACE_", "TRACETEST_"].map(|prefix| format!("{prefix}{name}"));
    let config = good(text, &[(theirs.as_str(), "gzip")], &[]);
    assert_eq!(config.sinks[0].origins["compression"].to_string(), format!("${theirs}"));
    let short = "QUALITYTRACE_TELEMETRY_EXPORTERS_MAIN_COMPRESSION";
    for first in [ours.as_str(), short] {
        let config = good(text, &[(theirs.as_str(), "gzip"), (first, "zstd")], &[]);
        assert_eq!(config.sinks[0].origins["compression"].to_string(), format!("${first}"));
    }
}

#[test]
fn a_name_in_other_letters_is_the_same_sink() {
    let text = "
telemetry: {exporters: {Main: {endpoint: 'b:1'}}, views: {Slow: {instrument-name: a}}}
tracer: {A: {type: otel, transport: grpc}}
server: {telemetry: {exporter: main}}";
    let flags = [
        ("telemetry.exporters.MAIN.batch.items", "7"),
        ("tracer.a.level", "warn"),
        ("telemetry.views.slow.unit", "s"),
    ];
    let config = good(text, &[], &flags);
    let ids: Vec<&str> = config.sinks.iter().map(|sink| sink.id.as_str()).collect();
    assert_eq!((ids, config.metrics.views.len()), (vec!["Main", "tracer.A"], 1));
    assert_eq!(config.sinks[0].delivery.batch_items, 7);
}

#[test]
fn two_names_of_a_setting_in_one_file_are_given_twice() {
    let text = "
telemetry.exporters.main.endpoint: 'a:1'
telemetry.exporters.main.exporter.collector.endpoint: 'b:1'
telemetry.exporters.main.interval: 1s
telemetry.exporters.main.metricsReaderInterval: 2s
server.telemetry.exporter: main
";
    let (_, diagnostics) = read(&[("c.yaml", text)], &[], &[]);
    let said: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    let expected = [
        "c.yaml:3:55: error: `telemetry.exporters.main.exporter.collector.endpoint` is given twice",
        "c.yaml:5:49: error: `telemetry.exporters.main.metricsReaderInterval` is given twice",
    ];
    assert_eq!(said, expected);
}

#[test]
fn headers_of_a_higher_layer_replace_those_of_a_lower_one() {
    let headers = |text: &str, flags: Pairs<'_>| {
        let text = format!("tracer: {{a: {{type: otel, transport: grpc, headers: {text}}}}}");
        let config = good(&text, &[], flags);
        let shown = |header: &Header| format!("{}={}", header.name, header.value);
        config.sinks[0].headers.iter().map(shown).collect::<Vec<_>>()
    };
    for of_file in ["{x-a: file, x-b: file}", "['X-A: file', 'X-B: file']"] {
        assert_eq!(headers(of_file, &[]), ["x-a=file", "x-b=file"]);
        assert_eq!(headers(of_file, &[("tracer.a.headers", "X-A: flag")]), ["x-a=flag"]);
        let mut one = headers(of_file, &[("tracer.a.headers.X-A", "flag")]);
        one.sort();
        assert_eq!(one, ["x-a=flag", "x-b=file"]);
    }
}

#[test]
fn a_flag_beats_the_standard_variables_and_the_declarative_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("o.yaml");
    let declarative = "
file_format: '1.1'
resource: {attributes: [{name: service.name, value: declared}]}
propagator: {composite: [{jaeger: {}}]}
meter_provider: {exemplar_filter: always_on, readers: []}";
    std::fs::write(&path, declarative).unwrap();
    let standard = [
        ("OTEL_SERVICE_NAME", "variable"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=attribute"),
        ("OTEL_PROPAGATORS", "jaeger"),
        ("OTEL_METRICS_EXEMPLAR_FILTER", "always_on"),
    ];
    let flags = [
        ("telemetry.serviceName", "flag"),
        ("telemetry.propagators", "b3"),
        ("telemetry.exemplar-filter", "always_off"),
    ];
    let file = "telemetry: {service-name: file, propagators: [xray]}";
    for environment in [&standard[..], &standard[1..], &[("OTEL_CONFIG_FILE", path.to_str().unwrap())]] {
        let shown = |flags: Pairs<'_>| {
            let config = good(file, environment, flags);
            (config.service_name, config.propagators.to_string(), config.metrics.exemplars)
        };
        let (name, propagators, exemplars) = shown(&[]);
        assert!(name != "file" && propagators == "jaeger", "{name} {propagators}");
        let by_flags = shown(&flags);
        assert_eq!((by_flags.0.as_str(), by_flags.1.as_str()), ("flag", "b3"));
        assert_ne!(by_flags.2, exemplars);
    }
}
