//! Temporary folders, which are removed with their owner.

use std::{env, fs, path::PathBuf};

use anyhow::{Context as _, Result};

/// A temporary folder of this process.
#[derive(Debug)]
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// Makes a folder; `purpose` is part of its name.
    pub(crate) fn new(purpose: &str) -> Result<Self> {
        let path = env::temp_dir().join(format!("qualitytrace-{purpose}-{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("failed to make the folder {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
