//! `run` on a configured server: which server, whose variables, and what stays on it and in the files.

use std::path::Path;

use qualitytrace_testing::port;
use tokio::process::Command;

use crate::late_spans_load::program::Served;
use crate::program;

/// A test that fails at once: its address has no listener.
fn refused(url: &str) -> String {
    format!(
        "type: Test\nspec:\n  name: Refused # for people\n  trigger:\n    type: http\n    httpRequest:\n      url: {url}\n"
    )
}

/// The outcome of a command: exit code, standard output, standard error.
type Ended = (Option<i32>, String, String);

/// Runs a command line, split at blanks, in a folder that also has the home of its user.
async fn run(folder: &Path, line: &str, variables: &[(&str, &str)]) -> Ended {
    let output = Command::new(program())
        .args(line.split_whitespace())
        .current_dir(folder)
        .env("HOME", folder.join("home"))
        .envs([("QUALITYTRACE_OTLP_GRPC_ADDR", "off"), ("QUALITYTRACE_OTLP_HTTP_ADDR", "off")])
        .envs(variables.iter().copied())
        .output()
        .await
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

async fn stored_tests(server: &Served) -> Vec<String> {
    let list: serde_json::Value =
        crate::client().get(server.url("/api/tests")).send().await.unwrap().json().await.unwrap();
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["spec"]["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn run_uses_the_configured_server_and_stores_a_test_once() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    let closed = format!("http://127.0.0.1:{}/x", port());
    std::fs::write(here.join("t.yaml"), refused(&closed)).unwrap();
    std::fs::write(here.join("alt.yml"), format!("scheme: http\nendpoint: {}\n", server.http)).unwrap();

    // Nothing is configured: the test runs here, and its file stays as it is.
    let (code, out, _) = run(here, "run t.yaml", &[]).await;
    assert_eq!(code, Some(2), "{out}");
    assert_eq!(std::fs::read_to_string(here.join("t.yaml")).unwrap(), refused(&closed));

    // The file may be named before and after the command.
    for line in ["-c alt.yml run t.yaml", "run t.yaml -c alt.yml", "run -c alt.yml t.yaml"] {
        let (code, out, err) = run(here, line, &[]).await;
        assert_eq!(code, Some(2), "{line}: {out} {err}");
        assert!(
            err.contains(&format!("running on the server at http://{}, which alt.yml names", server.http)),
            "{err}"
        );
    }
    let ids = stored_tests(&server).await;
    assert_eq!(ids.len(), 1, "three runs of a file without an id store one test");
    let written = std::fs::read_to_string(here.join("t.yaml")).unwrap();
    assert_eq!(written, refused(&closed).replace("spec:\n", &format!("spec:\n  id: {}\n", ids[0])));

    // So may the environment name the server, and --local overrides it.
    let url = server.url("");
    for name in ["TRACETEST_SERVER_URL", "QUALITYTRACE_SERVER_URL"] {
        assert_eq!(run(here, "run t.yaml", &[(name, &url)]).await.0, Some(2), "{name}");
    }
    assert_eq!(run(here, "run --local t.yaml", &[("TRACETEST_SERVER_URL", &url)]).await.0, Some(2));
    let test: serde_json::Value = crate::client()
        .get(server.url(&format!("/api/tests/{}/run", ids[0])))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(test.as_array().or(test["items"].as_array()).unwrap().len(), 5, "{test}");
}

#[tokio::test]
async fn an_edit_that_is_saved_during_a_run_stays_when_the_ids_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    let file = here.join("t.yaml");
    // The trigger of the first test edits the file, before the second one is stored.
    let edited = file.clone();
    let edit = move || {
        let text = std::fs::read_to_string(&edited).unwrap();
        std::fs::write(&edited, text.replace("# old", "# new")).unwrap();
        std::future::ready("yes")
    };
    let router = axum::Router::new().route("/edit", axum::routing::get(edit));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/edit", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let test = |name: &str| {
        refused(&url)
            .replace("Refused # for people", name)
            .replace("  trigger", "  skipTraceCollection: true\n  trigger")
    };
    let source = format!("{}---\n{}", test("First"), test("Second # old"));
    std::fs::write(&file, &source).unwrap();

    let (code, out, err) = run(here, &format!("run t.yaml --parallel 1 -s {}", server.url("")), &[]).await;
    assert_eq!(code, Some(0), "{out} {err}");
    let written = std::fs::read_to_string(&file).unwrap();
    let ids: Vec<&str> = written.lines().filter(|line| line.starts_with("  id: ")).collect();
    assert_eq!((ids.len(), stored_tests(&server).await.len()), (2, 2), "{written}{err}");
    let plain: String = written.split_inclusive('\n').filter(|line| !line.starts_with("  id: ")).collect();
    assert_eq!(plain, source.replace("# old", "# new"));
    let left: Vec<_> = std::fs::read_dir(here).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".tmp")), "{left:?}");
}

