//! The command line's own file: the user's, one that a flag names, or one of the current folder.
//!
//! A folder is not its user. The file of a folder may name a server; it gets no token that was not stored with it, makes
//! no connection less safe, and counts only where it is surely meant for this program.

use std::path::{Path, PathBuf};

use anyhow::Context;
use qualitytrace_server::config::{SAFE_DIRECTORY, TrustedOwners};
use serde_json::{Map, Value};

use super::{ServerAddress, variable};
use crate::cli::files::regular;
use crate::terminal;

/// The configuration file in the current folder.
pub(super) const LOCAL_FILE: &str = "config.yml";
/// Folders of the user that may hold it, the newer name first.
pub(super) const FOLDERS: [&str; 2] = [".qualitytrace", ".tracetest"];
/// The keys of this program and of Tracetest's command line, in lower case. Other tools have files of this name, too.
const KEYS: [&str; 12] = [
    "scheme",
    "endpoint",
    "serverpath",
    "token",
    "jwt",
    "skipverify",
    "organizationid",
    "environmentid",
    "analyticsenabled",
    "agentendpoint",
    "uiendpoint",
    "allowinsecure",
];

/// The entries of a file; keys ignore case.
#[derive(Debug, Default)]
pub(super) struct Settings {
    entries: Map<String, Value>,
    /// The file itself.
    pub(super) path: Option<PathBuf>,
    /// Whether it is the file of the current folder, which the user did not name.
    is_of_folder: bool,
}

impl Settings {
    /// Reads the first file that counts: the named one or that of the folder, else the user's. A missing file is no error,
    /// but one that was named is warned about.
    pub(super) fn find(named: Option<&Path>) -> anyhow::Result<Self> {
        if named.is_none()
            && let Some(entries) = of_folder()
        {
            return Ok(Self { entries, path: Some(LOCAL_FILE.into()), is_of_folder: true });
        }
        Self::of_user(named)
    }

    /// The same without the file of the folder.
    pub(super) fn of_user(named: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(path) = named.filter(|path| !path.exists()) {
            terminal::err(&format!(
                "{}: there is no file {}; going on without it\n",
                terminal::style::unsure("warning"),
                path.display()
            ));
        }
        let home = std::env::home_dir().unwrap_or_default();
        let own = FOLDERS.map(|folder| home.join(folder).join(LOCAL_FILE));
        for path in named.map(Path::to_owned).into_iter().chain(own) {
            let entries = lower(entries(&path)?);
            if !entries.is_empty() {
                return Ok(Self { entries, path: Some(path), is_of_folder: false });
            }
        }
        Ok(Self::default())
    }

    /// The address of the server.
    pub(super) fn base(&self) -> anyhow::Result<Option<String>> {
        let Some(endpoint) = self.text("endpoint") else { return Ok(None) };
        let scheme = self.text("scheme").unwrap_or_else(|| "http".to_owned());
        Ok(Some(ServerAddress::of(&format!("{scheme}://{endpoint}"))?.origin()))
    }

    /// The file, if it is that of the folder and names the server.
    pub(super) fn naming_folder(&self) -> Option<&Path> {
        self.path.as_deref().filter(|_| self.is_of_folder && !is_endpoint_set())
    }

    /// The prefix of the routes; `/` means none.
    pub(super) fn server_path(&self) -> String {
        let path = self.text("serverPath").unwrap_or_else(|| "/api".to_owned());
        let path = path.trim_matches('/');
        if path.is_empty() { String::new() } else { format!("/{path}") }
    }

    /// The token that is stored with the server.
    pub(super) fn token(&self) -> Option<String> {
        self.written("token").or_else(|| self.written("jwt"))
    }

    /// Whether the user accepts any certificate of the server. The file of a folder cannot say so for the user; it is
    /// told.
    pub(super) fn skips_verification(&self) -> bool {
        let is_asked = self.entries.get("skipverify").and_then(Value::as_bool).unwrap_or(false);
        if is_asked && self.is_of_folder {
            terminal::err(&format!(
                "{}: `skipVerify` of {LOCAL_FILE} in this folder does not count; give it as --skip-verify\n",
                terminal::style::unsure("warning"),
            ));
        }
        is_asked && !self.is_of_folder
    }

    /// A value of the file; an environment variable overrides it, but only where there is a file.
    fn text(&self, key: &str) -> Option<String> {
        if self.entries.is_empty() {
            return None;
        }
        // A server of the user is not mixed with what a folder says about its own.
        let is_in_force = !(self.is_of_folder && is_endpoint_set());
        variable(&key.to_uppercase()).or_else(|| self.written(key).filter(|_| is_in_force))
    }

    /// A value of the file itself.
    fn written(&self, key: &str) -> Option<String> {
        let text = self.entries.get(&key.to_lowercase())?.as_str()?;
        (!text.is_empty()).then(|| text.to_owned())
    }
}

/// Whether the environment names the server.
fn is_endpoint_set() -> bool {
    variable("ENDPOINT").is_some()
}

/// The entries of a file of the command line; empty if it is missing.
pub(crate) fn entries(file: &Path) -> anyhow::Result<Map<String, Value>> {
    let text = regular::read_text(file).unwrap_or_default();
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    serde_saphyr::from_str(&text)
        .with_context(|| format!("{} is not a file of keys and values", file.display()))
}

/// The entries of the file in the current folder, if it is meant for this program and belongs to its user. One that
/// might have been meant is told.
pub(super) fn of_folder() -> Option<Map<String, Value>> {
    let file = Path::new(LOCAL_FILE);
    let entries = lower(entries(file).ok()?);
    let text = |key: &str| entries.get(key).and_then(Value::as_str).unwrap_or_default();
    if !matches!(text("scheme"), "http" | "https") || text("endpoint").is_empty() {
        return None;
    }
    let ignored = |why: &str| {
        terminal::err(&format!(
            "{}: {LOCAL_FILE} in this folder is not used: {why}\n",
            terminal::style::unsure("warning")
        ));
    };
    if let Some(other) = entries.keys().find(|key| !KEYS.contains(&key.as_str())) {
        ignored(&format!("`{other}` is no key of this program; name the file with --config to use it"));
        return None;
    }
    if !TrustedOwners::of_process().trust(file) {
        ignored(&format!(
            "it belongs to another user; name it with --config, or list its folder in {SAFE_DIRECTORY}"
        ));
        return None;
    }
    Some(entries)
}

fn lower(entries: Map<String, Value>) -> Map<String, Value> {
    entries.into_iter().map(|(key, value)| (key.to_lowercase(), value)).collect()
}
