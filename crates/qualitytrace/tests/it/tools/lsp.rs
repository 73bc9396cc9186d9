//! `lsp`, over standard input and output, with the messages of editors.
#![expect(clippy::needless_pass_by_value, reason = "messages are written in place")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::traces::{TRACE, otlp};
use super::{apart, collected, run, stdout};
use crate::late_spans_load::program::Served;
use crate::program;

/// An editor with its language server.
struct Editor {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last: u64,
}

impl Editor {
    /// Starts the server and initializes it as VS Code does.
    fn open(folder: &Path, arguments: &[&str]) -> Self {
        let mut editor = Self::start(folder, arguments);
        let answer = editor.ask(
            "initialize",
            json!({
                "processId": 1, "rootUri": format!("file://{}", folder.display()),
                "capabilities": { "textDocument": { "hover": { "contentFormat": ["markdown"] } } },
            }),
        );
        let capabilities = &answer["result"]["capabilities"];
        assert_eq!(capabilities["positionEncoding"], "utf-16", "{answer}");
        assert_eq!(capabilities["textDocumentSync"], 1, "{answer}");
        editor.tell("initialized", json!({}));
        editor
    }

    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(program());
        let mut child = apart(&mut command, folder)
            .arg("lsp")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output, last: 0 }
    }

    fn write(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(bytes).unwrap();
        input.flush().unwrap();
    }

    fn send(&mut self, message: &Value) {
        let body = message.to_string();
        self.write(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
    }

    fn tell(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let id = self.last;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(&request);
        loop {
            let message = self.receive();
            if message["id"] == id {
                return message;
            }
        }
    }

    fn receive(&mut self) -> Value {
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the server has ended");
            if let Some(number) = line.strip_prefix("Content-Length: ") {
                length = number.trim().parse().unwrap();
            } else if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        self.output.read_exact(&mut body).unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    /// Opens a file in the editor and returns the diagnostics.
    fn show(&mut self, uri: &str, text: &str) -> Vec<Value> {
        self.tell(
            "textDocument/didOpen",
            json!({
                "textDocument": { "uri": uri, "languageId": "yaml", "version": 1, "text": text }
            }),
        );
        self.diagnostics(uri)
    }

    fn diagnostics(&mut self, uri: &str) -> Vec<Value> {
        loop {
            let message = self.receive();
            if message["method"] == "textDocument/publishDiagnostics" && message["params"]["uri"] == uri {
                return message["params"]["diagnostics"].as_array().unwrap().clone();
            }
        }
    }

    fn at(&mut self, method: &str, uri: &str, line: u32, character: u32) -> Value {
        let place =
            json!({ "textDocument": { "uri": uri }, "position": { "line": line, "character": character } });
        self.ask(method, place)["result"].clone()
    }

    fn close(mut self) -> Option<i32> {
        assert_eq!(self.ask("shutdown", Value::Null)["result"], Value::Null);
        self.tell("exit", Value::Null);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        // It has ended already in most tests.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const TEST: &str = "type: Test
spec:
  name: 🚀 a
  triger: {}
  specs:
    - selector: span[name=\"chrage\"]
      assertions:
        - attr:http.route = \"/orders\"
";

#[test]
fn diagnostics_follow_the_text() {
    let folder = tempfile::tempdir().unwrap();
    let mut editor = Editor::open(folder.path(), &[]);
    let uri = format!("file://{}/a.yaml", folder.path().display());
    let found = editor.show(&uri, TEST);
    assert_eq!(found[0]["code"], "unknown-key", "{found:?}");
    assert_eq!(
        found[0]["range"],
        json!({ "start": { "line": 3, "character": 2 }, "end": { "line": 3, "character": 8 } })
    );
    editor.tell("textDocument/didChange", json!({
        "textDocument": { "uri": uri, "version": 2 },
        "contentChanges": [{ "text": "type: Test\nspec:\n  name: '🚀🚀 ${env}'\n  trigger: {type: http, httpRequest: {url: '🚀 ${attr:x}'}}\n" }],
    }));
    let found = editor.diagnostics(&uri);
    let place = found.iter().find(|found| found["code"] == "no-span-here").unwrap();
    assert_eq!(
        place["range"]["start"],
        json!({ "line": 3, "character": 49 }),
        "UTF-16 code units: {found:?}"
    );
    editor.tell("textDocument/didClose", json!({ "textDocument": { "uri": uri } }));
    assert_eq!(editor.diagnostics(&uri), Vec::<Value>::new());
    assert_eq!(
        editor.show(&format!("{uri}2"), "services:\n  web: {}\n"),
        Vec::<Value>::new(),
        "no definition"
    );
    assert_eq!(editor.close(), Some(0));
}

#[test]
fn keys_are_completed_from_the_schema_and_mistakes_have_fixes() {
    let folder = tempfile::tempdir().unwrap();
    let mut editor = Editor::open(folder.path(), &[]);
    let uri = format!("file://{}/a.yaml", folder.path().display());
    editor.show(&uri, "type: Test\nspec:\n  name: a\n  tri\n");
    let offered = editor.at("textDocument/completion", &uri, 3, 5);
    let labels: Vec<&str> =
        offered.as_array().unwrap().iter().filter_map(|item| item["label"].as_str()).collect();
    assert!(labels.contains(&"trigger") && labels.contains(&"specs"), "{labels:?}");
    let trigger = offered.as_array().unwrap().iter().find(|item| item["label"] == "trigger").unwrap();
    assert_eq!(trigger["textEdit"]["newText"], "trigger:");
    assert_eq!(trigger["textEdit"]["range"]["start"], json!({ "line": 3, "character": 2 }));
    editor.show(&uri, TEST);
    let actions = editor.ask(
        "textDocument/codeAction",
        json!({
            "textDocument": { "uri": uri }, "context": { "diagnostics": [] },
            "range": { "start": { "line": 3, "character": 4 }, "end": { "line": 3, "character": 4 } },
        }),
    );
    let edit = &actions["result"][0]["edit"]["changes"][&uri][0];
    assert_eq!(edit["newText"], "trigger", "{actions}");
    let hover = editor.at("textDocument/hover", &uri, 7, 20);
    let shown = hover["contents"]["value"].as_str().unwrap();
    assert!(shown.contains("**http.route**") && shown.contains("The route that matched"), "{shown}");
    for (line, character, key) in [(0, 1, "type"), (1, 2, "spec"), (2, 4, "name"), (4, 4, "specs")] {
        let hover = editor.at("textDocument/hover", &uri, line, character);
        let shown = hover["contents"]["value"].as_str().unwrap_or_default();
        assert!(shown.starts_with(&format!("**{key}**\n\n")) && shown.ends_with('.'), "{key}: {hover}");
    }
    let formatted = editor.ask(
        "textDocument/formatting",
        json!({
            "textDocument": { "uri": uri }, "options": { "tabSize": 2, "insertSpaces": true }
        }),
    );
    assert!(formatted["result"].as_array().unwrap().len() == 1, "{formatted}");
    assert_eq!(editor.close(), Some(0));
}

#[tokio::test]
async fn traces_of_the_server_are_offered_shown_and_suggested() {
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    let sent = crate::client().post(server.url("/api/traces")).json(&otlp(TRACE)).send().await.unwrap();
    assert!(sent.status().is_success());
    let url = server.url("");
    tokio::task::spawn_blocking(move || {
        let folder = tempfile::tempdir().unwrap();
        let mut editor = Editor::open(folder.path(), &["-s", &url]);
        let uri = format!("file://{}/a.yaml", folder.path().display());
        editor.show(&uri, TEST);
        let offered = editor.at("textDocument/completion", &uri, 7, 15).to_string();
        assert!(offered.contains("payment.amount"), "{offered}");
        let names = editor.at("textDocument/completion", &uri, 5, 27).to_string();
        assert!(names.contains("charge") && names.contains("POST /orders"), "{names}");
        let hover = editor.at("textDocument/hover", &uri, 7, 20).to_string();
        assert!(hover.contains("`/orders` (1)"), "{hover}");
        let place = json!({ "line": 5, "character": 20 });
        let actions = editor.ask(
            "textDocument/codeAction",
            json!({
                "textDocument": { "uri": uri }, "context": { "diagnostics": [] },
                "range": { "start": place, "end": place },
            }),
        );
        let edit = &actions["result"][0]["edit"]["changes"][&uri][0];
        assert_eq!(edit["newText"], "span[name=\"charge\"]", "{actions}");
        assert_eq!(editor.close(), Some(0));
    })
    .await
    .unwrap();
}

#[test]
fn a_step_leads_to_its_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("pay.yaml"), "type: Test\nspec:\n  id: pay-id\n  name: Pay\n").unwrap();
    let mut editor = Editor::open(folder.path(), &[]);
    let uri = format!("file://{}/suite.yaml", folder.path().display());
    editor.show(&uri, "type: TestSuite\nspec:\n  name: s\n  steps:\n    - ./pay.yaml\n    - pay-id\n");
    for (line, expected) in [(4, 0), (5, 2)] {
        let found = editor.at("textDocument/definition", &uri, line, 8);
        assert!(found["uri"].as_str().unwrap().ends_with("/pay.yaml"), "{found}");
        assert_eq!(found["range"]["start"]["line"], expected, "{found}");
    }
    assert_eq!(editor.at("textDocument/definition", &uri, 2, 3), Value::Null);
    assert_eq!(editor.close(), Some(0));
}

/// What Neovim 0.7 sent while a person opened a test, looked, took a quick fix, formatted, and followed a step.
const NEOVIM: &str = include_str!("neovim.jsonl");

#[test]
fn a_recorded_session_of_neovim_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.yaml"), TEST).unwrap();
    let mut editor = Editor::start(folder.path(), &[]);
    let mut results = BTreeMap::new();
    let mut diagnostics = Vec::new();
    for line in NEOVIM.replace("FOLDER", folder.path().to_str().unwrap()).lines() {
        let message: Value = serde_json::from_str(line).unwrap();
        editor.send(&message);
        let method = message["method"].as_str().unwrap().to_owned();
        if let Some(id) = message["id"].as_u64() {
            let answer = editor.receive();
            assert_eq!(answer["id"], id, "{answer}");
            results.insert(method, answer["result"].clone());
        } else if method.ends_with("/didOpen") || method.ends_with("/didChange") {
            let uri = message["params"]["textDocument"]["uri"].as_str().unwrap().to_owned();
            diagnostics.push(editor.diagnostics(&uri).len());
        }
    }
    assert_eq!(editor.child.wait().unwrap().code(), Some(0));
    assert_eq!(diagnostics, [1, 0, 0], "the mistake, its fix, and a suite");
    let result = |method: &str| results[&format!("textDocument/{method}")].to_string();
    assert!(result("hover").contains("The route that matched"), "{results:?}");
    assert!(result("completion").contains("http.route"), "{results:?}");
    assert!(result("codeAction").contains("Write `trigger`"), "{results:?}");
    assert!(result("definition").contains("/a.yaml"), "{results:?}");
}

#[test]
fn broken_messages_do_not_end_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut editor = Editor::open(folder.path(), &[]);
    for (broken, code) in [
        (&b"Content-Length: many\r\n\r\n"[..], -32700),
        (b"Content-Length: 5\r\n\r\n{nope", -32700),
        (b"Content-Length: 2\r\n\r\n[]", -32600),
        (b"No-Length: 1\r\nContent-Length: 4\r\n\r\nnull", -32600),
    ] {
        editor.write(broken);
        let answer = editor.receive();
        assert_eq!(answer["error"]["code"], code, "{answer}");
    }
    let huge = vec![b' '; 17 << 20];
    editor.write(format!("Content-Length: {}\r\n\r\n", huge.len()).as_bytes());
    editor.write(&huge);
    assert_eq!(editor.receive()["error"]["code"], -32600);
    let unknown = editor.ask("textDocument/noSuchMethod", json!({}));
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
    let invalid = editor.ask("textDocument/hover", json!({ "position": "nowhere" }));
    assert_eq!(invalid["error"]["code"], -32602, "{invalid}");
    assert_eq!(editor.close(), Some(0));
}

