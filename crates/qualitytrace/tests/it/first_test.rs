//! The page for new users, executed: its files are written, its commands are run, and their output is compared.
//! `QUALITYTRACE_UPDATE=1` writes the output into the page.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use qualitytrace_testing::{DEADLINE, port, within};
use regex::Regex;
use tokio::process::Command;

/// The port of the system in the page.
const PORT: &str = "8080";

/// The text without times, ids and bars of a waterfall.
fn masked(text: &str) -> String {
    let mut text = text.to_owned();
    for (pattern, mask) in [
        (r" +[0-9.]+ (µs|ms|s)\b", " TIME"),
        (r"\b[0-9a-f]{32}\b", "TRACE"),
        (r"[━·]{4,}", "BAR"),
        (r" +\n", "\n"),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, mask).into_owned();
    }
    text
}

#[tokio::test]
async fn a_new_user_gets_from_an_empty_folder_to_a_test_that_passes() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/first-test.md");
    let written = std::fs::read_to_string(&page).unwrap();
    let desk = Desk::new();
    let mut seen = String::new();
    let mut lines = written.lines();
    while let Some(line) = lines.next() {
        writeln!(seen, "{line}").unwrap();
        let Some(kind) = line.strip_prefix("```").filter(|kind| !kind.is_empty()) else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        match kind.strip_prefix("yaml ") {
            Some(file) => {
                desk.write(file, &(block.join("\n") + "\n"));
                seen += &(block.join("\n") + "\n");
            }
            None => {
                for command in block.iter().filter_map(|line| line.strip_prefix("$ ")) {
                    write!(seen, "$ {command}\n{}", desk.run(command).await).unwrap();
                }
            }
        }
        seen.push_str("```\n");
    }
    if std::env::var_os("QUALITYTRACE_UPDATE").is_some() {
        std::fs::write(&page, &seen).unwrap();
    }
    assert_eq!(masked(&seen), masked(&written), "QUALITYTRACE_UPDATE=1 writes it");
    let verdicts: Vec<&str> =
        seen.lines().filter_map(|line| line.strip_prefix("1 test: ")?.split(" in ").next()).collect();
    assert_eq!(verdicts, ["1 passed", "0 passed, 1 failed", "1 passed"]);
}

/// An empty folder, and a folder with the program under the name that the page uses.
struct Desk {
    folder: tempfile::TempDir,
    programs: tempfile::TempDir,
    port: String,
}

impl Desk {
    fn new() -> Self {
        let programs = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(crate::program(), programs.path().join("qualitytrace")).unwrap();
        Self { folder: tempfile::tempdir().unwrap(), programs, port: port().to_string() }
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.folder.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text.replace(PORT, &self.port)).unwrap();
    }

    /// The output of a command line.
    async fn run(&self, command: &str) -> String {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let paths: Vec<PathBuf> = std::env::split_paths(&path).collect();
        let paths = std::iter::once(self.programs.path().to_owned()).chain(paths);
        let output = Command::new("sh")
            .args(["-c", &format!("{} 2>&1", command.replace(PORT, &self.port))])
            .current_dir(self.folder.path())
            .env("PATH", std::env::join_paths(paths).unwrap())
            .env("HOME", self.programs.path().join("home"))
            .env("XDG_CACHE_HOME", self.programs.path().join("cache"))
            // A reader is asked at a terminal.
            .env("QUALITYTRACE_RUN_TRUST_PROJECT", "true")
            .kill_on_drop(true)
            .output();
        let output = within(DEADLINE, format!("`{command}` ends"), output).await.unwrap();
        String::from_utf8_lossy(&output.stdout).replace(&self.port, PORT)
    }
}
