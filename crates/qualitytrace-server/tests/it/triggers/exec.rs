//! Exec triggers, and every way in which they end.

#[cfg(target_os = "linux")]
use qualitytrace_core::run::Reply;
use qualitytrace_server::base::limits::Limits;
use qualitytrace_server::outbound::trigger::{Reason, TriggerError};
#[cfg(target_os = "linux")]
use qualitytrace_testing::{DEADLINE, eventually};

use super::{SPAN, TRACE, send, send_within, trigger};

async fn run(yaml: &str) -> Result<Reply, TriggerError> {
    let limits = Limits { commands: true, reply_bytes: 1000, ..Limits::default() };
    send_within(&trigger(&format!("type: exec\nexec:\n{yaml}"), &[("who", "Ada")]), &limits).await
}

async fn check(yaml: &str, code: i32, stdout: &str, stderr: &str) {
    let (stdout, stderr) = (stdout.to_owned(), stderr.to_owned());
    assert_eq!(run(yaml).await, Ok(Reply::Exec { code, stdout, stderr, truncated: false }));
}

#[tokio::test]
async fn a_line_goes_to_the_shell_and_words_do_not() {
    check("  command: echo ${env:who}; echo oh >&2; exit 3", 3, "Ada\n", "oh\n").await;
    check("  command: [echo, '${env:who};', exit 3]", 0, "Ada; exit 3\n", "").await;
}

#[tokio::test]
async fn a_command_learns_the_trace_from_its_environment() {
    let line = "echo $TRACEPARENT $TRACESTATE $OTEL_PROPAGATORS $GREETING";
    let expected = format!("00-{TRACE}-{SPAN}-01 tracetest=true tracecontext,baggage hello Ada\n");
    let yaml = format!("  command: {line}\n  env:\n    GREETING: hello ${{env:who}}");
    check(&yaml, 0, &expected, "").await;
}

#[tokio::test]
async fn a_command_runs_where_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let yaml = format!("  command: pwd\n  workingDirectory: {}", folder.display());
    check(&yaml, 0, &format!("{}\n", folder.display()), "").await;
}

#[tokio::test]
async fn a_signal_is_a_code_as_in_the_shell() {
    check("  command: kill -9 $$", 137, "", "").await;
}

#[tokio::test]
async fn what_is_written_beyond_the_limit_is_dropped_and_said_to_be() {
    let Ok(Reply::Exec { code: 0, stdout, truncated: true, .. }) =
        run("  command: yes | head -c 300000").await
    else {
        panic!("not truncated")
    };
    assert_eq!(stdout.len(), 1000);
}

#[tokio::test]
async fn what_cannot_be_run_is_named() {
    let missing = run("  command: [no-such-program]").await.unwrap_err();
    assert_eq!(
        missing.message,
        "`no-such-program` cannot be run: there is no such program here; install it where the server runs, or correct \
         the trigger's `command`"
    );
    let nowhere = run("  command: pwd\n  workingDirectory: /no/such/folder").await.unwrap_err();
    assert_eq!(
        nowhere.message,
        "`pwd` cannot be run: there is no folder `/no/such/folder` here; correct the trigger's `workingDirectory`"
    );
    let empty = run("  command: []").await.unwrap_err();
    assert_eq!(empty.reason, Reason::Invalid);
}

#[tokio::test]
async fn a_server_that_may_not_run_commands_refuses() {
    let refused = send(&trigger("type: shell\nshell:\n  command: echo hi", &[])).await.unwrap_err();
    assert_eq!(refused.reason, Reason::Unsupported);
    assert_eq!(
        refused.message,
        "this server may not run commands; start it with `--runs.commands` to allow triggers of type `exec`"
    );
}

/// Waits until a process has ended, or is a zombie.
#[cfg(target_os = "linux")]
async fn gone(id: &str) {
    let alive = || {
        let status = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        !status.is_empty() && !status.contains(") Z ")
    };
    eventually(DEADLINE, format!("process {id} ends"), async || !alive()).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_command_that_takes_too_long_dies_with_all_that_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("id");
    let yaml = format!("  command: sleep 1000 & echo $! > {}; wait\n  timeout: 500ms", file.display());
    let late = run(&yaml).await.unwrap_err();
    assert_eq!(late.reason, Reason::Timeout);
    gone(std::fs::read_to_string(&file).unwrap().trim()).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_abandoned_command_is_killed_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("id");
    let yaml = format!("  command: sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait", file.display());
    let waiting = tokio::spawn(async move { run(&yaml).await });
    eventually(DEADLINE, "the command is running", async || file.exists()).await;
    waiting.abort();
    gone(std::fs::read_to_string(&file).unwrap().trim()).await;
}
