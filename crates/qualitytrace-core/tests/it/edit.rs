//! Edits of definitions: the change is made, and the rest of the text stays as it was.

mod random;

use qualitytrace_core::budget::Budget;
use qualitytrace_core::definition::{
    Change, EditError, Format, MAX_CHANGES, Output, Spec, edit, unified_diff,
};

fn spec(name: &str, selector: &str, assertions: &[&str]) -> Spec {
    Spec {
        name: (!name.is_empty()).then(|| name.to_owned()),
        selector: selector.into(),
        within: None,
        assertions: assertions.iter().map(|assertion| (*assertion).into()).collect(),
    }
}

fn output(name: &str, selector: &str, value: &str) -> Output {
    Output { name: name.into(), selector: selector.into(), value: value.into() }
}

fn edited(source: &str, format: Format, changes: &[Change]) -> Result<String, EditError> {
    edit(source, format, 0, changes, &Budget::default())
}

#[track_caller]
fn check(source: &str, change: Change, expected: &str) {
    let format = if source.starts_with("{\"") { Format::Json } else { Format::Yaml };
    match edited(source, format, &[change]) {
        Ok(text) => assert_eq!(text, expected, "\n{}", unified_diff(expected, &text)),
        Err(error) => panic!("{error}\n{source}"),
    }
}

