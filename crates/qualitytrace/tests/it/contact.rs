//! `qualitytrace run` when the server becomes unavailable, or a connection breaks, during a run.

use std::net::SocketAddr;
use std::process::{Output, Stdio};

use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use crate::full_queue::Gate;
use crate::late_spans_load::program::Served;
use crate::program;

/// Starts `qualitytrace run` on these files.
fn run(files: &[(&str, String)], server: &str, arguments: &[&str]) -> (tempfile::TempDir, Child) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let child = Command::new(program())
        .args(["run", ".", "--parallel", "1", "--server", server])
        .args(arguments)
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    (folder, child)
}

fn told(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn holds(text: &str, told: &[&str]) {
    for expected in told {
        assert!(text.contains(expected), "no `{expected}` in:\n{text}");
    }
}

/// A database file that outlives its server.
fn database(folder: &tempfile::TempDir) -> String {
    format!("sqlite://{}", folder.path().join("runs.db").display())
}

/// A server on a fixed port, so that another one can replace it.
async fn serve_at(port: u16, database: &str) -> Served {
    let port = port.to_string();
    let otlp = ["--otlp-grpc-addr", "off", "--otlp-http-addr", "off"];
    let own = ["--server.httpPort", port.as_str(), "--database-url", database];
    Served::start_with(program(), &[&own[..], &otlp].concat()).await
}

#[tokio::test]
async fn a_run_is_followed_across_a_restart_of_the_server() {
    let (folder, gate) = (tempfile::tempdir().unwrap(), Gate::start().await);
    let port = qualitytrace_testing::port();
    let mut server = serve_at(port, &database(&folder)).await;
    let suite = json!({ "type": "TestSuite", "spec": {
        "id": "s", "name": "S", "steps": ["hangs"], "teardown": ["cleans"],
    } });
    let files = [
        ("a.json", gate.test("hangs").to_string()),
        ("b.json", gate.test("cleans").to_string()),
        ("c.json", suite.to_string()),
    ];
    let (_files, child) = run(&files, &server.url(""), &[]);
    gate.asked(1).await;
    server.child.kill().await.unwrap();
    gate.answers.add_permits(2);
    let server = serve_at(port, &database(&folder)).await;
    let output = child.wait_with_output().await.unwrap();
    let text = told(&output);
    // The trigger was sent, and its answer is lost: that is no failure of the system.
    assert_eq!(output.status.code(), Some(4), "{text}");
    let away = format!("the server at {} no longer answers; retrying for up to", server.url(""));
    holds(
        &text,
        &[
            &away,
            "answers again",
            "? S › hangs",
            "the server was restarted during the run",
            "run the test again",
        ],
    );
    holds(&text, &["✔ S › cleans [teardown]", "2 tests: 1 passed, 1 inconclusive"]);
    assert_eq!(gate.times(), 2, "each trigger is sent once");
}

#[tokio::test]
async fn a_run_that_waits_for_its_trace_goes_on_after_a_restart_of_the_server() {
    // The same in both forms of the command, and for a run whose system has a bug. A span that does not come may be lost.
    let cases = [(".", "second", "yes", 0), (".", "second", "no", 2), (".", "other", "yes", 4)];
    let of_original = [("-f t.json", "second", "yes", 0), ("-f t.json", "second", "no", 2)];
    for (line, span, well, code) in cases.into_iter().chain(of_original) {
        let (folder, gate) = (tempfile::tempdir().unwrap(), Gate::start().await);
        let port = qualitytrace_testing::port();
        let mut server = serve_at(port, &database(&folder)).await;
        let mut test = gate.test("t");
        test["spec"]["skipTraceCollection"] = json!(false);
        test["spec"]["specs"] = json!([
            { "selector": "span[name=\"first\"]", "assertions": ["attr:well = \"yes\""] },
            { "selector": "span[name=\"second\"]", "assertions": ["attr:well = \"yes\""] },
        ]);
        let files = tempfile::tempdir().unwrap();
        std::fs::write(files.path().join("t.json"), test.to_string()).unwrap();
        let child = Command::new(program())
            .arg("run")
            .args(line.split(' '))
            .args(["--confirm", "0", "--server", &server.url("")])
            .current_dir(files.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        gate.answers.add_permits(1);
        let run = crate::kill::awaiting_trace(&server, "/api/tests/t/run/1").await;
        crate::kill::send_span(&server, &run, "00000000000000aa", "first", "yes").await;
        server.child.kill().await.unwrap();
        let server = serve_at(port, &database(&folder)).await;
        crate::kill::send_span(&server, &run, "00000000000000bb", span, well).await;
        let output = child.wait_with_output().await.unwrap();
        assert_eq!(output.status.code(), Some(code), "{line} {span} {well}: {}", told(&output));
        assert_eq!(gate.times(), 1, "the trigger is sent once");
    }
}

/// A proxy between client and server whose connections can be cut.
async fn cable(server: SocketAddr) -> (String, watch::Sender<u32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (cut, cuts) = watch::channel(0);
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let mut cuts = cuts.clone();
            cuts.mark_unchanged();
            tokio::spawn(async move {
                let mut far = TcpStream::connect(server).await.unwrap();
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                    _ = cuts.changed() => {}
                }
            });
        }
    });
    (url, cut)
}

