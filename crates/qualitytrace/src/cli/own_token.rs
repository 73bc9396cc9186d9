//! The token of a server that this process starts for itself.
//!
//! Only this process knows it: it is in no argument, no variable and no output, so that neither other users of the
//! machine nor the commands that a test runs can use the server.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use qualitytrace_server::config::Safety;
use qualitytrace_server::http::access::{Access, Token};

use super::files::regular;

/// A random token that only this process knows.
#[derive(Clone)]
pub(crate) struct OwnToken(String);

impl OwnToken {
    /// Generates a token.
    pub(crate) fn random() -> Self {
        Self(format!("{:032x}{:032x}", rand::random::<u128>(), rand::random::<u128>()))
    }

    /// Safety settings of a server that requires it. OTLP needs no token: the system under test does not know it.
    pub(crate) fn safety(&self) -> anyhow::Result<Safety> {
        let token: Token = format!("full:{}", self.0).parse().map_err(anyhow::Error::msg)?;
        Ok(Safety { access: Access { tokens: vec![token], otlp: false }, ..Safety::default() })
    }

    /// The token, for a client.
    pub(crate) fn text(&self) -> String {
        self.0.clone()
    }

    /// Writes it to a file that only its owner can read.
    pub(crate) fn written(&self) -> anyhow::Result<TokenFile> {
        let name = format!("qualitytrace-demo-{:016x}.token", rand::random::<u64>());
        let path = std::env::temp_dir().join(name);
        let mut options = std::fs::OpenOptions::new();
        // An existing file or link of another user is not followed.
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let written = options.open(&path).and_then(|mut file| file.write_all(self.0.as_bytes()));
        written.with_context(|| format!("failed to write the token to {}", path.display()))?;
        Ok(TokenFile(path))
    }
}

/// A file with a token, removed when it is dropped.
pub(crate) struct TokenFile(PathBuf);

impl TokenFile {
    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        // A file that cannot be removed does no harm: its server is gone.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Reads the token from a file, trimmed.
pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    let text = regular::read_text(path)
        .with_context(|| format!("failed to read the token file {}", path.display()))?;
    Ok(text.trim().to_owned())
}
