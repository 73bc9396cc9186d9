//! Attacks on the command line: by a server, by the folder it is called in, and by files.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::cases::attack;
use super::programs::{Folder, write};
use super::{Attack, Outcome, Target};
use crate::terminal::{at_terminal, foreign_codes};
use crate::try_eventually_blocking;

/// All attacks.
pub(super) const ALL: [Attack; 4] = [
    attack("codes of a server at a terminal", 60, false, codes_of_a_server),
    attack("an endless answer of a server", 60, false, endless_answer),
    attack("a folder that wants the token", 60, false, folder_that_wants_the_token),
    attack("files that never end", 60, false, files_that_never_end),
];

/// A title, a clearing of the screen, the same in C1, a line that overwrites another, and a change of direction.
const CODES: &str = "evil\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}2J\u{90}q\u{9c}\u{8}\rgood\u{202e}end";
/// The memory of a command, in KiB: an endless answer must not take more.
const ADDRESS_SPACE_KIB: u64 = 2 << 20;
/// Timeout of a command.
const TIMEOUT: Duration = Duration::from_secs(50);
const TOKEN: &str = "token-of-the-user";

/// Every text that a server answers with reaches the terminal without its codes.
fn codes_of_a_server(to: &Target) -> Outcome {
    let program = to.program()?;
    let folder = Folder::new("codes")?;
    for (status, body) in [
        ("400 Bad Request", CODES.to_owned()),
        ("200 OK", format!(r#"{{"version":"{}"}}"#, json(CODES))),
        (
            "200 OK",
            format!(
                r#"{{"count":1,"items":[{{"type":"Test","spec":{{"id":"t","name":"{}"}}}}]}}"#,
                json(CODES)
            ),
        ),
    ] {
        let server = Hostile::start(format!("HTTP/1.1 {status}\r\nconnection: close\r\n\r\n{body}"), false)?;
        for line in ["version", "list test", "list test -o json", "get test --id t", "doctor"] {
            let mut command = Command::new(program);
            command.args(line.split(' ')).args(["-s", &server.url]).current_dir(folder.path());
            command.env("HOME", folder.path());
            let (_, sent) = at_terminal(&mut command, "");
            let found = foreign_codes(&sent);
            if !found.is_empty() {
                return Err(format!("`{line}` sends {found:?}: {sent:.300}"));
            }
        }
    }
    Ok("no code of a server".to_owned())
}

/// A server answers without end; the command ends, within its memory.
fn endless_answer(to: &Target) -> Outcome {
    let program = to.program()?;
    let folder = Folder::new("endless")?;
    let server = Hostile::start(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"items\":[".to_owned(),
        true,
    )?;
    let limited = format!("ulimit -v {ADDRESS_SPACE_KIB}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &limited]).arg(program).args(["list", "test", "-s", &server.url]);
    ends(command.current_dir(folder.path()).env("HOME", folder.path()), 1)
}

/// The folder names a server: it gets no token of the environment.
fn folder_that_wants_the_token(to: &Target) -> Outcome {
    let program = to.program()?;
    let folder = Folder::new("token")?;
    let server = Hostile::start("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{}".to_owned(), false)?;
    let address = server.url.trim_start_matches("http://");
    write(
        &folder.file("config.yml"),
        &format!("scheme: http\nendpoint: {address}\nserverURL: {}\n", server.url),
    )?;
    for line in ["list test", "version", "doctor", "get test --id t"] {
        let mut command = Command::new(program);
        command.args(line.split(' ')).current_dir(folder.path());
        command.env("HOME", folder.file("home")).env("QUALITYTRACE_TOKEN", TOKEN);
        command.env_remove("QUALITYTRACE_SERVER_URL");
        let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
        if server.heard().contains(TOKEN) {
            return Err(format!("`{line}` sends the token: {}", String::from_utf8_lossy(&output.stderr)));
        }
    }
    Ok("no token is sent".to_owned())
}

/// Files that are a pipe, or have no end, are refused at once.
fn files_that_never_end(to: &Target) -> Outcome {
    let program = to.program()?;
    let folder = Folder::new("files")?;
    let pipe = folder.file("t.yaml");
    let made = Command::new("mkfifo").arg(&pipe).status().map_err(|error| error.to_string())?;
    if !made.success() {
        return Err("a pipe cannot be made".to_owned());
    }
    for file in [pipe.display().to_string(), "/dev/zero".to_owned(), "/proc/self/pagemap".to_owned()] {
        for line in ["check", "fmt --check", "run"] {
            let mut command = Command::new(program);
            command.args(line.split(' ')).arg(&file).current_dir(folder.path()).env("HOME", folder.path());
            ends(&mut command, 3).map_err(|why| format!("`{line} {file}`: {why}"))?;
        }
    }
    Ok("each is refused".to_owned())
}

/// Runs a command that must end with an error, and no higher exit code than this.
fn ends(command: &mut Command, highest: i32) -> Outcome {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = quiet.spawn().map_err(|error| error.to_string())?;
    let ended = try_eventually_blocking(TIMEOUT, "the command ends", || child.try_wait().ok().flatten());
    let Ok(status) = ended else {
        let _ = child.kill();
        let _ = child.wait();
        return Err("it does not end".to_owned());
    };
    match status.code() {
        Some(code) if (1..=highest).contains(&code) => Ok(format!("ends with {code}")),
        _ => Err(format!("it ends with {status}")),
    }
}

fn json(text: &str) -> String {
    let escaped = |letter: char| match letter {
        ' '..='~' if letter != '"' && letter != '\\' => letter.to_string(),
        _ => format!("\\u{:04x}", u32::from(letter)),
    };
    text.chars().map(escaped).collect()
}

/// A server that answers everything with these bytes, and goes on without end if it is endless.
struct Hostile {
    url: String,
    heard: Arc<Mutex<String>>,
}

impl Hostile {
    fn start(answer: String, is_endless: bool) -> Result<Self, String> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let heard = Arc::<Mutex<String>>::default();
        let log = Arc::clone(&heard);
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (log, answer) = (Arc::clone(&log), answer.clone());
                thread::spawn(move || {
                    let mut request = [0; 1 << 13];
                    let read = stream.read(&mut request).unwrap_or(0);
                    if let Ok(mut log) = log.lock() {
                        log.push_str(&String::from_utf8_lossy(&request[..read]));
                    }
                    let _ = stream.write_all(answer.as_bytes());
                    let more = "{},".repeat(10_000);
                    while is_endless && stream.write_all(more.as_bytes()).is_ok() {}
                });
            }
        });
        Ok(Self { url: format!("http://{address}"), heard })
    }

    fn heard(&self) -> String {
        self.heard.lock().map(|heard| heard.clone()).unwrap_or_default()
    }
}
