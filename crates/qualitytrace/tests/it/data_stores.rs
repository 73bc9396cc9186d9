//! `datastore test` and `datastore collector-config`.

mod machine;

use std::process::{Command, Output};

use crate::late_spans_load::program::Served;
use crate::program;

/// Types whose exporter only the Collector's contrib distribution has: the peer of the tests cannot check them.
const CONTRIB: [&str; 5] = ["opensearch", "awsxray", "azureappinsights", "clickhouse", "datadog"];

fn run(folder: &std::path::Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_qualitytrace"))
        .args(arguments)
        .current_dir(folder)
        .env("HOME", folder.join("home"))
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn a_connection_test_names_the_step_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    let url = format!("http://{}", server.http);
    let closed = qualitytrace_testing::port();
    let file = format!(
        "type: DataStore\nspec:\n  name: Z\n  type: zipkin\n  zipkin: {{url: 'http://127.0.0.1:{closed}'}}\n"
    );
    std::fs::write(folder.path().join("store.yaml"), file).unwrap();
    let test = ["datastore", "test", "-f", "store.yaml", "--server-url", &url];
    let tested = run(folder.path(), &test);
    let out = text(&tested.stdout);
    assert_eq!(tested.status.code(), Some(1), "{out}{}", text(&tested.stderr));
    assert!(out.contains("port            warning"), "{out}");
    assert!(out.contains("connectivity    failed") && out.contains("start Zipkin"), "{out}");
    let own = run(folder.path(), &["datastore", "test", "--server-url", &url]);
    assert_eq!(own.status.code(), Some(0), "{}", text(&own.stderr));
    assert!(text(&own.stdout).contains("spans are sent to the server"), "{}", text(&own.stdout));
}

#[test]
fn the_collector_accepts_the_configuration_of_each_type() {
    let folder = tempfile::tempdir().unwrap();
    let unknown = run(folder.path(), &["datastore", "collector-config", "nosuch"]);
    assert_eq!(unknown.status.code(), Some(1));
    let told = text(&unknown.stderr);
    let (_, kinds) = told.trim().split_once("there are: ").unwrap();
    let Some(collector) = qualitytrace_testing::peer("OTELCOL") else { return };
    let kinds: Vec<&str> = kinds.split(", ").collect();
    assert!(kinds.len() >= 20, "{kinds:?}");
    for kind in kinds {
        let printed = run(folder.path(), &["datastore", "collector-config", kind]);
        assert_eq!(printed.status.code(), Some(0), "{kind}: {}", text(&printed.stderr));
        let path = folder.path().join("collector.yaml");
        std::fs::write(&path, &printed.stdout).unwrap();
        let mut validate = Command::new(&collector);
        validate.arg("validate").arg("--config").arg(&path);
        for name in ["DYNATRACE_URL", "INSTANA_ENDPOINT", "DASH0_ENDPOINT", "SUMOLOGIC_OTLP_URL"] {
            validate.env(name, "https://store.example:4317");
        }
        for name in ["ELASTIC_APM_SECRET_TOKEN", "SPLUNK_REALM", "SPLUNK_ACCESS_TOKEN", "NEW_RELIC_KEY"] {
            validate.env(name, "x");
        }
        for name in ["DYNATRACE_TOKEN", "HONEYCOMB_KEY", "INSTANA_KEY", "LIGHTSTEP_TOKEN", "DASH0_TOKEN"] {
            validate.env(name, "x");
        }
        let validated = validate.output().unwrap();
        let said = text(&validated.stderr);
        if CONTRIB.contains(&kind) {
            assert!(said.contains("unknown type"), "{kind} can be checked: {said}");
        } else {
            assert!(validated.status.success(), "{kind}: {said}");
        }
    }
}
