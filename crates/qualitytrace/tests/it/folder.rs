//! The folder is not the user: what files of the current folder cannot do in the name of the user who works there.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use qualitytrace_testing::terminal::at_terminal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::late_spans_load::program::Served;
use crate::program;
use crate::selecting::Desk;
use crate::suites::{holds, test};

const TOKEN: &str = "token-of-the-user-0123456789";

/// A server that answers every request with an empty list and keeps the heads of the requests.
#[derive(Clone)]
pub(crate) struct Recorder {
    pub(crate) address: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Recorder {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let recorder = Self { address, heads: Arc::default() };
        let heads = Arc::clone(&recorder.heads);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut buffer = vec![0; 1 << 16];
                let read = stream.read(&mut buffer).await.unwrap_or(0);
                heads.lock().unwrap().push(String::from_utf8_lossy(&buffer[..read]).into_owned());
                let body = r#"{"count":0,"items":[],"version":"1"}"#;
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        recorder
    }

    /// The requests since the last call.
    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut *self.heads.lock().unwrap())
    }

    fn config(&self, more: &str) -> String {
        format!("scheme: http\nendpoint: {}\n{more}", self.address)
    }
}

/// Runs a command line in a folder, with the user's token in the environment; blocks no other task.
async fn run(folder: &Path, line: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = tokio::process::Command::new(program());
    command.args(line.split_whitespace()).current_dir(folder).env("HOME", folder.join("home"));
    command.env("QUALITYTRACE_TOKEN", TOKEN).envs(variables.iter().copied());
    command.stdin(std::process::Stdio::null()).output().await.unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[tokio::test]
async fn a_server_that_only_the_folder_names_gets_no_token_of_the_user() {
    let (folder, server) = (tempfile::tempdir().unwrap(), Recorder::start().await);
    let here = folder.path();
    std::fs::write(here.join("config.yml"), server.config("")).unwrap();
    std::fs::write(here.join("t.yaml"), test("a", "/a", "")).unwrap();
    std::fs::write(here.join("token"), TOKEN).unwrap();
    for line in [
        "list test",
        "get test --id x",
        "version",
        "doctor",
        "trace list",
        "run t.yaml",
        "run t.yaml --token-file token",
        &format!("list test --token {TOKEN}"),
    ] {
        let said = text(&run(here, line, &[]).await);
        let seen = server.taken();
        assert!(!seen.is_empty(), "{line}: {said}");
        assert!(!seen.concat().contains(TOKEN), "{line}: {seen:?}");
        holds(
            &said,
            &["is not sent to http://", "which only config.yml names; name the server with --server-url"],
        );
    }
    // Named by the user, the same server gets it: by a flag, a variable, a file that a flag names, the user's own file.
    let url = format!("http://{}", server.address);
    for line in [&format!("list test -s {url}"), "list test -c config.yml"] {
        run(here, line, &[]).await;
        assert!(server.taken().concat().contains(TOKEN), "{line}");
    }
    run(here, "list test", &[("TRACETEST_SERVER_URL", &url)]).await;
    assert!(server.taken().concat().contains(TOKEN));
    std::fs::create_dir_all(here.join("home/.qualitytrace")).unwrap();
    std::fs::write(here.join("home/.qualitytrace/config.yml"), server.config("")).unwrap();
    run(here, "list test", &[]).await;
    assert!(server.taken().concat().contains(TOKEN));
}

#[tokio::test]
async fn the_server_of_a_project_file_gets_no_token_of_the_user_and_no_file_of_another_folder() {
    let (folder, server) = (tempfile::tempdir().unwrap(), Recorder::start().await);
    let (here, outside) = (folder.path().join("project"), folder.path().join("secret"));
    std::fs::create_dir(&here).unwrap();
    std::fs::write(&outside, TOKEN).unwrap();
    std::fs::write(here.join("t.yaml"), test("a", "/a", "")).unwrap();
    let write = |more: &str| {
        let text = format!("run:\n  paths: [t.yaml]\n  server: http://{}\n{more}", server.address);
        std::fs::write(here.join("qualitytrace.yaml"), text).unwrap();
    };
    write("");
    let said = text(&run(&here, "run", &[]).await);
    let seen = server.taken();
    assert!(!seen.is_empty() && !seen.concat().contains(TOKEN), "{said} {seen:?}");
    holds(&said, &["which only qualitytrace.yaml names"]);
    std::os::unix::fs::symlink(&outside, here.join("link")).unwrap();
    for file in ["../secret", "link"] {
        write(&format!("  token-file: {file}\n"));
        let said = text(&run(&here, "run", &[]).await);
        assert_eq!(server.taken().len(), 0, "{said}");
        holds(&said, &["is a file outside the folder of the project; give it as `--token-file`"]);
    }
    std::fs::write(here.join("own"), "token-of-the-project-1234").unwrap();
    write("  token-file: own\n");
    run(&here, "run", &[]).await;
    assert!(server.taken().concat().contains("token-of-the-project-1234"));
    for key in
        ["junit: ../written", "learned: ../written", "reports: { markdown: ../written }", "junit: link"]
    {
        write(&format!("  {key}\n"));
        let said = text(&run(&here, "run", &[]).await);
        holds(&said, &["is a file outside the folder of the project; give it as `--"]);
        assert!(!folder.path().join("written").exists());
    }
    write("  skip-verify: true\n");
    holds(&text(&run(&here, "run", &[]).await), &["`run.skip-verify` is no setting of a project"]);
}

#[tokio::test]
async fn completion_and_the_language_server_ask_no_server_of_a_folder() {
    let (folder, server) = (tempfile::tempdir().unwrap(), Recorder::start().await);
    let here = folder.path();
    std::fs::write(here.join("config.yml"), server.config("")).unwrap();
    let asks = async || {
        let mut command = tokio::process::Command::new(program());
        command.args(["--", "qualitytrace", "get", "test", "--id", ""]).current_dir(here);
        command.env("QUALITYTRACE_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "4");
        command.env("_CLAP_COMPLETE_COMP_TYPE", "9").env("_CLAP_COMPLETE_SPACE", "true");
        command.env("HOME", here.join("home")).env("QUALITYTRACE_TOKEN", TOKEN);
        command.output().await.unwrap()
    };
    let answer = asks().await;
    assert_eq!(server.taken().len(), 0, "{}", text(&answer));
    assert_eq!(text(&answer), "", "a shell would show it");
    let document = serde_json::json!({ "jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {
        "textDocument": { "uri": "file:///t.yaml", "languageId": "yaml", "version": 1, "text": test("a", "/a", "") },
    } });
    let asked = serde_json::json!({ "jsonrpc": "2.0", "id": 2, "method": "textDocument/completion", "params": {
        "textDocument": { "uri": "file:///t.yaml" }, "position": { "line": 13, "character": 6 },
    } });
    let begun = serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "capabilities": {} } });
    let end = serde_json::json!({ "jsonrpc": "2.0", "id": 3, "method": "shutdown" });
    let edit = async || {
        let mut command = tokio::process::Command::new(program());
        command.arg("lsp").current_dir(here).env("HOME", here.join("home")).env("QUALITYTRACE_TOKEN", TOKEN);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        for message in [&begun, &document, &asked, &end] {
            let body = message.to_string();
            let sent = format!("Content-Length: {}\r\n\r\n{body}", body.len());
            input.write_all(sent.as_bytes()).await.unwrap();
        }
        let mut output = child.stdout.take().unwrap();
        let mut seen = String::new();
        while !seen.contains("\"id\":3") {
            let mut buffer = vec![0; 1 << 16];
            let read = output.read(&mut buffer).await.unwrap();
            assert!(read > 0, "{seen}");
            seen += &String::from_utf8_lossy(&buffer[..read]);
        }
        assert!(seen.contains("\"id\":2"), "{seen}");
    };
    edit().await;
    assert_eq!(server.taken().len(), 0);
    // The user's own file makes both ask.
    std::fs::create_dir_all(here.join("home/.qualitytrace")).unwrap();
    std::fs::write(here.join("home/.qualitytrace/config.yml"), server.config("")).unwrap();
    asks().await;
    assert!(!server.taken().is_empty());
    edit().await;
    assert!(!server.taken().is_empty());
}

