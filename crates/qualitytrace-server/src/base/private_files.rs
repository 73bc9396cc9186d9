//! Files and folders that only their owner can access. Existing ones are not changed.
//!
//! A new folder is durable when this returns; the entry of a new file is after [`sync_folder`].

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

/// Makes a folder and its parents.
pub(crate) fn folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let first_new = path.ancestors().take_while(|path| !path.exists()).last().map(Path::to_owned);
    builder.recursive(true).create(path)?;
    // The entry of each new folder is in its parent.
    let Some(first_new) = first_new else { return Ok(()) };
    for new in path.ancestors().take_while(|new| new.starts_with(&first_new)) {
        new.parent().map_or(Ok(()), sync_folder)?;
    }
    Ok(())
}

/// Makes the entries of a folder durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    match File::open(path)?.sync_all() {
        // Some file systems cannot sync a folder.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Ok(())
        }
        synced => synced,
    }
}

/// Creates a file; fails if it exists.
pub(crate) fn file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.write(true).create_new(true).open(path)
}
