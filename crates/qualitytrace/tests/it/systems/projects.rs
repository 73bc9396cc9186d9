//! `qualitytrace run` in each folder of `examples/`, with the project file that is there: it passes, and it fails with
//! the bug that the folder's page names.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio::process::Command;

use super::fleet::{examples, installed};
use crate::program;

/// The ports in the files of the examples. Each test has others, because tests run at the same time.
const PORTS: [&str; 4] = ["7001", "7002", "7003", "7004"];

/// A copy of the examples, with their dependencies.
struct Copied {
    folder: TempDir,
    variables: BTreeMap<&'static str, OsString>,
}

impl Copied {
    fn new(installed: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ports = PORTS.map(|port| (port, qualitytrace_testing::port().to_string()));
        for example in ["node", "python", "go", "java"] {
            copy(&examples().join(example), &folder.path().join(example), &ports);
        }
        // What the pages say to install is here already.
        let place = |path: &str| folder.path().join(path);
        symlink(installed.join("node/node_modules"), place("node/node_modules")).unwrap();
        symlink(installed.join("go"), place("go/target")).unwrap();
        symlink(installed.join("java"), place("java/target")).unwrap();
        let packages = installed.join("python");
        let path = std::env::var_os("PATH").unwrap();
        let path = std::iter::once(packages.join("bin")).chain(std::env::split_paths(&path));
        let variables = BTreeMap::from([
            ("PATH", std::env::join_paths(path).unwrap()),
            ("PYTHONPATH", packages.into_os_string()),
            ("PYTHONDONTWRITEBYTECODE", "1".into()),
        ]);
        Self { folder, variables }
    }

    /// Runs the tests of an example, with a bug if one is named.
    async fn run(&self, example: &str, bug: &str) -> (Option<i32>, String) {
        let mut command = Command::new(program());
        for (key, _) in std::env::vars_os().filter(|(key, _)| key.to_string_lossy().starts_with("OTEL_")) {
            command.env_remove(key);
        }
        command.args(["run", "--trust-project"]).current_dir(self.folder.path().join(example));
        command.envs(&self.variables).env("BUG", bug).kill_on_drop(true);
        let output = command.output().await.unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        (output.status.code(), text.into_owned())
    }
}

/// Copies the files of an example and of its tests, with other ports.
fn copy(from: &Path, to: &Path, ports: &[(&str, String)]) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        let copied = to.join(path.file_name().unwrap());
        if path.ends_with("tests") {
            copy(&path, &copied, ports);
        } else if path.is_file() {
            let text = fs::read_to_string(&path).unwrap();
            let text = ports.iter().fold(text, |text, (from, to)| text.replace(from, to));
            fs::write(copied, text).unwrap();
        }
    }
}

/// Checks that an example passes, and that it fails at these specs with each bug.
async fn check(example: &str, bugs: &[(&str, &str)]) {
    let Some(installed) = installed() else { return };
    let copied = Copied::new(&installed);
    let (code, text) = copied.run(example, "").await;
    assert_eq!(code, Some(0), "{example}\n{text}");
    for (bug, spec) in bugs {
        let (code, text) = copied.run(example, bug).await;
        assert_eq!(code, Some(2), "{example} with {bug}\n{text}");
        assert!(text.contains(&format!("\n  ✘ {spec} ")), "{example} with {bug}\n{text}");
    }
}

#[tokio::test]
async fn orders_without_an_invoice_fail() {
    check("node", &[("no-invoice", "Billing writes one invoice")]).await;
}

#[tokio::test]
async fn billing_with_too_many_statements_or_without_a_receipt_fails() {
    let bugs = [("n-plus-one", "Two statements store it"), ("no-receipt", "The receipt is sent")];
    check("python", &bugs).await;
}

#[tokio::test]
async fn stock_with_too_many_looks_at_the_shelf_fails() {
    check("go", &[("n-plus-one", "One look at the shelf is enough")]).await;
}

#[tokio::test]
async fn mail_without_delivery_fails() {
    check("java", &[("no-delivery", "It gets into the outbox")]).await;
}
