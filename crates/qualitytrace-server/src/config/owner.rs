//! Whose files are obeyed when nobody named them: what a file in the current folder says is carried out in the name of
//! the user who happens to work there.

use std::path::{Path, PathBuf};

/// The variable with folders whose files are obeyed whoever owns them, separated as in `PATH`; `*` stands for all.
pub const SAFE_DIRECTORY: &str = "QUALITYTRACE_SAFE_DIRECTORY";

/// The users and the folders whose files are obeyed.
#[derive(Debug, Clone, Default)]
pub struct TrustedOwners {
    /// User ids.
    users: Vec<u32>,
    folders: Vec<PathBuf>,
    are_all_safe: bool,
}

impl TrustedOwners {
    /// This user, the administrator, the user who became administrator with `sudo`, and the folders of
    /// [`SAFE_DIRECTORY`].
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let safe = variable(SAFE_DIRECTORY).unwrap_or_default();
        let folders = std::env::split_paths(&safe).filter_map(|folder| folder.canonicalize().ok());
        Self {
            users: users(variable),
            folders: folders.collect(),
            are_all_safe: std::env::split_paths(&safe).any(|folder| folder == Path::new("*")),
        }
    }

    /// Like [`Self::of`], with the environment of this process.
    pub fn of_process() -> Self {
        Self::of(|name| std::env::var(name).ok())
    }

    /// Whether a file is obeyed. A link counts only if both its own owner and that of the file are trusted: a link of
    /// another user would have this user's file mean another folder.
    pub fn trust(&self, file: &Path) -> bool {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let is_below = |folder: &PathBuf| self.folders.iter().any(|safe| folder.starts_with(safe));
        if self.are_all_safe || folder.canonicalize().as_ref().is_ok_and(is_below) {
            return true;
        }
        let (Ok(link), Ok(target)) = (file.symlink_metadata(), file.metadata()) else { return false };
        self.owns(&link) && self.owns(&target)
    }

    #[cfg(unix)]
    fn owns(&self, file: &std::fs::Metadata) -> bool {
        self.users.contains(&std::os::unix::fs::MetadataExt::uid(file))
    }

    #[cfg(not(unix))]
    fn owns(&self, _: &std::fs::Metadata) -> bool {
        true
    }
}

#[cfg(unix)]
fn users(variable: impl Fn(&str) -> Option<String>) -> Vec<u32> {
    let own = rustix::process::geteuid();
    let mut users = vec![own.as_raw(), 0];
    // Only the administrator's own environment is believed here: others cannot become that user by a variable.
    if own.is_root() {
        users.extend(variable("SUDO_UID").and_then(|user| user.parse::<u32>().ok()));
    }
    users
}

#[cfg(not(unix))]
fn users(_: impl Fn(&str) -> Option<String>) -> Vec<u32> {
    Vec::new()
}
