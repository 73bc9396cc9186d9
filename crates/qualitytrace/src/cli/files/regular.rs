//! Reading of files that a folder, a definition or a user names: regular ones, within a bound.

use std::io;
use std::path::Path;

use qualitytrace_server::base::files;

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
    if OPEN_FILES.iter().any(|folder| path.starts_with(folder)) {
        files::read_or_pipe(path, MAX_BYTES)
    } else {
        files::read(path, MAX_BYTES)
    }
}