#[tokio::test]
async fn a_connection_that_breaks_is_made_again() {
    for more in [&[][..], &["--retries", "2"]] {
        let gate = Gate::start().await;
        let server = Served::start(program(), "sqlite::memory:", &[]).await;
        let (url, cut) = cable(server.http).await;
        let (_files, child) = run(&[("t.json", gate.test("t").to_string())], &url, more);
        gate.asked(1).await;
        cut.send_replace(1);
        gate.answers.add_permits(1);
        let output = child.wait_with_output().await.unwrap();
        assert_eq!(output.status.code(), Some(0), "{more:?} {}", told(&output));
        assert_eq!(gate.times(), 1);
    }
}

#[tokio::test]
async fn giving_up_names_the_open_run_and_reports_the_rest() {
    let gate = Gate::start().await;
    let mut server = Served::start(program(), "sqlite::memory:", &[]).await;
    let files = [("a.json", gate.test("good").to_string()), ("b.json", gate.test("hangs").to_string())];
    let (folder, child) =
        run(&files, &server.url(""), &["--reconnect-timeout", "1", "--junit", "report.xml"]);
    gate.asked(1).await;
    gate.answers.add_permits(1);
    gate.asked(2).await;
    server.child.kill().await.unwrap();
    let output = child.wait_with_output().await.unwrap();
    let text = told(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let later = server.url("/api/tests/hangs/run/1");
    let unfinished = format!("run 1 of test hangs was not followed to its end; look at it later at {later}");
    holds(&text, &["✔ good", "✘ hangs", &unfinished, "2 tests: 1 passed, 1 without a result"]);
    let junit = std::fs::read_to_string(folder.path().join("report.xml")).unwrap();
    holds(&junit, &["errors=\"1\"", &unfinished]);
}

#[tokio::test]
async fn ctrl_c_ends_the_wait_for_a_server_that_is_away() {
    let gate = Gate::start().await;
    let mut server = Served::start(program(), "sqlite::memory:", &[]).await;
    let (_files, mut child) = run(&[("t.json", gate.test("t").to_string())], &server.url(""), &[]);
    gate.asked(1).await;
    server.child.kill().await.unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if line.contains("no longer answers") {
            break;
        }
    }
    let id = child.id().unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let output = child.wait_with_output().await.unwrap();
    let text = told(&output);
    assert_eq!(output.status.code(), Some(130), "{text}");
    holds(&text, &["run 1 of test t was not followed to its end", "1 test: 0 passed, 1 without a result"]);
}

#[tokio::test]
async fn a_server_that_never_answered_is_not_waited_for() {
    let gate = Gate::start().await;
    let (_files, child) = run(&[("t.json", gate.test("t").to_string())], "http://127.0.0.1:9", &[]);
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    holds(&told(&output), &["error: the server at http://127.0.0.1:9 does not answer; start it with"]);
}
