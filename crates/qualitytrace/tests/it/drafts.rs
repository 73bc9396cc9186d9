//! `new`: what is made of addresses, commands and files can be checked, kept and run.

use serde_json::Value;

use crate::selecting::Desk;
use crate::suites::holds;

/// Calls `new`, and fails if it does.
async fn new(desk: &Desk, arguments: &[&str]) -> (String, String) {
    let (code, out, err) = desk.call("", &[&["new"], arguments].concat(), &[]).await;
    assert_eq!(code, Some(0), "{arguments:?}: {err}");
    (out, err)
}

/// Fails unless the files below a folder have the canonical layout, and no mistakes.
async fn is_clean(desk: &Desk, folder: &str) {
    for arguments in [&["fmt", "--check", folder][..], &["check", "--strict", folder]] {
        let (code, out, err) = desk.call("", arguments, &[]).await;
        assert_eq!(code, Some(0), "{arguments:?}: {out}{err}");
    }
}

#[tokio::test]
async fn the_status_of_an_address_is_asserted() {
    let desk = Desk::with(&[]).await;
    for (path, status) in [("/a", 200), ("/bad", 500)] {
        let (out, err) = new(&desk, &[&format!("{}{path}", desk.url)]).await;
        holds(&out, &[&format!("attr:tracetest.response.status = {status}")]);
        holds(&err, &[&format!("answered {status}, which the test asserts")]);
    }
    let (out, err) = new(&desk, &["http://127.0.0.1:1/a"]).await;
    holds(&out, &["attr:tracetest.response.status = 200"]);
    holds(&err, &["did not answer, so the test asserts status 200"]);
    let (code, _, err) = desk.call("", &["new", "localhost:5101/x"], &[]).await;
    assert_eq!(code, Some(1));
    holds(&err, &["for an address, write http://localhost:5101/x"]);
}

#[tokio::test]
async fn credentials_are_variables_and_the_files_run() {
    let desk = Desk::with(&[]).await;
    let command =
        format!("curl {}/a -H 'Authorization: Bearer s3cr3t' -H 'X-Api-Key: k3y' -H 'Accept: a/b'", desk.url);
    let (_, err) = new(&desk, &[&command, "--out", "tests"]).await;
    holds(&err, &["the variable AUTHORIZATION", "the variable X_API_KEY", "--secret X_API_KEY"]);
    let test = desk.read("tests/get-a.yaml");
    holds(
        &test,
        &["Bearer ${var:AUTHORIZATION}", "${var:X_API_KEY}", "attr:tracetest.response.status < 400"],
    );
    assert!(!test.contains("s3cr3t") && !test.contains("k3y"), "{test}");
    holds(&desk.read("tests/imported-variables.yaml"), &["s3cr3t", "type: secret"]);
    is_clean(&desk, "tests").await;
    let (code, out, err) =
        desk.run(&["tests", "--timeout", "1s", "--settle", "500ms", "--confirm", "0s"]).await;
    assert!(code.is_some_and(|code| code != 1 && code != 3), "{out}{err}");
    assert!(!format!("{out}{err}").contains("s3cr3t"), "{out}{err}");
}

#[tokio::test]
async fn captures_of_hurl_make_a_suite() {
    let desk = Desk::with(&[]).await;
    let file = format!(
        "GET {0}/first\nHTTP 200\n[Captures]\nvalue: jsonpath \"$.value\"\n\nGET {0}/{{{{value}}}}\nHTTP 200\n",
        desk.url
    );
    std::fs::write(desk.path().join("a.hurl"), file).unwrap();
    new(&desk, &["a.hurl", "--out", "tests"]).await;
    is_clean(&desk, "tests").await;
    let waits = ["--timeout", "1s", "--quiet", "10ms", "--settle", "100ms", "--confirm", "0s"];
    let (_, out, err) = desk.run(&[&["tests", "--report", "json"], &waits[..]].concat()).await;
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    let tests = report["tests"].as_array().unwrap();
    assert_eq!(tests.len(), 2, "{report}");
    assert!(tests.iter().all(|test| test["suite"] == "The requests in their order"), "{report}");
}
