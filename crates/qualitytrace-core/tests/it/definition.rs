//! Reading and writing definitions.

use proptest::prelude::*;
use qualitytrace_core::definition::{
    Format, Kind, Reading, Resource, asserts_nothing, check, read, read_as, read_stored, to_json, to_yaml,
    with_id,
};
use qualitytrace_core::lang::Diagnostic;

/// Returns the diagnostics of a file, each with the text that it points at.
fn trouble(source: &str, format: Format) -> Vec<String> {
    let told = |diagnostic: &Diagnostic| {
        let help = diagnostic.help.as_deref().map(|help| format!(" ({help})")).unwrap_or_default();
        let place = source.get(diagnostic.span.clone()).expect("a span lies on characters of the file");
        format!("{}: {}{help} @ {place:?}", diagnostic.code, diagnostic.message)
    };
    read(source, format).diagnostics.iter().map(told).collect()
}

fn yaml(source: &str) -> Vec<String> {
    trouble(source, Format::Yaml)
}

fn one(reading: Reading) -> Resource {
    assert_eq!(reading.diagnostics, []);
    reading.documents.into_iter().next().expect("one document").resource
}

/// Returns the JSON of the resource in `source` as the API writes it.
fn wire(source: &str) -> String {
    to_json(&one(read(source, Format::Yaml)))["spec"].to_string()
}

