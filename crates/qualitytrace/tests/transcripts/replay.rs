//! Replay of recorded command lines of Tracetest against this program and a fresh server.
//!
//! They are run in order, in one folder, and state carries over. Ids, times, colours and columns are masked; deliberate
//! differences are listed in `differences.json` with their reasons, and what they expect instead is checked.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use regex::Regex;
use serde::Deserialize;
use serde_json::Value;
use tokio::process::Command;

use super::Served;

#[path = "../../../qualitytrace-server/tests/replay/subject.rs"]
mod subject;

/// The address of the server in the recordings.
const RECORDED_SERVER: &str = "localhost:11633";
/// The address of the system under test in the recordings.
const RECORDED_SUBJECT: &str = "127.0.0.1:8085";
/// What stands before the message of an error in the recordings.
const ERROR_HEAD: &str = "An error ocurred when executing the command\n\n";

/// A recorded command line.
#[derive(Debug, Deserialize)]
struct Transcript {
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    exit_code: i32,
    stdout: String,
    stderr: String,
    #[serde(default)]
    stdout_free: bool,
    #[serde(default)]
    stderr_free: bool,
    /// Files and their content; `None` for one that must not be there.
    #[serde(default)]
    files_after: BTreeMap<String, Option<String>>,
}

impl Transcript {
    /// A command line that was not recorded.
    fn of(args: &[&str]) -> Self {
        Self {
            args: args.iter().map(|argument| (*argument).to_owned()).collect(),
            env: BTreeMap::new(),
            exit_code: 0,
            stdout: String::new(),
            stderr: String::new(),
            stdout_free: true,
            stderr_free: true,
            files_after: BTreeMap::new(),
        }
    }
}

/// A deliberate difference.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    reason: String,
    when: When,
    expect: Expected,
}

/// Which transcripts differ; patterns are searched in the recorded texts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct When {
    args: String,
    exit: Option<i32>,
    stdout: Option<String>,
    stderr: Option<String>,
}

/// What holds of ours instead; what is not named is compared.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    exit: Option<i32>,
    /// A pattern for all of the masked output.
    stdout: Option<String>,
    stderr: Option<String>,
    /// Whether files are not compared.
    #[serde(default)]
    files: bool,
}

/// What a command line gave.
#[derive(Debug)]
struct CommandOutput {
    exit: i32,
    stdout: String,
    stderr: String,
}

/// The results of a replay.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    same: usize,
    /// Reasons of deliberate differences and how many transcripts have them.
    deliberate: BTreeMap<String, usize>,
    /// Each transcript that differs, with what differs.
    pub(crate) different: Vec<String>,
}

impl Summary {
    /// A table and the differences.
    pub(crate) fn render(&self) -> String {
        let mut text = format!("{:>5}  the same\n", self.same);
        for (reason, count) in &self.deliberate {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{count:>5}  {reason}");
        }
        let _ = writeln!(text, "{:>5}  different", self.different.len());
        text + &self.different.concat()
    }
}

/// The project's own copy of the recordings.
pub(crate) fn own_recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/cli.json")
}

