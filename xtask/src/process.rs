//! Running other programs, with clear errors about which one failed or is missing.

use std::{
    env,
    fs::{self, File},
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

/// Start timeout of a program.
const READY_LIMIT: Duration = Duration::from_mins(1);
/// How long an answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Runs a program to its end on this terminal; fails when it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("failed to start `{}`", line(command)))?;
    succeeded(command, status)
}

/// Runs a program to its end and returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("failed to start `{}`", line(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` failed ({}): {}", line(command), output.status, said.trim());
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("`{}` wrote text that is not UTF-8", line(command)))
}

pub(crate) fn succeeded(command: &Command, status: ExitStatus) -> Result<()> {
    if !status.success() {
        bail!("`{}` failed ({status})", line(command));
    }
    Ok(())
}

/// The command as a line.
pub(crate) fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Finds a program on the PATH.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// Finds a program on the PATH; the error says how to get it.
pub(crate) fn require(program: &str, how_to_get_it: &str) -> Result<PathBuf> {
    find(program).with_context(|| format!("`{program}` is not on the PATH: {how_to_get_it}"))
}

/// Whether this is root, which may install packages but may not run PostgreSQL.
pub(crate) fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .any(|line| line.strip_prefix("Uid:").is_some_and(|ids| ids.split_whitespace().nth(1) == Some("0")))
}

/// A child process that is killed on drop.
#[derive(Debug)]
pub(crate) struct Guard(pub(crate) Child);

impl Guard {
    /// Asks the process to end (SIGTERM) and waits for it; a process that takes longer than `limit` is killed, and that
    /// is an error.
    pub(crate) fn terminate(&mut self, limit: Duration) -> Result<()> {
        if self.0.try_wait()?.is_some() {
            return Ok(());
        }
        output(Command::new("kill").args(["-TERM", &self.0.id().to_string()]))?;
        let asked = Instant::now();
        while self.0.try_wait()?.is_none() {
            if asked.elapsed() > limit {
                bail!("process {} did not end within {} s", self.0.id(), limit.as_secs());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is gone afterwards.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command whose process the kernel ends with this one, however it ends: Ctrl-C, a panic or `kill -9`.
pub(crate) fn bound_to_us(signal: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
    match find("setpriv") {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.arg("--pdeathsig").arg(signal).arg("--").arg(program);
            command
        }
        None => Command::new(program),
    }
}

/// Starts a program that writes its log to `NAME.log` in a folder, and waits until it is ready.
pub(crate) fn started(
    mut command: Command,
    name: &str,
    folder: &Path,
    is_ready: impl Fn() -> bool,
) -> Result<Guard> {
    let log = folder.join(format!("{name}.log"));
    let file = File::create(&log).with_context(|| format!("failed to create {}", log.display()))?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let mut process = Guard(command.spawn().with_context(|| format!("failed to start the {name}"))?);
    let started = Instant::now();
    while !is_ready() {
        if process.0.try_wait()?.is_some() || started.elapsed() > READY_LIMIT {
            let said = fs::read_to_string(&log).unwrap_or_default();
            bail!("the {name} did not become ready: {}", said.trim());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(process)
}

/// The answer to a GET request.
pub(crate) fn get(url: &str) -> Result<String> {
    output(curl()?.arg(url))
}

/// The answer to a POST request with a JSON document.
pub(crate) fn post_json(url: &str, document: &str) -> Result<String> {
    output(curl()?.args(["--header", "content-type: application/json", "--data-binary", document]).arg(url))
}

fn curl() -> Result<Command> {
    let mut curl = Command::new(require("curl", "install the package `curl`")?);
    let limit = ANSWER_LIMIT.as_secs().to_string();
    curl.args(["--fail-with-body", "--silent", "--show-error", "--noproxy", "*", "--max-time", &limit]);
    Ok(curl)
}

/// Whether a port accepts connections.
pub(crate) fn accepts(addr: SocketAddr) -> bool {
    TcpStream::connect(addr).is_ok()
}

/// Whether one of our servers serves requests.
pub(crate) fn says_ready(addr: SocketAddr) -> bool {
    // Any response shows that requests are served, except 5xx.
    ask(addr, "/readyz").is_ok_and(|status| status.starts_with(b"HTTP/1.1 ") && status[9] != b'5')
}

/// Sends a GET request, and returns the beginning of the response.
pub(crate) fn ask(addr: SocketAddr, path: &str) -> std::io::Result<[u8; 12]> {
    let mut socket = TcpStream::connect(addr)?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes())?;
    let mut status = [0; 12];
    socket.read_exact(&mut status)?;
    Ok(status)
}