#[tokio::test]
async fn variables_of_the_environment_are_expanded_and_never_shown_or_written() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    let (url, closed) = (server.url(""), format!("127.0.0.1:{}", port()));
    let source = refused("http://${TARGET}/x?key=${KEY}");
    std::fs::write(here.join("t.yaml"), &source).unwrap();
    let variables = [("TARGET", closed.as_str()), ("KEY", "top-secret-value")];

    let (code, out, err) = run(here, &format!("run t.yaml -s {url}"), &variables).await;
    assert_eq!(code, Some(2), "{out} {err}");
    let id = &stored_tests(&server).await[0];
    let test = crate::client().get(server.url(&format!("/api/tests/{id}"))).send().await.unwrap();
    assert!(test.text().await.unwrap().contains(&format!("http://{closed}/x?key=top-secret-value")));
    let written = std::fs::read_to_string(here.join("t.yaml")).unwrap();
    assert_eq!(written, source.replace("spec:\n", &format!("spec:\n  id: {id}\n")));

    // A mistake beside the value is shown as the file has it.
    std::fs::write(here.join("bad.yaml"), format!("{source}      nonsense: ${{KEY}}\n")).unwrap();
    let (code, out, err) = run(here, "check bad.yaml", &variables).await;
    assert!(
        out.contains("nonsense: ${KEY}") && !(out.clone() + &err).contains("top-secret"),
        "{code:?} {out}{err}"
    );

    // A variable that is not set is named, with both ways out; `check` may run elsewhere.
    std::fs::remove_file(here.join("bad.yaml")).unwrap();
    let (code, out, _) = run(here, "run t.yaml", &[]).await;
    assert_eq!(code, Some(2), "{out}");
    assert!(out.contains("set the environment variable TARGET, or write `${var:TARGET}`"), "{out}");
    let (code, out, _) = run(here, "check t.yaml", &[]).await;
    assert_eq!(code, Some(0), "{out}");
}

#[tokio::test]
async fn the_body_of_a_request_is_no_definition() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let specs = "  specs:\n  - assertions: [attr:tracetest.selected_spans.count = 1]\n";
    let test = refused(&format!("http://127.0.0.1:{}", port())) + specs;
    std::fs::write(here.join("t.yaml"), test).unwrap();
    std::fs::write(here.join("body.json"), r#"{"type": "order", "items": []}"#).unwrap();
    let (code, out, err) = run(here, "check .", &[]).await;
    assert_eq!((code, out.as_str()), (Some(0), "✔ ./t.yaml\n"));
    assert_eq!(err, "./body.json has no `type` and `spec` and is left out\n");
}

#[tokio::test]
async fn a_missing_or_invalid_file_has_its_own_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("bad.yaml"), "type: Tset\nspec: {}\n").unwrap();
    for line in ["run gone.yaml", "run bad.yaml", "check gone.yaml", "check bad.yaml"] {
        assert_eq!(run(here, line, &[]).await.0, Some(3), "{line}");
    }
}

