//! A real server whose clocks the test moves: a small library between the program and the system adds to them.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::late_spans_load::program::Served;
use crate::program;

/// The clocks of the servers that are started with it.
pub(super) struct ShiftedTime {
    library: PathBuf,
    path: PathBuf,
    file: File,
    /// Seconds: of the wall clock, and of the clock that only goes forward.
    ahead: [i64; 2],
}

impl ShiftedTime {
    /// Makes the library with the C compiler that building the program needs, too.
    pub(super) fn new(folder: &Path) -> Self {
        let (library, path) = (folder.join("time.so"), folder.join("time"));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/durability/time.c");
        let made =
            Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let time = Self { library, file: File::create_new(&path).unwrap(), path, ahead: [0; 2] };
        time.write();
        time
    }

    /// Starts a server with these clocks.
    pub(super) async fn serve(&self, database: &str, arguments: &[&str]) -> Served {
        let quiet = ["--server.httpPort", "0", "--otlp-grpc-addr", "off", "--otlp-http-addr", "off"];
        let variables =
            [("LD_PRELOAD", self.library.to_str().unwrap()), ("TIME_FILE", self.path.to_str().unwrap())];
        let arguments = [&quiet[..], &["--database-url", database], arguments].concat();
        Served::start_in(program(), &variables, &arguments).await
    }

    /// Sets the wall clock forward by so many seconds, or back.
    pub(super) fn jump(&mut self, seconds: i64) {
        self.ahead[0] += seconds;
        self.write();
    }

    /// Lets time pass, on all clocks.
    pub(super) fn pass(&mut self, time: Duration) {
        let seconds = i64::try_from(time.as_secs()).unwrap();
        self.ahead = self.ahead.map(|ahead| ahead + seconds);
        self.write();
    }

    fn write(&self) {
        self.file.write_all_at(&self.ahead.map(i64::to_ne_bytes).concat(), 0).unwrap();
    }
}
