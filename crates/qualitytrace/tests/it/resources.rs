//! `apply`, `get`, `list`, `delete` and `export` against a real server.

use std::path::Path;

use tokio::process::Command;

use crate::late_spans_load::program::Served;
use crate::program;

const TEST: &str = "\
# Orders must be stored.
type: Test
spec:
  name: Orders # for people
  trigger:
    type: http
    httpRequest:
      method: GET
      url: http://127.0.0.1:9/x
";

/// The result of a command.
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

/// A working folder and a server.
struct Desk {
    folder: tempfile::TempDir,
    server: Served,
}

impl Desk {
    async fn new() -> Self {
        let desk = Self {
            folder: tempfile::tempdir().unwrap(),
            server: Served::start(program(), "sqlite::memory:", &[]).await,
        };
        desk.write("config.yml", &format!("scheme: http\nendpoint: {}\n", desk.server.http));
        desk
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap()
    }

    /// Runs a command line, split at blanks.
    async fn run(&self, line: &str) -> Ended {
        let output = Command::new(env!("CARGO_BIN_EXE_qualitytrace"))
            .args(line.split_whitespace())
            .current_dir(self.path())
            .env("HOME", self.path().join("home"))
            .output()
            .await
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ended { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// Runs it and checks the exit code and standard output.
    async fn expect(&self, line: &str, code: i32, out: &str) {
        let ended = self.run(line).await;
        assert_eq!((ended.code, ended.out.as_str()), (Some(code), out), "{line}: {}", ended.err);
    }

    /// Runs it and checks that it fails with this text on standard error.
    async fn refuse(&self, line: &str, err: &str) {
        let ended = self.run(line).await;
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{line}");
        assert!(ended.err.contains(err), "{line}: {}", ended.err);
    }
}

#[tokio::test]
async fn a_file_keeps_its_comments_and_gets_the_id_that_was_made_up() {
    let desk = Desk::new().await;
    desk.write("test.yaml", TEST);
    let applied = desk.run("apply test -f test.yaml").await;
    assert_eq!(applied.code, Some(0), "{}", applied.err);
    let written = desk.read("test.yaml");
    let id = written.lines().find_map(|line| line.trim().strip_prefix("id: ")).unwrap().to_owned();
    assert_eq!(written, TEST.replace("spec:\n", &format!("spec:\n  id: {id}\n")));
    assert_eq!(
        applied.out,
        format!(
            "type: Test\nspec:\n  id: {id}\n  name: Orders\n  trigger:\n    type: http\n    httpRequest:\n      \
             method: GET\n      url: http://127.0.0.1:9/x\n\n"
        )
    );

    let again = desk.run("apply test -f test.yaml -o json").await;
    assert!(again.out.contains(&format!("\"id\": \"{id}\"")), "{}", again.out);
    assert_eq!(desk.read("test.yaml"), written);
    desk.expect(
        &format!("export test --id {id} -f out.yaml"),
        0,
        "✔  Definition exported successfully for resource type: test\n",
    )
    .await;
    assert_eq!(desk.read("out.yaml"), written);
}

#[tokio::test]
async fn a_definition_without_an_id_is_exported_with_one() {
    let desk = Desk::new().await;
    // Fails when another test was first, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url = desk.server.url("/api/tests");
    let stored = crate::client().put(url).header("content-type", "text/yaml").body(TEST).send().await;
    let stored: serde_json::Value = serde_saphyr::from_str(&stored.unwrap().text().await.unwrap()).unwrap();
    let id = stored["spec"]["id"].as_str().unwrap();
    assert_eq!(desk.run(&format!("export tests --id {id}")).await.code, Some(0));
    let exported = desk.read("resource.yaml");
    assert!(exported.starts_with("# Orders must be stored.\n"), "{exported}");
    assert!(
        exported.contains(&format!("id: {id}")) || exported.contains(&format!("id: \"{id}\"")),
        "{exported}"
    );
}

#[tokio::test]
async fn lists_are_tables_or_json_or_documents() {
    let desk = Desk::new().await;
    for (name, title) in [("b", "Beta"), ("a", "Alpha"), ("c", "Gamma")] {
        desk.write("set.yaml", &format!("type: VariableSet\nspec:\n  id: {name}\n  name: {title}\n"));
        assert_eq!(desk.run("apply variableset -f set.yaml").await.code, Some(0));
    }
    let table = " ID   NAME    DESCRIPTION \n---- ------- -------------\n a    Alpha               \n";
    desk.expect("list variableset --sortBy name --sortDirection asc --take 1", 0, table).await;
    let rest = " b    Beta                \n c    Gamma               \n";
    let all = "list environments --sortBy name --sortDirection asc --take 1 --all";
    desk.expect(all, 0, &format!("{table}{rest}")).await;
    let listed = desk.run("list variableset -o json --take 2").await;
    let listed: serde_json::Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!((&listed["count"], listed["items"].as_array().unwrap().len()), (&3.into(), 2));
    let documents = desk.run("list variableset -o yaml --all --take 1").await.out;
    assert_eq!(documents.matches("---\ntype: VariableSet\n").count(), 3);
    desk.expect("list variableset --query alp", 0, table).await;
    let told = desk.run("list variableset --tag smoke").await;
    assert_eq!(told.code, Some(1), "{}", told.err);
    assert!(told.err.contains("VariableSet has no tag to filter by"), "{}", told.err);
    desk.expect("list testrunner", 0, " ID        NAME      REQUIRED GATES \n--------- --------- ----------------\n current   default   - test-specs   \n").await;
}

#[tokio::test]
async fn the_steps_of_a_suite_are_applied_first() {
    let desk = Desk::new().await;
    desk.write("step.yaml", TEST);
    desk.write(
        "suite.yaml",
        "type: TestSuite\nspec:\n  id: s\n  name: Suite\n  steps:\n  - ./step.yaml # the first\n",
    );
    let applied = desk.run("apply transaction -f suite.yaml -o json").await;
    assert_eq!(applied.code, Some(0), "{}", applied.err);
    let step =
        desk.read("step.yaml").lines().find_map(|line| Some(line.trim().strip_prefix("id: ")?.to_owned()));
    let applied: serde_json::Value = serde_json::from_str(&applied.out).unwrap();
    assert_eq!(applied["spec"]["steps"], serde_json::json!([step.unwrap().trim_matches('"')]));
    assert!(desk.read("suite.yaml").ends_with("- ./step.yaml # the first\n"));
}

#[tokio::test]
async fn files_that_a_trigger_names_are_sent_with_it() {
    let desk = Desk::new().await;
    desk.write("body.json", "{\"a\": \"b\"}\n");
    desk.write("test.yaml", &TEST.replace("method: GET", "method: POST\n      body: ./body.json"));
    let applied = desk.run("apply test -f test.yaml -o json").await;
    let applied: serde_json::Value = serde_json::from_str(&applied.out).unwrap();
    assert_eq!(applied["spec"]["trigger"]["httpRequest"]["body"], "{\"a\": \"b\"}\n");
    desk.write("test.yaml", &TEST.replace("method: GET", "method: POST\n      body: ./missing.json"));
    desk.refuse("apply test -f test.yaml", "`./missing.json` cannot be read").await;
}

#[tokio::test]
async fn what_is_missing_is_said_and_scripts_can_tell() {
    let desk = Desk::new().await;
    desk.expect("get test --id nope", 0, "Resource test with ID nope not found\n").await;
    desk.refuse("delete test --id nope", "Resource test with ID nope not found").await;
    desk.refuse("export test --id nope", "Resource not found").await;
    desk.refuse("delete config --id current", "resource Config does not support the action").await;
    desk.write("demo.yaml", "type: Demo\nspec:\n  id: d\n  name: dev\n  type: pokeshop\n");
    assert_eq!(desk.run("apply demo -f demo.yaml").await.code, Some(0));
    desk.expect("delete demo --id d", 0, "✔ Demo successfully deleted\n").await;
}

#[tokio::test]
async fn mistakes_name_what_to_do() {
    let desk = Desk::new().await;
    desk.refuse("get test", "[id] resource id must be provided").await;
    desk.refuse("apply", "[resource] resource name must be provided").await;
    desk.refuse("list tset", "did you mean `test`?").await;
    desk.refuse("list test --take -1", "[take] take parameter must be").await;
    desk.refuse(
        "list test --sortBy nope",
        "could not list resource: cannot process request: invalid sort field: nope",
    )
    .await;
    desk.refuse("list test -o xml", "Available formats are [pretty|json|yaml]").await;
    desk.refuse("apply test -f none.yaml", "cannot read file none.yaml").await;
    desk.write("demo.yaml", "type: Demo\nspec:\n  name: dev\n");
    desk.refuse("apply test -f demo.yaml", "cannot apply Demo to Test resource").await;
    desk.refuse("list test -s http://127.0.0.1:1", "start it with `qualitytrace serve`").await;
}

#[tokio::test]
async fn the_server_is_found_by_flag_and_by_the_users_own_file() {
    let desk = Desk::new().await;
    std::fs::rename(desk.path().join("config.yml"), desk.path().join("alt.yml")).unwrap();
    let empty = "{\n  \"count\": 0,\n  \"items\": []\n}\n";
    desk.expect("-c alt.yml list test -o json", 0, empty).await;
    desk.expect(&format!("list test -o json -s http://{}/ignored", desk.server.http), 0, empty).await;
    std::fs::create_dir_all(desk.path().join("home/.tracetest")).unwrap();
    std::fs::rename(desk.path().join("alt.yml"), desk.path().join("home/.tracetest/config.yml")).unwrap();
    desk.expect("list test -o json", 0, empty).await;
}

#[tokio::test]
async fn what_the_server_has_to_say_about_a_definition_is_passed_on() {
    let desk = Desk::new().await;
    desk.write(
        "store.yaml",
        "type: DataStore\nspec:\n  name: xray\n  type: awsxray\n  isdefault: true\n  awsxray: {region: eu-central-1}\n",
    );
    let ended = desk.run("apply datastore -c config.yml -f store.yaml").await;
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(ended.err.matches("`isdefault`").count(), 1, "{}", ended.err);
    // There is only one of its kind, so any id returns it, with `export` as with `get`.
    desk.expect(
        "export datastore -c config.yml --id nope -f nope.yaml",
        0,
        "✔  Definition exported successfully for resource type: datastore\n",
    )
    .await;
    assert!(desk.read("nope.yaml").contains("name: xray"), "{}", desk.read("nope.yaml"));
}

const TWO: &str = "\
# Head of all.
---
# About the first.
type: VariableSet
spec:
  name: First
# After the first.
---
# About the second.
type: VariableSet
spec:
  id: ''
  name: Second # named so
# The end.
";

#[tokio::test]
async fn every_document_of_a_file_keeps_what_stands_around_it() {
    let desk = Desk::new().await;
    desk.write("two.yaml", TWO);
    for _ in 0..2 {
        let ended = desk.run("apply variableset -c config.yml -f two.yaml").await;
        assert_eq!(ended.code, Some(0), "{}", ended.err);
    }
    let listed = desk.run("list variableset -c config.yml -o json").await;
    let listed: serde_json::Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!(listed["count"], 2, "the ids are in the file: {}", desk.read("two.yaml"));
    let exported = async |name: &str| {
        let items = listed["items"].as_array().unwrap();
        let id =
            items.iter().find(|item| item["spec"]["name"] == name).unwrap()["spec"]["id"].as_str().unwrap();
        let line = format!("export variableset -c config.yml --id {id} -f out.yaml");
        assert_eq!(desk.run(&line).await.code, Some(0));
        desk.read("out.yaml").replace(&format!("  id: {id}\n"), "")
    };
    let (first, second) = TWO.split_once("---\n# About the second.").unwrap();
    assert_eq!(exported("First").await, first);
    let second = format!("# About the second.{second}").replace("  id: ''\n", "");
    assert_eq!(exported("Second").await, second);
}

#[tokio::test]
async fn a_file_of_several_kinds_changes_nothing() {
    let desk = Desk::new().await;
    desk.write("mixed.yaml", &format!("{TEST}---\ntype: VariableSet\nspec:\n  name: V\n"));
    desk.refuse("apply test -c config.yml -f mixed.yaml", "cannot apply VariableSet to Test resource").await;
    let listed = desk.run("list test -c config.yml -o json").await;
    assert!(listed.out.contains("\"count\": 0"), "{}", listed.out);
}

#[tokio::test]
async fn what_was_written_in_json_is_exported_in_json() {
    let desk = Desk::new().await;
    let text = "{\"type\": \"VariableSet\",\n    \"spec\": {\"id\": \"v\", \"name\": \"V\"}}\n";
    desk.write("set.json", text);
    assert_eq!(desk.run("apply variableset -c config.yml -f set.json").await.code, Some(0));
    assert_eq!(desk.run("export variableset -c config.yml --id v -f out.json").await.code, Some(0));
    assert_eq!(desk.read("out.json"), text);
    assert_eq!(desk.run("export variableset -c config.yml --id v -f out.yaml").await.code, Some(0));
    assert!(desk.read("out.yaml").contains("name: V\n"), "{}", desk.read("out.yaml"));
}

#[tokio::test]
async fn a_complaint_about_a_file_shows_no_secret_of_it() {
    let desk = Desk::new().await;
    desk.write(
        "set.yaml",
        "type: VariableSet\nspec:\n  name: S\n  values: [{key: A, value: hunter2-hidden, type: secret, odd: 1}]\n",
    );
    for line in ["check set.yaml", "apply variableset -c config.yml -f set.yaml"] {
        let ended = desk.run(line).await;
        let told = format!("{}{}", ended.out, ended.err);
        assert!(told.contains("`odd` is not a key") && !told.contains("hunter2"), "{line}: {told}");
    }
}

#[tokio::test]
async fn a_file_of_vars_is_stored_where_a_test_is_run_as_tracetest_does() {
    let desk = Desk::new().await;
    let url = crate::suites::subject().await;
    desk.write("t.yaml", &crate::suites::test("t", "/a", ""));
    desk.write(
        "set.yaml",
        &format!("type: VariableSet\nspec:\n  id: set\n  name: Set\n  values:\n  - {{ key: URL, value: '{url}' }}\n"),
    );
    let ended = desk.run("run test -c config.yml -f t.yaml --vars set.yaml").await;
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    let stored = desk.run("get variableset -c config.yml --id set").await;
    assert!(stored.out.contains(&url), "{}{}", stored.out, stored.err);
    // Without `-f`, nothing but the test is stored.
    let other = desk.read("set.yaml").replace("id: set", "id: other");
    desk.write("other.yaml", &other);
    assert_eq!(desk.run("run -c config.yml t.yaml --vars other.yaml").await.code, Some(0));
    let stored = desk.run("get variableset -c config.yml --id other").await;
    assert!(stored.out.contains("not found"), "{}", stored.out);
}

#[tokio::test]
async fn a_folder_is_applied_by_what_its_files_say_and_a_name_is_enough() {
    let desk = Desk::new().await;
    std::fs::create_dir(desk.path().join("tests")).unwrap();
    let suite = "type: TestSuite\nspec:\n  id: all\n  name: All\n  steps: [orders]\n";
    desk.write("tests/a-suite.yaml", suite);
    desk.write("tests/orders.yaml", &TEST.replace("  name: Orders", "  id: orders\n  name: Orders"));
    desk.write("tests/compose.yaml", "services: {}\n");
    desk.write("set.yaml", "type: VariableSet\nspec:\n  id: v\n  name: Values\n  values: []\n");
    let ended = desk.run("apply -f tests -f set.yaml").await;
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    for line in ["get test Orders", "get test orders", "get testsuite All", "get variableset Values"] {
        let ended = desk.run(line).await;
        assert_eq!(ended.code, Some(0), "{line}: {}", ended.err);
        assert!(ended.out.contains("type: ") && !ended.out.contains("not found"), "{line}: {}", ended.out);
    }
    let ended = desk.run("delete test Orders").await;
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(desk.run("get test Orders").await.out.contains("not found"));
}
