//! Diagnostics about a declarative file (`OTEL_CONFIG_FILE`) and about headers that would break every export.

use std::process::Command;

use crate::program;

/// Runs `telemetry check` with a declarative file; returns whether it is accepted, and the output.
fn check(text: &str) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("otel.yaml");
    std::fs::write(&file, format!("file_format: '1.1'\n{text}\n")).unwrap();
    std::fs::write(folder.path().join("empty.toml"), "").unwrap();
    told(
        Command::new(program())
            .args(["telemetry", "check", "--config", "empty.toml"])
            .current_dir(folder.path())
            .env("OTEL_CONFIG_FILE", &file),
    )
}

fn told(command: &mut Command) -> (bool, String) {
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

/// A provider of traces with this exporter.
fn exporter(settings: &str) -> String {
    format!("tracer_provider: {{processors: [{{batch: {{exporter: {{otlp_http: {{{settings}}}}}}}}}]}}")
}

#[test]
fn a_wrong_shape_is_an_error_with_its_place() {
    let one = exporter("");
    let cases = [
        (
            "propagator: {composite: [b3]}".to_owned(),
            "otel.yaml:2:26: error: `propagator.composite.0` is a mapping",
        ),
        ("propagator: {composite: b3}".to_owned(), "`propagator.composite` is a list"),
        ("propagator: {composite: [{b4: }]}".to_owned(), "`propagator` cannot be `b4`"),
        ("propagator: b3".to_owned(), "`propagator` is a mapping"),
        (exporter("headers: {authorization: b}"), "`headers` is a list"),
        (
            exporter("headers: [{name: Content-Length, value: '5'}]"),
            "`content-length` says how the message is to be read",
        ),
        (exporter("headers_list: 'Transfer-Encoding=chunked'"), "`transfer-encoding` says how"),
        ("attribute_limits: 5".to_owned(), "otel.yaml:2:19: error: `attribute_limits` is a mapping"),
        (
            one.replace("{processors", "{sampler: {always_off: , always_on: }, processors"),
            "`sampler` is exactly one of always_on|",
        ),
        (
            one.replace("{batch: ", "{simple: {exporter: {otlp_http: }}, batch: "),
            "`processors` is exactly one of batch|simple",
        ),
        (one.replace("otlp_http: {}", "otlp_http: {}, otlp_grpc: {}"), "`exporter` is exactly one of"),
        (one.replace("{batch: ", "{5: "), "`processors.5` is not a known setting"),
        ("tracer_provider: {processors: 5}".to_owned(), "`tracer_provider.processors` is a list"),
        ("tracer_provider: {processors: [{batch: {}}]}".to_owned(), "`batch` needs an `exporter`"),
        ("meter_provider: {readers: {periodic: }}".to_owned(), "`meter_provider.readers` is a list"),
        ("resource: {attributes: {service.name: x}}".to_owned(), "`resource.attributes` is a list"),
        (exporter("tls: {cert_file: /x}"), "`tls.key` is missing: a certificate and its key go together"),
        (exporter("endpoint: '${1A}'"), "`${1A}` is not a reference"),
    ];
    for (text, expected) in cases {
        let (accepted, said) = check(&text);
        assert!(!accepted && said.contains(expected), "{text}: {said}");
    }
}

#[test]
fn what_counts_for_nothing_is_told_and_zero_is_no_limit() {
    let (accepted, said) = check(&exporter("endpoint: '${QT_NOPE}'"));
    assert!(accepted && said.contains("the variable `QT_NOPE` is not set"), "{said}");
    let (accepted, said) = check(&exporter("endpoint: '${QT_NOPE:-http://c:4318/v1/traces}'"));
    assert!(accepted && !said.contains("is not set"), "{said}");
    let (accepted, said) = check(&exporter("default_histogram_aggregation: nonsense"));
    assert!(accepted && said.contains("`otlp.default_histogram_aggregation` has no effect here"), "{said}");
    let (accepted, said) = check(&exporter("timeout: 0"));
    assert!(accepted && said.contains("timeout        3600s"), "{said}");
    assert!(said.contains("`timeout` is 0, which means no limit"), "{said}");
    let (accepted, said) =
        check(&exporter("timeout: 500").replace("{exporter", "{export_timeout: 0, exporter"));
    assert!(accepted && said.contains("timeout        500ms"), "{said}");
}

#[test]
fn headers_that_frame_a_message_are_refused_in_every_dialect() {
    for name in [
        "Content-Length",
        "transfer-encoding",
        "Host",
        "content-type",
        "Content-Encoding",
        "te",
        "upgrade",
        "grpc-timeout",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let tracer = "[tracer.a]\ntype = \"otel\"\ntransport = \"http\"\n";
        let expected = format!("`{}` says how the message is to be read", name.to_lowercase());
        for settings in [format!("headers = [\"{name}: 5\"]\n"), format!("headers.{name} = \"5\"\n")] {
            std::fs::write(folder.path().join("c.toml"), format!("{tracer}{settings}")).unwrap();
            let (accepted, said) = told(
                Command::new(program())
                    .args(["config", "check", "--config", "c.toml"])
                    .current_dir(folder.path()),
            );
            assert!(!accepted && said.contains(&expected), "{settings}: {said}");
        }
        std::fs::write(folder.path().join("c.toml"), "").unwrap();
        let (_, said) = told(
            Command::new(program())
                .args(["config", "check", "--config", "c.toml"])
                .current_dir(folder.path())
                .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318")
                .env("OTEL_EXPORTER_OTLP_HEADERS", format!("{name}=5")),
        );
        assert!(said.contains(&expected), "{name}: {said}");
    }
}

/// Runs `config check` on a file and variables; returns whether they are accepted, and the output.
fn config_check(text: &str, variables: &[(&str, &str)]) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("c.toml"), text).unwrap();
    let mut command = Command::new(program());
    command.args(["config", "check", "--config", "c.toml"]).current_dir(folder.path());
    told(command.envs(variables.iter().copied()))
}

