//! `qualitytrace run` with suites, tables, retries and repetitions: what is run, the report, and the exit code.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::late_spans_load::program::Served;

/// A system under test that answers `/third` with 200 every third time, `/bad` with 500, `/huge` with a long text,
/// `/binary` with invalid UTF-8, and all else with 200 and the path.
pub(crate) async fn subject() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let calls = Arc::new(AtomicUsize::new(0));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let calls = Arc::clone(&calls);
            tokio::spawn(async move {
                let mut buffer = vec![0; 4096];
                let read = stream.read(&mut buffer).await.unwrap();
                let head = String::from_utf8_lossy(&buffer[..read]).into_owned();
                let path = head.split(' ').nth(1).unwrap().to_owned();
                let is_good = match path.as_str() {
                    "/third" => calls.fetch_add(1, Ordering::SeqCst) % 3 == 2,
                    path => !path.starts_with("/bad"),
                };
                let status = if is_good { "200 OK" } else { "500 Internal Server Error" };
                let value = match path.rsplit('/').next().unwrap() {
                    "huge" => "x".repeat(100_000),
                    value => value.to_owned(),
                };
                let mut body = format!("{{\"value\": \"{value}\"}}").into_bytes();
                if path.ends_with("/binary") {
                    body.push(0xff);
                }
                let length = body.len();
                let head =
                    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
                stream.write_all(&[head.as_bytes(), &body].concat()).await.unwrap();
            });
        }
    });
    url
}

pub(crate) fn test(id: &str, path: &str, more: &str) -> String {
    format!(
        "type: Test
spec:
  id: {id}
  name: Test {id}
  skipTraceCollection: true
  trigger:
    type: http
    httpRequest:
      method: GET
      url: ${{var:URL}}{path}
  specs:
  - name: Answer
    selector: span[name = \"Tracetest trigger\"]
    assertions:
    - attr:tracetest.response.status = 200
{more}"
    )
}

/// Writes files, runs the program in their folder, and returns its exit code, its output, and its JUnit report.
pub(crate) async fn run(files: &[(&str, &str)], arguments: &[&str]) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let url = subject().await;
    let folder_path = folder.path().to_owned();
    let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let output = tokio::task::spawn_blocking(move || program(&folder_path, &url, &arguments)).await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let junit = std::fs::read_to_string(folder.path().join("report.xml")).unwrap_or_default();
    (output.status.code(), text.into_owned(), junit)
}

fn program(folder: &Path, url: &str, arguments: &[String]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_qualitytrace"))
        .arg("run")
        .args(arguments)
        .args(["--var", &format!("URL={url}"), "-j", "report.xml"])
        .args(["--otlp-grpc-addr", "off", "--otlp-http-addr", "off"])
        .current_dir(folder)
        .output()
        .unwrap()
}

pub(crate) fn holds(text: &str, told: &[&str]) {
    for expected in told {
        assert!(text.contains(expected), "no `{expected}` in:\n{text}");
    }
}

