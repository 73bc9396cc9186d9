//! The crate is built without Node and without a network too, and says what is missing.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

const FOLDER: &str = env!("CARGO_MANIFEST_DIR");
/// What a clone does not have.
const MADE_BY_TOOLS: [&str; 5] = ["node_modules", "dist", "test-results", ".lock", "schema.gen.d.ts"];

/// A clone of the crate, in a folder of its own.
struct Checkout(PathBuf);

/// What the build script did.
struct Built {
    said: Output,
    out: PathBuf,
}

impl Checkout {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        copy(&Path::new(FOLDER).join("page"), &folder.join("page"));
        Self(folder)
    }

    /// Runs the build script of the crate in the clone.
    fn build(&self, wanted: &str, environment: &[(&str, &OsStr)]) -> Built {
        let out = self.0.join("out");
        fs::create_dir_all(&out).unwrap();
        let mut script = Command::new(script());
        script.env("CARGO_MANIFEST_DIR", &self.0).env("OUT_DIR", &out).env("QUALITYTRACE_PAGE", wanted);
        let said = script.envs(environment.iter().copied()).output().unwrap();
        Built { said, out }
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Built {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.said.stdout).into_owned()
    }

    /// Compiles the crate with what the script wrote.
    fn compiles(&self) -> bool {
        let mut rustc = Command::new("rustc");
        rustc.args(["--edition", "2024", "--crate-type", "lib", "--emit", "metadata"]);
        rustc.arg("-o").arg(self.out.join("page.rmeta")).arg(Path::new(FOLDER).join("src/lib.rs"));
        rustc.env("OUT_DIR", &self.out).status().unwrap().success()
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if MADE_BY_TOOLS.iter().any(|made| entry.file_name() == *made) {
            continue;
        }
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// The build script, compiled once.
fn script() -> &'static Path {
    static SCRIPT: OnceLock<PathBuf> = OnceLock::new();
    SCRIPT.get_or_init(|| {
        let script = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page-build-script");
        let mut rustc = Command::new("rustc");
        rustc.args(["--edition", "2024", "-o"]).arg(&script).arg(Path::new(FOLDER).join("build.rs"));
        assert!(rustc.status().unwrap().success(), "the build script compiles");
        script
    })
}

#[test]
fn a_clone_without_node_is_built_and_says_what_is_missing() {
    let clone = Checkout::new("page-without-node");
    let empty = OsString::from(&clone.0);
    let built = clone.build("auto", &[("PATH", &empty)]);
    let said = built.text();
    assert!(built.said.status.success() && built.compiles(), "{said}");
    let warnings: Vec<&str> = said.lines().filter(|line| line.starts_with("cargo::warning=")).collect();
    assert_eq!(warnings.len(), 1, "{said}");
    assert!(warnings[0].contains("Node 20.19, 22.12 or newer is needed"), "{said}");
    // The folders of the PATH are watched: installing Node builds the page in.
    assert!(said.contains(&format!("cargo::rerun-if-changed={}\n", clone.0.display())), "{said}");
    let table = fs::read_to_string(built.out.join("files.rs")).unwrap();
    assert!(table.contains("ABSENT: Option<&str> = Some(") && table.contains("Node"), "{table}");
    let required = clone.build("require", &[("PATH", &empty)]).text();
    assert!(required.contains("cargo::error=Node 20.19"), "{required}");
    let off = clone.build("off", &[("PATH", &empty)]).text();
    assert!(!off.contains("cargo::warning") && !off.contains("cargo::error"), "{off}");
}

#[test]
fn a_clone_without_a_network_is_built_and_says_what_is_missing() {
    if Command::new("npm").arg("--version").output().is_err() {
        assert!(std::env::var("QUALITYTRACE_REQUIRE_PEERS").is_err(), "npm is not installed");
        println!("skipped: npm is not installed");
        return;
    }
    let clone = Checkout::new("page-without-network");
    let cache = clone.0.join("cache");
    let offline = [
        ("npm_config_offline", OsStr::new("true")),
        ("npm_config_cache", cache.as_os_str()),
        ("npm_config_registry", OsStr::new("http://127.0.0.1:9")),
        ("npm_config_fetch_retries", OsStr::new("0")),
    ];
    let built = clone.build("auto", &offline);
    let said = built.text();
    assert!(built.said.status.success() && built.compiles(), "{said}");
    let warnings: Vec<&str> = said.lines().filter(|line| line.starts_with("cargo::warning=")).collect();
    assert_eq!(warnings.len(), 1, "{said}");
    assert!(warnings[0].contains("npm could not install the packages"), "{said}");
    let table = fs::read_to_string(built.out.join("files.rs")).unwrap();
    assert!(table.contains("ABSENT: Option<&str> = Some("), "{table}");
    let required = clone.build("require", &offline).text();
    assert!(required.contains("cargo::error=npm could not install the packages"), "{required}");
}
