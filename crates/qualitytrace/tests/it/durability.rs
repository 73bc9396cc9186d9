//! What may happen to a server in years: clocks that jump, disks that fail now and then, networks that part, migrations
//! that are killed, days of runs. Nothing acknowledged is lost, nothing is sent twice, and a sentence says what to do.

mod clock;
mod day;
mod disk_errors;
mod migration;
mod partition;
mod shifted_time;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::program;

/// A program that starts ours under strace with these arguments.
fn under_strace(strace: &Path, folder: &Path, arguments: &str) -> PathBuf {
    let script = folder.join("traced");
    // The tracer is a grandchild (-D), so that killing the child kills the server.
    let (strace, program) = (strace.display(), program().display());
    let text = format!("#!/bin/sh\nexec {strace} -D -f -qq -o /dev/null {arguments} {program} \"$@\"\n");
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
    script
}