#[tokio::test]
async fn a_folder_weakens_no_connection_and_moves_no_route() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let (certificate, key) = crate::certificate(here);
    let tls = [
        "--server.tls.certFile",
        certificate.to_str().unwrap(),
        "--server.tls.keyFile",
        key.to_str().unwrap(),
    ];
    let server = Served::start(program(), "sqlite::memory:", &tls).await;
    let config = format!("scheme: https\nendpoint: {}\nskipVerify: true\n", server.http);
    std::fs::write(here.join("config.yml"), &config).unwrap();
    let url = format!("https://{}", server.http);
    for line in ["list test", &format!("list test -s {url}")] {
        let output = run(here, line, &[]).await;
        assert_eq!(output.status.code(), Some(1), "{line}");
        holds(
            &text(&output),
            &["is not trusted", "`skipVerify` of config.yml in this folder does not count"],
        );
    }
    assert_eq!(run(here, "list test --skip-verify", &[]).await.status.code(), Some(0));
    std::fs::remove_file(here.join("config.yml")).unwrap();
    std::fs::create_dir_all(here.join("home/.qualitytrace")).unwrap();
    std::fs::write(here.join("home/.qualitytrace/config.yml"), &config).unwrap();
    assert_eq!(run(here, "list test", &[]).await.status.code(), Some(0));
    // The routes of another server, below a path of the folder's choice.
    let recorder = Recorder::start().await;
    let config = "scheme: http\nendpoint: 127.0.0.1:1\nserverPath: /elsewhere\n";
    std::fs::write(here.join("config.yml"), config).unwrap();
    run(here, &format!("list test -s http://{}", recorder.address), &[]).await;
    let seen = recorder.taken().concat();
    assert!(seen.starts_with("GET /api/tests"), "{seen}");
}

