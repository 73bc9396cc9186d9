//! Configuration texts and the models and diagnostics that are read from them.

use std::time::Duration;

use qualitytrace_telemetry::config::{
    Compression, Config, Defaults, Diagnostic, File, Level, PROCESS_SETTINGS, Role, SETTINGS, Sampler,
    Severity, Signal, Sources, Transport, VIEW_SETTINGS,
};

const QUALITYTRACE: &str = include_str!("../../../../examples/telemetry/quality-trace-config.yaml");
const TRACETEST: &str = include_str!("../../../../examples/telemetry/tracetest-config.yaml");
const METRICS: &str = include_str!("../../../../examples/telemetry/metrics.toml");
const GRPC: &str = include_str!("../../../../examples/telemetry/tracer-grpc.toml");
const HTTP: &str = include_str!("../../../../examples/telemetry/tracer-http.toml");
const ALL: &str = include_str!("../../../../examples/telemetry/all.toml");

pub(crate) fn read(
    files: &[(&str, &str)],
    environment: &[(&str, &str)],
    flags: &[(&str, &str)],
) -> (Config, Vec<Diagnostic>) {
    let own = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    };
    let mut sources = Sources::new(Defaults::new("test"));
    sources.files = own(files).into_iter().map(|(path, text)| File::new(path, text)).collect();
    sources.environment = own(environment).into_iter().collect();
    sources.flags = own(flags);
    sources.read()
}

/// Reads one file that must be without errors.
pub(crate) fn good(path: &str, text: &str) -> Config {
    let (config, diagnostics) = read(&[(path, text)], &[], &[]);
    assert!(diagnostics.iter().all(|d| d.severity < Severity::Error), "{diagnostics:#?}");
    config
}

