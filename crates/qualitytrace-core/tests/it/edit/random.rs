//! Random edits of the definitions in `examples`: the rest of their texts stays, comments included.

use std::ops::Range;
use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use qualitytrace_core::budget::Budget;
use qualitytrace_core::definition::{
    Change, Format, Output, Resource, Spec, Test, Text, edit, read, to_json,
};

/// The number of random edits.
const EDITS: u32 = 1_000;

/// The texts of all tests in `examples`, in several layouts.
static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| {
    let mut texts = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples"), &mut texts);
    assert!(texts.len() >= 10, "{} tests in examples", texts.len());
    texts.into_iter().flat_map(|text| Source::layouts(&text)).collect()
});

/// A file with a test in it.
#[derive(Debug, Clone)]
struct Source {
    text: String,
    format: Format,
    index: usize,
}

impl Source {
    fn layouts(text: &str) -> Vec<Self> {
        let document = read(text, Format::Yaml).documents.remove(0).resource;
        let json = to_json(&document);
        let yaml = |text: String| Self { text, format: Format::Yaml, index: 0 };
        let set = "# first\ntype: VariableSet\nspec: {name: V} # v\n";
        let doubled = |line: &str| {
            let solid = line.trim_start_matches(' ');
            let indent = " ".repeat(line.len() - solid.len());
            let solid =
                solid.strip_prefix("- ").map_or_else(|| solid.to_owned(), |item| format!("-   {item}"));
            format!("{indent}{indent}{solid}")
        };
        let indented: String = text.split_inclusive('\n').map(doubled).collect();
        vec![
            yaml(text.to_owned()),
            yaml(text.replace('\n', "\r\n")),
            yaml(indented),
            yaml(text.trim_end().to_owned()),
            // JSON is the flow style of YAML.
            yaml(json.to_string()),
            Self { text: json.to_string(), format: Format::Json, index: 0 },
            Self { text: format!("{json:#}"), format: Format::Json, index: 0 },
            Self { text: format!("{set}---\n{text}\n---\n{set}"), format: Format::Yaml, index: 1 },
        ]
    }

    fn test(&self) -> Test {
        let reading = read(&self.text, self.format);
        match reading.documents.into_iter().nth(self.index).map(|document| document.resource) {
            Some(Resource::Test(test)) => test,
            other => panic!("{other:?}: {:?}", reading.diagnostics),
        }
    }
}

fn collect(folder: &Path, texts: &mut Vec<String>) {
    let entries = std::fs::read_dir(folder).expect("the folder can be read");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("it can be listed").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() && !path.ends_with("node_modules") {
            collect(&path, texts);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = std::fs::read_to_string(&path).expect("the file can be read");
            let reading = read(&text, Format::Yaml);
            if let [only] = reading.documents.as_slice()
                && matches!(only.resource, Resource::Test(_))
            {
                texts.push(text);
            }
        }
    }
}

fn any_text() -> impl Strategy<Value = String> {
    let odd = prop::sample::select(vec![
        "true",
        "1",
        "#x",
        "a: b",
        "a #b",
        "- a",
        "'",
        "\"",
        "{a",
        "[a]",
        "a, b",
        "é\u{2028}",
        "a\nb",
        " a ",
        "*a",
        "&a",
        "a:",
        "\u{7f}",
        "?",
        "|",
        "~",
        "%",
        "@a",
        "a\tb",
    ]);
    prop_oneof![
        3 => "span\\[[a-z.]{1,8} = \"[ -~]{0,10}\"\\]",
        3 => "attr:[a-z.]{1,9} (=|<|contains) [ -~]{1,12}",
        2 => odd.prop_map(ToOwned::to_owned),
        1 => "[ -~é✓\\n]{1,12}",
    ]
}

fn any_spec() -> impl Strategy<Value = Spec> {
    (prop::option::of(any_text()), any_text(), prop::collection::vec(any_text(), 0..4)).prop_map(
        |(name, selector, assertions)| Spec {
            name,
            selector: selector.into(),
            within: None,
            assertions: assertions.into_iter().map(Text::from).collect(),
        },
    )
}

fn any_output() -> impl Strategy<Value = Output> {
    (any_text(), any_text(), any_text()).prop_map(|(name, selector, value)| Output {
        name: name.into(),
        selector: selector.into(),
        value: value.into(),
    })
}

