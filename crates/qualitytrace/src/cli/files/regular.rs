//! Reading of files that a folder, a definition or a user names: regular ones, within a bound.
//!
//! A named pipe would keep the reader waiting until somebody writes into it, and a device has no end.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::path::Path;

/// The largest file that is read: longer than any definition or trace that a server takes.
const MAX_BYTES: u64 = 256 << 20;
/// Folders whose entries stand for open files of this process, as a shell passes them: `check <(generate)`.
const OPEN_FILES: [&str; 3] = ["/dev/fd", "/proc/self/fd", "/dev/stdin"];

/// Reads a file as text.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Reads a file.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 256 MiB"));
    }
    Ok(bytes)
}

fn open(path: &Path) -> io::Result<File> {
    if OPEN_FILES.iter().any(|folder| path.starts_with(folder)) {
        return File::open(path);
    }
    let mut options = OpenOptions::new();
    options.read(true);
    // Opening a pipe must not wait for its other end. Reads of regular files do not know this flag.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        rustix::fs::OFlags::NONBLOCK.bits().cast_signed(),
    );
    let file = options.open(path)?;
    let found = file.metadata()?;
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !found.is_file() {
        let message = "it is no regular file, and a pipe or a device may never end";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(file)
}
