//! The reports of `qualitytrace run` about tests that did not pass.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::late_spans_load::client::Client;
use crate::late_spans_load::program::Served;
use crate::program;
use crate::suites::{holds, run, test};

#[tokio::test]
async fn a_huge_value_is_cut_and_its_length_told() {
    let huge = test("huge", "/huge", "")
        .replace("attr:tracetest.response.status = 200", "attr:tracetest.response.body = \"small\"");
    let output = "  outputs:
  - name: BODY
    selector: span[name = \"Tracetest trigger\"]
    value: attr:tracetest.response.body
";
    let (code, text, junit) = run(&[("t.yaml", &(huge + output))], &["t.yaml"]).await;
    assert_eq!(code, Some(2), "{text}");
    holds(&text, &["x… (the first 500 of 100013 characters)", "expected small"]);
    holds(&junit, &["x… (the first 500 of 100013 characters)"]);
    assert!(text.len() < 5_000 && junit.len() < 5_000, "{} {}", text.len(), junit.len());
}

#[tokio::test]
async fn a_step_is_shown_by_its_name_and_its_test() {
    let suite = "type: TestSuite
spec:
  id: s
  name: S
  steps:
  - {name: Look, test: ./t.yaml}
  - ./t.yaml
";
    let (code, text, junit) = run(&[("s.yaml", suite), ("t.yaml", &test("t", "/ok", ""))], &["s.yaml"]).await;
    assert_eq!(code, Some(0), "{text}");
    holds(&text, &["✔ S › Look (Test t) ", "✔ S › Test t "]);
    holds(&junit, &["<testsuite name=\"S › Look (Test t)\"", "<testsuite name=\"S › Test t\""]);
}

#[tokio::test]
async fn tries_that_end_alike_are_printed_once() {
    let third = test("third", "/third", "");
    let (_, text, _) = run(&[("t.yaml", &third)], &["t.yaml", "--retries", "2"]).await;
    holds(&text, &["1 of 3 runs passed", "runs 1, 2 of test third, trace "]);
    assert_eq!(text.matches("got 500").count(), 1, "{text}");

    let bad = test("bad", "/bad", "");
    let (_, text, junit) = run(&[("t.yaml", &bad)], &["t.yaml", "--retries", "6"]).await;
    holds(&text, &["0 of 7 runs passed", "runs 1, 2, 3, 4, 5 and 1 more of test bad ended like this too"]);
    assert_eq!(text.matches("got 500").count(), 1, "{text}");
    assert_eq!(junit.matches("<rerunFailure").count(), 6, "{junit}");
}

#[tokio::test]
async fn a_trigger_that_failed_took_its_time() {
    let refused = test("t", "/", "").replace("${var:URL}", "http://127.0.0.1:9");
    let (code, text, _) = run(&[("t.yaml", &refused)], &["t.yaml"]).await;
    assert_eq!(code, Some(2), "{text}");
    holds(&text, &["the trigger failed:", "1 test: 0 passed, 1 broken in"]);
    assert!(!text.contains("trigger 0 µs"), "{text}");
}

/// A server with a trace of two spans. The parent of the second one never comes.
async fn server_with_a_trace(trace: &str) -> Served {
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    Client::new(server.url("")).put_settle("200ms").await;
    let span = |id: &str, parent: &str, name: &str| {
        json!({
            "traceId": trace, "spanId": id, "parentSpanId": parent, "name": name, "kind": 2,
            "startTimeUnixNano": "1", "endTimeUnixNano": "2",
        })
    };
    let root = span("00000000000000aa", "", &"a long name ".repeat(10));
    let spans = [root, span("00000000000000bb", "00000000000000cc", "worker")];
    let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": spans }] }] });
    let sent = crate::client().post(server.url("/v1/traces")).json(&body).send().await.unwrap();
    assert!(sent.status().is_success());
    server
}

#[tokio::test]
async fn every_culprit_is_named_in_junit_and_texts_of_others_stay_on_their_line() {
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    Client::new(server.url("")).put_settle("200ms").await;
    let span = |number: u64| {
        let value = if number == 1 { "v\n✔ forged\u{202e}".to_owned() } else { format!("v{number}") };
        json!({
            "traceId": TRACE, "spanId": format!("{number:016x}"), "name": format!("step {number}\nx"), "kind": 1,
            "parentSpanId": if number == 1 { String::new() } else { format!("{:016x}", 1) },
            "startTimeUnixNano": "1", "endTimeUnixNano": "2",
            "attributes": [{ "key": "v", "value": { "stringValue": value } }],
        })
    };
    let spans: Vec<_> = (1..=25).map(span).collect();
    let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": spans }] }] });
    let sent = crate::client().post(server.url("/v1/traces")).json(&body).send().await.unwrap();
    assert!(sent.status().is_success());
    let broken = inconclusive("\"T\\n✔ all is well\"")
        .replace("span[name = \"worker\"]", "span[v exists]")
        .replace("attr:tracetest.selected_spans.count = 1", "none attr:v contains \"v\"");
    let (code, text, junit) = run(&[("t.yaml", &broken)], &["t.yaml", "--server", &server.url("")]).await;
    assert_eq!(code, Some(2), "{text}");
    for line in text.lines() {
        assert!(!line.starts_with(['✔', 'x']), "{line:?} is forged: {text}");
    }
    assert!(!text.contains('\u{202e}'), "{text}");
    holds(&text, &["T\\n✔ all is well", "`step 1\\nx`", "v\\n✔ forged\\u{202e}"]);
    holds(
        &junit,
        &["step 1\\nx: the claim holds here", "step 20\\nx: the claim holds here", "; and 5 more\""],
    );
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

fn inconclusive(name: &str) -> String {
    format!(
        "type: Test
spec:
  id: t
  name: {name}
  trigger: {{ type: traceid, traceid: {{ id: {TRACE} }} }}
  specs:
  - selector: span[name = \"worker\"]
    assertions: [attr:tracetest.selected_spans.count = 1]
"
    )
}

#[tokio::test]
async fn an_inconclusive_test_is_an_error_and_counted_once() {
    let server = server_with_a_trace(TRACE).await;
    let (code, text, junit) =
        run(&[("t.yaml", &inconclusive("T"))], &["t.yaml", "--server", &server.url("")]).await;
    assert_eq!(code, Some(4), "{text}");
    holds(&text, &["? T ", "1 test: 0 passed, 1 inconclusive in"]);
    holds(&junit, &["tests=\"1\" skipped=\"0\" failures=\"0\" errors=\"1\""]);
    holds(&junit, &["<error message=\"inconclusive: the parent 00000000000000cc"]);
}

#[tokio::test]
async fn the_form_of_the_original_ends_with_the_same_codes() {
    let server = server_with_a_trace(TRACE).await;
    let url = server.url("");
    let open = inconclusive("T");
    let mixed = open.replace(
        "  specs:\n",
        "  specs:\n  - {selector: 'span[name contains \"a long\"]', assertions: ['attr:name = \"b\"']}\n",
    );
    let suite = |part: &str| {
        format!("type: TestSuite\nspec: {{id: s, name: S, {part}: [./t.yaml], steps: [./u.yaml]}}\n")
    };
    let other = test("u", "/u", "");
    for (test, expected) in [(&open, 4), (&mixed, 2)] {
        for arguments in [&["t.yaml"][..], &["-f", "t.yaml"], &["test", "--id", "t"]] {
            let arguments = [arguments, &["--server", &url]].concat();
            let (code, text, _) = run(&[("t.yaml", test)], &arguments).await;
            assert_eq!(code, Some(expected), "{arguments:?}: {text}");
        }
        for part in ["setup", "teardown"] {
            let files = [("t.yaml", test.as_str()), ("u.yaml", &other), ("s.yaml", &suite(part))];
            for arguments in [&["s.yaml"][..], &["-f", "s.yaml"]] {
                let (code, text, _) = run(&files, &[arguments, &["--server", &url]].concat()).await;
                assert_eq!(code, Some(expected), "{part} {arguments:?}: {text}");
            }
        }
    }
}

#[tokio::test]
async fn why_it_is_inconclusive_is_told_once() {
    let server = server_with_a_trace(TRACE).await;
    let open = inconclusive("T")
        + "  - selector: span[name = \"gone\"]
    assertions: [attr:tracetest.selected_spans.count = 0]
  outputs:
  - {name: N, selector: 'span[name = \"worker\"]', value: attr:tracetest.selected_spans.count}
";
    let failed = open.replace(
        "  specs:\n",
        "  specs:\n  - {selector: 'span[name contains \"a long\"]', assertions: ['attr:name = \"b\"']}\n",
    );
    for (test, expected) in [(&open, 4), (&failed, 2)] {
        let (code, text, junit) = run(&[("t.yaml", test)], &["t.yaml", "--server", &server.url("")]).await;
        assert_eq!(code, Some(expected), "{text}");
        assert_eq!(text.matches("the parent 00000000000000cc").count(), 1, "{text}");
        holds(&text, &["output \"N\" is inconclusive\n"]);
        for line in junit.lines().filter(|line| line.contains("type=\"inconclusive\"")) {
            assert_eq!(line.matches("the parent 00000000000000cc").count(), 1, "{line}");
        }
        assert_eq!(junit.matches("type=\"inconclusive\"").count(), 2, "{junit}");
    }
}

#[tokio::test]
async fn an_inconclusive_spec_gets_no_hint_about_other_spans() {
    let server = server_with_a_trace(TRACE).await;
    for count in [0, 1] {
        let claim = inconclusive("T")
            .replace("\"worker\"", "\"a lng\"")
            .replace("count = 1", &format!("count = {count}"));
        let (code, text, _) = run(&[("t.yaml", &claim)], &["t.yaml", "--server", &server.url("")]).await;
        assert_eq!(code, Some(4), "{text}");
        assert!(!text.contains("the nearest span is"), "{text}");
    }
}

/// The output of the program at a terminal with these variables and this width; standard error, too, where it is `shown`.
fn at_a_terminal(
    variables: &[(&str, &str)],
    shown: bool,
    columns: u16,
    folder: &Path,
    arguments: &[&str],
) -> String {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let mut ours = File::from(openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap());
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    let theirs = File::options().read(true).write(true).open(name).unwrap();
    let size = rustix::termios::Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&theirs, size).unwrap();
    let mut command = Command::new(program());
    let errors = if shown { theirs.try_clone().unwrap().into() } else { Stdio::null() };
    command.args(arguments).current_dir(folder).env_remove("NO_COLOR").envs(variables.iter().copied());
    command.stdout(theirs).stderr(errors);
    let mut child = command.spawn().unwrap();
    // Only the program holds the other side now.
    drop(command);
    let mut text = Vec::new();
    // The end of a terminal is an error.
    let _ = ours.read_to_end(&mut text);
    child.wait().unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test]
async fn what_is_under_way_is_shown_where_the_line_can_be_taken_back() {
    let server = server_with_a_trace(TRACE).await;
    for (variables, expected) in [
        (&[("TERM", "xterm")][..], true),
        (&[("TERM", "dumb")], false),
        (&[("TERM", "xterm"), ("NO_COLOR", "1")], false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("t.yaml"), inconclusive("T")).unwrap();
        let url = server.url("");
        let text = tokio::task::spawn_blocking(move || {
            at_a_terminal(variables, true, 80, folder.path(), &["run", "t.yaml", "--server", &url])
        });
        let text = text.await.unwrap();
        holds(&text, &["trace 0af7651916cd43dd8448eb211c80319c"]);
        assert_eq!(text.contains("0/1 done, 1 running"), expected, "{variables:?}: {text:?}");
        assert_eq!(text.contains("\x1b[J"), expected, "{variables:?}: {text:?}");
        let is_plain = variables.iter().any(|(name, _)| *name == "NO_COLOR");
        assert!(!is_plain || !text.contains('\x1b'), "{variables:?}: {text:?}");
    }
}

#[tokio::test]
async fn a_narrow_terminal_gets_narrow_lines() {
    let server = server_with_a_trace(TRACE).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t.yaml"), inconclusive(&"T".repeat(60))).unwrap();
    let url = server.url("");
    let text = tokio::task::spawn_blocking(move || {
        let variables = [("TERM", "xterm"), ("NO_COLOR", "1")];
        at_a_terminal(&variables, false, 60, folder.path(), &["run", "t.yaml", "--server", &url])
    });
    let text = text.await.unwrap();
    holds(&text, &["? TTT", "…", "━"]);
    let is_fitted = |line: &&str| line.contains('━') || line.trim_start().starts_with('?');
    for line in text.lines().filter(is_fitted) {
        assert!(line.trim_end().chars().count() <= 60, "{line:?}\n{text}");
    }
}

#[tokio::test]
async fn reports_and_open_lead_to_the_page_of_a_server_that_has_one() {
    let server = server_with_a_trace(TRACE).await;
    let url = server.url("");
    let (_, text, junit) = run(&[("t.yaml", &inconclusive("T"))], &["t.yaml", "--server", &url]).await;
    let info = crate::client().get(server.url("/api/info")).send().await.unwrap();
    let has_page = info.json::<serde_json::Value>().await.unwrap()["page"]["built"] == true;
    let link = server.url("/test/t/run/1");
    assert_eq!(text.contains(&link), has_page, "{text}");
    assert_eq!(junit.contains(&format!("<property name=\"url\" value=\"{link}\"/>")), has_page, "{junit}");
    let open = |arguments: &[&str]| {
        let mut command = Command::new(program());
        command.arg("open").args(arguments).args(["--server-url", &url]).env("BROWSER", "true");
        let said = command.output().unwrap();
        let text = [said.stdout, said.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (said.status.code(), text)
    };
    if !has_page {
        let (code, text) = open(&[]);
        assert!(code == Some(1) && text.contains("has no page for browsers"), "{text}");
        return;
    }
    let trace = format!("/trace/{TRACE}");
    let of: [(&[&str], &str); 4] =
        [(&[], ""), (&["t"], "/test/t"), (&["t", "1"], "/test/t/run/1"), (&[TRACE], &trace)];
    for (arguments, path) in of {
        assert_eq!(open(arguments), (Some(0), format!("opened {url}{path}\n")));
    }
    let (code, text) = open(&["nosuch"]);
    assert!(code == Some(1) && text.contains("the server has no test and no trace nosuch"), "{text}");
}
