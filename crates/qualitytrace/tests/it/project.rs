//! The project file: what `run` takes from it, what overrides it, and its mistakes.

use serde_json::Value;

use crate::late_spans_load::program::Served;
use crate::program;
use crate::selecting::Desk;
use crate::suites::{holds, test};

/// A project with two tests, whose runs need nothing on the command line.
async fn project(more: &str) -> Desk {
    let files = [("tests/a.yaml", test("a", "/a", "")), ("tests/deep/b.yaml", test("b", "/b", ""))];
    let desk = Desk::with(&files).await;
    let text = format!(
        "limits: {{ retention: 1h }}
run:
  paths: [tests/**/*.yaml]
  otlp-grpc-addr: off
  otlp-http-addr: off
  reports: {{ json: report.json }}
  variables:
    URL: {}
{more}",
        desk.url
    );
    std::fs::write(desk.path().join("qualitytrace.yaml"), text).unwrap();
    std::fs::create_dir_all(desk.path().join("src/inner")).unwrap();
    desk
}

fn names(report: &str) -> Vec<String> {
    let report: Value = serde_json::from_str(report).unwrap();
    report["tests"].as_array().unwrap().iter().map(|test| test["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_project_needs_no_flags_in_any_of_its_folders() {
    let desk = project("").await;
    let (code, out, err) = desk.call("src/inner", &["run"], &[]).await;
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(names(&desk.read("report.json")), ["a", "b"]);
    let (code, out, err) = desk.call("src", &["run", "--project", "off"], &[]).await;
    assert_eq!(code, Some(1), "{out}");
    holds(&err, &["name what to run: `qualitytrace run tests/`"]);
    // A folder search does not take the file for a test, and says nothing about it.
    let (code, out, err) = desk.call("", &["run", ".", "--list"], &[]).await;
    assert_eq!((code, out.lines().count()), (Some(0), 2), "{out}");
    assert!(!err.contains("qualitytrace.yaml"), "{err}");
}

#[tokio::test]
async fn flags_override_variables_and_variables_override_the_file() {
    let desk = project("  tags: [nothing]\n").await;
    let tag = ("QUALITYTRACE_RUN_TAG", "none");
    let said = async |arguments: &[&str], environment: &[(&str, &str)]| {
        desk.call("", &[&["run"], arguments].concat(), environment).await.2
    };
    holds(&said(&[], &[]).await, &["has the tag `nothing`"]);
    holds(&said(&[], &[tag]).await, &["has the tag `none`"]);
    holds(&said(&["--tag", "x"], &[tag]).await, &["has the tag `x`"]);
    // Variables are replaced one by one.
    let desk = project("    OTHER: of the file\n").await;
    let claims = test("c", "/c", "")
        .replace("attr:tracetest.response.status = 200", "'\"${var:OTHER}\" = \"of the flag\"'");
    std::fs::write(desk.path().join("c.yaml"), claims).unwrap();
    let (code, out, _) = desk.call("", &["run", "c.yaml"], &[]).await;
    assert_eq!(code, Some(2), "{out}");
    let (code, out, _) = desk.call("", &["run", "c.yaml", "--var", "OTHER=of the flag"], &[]).await;
    assert_eq!(code, Some(0), "{out}");
}

#[tokio::test]
async fn the_system_of_a_project_is_started_in_its_folder_unless_a_server_is_named() {
    let desk = project("  with: [./start.sh]\n").await;
    // The system is told a free port.
    let text = desk.read("qualitytrace.yaml");
    let text = text.lines().filter(|line| !line.contains("otlp-")).collect::<Vec<_>>().join("\n");
    std::fs::write(desk.path().join("qualitytrace.yaml"), text).unwrap();
    std::fs::write(desk.path().join("start.sh"), "#!/bin/sh\npwd > started\nsleep 60\n").unwrap();
    std::fs::set_permissions(
        desk.path().join("start.sh"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let (code, out, err) = desk.call("src/inner", &["run", "--trust-project"], &[]).await;
    assert_eq!(code, Some(0), "{out}{err}");
    let started = std::path::PathBuf::from(desk.read("started").trim());
    assert_eq!(started, desk.path().canonicalize().unwrap());
    std::fs::remove_file(desk.path().join("started")).unwrap();
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    for (arguments, environment) in [
        (&["run", "--server", &server.url("")][..], &[][..]),
        (&["run"], &[("TRACETEST_SERVER_URL", server.url(""))]),
    ] {
        let environment: Vec<(&str, &str)> =
            environment.iter().map(|(name, value): &(&str, String)| (*name, value.as_str())).collect();
        let (code, out, err) = desk.call("", arguments, &environment).await;
        assert_eq!(code, Some(0), "{out}{err}");
    }
    assert!(!desk.path().join("started").exists(), "the named server has its own system");
}

#[tokio::test]
async fn the_server_of_a_run_has_the_limits_of_the_file() {
    let desk = project("").await;
    let text = desk.read("qualitytrace.yaml").replace("retention: 1h", "replyBytes: 5");
    std::fs::write(desk.path().join("qualitytrace.yaml"), text).unwrap();
    let (code, out, err) = desk.call("", &["run", "tests/a.yaml"], &[]).await;
    assert_eq!(code, Some(0), "{out}{err}");
    holds(&out, &["longer than the server keeps (limits.replyBytes)"]);
}

#[tokio::test]
async fn mistakes_are_shown_with_their_line_and_column() {
    for (wrong, expected) in [
        (
            "  retires: 3\n",
            "qualitytrace.yaml:9:12: error: `run.retires` is not a known setting; did you mean `run.retries`?",
        ),
        ("  retries: many\n", "qualitytrace.yaml:9:12: error: `run.retries` cannot be `many`: "),
        ("  timeout: [1s]\n", "qualitytrace.yaml:9:12: error: `run.timeout` takes a single value"),
        (
            "  fail-fast: maybe\n",
            "qualitytrace.yaml:9:14: error: `run.fail-fast` cannot be `maybe`: expected true or false",
        ),
        (
            "  token: secret\n",
            "qualitytrace.yaml:9:10: error: `run.token` is no setting of a project; give it as `--token`",
        ),
        (
            "  learned: \"%{env:NO_SUCH}%\"\n",
            "`run.learned` cannot be read: the variable `NO_SUCH` is not set",
        ),
    ] {
        let desk = project(wrong).await;
        for command in [&["run"][..], &["config", "check", "--database-url", "sqlite::memory:"]] {
            let (code, out, err) = desk.call("", command, &[]).await;
            assert_eq!(code, Some(1), "{command:?} {wrong}: {out}{err}");
            holds(&err, &[expected]);
        }
    }
    let desk = project("").await;
    let (code, out, err) =
        desk.call("src", &["config", "check", "--database-url", "sqlite::memory:"], &[]).await;
    assert_eq!(code, Some(0), "{out}{err}");
    holds(&out, &["`../qualitytrace.yaml`"]);
}
