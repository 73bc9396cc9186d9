//! A temporary PostgreSQL server: on a free loopback port, in a temporary folder.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use super::install_package;
use crate::process::{self, Guard};

/// Timeout until the server accepts its first connection.
const START_LIMIT: Duration = Duration::from_mins(1);
/// Debian's folder of server binaries: one per major version, off the PATH.
const DEBIAN: &str = "/usr/lib/postgresql";
/// The prefix of the temporary folders; the id of the owning process and a number follow.
const PREFIX: &str = "qualitytrace-postgres-";
/// The user that the package creates: PostgreSQL refuses to run as root.
const USER: &str = "postgres";

/// Returns the folder of `initdb` and `postgres`, after installing the system's package if needed.
pub(crate) fn install() -> Result<PathBuf> {
    if let Some(bin) = find() {
        return Ok(bin);
    }
    let by_hand = "install the package `postgresql`, or name its bin folder in QUALITYTRACE_POSTGRES_BIN, \
                   or leave the peers out with --no-peers";
    install_package("postgresql", by_hand)?;
    find().with_context(|| format!("apt-get installed no PostgreSQL server under {DEBIAN}: {by_hand}"))
}

fn find() -> Option<PathBuf> {
    let chosen = env::var_os("QUALITYTRACE_POSTGRES_BIN").map(PathBuf::from);
    // Only `initdb` may be linked on the PATH; the other programs are in the folder of the link's target.
    let linked = process::find("initdb").and_then(|file| file.canonicalize().ok());
    let on_path = linked.and_then(|file| file.parent().map(Path::to_path_buf));
    let mut versions: Vec<_> =
        fs::read_dir(DEBIAN).into_iter().flatten().flatten().map(|e| e.path()).collect();
    versions.sort_by_key(|dir| dir.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()));
    let packaged = versions.into_iter().rev().map(|version| version.join("bin"));
    let mut places = chosen.into_iter().chain(on_path).chain(packaged);
    places.find(|bin| {
        ["initdb", "postgres", "pg_ctl", "pg_isready"].iter().all(|name| bin.join(name).is_file())
    })
}

/// A running server. Dropping it stops the server and removes its data.
#[derive(Debug)]
pub(crate) struct Postgres {
    /// The address for clients.
    pub(crate) url: String,
    stop: Command,
    // Field order is drop order: the server ends before its folder is removed.
    _server: Guard,
    _folder: Folder,
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // The guard ends it in any case; a regular stop also releases its shared memory.
        let _ = process::output(&mut self.stop);
    }
}

/// Starts a server with only the database `postgres`.
pub(crate) fn start() -> Result<Postgres> {
    let bin = install()?;
    remove_leftovers();
    let folder = Folder::new()?;
    let data = folder.0.join("data");
    let mut initdb = as_user(&bin.join("initdb"));
    initdb.args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C", "--username=postgres", "-D"]);
    process::output(initdb.arg(&data)).context("failed to prepare the data folder")?;

    let port = qualitytrace_testing::port();
    let log = folder.0.join("log");
    let mut postgres = as_user(&bin.join("postgres"));
    postgres.arg("-D").arg(&data).arg("-p").arg(port.to_string());
    let settings =
        ["listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200", "fsync=off"];
    for setting in settings.into_iter().chain(["synchronous_commit=off", "full_page_writes=off"]) {
        postgres.args(["-c", setting]);
    }
    postgres.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&log)?);
    let mut server = Guard(postgres.spawn().context("failed to start the PostgreSQL server")?);
    let started = Instant::now();
    while !accepts(&bin, port) {
        if server.0.try_wait()?.is_some() || started.elapsed() > START_LIMIT {
            let said = fs::read_to_string(&log).unwrap_or_default();
            bail!("the PostgreSQL server did not come up: {}", said.trim());
        }
        thread::sleep(Duration::from_millis(20));
    }
    let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
    println!("    PostgreSQL from {} listens at {url}", bin.display());
    let mut stop = as_user(&bin.join("pg_ctl"));
    stop.args(["stop", "--silent", "--mode=immediate", "-D"]).arg(&data);
    Ok(Postgres { url, stop, _server: server, _folder: folder })
}

/// Runs the program as a user that PostgreSQL accepts; it ends with this process.
fn as_user(program: &Path) -> Command {
    // SIGQUIT is the server's immediate shutdown; its data is not kept.
    let mut command = if process::is_root() {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", USER, "--regid", USER, "--init-groups", "--pdeathsig", "QUIT", "--"])
            .arg(program);
        command
    } else {
        process::bound_to_us("QUIT", program)
    };
    command.current_dir(env::temp_dir());
    command
}

fn accepts(bin: &Path, port: u16) -> bool {
    let mut ask = Command::new(bin.join("pg_isready"));
    ask.args(["-q", "-h", "127.0.0.1", "-U", "postgres", "-p", &port.to_string()]);
    ask.status().is_ok_and(|status| status.success())
}

/// A temporary folder that the server's user may write to.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("failed to make the folder {}", path.display()))?;
        let folder = Self(path);
        if process::is_root() {
            process::run(Command::new("chown").arg(USER).arg(&folder.0))?;
        }
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o700))?;
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes the folders of runs that were killed and could not clean up.
fn remove_leftovers() {
    for entry in fs::read_dir(env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