/// All diagnostics about a file, one line each.
fn said(path: &str, text: &str) -> String {
    let (_, diagnostics) = read(&[(path, text)], &[], &[]);
    diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_yaml_of_both_products_is_read_word_for_word() {
    for (text, name) in [(QUALITYTRACE, "quality-trace"), (TRACETEST, "tracetest")] {
        let config = good("config.yaml", text);
        let [server, application] = config.sinks.as_slice() else { panic!("{config:#?}") };
        assert_eq!((server.id.as_str(), server.role), ("collector", Role::Server));
        assert_eq!((application.id.as_str(), application.role), ("collector/application", Role::Application));
        for sink in &config.sinks {
            assert_eq!(sink.service_name.as_deref(), Some(name));
            assert_eq!(sink.transport, Transport::Grpc);
            assert_eq!(sink.endpoints[&Signal::Traces], "http://otel-collector:4317");
            assert_eq!(sink.sampler, Sampler::parent_based(Sampler::AlwaysOn));
        }
        assert!(server.endpoints.contains_key(&Signal::Metrics));
        assert!(!application.endpoints.contains_key(&Signal::Metrics));
    }
}

#[test]
fn the_two_exporters_are_independent() {
    let text = "
telemetry:
  exporters:
    self: {serviceName: a, sampling: 5, metricsReaderInterval: 3s, exporter: {type: collector, collector: {endpoint: 'a:1'}}}
    app: {servicename: b, sampling: 100, exporter: {type: collector, collector: {endpoint: 'b:2'}}}
server: {telemetry: {exporter: self, applicationExporter: app}}";
    let config = good("c.yaml", text);
    assert_eq!(config.sinks[0].service_name.as_deref(), Some("a"));
    assert_eq!(config.sinks[0].sampler, Sampler::parent_based(Sampler::Ratio(0.05)));
    assert_eq!(config.sinks[0].interval, Duration::from_secs(3));
    assert_eq!(config.sinks[1].service_name.as_deref(), Some("b"));
    assert_eq!(config.sinks[1].endpoints[&Signal::Traces], "http://b:2");
}

#[test]
fn the_toml_of_the_metrics_document_is_read_word_for_word() {
    let config = good("m.toml", METRICS);
    let sink = &config.sinks[0];
    assert_eq!(sink.endpoints[&Signal::Metrics], "https://otel-collector.example.com");
    assert_eq!((sink.transport, sink.interval), (Transport::Grpc, Duration::from_secs(30)));
    assert_eq!(
        said("m.toml", METRICS),
        "m.toml:3:12: note: the path `/v1/metrics` of `metrics.open-telemetry.endpoint` is ignored: gRPC has none"
    );
}

#[test]
fn the_toml_of_the_tracer_document_is_read_word_for_word() {
    let config = good("t.toml", GRPC);
    assert_eq!(config.sinks[0].id, "tracer.otel");
    assert_eq!(config.sinks[0].endpoints[&Signal::Traces], "https://127.0.0.1");
    assert_eq!(config.sinks[0].level, Level::Info);
    assert!(!config.sinks[0].lossy);
    assert_eq!(config.sinks[0].delivery.throttle, Duration::from_secs(1));

    let config = good("t.toml", HTTP);
    let sink = &config.sinks[0];
    assert_eq!(sink.endpoints[&Signal::Traces], "https://tracing.mydomain.test/v1/otel");
    assert_eq!(sink.endpoints.len(), 1, "logs are off unless asked for");
    assert_eq!(
        (sink.headers[0].name.as_str(), sink.headers[0].value.as_str()),
        ("authorization", "<place_auth_here>")
    );
    assert_eq!(sink.level, Level::Debug);
}

#[test]
fn enable_stands_beside_enable_log_exporter() {
    let toml = "[tracer.a]\ntype = \"otel\"\ntransport = \"grpc\"\nenable = true\nenable.log-exporter = true\nenable.span-exporter = false\n";
    let yaml = "tracer:\n  a:\n    type: otel\n    transport: grpc\n    enable: true\n    enable.log-exporter: true\n    enable.span-exporter: false\n";
    let flat = "tracer.a.type: otel\ntracer.a.transport: grpc\ntracer.a.enable: true\ntracer.a.enable.log-exporter: true\ntracer.a.enable.span-exporter: false\n";
    for (path, text) in [("a.toml", toml), ("a.yaml", yaml), ("a.yaml", flat)] {
        let config = good(path, text);
        let signals: Vec<Signal> = config.sinks[0].endpoints.keys().copied().collect();
        assert_eq!(signals, [Signal::Logs], "{text}");
    }
    assert!(good("a.toml", "tracer.a.type = \"otel\"\ntracer.a.transport = \"http\"\ntracer.a.endpoint = \"h:1\"\ntracer.a.enable = false\n").sinks.is_empty());
}

#[test]
fn all_dialects_are_active_together() {
    let environment = [
        ("OTEL_TOKEN", "secret-token"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://env:4318"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"),
    ];
    let (config, diagnostics) = read(&[("c.yaml", QUALITYTRACE), ("all.toml", ALL)], &environment, &[]);
    assert!(diagnostics.iter().all(|d| d.severity < Severity::Error), "{diagnostics:#?}");
    let ids: Vec<&str> = config.sinks.iter().map(|sink| sink.id.as_str()).collect();
    let expected = [
        "collector",
        "collector/application",
        "tracer.main",
        "tracer.vendor",
        "metrics.open-telemetry",
        "otel.traces",
        "otel.metrics",
        "otel.logs",
    ];
    assert_eq!(ids, expected);
    let by = |id: &str| config.sinks.iter().find(|sink| sink.id == id).unwrap();
    assert_eq!(by("metrics.open-telemetry").headers[0].value, "Bearer secret-token");
    assert_eq!(by("tracer.vendor").endpoints[&Signal::Logs], "https://logs.example.com/v1/logs");
    assert_eq!(by("tracer.vendor").limits.spool_bytes, 256 << 20);
    assert_eq!(by("otel.logs").endpoints[&Signal::Logs], "http://env:4318/v1/logs");
    assert_eq!(by("otel.traces").headers[0].value, "a b");
    assert_eq!(by("otel.traces").compression, Compression::Zstd);
    let rendered = config.render();
    assert!(!rendered.contains("secret-token"), "{rendered}");
    assert!(rendered.contains("authorization: ***"), "{rendered}");
    assert!(rendered.contains("all.toml:5:12"), "{rendered}");
    assert!(rendered.contains("$OTEL_EXPORTER_OTLP_ENDPOINT"), "{rendered}");
}

#[test]
fn a_flag_beats_a_variable_and_a_variable_beats_a_file() {
    let key = "telemetry.exporters.collector.sampling";
    let of = |environment: &[(&str, &str)], flags: &[(&str, &str)]| {
        let (config, diagnostics) = read(&[("c.yaml", QUALITYTRACE)], environment, flags);
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
        let sink = config.sinks.into_iter().find(|sink| sink.id == "collector").unwrap();
        (sink.sampler, sink.origins["sampling"].to_string())
    };
    let half = Sampler::parent_based(Sampler::Ratio(0.5));
    let tenth = Sampler::parent_based(Sampler::Ratio(0.1));
    let variable = ("TRACETEST_TELEMETRY_EXPORTERS_COLLECTOR_SAMPLING", "50");
    assert_eq!(of(&[], &[]).1, "c.yaml:9:17");
    assert_eq!(of(&[variable], &[]), (half, format!("${}", variable.0)));
    assert_eq!(of(&[variable], &[(key, "10")]), (tenth, format!("--{key}")));
    assert_eq!(of(&[(variable.0, "")], &[]).1, "c.yaml:9:17", "an empty variable is unset");
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let check = |path: &str, text: &str, expected: &str| assert_eq!(said(path, text), expected);
    check(
        "t.toml",
        "[tracer.a]\ntype = \"otel\"\ntransport = \"gprc\"\n",
        "t.toml:3:13: error: `tracer.a.transport` cannot be `gprc`: expected grpc|http; did you mean `grpc`?",
    );
    check(
        "t.toml",
        "[tracer.a]\ntype = \"otel\"\ntransport = \"grpc\"\nendpiont = \"x:1\"\n",
        "t.toml:4:12: error: `tracer.a.endpiont` is not a known setting; did you mean `tracer.a.endpoint`?",
    );
    check(
        "t.toml",
        "[tracer.a]\ntype = \"otel\"\ntransport = \"grpc\"\nthrottle = \"soon\"\n",
        "t.toml:4:12: error: `tracer.a.throttle` cannot be `soon`: expected a duration such as `1s` or `1m30s`",
    );
    check(
        "c.yaml",
        "telemetry:\n  exporters:\n    collector:\n      exporter: {type: collector, collector: {endpoint: 'a:1'}}\nserver:\n  telemetry:\n    exporter: colector\n",
        "c.yaml:7:15: error: `server.telemetry.exporter` cannot be `colector`: expected collector; did you mean `collector`?",
    );
    check(
        "c.yaml",
        "telemetry:\n  exporters:\n    c:\n      smapling: 3\n      exporter: {type: collector, collector: {endpoint: 'a:1'}}\n",
        "c.yaml:4:17: error: `telemetry.exporters.c.smapling` is not a known setting; did you mean `telemetry.exporters.c.sampling`?",
    );
    check(
        "t.toml",
        "[tracer.a]\ntype = \"otel\"\ntransport = \"http\"\nendpoint = \"https://x/v1/otel\"\nenable.log-exporter = true\n",
        "t.toml:4:12: error: `tracer.a.endpoint` has a path of its own, so logs cannot go there too; set `endpoint.logs` of `tracer.a`",
    );
    check(
        "t.toml",
        "[tracer.a]\ntype = \"otel\"\ntransport = \"http\"\nendpoint = \"h:1\"\nheaders = [\"no colon\"]\n",
        "t.toml:5:12: error: an entry of `tracer.a.headers` is not a header that can be sent; write it as `Name: value`",
    );
    check(
        "t.toml",
        "[tracer.a]\ntype = \"otel\"\ntransport = \"grpc\"\nlossy = 1\nlossy = true\n",
        "t.toml:5:9: error: `tracer.a.lossy` is given twice",
    );
    check(
        "t.toml",
        "[tracer.a]\nlevel = \"info\"\n",
        "t.toml:2:9: error: `tracer.a` has no `type`; set it to `open-telemetry`",
    );
    assert!(said("c.yaml", "a: [1, 2").contains("c.yaml:1:"), "{}", said("c.yaml", "a: [1, 2"));
    assert!(said("c.toml", "a = = 1").contains("this is not TOML"), "{}", said("c.toml", "a = = 1"));
}

#[test]
fn a_setting_without_a_value_is_unset() {
    let text = |value: &str| {
        format!(
            "telemetry:\n  propagators:{value}\n  service-name:\ntracer:\n  a:\n    type: otel\n    transport: grpc\n    redact:{value}\n    headers:\n"
        )
    };
    let unset = good("c.yaml", &text("\n    # - all.of.it"));
    let plain = good("c.yaml", "tracer: {a: {type: otel, transport: grpc}}");
    assert_eq!(unset.propagators, plain.propagators);
    assert_eq!(unset.sinks[0].redact, plain.sinks[0].redact);
    assert!(!plain.sinks[0].redact.is_empty());
    assert_eq!(unset.service_name, "test");
    let none = good("c.yaml", &text(" []"));
    assert_eq!((none.propagators.to_string().as_str(), none.sinks[0].redact.len()), ("none", 0));
    let no_address = "tracer:\n  a:\n    type: otel\n    transport: http\n    endpoint.traces:\n";
    assert!(
        said("c.yaml", no_address).contains("`tracer.a` has no `endpoint`"),
        "{}",
        said("c.yaml", no_address)
    );
}

#[test]
fn macros_are_replaced_in_every_setting() {
    let text = "
telemetry:
  service-name: 'shop-%{env:STAGE}%'
  spool.path: '%{env:STATE}%/spool'
  propagators: ['%{env:FORMATS}%', xray]
  exporters: {main: {endpoint: 'c:1', redact: ['%{env:STAGE}%.*', other], targets: '%{env:TARGETS}%'}}
server: {telemetry: {exporter: '%{env:EXPORTER}%'}}";
    let environment = [
        ("STAGE", "dev"),
        ("STATE", "/var/lib/shop"),
        ("FORMATS", "b3,jaeger"),
        ("TARGETS", "h2=debug,hyper=info"),
        ("EXPORTER", "main"),
    ];
    let (config, diagnostics) = read(&[("c.yaml", text)], &environment, &[]);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    assert_eq!(config.service_name, "shop-dev");
    assert_eq!(config.spool_path.unwrap().to_str(), Some("/var/lib/shop/spool"));
    assert_eq!(config.propagators.to_string(), "b3, jaeger, xray");
    assert_eq!(config.sinks[0].redact, ["dev.*", "other"]);
    assert_eq!(config.sinks[0].targets.len(), 2);
    assert_eq!(
        said("c.yaml", "telemetry:\n  propagators:\n    - b3\n    - '%{env:NONE}%'\n"),
        "c.yaml:4:7: error: `telemetry.propagators` cannot be read: the variable `NONE` is not set"
    );
}

#[test]
fn a_value_of_the_wrong_kind_is_named_with_its_place() {
    let check = |text: &str, expected: &str| assert_eq!(said("c.yaml", text), expected);
    check(
        "telemetry:\n  service-name: [a, b]\n",
        "c.yaml:2:17: error: `telemetry.service-name` cannot be `a list or map`: expected a text",
    );
    check(
        "server:\n  telemetry:\n    exporter: [a]\n",
        "c.yaml:3:15: error: `server.telemetry.exporter` cannot be `a list or map`: expected a name under `telemetry.exporters`",
    );
    check(
        "telemetry:\n  propagators: [b3, [xray]]\n",
        "c.yaml:2:21: error: an item of `telemetry.propagators` is a list or map; write a single value",
    );
    let tracer = "tracer:\n  a:\n    type: otel\n    transport: grpc\n";
    check(
        &format!("{tracer}    redact: {{}}\n"),
        "c.yaml:5:13: error: `tracer.a.redact` cannot be `a map`: expected a list of attribute keys, `*` stands for any text",
    );
    check(
        &format!("{tracer}    headers: {{x-a: [b]}}\n"),
        "c.yaml:5:20: error: `tracer.a.headers.x-a` cannot be `a list or map`: expected a text",
    );
}

#[test]
fn notes_about_an_endpoint_keep_its_query_secret() {
    let grpc = "[tracer.a]\ntype = \"otel\"\ntransport = \"grpc\"\nendpoint = \"https://api.vendor.io/otlp?api-key=s3cret\"\n";
    assert_eq!(
        said("t.toml", grpc),
        "t.toml:4:12: note: the path `/otlp?api-key=***` of `tracer.a.endpoint` is ignored: gRPC has none"
    );
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://api.vendor.io?api-key=s3cret"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
    ];
    let (config, diagnostics) = read(&[], &variables, &[]);
    assert!(
        diagnostics.iter().all(|diagnostic| !diagnostic.to_string().contains("s3cret")),
        "{diagnostics:?}"
    );
    assert_eq!(config.sinks[0].endpoints[&Signal::Traces], "https://api.vendor.io");
}

#[test]
fn keys_of_the_rest_of_the_server_are_left_alone() {
    assert_eq!(said("c.yaml", "postgres:\n  host: h\nserver:\n  httpPort: 1\npoolingConfig: {a: 1}\n"), "");
}

#[test]
fn the_declarative_file_is_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/telemetry/otel-config.yaml");
    let (config, diagnostics) =
        read(&[], &[("OTEL_CONFIG_FILE", path), ("OTEL_TOKEN", "t"), ("OTEL_SERVICE_NAME", "ignored")], &[]);
    let said: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    let ignored = "$OTEL_SERVICE_NAME: note: `OTEL_SERVICE_NAME` has no effect: `OTEL_CONFIG_FILE` is set, and overrides it";
    assert_eq!(said, [ignored]);
    assert_eq!(config.service_name, "quality-trace");
    let ids: Vec<&str> = config.sinks.iter().map(|sink| sink.id.as_str()).collect();
    assert_eq!(ids, ["declarative.traces.0", "declarative.logs.0", "declarative.metrics.0"]);
    assert_eq!(config.sinks[0].sampler, Sampler::parent_based(Sampler::Ratio(0.25)));
    assert_eq!(config.sinks[0].headers[0].value, "t");
    assert_eq!(config.sinks[0].compression, Compression::Gzip);
    assert_eq!(config.sinks[2].interval, Duration::from_secs(30));
    assert_eq!(config.sinks[2].transport, Transport::Grpc);
    let folder = tempfile::tempdir().unwrap();
    let check = |text: &str, expected: &str| {
        let path = folder.path().join("o.yaml");
        std::fs::write(&path, text).unwrap();
        let (_, diagnostics) = read(&[], &[("OTEL_CONFIG_FILE", path.to_str().unwrap())], &[]);
        let said: Vec<String> =
            diagnostics.iter().map(|d| d.to_string().replace(path.to_str().unwrap(), "o.yaml")).collect();
        assert_eq!(said.join("\n"), expected);
    };
    check(
        "file_format: '3.0'\n",
        "o.yaml:1:14: error: `file_format` cannot be `3.0`: expected 1.0|1.1; did you mean `1.0`?",
    );
    check(
        "file_format: '1.1'\ntracer_provder: {}\n",
        "o.yaml:2:1: error: `tracer_provder` is not a known setting; did you mean `tracer_provider`?",
    );
}

