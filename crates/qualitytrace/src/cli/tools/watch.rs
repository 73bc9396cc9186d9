//! `qualitytrace watch`: runs tests again whenever one of their files changes.
//!
//! Each run is a process of its own, `qualitytrace run`, so that its server, its system under test and its ports are
//! gone before the next one begins.

use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use crate::cli::Exit;
use crate::cli::files::{self, File, references, regular};
use crate::cli::project;
use crate::cli::run::interrupt::end_signal;
use crate::terminal::{self, style};

/// How long files must stay unchanged before the tests are run: editors write in several steps.
const REST: Duration = Duration::from_millis(200);
/// Files are looked at this often even if no change is reported, as on network file systems.
const POLL: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  qualitytrace watch tests/
  qualitytrace watch tests/checkout.yaml -- --with 'npm start' --ready 8080
  qualitytrace watch                       the files of the project file

What follows `--` is given to `qualitytrace run`. Ctrl-C ends it with exit code 130.")]
pub(crate) struct Options {
    /// Files, folders to search, or patterns like 'tests/**/*.yaml' [default: `run.paths` of the project file]
    #[arg(value_name = "FILE|DIR|GLOB")]
    paths: Vec<PathBuf>,
    /// Flags of `run`
    #[arg(last = true, value_name = "FLAGS")]
    flags: Vec<OsString>,
}

/// Runs the tests now and after every change.
pub(crate) async fn watch(options: &Options) -> anyhow::Result<Exit> {
    let paths = project::paths_or_own(&options.paths, &options.flags)?;
    // A path that is not there is an error now and not after the first change.
    files::find(&paths)?;
    let (sender, mut events) = mpsc::channel(1);
    let _watcher = notice(&paths, sender);
    let mut end = std::pin::pin!(end_signal());
    for number in 1_u64.. {
        let known = fingerprint(&paths);
        terminal::err(&style::faint(format!("── run {number} ──\n")));
        let mut run = start(options)?;
        tokio::select! {
            ended = run.wait() => { ended.context("failed to wait for the run")?; }
            () = &mut end => return stop(run).await,
        }
        terminal::err(&style::faint("waiting for changes; Ctrl-C ends\n"));
        loop {
            tokio::select! {
                _ = events.recv() => {}
                () = tokio::time::sleep(POLL) => {}
                () = &mut end => return Ok(Exit::Interrupted),
            }
            let found = fingerprint(&paths);
            if found != known {
                settle(&paths, found).await;
                break;
            }
        }
    }
    Ok(Exit::Passed)
}

/// Waits until the files stay as they are.
async fn settle(paths: &[PathBuf], mut last: u64) {
    loop {
        tokio::time::sleep(REST).await;
        let now = fingerprint(paths);
        if now == last {
            return;
        }
        last = now;
    }
}

fn start(options: &Options) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("failed to find this program")?;
    let mut command = Command::new(program);
    // Paths of the project file are left to it, with what else it says.
    command.arg("run").args(&options.paths).args(&options.flags);
    // A group of its own: Ctrl-C reaches it once, through this process, and a second time would kill it.
    command.process_group(0).stdin(Stdio::null()).kill_on_drop(true);
    command.spawn().context("failed to start `qualitytrace run`")
}

/// Waits for a run that was interrupted: it stops its tests and its system.
async fn stop(mut run: Child) -> anyhow::Result<Exit> {
    if let Some(process) = run.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?)) {
        // It may have ended meanwhile.
        let _ = rustix::process::kill_process(process, rustix::process::Signal::TERM);
    }
    run.wait().await.context("failed to wait for the run")?;
    Ok(Exit::Interrupted)
}

/// Reports changes below the folders of these paths.
fn notice(paths: &[PathBuf], sender: mpsc::Sender<()>) -> Option<RecommendedWatcher> {
    let told = move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| !event.kind.is_access()) {
            // A full channel means that the files will be looked at anyway.
            let _ = sender.try_send(());
        }
    };
    let mut watcher = notify::recommended_watcher(told).ok()?;
    for path in paths {
        let parent = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let (folder, mode) = if path.is_dir() {
            (path.as_path(), RecursiveMode::Recursive)
        } else {
            (parent, RecursiveMode::NonRecursive)
        };
        // Without notices, the files are still looked at from time to time.
        let _ = watcher.watch(folder, mode);
    }
    Some(watcher)
}

/// A hash of every definition file, steps of suites included, and of the files that they name. Reports and other files
/// do not count.
fn fingerprint(paths: &[PathBuf]) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut definitions = files::find_quietly(paths);
    let mut known: HashSet<PathBuf> = HashSet::new();
    while let Some(path) = definitions.pop() {
        // A test may be a step of several suites.
        if !known.insert(path.clone()) {
            continue;
        }
        path.hash(&mut hasher);
        let Ok(file) = File::read(&path) else { continue };
        file.source.hash(&mut hasher);
        definitions.extend(references::step_paths(&file));
        for document in &file.reading.documents {
            for named in references::paths(&file, document) {
                named.hash(&mut hasher);
                regular::read(&named).unwrap_or_default().hash(&mut hasher);
            }
        }
    }
    hasher.finish()
}