/// A change with numbers that are not yet indexes of anything.
fn any_change() -> impl Strategy<Value = Change> {
    let number = || 0..1_000_usize;
    prop_oneof![
        1 => any_text().prop_map(|name| Change::Rename { name }),
        3 => (prop::option::of(number()), any_spec()).prop_map(|(at, spec)| Change::AddSpec { at, spec }),
        3 => (number(), any_spec()).prop_map(|(at, spec)| Change::ChangeSpec { at, spec }),
        3 => number().prop_map(|at| Change::RemoveSpec { at }),
        3 => (number(), number()).prop_map(|(at, to)| Change::MoveSpec { at, to }),
        2 => (number(), prop::option::of(number()), any_text())
            .prop_map(|(spec, at, assertion)| Change::AddAssertion { spec, at, assertion }),
        2 => (number(), number(), any_text())
            .prop_map(|(spec, at, assertion)| Change::ChangeAssertion { spec, at, assertion }),
        2 => (number(), number()).prop_map(|(spec, at)| Change::RemoveAssertion { spec, at }),
        2 => (prop::option::of(number()), any_output()).prop_map(|(at, output)| Change::AddOutput { at, output }),
        1 => (number(), any_output()).prop_map(|(at, output)| Change::ChangeOutput { at, output }),
        1 => number().prop_map(|at| Change::RemoveOutput { at }),
        1 => (number(), number()).prop_map(|(at, to)| Change::MoveOutput { at, to }),
    ]
}

/// Gives the change indexes that exist in the test, and applies it. `None` if the test has no such item.
fn meant(change: &mut Change, test: &Test) -> Option<Test> {
    let mut test = test.clone();
    let fit = |at: &mut usize, count: usize| (count > 0).then(|| *at %= count);
    let place = |at: &mut Option<usize>, count: usize| {
        if let Some(at) = at {
            *at %= count + 1;
        }
        at.unwrap_or(count)
    };
    match change {
        Change::Rename { name } => test.name.clone_from(name),
        Change::AddSpec { at, spec } => test.specs.insert(place(at, test.specs.len()), spec.clone()),
        Change::ChangeSpec { at, spec } => {
            fit(at, test.specs.len())?;
            test.specs[*at] = spec.clone();
        }
        Change::RemoveSpec { at } => {
            fit(at, test.specs.len())?;
            test.specs.remove(*at);
        }
        Change::MoveSpec { at, to } => {
            fit(at, test.specs.len())?;
            fit(to, test.specs.len())?;
            let spec = test.specs.remove(*at);
            test.specs.insert(*to, spec);
        }
        Change::AddAssertion { spec, at, assertion } => {
            fit(spec, test.specs.len())?;
            let assertions = &mut test.specs[*spec].assertions;
            assertions.insert(place(at, assertions.len()), assertion.as_str().into());
        }
        Change::ChangeAssertion { spec, at, assertion } => {
            fit(spec, test.specs.len())?;
            let assertions = &mut test.specs[*spec].assertions;
            fit(at, assertions.len())?;
            assertions[*at] = assertion.as_str().into();
        }
        Change::RemoveAssertion { spec, at } => {
            fit(spec, test.specs.len())?;
            let spec = &mut test.specs[*spec];
            fit(at, spec.assertions.len())?;
            spec.assertions.remove(*at);
            (!spec.selector.is_empty() || !spec.assertions.is_empty()).then_some(())?;
        }
        Change::AddOutput { at, output } => {
            test.outputs.insert(place(at, test.outputs.len()), output.clone());
        }
        Change::ChangeOutput { at, output } => {
            fit(at, test.outputs.len())?;
            test.outputs[*at] = output.clone();
        }
        Change::RemoveOutput { at } => {
            fit(at, test.outputs.len())?;
            test.outputs.remove(*at);
        }
        Change::MoveOutput { at, to } => {
            fit(at, test.outputs.len())?;
            fit(to, test.outputs.len())?;
            let output = test.outputs.remove(*at);
            test.outputs.insert(*to, output);
        }
    }
    Some(test)
}

/// Splits two texts into what they begin and end with in common, in whole lines, and what is between.
fn differing<'t>(before: &'t str, after: &'t str) -> (Vec<&'t str>, Vec<&'t str>) {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let head = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let tail =
        old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(|(old, new)| old == new).count();
    (old[head..old.len() - tail].to_vec(), new[head..new.len() - tail].to_vec())
}

/// The comments of a text without block texts that hold `#`, each as it is written, in order.
fn comments(text: &str) -> Vec<String> {
    let of_line = |line: &str| {
        let line = line.trim_end();
        let is_whole = line.trim_start().starts_with("# ");
        // A comment behind a value: none of the values in these files holds the two characters.
        let at = if is_whole { line.find('#') } else { line.find(" # ") };
        at.map(|at| line[at..].trim().to_owned())
    };
    text.lines().filter_map(of_line).collect()
}

/// The lines of a text in any order, each comment together with the line directly below it.
fn unordered(text: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let below = |at: usize| lines.get(at + 1).filter(|_| lines[at].trim_start().starts_with('#'));
    let with_below = |at: usize| (lines[at].to_owned(), below(at).copied().unwrap_or_default().to_owned());
    let mut all: Vec<(String, String)> =
        (0..lines.len()).filter(|at| !lines[*at].is_empty()).map(with_below).collect();
    all.sort();
    all
}

