//! `qualitytrace secrets`: change the key, and drop secrets whose key is lost.

use clap::{Args, Subcommand};
use qualitytrace_server::storage::store::Store;
use qualitytrace_server::storage::vault::KeySource;

use super::Exit;
use super::database::{Database, Progress, interrupted, interruptible, vault};
use crate::terminal;

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Encrypt with the current key what the previous key encrypted (`secrets.previousKeyFile`); no server may be running
    Reseal(Database),
    /// When a key is lost: name the secrets that can no longer be decrypted, and drop them
    Forget {
        /// Drop them; without this flag, they are only named
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        database: Database,
    },
}

/// Runs the command.
pub(crate) async fn secrets(options: Options) -> anyhow::Result<Exit> {
    match options.command {
        Command::Reseal(database) => reseal(database).await,
        Command::Forget { yes, database } => forget(database, yes).await,
    }
}

async fn reseal(database: Database) -> anyhow::Result<Exit> {
    let Some(config) = database.read()? else { return Ok(Exit::Error) };
    let vault = vault(&config)?;
    if !vault.has_previous() {
        anyhow::bail!(
            "no previous key is named: give the old one as --secrets.previousKeyFile and the new one as --secrets.keyFile"
        );
    }
    let store = Store::open_with(&config.database_url, vault).await?;
    let mut progress = Progress::start("values checked");
    let mut tell = |values| progress.tell(values);
    let Some(resealed) = interruptible(store.reseal(&mut tell)).await else {
        store.close().await;
        return Ok(interrupted(
            "some values are encrypted with the new key; both keys are needed until all are",
        ));
    };
    let resealed = resealed?;
    store.close().await;
    terminal::out(&format!(
        "{} {resealed} values encrypted with the new key; the previous key is no longer needed\n",
        terminal::style::good("✔")
    ));
    Ok(Exit::Passed)
}

async fn forget(database: Database, is_sure: bool) -> anyhow::Result<Exit> {
    let Some(config) = database.read()? else { return Ok(Exit::Error) };
    // A misspelt file name is no lost key.
    if let KeySource::File(file) = &config.safety.key
        && !file.exists()
        && config.own_folder().is_some()
        && let Some(usual) = config.usual_key_file().filter(|usual| usual.exists())
    {
        anyhow::bail!(
            "the key file {} is not there, but {} is: name that one, or move it away if its key is of no use",
            file.display(),
            usual.display()
        );
    }
    let store = Store::open_unchecked(&config.database_url, vault(&config)?).await?;
    let lost = if is_sure { store.forget_lost_secrets().await? } else { store.lost_secrets().await? };
    store.close().await;
    for name in &lost {
        terminal::out(&format!("{} {name}\n", if is_sure { "dropped" } else { "lost" }));
    }
    terminal::out(&match (lost.len(), is_sure) {
        (0, _) => format!("{} every encrypted value can be decrypted\n", terminal::style::good("✔")),
        (count, true) => {
            format!(
                "{} {count} encrypted values are dropped; apply the definitions again\n",
                terminal::style::good("✔")
            )
        }
        (count, false) => {
            format!("{count} encrypted values cannot be decrypted; --yes drops them, and nothing else\n")
        }
    });
    Ok(Exit::Passed)
}