#[tokio::test]
async fn the_forms_of_the_original_run_stored_tests_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    let closed = format!("http://127.0.0.1:{}/x", port());
    std::fs::write(here.join("config.yml"), format!("scheme: http\nendpoint: {}\n", server.http)).unwrap();
    std::fs::write(here.join("t.yaml"), refused(&closed)).unwrap();
    let (code, out, err) = run(here, "run test -f t.yaml", &[]).await;
    assert_eq!(code, Some(2), "{out} {err}");
    let id = stored_tests(&server).await.remove(0);
    let page = server.url("");
    assert!(out.starts_with(&format!("✘ Refused ({page}/test/{id}/run/1/test)\n\tReason: ")), "{out}");

    let (code, out, err) = run(here, &format!("run test --id {id} -o json"), &[]).await;
    assert_eq!(code, Some(2), "{out} {err}");
    let shown: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["testRunWebUrl"], format!("{page}/test/{id}/run/2/test"));
    let (code, out, _) = run(here, &format!("run test --id {id} -o yaml"), &[]).await;
    assert!(code == Some(2) && out.starts_with("testRunWebUrl: "), "{out}");

    // Nothing is waited for, and variables that are missing are named where no one can be asked.
    let (code, out, _) = run(here, "run -f t.yaml -W", &[]).await;
    assert!(code == Some(0) && out.starts_with("✔ Refused (") && out.contains(" - trace id: "), "{out}");
    std::fs::write(here.join("v.yaml"), refused("http://${var:HOST}/x")).unwrap();
    let (code, _, err) = run(here, "run -f v.yaml", &[]).await;
    assert!(code == Some(1) && err.contains("needs HOST; give them with --var NAME=VALUE"), "{err}");

    // A suite, and its report for CI.
    std::fs::write(here.join("s.yaml"), "type: TestSuite\nspec:\n  name: Suite\n  steps:\n  - ./t.yaml\n")
        .unwrap();
    let (code, out, err) = run(here, "run testsuite --file s.yaml -j report.xml", &[]).await;
    assert_eq!(code, Some(2), "{out} {err}");
    assert!(
        out.starts_with(&format!("✘ Suite ({page}/testsuite/")) && out.contains("\n\t✘ Refused ("),
        "{out}"
    );
    assert!(std::fs::read_to_string(here.join("report.xml")).unwrap().starts_with("<testsuites "));

    for (line, told) in [
        ("run test --id nope", "Resource test with ID nope not found"),
        ("wait group --id x", "run groups belong to the hosted service"),
        ("run -f t.yaml --required-gates nope", "[required-gates] invalid option 'nope'. valid options: "),
        ("run test -f t.yaml -W -j a.xml", "[junit] --junit option is incompatible"),
    ] {
        let (code, _, err) = run(here, line, &[]).await;
        assert!(code == Some(1) && err.contains(told), "{line}: {err}");
    }
    assert_eq!(run(here, "run test -f gone.yaml", &[]).await.0, Some(3));
}

#[tokio::test]
async fn spans_at_a_wrong_path_are_named_with_the_right_one() {
    let desk = crate::selecting::Desk::with(&[]).await;
    let folder = tempfile::tempdir().unwrap();
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    std::fs::write(folder.path().join("t.yaml"), refused(&format!("{}/a", desk.url))).unwrap();
    let misdirected = async {
        let mut every = tokio::time::interval(std::time::Duration::from_millis(100));
        loop {
            every.tick().await;
            let request = crate::client().post(server.url("/v1/traces/v1/traces"));
            let answer = request.header("content-type", "application/json").body("{}").send().await.unwrap();
            assert_eq!(answer.status(), 404);
        }
    };
    let line = format!("run t.yaml --confirm 0 --settle 1s --server {}", server.url(""));
    tokio::select! {
        (code, out, err) = run(folder.path(), &line, &[]) => {
            assert_eq!(code, Some(2), "{out}{err}");
            let told = "it was posted to \"/v1/traces/v1/traces\", and spans go to /v1/traces: write \
                        OTEL_EXPORTER_OTLP_ENDPOINT without a path";
            assert!(out.contains(told), "{out}{err}");
        }
        () = misdirected => unreachable!("it never ends"),
    }
}

#[tokio::test]
async fn a_system_that_runs_already_is_not_taken_for_the_one_of_with() {
    let desk = crate::selecting::Desk::with(&[]).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t.yaml"), refused(&desk.url)).unwrap();
    let line = format!("run t.yaml --with true --ready {}", desk.url);
    let any_port = [("QUALITYTRACE_OTLP_HTTP_ADDR", "127.0.0.1:0")];
    let (code, out, err) = run(folder.path(), &line, &any_port).await;
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(err.contains("answers before --with has started anything"), "{err}");
}