#[tokio::test]
async fn a_config_of_another_tool_neither_redirects_nor_stops_a_run() {
    let desk = Desk::with(&[("t.yaml", test("a", "/a", ""))]).await;
    let recorder = Recorder::start().await;
    let other = recorder.address.clone();
    for stray in [
        "{{ template }}: [",
        "- a\n- list\n",
        "\u{0}\u{1}binary",
        &format!("endpoint: {other}\n"),
        &format!("scheme: https\nendpoint: {other}\nbucket: mine\n"),
        &format!("scheme: http\nendpoint: {other}\nlogging: {{ level: debug }}\n"),
        &format!("server: http://{other}\ntoken: abc\n"),
        "endpoint: 17\nscheme: true\n",
    ] {
        std::fs::write(desk.path().join("config.yml"), stray).unwrap();
        let (code, out, err) = desk.run(&["t.yaml"]).await;
        assert_eq!(code, Some(0), "{stray}: {out}{err}");
        assert_eq!(recorder.taken().len(), 0, "{stray}");
    }
    // Nor is a token put into it.
    std::fs::write(desk.path().join("config.yml"), "bucket: mine\n").unwrap();
    let line = format!("configure -s http://{other} --token {TOKEN}");
    let arguments: Vec<&str> = line.split_whitespace().collect();
    let (code, out, err) = desk.call("", &arguments, &[]).await;
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(desk.read("config.yml"), "bucket: mine\n");
    // A pipe of this name keeps nobody waiting.
    std::fs::remove_file(desk.path().join("config.yml")).unwrap();
    let pipe = desk.path().join("config.yml");
    assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    let (code, out, err) = desk.run(&["t.yaml", "--local"]).await;
    assert_eq!(code, Some(0), "{out}{err}");
}

#[tokio::test]
async fn files_of_another_user_are_not_obeyed_until_they_are_allowed() {
    if !rustix::process::geteuid().is_root() {
        return; // Only the administrator can make the files of others.
    }
    let desk = Desk::with(&[("t.yaml", test("a", "/a", ""))]).await;
    let recorder = Recorder::start().await;
    let (project, config) = (desk.path().join("qualitytrace.yaml"), desk.path().join("config.yml"));
    std::fs::write(&project, "run:\n  paths: [t.yaml]\n  with: ['touch started; sleep 60']\n").unwrap();
    std::fs::write(&config, recorder.config("")).unwrap();
    for file in [&project, &config] {
        std::os::unix::fs::chown(file, Some(4321), None).unwrap();
    }
    let (code, _, err) = desk.call("", &["run"], &[("QUALITYTRACE_RUN_LIST", "true")]).await;
    assert_eq!(code, Some(1), "{err}");
    holds(&err, &["qualitytrace.yaml belongs to another user and does not count; name it with --project"]);
    let (_, _, err) = desk.call("", &["config", "check", "--database-url", "sqlite::memory:"], &[]).await;
    holds(&err, &["qualitytrace.yaml:1:1: warning: this file is not read: it belongs to another user"]);
    let (_, _, err) = desk.call("", &["list", "test"], &[]).await;
    holds(&err, &["config.yml in this folder is not used: it belongs to another user"]);
    assert_eq!(recorder.taken().len(), 0);
    let folder = desk.path().to_str().unwrap();
    for (arguments, variables) in [
        (&["run", "--list"][..], &[("QUALITYTRACE_SAFE_DIRECTORY", folder)][..]),
        (&["run", "--list"], &[("QUALITYTRACE_SAFE_DIRECTORY", "*")]),
        (&["run", "--list", "--project", "qualitytrace.yaml"], &[]),
        (&["run", "--list", "--trust-project"], &[]),
    ] {
        let (code, out, err) = desk.call("", arguments, variables).await;
        assert_eq!((code, out.lines().count()), (Some(0), 1), "{arguments:?} {err}");
    }
    desk.call("", &["list", "test"], &[("QUALITYTRACE_SAFE_DIRECTORY", folder)]).await;
    assert!(!recorder.taken().is_empty());
    assert!(!desk.path().join("started").exists());
}

