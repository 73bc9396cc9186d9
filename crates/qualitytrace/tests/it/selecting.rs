//! What `run` selects, repeats, starts and reports.

use std::path::Path;
use std::process::Stdio;

use qualitytrace_testing::port;
use serde_json::Value;
use tokio::process::Command;

use crate::late_spans_load::program::Served;
use crate::program;
use crate::suites::{holds, subject, test};

/// A folder with tests, and the system that they call.
pub(crate) struct Desk {
    folder: tempfile::TempDir,
    pub(crate) url: String,
}

/// The outcome of a command: exit code, standard output, standard error.
pub(crate) type Ended = (Option<i32>, String, String);

impl Desk {
    pub(crate) async fn with(files: &[(&str, String)]) -> Self {
        let desk = Self { folder: tempfile::tempdir().unwrap(), url: subject().await };
        for (name, text) in files {
            let path = desk.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        desk
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap()
    }

    pub(crate) async fn run(&self, arguments: &[&str]) -> Ended {
        let url = format!("URL={}", self.url);
        let own = ["--var", &url, "--otlp-grpc-addr", "off", "--otlp-http-addr", "off"];
        self.call("", &[&["run"], arguments, &own].concat(), &[]).await
    }

    /// Makes a repository of the folder, with all files in its first commit.
    async fn commit(&self) {
        for arguments in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", "first"]] {
            let name = ["-c", "user.name=a", "-c", "user.email=a@b.c"];
            let git = Command::new("git").args(name).args(arguments).current_dir(self.path()).output().await;
            assert!(git.unwrap().status.success(), "{arguments:?}");
        }
    }

