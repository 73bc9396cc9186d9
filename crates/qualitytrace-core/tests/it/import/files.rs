//! Imports that become files of a project.

use qualitytrace_core::budget::Budget;
use qualitytrace_core::definition::trigger::Auth;
use qualitytrace_core::definition::{Format, Resource, read};
use qualitytrace_core::import::{Purpose, Tool, import, import_for};

use super::{http, resources, shown};

#[test]
fn files_have_no_credentials_and_assert_a_status() {
    let files = |tool, text: &str, status| {
        import_for(Purpose::Files { status }, Some(tool), text, &Budget::default()).unwrap()
    };
    let found = files(
        Tool::Curl,
        "curl http://h/a -u me:pa -H 'X-Api-Key: k'\ncurl http://h/b -H 'authorization: bearer t' -H \"X-Token: $T\"\n\
         curl http://h/c -H 'X-Api-Key: other'",
        None,
    );
    let (tests, set) = resources(&found);
    let auth = Auth::Basic { username: "me".into(), password: "${var:PASSWORD}".into() };
    assert_eq!(http(&tests[0]).auth, Some(auth));
    assert_eq!(shown(http(&tests[0])), "GET | http://h/a | X-Api-Key: ${var:X_API_KEY}");
    assert_eq!(
        shown(http(&tests[1])),
        "GET | http://h/b | authorization: bearer ${var:AUTHORIZATION}, X-Token: ${var:T}"
    );
    assert_eq!(shown(http(&tests[2])), "GET | http://h/c | X-Api-Key: ${var:X_API_KEY_2}");
    let values = set.unwrap().values;
    let secrets: Vec<(&str, &str)> = values
        .iter()
        .filter(|one| one.is_secret)
        .map(|one| (one.key.as_str(), one.value.value.as_str()))
        .collect();
    let expected = [("PASSWORD", "pa"), ("X_API_KEY", "k"), ("AUTHORIZATION", "t"), ("X_API_KEY_2", "other")];
    assert_eq!(secrets, expected);
    assert_eq!(tests[0].specs[0].assertions[0].value, "attr:tracetest.response.status < 400");
    let (tests, _) = resources(&files(Tool::Curl, "curl http://h/a", Some(404)));
    assert_eq!(tests[0].specs[0].assertions[0].value, "attr:tracetest.response.status = 404");
}

#[test]
fn captures_make_a_suite_of_files() {
    let text = "GET http://h/a\nHTTP 200\n[Captures]\nid: jsonpath \"$.id\"\n\nGET http://h/a\nGET http://h/{{id}}\n";
    let files = Purpose::Files { status: None };
    let found = import_for(files, Some(Tool::Hurl), text, &Budget::default()).unwrap();
    let suite = &found.definitions[3];
    let reading = read(&suite.text, Format::Yaml);
    let Resource::TestSuite(suite) = &reading.documents[0].resource else { panic!("{}", suite.text) };
    let steps: Vec<&str> = suite.steps.iter().map(|step| step.test.value.as_str()).collect();
    assert_eq!(steps, ["get-a", "get-a-2", "get-var-id"]);
    assert!(found.definitions[1].text.contains("id: get-a-2\n"), "{}", found.definitions[1].text);
    assert_eq!(import(None, text, &Budget::default()).unwrap().definitions.len(), 3, "a draft has no suite");
}