#[test]
fn the_time_of_a_spec_survives_writing_and_reading() {
    let source = "type: Test\nspec:\n  name: T\n  specs:\n  - selector: span[]\n    within: 1m30s\n    assertions: [attr:a = 1]\n";
    let resource = one(read(source, Format::Yaml));
    let Resource::Test(test) = &resource else { panic!("{resource:?}") };
    let within =
        test.specs[0].within.as_ref().map(|within| (within.duration.as_secs(), within.text.as_str()));
    assert_eq!(within, Some((90, "1m30s")));
    let json = to_json(&resource);
    assert_eq!(json["spec"]["specs"][0]["within"], "1m30s");
    assert_eq!(one(read(&to_yaml(&json), Format::Yaml)), resource);
    let profile = "type: PollingProfile\nspec:\n  name: P\n  strategy: periodic\n  periodic: {retryDelay: 1s, timeout: 2m, within: 40s}\n";
    let Resource::PollingProfile(read) = one(read(profile, Format::Yaml)) else { panic!("a profile") };
    assert_eq!(read.within.as_ref().map(|within| within.duration.as_secs()), Some(40));
    assert!(wire(profile).contains(r#""within":"40s""#), "{}", wire(profile));
    assert_eq!(
        yaml(&source.replace("1m30s", "soon")),
        [
            r#"wrong-duration: `within` takes a duration, not `soon` (write a number and a unit, like `500ms`, `5s` or `1m30s`) @ "soon""#
        ]
    );
}

#[test]
fn every_mistake_of_a_file_is_told_at_once() {
    let source = "type: Test
spec:
  name: [a]
  trigger:
    type: htp
  specs:
  - selector: {nope: 1}
    assertion: []
  outputs:
  - name: A
  skipTraceCollection: maybe
";
    assert_eq!(
        yaml(source),
        [
            r#"wrong-type: `name` takes a text, but this is a list @ "[a]""#,
            r#"unknown-trigger: `htp` is not a type of trigger (did you mean `http`?) @ "htp""#,
            r#"unknown-key: `nope` is not a key of a selector @ "nope""#,
            r#"unknown-key: `assertion` is not a key of a spec (did you mean `assertions`?) @ "assertion""#,
            r#"incomplete-output: the output has no `selector` (an output needs a `name`, a `selector` and a `value`) @ "name: A""#,
            r#"incomplete-output: the output has no `value` (an output needs a `name`, a `selector` and a `value`) @ "name: A""#,
            r#"wrong-type: `skipTraceCollection` takes `true` or `false`, but this is a text @ "maybe""#,
        ]
    );
}

#[test]
fn json_says_what_it_means() {
    let source = r#"{"type": "VariableSet", "spec": {"name": 5, "values": [{"key": "A", "value": true}]}}"#;
    assert_eq!(
        trouble(source, Format::Json),
        [
            r#"wrong-type: `name` takes a text, but this is a number @ "5""#,
            r#"wrong-type: `value` takes a text, but this is a truth value @ "true""#,
        ]
    );
}

#[test]
fn what_must_have_a_name_says_so_once() {
    let expected = r#"no-name: data store should have a name @ "type: otlp""#;
    assert_eq!(yaml("type: DataStore\nspec:\n  type: otlp\n"), [expected]);
    let expected = r#"no-name: data store should have a name @ "\"\"""#;
    assert_eq!(yaml("type: DataStore\nspec:\n  name: \"\"\n  type: otlp\n"), [expected]);
}

#[test]
fn a_definition_without_a_spec_is_an_error() {
    let kinds = Kind::ALL.map(Kind::as_str);
    let stream: Vec<String> = kinds.iter().map(|kind| format!("type: {kind}\n")).collect();
    let reading = read(&stream.join("---\n"), Format::Yaml);
    let errors: std::collections::BTreeSet<usize> =
        reading.diagnostics.iter().map(|found| found.span.start).collect();
    assert_eq!(errors.len(), kinds.len(), "{:?}", reading.diagnostics);
}

#[test]
fn broken_json_is_told_where_it_breaks() {
    for (source, expected) in [
        ("{not json", "n"),
        ("{", ""),
        (r#"{"a": 1,}"#, "}"),
        (r#"{"a": nul}"#, "n"),
        (r#"{"a": "b}"#, "\""),
        ("[1] x", "x"),
        ("", ""),
    ] {
        let reading = read(source, Format::Json);
        assert_eq!(reading.diagnostics.len(), 1, "{source}");
        assert_eq!(reading.diagnostics[0].code, "json-syntax");
        assert_eq!(&source[reading.diagnostics[0].span.clone()], expected, "{source}");
    }
}

#[test]
fn unquoted_numbers_and_truth_values_are_texts_in_yaml() {
    let source = "type: VariableSet\nspec: {name: 1.0, values: [{key: A, value: 45}, {key: B, value: true}, {key: 007}]}";
    assert_eq!(
        wire(source),
        r#"{"name":"1.0","description":"","values":[{"key":"A","value":"45"},{"key":"B","value":"true"},{"key":"007","value":""}]}"#
    );
}

#[test]
fn old_layouts_mean_what_they_meant() {
    let today = r#"{"type": "Test", "spec": {"name": "x",
        "trigger": {"type": "http", "httpRequest": {"url": "u", "method": "GET"}},
        "specs": [{"selector": "span[]", "name": "n", "assertions": ["1 = 1"]}],
        "outputs": [{"name": "O", "selector": "span[]", "value": "attr:x"}]}}"#;
    let second = r#"{"type": "Test", "spec": {"name": "x",
        "trigger": {"triggerType": "http", "http": {"url": "u", "method": "GET"}},
        "specs": [{"selector": {"query": "span[]", "parsedSelector": []}, "name": "n", "assertions": ["1 = 1"]}],
        "outputs": [{"name": "O", "selector": "span[]", "value": "attr:x"}]}}"#;
    let first = r#"{"type": "Test", "spec": {"name": "x",
        "trigger": {"Type": "http", "HTTP": {"url": "u", "method": "GET"}},
        "specs": [{"Key": "span[]", "Value": {"Name": "n", "Assertions": ["1 = 1"]}}],
        "outputs": [{"Key": "O", "Value": {"selector": "span[]", "value": "attr:x"}}]}}"#;
    let read = |source| one(read(source, Format::Json));
    assert_eq!(read(second), read(today));
    assert_eq!(read(first), read(today));
}

#[test]
fn what_other_readers_of_yaml_refuse_is_refused_here_too() {
    assert_eq!(
        yaml("type: Demo\nspec: {name: \"a\u{7f}\"}\n"),
        [
            r#"yaml-syntax: this is not valid YAML: it holds the control character U+007F (write it as \u007F in double quotes) @ "\u{7f}""#
        ]
    );
    assert_eq!(yaml("type: Demo\nspec: {name: \"\\u007F \u{85}\u{2028}ü😀\", type: pokeshop}\n"), [""; 0]);
}