#[test]
fn an_editor_that_leaves_without_a_word_is_no_success() {
    let folder = tempfile::tempdir().unwrap();
    let mut editor = Editor::start(folder.path(), &[]);
    assert_eq!(editor.ask("textDocument/hover", json!({}))["error"]["code"], -32002, "not initialized");
    editor.tell("exit", Value::Null);
    assert_eq!(editor.child.wait().unwrap().code(), Some(1), "exit without shutdown");
    let mut editor = Editor::open(folder.path(), &[]);
    drop(editor.input.take());
    assert_eq!(editor.child.wait().unwrap().code(), Some(1), "the end of the input");
}

#[test]
fn it_says_the_same_as_check_about_every_collected_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut editor = Editor::open(folder.path(), &[]);
    let mut wrong = Vec::new();
    let mut compared = 0;
    let all = collected::all();
    for one in &all {
        std::fs::write(folder.path().join(one.file()), &one.text).unwrap();
    }
    let checked = checked(&stdout(&run(folder.path(), &["check", "."])));
    for one in &all {
        let uri = format!("file://{}/{}", folder.path().display(), one.file());
        let found = editor.show(&uri, &one.text);
        let place = |found: &Value| {
            let line = found["range"]["start"]["line"].as_u64().unwrap() + 1;
            format!("{} {line}", found["code"].as_str().unwrap())
        };
        let told: BTreeSet<String> = found.iter().map(place).collect();
        compared += told.len();
        let checked = checked.get(&one.file()).cloned().unwrap_or_default();
        if told != checked {
            wrong.push(format!("{}: {told:?} is not {checked:?}", one.file()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 30, "only {compared} diagnostics");
    assert_eq!(editor.close(), Some(0));
}

/// The codes and lines of the diagnostics that `check` prints, by file. Two files with one id are its business alone.
fn checked(printed: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut code = None;
    for line in printed.lines() {
        if let Some(rest) = line.strip_prefix("error[").or_else(|| line.strip_prefix("warning[")) {
            code = rest.split(']').next();
        } else if let (Some(place), Some(known)) = (line.trim_start().strip_prefix("--> "), code.take()) {
            let mut parts = place.rsplit(':').skip(1);
            let (number, file) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            if known != "duplicate-id" {
                let file = file.trim_start_matches("./").to_owned();
                found.entry(file).or_default().insert(format!("{known} {number}"));
            }
        }
    }
    found
}