/// Replays the recordings of a file. Definition files are those of the project, and of `cli_inputs.json` beside it.
pub(crate) async fn run(program: &Path, recordings: &Path) -> Summary {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let transcripts: Vec<Transcript> = read(recordings);
    let differences: Vec<Difference> = read(&own.join("differences.json"));
    let mut inputs: BTreeMap<String, String> = read(&own.join("inputs.json"));
    let beside = recordings.with_file_name("cli_inputs.json");
    if beside.is_file() {
        inputs.extend(read::<BTreeMap<String, String>>(&beside));
    }
    let server = Served::start(program, "sqlite::memory:", &[]).await;
    let subject = subject::start(server.http, RECORDED_SUBJECT).await.unwrap();
    let desk = Desk::new(program, server.http.to_string(), subject.to_string());
    for (name, text) in &inputs {
        std::fs::write(desk.folder.path().join(name), desk.ours(text)).unwrap();
    }
    // Other recordings, which need not be in this file, have set the required gates.
    let gates = Transcript::of(&["apply", "testrunner", "-f", "tr.yaml", "-s", "http://localhost:11633"]);
    assert_eq!(desk.given(&gates).await.exit, 0);
    let mut summary = Summary::default();
    for (at, transcript) in transcripts.iter().enumerate() {
        let given = desk.given(transcript).await;
        let known: Vec<&Difference> = differences.iter().filter(|known| known.when.is(transcript)).collect();
        let wrong = compared(&desk, transcript, &given, &known);
        if !wrong.is_empty() {
            let line = transcript.args.join(" ");
            summary.different.push(format!("\n{at}: {line}\n{}", wrong.join("\n")));
        } else if known.is_empty() {
            summary.same += 1;
        } else {
            for difference in known {
                *summary.deliberate.entry(difference.reason.clone()).or_default() += 1;
            }
        }
    }
    summary
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

impl When {
    fn is(&self, transcript: &Transcript) -> bool {
        let holds = |pattern: &Option<String>, text: &str| {
            pattern.as_ref().is_none_or(|pattern| pattern_of(pattern).is_match(text))
        };
        pattern_of(&self.args).is_match(&transcript.args.join(" "))
            && self.exit.is_none_or(|exit| exit == transcript.exit_code)
            && holds(&self.stdout, &transcript.stdout)
            && holds(&self.stderr, &transcript.stderr)
    }
}

fn pattern_of(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"))
}

/// What differs and should not.
fn compared(
    desk: &Desk,
    transcript: &Transcript,
    given: &CommandOutput,
    known: &[&Difference],
) -> Vec<String> {
    let mut wrong = Vec::new();
    let exit = known.iter().find_map(|known| known.expect.exit).unwrap_or(transcript.exit_code);
    if exit != given.exit {
        wrong.push(format!("  exit code {exit}, ours {}", given.exit));
    }
    let stdout = masked(&given.stdout);
    match known.iter().find_map(|known| known.expect.stdout.as_ref()) {
        Some(pattern) if pattern_of(pattern).is_match(&stdout) => {}
        Some(pattern) => wrong.push(format!("  stdout is not {pattern}\n{stdout}")),
        None if transcript.stdout_free || is_same(&masked(&transcript.stdout), &stdout) => {}
        None => wrong.push(format!("  stdout\n{}\n  ours\n{stdout}", masked(&transcript.stdout))),
    }
    let stderr = masked(&given.stderr);
    match known.iter().find_map(|known| known.expect.stderr.as_ref()) {
        Some(pattern) if pattern_of(pattern).is_match(&stderr) => {}
        Some(pattern) => wrong.push(format!("  stderr is not {pattern}\n{stderr}")),
        None if transcript.stderr_free || is_said(transcript, &stderr) => {}
        None => wrong.push(format!("  stderr\n{}\n  ours\n{stderr}", message(&transcript.stderr))),
    }
    if !known.iter().any(|known| known.expect.files) {
        for (name, content) in &transcript.files_after {
            let ours = std::fs::read_to_string(desk.folder.path().join(name)).ok();
            let ours = ours.map(|text| masked(&desk.recorded(&text)).trim_end().to_owned());
            let content = content.as_ref().map(|text| masked(text).trim_end().to_owned());
            if ours != content {
                wrong.push(format!("  file {name}\n{content:?}\n  ours\n{ours:?}"));
            }
        }
    }
    wrong
}

/// Whether two outputs are the same: JSON by its values, other texts by their words.
fn is_same(recorded: &str, ours: &str) -> bool {
    let json = |text: &str| serde_json::from_str::<Value>(text).ok();
    match (json(recorded), json(ours)) {
        (Some(recorded), Some(ours)) => recorded == ours,
        _ => recorded.trim_end() == ours.trim_end(),
    }
}

/// Whether our errors contain the recorded message. Where the original fails without a word, ours gives a reason.
fn is_said(transcript: &Transcript, ours: &str) -> bool {
    let recorded = message(&transcript.stderr);
    let is_silent = recorded.is_empty() && transcript.exit_code != 0;
    if recorded.is_empty() { ours.is_empty() || is_silent } else { ours.contains(&recorded) }
}

/// The message of a recorded error, in our words.
fn message(stderr: &str) -> String {
    let message = stderr.split_once(ERROR_HEAD).map_or(stderr, |(_, message)| message);
    masked(message).trim().replace("tracetest", "qualitytrace")
}

/// A text without colours, and with ids, times, numbers of runs and widths of columns masked.
fn masked(text: &str) -> String {
    let masks = [
        ("\u{1b}\\[[0-9;]*m", ""),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?", "TIME"),
        (r"\b[0-9a-f]{32}\b", "TRACE"),
        (r"\b[0-9a-f]{16}\b", "SPAN"),
        (r"/run/\d+", "/run/N"),
        (r"id: [0-9A-Za-z_-]{9,22}\n", "id: ID\n"),
        (r"v?\d+\.\d+\.\d+(\.\d+:\d+)?", "VERSION"),
        (r"-{3,}( -{3,})*", "---"),
        (" time=\"\\d+\"", ""),
        (r"(?m)[ \t]+$", ""),
        // The column is there when the server has a page.
        (r"(?m) +(URL|http://localhost:11633/test/[\w-]+)$", ""),
        (r"  +(\S)", "  $1"),
    ];
    masks.iter().fold(text.to_owned(), |text, (pattern, mask)| {
        pattern_of(pattern).replace_all(&text, *mask).into_owned()
    })
}

/// The folder of the command lines, and the addresses of this replay.
struct Desk {
    program: PathBuf,
    folder: tempfile::TempDir,
    server: String,
    subject: String,
}

impl Desk {
    fn new(program: &Path, server: String, subject: String) -> Self {
        Self { program: program.to_owned(), folder: tempfile::tempdir().unwrap(), server, subject }
    }

    /// A recorded text with our addresses.
    fn ours(&self, text: &str) -> String {
        text.replace(RECORDED_SERVER, &self.server).replace(RECORDED_SUBJECT, &self.subject)
    }

    /// Our text with the recorded addresses.
    fn recorded(&self, text: &str) -> String {
        let here = self.folder.path().display().to_string();
        text.replace(&self.server, RECORDED_SERVER)
            .replace(&self.subject, RECORDED_SUBJECT)
            .replace(&here, "$PWD")
    }

    async fn given(&self, transcript: &Transcript) -> CommandOutput {
        let mut command = Command::new(&self.program);
        command
            .args(transcript.args.iter().map(|argument| self.ours(argument)))
            .current_dir(self.folder.path())
            .env("HOME", self.folder.path().join("home"))
            .env("TERM", "dumb")
            .env("PATH", "")
            .envs(&transcript.env)
            .stdin(Stdio::null());
        for name in ["QUALITYTRACE_SERVER_URL", "TRACETEST_SERVER_URL", "CI", "BROWSER"] {
            command.env_remove(name);
        }
        // Without a configured server, ours asks the one at the default address, where one may be.
        let is_named = transcript.args.iter().any(|argument| argument == "-s" || argument == "--server-url");
        let is_configured =
            self.folder.path().join("home/.qualitytrace").exists() && transcript.env.is_empty();
        if !is_named && !is_configured {
            command.env("QUALITYTRACE_SERVER_URL", "http://127.0.0.1:1");
        }
        let output = command.output().await.unwrap();
        let text = |bytes: &[u8]| self.recorded(&String::from_utf8_lossy(bytes));
        let exit = output.status.code().unwrap_or(-1);
        CommandOutput { exit, stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }
}
