//! The program at a terminal: a pseudo-terminal in place of its standard input, output and error.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Command, ExitStatus};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Runs a command at a terminal that gets this input, and returns everything that the terminal was sent.
pub(crate) fn at_terminal(command: &mut Command, input: &str) -> (ExitStatus, String) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let slave = File::from(slave);
    command.env_remove("CI").env_remove("NO_COLOR").env("TERM", "xterm-256color");
    command.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap()).stderr(slave);
    let mut child = command.spawn().unwrap();
    // The terminal ends when nobody has its other side open, and the command holds it as well as the child.
    command.stdin(std::process::Stdio::null());
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut master = File::from(master);
    master.write_all(input.as_bytes()).unwrap();
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    // A terminal without its other side answers with an error, not with an end.
    while let Ok(read @ 1..) = master.read(&mut buffer) {
        seen.extend_from_slice(&buffer[..read]);
    }
    let status = child.wait().unwrap();
    (status, String::from_utf8_lossy(&seen).into_owned())
}
