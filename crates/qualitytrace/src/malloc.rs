//! Settings of glibc's allocator for a server.
//!
//! Threads get arenas of 64 MiB of address space each, up to eight per processor: where address space is limited
//! (`ulimit -v`), a server with many threads would run out of it. And the size from which memory goes back to the system
//! as soon as it is freed grows with what is freed: after one large request, the memory of all later ones is kept.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// The smallest number of arenas.
const MIN_ARENAS: usize = 4;
/// Memory of this size and more goes back to the system when it is freed.
const RETURNED_BYTES: usize = 1024 * 1024;

/// Restarts the program with these settings if it is a server and they are not set. Where that fails, it goes on as it
/// is.
pub(crate) fn configure() {
    let mut arguments = env::args_os();
    let name = arguments.next();
    let arguments: Vec<_> = arguments.collect();
    let is_server = arguments.first().is_some_and(|command| command == "serve");
    let processors = std::thread::available_parallelism().map_or(1, Into::into);
    // glibc reads them when a program starts. Those that a user has set stay.
    let settings = [
        ("MALLOC_ARENA_MAX", MIN_ARENAS.max(processors)),
        ("MALLOC_MMAP_THRESHOLD_", RETURNED_BYTES),
        ("MALLOC_TRIM_THRESHOLD_", RETURNED_BYTES),
    ];
    let mut missing = settings.iter().filter(|(variable, _)| env::var_os(variable).is_none()).peekable();
    let (Some(name), Ok(program), true, Some(_)) = (name, env::current_exe(), is_server, missing.peek())
    else {
        return;
    };
    let mut anew = Command::new(program);
    anew.arg0(name).args(arguments);
    anew.envs(missing.map(|(variable, value)| (variable, value.to_string())));
    // It returns only when it fails.
    let _ = anew.exec();
}
