//! Ctrl-C or hangup during `qualitytrace run`: runs are stopped, a suite still runs its teardown, the report is
//! written.

use std::process::Stdio;

use qualitytrace_testing::{DEADLINE, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

const HANGING: &str = "type: Test
spec:
  id: hangs
  name: Hangs
  trigger:
    type: http
    httpRequest: { method: GET, url: '${var:URL}/hang' }
";

const WAITING: &str = "type: Test
spec:
  id: waits
  name: Waits for its turn
  trigger:
    type: http
    httpRequest: { method: GET, url: '${var:URL}/later' }
";

const SUITE: &str = "type: TestSuite
spec:
  name: Suite
  steps: [hangs]
  teardown: [cleans]
---
type: Test
spec:
  id: cleans
  name: Cleans up
  skipTraceCollection: true
  trigger:
    type: http
    httpRequest: { method: GET, url: '${var:URL}/clean' }
";

/// The path of the next request, and the connection for the response.
async fn asked(listener: &TcpListener) -> (String, TcpStream) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut buffer = vec![0; 4096];
    let read = stream.read(&mut buffer).await.unwrap();
    let head = String::from_utf8_lossy(&buffer[..read]).into_owned();
    (head.split(' ').nth(1).unwrap().to_owned(), stream)
}

/// Starts the program on these files in a folder of their own.
fn run(files: &[(&str, &str)], url: &str) -> (tempfile::TempDir, tokio::process::Child) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    // The tests themselves may run under `nohup`, which the program would inherit.
    let child = Command::new("env")
        .arg("--default-signal=HUP")
        .arg(super::program())
        .current_dir(folder.path())
        .args(["run", ".", "--parallel", "1", "--junit", "report.xml", "--var", &format!("URL={url}")])
        .args(["--otlp-grpc-addr", "off", "--otlp-http-addr", "off"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    (folder, child)
}

fn interrupt(child: &tokio::process::Child) {
    send("-INT", child);
}

fn send(signal: &str, child: &tokio::process::Child) {
    let id = child.id().unwrap().to_string();
    assert!(std::process::Command::new("kill").args([signal, &id]).status().unwrap().success());
}

#[tokio::test]
async fn a_run_whose_terminal_goes_away_ends_its_commands_and_reports() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let command = "type: Test
spec:
  id: command
  name: Command
  skipTraceCollection: true
  trigger:
    type: exec
    exec:
      command: [bash, -c, 'sleep 1001 & echo $! $$ > pids; mv pids ready; exec sleep 1002']
";
    let (folder, child) = run(&[("a.yaml", command)], &url);
    let ready = folder.path().join("ready");
    eventually(DEADLINE, "the command is running", async || ready.exists()).await;
    let processes = std::fs::read_to_string(ready).unwrap();
    send("-HUP", &child);
    let output = child.wait_with_output().await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.contains("1 test: 0 passed, 1 stopped"), "{text}");
    assert!(folder.path().join("report.xml").exists());
    for process in processes.split_whitespace() {
        // A process that ended and was not reaped is still listed.
        let state = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "{process} is still there: {state}");
    }
}

#[tokio::test]
async fn a_run_under_nohup_goes_on_when_its_terminal_goes_away() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let test = HANGING.replace("  trigger:", "  skipTraceCollection: true\n  trigger:");
    std::fs::write(folder.path().join("a.yaml"), test).unwrap();
    let program = super::program().display();
    let flags = format!("--var URL={url} --otlp-grpc-addr off --otlp-http-addr off");
    let child = Command::new("bash")
        .current_dir(folder.path())
        .args(["-c", &format!("trap '' HUP; exec {program} run a.yaml {flags}")])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let (_, mut connection) = asked(&listener).await;
    send("-HUP", &child);
    connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    let output = child.wait_with_output().await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("1 test: 1 passed"), "{text}");
}

#[tokio::test]
async fn an_interrupted_run_reports_what_it_knows() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (folder, child) = run(&[("a.yaml", HANGING), ("b.yaml", WAITING)], &url);
    let (path, _connection) = asked(&listener).await;
    assert_eq!(path, "/hang");
    interrupt(&child);
    let output = child.wait_with_output().await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.contains("the run was stopped"), "{text}");
    assert!(text.contains("2 tests: 0 passed, 1 stopped, 1 not run"), "{text}");
    let junit = std::fs::read_to_string(folder.path().join("report.xml")).unwrap();
    assert!(junit.contains("interrupted before it began"), "{junit}");
}

/// The lines of a terminal after it has obeyed the codes that were sent to it: erasing lines, and moving up.
fn screen(sent: &str) -> Vec<String> {
    let (mut lines, mut row) = (vec![String::new()], 0);
    let mut rest = sent;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        match letter {
            '\r' => {}
            '\n' => {
                row += 1;
                lines.resize(lines.len().max(row + 1), String::new());
            }
            '\u{1b}' => {
                let end = rest.find(|code: char| code.is_ascii_alphabetic()).unwrap();
                let (code, after) = rest.split_at(end + 1);
                match code.strip_prefix('[').unwrap() {
                    "J" => {
                        lines.truncate(row + 1);
                        lines[row].clear();
                    }
                    up if up.ends_with('A') => row -= up.trim_end_matches('A').parse::<usize>().unwrap(),
                    _ => {}
                }
                rest = after;
            }
            letter => lines[row].push(letter),
        }
    }
    lines
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_run_leaves_no_line_of_its_progress_behind() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.yaml"), HANGING).unwrap();
    let mut command = std::process::Command::new("timeout");
    command.args(["--foreground", "--signal", "INT", "3"]).arg(super::program());
    command.args(["run", "a.yaml", "--otlp-grpc-addr", "off", "--otlp-http-addr", "off"]);
    command.args(["--var", &format!("URL={url}")]).current_dir(folder.path()).env("HOME", folder.path());
    let (_, sent) =
        tokio::task::block_in_place(|| qualitytrace_testing::terminal::at_terminal(&mut command, ""));
    assert!(sent.contains("0/1 done, 1 running"), "{sent:?}");
    let seen = screen(&sent).join("\n");
    assert!(seen.contains("stopping the runs in progress") && seen.contains("1 stopped"), "{seen}");
    assert!(!seen.contains("running") && !seen.contains("triggered"), "{seen}");
}

#[tokio::test]
async fn an_interrupted_suite_still_cleans_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (_folder, child) = run(&[("a.yaml", HANGING), ("suite.yaml", SUITE)], &url);
    let (path, _connection) = asked(&listener).await;
    assert_eq!(path, "/hang");
    interrupt(&child);
    let (path, mut connection) = asked(&listener).await;
    assert_eq!(path, "/clean");
    connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    let output = child.wait_with_output().await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.contains("it was ended with the suite"), "{text}");
}