#[test]
fn quotes_of_a_word_processor_are_read_as_what_was_meant() {
    let test = "type: Test\nspec:\n  name: a\n  trigger: {type: traceid, traceid: {id: x}}\n  specs:\n  - selector: span[name = “Tracetest trigger”]\n";
    let reading = read(test, Format::Yaml);
    let told: Vec<String> = reading
        .documents
        .iter()
        .flat_map(|document| check(&document.resource))
        .map(|found| format!("{}: {}", found.code, &test[found.span]))
        .collect();
    assert_eq!(told, ["curly-quotes: “Tracetest trigger”"]);
}

#[test]
fn old_names_of_types_are_known() {
    let kinds = |source: &str| -> Vec<Kind> {
        read(source, Format::Yaml).documents.iter().map(|document| document.resource.kind()).collect()
    };
    assert_eq!(
        kinds("type: Transaction\nspec: {name: a}\n---\ntype: Environment\nspec: {name: b, values: []}\n"),
        [Kind::TestSuite, Kind::VariableSet]
    );
    assert_eq!(
        yaml("type: Environment\nspec: {name: b}\n"),
        [
            r#"hosted-type: `Environment` belongs to the hosted service of Tracetest and has no meaning here (remove this document) @ "Environment""#
        ]
    );
}

