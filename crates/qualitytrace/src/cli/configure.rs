//! `qualitytrace configure` and `version`: the server of later commands, and the versions of both sides.

use std::cmp::Ordering;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Map, Value, json};

use super::Exit;
use super::target::{self, Target};
use crate::terminal::{self, out};

/// The version of this program.
const OWN: &str = env!("CARGO_PKG_VERSION");

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    target: Target,
    /// The old name of --server-url
    #[arg(long, short, value_name = "URL", hide = true)]
    endpoint: Option<String>,
    /// Has no effect: the user's own file is written wherever there is no config.yml
    #[arg(long, short, hide = true)]
    global: bool,
    /// Fail instead of asking for what is missing
    #[arg(long)]
    ci: bool,
    /// Of the hosted service; has no effect
    #[arg(long, value_name = "ID", hide = true)]
    organization: Option<String>,
    /// Of the hosted service; has no effect
    #[arg(long, value_name = "ID", hide = true)]
    environment: Option<String>,
}

/// Stores which server later commands talk to, after reading its version.
pub(crate) async fn configure(options: Options, before: Target) -> anyhow::Result<Exit> {
    let target = options.target.or(before);
    for (flag, value) in [("--organization", &options.organization), ("--environment", &options.environment)]
    {
        if value.is_some() {
            terminal::err(&format!("{flag} belongs to the hosted service and has no effect here\n"));
        }
    }
    let asked =
        || terminal::ask("Address of the server", Some(&target::usual_server())).filter(|_| !options.ci);
    let Some(url) = target.named_server().or(options.endpoint).or_else(asked) else {
        bail!("name the server: qualitytrace configure --server-url URL");
    };
    let address = target::ServerAddress::of(&url)?;
    let token = target.given_token();
    let client = address.client()?.with_token(token.clone());
    let version = client.version().await?;
    let file = target.file_to_write()?;
    let mut entries = target::entries(&file)?;
    for (key, value) in [
        ("scheme", Some(address.scheme)),
        ("endpoint", Some(address.endpoint)),
        ("serverPath", address.path.map(|path| format!("{path}/api"))),
        // A token of another server must not be sent to this one.
        ("token", token),
        ("jwt", None),
    ] {
        entries.retain(|known, _| !known.eq_ignore_ascii_case(key));
        entries.extend(value.map(|value| (key.to_owned(), Value::from(value))));
    }
    write(&file, &entries).with_context(|| format!("failed to write {}", file.display()))?;
    out(&format!("✔  {} has version {version}; written to {}\n", client.base(), file.display()));
    Ok(Exit::Passed)
}

/// Writes the file, readable by its user alone: it may contain a token.
fn write(file: &Path, entries: &Map<String, Value>) -> std::io::Result<()> {
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    // JSON values are valid YAML.
    let lines: Vec<String> = entries.iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(file)?;
    // One that was there may have been made by hand.
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    file.write_all(lines.concat().as_bytes())
}

/// Prints the version of this program and, where it answers, of the server.
pub(crate) async fn version(target: Target) -> anyhow::Result<Exit> {
    let server = target.client()?.version().await;
    let (known, unknown) = (server.as_ref().ok(), server.as_ref().err().map(ToString::to_string));
    let value = json!({ "cli": OWN, "server": known, "error": unknown });
    out(&target.output().text_of(&value).unwrap_or_else(|| versions(server)));
    Ok(Exit::Passed)
}

/// The versions of both sides, for people.
fn versions(server: anyhow::Result<String>) -> String {
    match server {
        Ok(server) => {
            let order = compare(OWN, &server);
            let outdated = if order == Ordering::Less { " (outdated)" } else { "" };
            let verdict = if order == Ordering::Equal { "\n✔️ Version match" } else { "" };
            format!("CLI: {OWN}{outdated}\nServer: {server}{verdict}\n")
        }
        Err(error) => format!("CLI: {OWN}\nServer: unknown ({error})\n"),
    }
}

/// Compares two versions, by their numbers first.
fn compare(one: &str, other: &str) -> Ordering {
    let numbers = |text: &str| -> Vec<u64> {
        let release = text.trim_start_matches('v').split(['-', '+']).next().unwrap_or_default();
        release.split('.').map(|part| part.parse().unwrap_or(0)).collect()
    };
    numbers(one).cmp(&numbers(other)).then_with(|| one.cmp(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert_eq!(compare("2.0.0", "2.0.0"), Ordering::Equal);
        assert_eq!(compare("2.9.0", "2.10.0"), Ordering::Less);
        assert_eq!(compare("2.0.1", "v1.7.1"), Ordering::Greater);
    }
}