/// A project whose file starts a command, which leaves a file behind.
async fn starting(with: &str) -> Desk {
    let desk = Desk::with(&[("t.yaml", test("a", "/a", ""))]).await;
    let text = format!("run:\n  paths: [t.yaml]\n  with: ['{with}']\n  variables: {{ URL: {} }}\n", desk.url);
    std::fs::write(desk.path().join("qualitytrace.yaml"), text).unwrap();
    desk
}

#[tokio::test]
async fn a_command_of_a_project_file_is_started_once_it_is_confirmed() {
    let desk = starting("touch started; sleep 60").await;
    let started = desk.path().join("started");
    let (code, out, err) = desk.call("", &["run"], &[]).await;
    assert_eq!(code, Some(1), "{out}{err}");
    holds(&err, &["the project file qualitytrace.yaml starts\n  touch started; sleep 60\n"]);
    holds(&err, &["--trust-project (in CI: QUALITYTRACE_RUN_TRUST_PROJECT=true)"]);
    assert!(!started.exists());
    for (arguments, variables) in [
        (&["run", "--trust-project"][..], &[][..]),
        (&["run"], &[("QUALITYTRACE_RUN_TRUST_PROJECT", "true"), ("CI", "true")]),
        (&["run", "--project", "qualitytrace.yaml"], &[]),
        (&["run", "--with", "touch started; sleep 60"], &[]),
    ] {
        let (code, out, err) = desk.call("", arguments, variables).await;
        assert_eq!(code, Some(0), "{arguments:?} {out}{err}");
        std::fs::remove_file(&started).unwrap();
    }
    // None of these is remembered.
    assert_eq!(desk.call("", &["run"], &[]).await.0, Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_confirmation_at_a_terminal_is_kept_for_this_file_and_these_commands() {
    let desk = starting("touch started; sleep 60").await;
    let started = desk.path().join("started");
    let answer = |input: &str| {
        let mut command = Command::new(program());
        command.arg("run").current_dir(desk.path()).env("HOME", desk.path().join("home"));
        command.env("XDG_CACHE_HOME", desk.path().join("cache"));
        tokio::task::block_in_place(|| at_terminal(&mut command, input))
    };
    for input in ["\n", "no\n", "\u{4}"] {
        let (status, seen) = answer(input);
        assert_eq!(status.code(), Some(1), "{seen}");
        assert!(!started.exists(), "{seen}");
    }
    let (status, seen) = answer("yes\n");
    assert_eq!(status.code(), Some(0), "{seen}");
    holds(&seen, &["starts\r\n  touch started; sleep 60\r\n", "(yes/no) [no]: "]);
    assert!(started.exists());
    let (code, out, err) = desk.call("", &["run"], &[]).await;
    assert_eq!(code, Some(0), "{out}{err}");
    std::fs::remove_file(&started).unwrap();
    let text = desk.read("qualitytrace.yaml").replace("started", "changed");
    std::fs::write(desk.path().join("qualitytrace.yaml"), text).unwrap();
    let (code, _, err) = desk.call("", &["run"], &[]).await;
    assert_eq!(code, Some(1), "{err}");
    holds(&err, &["touch changed"]);
}

#[tokio::test]
async fn commands_in_the_tests_that_a_project_file_names_are_confirmed_too() {
    let exec = "type: Test\nspec:\n  id: e\n  name: E\n  skipTraceCollection: true\n  trigger:\n    type: exec\n    \
                exec: { command: [touch, started] }\n";
    let desk = Desk::with(&[("e.yaml", exec.to_owned())]).await;
    std::fs::write(desk.path().join("qualitytrace.yaml"), "run: { paths: [e.yaml] }\n").unwrap();
    let own = ["--otlp-grpc-addr", "off", "--otlp-http-addr", "off"];
    let (code, out, err) = desk.call("", &[&["run"][..], &own].concat(), &[]).await;
    assert_eq!(code, Some(1), "{out}{err}");
    holds(&err, &["(the commands and browser scripts of its tests)"]);
    assert!(!desk.path().join("started").exists());
    // A file that the user names is what the user wants to run.
    let (code, out, err) = desk.call("", &[&["run", "e.yaml"][..], &own].concat(), &[]).await;
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(desk.path().join("started").exists());
}
