//! The GitHub action: what the script of `action.yml` makes of its inputs. Bash runs it as GitHub does, with a stub in
//! place of the program.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::deploy;
use crate::program;

/// Keeps what it is given, and exits as `STUB_CODE` says.
const STUB: &str = r#"#!/bin/sh
printf '%s\n' "$@" > arguments
env > environment
echo '# Summary' >> "$GITHUB_STEP_SUMMARY"
exit "${STUB_CODE:-0}"
"#;

/// What every call begins with.
const BEGINNING: [&str; 3] = [
    "run",
    "--report",
    "github,markdown,junit=qualitytrace-reports/junit.xml,html=qualitytrace-reports/report.html,json=qualitytrace-reports/report.json",
];

fn action() -> Value {
    serde_saphyr::from_str(&std::fs::read_to_string(deploy("../action.yml")).unwrap()).unwrap()
}

/// The folder in which the script has run, and what it said.
struct Ran {
    folder: TempDir,
    code: Option<i32>,
    said: String,
}

impl Ran {
    /// A file of the folder; empty if there is none.
    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }

    fn arguments(&self) -> Vec<String> {
        self.read("arguments").lines().map(ToOwned::to_owned).collect()
    }
}

/// Runs the script with these inputs and the defaults of the others, in a job that has these variables.
fn run(inputs: &[(&str, &str)], job: &[(&str, &str)]) -> Ran {
    let action = action();
    for (name, _) in inputs {
        assert!(action["inputs"][name].is_object(), "{name} is no input");
    }
    let steps = action["runs"]["steps"].as_array().unwrap();
    let step = steps.iter().find(|step| step["id"] == "run").unwrap();
    let variables = step["env"].as_object().unwrap().iter().map(|(name, expression)| {
        let input = expression.as_str().unwrap().strip_prefix("${{ inputs.").unwrap();
        let input = input.strip_suffix(" }}").unwrap();
        let given = inputs.iter().find(|(name, _)| *name == input).map(|(_, value)| *value);
        (name, given.unwrap_or_else(|| action["inputs"][input]["default"].as_str().unwrap()))
    });
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("script"), step["run"].as_str().unwrap()).unwrap();
    std::fs::write(here.join("output"), "earlier=1\n").unwrap();
    std::fs::create_dir(here.join("bin")).unwrap();
    let stub = here.join("bin/qualitytrace");
    std::fs::write(&stub, STUB).unwrap();
    std::fs::set_permissions(&stub, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new("bash")
        .args(["--noprofile", "--norc", "-eo", "pipefail", "script"])
        .current_dir(here)
        .env_clear()
        .env("PATH", format!("{}:{}", here.join("bin").display(), std::env::var("PATH").unwrap()))
        .env("GITHUB_OUTPUT", here.join("output"))
        .env("GITHUB_STEP_SUMMARY", here.join("summary"))
        .envs(job.iter().copied())
        .envs(variables)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    assert!(!here.join("ran").exists(), "an input was run as a command: {inputs:?}");
    Ran { folder, code: output.status.code(), said }
}

/// Checks the arguments after those that every call begins with; a bar is between them.
fn check(inputs: &[(&str, &str)], expected: &str) {
    let ran = run(inputs, &[]);
    assert_eq!((ran.code, ran.said.as_str()), (Some(0), ""), "{inputs:?}");
    let expected: Vec<&str> = BEGINNING.into_iter().chain(expected.split(" | ")).collect();
    assert_eq!(ran.arguments(), expected, "{inputs:?}");
}