#[test]
fn every_setting_is_documented() {
    let text = include_str!("../../../../docs/telemetry.md");
    let all = PROCESS_SETTINGS.iter().chain(SETTINGS).chain(VIEW_SETTINGS);
    for setting in all.filter(|setting| setting.is_key) {
        let name = format!("`{}`", setting.name);
        let rows = text.lines().filter(|line| line.starts_with('|')).map(|line| line.split(" | "));
        let mut rows = rows.map(Iterator::collect::<Vec<_>>).filter(|columns| columns.len() == 3);
        let is_first =
            |columns: &Vec<&str>| columns[0].trim_start_matches("| ").split(", ").any(|one| one == name);
        let row = rows.find(is_first).unwrap_or_else(|| panic!("{name} has no row in docs/telemetry.md"));
        // Several settings of one row have their defaults in the same order.
        let names: Vec<&str> = row[0].trim_start_matches("| ").split(", ").collect();
        let column = row[2].trim_end_matches(" |");
        let at = names.iter().position(|one| *one == name).filter(|_| names.len() > 1);
        let shown = at.map_or(column, |at| column.split(", ").nth(at).unwrap_or(column)).replace('`', "");
        let default = setting.default_text();
        let is_fixed = setting.unset.is_empty();
        assert!(!is_fixed || shown == default, "the default of {name} is {default}, not {shown}");
    }
    for example in [QUALITYTRACE, METRICS, GRPC, HTTP] {
        assert!(text.contains(example), "an example in docs/telemetry.md differs from its file");
    }
}