#[test]
fn settings_that_send_nothing_or_are_not_heard_are_told() {
    let otlp = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318");
    let (accepted, said) = config_check("", &[otlp, ("OTEL_TRACES_SAMPLER_ARG", "0.1")]);
    assert!(
        accepted
            && said.contains("`OTEL_TRACES_SAMPLER_ARG` has no effect: `OTEL_TRACES_SAMPLER` is not set"),
        "{said}"
    );
    let sizes = [("OTEL_BSP_MAX_QUEUE_SIZE", "10"), ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "20")];
    let (accepted, said) = config_check("", &[otlp, sizes[0], sizes[1]]);
    assert!(
        accepted && said.contains("a batch of 20 items is larger than the queue, which holds 10"),
        "{said}"
    );
    let (accepted, said) = config_check("[metrics.opentelemetry]\ntransport = \"grpc\"\n", &[]);
    assert!(!accepted && said.contains("did you mean `metrics.open-telemetry.transport`?"), "{said}");
    let tracer = "[tracer.a]\ntype = \"otel\"\ntransport = \"http\"\nendpoint = \"http://c:4318\"\n";
    let (accepted, said) = config_check(&format!("{tracer}level = \"disable\"\n"), &[]);
    assert!(
        accepted && said.contains("c.toml:5:9: warning: `tracer.a` sends nothing: its `level` is"),
        "{said}"
    );
    let (accepted, said) = config_check(&format!("{tracer}[tracer.b]\n"), &[]);
    assert!(!accepted && said.contains("c.toml:5:1: error: `tracer.b` is empty"), "{said}");
    let (accepted, said) = config_check(&format!("[tracer]\n{tracer}[telemetry]\n[server]\n"), &[]);
    assert!(accepted && !said.contains("warning"), "empty blocks are no mistake: {said}");
}
