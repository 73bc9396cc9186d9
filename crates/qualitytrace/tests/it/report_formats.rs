//! Reports for programs, read by parsers of their formats that are not ours, and merged.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use qualitytrace_testing::{DEADLINE, within};
use roxmltree::{Document, Node};
use serde_json::Value;
use tokio::process::Command;

use crate::selecting::Desk;
use crate::suites::{holds, test};

/// A folder with tests of every outcome that needs no trace, and names that formats must escape.
async fn desk() -> Desk {
    let hostile = "\"Bad # \\\\ ' < & > \\u0007 \\u202e ]]> 注文 \\\"x\\\"\"";
    let suite = "type: TestSuite
spec:
  id: s
  name: Suite
  steps: [./steps/broken.yaml, ./steps/never.yaml]
";
    let refused = test("broken", "/", "").replace("${var:URL}", "http://127.0.0.1:9");
    Desk::with(&[
        ("a.yaml", test("a", "/a", "")),
        ("b.yaml", test("b", "/bad?token=query-secret", "").replace("Test b", hostile)),
        ("c.yaml", test("c", "/third", "  retries: 2\n")),
        ("suite.yaml", suite.to_owned()),
        ("steps/broken.yaml", refused),
        ("steps/never.yaml", test("never", "/n", "")),
    ])
    .await
}

const ALL: &str = "json=r.json,junit=r.xml,tap=r.tap,html=r.html,markdown=r.md";