#[tokio::test]
async fn a_suite_with_setup_branches_a_table_and_teardown() {
    let output = "  outputs:
  - name: ID
    selector: span[name = \"Tracetest trigger\"]
    value: attr:tracetest.response.body | json_path '$.value'
";
    let suite = "type: TestSuite
spec:
  id: all
  name: All of it
  setup: [./login.yaml]
  steps:
  - ./make.yaml
  - {test: ./other.yaml, dependsOn: []}
  - {test: ./use.yaml, dependsOn: [make, other], timeout: 30s}
  teardown: [./logout.yaml]
  data: {csv: ./rows.csv}
";
    let (login, make) = (test("login", "/in", ""), test("make-it", "/make/${var:NAME}", output));
    let (other, used) = (test("other-one", "/other", ""), test("use-it", "/${var:WAY}/${var:ID}", ""));
    let logout = test("logout", "/out", "");
    let files = [
        ("suite.yaml", suite),
        ("login.yaml", &login),
        ("make.yaml", &make),
        ("other.yaml", &other),
        ("use.yaml", &used),
        ("logout.yaml", &logout),
        ("rows.csv", "NAME,WAY\n\"one, the first\",good\ntwo,bad\n"),
    ];
    let (code, text, junit) = run(&files, &["suite.yaml"]).await;
    assert_eq!(code, Some(2), "{text}");
    holds(
        &text,
        &[
            "✔ All of it › Test login [setup]",
            "✔ All of it › Test use-it [row 1: NAME=one,",
            "✘ All of it › Test use-it [row 2: NAME=two,",
            "✔ All of it › Test logout [teardown]",
            "8 tests: 7 passed, 1 failed",
        ],
    );
    holds(
        &junit,
        &[
            "<testsuite name=\"All of it › Test logout [teardown]\" tests=\"1\" skipped=\"0\" errors=\"0\" failures=\"0\"",
        ],
    );
}

#[tokio::test]
async fn an_answer_that_was_cut_off_is_told() {
    let server = Served::start(crate::program(), "sqlite::memory:", &["--limits.replyBytes", "16"]).await;
    let files = [("long.yaml", test("long", "/a-long-way", "")), ("short.yaml", test("short", "/", ""))];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let (code, text, junit) = run(&files, &[".", "--server", &server.url("")]).await;
    assert_eq!(code, Some(0), "{text}");
    let told =
        "the answer is longer than the server keeps (limits.replyBytes): only its beginning was judged";
    assert_eq!((text.matches(told).count(), junit.matches(told).count()), (1, 1), "{text}{junit}");
}

#[tokio::test]
async fn an_answer_that_is_no_text_is_told() {
    let files = [("bytes.yaml", test("bytes", "/binary", "")), ("text.yaml", test("text", "/", ""))];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let (code, text, junit) = run(&files, &["."]).await;
    assert_eq!(code, Some(0), "{text}");
    let told = "the answer is not UTF-8: invalid bytes were replaced before it was judged";
    assert_eq!((text.matches(told).count(), junit.matches(told).count()), (1, 1), "{text}{junit}");
}

#[tokio::test]
async fn a_broken_step_skips_the_rest_but_not_the_teardown() {
    let broken = test("broken", "", "").replace("${var:URL}", "http://127.0.0.1:9/");
    let good = test("good", "/ok", "");
    let suite = "type: TestSuite\nspec: {id: s, name: S, steps: [broken, good], teardown: [good]}\n";
    let (code, text, junit) =
        run(&[("s.yaml", suite), ("broken.yaml", &broken), ("good.yaml", &good)], &["."]).await;
    assert_eq!(code, Some(2), "{text}");
    holds(&text, &["✘ S › Test broken", "- S › Test good  not run", "✔ S › Test good [teardown]"]);
    holds(&text, &["3 tests: 1 passed, 1 broken, 1 not run"]);
    holds(&junit, &["tests=\"3\" skipped=\"1\" failures=\"0\" errors=\"1\"", "<skipped message=\""]);
}

#[tokio::test]
async fn a_test_that_passes_when_tried_again_is_flaky_and_passes() {
    let flaky = test("third", "/third", "  retries: 5\n");
    let (code, text, junit) = run(&[("t.yaml", &flaky)], &["t.yaml"]).await;
    assert_eq!(code, Some(0), "{text}");
    holds(
        &text,
        &[
            "~ Test third",
            "flaky, passed after a retry: 1 of 3 runs passed; flaky in 1 of its last 1 series",
            "got 500",
            "0 passed, 1 flaky",
        ],
    );
    let told = "<flakyFailure message=\"Tracetest trigger: got 500, expected 200\" type=\"assertion\">";
    assert_eq!(junit.matches(told).count(), 2, "{junit}");
    holds(&junit, &["tests=\"1\" skipped=\"0\" failures=\"0\" errors=\"0\""]);
    let (code, text, _) = run(&[("t.yaml", &flaky)], &["t.yaml", "--fail-on-flaky"]).await;
    assert_eq!(code, Some(2), "{text}");
}

#[tokio::test]
async fn repetitions_that_disagree_fail_as_flaky() {
    let flaky = test("third", "/third", "");
    let (code, text, junit) = run(&[("t.yaml", &flaky)], &["t.yaml", "--repeat", "3"]).await;
    assert_eq!(code, Some(2), "{text}");
    holds(&text, &["~ Test third", "flaky: 1 of 3 runs passed"]);
    holds(&junit, &["failures=\"1\"", "<failure message=\"", "<rerunFailure message=\""]);
    let (code, text, _) = run(&[("t.yaml", &flaky)], &["t.yaml", "--retries", "1"]).await;
    assert_eq!(code, Some(2), "{text}");
    holds(&text, &["✘ Test third", "run more than once: 0 of 2 runs passed"]);
}

#[tokio::test]
async fn a_suite_is_repeated_as_a_whole() {
    let (first, third) = (test("first", "/first", ""), test("third", "/third", ""));
    let suite = "type: TestSuite\nspec: {id: s, name: S, steps: [./first.yaml, ./third.yaml]}\n";
    let files = [("s.yaml", suite), ("first.yaml", &first), ("third.yaml", &third)];
    let (code, text, junit) = run(&files, &["s.yaml", "--repeat", "3"]).await;
    assert_eq!(code, Some(2), "{text}");
    holds(&text, &["✔ S (1 of 3) › Test first", "✘ S (2 of 3) › Test third", "✔ S (3 of 3) › Test third"]);
    holds(&text, &["6 tests: 4 passed, 2 failed"]);
    holds(&junit, &["S (3 of 3) › Test first"]);
}

#[tokio::test]
async fn what_a_suite_lacks_and_what_is_wrong_with_it_is_said() {
    let lacking = test("t", "/${var:WHO}", "");
    let suite = "type: TestSuite\nspec: {id: s, name: S, steps: [t]}\n";
    let (code, text, _) = run(&[("s.yaml", suite), ("t.yaml", &lacking)], &["."]).await;
    assert_eq!(code, Some(1), "{text}");
    holds(&text, &["variables are missing: test `t` needs WHO; give them with --var NAME=VALUE"]);

    let wrong = "type: TestSuite
spec:
  name: S
  steps:
  - make
  - {test: use, dependsOn: [mkae]}
";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("s.yaml"), wrong).unwrap();
    let checked = Command::new(env!("CARGO_BIN_EXE_qualitytrace"))
        .args(["check", "s.yaml"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(checked.status.code(), Some(3));
    let text = String::from_utf8_lossy(&checked.stdout);
    holds(&text, &["s.yaml:6:29", "no step is called `mkae`", "did you mean `make`?"]);
}