/// Two specs with comments wherever they may be.
const FILE: &str = "\
# the test
type: Test
spec:
  name: T # its name
  trigger: {type: k6}
  specs: # all of them
    # about the first
    - selector: span[name=\"a\"] # why a
      name: 'First'
      assertions:
        # one
        - attr:a = 1 # really
        - attr:b = 2
        # - attr:off = 3

    # a section

    # about the second
    # in two lines
    - selector: span[name=\"b\"]
      assertions:
        - attr:c = 3
  # the end of specs
  retries: 2
# the end
";

#[test]
fn a_spec_is_added_at_the_end_or_before_another() {
    let new = spec("New", "span[name=\"n\"]", &["attr:x = 'it is: # text'", "attr:y >= 2"]);
    let written = "    - selector: span[name=\"n\"]
      name: New
      assertions:
        - 'attr:x = ''it is: # text'''
        - attr:y >= 2
";
    let end = "        - attr:c = 3\n";
    let expected = FILE.replace(end, &format!("{end}\n{written}"));
    check(FILE, Change::AddSpec { at: None, spec: new.clone() }, &expected);
    let first = "    # about the first\n";
    let expected = FILE.replace(first, &format!("{written}\n{first}"));
    check(FILE, Change::AddSpec { at: Some(0), spec: new }, &expected);
}

#[test]
fn a_removed_spec_takes_the_comments_directly_above_it_along() {
    let second = "
    # about the second
    # in two lines
    - selector: span[name=\"b\"]
      assertions:
        - attr:c = 3
";
    check(FILE, Change::RemoveSpec { at: 1 }, &FILE.replace(second, ""));
    let from = FILE.find("    # about the first").unwrap();
    let to = FILE.find("    # a section").unwrap();
    check(FILE, Change::RemoveSpec { at: 0 }, &[&FILE[..from], &FILE[to..]].concat());
}

#[test]
fn a_moved_spec_takes_its_comments_along() {
    let moved = edited(FILE, Format::Yaml, &[Change::MoveSpec { at: 1, to: 0 }]).unwrap();
    let order = [
        "all of them",
        "about the second",
        "name=\"b\"",
        "about the first",
        "really",
        "a section",
        "retries",
    ];
    let places: Vec<usize> = order.iter().map(|part| moved.find(part).expect(part)).collect();
    assert!(places.is_sorted(), "{moved}");
    let back = edited(&moved, Format::Yaml, &[Change::MoveSpec { at: 0, to: 1 }]).unwrap();
    let lines =
        |text: &str| text.lines().filter(|line| !line.is_empty()).map(ToOwned::to_owned).collect::<Vec<_>>();
    let (mut before, mut after) = (lines(FILE), lines(&back));
    before.sort();
    after.sort();
    assert_eq!(before, after);
}

#[test]
fn only_the_changed_parts_of_a_spec_are_written_anew() {
    let changed = spec("It's first", "span[name=\"a\"]", &["attr:a = 1", "attr:b = 3", "attr:n = 4"]);
    let expected = FILE
        .replace("'First'", "'It''s first'")
        .replace("- attr:b = 2\n", "- attr:b = 3\n        - attr:n = 4\n");
    check(FILE, Change::ChangeSpec { at: 0, spec: changed }, &expected);
    let unnamed = spec("", "span[name=\"a\"]", &["attr:b = 2"]);
    let expected = FILE
        .replace("      name: 'First'\n", "")
        .replace("        # one\n        - attr:a = 1 # really\n", "");
    check(FILE, Change::ChangeSpec { at: 0, spec: unnamed }, &expected);
    let named = spec("Second", "span[name=\"b\"]", &[]);
    let expected = FILE
        .replace("- selector: span[name=\"b\"]\n", "- name: Second\n      selector: span[name=\"b\"]\n")
        .replace("        - attr:c = 3\n", "");
    check(FILE, Change::ChangeSpec { at: 1, spec: named }, &expected);
}

#[test]
fn single_assertions_are_added_changed_and_removed() {
    let end = "        - attr:c = 3\n";
    check(
        FILE,
        Change::AddAssertion { spec: 1, at: None, assertion: "attr:d = 4".to_owned() },
        &FILE.replace(end, &format!("{end}        - attr:d = 4\n")),
    );
    check(
        FILE,
        Change::ChangeAssertion { spec: 0, at: 0, assertion: "attr:a = 7".to_owned() },
        &FILE.replace("attr:a = 1", "attr:a = 7"),
    );
    check(FILE, Change::RemoveAssertion { spec: 0, at: 1 }, &FILE.replace("        - attr:b = 2\n", ""));
}

#[test]
fn a_list_that_is_not_there_is_made() {
    let new = || Change::AddSpec { at: None, spec: spec("", "span[]", &["attr:a = 1"]) };
    let item = "    - selector: span[]\n      assertions:\n        - attr:a = 1\n";
    let head = "type: Test\nspec:\n  name: T\n";
    for (before, after) in [
        (head.to_owned(), format!("{head}  specs:\n{item}")),
        (format!("{head}# end\n"), format!("{head}  specs:\n{item}# end\n")),
        (format!("{head}  specs:\n  retries: 1\n"), format!("{head}  specs:\n{item}  retries: 1\n")),
        (format!("{head}  specs: # none\n"), format!("{head}  specs: # none\n{item}")),
        (format!("{head}  specs: [] # none\n"), format!("{head}  specs: # none\n{item}")),
        (format!("{head}  specs: null\n"), format!("{head}  specs:\n{item}")),
        (head.trim_end().to_owned(), format!("{head}  specs:\n{item}").trim_end().to_owned()),
        (
            format!("{head}  outputs:\n  - {{name: O, selector: 'span[]', value: '1'}}\n\n  # end\n"),
            format!(
                "{head}  outputs:\n  - {{name: O, selector: 'span[]', value: '1'}}\n  specs:\n  - selector: span[]\n    \
                 assertions:\n    - attr:a = 1\n\n  # end\n"
            ),
        ),
        (
            "{type: Test, spec: {name: T}}".to_owned(),
            "{type: Test, spec: {name: T, specs: [{selector: 'span[]', assertions: ['attr:a = 1']}]}}"
                .to_owned(),
        ),
        (
            "{type: Test, spec: {specs: [], name: T}}".to_owned(),
            "{type: Test, spec: {specs: [{selector: 'span[]', assertions: ['attr:a = 1']}], name: T}}"
                .to_owned(),
        ),
        (
            "{\"type\": \"Test\", \"spec\": {\"name\": \"T\", \"specs\": null}}".to_owned(),
            "{\"type\": \"Test\", \"spec\": {\"name\": \"T\", \"specs\": [{\"selector\": \"span[]\", \
             \"assertions\": [\"attr:a = 1\"]}]}}"
                .to_owned(),
        ),
    ] {
        check(&before, new(), &after);
    }
    let crlf = head.replace('\n', "\r\n");
    check(&crlf, new(), &format!("{head}  specs:\n{item}").replace('\n', "\r\n"));
}

#[test]
fn what_is_between_brackets_stays_there() {
    let yaml = "type: Test\nspec:\n  name: T\n  specs: [{selector: a, assertions: [x = 1, y = 2]}, # first\n    {selector: b}]\n";
    check(
        yaml,
        Change::RemoveSpec { at: 1 },
        &yaml.replace(", # first\n    {selector: b}", " # first\n    "),
    );
    check(
        yaml,
        Change::RemoveSpec { at: 0 },
        &yaml.replace("{selector: a, assertions: [x = 1, y = 2]},", ""),
    );
    check(
        yaml,
        Change::ChangeSpec { at: 0, spec: spec("N, n", "a", &["x = 1", "y, = 3"]) },
        &yaml.replace("{selector: a", "{name: 'N, n', selector: a").replace("y = 2", "'y, = 3'"),
    );
    check(
        yaml,
        Change::MoveSpec { at: 0, to: 1 },
        "type: Test\nspec:\n  name: T\n  specs: [{selector: b}, # first\n    {selector: a, assertions: [x = 1, y = 2]}]\n",
    );
    let json = "{\"spec\": {\n  \"name\": \"T\",\n  \"specs\": [\n    {\"selector\": \"a\"},\n    {\"selector\": \"b\"}\n  ]\n}}\n";
    check(
        json,
        Change::AddSpec { at: None, spec: spec("", "\"c\"", &[]) },
        &json.replace("\"b\"}\n", "\"b\"},\n    {\"selector\": \"\\\"c\\\"\"}\n"),
    );
    check(json, Change::RemoveSpec { at: 1 }, &json.replace(",\n    {\"selector\": \"b\"}", ""));
    check(json, Change::Rename { name: "\n".to_owned() }, &json.replace("\"T\"", "\"\\n\""));
}

#[test]
fn old_forms_and_blocks_are_changed_in_their_place() {
    let old = "type: Test\nspec:\n  name: T\n  specs:\n  - Key: a # k\n    Value: {Name: N, Assertions: [x = 1]}\n  - selector: {query: b} # q\n    \
               assertions: [y = 2]\n";
    check(
        old,
        Change::ChangeSpec { at: 0, spec: spec("M", "aa", &["x = 2"]) },
        &old.replace("Key: a", "Key: aa").replace("Name: N", "Name: M").replace("x = 1", "x = 2"),
    );
    check(
        old,
        Change::ChangeSpec { at: 1, spec: spec("", "bb", &["y = 2"]) },
        &old.replace("query: b", "query: bb"),
    );
    let blocks = "type: Test\nspec:\n  name: T\n  outputs:\n  - name: O\n    selector: | # long\n      span[\n        name = \"a\"]\n\n    \
                  value: >-\n      attr:a\n    # end\n";
    check(
        blocks,
        Change::ChangeOutput { at: 0, output: output("O", "span[]", "attr:b") },
        "type: Test\nspec:\n  name: T\n  outputs:\n  - name: O\n    selector: span[] # long\n\n    value: attr:b\n    # end\n",
    );
}

#[test]
fn one_of_several_documents_is_edited() {
    let set = "# a set\ntype: VariableSet\nspec:\n  name: V\n";
    let test = "type: Test\nspec:\n  name: T\n";
    let file = format!("{set}---\n{test}---\n{test}");
    let text = edit(&file, Format::Yaml, 1, &[Change::Rename { name: "U".to_owned() }], &Budget::default());
    assert_eq!(
        text.unwrap(),
        format!("{set}---\n{}---\n{test}", test.replace('T', "U").replace("Uest", "Test"))
    );
    let refused = edit(&file, Format::Yaml, 3, &[], &Budget::default());
    assert_eq!(refused, Err(EditError::NoTest { index: 3 }));
}

#[test]
fn an_edit_that_would_damage_the_text_is_refused() {
    let shared = "type: Test\nspec:\n  name: T\n  specs:\n  - &first\n    selector: a\n    assertions: [x = 1]\n  - *first\n  - <<: *first\n    selector: c\n";
    let change = |at: usize| Change::ChangeSpec { at, spec: spec("", "z", &["x = 1"]) };
    for (source, change) in [
        // The others mean this one.
        (shared, change(0)),
        (shared, change(1)),
        (shared, Change::RemoveSpec { at: 0 }),
        ("type: Test\nspec:\n  name: T\n  x: &all [{selector: a}]\n  specs: *all\n", change(0)),
    ] {
        let refused = edited(source, Format::Yaml, &[change]).unwrap_err();
        assert!(matches!(refused, EditError::Layout { .. }), "{refused}");
        assert!(refused.to_string().ends_with("edit the text itself"), "{refused}");
    }
    check(shared, change(2), &shared.replace("selector: c", "selector: z"));
    check(shared, Change::RemoveSpec { at: 1 }, &shared.replace("  - *first\n", ""));
}

#[test]
fn an_edit_says_what_is_wrong_with_it() {
    let told =
        |source: &str, changes: &[Change]| edited(source, Format::Yaml, changes).unwrap_err().to_string();
    assert_eq!(
        told(FILE, &[Change::RemoveSpec { at: 0 }, Change::RemoveSpec { at: 1 }]),
        "change 1: there is no spec 1, counted from 0; there are 1"
    );
    assert_eq!(
        told(FILE, &[Change::AddOutput { at: None, output: output("O", "", "1") }]),
        "change 0: an output needs a `name`, a `selector` and a `value`"
    );
    assert!(told("type: Test\nspec: [", &[]).starts_with("the definition cannot be read: "));
    assert!(
        told("type: Test\nspec: {trigger: {type: htp}, name: T}", &[])
            .contains("`htp` is not a type of trigger")
    );
    let many = vec![Change::Rename { name: "n".to_owned() }; MAX_CHANGES + 1];
    assert_eq!(told(FILE, &many), "101 changes are too many; send at most 100 at once");
    let exceeded = edit(FILE, Format::Yaml, 0, &many[1..], &Budget::new(20, 1 << 20)).unwrap_err();
    assert!(matches!(exceeded, EditError::Exceeded(_)), "{exceeded}");
}

#[test]
fn a_diff_shows_the_changed_lines() {
    let diff = unified_diff(FILE, &FILE.replace("attr:b = 2", "attr:b = 3"));
    assert_eq!(
        diff,
        "--- before\n+++ after\n@@ -10,7 +10,7 @@\n       assertions:\n         # one\n         - attr:a = 1 # really\n\
         -        - attr:b = 2\n+        - attr:b = 3\n         # - attr:off = 3\n \n     # a section\n"
    );
    assert_eq!(unified_diff(FILE, FILE), "");
    let long = |letter: &str| format!("a\nb\nc\nd\n{}z", format!("{letter}\n").repeat(15_000));
    let diff = unified_diff(&long("x"), &long("y"));
    assert!(
        diff.starts_with("--- before\n+++ after\n@@ -2,15004 +2,15004 @@\n b\n c\n d\n-x\n"),
        "{}",
        &diff[..99]
    );
    assert!(diff.ends_with("+y\n z\n\\ No newline at end of file\n"), "{}", &diff[diff.len() - 99..]);
}

#[test]
fn a_spec_keeps_the_time_that_a_change_does_not_name() {
    let file = "type: Test
spec:
  name: T
  specs:
    - selector: span[name=\"a\"]
      within: 1m30s # a job
      assertions:
        - attr:a = 1
";
    let changed = file.replace("attr:a = 1", "attr:a = 2");
    let spec = spec("", "span[name=\"a\"]", &["attr:a = 2"]);
    check(file, Change::ChangeSpec { at: 0, spec }, &changed);
    check(file, Change::ChangeAssertion { spec: 0, at: 0, assertion: "attr:a = 2".to_owned() }, &changed);
}