#[test]
fn inputs_become_arguments() {
    check(&[], "--");
    check(&[("tests", "tests")], "-- | tests");
    check(&[("tests", " tests/a  tests/b.yaml ")], "-- | tests/a | tests/b.yaml");
    check(&[("tests", "tests/a\n\n  tests/b tests/c\t\n")], "-- | tests/a | tests/b | tests/c");
    check(&[("ready", "8080")], "--ready | 8080 | --");
    check(&[("ready", "http://a:80/b\n\n  9090\n")], "--ready | http://a:80/b | --ready | 9090 | --");
    check(
        &[("variables", "A=1\n \n  B=two words\nC=\n")],
        "--var | A=1 | --var | B=two words | --var | C= | --",
    );
    check(&[("variables", "A= b ")], "--var | A= b  | --");
    check(&[("tags", "smoke")], "--tag | smoke | --");
    check(&[("tags", "a,b, c d")], "--tag | a | --tag | b | --tag | c | --tag | d | --");
    check(&[("tags", "a\n\nb,,c,\n")], "--tag | a | --tag | b | --tag | c | --");
    check(&[("shard", "2/3")], "--shard | 2/3 | --");
    check(&[("args", "--fail-fast \n\n  --retries 2\n-q\n")], "--fail-fast | --retries | 2 | -q | --");
    check(&[("args", "--grep  a  b\n--grep=c d\n")], "--grep | a  b | --grep=c d | --");
    check(&[("args", "a file - with blanks.yaml")], "a file - with blanks.yaml | --");
    check(&[("server", "http://server:11633")], "--server | http://server:11633 | --");
    check(&[("with", "npm start -- --port 8080")], "--with | npm start -- --port 8080 | --");
    let all = [
        ("tests", "tests"),
        ("server", "http://server"),
        ("with", "start"),
        ("ready", "1\n2"),
        ("variables", "A=1"),
        ("secrets", "B=2"),
        ("tags", "x"),
        ("shard", "1/2"),
        ("args", "--list"),
    ];
    check(
        &all,
        "--server | http://server | --with | start | --ready | 1 | --ready | 2 | --var | A=1 | --secret | B | \
         --tag | x | --shard | 1/2 | --list | -- | tests",
    );
}

#[test]
fn inputs_are_neither_commands_nor_patterns_nor_other_flags() {
    for text in
        ["$(touch${IFS}ran)", "`touch${IFS}ran`", ";touch${IFS}ran;", "*", "~", "\\n", "\"", "'", "-n"]
    {
        let inputs = ["server", "with", "ready", "variables", "tags", "shard", "args", "tests"];
        check(
            &inputs.map(|input| (input, text)),
            &"--server | TEXT | --with | TEXT | --ready | TEXT | --var | TEXT | --tag | TEXT | --shard | TEXT | \
              TEXT | -- | TEXT"
                .replace("TEXT", text),
        );
    }
    for step in action()["runs"]["steps"].as_array().unwrap() {
        assert!(!step["run"].as_str().unwrap().contains("${{"), "{}", step["id"]);
    }
}

#[test]
fn secrets_and_the_token_are_in_the_environment_only() {
    let of_job = [("API_KEY", "of the job"), ("name", "a"), ("line", "b"), ("code", "c")];
    let given = [("PASSWORD", "a=b $(touch ran) "), ("EMPTY", ""), ("tests", "d"), ("arguments", "e")];
    let mut secrets: Vec<String> = of_job.iter().map(|(name, _)| (*name).to_owned()).collect();
    secrets.extend(given.iter().map(|(name, value)| format!("  {name}={value}\n")));
    let secrets = secrets.join("\n");
    let ran = run(&[("secrets", &secrets), ("token", "f"), ("trust-project", "true")], &of_job);
    assert_eq!((ran.code, ran.said.as_str()), (Some(0), ""));
    let names = of_job.iter().chain(&given).flat_map(|(name, _)| ["--secret", *name]);
    let expected: Vec<&str> = BEGINNING.into_iter().chain(names).chain(["--"]).collect();
    assert_eq!(ran.arguments(), expected);
    let environment = ran.read("environment");
    let others =
        [("INPUT_SECRETS", ""), ("QUALITYTRACE_TOKEN", "f"), ("QUALITYTRACE_RUN_TRUST_PROJECT", "true")];
    for (name, value) in of_job.iter().chain(&given).chain(&others) {
        let line = format!("{name}={value}");
        assert!(environment.lines().any(|found| found == line), "{line}: {environment}");
    }
}

