//! Checks before a start, which open, bind and write nothing.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{Error, Server, acceptors, bind_requests, vault};
use crate::config::Config;
use crate::storage::provision;
use crate::storage::store::Store;

/// Folders where no process can make one, although `access` tells root that it may.
const KERNEL: [&str; 2] = ["/proc", "/sys"];

impl Server {
    /// Returns every error that would keep the server from starting with this configuration, as far as it can be known
    /// beforehand.
    pub fn check(config: &Config) -> Vec<Error> {
        let mut found: Vec<Error> =
            acceptors(config).into_iter().filter_map(Result::err).map(Error::from).collect();
        found.extend(bind_requests(config).err().map(Error::from));
        found.extend(Store::check(&config.database_url).err().map(Error::from));
        found.extend(folder(config).err());
        found.extend(vault(config).err().map(Error::from));
        found.extend(provision::check(&config.provisioning).err().map(Error::from));
        found
    }
}

/// Checks that the folder of the database exists, or can be made if the server is the one to make it.
fn folder(config: &Config) -> Result<(), Error> {
    if let Some(path) = config.own_folder() {
        return can_be_made(&path).map_err(|source| Error::Folder { operation: "make", path, source });
    }
    match Store::folder(&config.database_url) {
        Some(path) if !path.is_dir() => {
            Err(Error::Folder { operation: "find", path, source: ErrorKind::NotFound.into() })
        }
        Some(_) | None => Ok(()),
    }
}

/// Checks that a folder exists, or that its nearest existing ancestor is writable.
pub(super) fn can_be_made(path: &Path) -> std::io::Result<()> {
    let path = std::path::absolute(path)?;
    let ancestor = path.ancestors().find(|path| path.exists()).map_or_else(PathBuf::new, Path::to_owned);
    if !ancestor.is_dir() {
        return Err(ErrorKind::NotADirectory.into());
    }
    if ancestor != path && KERNEL.iter().any(|folder| path.starts_with(folder)) {
        return Err(ErrorKind::PermissionDenied.into());
    }
    #[cfg(unix)]
    rustix::fs::access(&ancestor, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)?;
    Ok(())
}
