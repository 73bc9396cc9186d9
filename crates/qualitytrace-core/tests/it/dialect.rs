//! Compatibility with Tracetest's files, and extensions of its language.

use qualitytrace_core::budget::Budget;
use qualitytrace_core::definition::{self, Format};
use qualitytrace_core::judge::assert_once;
use qualitytrace_core::lang::{self, EvaluationScope, Generator, Variables};
use qualitytrace_core::time::Timestamp;

fn with_surroundings<T>(run: impl FnOnce(&EvaluationScope<'_>) -> T) -> T {
    let variables: Variables =
        [("QUOTED", r#"say \"hi\""#), ("PLAIN", r#"say "hi""#), ("UMLAUT", "häßlich")].into_iter().collect();
    run(&EvaluationScope {
        trace: None,
        span: None,
        selection: None,
        variables: &variables,
        generator: Generator::in_utc(Timestamp::from_nanos(1), 1),
        aliases: true,
        budget: &Budget::default(),
    })
}

fn check(expression: &str, expected: &str) {
    let value = with_surroundings(|surroundings| lang::resolve(expression, surroundings));
    assert_eq!(value.as_deref().unwrap_or_else(|trouble| &trouble.text), expected, "{expression}");
}

fn holds(assertion: &str, expected: bool) {
    let parsed = lang::parse_assertion(assertion);
    assert!(parsed.is_valid(), "{assertion}: {:?}", parsed.diagnostics);
    let result = with_surroundings(|surroundings| assert_once(&parsed, surroundings));
    assert_eq!(result.passed, expected, "{assertion}: {:?}", result.error);
}

#[test]
fn a_double_quote_in_single_quotes_keeps_its_backslash() {
    check(r#"'a\"b'"#, r#"a\"b"#);
    check(r"'it\'s'", "it's");
    check(r#""a\"b""#, r#"a"b"#);
    for variable in ["QUOTED", "PLAIN"] {
        holds(&format!(r#"var:{variable} = 'say \"hi\"'"#), true);
        holds(&format!(r#"var:{variable} contains '\"hi\"'"#), true);
        holds(&format!(r#"var:{variable} != 'say \"hi\"'"#), false);
    }
}

#[test]
fn numbers_in_json_keep_their_last_digit() {
    for number in ["94.52706955539223", "12.088995980580641", "1.4559974924812313"] {
        let document = format!("'{{\"n\":{number}}}'");
        check(&format!("{document} | json_path '$.n'"), number);
        holds(&format!("{document} | json_path '$.n' = {number}"), true);
        holds(&format!("{document} = '{{\"n\": {number}}}'"), true);
    }
}

#[test]
fn lists_of_texts_are_printed_as_json() {
    check(r#"["a\"b", "c\\d", 1, true]"#, r#"["a\"b", "c\\d", 1, true]"#);
    holds(r#"["a\"b"] json-contains ["a\"b"]"#, false);
    check(r#"["a\"b"] | json_path '$[0]'"#, "json_path: it works on one value, not on a list");
    check(r#""${["a\"b"]}" | json_path '$[0]'"#, r#"a"b"#);
}

#[test]
fn json_contains_looks_into_lists_of_objects() {
    let left = r#"'{"items":[{"id":1,"n":"a"},{"id":2,"n":"b","sub":[{"x":1,"y":2}]}],"tags":[1,2]}'"#;
    for (right, expected) in [
        (r#"'{"items":[{"id":2}]}'"#, true),
        (r#"'{"items":[{"id":2},{"id":1}]}'"#, true),
        (r#"'{"items":[{"sub":[{"y":2}]}]}'"#, true),
        (r#"'{"items":[{"id":3}]}'"#, false),
        (r#"'{"items":[]}'"#, false),
        (r#"'{"tags":[1,2]}'"#, true),
        (r#"'{"tags":[1]}'"#, false),
    ] {
        holds(&format!("{left} json-contains {right}"), expected);
        holds(&format!("{left} contains {right}"), expected);
        holds(&format!("{left} not-json-contains {right}"), !expected);
    }
}

#[test]
fn paths_ask_whether_something_is_there_and_take_names_with_dashes() {
    let document = r#"'{"a-b":1,"c-1":2,"list":[{"v":0,"k-e-y":5},{"w":1},{"v":false,"k-e-y":6}]}'"#;
    for (path, expected) in [
        ("$.a-b", "1"),
        ("a-b", "1"),
        ("$.c-1", "2"),
        ("$.list[?(@.v)].k-e-y", "[5, 6]"),
        ("$.list[?(!@.v)].w", "1"),
        ("$.list[?(@.k-e-y > 5)].k-e-y", "6"),
        ("$.list[?(@.k-e-y-1 == 5)].k-e-y", "6"),
        ("$.list[?(@.v && @.k-e-y == 5)].k-e-y", "5"),
    ] {
        check(&format!("{document} | json_path '{path}'"), expected);
    }
}

#[test]
fn filters_say_when_there_is_nothing_to_work_on() {
    check(
        r#"'{"a":1}' | json_path '$.b' | get_index 0"#,
        "get_index: there is no value to take an item from",
    );
    check(
        r#"'{"a":1}' | json_path '$.b' | get_index 'last'"#,
        "get_index: there is no value to take an item from",
    );
    let no_group = "regex_group: the pattern has no group; put parentheses around what to take out of it";
    check(r"'abc' | regex_group 'b'", no_group);
    check(r"'abc' | regex_group '(b)'", "b");
    let codes: Vec<_> =
        lang::diagnose_expression("attr:a | regex_group 'b'").iter().map(|found| found.code).collect();
    assert_eq!(codes, ["no-group"]);
    check("var:UMLAUT | length", "7");
}

#[test]
fn a_path_asks_whether_something_is_there() {
    let document = r#"'{"list":[{"v":0,"k":5},{"w":1},{"v":false,"k":6}]}'"#;
    check(&format!("{document} | json_path '$.list[?(@.v)].k'"), "[5, 6]");
}

#[test]
fn a_pattern_without_a_group_is_an_error() {
    let told = "regex_group: the pattern has no group; put parentheses around what to take out of it";
    check(r"'abc' | regex_group 'b'", told);
}

#[test]
fn length_counts_characters() {
    check("var:UMLAUT | length", "7");
}

#[test]
fn durations_have_several_units_and_days() {
    holds("1h30m = 90m", true);
    holds("1d = 24h", true);
    holds("'1h30m' = 90m", true);
    holds("1m30.5s > 90s", true);
    for wrong in ["30m1h = 1s", "1h1h = 1s", "1w = 1s"] {
        assert!(!lang::parse_assertion(wrong).is_valid(), "{wrong}");
    }
    for right in ["span[duration > 1h30m]", "span[duration < 1d]", "span[duration<1d name=\"a\"]"] {
        let parsed = lang::parse_selector(right);
        assert!(parsed.is_valid(), "{right}");
        assert_eq!(lang::parse_selector(&parsed.tree.to_string()).tree, parsed.tree);
    }
}

#[test]
fn a_comma_separates_what_stands_on_both_sides() {
    for wrong in [",", ", span[]", "span[, a = 1]", "span[],", "span[]:has(, span[])"] {
        assert!(!lang::parse_selector(wrong).is_valid(), "{wrong}");
    }
}

#[test]
fn a_spec_that_says_nothing_is_refused_in_both_formats() {
    let yaml = "type: Test\nspec:\n  name: t\n  trigger: {type: traceid, traceid: {id: \"${var:T}\"}}\n  specs:\n  - name: nothing\n";
    let json = r#"{"type":"Test","spec":{"name":"t","trigger":{"type":"traceid","traceid":{"id":"${var:T}"}},"specs":[{"name":"nothing"}]}}"#;
    for (text, format) in [(yaml, Format::Yaml), (json, Format::Json)] {
        let codes: Vec<_> =
            definition::read(text, format).diagnostics.iter().map(|found| found.code).collect();
        assert_eq!(codes, ["empty-spec"], "{format:?}");
    }
}

fn refused(assertion: &str, told: &str) {
    let parsed = lang::parse_assertion(assertion);
    let messages: Vec<&str> = parsed.diagnostics.iter().map(|found| found.message.as_str()).collect();
    assert!(!parsed.is_valid(), "{assertion}");
    assert!(messages.iter().any(|message| message.contains(told)), "{assertion}: {messages:?}");
}

#[test]
fn a_duration_that_cannot_be_counted_is_refused_where_it_is_read() {
    for duration in ["200000d", "999999999999999999d", "2562048h", "-106752d", "106751d24h"] {
        refused(&format!("{duration} = 1s"), "does not fit 64 bits");
        refused(&format!("1s < {duration}"), "does not fit 64 bits");
    }
    refused("within 200000d of span[]", "does not fit 64 bits");
    holds("106751d > 106750d", true);
    let selector = lang::parse_selector("span[tracetest.span.duration > 9999999999h]");
    assert_eq!(selector.diagnostics[0].code, "duration-too-large", "{:?}", selector.diagnostics);
}

#[test]
fn a_measured_duration_compares_with_a_negative_one() {
    for (assertion, expected) in [
        ("25187564 > -1h", true),
        ("25187564 <= -1h", false),
        ("-1h < 25187564", true),
        ("0 = -1h", false),
        ("-2h < -1h", true),
        ("-1h = -60m", true),
        ("'-1h' = '-60m'", false),
    ] {
        holds(assertion, expected);
    }
}

#[test]
fn a_text_in_a_list_may_have_backslashes_before_its_quotes() {
    for variable in ["QUOTED", "PLAIN"] {
        holds(&format!(r#"var:{variable} is one of ['x', 'say \"hi\"']"#), true);
        holds(&format!(r#"var:{variable} is not one of ['say \"hi\"']"#), false);
        holds(&format!(r#"['say \"hi\"', 'x'] contains var:{variable}"#), true);
        holds(&format!(r#"['say \"hi\"', 'x'] not-contains var:{variable}"#), false);
    }
    holds("var:PLAIN is one of ['say hi']", false);
    // The content of a document is taken as it is.
    holds(r#"'["say \\\"hi\\\""]' contains var:PLAIN"#, false);
}

#[test]
fn a_name_in_a_path_may_have_its_quotes_escaped() {
    check(r#"'{"a\"b":1}' | json_path '$["a\"b"]'"#, "1");
    check(r#"'{"it\'s":2}' | json_path "$['it\\'s']""#, "2");
    check(r#"'{"a\\b":3}' | json_path '$["a\b"]'"#, "3");
    check(r#"'{"a\\":4}' | json_path '$["a\"]'"#, "4");
}

#[test]
fn what_can_never_be_is_said_clearly() {
    refused("within -1s of span[]", "nothing is less than no time away");
    refused("99999999999999999999 of attr:x = 1", "there are never so many spans");
    refused("at most 99999999999999999999 of attr:x = 1", "there are never so many spans");
    for selector in ["span[]:nth_child(0)", "span[]:nth_child(00)"] {
        let parsed = lang::parse_selector(selector);
        // Tracetest accepts it, and selects nothing.
        assert!(parsed.is_valid(), "{selector}: {:?}", parsed.diagnostics);
        assert_eq!(parsed.diagnostics[0].code, "no-such-position", "{selector}: {:?}", parsed.diagnostics);
    }
    let told = with_surroundings(|surroundings| {
        lang::resolve("'[1]' | json_path '$[99999999999999999999]'", surroundings).unwrap_err().text
    });
    assert!(told.contains("the index 99999999999999999999 is too large"), "{told}");
}

#[test]
fn a_rounded_quotient_goes_on_as_a_rounded_number() {
    check("10 / 3", "3.3333333333333335");
    check("10 / 3 * 3", "10");
    holds("10 / 3 * 3 = 10", true);
    check("1 / 3 + 1 / 3 + 1 / 3", "1");
    check("0.1 + 0.2", "0.3");
    check("9007199254740993 + 1", "9007199254740994");
    check("1.1 * 1.1", "1.21");
}

#[test]
fn classes_mean_what_they_mean_in_re2() {
    for (assertion, expected) in [
        ("'7' matches '^[[:digit:]]$'", true),
        ("'x' matches '^[[:^digit:]]$'", true),
        ("'[' matches '^[[:a]$'", true),
        ("'-' matches '^[+--]$'", true),
        ("',' matches '^[+--]$'", true),
        ("'-' matches '^[--a]$'", true),
        ("'A' matches '^[--a]$'", true),
        ("'-' matches '^[a-z-9]$'", true),
        ("'-' matches '^[\\d-.]$'", true),
        ("'/' matches '^[\\d-.]$'", false),
        ("'-' matches '^[a-]$'", true),
        ("'&' matches '^[a&&b]$'", true),
    ] {
        holds(assertion, expected);
    }
    for pattern in ["[[:foo:]]", "[a--b]", "[x[:^bar:]]"] {
        let assertion = format!("'o' matches '{pattern}'");
        let parsed = lang::parse_assertion(&assertion);
        let result = with_surroundings(|surroundings| assert_once(&parsed, surroundings));
        let error = format!("{:?}", result.error);
        assert!(error.contains("invalid regular expression"), "{assertion}: {error}");
    }
}

#[test]
fn what_a_path_or_a_pattern_does_not_find_does_not_exist() {
    let document = r#"'{"ok":1,"none":null,"list":[]}'"#;
    for (value, exists) in [
        ("json_path '$.ok'", true),
        ("json_path '$.none'", true),
        ("json_path '$.list'", true),
        ("json_path '$.error'", false),
        ("json_path '$.list[*]'", false),
        ("json_path '$..error'", false),
        ("regex 'ok'", true),
        ("regex 'error'", false),
        ("regex_group '(error)'", false),
    ] {
        holds(&format!("{document} | {value} exists"), exists);
        holds(&format!("{document} | {value} !exists"), !exists);
    }
}

#[test]
fn an_object_is_looked_for_among_the_objects_of_a_list() {
    let mixed = r#"'[1, {"a":1,"b":2}]'"#;
    let results = |list: &str| format!("'{{\"items\":{list}}}' | json_path '$.items[*]'");
    for list in [
        mixed,
        &results(r#"[{"a":1,"b":2}]"#),
        &results(r#"[{"a":1,"b":2},{"a":3}]"#),
        &results(r#"[1,{"a":1,"b":2}]"#),
    ] {
        for (right, expected) in [(r#"'{"a":1}'"#, true), (r#"'{"a":2}'"#, false)] {
            holds(&format!("{list} contains {right}"), expected);
            holds(&format!("{list} not-contains {right}"), !expected);
        }
    }
    holds(r#"'[1, 2]' contains '{"a":1}'"#, false);
    holds(r#"'[1, 2]' not-contains '{"a":1}'"#, true);
}

#[test]
fn digits_in_quotes_are_text_in_a_list_too() {
    holds("1.1 is one of ['1.10']", false);
    holds("1.1 is not one of ['1.10']", true);
    holds("1.1 is one of [1.10]", true);
    holds("1.10 is one of ['1.10']", true);
    holds("200 is one of ['200', '201']", true);
}

#[test]
fn a_number_in_a_selector_keeps_its_sign_whatever_its_base() {
    for (written, meant) in [("-0x10", "-16"), ("0x10", "16"), ("-0b11", "-3"), ("-0o17", "-15")] {
        let parsed = lang::parse_selector(&format!("span[x = {written}]"));
        assert_eq!(parsed.tree, lang::parse_selector(&format!("span[x = {meant}]")).tree, "{written}");
    }
}

#[test]
fn braces_and_escapes_mean_what_they_mean_in_re2() {
    for (assertion, expected) in [
        (r#"'{"id":7}' matches '^{"id":\d+}$'"#, true),
        (r"'a{' matches '^a{$'", true),
        (r"'a{,2}' matches '^a{,2}$'", true),
        (r"'aa' matches '^a{,2}$'", false),
        (r"'aa' matches '^a{2}$'", true),
        (r"'aaa' matches '^a{2,}$'", true),
        (r"'aaaa' matches '^a{2,3}$'", false),
        (r"'<b>' matches '^\<b\>$'", true),
        (r"'b' matches '\<b\>'", false),
        (r"'<' matches '^[\<]$'", true),
        (r"'a.b{1}+' matches '^\Qa.b{1}\E\+$'", true),
        (r"'axb' matches '\Qa.b'", false),
        (r"'a.b' matches '\Qa.b'", true),
        (r"'A' matches '^\x{41}$'", true),
        (r"'ß' matches '^\p{Latin}$'", true),
        (r"'B' matches '^[\x{41}-\x{43}]$'", true),
    ] {
        holds(assertion, expected);
    }
    check(r#"'x {"id":7}' | regex '{"id":\d+}'"#, r#"{"id":7}"#);
}