#[test]
fn no_text_makes_the_readers_panic() {
    use rand::{Rng as _, SeedableRng as _};
    let mut rng = rand::rngs::StdRng::seed_from_u64(5);
    let declarative = include_str!("../../../../examples/telemetry/otel-config.yaml");
    let texts = [QUALITYTRACE, METRICS, GRPC, HTTP, ALL, declarative];
    let pieces = [
        "[", "]", "{", "}", "\"", "'", "=", ":", ".", "-", "*a", "&a ", "\n", "  ", "%{", "}%", "${",
        "\u{e9}", "\0", "9d",
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("o.yaml");
    for round in 0..1_500 {
        let mut text: Vec<char> = texts[round % texts.len()].chars().collect();
        for _ in 0..rng.random_range(1..6) {
            let at = rng.random_range(0..text.len());
            match rng.random_range(0..3) {
                0 => drop(text.drain(at..text.len().min(at + rng.random_range(1..20)))),
                1 => drop(text.splice(at..at, pieces[rng.random_range(0..pieces.len())].chars())),
                _ => text.truncate(at.max(1)),
            }
            if text.is_empty() {
                text.push('x');
            }
        }
        let text: String = text.into_iter().collect();
        std::fs::write(&path, &text).unwrap();
        let (config, _) = read(
            &[("a.toml", &text), ("a.yaml", &text)],
            &[("OTEL_CONFIG_FILE", path.to_str().unwrap())],
            &[],
        );
        config.render();
    }
    for deep in [
        "[".repeat(100_000),
        "a = ".to_owned() + &"[".repeat(100_000),
        "a: ".repeat(50_000),
        "{a: ".repeat(50_000),
    ] {
        read(&[("a.toml", &deep), ("a.yaml", &deep)], &[], &[]);
    }
    let mut bomb = "b0: &b0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for i in 1..12 {
        let line = [format!("b{i}: &b{i} ["), vec![format!("*b{}", i - 1); 9].join(","), "]\n".to_owned()];
        bomb += &line.concat();
    }
    assert!(said("a.yaml", &bomb).contains("too large"));
}
