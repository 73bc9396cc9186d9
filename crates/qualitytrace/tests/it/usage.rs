//! Mistyped commands: the exit code says that nothing was done, never that a test did not pass.

use std::process::Command;

#[test]
fn a_mistyped_command_is_no_failed_test() {
    for (arguments, code) in [
        (&["rnu"][..], 1),
        (&["run", "--no-such-flag"], 1),
        (&["run", "no-such-file.yaml"], 1),
        (&["--help"], 0),
        (&[], 0),
        (&["version"], 0),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_qualitytrace")).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    }
}