    /// Calls the program in a folder of the desk.
    pub(crate) async fn call(&self, folder: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Ended {
        let output = Command::new(program())
            .args(arguments)
            .current_dir(self.path().join(folder))
            .env("HOME", self.path().join("home"))
            .env("XDG_CACHE_HOME", self.path().join("cache"))
            .env_remove("GITHUB_STEP_SUMMARY")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }
}

fn three() -> [(&'static str, String); 3] {
    [
        ("a.yaml", test("a", "/a", "")),
        ("b.yaml", test("b", "/bad", "")),
        ("c.yaml", test("c", "/c", "  tags: [slow]\n")),
    ]
}

#[tokio::test]
async fn tests_are_selected_by_name_id_last_result_and_part() {
    let desk = Desk::with(&three()).await;
    let listed = async |arguments: &[&str]| desk.run(&[&[".", "--list"], arguments].concat()).await.1;
    assert_eq!(
        listed(&[]).await,
        "test   ./a.yaml  Test a (a)\ntest   ./b.yaml  Test b (b)\ntest   ./c.yaml  Test c (c)  #slow\n"
    );
    assert_eq!(listed(&["--grep", "Test [bc]"]).await.lines().count(), 2);
    assert_eq!(listed(&["--id", "c"]).await, "test   ./c.yaml  Test c (c)  #slow\n");
    assert_eq!(listed(&["--shard", "2/2"]).await, "test   ./b.yaml  Test b (b)\n");
    assert_eq!(listed(&["--tag", "slow"]).await, "test   ./c.yaml  Test c (c)  #slow\n");
    let (code, _, err) = desk.run(&[".", "--tag", "fast"]).await;
    assert!(code == Some(1) && err.contains("none of 3 tests and suites has the tag `fast`"), "{err}");
    let (_, out, _) = desk.run(&["[ab].yaml", "--list"]).await;
    assert_eq!(out, "test   a.yaml  Test a (a)\ntest   b.yaml  Test b (b)\n");
    let (code, _, err) = desk.run(&["x/**/*.yaml"]).await;
    assert!(code == Some(3) && err.contains("matches x/**/*.yaml"), "{err}");
    let (code, _, err) = desk.run(&[".", "--grep", "nothing"]).await;
    assert!(code == Some(1) && err.contains("none of 3 tests and suites is called `nothing`"), "{err}");

    let (code, out, _) = desk.run(&["."]).await;
    assert_eq!(code, Some(2), "{out}");
    let (code, out, _) = desk.run(&[".", "--last-failed"]).await;
    assert_eq!(code, Some(2), "{out}");
    holds(&out, &["1 test: 0 passed, 1 failed"]);
}

#[tokio::test]
async fn what_changed_since_a_commit_is_selected_with_the_files_that_it_names() {
    let mut files = three();
    files[2].1 =
        files[2].1.replace("      method: GET\n", "      method: POST\n      bodyFile: ./body.txt\n");
    let desk = Desk::with(&files).await;
    std::fs::write(desk.path().join("body.txt"), "one").unwrap();
    desk.commit().await;
    let (code, _, err) = desk.run(&[".", "--only-changed"]).await;
    assert_eq!((code, err.as_str()), (Some(0), "nothing is selected, so nothing is run\n"));
    std::fs::write(desk.path().join("body.txt"), "two").unwrap();
    std::fs::write(desk.path().join("d.yaml"), test("d", "/d", "")).unwrap();
    let (_, out, _) = desk.run(&[".", "--only-changed", "--list"]).await;
    assert_eq!(out, "test   ./c.yaml  Test c (c)  #slow\ntest   ./d.yaml  Test d (d)\n");
}

#[tokio::test]
async fn changes_are_found_from_any_folder_and_in_all_files_of_a_suite() {
    let suite =
        "type: TestSuite\nspec:\n  id: s\n  name: S\n  steps: [./steps/a.yaml]\n  data: {csv: ./rows.csv}\n";
    let desk = Desk::with(&[
        ("tests/suite.yaml", suite.to_owned()),
        ("tests/steps/a.yaml", test("a", "/a", "")),
        ("tests/rows.csv", "N\n1\n".to_owned()),
        ("tests/b.yaml", test("b", "/b", "")),
        ("other/notes.txt", String::new()),
    ])
    .await;
    desk.commit().await;
    let changed = async |file: &str, text: &str, folder: &str, tests: &str| {
        let path = desk.path().join(file);
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        std::fs::write(&path, text).unwrap();
        let (code, out, err) = desk.call(folder, &["run", tests, "--only-changed", "--list"], &[]).await;
        assert_eq!(code, Some(0), "{err}");
        std::fs::write(&path, before).unwrap();
        out
    };
    let b = test("b", "/other", "");
    assert_eq!(changed("tests/b.yaml", &b, "", "tests").await, "test   tests/b.yaml  Test b (b)\n");
    let told = "test   ../tests/b.yaml  Test b (b)\n";
    assert_eq!(changed("tests/b.yaml", &b, "other", "../tests").await, told);
    let told = "suite  ../tests/suite.yaml  S (s)\n";
    assert_eq!(changed("tests/rows.csv", "N\n2\n", "other", "../tests").await, told);
    let step = test("a", "/other", "");
    assert_eq!(changed("tests/steps/a.yaml", &step, "other", "../tests/suite.yaml").await, told);
    // A file that is new to the repository, seen from beside it.
    std::fs::write(desk.path().join("tests/c.yaml"), test("c", "/c", "")).unwrap();
    let (_, out, _) = desk.call("other", &["run", "../tests", "--only-changed", "--list"], &[]).await;
    assert_eq!(out, "test   ../tests/c.yaml  Test c (c)\n");
}

#[tokio::test]
async fn nothing_new_begins_after_a_failure_if_so_wanted() {
    let files =
        [("a.yaml", test("a", "/bad", "")), ("b.yaml", test("b", "/b", "")), ("c.yaml", test("c", "/c", ""))];
    let desk = Desk::with(&files).await;
    let (code, out, _) = desk.run(&[".", "--parallel", "1", "--fail-fast", "--report", "json=r.json"]).await;
    assert_eq!(code, Some(2), "{out}");
    let report: Value = serde_json::from_str(&desk.read("r.json")).unwrap();
    assert_eq!(report["tests"][0]["outcome"], "failed", "{report}");
    assert_eq!(report["tests"][2]["outcome"], "skipped", "{report}");
}

#[tokio::test]
async fn variables_come_from_files_and_secrets_are_shown_nowhere() {
    let leaking = test("t", "/${var:KEY}", "")
        .replace("attr:tracetest.response.status = 200", "attr:tracetest.response.body = \"${var:PLAIN}\"");
    let desk =
        Desk::with(&[("t.yaml", leaking), ("vars.env", "# for tests\nPLAIN='x y'\n".to_owned())]).await;
    let all = "json=r.json,junit=r.xml,html=r.html,markdown=r.md,tap=r.tap,github";
    let arguments =
        ["t.yaml", "--env-file", "vars.env", "--secret", "KEY=hidden-value-1234", "--report", all, "-v"];
    let (code, out, err) = desk.run(&arguments).await;
    assert_eq!(code, Some(2), "{out}{err}");
    holds(&out, &["expected x y"]);
    let reports = ["r.json", "r.xml", "r.html", "r.md", "r.tap"].map(|name| desk.read(name)).concat();
    for text in [out, err, reports] {
        assert!(!text.contains("hidden-value"), "{text}");
    }
    let (code, _, err) = desk.run(&["t.yaml", "--env-file", "t.yaml"]).await;
    assert!(code == Some(1) && err.contains("t.yaml:1: write NAME=VALUE"), "{err}");
}

#[tokio::test]
async fn reports_are_written_at_once_and_programs_can_read_them() {
    let desk = Desk::with(&three()).await;
    let all = "json=r.json,junit=r.xml,html=r.html,markdown=r.md,github";
    let (code, out, err) = desk.run(&[".", "--report", all]).await;
    assert_eq!(code, Some(2), "{out}{err}");
    let report: Value = serde_json::from_str(&desk.read("r.json")).unwrap();
    assert_eq!(report["summary"], serde_json::json!({"tests": 3, "passed": 2, "failed": 1}));
    assert_eq!((&report["tests"][1]["file"], &report["tests"][1]["line"]), (&"b.yaml".into(), &1.into()));
    assert_eq!(report["tests"][1]["verdict"]["specs"][0]["name"], "Answer");
    holds(&desk.read("r.xml"), &["<testsuite name=\"Test b\"", "failures=\"1\""]);
    holds(
        &out,
        &["::error file=b.yaml,line=15,title=Test b failed::Answer › attr:tracetest.response.status = 200: "],
    );
    holds(&desk.read("r.md"), &["### ❌ 2 of 3 tests passed", "| ❌ | Test b | failed |"]);
    let page = desk.read("r.html");
    holds(
        &page,
        &[
            "<details open><summary><b class=\"failed\">failed</b> <span>Test b</span>",
            "got 500, expected 200",
        ],
    );
    // It needs no other file, and leads nowhere.
    for reference in ["src=", "href=", "url(", "@import", "<script", "<link"] {
        assert!(!page.contains(reference), "{reference}: {page}");
    }

    // A report without a file has standard output for itself.
    let (_, out, err) = desk.run(&["b.yaml", "c.yaml", "--report", "tap"]).await;
    assert!(out.starts_with("TAP version 14\n1..2\nnot ok 1 - Test b\n  ---\n  outcome: failed\n"), "{out}");
    assert!(out.ends_with("  ...\nok 2 - Test c\n"), "{out}");
    holds(&err, &["2 tests: 1 passed, 1 failed"]);
}

#[tokio::test]
async fn runs_say_where_they_come_from() {
    let desk = Desk::with(&[("t.yaml", test("t", "/a", ""))]).await;
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    let mut command = Command::new(program());
    command.args(["run", "t.yaml", "-s", &server.url(""), "--var", &format!("URL={}", desk.url)]);
    let job = [("GITHUB_ACTIONS", "true"), ("GITHUB_HEAD_REF", "fix"), ("GITHUB_SHA", "abc123")];
    let output = command.current_dir(desk.path()).envs(job).output().await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let found = async |query: &str| -> Value {
        crate::client()
            .get(server.url(&format!("/api/runs?{query}")))
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap()
    };
    let run = found("source=cli&branch=fix").await;
    assert_eq!(run["items"][0]["metadata"]["commit"], "abc123", "{run}");
    assert_eq!(found("source=cli&branch=other").await["items"], serde_json::json!([]));
}

#[tokio::test]
async fn the_system_under_test_is_started_awaited_and_ended_with_its_children() {
    let desk = Desk::with(&[("t.yaml", test("t", "/a", ""))]).await;
    let port = port();
    let pid = desk.path().join("pid");
    // The shell's child serves; the shell itself waits for it.
    let serve = format!(
        "env > variables; sh -c 'echo $$ > {}; exec {} serve --server.httpPort {port} --otlp-grpc-addr off --otlp-http-addr off --database-url sqlite::memory:' & wait",
        pid.display(),
        program().display()
    );
    let ready = format!("http://127.0.0.1:{port}/");
    let run = async |with: &str, more: &[&str]| {
        let output = Command::new(program())
            .args(["run", "t.yaml", "--var", &format!("URL={}", desk.url), "--with", with])
            .args(more)
            .current_dir(desk.path())
            .env("HOME", desk.path().join("home"))
            .output()
            .await
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        (output.status.code(), text.into_owned())
    };
    let (code, text) = run(&serve, &["--ready", &ready]).await;
    assert_eq!(code, Some(0), "{text}");
    holds(
        &desk.read("variables"),
        &["OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:", "OTEL_BSP_SCHEDULE_DELAY=100"],
    );
    let stat = std::fs::read_to_string(Path::new("/proc").join(desk.read("pid").trim()).join("stat"));
    // One that no parent has waited for is gone, too.
    assert!(stat.as_ref().map_or(true, |stat| stat.contains(") Z ")), "the child is gone: {stat:?}");

    let (code, text) = run("echo all is lost; exit 3", &["--ready", &ready]).await;
    assert_eq!(code, Some(1), "{text}");
    holds(&text, &["ended before the tests: exit status: 3", "  | all is lost"]);
}

#[tokio::test]
async fn a_first_test_is_made_of_a_request() {
    let desk = Desk::with(&[]).await;
    let new = async |arguments: &[&str]| {
        let output =
            Command::new(program()).arg("new").args(arguments).current_dir(desk.path()).output().await;
        let output = output.unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, out, err) = new(&["http://localhost:8080/orders?a=1&b=it's"]).await;
    assert_eq!(code, Some(0), "{err}");
    holds(&out, &["type: Test", "http://localhost:8080/orders?a=1&b=it's"]);
    let command = "curl -X POST http://localhost:8080/orders -d '{}'";
    let (code, out, err) = new(&[command, "--out", "tests"]).await;
    assert_eq!(code, Some(0), "{err}");
    let (checked, _, said) = desk.run(&[out.trim(), "--list"]).await;
    assert_eq!(checked, Some(0), "{said}");
    let (code, _, err) = new(&["--out", "tests", command]).await;
    assert!(code == Some(1) && err.contains("is already there"), "{err}");
}
