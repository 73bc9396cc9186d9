//! Limits the malloc arenas of a server.
//!
//! glibc's allocator gives threads arenas of 64 MiB of address space each, up to eight per processor. Where address
//! space is limited (`ulimit -v`), a server with many threads would run out of it.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// The variable that glibc reads when a program starts.
const VARIABLE: &str = "MALLOC_ARENA_MAX";
/// The smallest number of arenas.
const LEAST: usize = 4;

/// Restarts the program with fewer arenas if it is a server and the variable is not set. Where that fails, it goes on
/// as it is.
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
