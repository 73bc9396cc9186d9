//! Files that a definition or a setting names: one function reads them all.
//!
//! A name may lead to a pipe that never ends, to a device, or to a file of the system that has more than it says. Only
//! regular files are read, and no more of them than a limit.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The longest certificate, key or token.
pub(crate) const CREDENTIAL_BYTES: u64 = 1 << 20;
/// The longest file of the user of this machine: definitions, and what they name.
pub const OWN_BYTES: u64 = 64 << 20;

/// Where the files may be that a data store names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AllowedFiles {
    /// Nowhere.
    #[default]
    Nowhere,
    /// In this folder and below. A relative name is relative to it.
    Below(PathBuf),
    /// Anywhere: the client has the files of the server anyway, because it is the same user.
    Anywhere,
}

impl AllowedFiles {
    /// Reads a file that a data store names. Blocks.
    ///
    /// What is outside of the folder is not found, whether it exists or not. Links are followed first; the folder is the
    /// operator's, so nobody else changes one between that and the opening.
    pub(crate) fn read(&self, name: &str, limit: u64) -> io::Result<Vec<u8>> {
        let path = match self {
            Self::Nowhere => return Err(io::ErrorKind::NotFound.into()),
            Self::Anywhere => PathBuf::from(name),
            Self::Below(folder) => {
                let folder = folder.canonicalize()?;
                let path = folder.join(name).canonicalize()?;
                if !path.starts_with(&folder) {
                    return Err(io::ErrorKind::NotFound.into());
                }
                path
            }
        };
        read(&path, limit)
    }
}

/// Reads a regular file of at most `limit` bytes. Blocks.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    // Some devices act when they are opened.
    regular(&path.metadata()?)?;
    let file = open(path)?;
    // The name may lead elsewhere by now.
    regular(&file.metadata()?)?;
    bounded(file, limit)
}

/// Reads what the user of this machine gives, which may be a pipe of a shell. Blocks.
pub fn read_or_pipe(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    bounded(File::open(path)?, limit)
}

/// Reads the text of a regular file of at most `limit` bytes. Blocks.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    text(read(path, limit)?)
}

/// Reads the text of what the operator gives to the server, which may be a pipe of a shell. Blocks.
pub(crate) fn read_text_or_pipe(path: &Path) -> io::Result<String> {
    text(read_or_pipe(path, OWN_BYTES)?)
}

/// Reads a regular file of at most `limit` bytes on a thread that may wait.
pub(crate) async fn read_aside(path: PathBuf, limit: u64) -> io::Result<Vec<u8>> {
    aside(move || read(&path, limit)).await
}

/// Reads on a thread that may wait.
pub(crate) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn regular(found: &Metadata) -> io::Result<()> {
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let message = "it is no regular file, and a pipe or a device may never end";
    found.is_file().then_some(()).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, message))
}

fn bounded(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let message = format!("it has more than {limit} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

/// Opens a file without waiting for the other end of a pipe.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt as _;

        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        options.custom_flags(flags.bits().cast_signed());
    }
    options.read(true).open(path)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[track_caller]
    fn check(read: io::Result<Vec<u8>>, expected: Result<&str, io::ErrorKind>) {
        let read = read.map(|bytes| String::from_utf8(bytes).unwrap()).map_err(|error| error.kind());
        assert_eq!(read, expected.map(str::to_owned));
    }

    #[test]
    fn only_regular_files_within_the_limit_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ten");
        fs::write(&file, "0123456789").unwrap();
        check(read(&file, 10), Ok("0123456789"));
        check(read(&file, 9), Err(io::ErrorKind::FileTooLarge));
        check(read(folder.path(), 9), Err(io::ErrorKind::IsADirectory));
        check(read(&folder.path().join("none"), 9), Err(io::ErrorKind::NotFound));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn devices_pipes_and_files_of_the_system_do_not_go_on_without_end() {
        for endless in ["/dev/zero", "/dev/tty", "/proc/self/fd", "/proc/self/pagemap"] {
            assert!(read(Path::new(endless), 1 << 20).is_err(), "{endless}");
        }
        // It says that it is empty.
        check(read(Path::new("/proc/self/maps"), 64), Err(io::ErrorKind::FileTooLarge));
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        check(read(&pipe, 9), Err(io::ErrorKind::InvalidInput));
        // A file that becomes a pipe after it was looked at: opening it does not wait for a writer.
        assert!(!open(&pipe).unwrap().metadata().unwrap().is_file());
    }

    #[cfg(unix)]
    #[test]
    fn a_data_store_reads_below_its_folder_only() {
        let around = tempfile::tempdir().unwrap();
        let folder = around.path().join("certificates");
        fs::create_dir_all(folder.join("deep")).unwrap();
        fs::write(around.path().join("secret"), "secret").unwrap();
        fs::write(folder.join("deep/ca"), "ca").unwrap();
        for (link, to) in [("in", "deep/ca"), ("out", "../secret"), ("up", "..")] {
            std::os::unix::fs::symlink(to, folder.join(link)).unwrap();
        }
        let below = AllowedFiles::Below(folder.clone());
        for name in ["deep/ca", "in", "./deep/../in", folder.join("in").to_str().unwrap()] {
            check(below.read(name, 9), Ok("ca"));
        }
        let outside = around.path().join("secret");
        for name in ["../secret", "out", "up/secret", outside.to_str().unwrap(), "../none", "none"] {
            check(below.read(name, 9), Err(io::ErrorKind::NotFound));
        }
        check(AllowedFiles::Anywhere.read(outside.to_str().unwrap(), 9), Ok("secret"));
        check(AllowedFiles::Nowhere.read(outside.to_str().unwrap(), 9), Err(io::ErrorKind::NotFound));
    }
}