#[test]
fn tables_and_steps_that_make_no_sense_are_told() {
    let suite = |more: &str| yaml(&format!("type: TestSuite\nspec:\n  name: S\n  {more}\n"));
    let data = |data: &str| suite(&format!("steps: [a]\n  data: {data}"));
    assert_eq!(
        data(r#"{csv: "A,B,A\n1,2,3"}"#),
        [
            r#"wrong-csv: the CSV has the column `A` twice (give each column a name of its own) @ "A,B,A\\n1,2,3""#
        ]
    );
    assert_eq!(
        data(r#"{rows: [{A: 1}], csv: "B\n2"}"#),
        [
            r#"uneven-row: the CSV has no `A`, which the first row has (give every row the same names) @ "B\\n2""#,
            r#"uneven-row: the CSV has `B`, which the first row has not (give every row the same names) @ "B\\n2""#,
        ]
    );
    assert_eq!(
        data("{rows: [{A: 1}, {A: 2, B: 3}]}"),
        [
            r#"uneven-row: this row has `B`, which the first row has not (give every row the same names) @ "{A: 2, B: 3}""#
        ]
    );
    assert_eq!(data(r#"{rows: [{A: 1, B: 2}], csv: "B,A\n1,2"}"#), [""; 0]);
    assert_eq!(
        suite("steps: [{test: a, timeout: 0s}]"),
        [
            r#"wrong-duration: a step that may take `0s` can never be run (give it more time, or remove `timeout`) @ "0s""#
        ]
    );
    let empty =
        "empty-suite: this suite has no steps: a run of it tests nothing (name its tests under `steps`)";
    assert_eq!(suite("steps: []"), [format!("{empty} @ \"steps\"")]);
    assert_eq!(suite("setup: [a]"), [""; 0]);
}

#[test]
fn what_a_trigger_does_not_use_is_told_unless_it_is_empty() {
    let file = |grpc: &str| {
        format!(
            "type: Test\nspec:\n  name: n\n  trigger:\n    type: http\n    httpRequest: {{url: u}}\n    grpc: {grpc}\n"
        )
    };
    assert_eq!(yaml(&file("{protobufFile: \"\", address: \"\", method: \"\"}")), [""; 0]);
    assert_eq!(
        yaml(&file("{address: a}")),
        [r#"unused-block: `grpc` is not used by a trigger of type `http` @ "{address: a}""#]
    );
}

#[test]
fn what_users_believe_in_and_has_no_effect_is_told() {
    let trigger = "type: http\n    httpRequest: {url: http://a, auth: {type: basic, basic: {username: a, password: b}, bearer: {token: c}}}";
    assert_eq!(
        yaml(&format!("type: Test\nspec:\n  name: a\n  trigger:\n    {trigger}\n")),
        [r#"unused-block: `bearer` is not used by `auth` of type `basic` @ "{token: c}""#]
    );
    assert_eq!(
        yaml(&format!(
            "type: Test\nspec:\n  name: a\n  trigger:\n    {}\n",
            trigger.replace("token: c", "token: ''")
        )),
        [""; 0]
    );
    assert_eq!(
        yaml("type: TestSuite\nspec:\n  name: a\n  steps: [b]\n  env: {A: b}\n"),
        [
            r#"unused-key: `env` has no effect on a suite (put the values into a variable set, or give them to the run) @ "env""#
        ]
    );
    assert_eq!(
        yaml("type: DataStore\nspec:\n  name: a\n  type: otlp\n  isdefault: true\n"),
        [
            r#"unused-key: `isdefault` has no effect (leave it out: a server has one data store) @ "isdefault""#
        ]
    );
    let told = yaml("typee: Test\nspec:\n  name: a\n");
    assert_eq!(
        told[1],
        r#"unknown-key: `typee` is not a key of a definition (did you mean `type`?) @ "typee""#
    );
}

#[test]
fn merge_keys_and_aliases_are_written_out() {
    let source = "type: Test
spec:
  name: n
  trigger:
    type: http
    httpRequest: &request {url: u, method: GET}
    grpc: {}
---
type: Test
spec:
  name: &name again
  description: *name
  trigger: {type: http, httpRequest: {<<: {url: u, method: GET}, method: PUT}}
";
    let reading = read(source, Format::Yaml);
    assert_eq!(reading.diagnostics, []);
    assert_eq!(
        to_json(&reading.documents[1].resource)["spec"].to_string(),
        r#"{"name":"again","description":"again","trigger":{"type":"http","httpRequest":{"method":"PUT","url":"u"}}}"#
    );
}

#[test]
fn broken_yaml_comes_with_advice() {
    assert_eq!(
        yaml("type: Test\nspec:\n\tname: x\n"),
        [
            r#"yaml-syntax: this is not valid YAML: tabs disallowed within this context (block indentation) (indent with blanks: YAML does not allow tabs there) @ "n""#
        ]
    );
    assert_eq!(
        yaml("type: Test\nspec:\n  name: a: b\n"),
        [
            r#"yaml-syntax: this is not valid YAML: mapping values are not allowed in this context (put a text that holds a colon and a blank in single quotes) @ ":""#
        ]
    );
}

#[test]
fn a_file_without_a_definition_is_an_error() {
    for source in ["", "# nothing\n", "---\n---\n", "null"] {
        let expected = r#"empty-file: the file holds no definition (write `type:` and `spec:`) @ """#;
        assert_eq!(yaml(source), [expected], "{source:?}");
    }
}

#[test]
fn a_trigger_is_more_than_its_type() {
    assert_eq!(
        yaml("type: Test\nspec:\n  name: x\n  trigger: http\n"),
        [
            r#"wrong-type: `trigger` takes a mapping, but this is a text (write `type: http` under `trigger:`, and its details beside it) @ "http""#
        ]
    );
}

#[test]
fn tempo_is_asked_the_way_its_blocks_suggest() {
    let file = |tempo: &str| format!("type: DataStore\nspec:\n  name: t\n  type: tempo\n  tempo: {tempo}\n");
    let grpc = r#"{"id":"current","name":"t","type":"tempo","default":true,"tempo":{"type":"grpc","grpc":{"endpoint":"t:1"}}}"#;
    assert_eq!(wire(&file("{grpc: {endpoint: t:1}}")), grpc);
    let old = read(&file("{endpoint: t:1}"), Format::Yaml);
    assert_eq!(old.diagnostics[0].code, "old-layout");
    assert_eq!(to_json(&old.documents[0].resource)["spec"].to_string(), grpc);
}

#[test]
fn the_url_decides_the_kind() {
    let reading = read_as(r#"{"type": "Banana", "spec": {"name": "x"}}"#, Format::Json, Kind::VariableSet);
    assert_eq!(one(reading).kind(), Kind::VariableSet);
}

#[test]
fn the_built_in_analyzer_reads_back() {
    let built_in = Resource::Analyzer(qualitytrace_core::analyzer::Analyzer::default());
    assert_eq!(one(read(&to_json(&built_in).to_string(), Format::Json)), built_in);
}

#[test]
fn an_id_is_written_into_the_file_and_nothing_else_changes() {
    for (before, after) in [
        (
            "# a\ntype: Test\nspec: # b\n  # c\n  name: x # d\n",
            "# a\ntype: Test\nspec: # b\n  # c\n  id: new\n  name: x # d\n",
        ),
        (
            "type: Test\nspec:\n    id: old # c\n    name: x\n",
            "type: Test\nspec:\n    id: new # c\n    name: x\n",
        ),
        ("type: Test\nspec:\n  id:\n  name: x\n", "type: Test\nspec:\n  id: new\n  name: x\n"),
        ("type: Test\nspec:\n  id: \"\"\n  name: x\n", "type: Test\nspec:\n  id: new\n  name: x\n"),
        ("{type: Test, spec: {name: x}}", "{type: Test, spec: {id: new, name: x}}"),
        ("{type: Test, spec: {}}", "{type: Test, spec: {id: new}}"),
    ] {
        assert_eq!(with_id(before, Format::Yaml, 0, "new").as_deref(), Some(after));
    }
    let json = r#"{"type": "Test", "spec": {"name": "x"}}"#;
    let after = r#"{"type": "Test", "spec": {"id": "n\"w", "name": "x"}}"#;
    assert_eq!(with_id(json, Format::Json, 0, "n\"w").as_deref(), Some(after));
    let stream = "type: Test\nspec:\n  name: a\n---\ntype: Test\nspec:\n  name: b\n";
    let after = "type: Test\nspec:\n  name: a\n---\ntype: Test\nspec:\n  id: \"1e5\"\n  name: b\n";
    assert_eq!(with_id(stream, Format::Yaml, 1, "1e5").as_deref(), Some(after));
    assert_eq!(with_id("type: Test\n", Format::Yaml, 0, "new"), None);
    let after = "type: Test\r\nspec:\r\n  id: new\r\n  name: x\r\n";
    let before = "type: Test\r\nspec:\r\n  name: x\r\n";
    assert_eq!(with_id(before, Format::Yaml, 0, "new").as_deref(), Some(after), "lines end as they did");
}

#[test]
fn a_file_full_of_mistakes_is_read_quickly_and_still_refused() {
    let mut source = String::from("type: Test\nspec:\n  name: x\n");
    for number in 0..20_000 {
        source.push_str("  key");
        source.push_str(&number.to_string());
        source.push_str(": 1\n");
    }
    source.push_str("---\ntype: Nope\n");
    let reading = read(&source, Format::Yaml);
    assert!(!reading.is_usable(false));
    assert_eq!(reading.diagnostics.len(), 1_002);
    assert_eq!(reading.diagnostics[1_001].message, "19000 more things are wrong with this file");
}

#[test]
fn what_is_stored_is_read_without_saying_again_what_is_odd() {
    let mut source =
        String::from("type: Test\nspec:\n  name: x\n  trigger: {type: http, httpRequest: {url: http://x}}\n");
    for number in 0..3_000 {
        source.extend(["  skipTraceCollectionn", &number.to_string(), ": 1\n"]);
    }
    let fastest = |read: &dyn Fn()| {
        let took = || {
            let began = std::time::Instant::now();
            read();
            began.elapsed()
        };
        (0..5).map(|_| took()).min().unwrap()
    };
    let checked = fastest(&|| drop(read_as(&source, Format::Yaml, Kind::Test)));
    let stored = fastest(&|| drop(read_stored(&source, Format::Yaml, Kind::Test)));
    let resource = read_as(&source, Format::Yaml, Kind::Test).documents.pop().unwrap().resource;
    assert_eq!(read_stored(&source, Format::Yaml, Kind::Test), Some(resource));
    println!("checked {checked:?}, stored {stored:?}");
    assert!(stored * 2 < checked, "what is odd is not looked for: {stored:?} instead of {checked:?}");
    assert_eq!(read_stored("{", Format::Json, Kind::Test), None);
}

#[test]
fn yaml_is_written_as_people_write_it() {
    let value = serde_json::json!({
        "createdAt": "2026-11-15T02:18:23.553027Z", "truth": "true", "number": "1.0", "nothing": "", "null": "null",
        "colon": "x: y", "lines": "two\nlines\n", "selector": "span[name=\"a\"]", "list": [], "flag": true,
    });
    let expected = r#"createdAt: 2026-11-15T02:18:23.553027Z
truth: "true"
number: "1.0"
nothing: ""
"null": "null"
colon: "x: y"
lines: |
  two
  lines
selector: span[name="a"]
list: []
flag: true
"#;
    assert_eq!(to_yaml(&value), expected);
}

/// Fragments of definitions in random order: closer to real files than random letters.
fn fragments() -> impl Strategy<Value = String> {
    let fragment = prop_oneof![
        Just("type: Test\n"),
        Just("spec:\n"),
        Just("  name: x\n"),
        Just("  trigger:\n"),
        Just("    type: http\n"),
        Just("    httpRequest: {url: u}\n"),
        Just("  specs:\n"),
        Just("  - selector: |\n"),
        Just("      span[\n"),
        Just("    assertions: [\"a\\x41\\u00e9 = 1\"]\n"),
        Just("---\n"),
        Just("&a "),
        Just("*a\n"),
        Just("<<: "),
        Just("{"),
        Just("}"),
        Just("["),
        Just("]"),
        Just("\""),
        Just("'"),
        Just("é"),
        Just("\t"),
        Just("\r\n"),
        Just(": "),
        Just("type: DataStore\n"),
        Just("  tempo: "),
        Just("  outputs:\n"),
        Just(">-\n\n"),
        Just("? "),
        Just("!!str "),
        Just("\"Key\": "),
        Just(", "),
    ];
    proptest::collection::vec(fragment, 0..40).prop_map(|fragments| fragments.concat())
}

/// Reads a text in every format and kind; nothing may panic, and every diagnostic points into the text.
fn survives(source: &str) {
    for format in [Format::Yaml, Format::Json] {
        for kind in [None, Some(Kind::Test), Some(Kind::DataStore), Some(Kind::Analyzer)] {
            let reading = match kind {
                None => read(source, format),
                Some(kind) => read_as(source, format, kind),
            };
            let found = reading.documents.iter().flat_map(|document| check(&document.resource));
            for diagnostic in reading.diagnostics.iter().cloned().chain(found) {
                assert!(source.get(diagnostic.span.clone()).is_some(), "{diagnostic:?} in {source:?}");
            }
        }
    }
}

proptest! {
    #[test]
    fn any_text_can_be_read(source in any::<String>()) {
        survives(&source);
    }

    #[test]
    fn any_definition_can_be_read(source in fragments()) {
        survives(&source);
    }

    #[test]
    fn any_text_survives_writing_and_reading(name in any::<String>(), body in "\\PC*[ \n\t]{0,3}") {
        let source = serde_json::json!({ "type": "Test", "spec": { "name": name,
            "trigger": { "type": "http", "httpRequest": { "url": "u", "body": body } } } });
        let resource = one(read(&source.to_string(), Format::Json));
        let json = to_json(&resource);
        prop_assert_eq!(&one(read(&json.to_string(), Format::Json)), &resource);
        prop_assert_eq!(&one(read(&to_yaml(&json), Format::Yaml)), &resource);
    }
}

#[test]
fn a_test_has_specs_and_not_a_spec() {
    let source =
        "type: Test\nspec:\n  name: T\n  spec:\n  - selector: span[]\n    assertions: [attr:a = 1]\n";
    assert_eq!(
        yaml(source),
        [
            r#"unknown-key: `spec` is not a key of a test, so what stands below it would not be checked (write `specs`, a list of selectors with their assertions) @ "spec""#
        ]
    );
    assert!(read(source, Format::Yaml).diagnostics.iter().all(Diagnostic::is_error));
}

#[test]
fn a_test_that_asserts_nothing_is_told() {
    let check = |rest: &str, expected: Option<&str>| {
        let source = format!("# A comment.\ntype: Test\nspec:\n  name: T\n{rest}");
        let reading = read(&source, Format::Yaml);
        let found = asserts_nothing(&source, &reading.documents[0]);
        assert_eq!(found.map(|found| &source[found.span]), expected, "{rest}");
    };
    check("", Some("type: Test"));
    check("  specs: [{selector: 'span[]', assertions: []}]\n", Some("type: Test"));
    check("  specs: [{selector: 'span[]', assertions: ['attr:a = 1']}]\n", None);
    check("  outputs: [{name: A, selector: 'span[]', value: attr:a}]\n", None);
}
