//! Exec triggers: commands on the server's own machine.
//!
//! A command gets its trace context in its environment. It and its child processes are killed when the run no longer
//! waits for it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use qualitytrace_core::definition::trigger::{Command, Exec};
use qualitytrace_core::names;
use qualitytrace_core::run::Reply;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process;

use super::failure::{Reason, TriggerError};
use super::propagation::Context;

/// Default timeout of a command.
const TIMEOUT: Duration = Duration::from_mins(1);
/// Size of the read buffer.
const PIECE: usize = 16 * 1024;

/// The variables for the OTLP endpoint of a command's instrumentation.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";

/// Runs the command of a trigger. Its instrumentation exports to `endpoint`, unless the environment or the test names
/// another.
pub(super) async fn send(
    exec: &Exec,
    context: &Context,
    endpoint: Option<String>,
    reply_bytes: u64,
) -> Result<Reply, TriggerError> {
    let (mut command, shown) = command(&exec.command)?;
    if !exec.working_directory.value.is_empty() {
        command.current_dir(&exec.working_directory.value);
    }
    command.envs(environment(context));
    if [ENDPOINT, TRACES_ENDPOINT].iter().all(|name| std::env::var_os(name).is_none()) {
        command.envs(endpoint.map(|endpoint| (ENDPOINT, endpoint)));
    }
    command.envs(exec.env.iter().map(|(name, value)| (name, &value.value)));
    let timeout = exec.timeout.as_ref().map_or(TIMEOUT, |timeout| timeout.duration);
    run(command, &shown, timeout, reply_bytes).await
}

/// Runs a line of the shell that is no trigger, without a trace context.
pub(crate) async fn run_line(line: &str, timeout: Duration, reply_bytes: u64) -> Result<Reply, TriggerError> {
    run(shell(line), line, timeout, reply_bytes).await
}

/// Runs a command to its end, without the server's own settings; `shown` is its name in messages.
pub(super) async fn run(
    mut command: process::Command,
    shown: &str,
    timeout: Duration,
    reply_bytes: u64,
) -> Result<Reply, TriggerError> {
    remove_own_settings(&mut command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
    let mut child = command.spawn().map_err(|error| unrun(&command, shown, &error))?;
    let group = Group(child.id());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let limit = usize::try_from(reply_bytes).unwrap_or(usize::MAX);
    let work = async { tokio::join!(child.wait(), read(stdout, limit), read(stderr, limit)) };
    let ended = tokio::time::timeout(timeout, work).await;
    drop(group);
    let (status, (stdout, more_out), (stderr, more_err)) = ended.map_err(|_| {
        let message = format!("`{shown}` did not end within {timeout:?}; raise the trigger's `timeout`");
        TriggerError::told(Reason::Timeout, message)
    })?;
    let status = status.map_err(|error| TriggerError::invalid(format!("`{shown}` was lost: {error}")))?;
    Ok(Reply::Exec { code: code(status), stdout, stderr, truncated: more_out || more_err })
}

/// Describes why a command could not be started. The system reports a missing program and a missing folder alike.
fn unrun(command: &process::Command, shown: &str, error: &std::io::Error) -> TriggerError {
    let folder = command.as_std().get_current_dir().filter(|folder| !folder.is_dir());
    TriggerError::invalid(match (folder, error.kind()) {
        (Some(folder), _) => format!(
            "`{shown}` cannot be run: there is no folder `{}` here; correct the trigger's `workingDirectory`",
            folder.display()
        ),
        (None, ErrorKind::NotFound) => format!(
            "`{shown}` cannot be run: there is no such program here; install it where the server runs, or correct the \
             trigger's `command`"
        ),
        (None, _) => format!("`{shown}` cannot be run: {error}"),
    })
}

/// Builds the command, and its name for messages.
fn command(command: &Command) -> Result<(process::Command, String), TriggerError> {
    match command {
        Command::Line(line) if !line.value.trim().is_empty() => {
            Ok((shell(&line.value), line.value.trim().to_owned()))
        }
        Command::Words(words) if words.first().is_some_and(|program| !program.value.is_empty()) => {
            let mut words = words.iter().map(|word| word.value.as_str());
            let program = words.next().unwrap_or_default();
            let mut command = process::Command::new(program);
            command.args(words);
            Ok((command, program.to_owned()))
        }
        Command::Line(_) | Command::Words(_) => Err(TriggerError::invalid(
            "the trigger has no `command`; write a line for the shell or a list of words",
        )),
    }
}

fn shell(line: &str) -> process::Command {
    let (shell, flag) = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
    let mut command = process::Command::new(shell);
    command.arg(flag).arg(line);
    command
}

/// Removes the server's own settings, which may hold secrets, from the environment of the command. Those that the test
/// gives stay.
fn remove_own_settings(command: &mut process::Command) {
    let given: BTreeSet<OsString> = command.as_std().get_envs().map(|(name, _)| name.to_owned()).collect();
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(names::is_own_setting) && !given.contains(&name) {
            command.env_remove(name);
        }
    }
}

/// Returns the variables that pass the trace context to a command and its instrumentation.
fn environment(context: &Context) -> Vec<(&'static str, String)> {
    let mut environment = vec![
        ("TRACEPARENT", format!("00-{}-{}-01", context.trace, context.span)),
        ("TRACESTATE", "tracetest=true".to_owned()),
        ("TRACE_ID", context.trace.to_string()),
        ("SPAN_ID", context.span.to_string()),
        ("OTEL_PROPAGATORS", "tracecontext,baggage".to_owned()),
        ("OTEL_TRACES_SAMPLER", "parentbased_always_on".to_owned()),
    ];
    if !context.baggage.is_empty() {
        environment.push(("BAGGAGE", context.baggage.clone()));
    }
    environment
}

/// Reads output up to the limit, and returns whether there was more. The rest is read too: a full pipe would block the
/// command.
async fn read(from: Option<impl AsyncRead + Unpin>, limit: usize) -> (String, bool) {
    let Some(mut from) = from else { return (String::new(), false) };
    let (mut kept, mut truncated) = (Vec::new(), false);
    let mut piece = vec![0; PIECE];
    // An error of the pipe counts as its end.
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        let room = limit - kept.len();
        kept.extend_from_slice(&piece[..length.min(room)]);
        truncated |= length > room;
    }
    (String::from_utf8_lossy(&kept).into_owned(), truncated)
}

/// Returns the exit code as shells do: 128 plus the number of a signal.
#[cfg(unix)]
fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

#[cfg(not(unix))]
fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or(-1)
}

/// The process group of a command; killed when dropped.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(id) =
            self.0.and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw)
        {
            // Fails only when no process of the group is left.
            let _ = rustix::process::kill_process_group(id, rustix::process::Signal::KILL);
        }
    }
}
