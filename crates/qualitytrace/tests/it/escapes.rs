//! Escape codes of others reach no terminal, and orders of others no log of a CI job.

use std::path::Path;
use std::process::Command;

use qualitytrace_testing::terminal::{at_terminal, foreign_codes};
use regex::Regex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::late_spans_load::program::Served;
use crate::program;
use crate::selecting::Desk;
use crate::suites::{holds, test};

/// A title, a clearing of the screen, the same in C1, a line that overwrites another, and a change of direction.
const CODES: &str = "evil\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[31m\u{9b}2J\u{90}q\u{9c}\u{8}\rgood\u{202e}end";
/// Orders of GitHub, Azure and `TeamCity`.
const ORDERS: &str = "::error::owned ##[error]owned ##vso[task.complete]owned ##teamcity[owned]";

/// Fails on anything in the output of a terminal that steers it and is not ours.
fn is_calm(seen: &str, what: &str) {
    let found = foreign_codes(seen);
    assert!(found.is_empty(), "{what}: {found:?} in {seen:?}");
}

fn seen(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(program());
    command.args(arguments).current_dir(folder).env("HOME", folder.join("home"));
    command.env("XDG_CACHE_HOME", folder.join("cache"));
    tokio::task::block_in_place(|| at_terminal(&mut command, "")).1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_texts_are_shown_without_their_codes() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let stored = json!({ "type": "Test", "spec": {
        "id": "t", "name": CODES, "description": CODES,
        "trigger": { "type": "http", "httpRequest": { "method": "GET", "url": "http://127.0.0.1:9/x" } },
    } });
    let put = crate::client().put(server.url("/api/tests")).json(&stored).send().await.unwrap();
    assert!(put.status().is_success(), "{}", put.text().await.unwrap());
    let url = server.url("");
    for arguments in [
        &["list", "test"][..],
        &["list", "test", "-o", "json"],
        &["list", "test", "-o", "yaml"],
        &["get", "test", "--id", "t"],
        &["get", "test", "--id", "t", "-o", "json"],
        &["get", "test", "--id", "t", "-o", "pretty"],
        &["run", "test", "--id", "t"],
    ] {
        let seen = seen(folder.path(), &[arguments, &["-s", &url]].concat());
        assert!(seen.contains("evil"), "{arguments:?} {seen}");
        is_calm(&seen, &format!("{arguments:?}"));
    }
    // For a program, JSON means what is stored.
    let output =
        Command::new(program()).args(["get", "test", "--id", "t", "-o", "json", "-s", &url]).output();
    let shown: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    assert_eq!(shown["spec"]["name"], CODES);
}

/// A server that answers everything with a status and a body.
pub(crate) async fn hostile(status: &'static str, body: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 1 << 13]).await;
            let head =
                format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
        }
    });
    url
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_of_a_hostile_server_and_names_of_files_are_shown_without_their_codes() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("t.yaml"), test("a", "/a", "")).unwrap();
    for (status, body) in [
        ("400 Bad Request", CODES.to_owned()),
        ("401 Unauthorized", json!({ "error": CODES }).to_string()),
        ("200 OK", json!({ "version": CODES }).to_string()),
        ("200 OK", CODES.to_owned()),
    ] {
        let url = hostile(status, body).await;
        for arguments in
            [&["list", "test"][..], &["version"], &["run", "t.yaml"], &["trace", "list"], &["doctor"]]
        {
            is_calm(&seen(here, &[arguments, &["-s", &url]].concat()), &format!("{status} {arguments:?}"));
        }
    }
    let name = format!("x{}.yaml", CODES.replace('/', ""));
    std::fs::write(here.join(&name), test("b", "/b", "  nonsense: true\n")).unwrap();
    for arguments in [
        &["check", "."][..],
        &["check", &name],
        &["run", ".", "--list"],
        &["fmt", "--check", "."],
        &["check", CODES],
    ] {
        let seen = seen(here, arguments);
        assert!(seen.contains("evil"), "{arguments:?} {seen}");
        is_calm(&seen, &format!("{arguments:?}"));
    }
    is_calm(&seen(here, &[CODES]), "a command that is unknown");
    // Our own colours pass.
    assert!(seen(here, &["check", "t.yaml"]).contains("\u{1b}[32m✔\u{1b}[0m"));
}

/// The lines of a log that a GitHub job would obey.
fn obeyed(log: &str) -> Vec<String> {
    let mut token: Option<String> = None;
    let mut obeyed = Vec::new();
    for line in log.lines().map(str::trim_start) {
        match &token {
            Some(end) if line == format!("::{end}::") => token = None,
            Some(_) => {}
            None => match line.strip_prefix("::stop-commands::") {
                Some(end) => token = Some(end.to_owned()),
                None if line.starts_with("::") || line.contains("##[") => obeyed.push(line.to_owned()),
                None => {}
            },
        }
    }
    assert_eq!(token, None, "commands are not stopped for good: {log}");
    obeyed
}

#[tokio::test]
async fn a_log_of_a_ci_job_obeys_no_answer() {
    let url = hostile("500 Oops", format!("{ORDERS}\n{ORDERS}\n")).await;
    let name = format!("Test {ORDERS}");
    let definition = test("a", "/a", "").replace("${var:URL}", &url).replace("Test a", &format!("'{name}'"));
    let desk = Desk::with(&[("t.yaml", definition.clone())]).await;
    let own = ["--otlp-grpc-addr", "off", "--otlp-http-addr", "off"];
    let token = Regex::new("::stop-commands::([0-9a-f]{32})\n").unwrap();
    let mut tokens = Vec::new();
    for (arguments, variables) in [
        (&["run", "t.yaml", "-v"][..], &[("GITHUB_ACTIONS", "true"), ("CI", "true")][..]),
        (&["run", "t.yaml", "--report", "json"], &[("GITHUB_ACTIONS", "true")]),
    ] {
        let (code, out, err) = desk.call("", &[arguments, &own].concat(), variables).await;
        assert_eq!(code, Some(2), "{out}{err}");
        holds(&out, &["owned"]);
        assert_eq!((obeyed(&out), obeyed(&err)), (vec![], vec![]), "{out}\n{err}");
        tokens.extend(token.captures(&out).map(|found| found[1].to_owned()));
    }
    let (_, out, _) =
        desk.call("", &[&["run", "t.yaml", "-v"][..], &own].concat(), &[("GITHUB_ACTIONS", "true")]).await;
    assert_eq!(tokens.len(), 1);
    assert!(!out.contains(&tokens[0]), "a token that is known stops nothing");
    // Annotations of our own are commands, each on one line.
    let arguments = [&["run", "t.yaml", "--report", "github"][..], &own].concat();
    let (_, out, _) = desk.call("", &arguments, &[("GITHUB_ACTIONS", "true")]).await;
    let lines = obeyed(&out);
    assert!(
        !lines.is_empty() && lines.iter().all(|line| line.starts_with("::error file=t.yaml,")),
        "{lines:?}"
    );
    for variable in ["CI", "TF_BUILD", "TEAMCITY_VERSION"] {
        let (code, out, err) =
            desk.call("", &[&["run", "t.yaml", "-v"][..], &own].concat(), &[(variable, "true")]).await;
        assert_eq!(code, Some(2), "{out}{err}");
        for order in ["##[", "##vso[", "##teamcity["] {
            assert!(!out.contains(order) && !err.contains(order), "{variable} {order}: {out}{err}");
        }
        assert_eq!(obeyed(&(out + &err)), [] as [String; 0]);
    }
}
