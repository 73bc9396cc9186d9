//! `schema`, tried with another reader of JSON Schemas.

use boon::{Compiler, SchemaIndex, Schemas};
use qualitytrace_core::definition::{Format, check, read};
use serde_json::{Value, json};

use super::{collected, run, stderr, stdout};

/// The schema that the program prints, compiled.
struct Compiled {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Compiled {
    fn of(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let printed = run(folder.path(), &[&["schema"], arguments].concat());
        let schema: Value = serde_json::from_str(&stdout(&printed)).unwrap();
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.add_resource("definition.json", schema).unwrap();
        let index = compiler.compile("definition.json", &mut schemas).unwrap();
        Self { schemas, index }
    }

    fn refuses(&self, document: &Value) -> Option<String> {
        self.schemas.validate(document, self.index).err().map(|error| format!("{error:#}"))
    }
}

#[test]
fn every_good_file_passes_the_schema() {
    let schema = Compiled::of(&[]);
    let (mut good, mut wrong) = (0, Vec::new());
    for one in collected::all() {
        let format = if one.file().ends_with("json") { Format::Json } else { Format::Yaml };
        let reading = read(&one.text, format);
        let checked = reading.documents.iter().flat_map(|document| check(&document.resource));
        if !reading.diagnostics.is_empty() || checked.count() > 0 {
            continue;
        }
        let documents: Vec<Value> = serde_saphyr::from_multiple(&one.text).unwrap();
        for document in documents.iter().filter(|document| !document.is_null()) {
            good += 1;
            wrong.extend(schema.refuses(document).map(|why| format!("{}: {why}\n{}", one.name, one.text)));
        }
    }
    assert!(good > 80, "only {good} good documents");
    assert!(wrong.is_empty(), "{} of {good}: {}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_check_complains_about_is_refused() {
    let schema = Compiled::of(&[]);
    for document in [
        json!({ "type": "Tets", "spec": {} }),
        json!({ "type": "Test" }),
        json!({ "type": "Test", "spec": { "triger": {} } }),
        json!({ "type": "Test", "spec": { "specs": "none" } }),
        json!({ "type": "Test", "spec": { "trigger": { "type": "http", "httpRequest": { "ulr": "x" } } } }),
        json!({ "type": "TestRunner", "spec": { "requiredGates": ["nope"] } }),
        json!({ "type": "Test", "spec": { "retries": "many" } }),
        json!([]),
    ] {
        assert!(schema.refuses(&document).is_some(), "{document}");
    }
    let suites = Compiled::of(&["TestSuite"]);
    assert_eq!(suites.refuses(&json!({ "type": "TestSuite", "spec": { "steps": ["a"] } })), None);
    assert!(suites.refuses(&json!({ "type": "Test", "spec": {} })).is_some());
}

#[test]
fn the_header_names_the_schema_for_editors() {
    let folder = tempfile::tempdir().unwrap();
    let header =
        |arguments: &[&str]| stdout(&run(folder.path(), &[&["schema", "--header"], arguments].concat()));
    assert_eq!(header(&[]), "# yaml-language-server: $schema=./qualitytrace.schema.json\n");
    assert_eq!(header(&["../s.json"]), "# yaml-language-server: $schema=../s.json\n");
    let wrong = run(folder.path(), &["schema", "Tset"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(stderr(&wrong).contains("did you mean `Test`?"), "{}", stderr(&wrong));
}