fn check(source: &Source, change: &Change, text: &str) -> Result<(), TestCaseError> {
    let (old, new) = differing(&source.text, text);
    let is_block = source.text.lines().count() > 1 && source.format == Format::Yaml;
    if !is_block {
        return Ok(());
    }
    let missing: Vec<String> = {
        let mut rest = comments(text);
        let mut gone = |comment: &String| match rest.iter().position(|kept| kept == comment) {
            Some(at) => {
                rest.remove(at);
                false
            }
            None => true,
        };
        comments(&source.text).into_iter().filter(|comment| gone(comment)).collect()
    };
    match change {
        Change::AddSpec { .. } | Change::AddOutput { .. } | Change::AddAssertion { .. } => {
            // An item that is added after the last line of a file without a line break ends that line.
            prop_assert!(old.iter().all(|line| line.trim().is_empty()), "{old:?} -> {new:?}");
            prop_assert!(missing.is_empty(), "{missing:?}");
        }
        Change::RemoveSpec { .. } | Change::RemoveOutput { .. } | Change::RemoveAssertion { .. } => {
            prop_assert!(new.iter().all(|line| line.trim().is_empty()), "{old:?} -> {new:?}");
            // Only comments directly above the item are gone with it.
            let mut lines = old.iter().map(|line| line.trim()).skip_while(|line| line.is_empty());
            let item = lines.find(|line| !line.starts_with('#'));
            prop_assert!(item.is_some_and(|line| line.starts_with("- ")), "{old:?} -> {new:?}");
        }
        Change::MoveSpec { .. } | Change::MoveOutput { .. } => {
            prop_assert_eq!(unordered(&source.text), unordered(text));
            prop_assert!(missing.is_empty(), "{missing:?}");
        }
        Change::Rename { .. } | Change::ChangeAssertion { .. } => {
            prop_assert!(old.len() <= 1 && new.len() <= 1, "{old:?} -> {new:?}");
            prop_assert!(missing.is_empty(), "{missing:?}");
        }
        Change::ChangeSpec { .. } | Change::ChangeOutput { .. } => {
            // Comments directly above assertions that are gone are gone with them.
            let removed = old.join("\n");
            prop_assert!(missing.iter().all(|comment| removed.contains(comment.as_str())), "{missing:?}");
        }
    }
    Ok(())
}

/// The places of the texts of each spec or output.
fn places(test: &Test, of_outputs: bool) -> Vec<Range<usize>> {
    let span = |texts: Vec<&Text>| {
        let spans: Vec<Range<usize>> =
            texts.iter().filter_map(|text| Some(text.origin.as_ref()?.span.clone())).collect();
        let start = spans.iter().map(|span| span.start).min().unwrap_or_default();
        start..spans.iter().map(|span| span.end).max().unwrap_or_default()
    };
    if of_outputs {
        return test
            .outputs
            .iter()
            .map(|output| span(vec![&output.name, &output.selector, &output.value]))
            .collect();
    }
    let texts = |spec: &'_ Spec| span(std::iter::once(&spec.selector).chain(&spec.assertions).collect());
    test.specs.iter().map(texts).collect()
}

/// All that is before the item with this index and after it is the same in both texts.
fn check_around(before: &Source, after: &Source, at: usize, of_outputs: bool) -> Result<(), TestCaseError> {
    let (old, new) = (places(&before.test(), of_outputs), places(&after.test(), of_outputs));
    prop_assert_eq!(old.len(), new.len());
    let head = at.checked_sub(1).map_or(0..0, |before| old[before].clone());
    prop_assert!(after.text.starts_with(&before.text[..head.end]));
    let rest = match old.get(at + 1) {
        Some(next) => &before.text[next.start..],
        // The line on which the last text ends may have changed.
        None => before.text[old[at].end..].split_once('\n').map_or("", |(_, rest)| rest),
    };
    prop_assert!(after.text.ends_with(rest), "{}\n---\n{}", rest, after.text);
    Ok(())
}

#[test]
fn random_edits_mean_what_was_asked_for_and_leave_the_rest() {
    let mut runner = TestRunner::new(Config { cases: EDITS, failure_persistence: None, ..Config::default() });
    let source = (0..SOURCES.len()).prop_map(|at| SOURCES[at].clone());
    let result = runner.run(&(source, any_change()), |(source, mut change)| {
        let test = source.test();
        let mut meant = meant(&mut change, &test).ok_or_else(|| TestCaseError::reject("no such item"))?;
        for spec in &mut meant.specs {
            spec.name = spec.name.take().filter(|name| !name.is_empty());
        }
        let text = edit(&source.text, source.format, source.index, &[change.clone()], &Budget::default());
        let text = text.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let after = Source { text: text.clone(), ..source.clone() };
        prop_assert_eq!(after.test(), meant, "{}", text);
        match change {
            Change::ChangeSpec { at, .. }
            | Change::AddAssertion { spec: at, .. }
            | Change::ChangeAssertion { spec: at, .. }
            | Change::RemoveAssertion { spec: at, .. } => check_around(&source, &after, at, false)?,
            Change::ChangeOutput { at, .. } => check_around(&source, &after, at, true)?,
            _ => {}
        }
        check(&source, &change, &text)
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}
