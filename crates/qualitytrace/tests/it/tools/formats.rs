//! `--output json` and `yaml`, wherever they are offered.

use std::path::Path;

use serde_json::{Value, json};

use super::traces::{TRACE, otlp};
use super::{run, run_with, stderr, stdout};
use crate::late_spans_load::program::Served;
use crate::program;

/// The JSON that a command prints.
fn document(folder: &Path, arguments: &[&str]) -> Value {
    let output = run(folder, &[arguments, &["-o", "json"]].concat());
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}{}", stdout(&output), stderr(&output)))
}

#[tokio::test]
async fn commands_about_a_server_answer_in_json() {
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let (here, url) = (folder.path(), server.url(""));
    std::fs::write(here.join("trace.json"), otlp(TRACE).to_string()).unwrap();
    let on_server = |arguments: &[&str]| document(here, &[arguments, &["-s", &url]].concat());

    let version = on_server(&["version"]);
    assert_eq!(version, json!({ "cli": version["server"], "server": version["server"], "error": null }));
    assert_eq!(on_server(&["ready"]), json!({ "ready": true }));
    let findings = on_server(&["doctor"]);
    let about: Vec<&str> =
        findings.as_array().unwrap().iter().filter_map(|one| one["about"].as_str()).collect();
    assert!(about.contains(&"server") && about.contains(&"span"), "{findings}");
    let imported = on_server(&["trace", "import", "trace.json"]);
    assert_eq!(
        (&imported[0]["file"], &imported[0]["spans"]),
        (&json!("trace.json"), &json!(3)),
        "{imported}"
    );
    assert_eq!(on_server(&["trace", "list"])[0]["traceId"], TRACE);
    let yaml = run(here, &["ready", "-s", &url, "-o", "yaml"]);
    assert_eq!(stdout(&yaml), "ready: true\n");
}

#[test]
fn values_of_an_expression_are_rows() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("trace.json"), otlp(TRACE).to_string()).unwrap();
    let on = ["--on", "span[service.name=\"shop\"]", "--trace", "trace.json"];
    let rows =
        document(folder.path(), &[&["eval", "attr:http.response.status_code = 200"], &on[..]].concat());
    assert_eq!(rows[0], json!({ "span": "POST /orders", "value": "201", "holds": false }));
    assert_eq!(rows[1]["span"], "pay");
    assert!(rows[1]["error"].is_string(), "{rows}");
}

#[test]
fn a_run_of_files_writes_its_report() {
    let folder = tempfile::tempdir().unwrap();
    let test = "type: Test\nspec:\n  id: a\n  name: A\n  skipTraceCollection: true\n  trigger:\n    type: exec\n    \
                exec:\n      command: [\"true\"]\n";
    std::fs::write(folder.path().join("a.yaml"), test).unwrap();
    let off = ["--otlp-grpc-addr", "off", "--otlp-http-addr", "off"];
    let report = document(folder.path(), &[&["run", "a.yaml"], &off[..]].concat());
    assert_eq!(report["tests"][0]["outcome"], "passed", "{report}");
    let yaml = run(folder.path(), &[&["run", "a.yaml", "-o", "yaml"], &off[..]].concat());
    assert_eq!(yaml.status.code(), Some(1));
    assert!(stderr(&yaml).contains("write --output json"), "{}", stderr(&yaml));
}

#[test]
fn a_draft_has_a_file_and_no_format() {
    let folder = tempfile::tempdir().unwrap();
    let refused = run(folder.path(), &["new", "http://127.0.0.1:1/", "-o", "json"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("--out FILE"), "{}", stderr(&refused));
}

#[test]
fn quiet_and_q_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = run(folder.path(), &["run", "--quiet", "tests"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(stderr(&wrong).contains("`-q` shows only what did not pass"), "{}", stderr(&wrong));
}

#[test]
fn a_file_of_another_tool_neither_redirects_nor_stops_a_command() {
    let folder = tempfile::tempdir().unwrap();
    for text in [
        "baseURL: https://example.org\ntitle: My site\nendpoint: 127.0.0.1:1\nscheme: http\n",
        "endpoint: 127.0.0.1:1\n",
        "\t{{ no yaml }}\n: [",
    ] {
        std::fs::write(folder.path().join("config.yml"), text).unwrap();
        let listed = run_with(
            folder.path(),
            &[],
            &["doctor", "--otlp-grpc-addr", "127.0.0.1:0", "--otlp-http-addr", "127.0.0.1:0"],
        );
        assert!(
            stdout(&listed).contains("none is configured"),
            "{text}: {}{}",
            stdout(&listed),
            stderr(&listed)
        );
    }
}