#[test]
fn a_line_that_is_no_secret_is_refused_and_not_shown() {
    for (secrets, line, hidden) in [
        ("KEY=-----BEGIN\nMIIEpAIB\n-----END", 2, "MIIEpAIB"),
        ("KEY=-----BEGIN\n\nab/cd==", 3, "ab/cd"),
        ("MISSING", 1, "MISSING"),
        ("two words=a", 1, "words"),
        ("=hidden", 1, "hidden"),
        ("a[$(touch ran)]=b", 1, "touch"),
        ("--list", 1, "list"),
    ] {
        let ran = run(&[("secrets", secrets)], &[]);
        assert_eq!((ran.code, ran.arguments()), (Some(1), Vec::new()), "{secrets:?}");
        assert!(ran.said.starts_with(&format!("::error::line {line} of the input secrets ")), "{}", ran.said);
        assert!(!ran.said.contains(hidden), "{}", ran.said);
        assert_eq!(ran.read("output"), "earlier=1\noutcome=error\n");
    }
}

#[test]
fn the_exit_code_is_the_outcome() {
    for (code, outcome) in
        [(0, "passed"), (1, "error"), (2, "failed"), (3, "error"), (4, "inconclusive"), (130, "error")]
    {
        let ran = run(&[], &[("STUB_CODE", &code.to_string())]);
        assert_eq!(ran.code, Some(code), "{}", ran.said);
        assert_eq!(ran.read("output"), format!("earlier=1\noutcome={outcome}\n"));
        assert_eq!(ran.read("summary"), "# Summary\n");
    }
}

#[test]
fn the_folder_for_the_reports_is_there() {
    let folder = "build/the reports";
    let ran = run(&[("reports", folder)], &[]);
    assert!(ran.folder.path().join(folder).is_dir());
    let reports = format!(
        "github,markdown,junit={folder}/junit.xml,html={folder}/report.html,json={folder}/report.json"
    );
    assert_eq!(ran.arguments(), ["run", "--report", &reports, "--"]);
}

#[test]
fn the_program_knows_the_arguments() {
    let inputs = [
        ("ready", "8080\n9090"),
        ("with", "true"),
        ("variables", "A=1"),
        ("secrets", "API_KEY"),
        ("tags", "smoke, slow"),
        ("shard", "1/1"),
        ("args", "--list"),
    ];
    let definition = |name: &str, tag: &str| {
        let trigger = "{ type: http, httpRequest: { method: GET, url: http://127.0.0.1:1 } }";
        format!("type: Test\nspec: {{ id: {name}, name: {name}, tags: [{tag}], trigger: {trigger} }}\n")
    };
    let lists = |tests: &str, project: &str| {
        let ran = run(&[&inputs[..], &[("tests", tests)]].concat(), &[("API_KEY", "a")]);
        let here = ran.folder.path();
        std::fs::create_dir(here.join("tests")).unwrap();
        for (name, tag) in [("a", "smoke"), ("b", "other"), ("c", "slow")] {
            std::fs::write(here.join(format!("tests/{name}.yaml")), definition(name, tag)).unwrap();
        }
        std::fs::write(here.join("qualitytrace.yaml"), project).unwrap();
        let mut command = Command::new(program());
        command.args(ran.arguments()).current_dir(here).env("HOME", here).env("API_KEY", "a");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let all = "test   tests/a.yaml  a (a)  #smoke\ntest   tests/c.yaml  c (c)  #slow\n";
    assert_eq!(lists("tests", "run: {}\n"), all);
    assert_eq!(lists("tests/b.yaml\ntests/c.yaml", "run: {}\n"), "test   tests/c.yaml  c (c)  #slow\n");
    assert_eq!(lists("", "run: { paths: [tests] }\n"), all);
}
