//! Bounds the addresses that a server reserves without using them.
//!
//! The memory allocator of glibc gives threads arenas of 64 MiB of addresses each, eight for every processor. Where addresses
//! are limited (`ulimit -v`), a server with many threads would have none left for what it works with.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// What glibc reads when a program starts.
const VARIABLE: &str = "MALLOC_ARENA_MAX";
/// Arenas at the least.
const LEAST: usize = 4;

/// Starts the program anew with fewer arenas if it is a server and nobody has chosen a number. Where that is not possible, it
/// goes on as it is.
pub(crate) fn limit() {
    let mut arguments = env::args_os();
    let name = arguments.next();
    let arguments: Vec<_> = arguments.collect();
    let is_server = arguments.first().is_some_and(|command| command == "serve");
    let (Some(name), Ok(program), true, None) = (name, env::current_exe(), is_server, env::var_os(VARIABLE))
    else {
        return;
    };
    let processors = std::thread::available_parallelism().map_or(1, Into::into);
    let mut anew = Command::new(program);
    anew.arg0(name).args(arguments).env(VARIABLE, LEAST.max(processors).to_string());
    // It returns only when it fails.
    let _ = anew.exec();
}
