//! `run` in the form of Tracetest, on a server: the flags of this program that it obeys, and those that it refuses.

use crate::late_spans_load::program::Served;
use crate::program;
use crate::selecting::{Desk, Ended};
use crate::suites::{holds, test};

/// A server, and a folder with tests that it runs.
struct Original {
    desk: Desk,
    server: Served,
}

impl Original {
    async fn start() -> Self {
        let empty = "type: TestSuite\nspec: {id: e, name: E}\n";
        let desk = Desk::with(&[
            ("a.yaml", test("a", "/a", "")),
            ("bad.yaml", test("bad", "/bad", "")),
            ("third.yaml", test("third", "/third", "  retries: 2\n")),
            ("empty.yaml", empty.to_owned()),
        ])
        .await;
        Self { desk, server: Served::start(program(), "sqlite::memory:", &[]).await }
    }

    async fn run(&self, arguments: &[&str]) -> Ended {
        let (url, server) = (format!("URL={}", self.desk.url), self.server.url(""));
        let own = ["--var", &url, "--server", &server];
        self.desk.call("", &[&["run"], arguments, &own].concat(), &[]).await
    }
}

#[tokio::test]
async fn nothing_new_begins_after_a_failure_if_so_wanted() {
    let original = Original::start().await;
    let files = ["-f", "bad.yaml", "-f", "a.yaml"];
    let (code, out, err) = original.run(&files).await;
    assert_eq!(code, Some(2), "{out}{err}");
    holds(&out, &["✘ Test bad", "✔ Test a"]);
    let (code, out, err) = original.run(&[&files[..], &["--fail-fast"]].concat()).await;
    assert_eq!(code, Some(2), "{out}{err}");
    assert!(out.contains("✘ Test bad") && !out.contains("Test a"), "{out}");
}

#[tokio::test]
async fn a_test_that_passes_after_a_retry_is_refused_if_so_wanted() {
    let original = Original::start().await;
    let (code, out, err) = original.run(&["-f", "third.yaml"]).await;
    assert_eq!(code, Some(0), "{out}{err}");
    let (code, out, err) = original.run(&["test", "--id", "third", "--fail-on-flaky"]).await;
    assert_eq!(code, Some(2), "{out}{err}");
    holds(&out, &["✘ Test third"]);
}

#[tokio::test]
async fn a_report_that_would_not_be_written_is_refused_and_one_of_the_project_is_told() {
    let original = Original::start().await;
    let (code, out, err) = original.run(&["-f", "a.yaml", "--report", "json=r.json"]).await;
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    holds(&err, &["--report goes with `qualitytrace run FILE`"]);
    let project = "run: { reports: { json: r.json } }\n";
    std::fs::write(original.desk.path().join("qualitytrace.yaml"), project).unwrap();
    let (code, out, err) = original.run(&["-f", "a.yaml"]).await;
    assert_eq!(code, Some(0), "{out}{err}");
    holds(&err, &["the `reports` of the project file are not written"]);
    let (code, out, err) = original.run(&["a.yaml"]).await;
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(original.desk.read("r.json").starts_with('{'), "{err}");
}

#[tokio::test]
async fn warnings_about_files_stay_out_of_a_result_for_programs() {
    let original = Original::start().await;
    let (_, out, err) = original.run(&["-f", "empty.yaml", "-f", "a.yaml", "-o", "json"]).await;
    let results = serde_json::Deserializer::from_str(&out).into_iter::<serde_json::Value>();
    let results: Result<Vec<_>, _> = results.collect();
    assert_eq!(results.unwrap_or_else(|error| panic!("{error}: {out}")).len(), 2, "{err}");
    holds(&err, &["this suite has no steps"]);
}