#[tokio::test]
async fn each_format_is_what_its_own_readers_expect() {
    let desk = desk().await;
    let (code, out, err) = desk.run(&["a.yaml", "b.yaml", "c.yaml", "suite.yaml", "--report", ALL]).await;
    assert_eq!(code, Some(2), "{out}{err}");
    let report = valid_json(&desk.read("r.json"));
    let outcomes: Vec<&str> =
        report["tests"].as_array().unwrap().iter().map(|test| test["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["broken", "skipped", "passed", "failed", "recovered"]);
    assert_eq!(report["tests"][3]["response"]["line"], "500 Internal Server Error");
    let request = report["tests"][3]["request"]["line"].as_str().unwrap();
    assert!(request.starts_with("GET http://") && request.ends_with("/bad?token=***"), "{request}");

    let cases = valid_junit(&desk.read("r.xml"));
    assert_eq!(cases, BTreeMap::from([("error", 1), ("failure", 1), ("passed", 2), ("skipped", 1)]));
    let points = valid_tap(&desk.read("r.tap"));
    let (oks, directives): (Vec<bool>, Vec<bool>) =
        points.iter().map(|point| (point.is_ok, point.is_skipped)).unzip();
    assert_eq!(oks, [false, true, true, false, true]);
    assert_eq!(directives, [false, true, false, false, false]);
    assert_eq!(points[3].yaml["outcome"], "failed");
    holds(&points[3].description, &["Bad # \\ ' < & > ", "注文 \"x\""]);
}

#[tokio::test]
async fn no_two_cases_collide_and_each_problem_has_its_line() {
    let twice = |id: &str| {
        let wrong =
            "    - attr:tracetest.response.status = 201\n    - attr:tracetest.response.status = 202\n";
        test(id, "/a", wrong).replace(&format!("Test {id}"), "Orders")
    };
    let suite = "type: TestSuite\nspec:\n  id: s\n  name: Suite\n  steps: [../c.yaml]\n";
    let files = [("a.yaml", twice("a")), ("b.yaml", twice("b")), ("c.yaml", twice("c"))];
    let desk = Desk::with(&[&files[..], &[("s/suite.yaml", suite.to_owned())]].concat()).await;
    let reports = "junit=r.xml,tap=r.tap,github=r.txt,json=r.json";
    let (code, out, err) = desk.run(&["a.yaml", "b.yaml", "s", "--report", reports]).await;
    assert_eq!(code, Some(2), "{out}{err}");
    let junit = desk.read("r.xml");
    valid_junit(&junit);
    let document = Document::parse(&junit).unwrap();
    let cases = document.descendants().filter(|node| node.has_tag_name("testcase"));
    let mut places: Vec<[&str; 4]> = cases
        .map(|case| ["classname", "name", "file", "line"].map(|name| case.attribute(name).unwrap()))
        .collect();
    assert_eq!(places.len(), 9, "{junit}");
    assert!(places.contains(&[
        "a.yaml › Orders",
        "Answer › attr:tracetest.response.status = 202",
        "a.yaml",
        "17"
    ]));
    assert!(
        places.iter().any(|place| place[0] == "c.yaml › Suite › Orders" && place[2] == "c.yaml"),
        "{places:?}"
    );
    places.sort_unstable();
    places.dedup_by_key(|place| [place[0], place[1]]);
    assert_eq!(places.len(), 9, "{junit}");
    holds(&desk.read("r.txt"), &["file=a.yaml,line=16,", "file=a.yaml,line=17,", "file=c.yaml,line=17,"]);
    holds(&desk.read("r.tap"), &["at: \"a.yaml:16\""]);
    let (_, out, err) = desk.call("", &["report", "merge", "r.json", "--report", "github=m.txt"], &[]).await;
    assert!(desk.read("m.txt").contains("file=b.yaml,line=17,"), "{out}{err}");
}

#[tokio::test]
async fn one_report_has_standard_output() {
    let desk = desk().await;
    let (code, out, err) = desk.run(&["a.yaml", "--report", "json,tap"]).await;
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    holds(&err, &["json and tap cannot both go to standard output", "--report json,tap=FILE"]);
}

#[tokio::test]
async fn the_page_is_complete_without_a_network() {
    let Some(chromium) = std::env::var_os("QUALITYTRACE_TEST_CHROMIUM") else {
        assert!(
            std::env::var("QUALITYTRACE_REQUIRE_PEERS").is_err(),
            "QUALITYTRACE_TEST_CHROMIUM is not set"
        );
        println!("skipped: QUALITYTRACE_TEST_CHROMIUM is not set");
        return;
    };
    let desk = desk().await;
    desk.run(&["a.yaml", "b.yaml", "--report", "html=r.html"]).await;
    let profile = tempfile::tempdir().unwrap();
    let open = Command::new(chromium)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-extensions"])
        .arg("--host-resolver-rules=MAP * ~NOTFOUND")
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(["--enable-logging=stderr", "--dump-dom"])
        .arg(format!("file://{}", desk.path().join("r.html").display()))
        .env("HOME", profile.path())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = within(DEADLINE, "Chromium shows the page", open).await.unwrap();
    let (dom, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    holds(&dom, &["<h1>1 of 2 tests passed</h1>", "<b class=\"failed\">failed</b>", "got 500, expected 200"]);
    // The browser reads the hostile name as a text: the element holds nothing else.
    holds(&dom, &["&lt; &amp; &gt; \\u{7} \\u{202e} ]]&gt; 注文"]);
    assert!(!said.contains("Refused to") && !said.contains("net::ERR"), "{said}");
}

#[tokio::test]
async fn the_reports_of_shards_make_one() {
    let desk = desk().await;
    let files = ["a.yaml", "b.yaml", "c.yaml", "suite.yaml"];
    for (shard, report) in [("1/2", "json=1.json"), ("2/2", "json=2.json")] {
        desk.run(&[&files[..], &["--shard", shard, "--report", report]].concat()).await;
    }
    let merge = ["report", "merge", "1.json", "2.json", "--report", ALL];
    let (code, out, err) = desk.call("", &merge, &[]).await;
    assert_eq!(code, Some(2), "{out}{err}");
    holds(&out, &["5 tests: "]);
    let merged = valid_json(&desk.read("r.json"));
    let shards = ["1.json", "2.json"].map(|name| valid_json(&desk.read(name)));
    let tests: Vec<&Value> = shards.iter().flat_map(|shard| shard["tests"].as_array().unwrap()).collect();
    assert_eq!(merged["tests"].as_array().unwrap().iter().collect::<Vec<_>>(), tests, "nothing is lost");
    assert_eq!(valid_junit(&desk.read("r.xml"))["failure"], 1);
    assert_eq!(valid_tap(&desk.read("r.tap")).len(), 5);
    holds(&desk.read("r.html"), &["of 5 tests passed", "Response: 500 Internal Server Error"]);

    for (text, expected) in [
        ("{", "1.json cannot be merged: this is not JSON"),
        ("{}", "it is no report of `qualitytrace run --report json`"),
        (r#"{"version": 2}"#, "it has version 2 of the format, and this program reads 1"),
        (r#"{"version": 1, "tests": [{"outcome": "odd"}]}"#, "has the unknown outcome `odd`"),
    ] {
        std::fs::write(desk.path().join("1.json"), text).unwrap();
        let (code, _, err) = desk.call("", &["report", "merge", "1.json"], &[]).await;
        assert_eq!(code, Some(1), "{err}");
        holds(&err, &[expected]);
    }
}

#[tokio::test]
async fn a_run_of_nothing_writes_empty_reports() {
    let desk = desk().await;
    std::fs::write(desk.path().join("r.xml"), "of an earlier job").unwrap();
    let tests = ["a.yaml", "b.yaml", "--shard", "3/3"];
    let (code, out, err) =
        desk.run(&[&tests[..], &["--report", "json=r.json,tap=r.tap", "--junit", "r.xml"]].concat()).await;
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "", "nothing is selected, so nothing is run\n"));
    assert_eq!(valid_json(&desk.read("r.json"))["summary"]["tests"], 0);
    assert_eq!(valid_junit(&desk.read("r.xml")), BTreeMap::new());
    assert_eq!(valid_tap(&desk.read("r.tap")).len(), 0);
    let (_, out, _) = desk.run(&[&tests[..], &["--report", "json"]].concat()).await;
    assert_eq!(valid_json(&out)["tests"], serde_json::json!([]));

    desk.run(&["a.yaml", "b.yaml", "--shard", "1/3", "--report", "json=1.json"]).await;
    let (code, out, err) = desk.call("", &["report", "merge", "1.json", "r.json"], &[]).await;
    assert_eq!(code, Some(0), "{out}{err}");
    holds(&out, &["1 test: 1 passed"]);
}

#[tokio::test]
async fn warnings_about_files_stay_out_of_a_report_on_standard_output() {
    let desk = desk().await;
    let empty = "type: TestSuite\nspec: {id: e, name: E}\n";
    std::fs::write(desk.path().join("empty.yaml"), empty).unwrap();
    let warning = "this suite has no steps";
    for format in ["json", "tap"] {
        let (code, out, err) = desk.run(&["a.yaml", "empty.yaml", "--report", format]).await;
        assert_eq!(code, Some(0), "{out}{err}");
        holds(&err, &[warning]);
        match format {
            "json" => assert_eq!(valid_json(&out)["summary"]["passed"], 1),
            _ => assert_eq!(valid_tap(&out).len(), 1),
        }
    }
    let (_, out, _) = desk.run(&["a.yaml", "empty.yaml"]).await;
    holds(&out, &[warning]);
}

/// Reads a JSON report, after checking it against its schema.
pub(crate) fn valid_json(text: &str) -> Value {
    let schema =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/report.schema.json"));
    let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
    let place = "http://localhost/report.schema.json";
    compiler.add_resource(place, serde_json::from_str(&schema.unwrap()).unwrap()).unwrap();
    let schema = compiler.compile(place, &mut schemas).unwrap();
    let report = serde_json::from_str(text).unwrap();
    if let Err(error) = schemas.validate(&report, schema) {
        panic!("{error:#}");
    }
    report
}

/// Reads a JUnit report as the schema of Jenkins and Surefire says; returns the number of cases of each kind.
pub(crate) fn valid_junit(text: &str) -> BTreeMap<&'static str, usize> {
    let document = Document::parse(text).unwrap();
    let root = document.root_element();
    assert_eq!(root.tag_name().name(), "testsuites");
    let mut all = BTreeMap::new();
    for suite in elements(root) {
        assert_eq!(suite.tag_name().name(), "testsuite");
        let mut own: BTreeMap<&str, usize> = BTreeMap::new();
        for case in
            elements(suite).filter(|child| !["system-out", "properties"].contains(&child.tag_name().name()))
        {
            assert_eq!(case.tag_name().name(), "testcase");
            assert!(case.attribute("name").is_some() && case.attribute("classname").is_some(), "{case:?}");
            seconds(case);
            *own.entry(kind(case)).or_default() += 1;
        }
        seconds(suite);
        let count = |name: &str| own.get(name).copied().unwrap_or(0).to_string();
        assert_eq!(suite.attribute("tests").unwrap(), own.values().sum::<usize>().to_string());
        assert_eq!(suite.attribute("failures").unwrap(), count("failure"));
        assert_eq!(suite.attribute("errors").unwrap(), count("error"));
        for (kind, number) in own {
            *all.entry(kind).or_default() += number;
        }
    }
    let counts = |name: &str| all.get(name).copied().unwrap_or(0).to_string();
    assert_eq!(root.attribute("tests").unwrap(), all.values().sum::<usize>().to_string());
    assert_eq!(root.attribute("failures").unwrap(), counts("failure"));
    assert_eq!(root.attribute("errors").unwrap(), counts("error"));
    all
}

fn elements<'a, 'd>(node: Node<'a, 'd>) -> impl Iterator<Item = Node<'a, 'd>> {
    node.children().filter(Node::is_element)
}

fn seconds(node: Node<'_, '_>) {
    let time: f64 = node.attribute("time").unwrap().parse().unwrap();
    assert!(time >= 0.0, "{node:?}");
}

/// The kind of a case: the one element that says why it did not pass. Those of earlier runs do not count.
fn kind(case: Node<'_, '_>) -> &'static str {
    let mut found = Vec::new();
    for child in elements(case) {
        match child.tag_name().name() {
            "failure" => found.push("failure"),
            "error" => found.push("error"),
            "skipped" => found.push("skipped"),
            "flakyFailure" | "flakyError" | "rerunFailure" | "rerunError" | "system-out" | "system-err" => {}
            other => panic!("`{other}` is not in the schema"),
        }
    }
    assert!(found.len() <= 1, "{found:?}");
    found.pop().unwrap_or("passed")
}

/// A test point of TAP 14.
pub(crate) struct Point {
    is_ok: bool,
    is_skipped: bool,
    pub(crate) description: String,
    pub(crate) yaml: Value,
}

/// Reads TAP 14 by its specification: a version, a plan, and as many numbered points, each with one YAML block at most.
pub(crate) fn valid_tap(text: &str) -> Vec<Point> {
    let mut lines = text.lines().peekable();
    assert_eq!(lines.next(), Some("TAP version 14"));
    let planned: usize = lines.next().unwrap().strip_prefix("1..").unwrap().parse().unwrap();
    let mut points = Vec::new();
    while let Some(line) = lines.next() {
        let (is_ok, rest) = match line.strip_prefix("not ok ") {
            Some(rest) => (false, rest),
            None => (true, line.strip_prefix("ok ").unwrap()),
        };
        let (number, rest) = rest.split_once(" - ").unwrap();
        assert_eq!(number.parse::<usize>().unwrap(), points.len() + 1);
        let (description, directive) = directive(rest);
        let is_skipped = match directive.as_deref() {
            Some(directive) => {
                assert!(directive.trim().to_uppercase().starts_with("SKIP"), "{directive}");
                true
            }
            None => false,
        };
        let mut block = Vec::new();
        if lines.next_if_eq(&"  ---").is_some() {
            loop {
                match lines.next().unwrap() {
                    "  ..." => break,
                    line => block.push(line.strip_prefix("  ").unwrap()),
                }
            }
        }
        let yaml = serde_saphyr::from_str(&block.join("\n")).unwrap_or(Value::Null);
        assert!(block.is_empty() || yaml.is_object(), "{block:?}");
        points.push(Point { is_ok, is_skipped, description, yaml });
    }
    assert_eq!(points.len(), planned);
    points
}

/// Splits a description from its directive, which begins with a `#` that is not escaped, and removes the escapes.
fn directive(text: &str) -> (String, Option<String>) {
    let (mut description, mut letters) = (String::new(), text.chars());
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => description.extend(letters.next()),
            '#' => return (description.trim_end().to_owned(), Some(letters.collect())),
            letter => description.push(letter),
        }
    }
    (description, None)
}
