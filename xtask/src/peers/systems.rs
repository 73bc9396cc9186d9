//! The dependencies of the systems in `examples/`, fetched by their package managers at the versions of their lock
//! files.
//!
//! Tests run the sources of this clone with these dependencies, so that a change of a source fetches nothing.

use std::{
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use super::{cache, once};
use crate::{process, workspace};

/// A system: its folder in `examples/`, its files besides the lock file, and how its dependencies are fetched.
struct System {
    name: &'static str,
    /// The files that determine the dependencies.
    of: &'static [&'static str],
    /// The programs that are needed, and where to get them.
    programs: &'static [&'static str],
    how_to_get_them: &'static str,
    /// The package registry.
    registry: &'static str,
    /// Fetches the dependencies of a source folder into a new folder.
    fetch: fn(&Path, &Path) -> Result<()>,
}

const SYSTEMS: [System; 4] = [
    System {
        name: "python",
        of: &["requirements.txt"],
        programs: &["python3"],
        how_to_get_them: "install Python 3.10 or newer with pip",
        registry: "https://pypi.org",
        fetch: python,
    },
    System {
        name: "node",
        of: &["package.json", "package-lock.json"],
        programs: &["node", "npm"],
        how_to_get_them: "install Node 20 or newer with npm",
        registry: "https://registry.npmjs.org",
        fetch: node,
    },
    System {
        name: "go",
        of: &["go.mod", "go.sum", "stock.go"],
        programs: &["go"],
        how_to_get_them: "install Go 1.25 or newer",
        registry: "https://proxy.golang.org",
        fetch: go,
    },
    System {
        name: "java",
        of: &["pom.xml", "Mail.java"],
        programs: &["java", "javac", "mvn"],
        how_to_get_them: "install a JDK 17 and Maven",
        registry: "https://repo.maven.apache.org",
        fetch: java,
    },
];

/// Fetches what is missing; returns the folder with one folder per system.
pub(crate) fn install() -> Result<PathBuf> {
    let examples = workspace::root().join("examples");
    let of = format!("systems-{:016x}", fingerprint(&examples)?);
    for system in &SYSTEMS {
        system.install(&examples.join(system.name), &of)?;
    }
    Ok(cache()?.join(of))
}

impl System {
    fn install(&self, source: &Path, folder: &str) -> Result<()> {
        let Self { name, registry, .. } = self;
        let doing = format!("fetching what examples/{name} needs");
        once(&format!("{folder}/{name}"), &doing, |new| {
            for program in self.programs {
                let otherwise = format!("{}, or leave the peers out with --no-peers", self.how_to_get_them);
                process::require(program, &otherwise)?;
            }
            fs::create_dir_all(new)
                .with_context(|| format!("failed to make the folder {}", new.display()))?;
            (self.fetch)(source, new).with_context(|| format!("{registry} has to be reachable once"))
        })?;
        Ok(())
    }
}

/// A hash of lock files, compiled sources and the Python version, for which its packages are made.
fn fingerprint(examples: &Path) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    for system in &SYSTEMS {
        for name in system.of {
            let path = examples.join(system.name).join(name);
            fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?.hash(&mut hasher);
        }
    }
    process::output(Command::new("python3").arg("--version")).unwrap_or_default().hash(&mut hasher);
    Ok(hasher.finish())
}

fn python(source: &Path, new: &Path) -> Result<()> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]);
    // As root it would warn about the system's packages, which a target folder does not touch.
    pip.args(["--root-user-action", "ignore"]);
    pip.args(["--only-binary", ":all:", "--requirement"]).arg(source.join("requirements.txt"));
    process::run(pip.arg("--target").arg(new))
}

fn node(source: &Path, new: &Path) -> Result<()> {
    for name in ["package.json", "package-lock.json"] {
        fs::copy(source.join(name), new.join(name)).with_context(|| format!("failed to copy {name}"))?;
    }
    let quiet = ["--no-audit", "--no-fund", "--loglevel", "error"];
    process::run(Command::new("npm").arg("ci").args(quiet).current_dir(new))
}

fn go(source: &Path, new: &Path) -> Result<()> {
    let mut go = Command::new("go");
    go.args(["build", "-trimpath", "-o"]).arg(new.join("stock")).arg(".").current_dir(source);
    let fixed = [("GOFLAGS", "-mod=readonly -buildvcs=false"), ("GOWORK", "off"), ("GOTOOLCHAIN", "local")];
    process::run(go.envs(fixed).env("CGO_ENABLED", "0"))
}

fn java(source: &Path, new: &Path) -> Result<()> {
    let mut maven = Command::new("mvn");
    // Without the version in file names, tests need not know it.
    maven.args(["-q", "-B", "dependency:copy-dependencies", "-Dmdep.stripVersion=true", "-f"]);
    maven.arg(source.join("pom.xml")).arg(format!("-DoutputDirectory={}", new.display()));
    process::run(&mut maven)?;
    process::run(Command::new("javac").arg("-d").arg(new).arg(source.join("Mail.java")))
}
