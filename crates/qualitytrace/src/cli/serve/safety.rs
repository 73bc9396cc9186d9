//! The options of `qualitytrace serve` that protect the server and what it keeps.

use std::path::PathBuf;

use clap::Args;
use qualitytrace_server::config::Safety;
use qualitytrace_server::vault::KeyPlace;

/// The key file in the data folder.
const KEY_FILE: &str = "secrets.key";

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Safety")]
pub(super) struct SafetyOptions {
    /// File with the key that seals secrets; made when it is needed [default: secrets.key in the data folder]
    #[arg(long = "secrets.keyFile", value_name = "FILE", env = "QUALITYTRACE_SECRETS_KEYFILE")]
    key_file: Option<PathBuf>,
    /// The key itself, 32 bytes in base64; better given by its variable than on the command line
    #[arg(
        long = "secrets.key",
        value_name = "KEY",
        env = "QUALITYTRACE_SECRETS_KEY",
        hide_env_values = true,
        conflicts_with = "key_file"
    )]
    key: Option<String>,
}

impl SafetyOptions {
    pub(super) fn safety(&self, database_url: &str) -> Safety {
        let key = match (&self.key, &self.key_file) {
            (Some(key), _) => KeyPlace::Text(key.clone()),
            (None, Some(file)) => KeyPlace::File(file.clone()),
            (None, None) if database_url == "sqlite::memory:" => KeyPlace::Memory,
            (None, None) => {
                super::data_folder().map_or(KeyPlace::Memory, |folder| KeyPlace::File(folder.join(KEY_FILE)))
            }
        };
        Safety { key }
    }
}
