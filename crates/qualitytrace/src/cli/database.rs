//! `qualitytrace backup`, `restore` and `verify`: backups of the database, and checks for damage.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use qualitytrace_server::config::Config;
use qualitytrace_server::storage::store::{self, Check, Counts, MaintenanceError, Store};
use qualitytrace_server::storage::vault::Vault;

use super::Exit;
use super::serve::stop_signal;
use super::settings::{self, ConfigOptions, SettingFlags};
use crate::terminal;

/// How often progress is shown.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Which database: the one that a server would use with the same settings.
#[derive(Debug, Args)]
pub(crate) struct Database {
    #[command(flatten)]
    config: ConfigOptions,
    #[command(flatten)]
    settings: SettingFlags,
}

impl Database {
    /// The settings; `None` when they are invalid.
    pub(crate) fn read(self) -> anyhow::Result<Option<Config>> {
        Ok(settings::read(&self.config.inputs(self.settings))?.map(|resolved| resolved.config))
    }
}

#[derive(Debug, Args)]
pub(crate) struct BackupOptions {
    /// File to write; it must not be there
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    database: Database,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreOptions {
    /// File that `qualitytrace backup` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace what is in the database; the file of a SQLite database is kept aside
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    database: Database,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyOptions {
    /// Look at this backup instead of the database
    #[arg(long, value_name = "FILE")]
    backup: Option<PathBuf>,
    #[command(flatten)]
    database: Database,
}

/// Writes the database to a file.
pub(crate) async fn backup(options: BackupOptions) -> anyhow::Result<Exit> {
    let Some(config) = options.database.read()? else { return Ok(Exit::Error) };
    let mut progress = Progress::start("rows written");
    let mut tell = |rows| progress.tell(rows);
    let Some(counts) = interruptible(store::backup(&config.database_url, &options.file, &mut tell)).await
    else {
        return Ok(interrupted("nothing was written"));
    };
    let (counts, check) = counts?;
    let size = std::fs::metadata(&options.file).map_or(0, |file| file.len());
    terminal::out(&format!(
        "{} {}: {}, {size} bytes\n",
        terminal::style::good("✔"),
        options.file.display(),
        contents(&counts)
    ));
    terminal::out(
        "  secrets in it stay encrypted: keep a copy of the key (secrets.keyFile) in another place\n",
    );
    if check.findings.is_empty() {
        return Ok(Exit::Passed);
    }
    terminal::out(&shown(&check));
    terminal::out("  the database is damaged, and so is this backup: keep the ones before it\n");
    Ok(Exit::NotPassed)
}

/// Restores a backup.
pub(crate) async fn restore(options: RestoreOptions) -> anyhow::Result<Exit> {
    let Some(config) = options.database.read()? else { return Ok(Exit::Error) };
    let mut progress = Progress::start("rows restored");
    let mut tell = |rows| progress.tell(rows);
    let restore = store::restore(&config.database_url, &options.file, options.force, &mut tell);
    let Some(restored) = interruptible(restore).await else {
        return Ok(interrupted("the database is as it was"));
    };
    let restored = restored?;
    terminal::out(&format!(
        "{} restored {} from {}\n",
        terminal::style::good("✔"),
        contents(&restored.rows),
        options.file.display()
    ));
    if let Some(aside) = restored.aside {
        terminal::out(&format!(
            "  what was there before is kept as {}; remove it when you do not need it\n",
            aside.display()
        ));
    }
    // Opening the store says which key it needs; the restored data stays.
    match Store::open_with(&config.database_url, vault(&config)?).await {
        Ok(store) => store.close().await,
        Err(error) => {
            terminal::err(&format!(
                "{}: {:#}\n",
                terminal::style::unsure("warning"),
                anyhow::Error::from(error)
            ));
        }
    }
    Ok(Exit::Passed)
}

/// Checks for damage.
pub(crate) async fn verify(options: VerifyOptions) -> anyhow::Result<Exit> {
    let Some(config) = options.database.read()? else { return Ok(Exit::Error) };
    if let Some(file) = options.backup {
        return verify_backup(&file).await;
    }
    let vault = vault(&config)?;
    let mut progress = Progress::start("looked at");
    let mut is_whole = true;
    let mut tell = |name: &str, count| progress.tell_of(name, count);
    let mut done = |check: Check| {
        is_whole &= check.findings.is_empty();
        terminal::out(&shown(&check));
    };
    let verify = store::verify(&config.database_url, &vault, &mut tell, &mut done);
    let Some(verified) = interruptible(verify).await else {
        return Ok(interrupted("not everything was checked"));
    };
    match verified {
        Ok(()) => {}
        Err(MaintenanceError::Damaged(error)) => {
            is_whole = false;
            let mark = terminal::style::bad("✘");
            terminal::out(&format!("{mark} {:#}\n", anyhow::Error::from(error)));
        }
        Err(error) => return Err(error.into()),
    }
    Ok(if is_whole { Exit::Passed } else { Exit::NotPassed })
}

async fn verify_backup(file: &Path) -> anyhow::Result<Exit> {
    let path = file.to_owned();
    let reading = tokio::task::spawn_blocking(move || {
        let mut progress = Progress::start("rows read");
        store::check_backup(&path, &mut |rows| progress.tell(rows))
    });
    let Some(read) = interruptible(reading).await else {
        return Ok(interrupted("not everything was checked"));
    };
    let (header, check) = read??;
    if !check.findings.is_empty() {
        terminal::out(&shown(&check));
        return Ok(Exit::NotPassed);
    }
    terminal::out(&format!(
        "{} {}: {} rows, written by version {}\n",
        terminal::style::good("✔"),
        file.display(),
        check.looked_at,
        header.version
    ));
    Ok(Exit::Passed)
}

/// The vault of these settings.
pub(crate) fn vault(config: &Config) -> anyhow::Result<Vault> {
    let vault = Vault::open(config.safety.key.clone())?;
    vault.with_previous(config.safety.previous_key.clone()).context("the previous key is of no use")
}

/// Awaits `work` unless the user interrupts it; work that is dropped cleans up after itself.
pub(crate) async fn interruptible<T>(work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        // The signal first: work that has begun must not end by a signal that nothing listens to yet.
        biased;
        () = stop_signal() => None,
        done = work => Some(done),
    }
}

pub(crate) fn interrupted(what: &str) -> Exit {
    terminal::err(&format!("\nstopped: {what}\n"));
    Exit::Interrupted
}

fn contents(counts: &Counts) -> String {
    let count = |table: &str| counts.get(table).copied().unwrap_or_default();
    format!(
        "{} definitions, {} runs, {} parts of traces, {} rows in all",
        count("resources"),
        count("runs") + count("suite_runs"),
        count("chunks"),
        counts.values().sum::<u64>()
    )
}

fn shown(check: &Check) -> String {
    if check.findings.is_empty() {
        return format!("{} {} ({})\n", terminal::style::good("✔"), check.name, check.looked_at);
    }
    let mut out = format!("{} {} ({})\n", terminal::style::bad("✘"), check.name, check.looked_at);
    for finding in &check.findings {
        out.extend(["    ", finding, "\n"]);
    }
    if check.further > 0 {
        out.push_str(&["    and ", &check.further.to_string(), " more\n"].concat());
    }
    out
}

/// Prints progress once a second.
#[derive(Debug)]
pub(crate) struct Progress {
    what: &'static str,
    last: Instant,
}

impl Progress {
    pub(crate) fn start(what: &'static str) -> Self {
        Self { what, last: Instant::now() }
    }

    pub(crate) fn tell(&mut self, count: u64) {
        self.tell_of("", count);
    }

    fn tell_of(&mut self, name: &str, count: u64) {
        if self.last.elapsed() >= PROGRESS_INTERVAL {
            self.last = Instant::now();
            let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
            terminal::err(&format!("{}\n", terminal::style::faint(format!("{name}{count} {}", self.what))));
        }
    }
}
