//! Texts made to keep the parser busy: each is parsed quickly, valid or not.

use std::time::{Duration, Instant};

use qualitytrace_core::lang::{parse_assertion, parse_expression, parse_selector, parse_template};

/// Far more than any of them takes, and far less than a parser with exponential time.
const DEADLINE: Duration = Duration::from_secs(20);

#[test]
fn what_stands_deep_inside_each_other_is_read_at_once() {
    let repeated = |open: &str, middle: &str, close: &str, times: usize| {
        format!("{}{middle}{}", open.repeat(times), close.repeat(times))
    };
    let began = Instant::now();
    for times in [10, 47, 60, 2_000] {
        for text in [
            repeated("${\"", "1", "\"}", times),
            repeated("${\"", "", "", times),
            repeated("${'${\"", "x", "\"}'}", times),
            repeated("${\"a${", "", "}", times),
            repeated("${\"\\", "\"", "}", times),
            repeated("${(", "1", ")}", times),
            repeated("${\"", "1", "}", times),
            repeated("'${", "1", "}'", times),
            repeated("(", "1", ")", times),
            repeated("span[a = \"", "", "\"]", times),
            repeated("span:has(", "span", ")", times),
            repeated("not (", "a = 1", ")", times),
            repeated("1 + (", "2", ") | length", times),
        ] {
            let template = parse_template(&text);
            let is_closed = text.starts_with("${\"${") && text.ends_with("\"}\"}");
            assert!(times < 60 || !is_closed || !template.is_valid(), "{times} {text}");
            let _ = (parse_expression(&text), parse_assertion(&text), parse_selector(&text));
        }
    }
    assert!(began.elapsed() < DEADLINE, "{:?}", began.elapsed());
}

#[test]
fn what_is_not_too_deep_is_understood() {
    let nested = format!("{}1{}", "${\"".repeat(10), "\"}".repeat(10));
    assert!(parse_template(&nested).is_valid());
}
