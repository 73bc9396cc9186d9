//! The public compliance cases of JSONPath (RFC 9535), as far as they apply to the dialect of Tracetest's files.
//!
//! The cases are those of <https://github.com/jsonpath-standard/jsonpath-compliance-test-suite>, one in a line. Where
//! the dialect differs, a rule excludes the cases and says why; an excluded case that complies is reported, too.

use super::Path;
use crate::budget::Budget;
use crate::json::{self, Json};

const CASES: &str = include_str!("../../../tests/data/jsonpath/cases.json");

struct Case {
    name: String,
    selector: String,
    document: Json,
    /// The answers that the standard allows; none where the selector is invalid.
    results: Vec<Json>,
}

/// What the dialect does instead of the standard, and the cases that show it.
type Rule = (&'static str, fn(&Case) -> bool);

const RULES: [Rule; 15] = [
    ("filters have no functions", |case| {
        let functions = ["count(", "length(", "match(", "search(", "value("];
        !case.results.is_empty() && functions.iter().any(|function| case.selector.contains(function))
    }),
    ("a name in quotes is taken as it is; the only escape is a backslash before the quote", |case| {
        let is_plain = ["double quotes, escaped double quote", "single quotes, escaped single quote"]
            .iter()
            .any(|plain| case.name.ends_with(plain));
        case.name.starts_with("name selector, ")
            && (case.selector.contains(|c: char| c < ' ') || (case.selector.contains('\\') && !is_plain))
    }),
    ("blanks stand inside brackets only", |case| {
        ["between root and bracket", "between bracket and bracket", "between root and dot"]
            .iter()
            .any(|place| case.name.ends_with(place))
    }),
    ("a union has names only or indexes only", |case| {
        let unions = ["basic, multiple selectors, ", "filter, multiple selectors"];
        case.name == "filter, non-singular existence, multiple"
            || (unions.iter().any(|start| case.name.starts_with(start))
                && !case.results.is_empty()
                && !case.name.ends_with("duplicate index"))
    }),
    ("a descent visits children before the value itself", |case| {
        let is_nested = case.name.contains(", nested ");
        case.name == "basic, descendant segment, index"
            || (case.name.starts_with("basic, descendant segment, wildcard ") && is_nested)
    }),
    ("a missing value equals null", |case| {
        let names = ["filter, equals null, absent from data", "filter, not-equals null, absent from data"];
        names.contains(&case.name.as_str())
    }),
    ("only numbers and texts have an order", |case| {
        case.name.contains(" than or equal to ")
            && ["null", "true", "false"].iter().any(|value| case.name.ends_with(value))
    }),
    ("beside `&&` a false value is false, though it exists", |case| {
        case.name == "filter, exists and exists, data false"
    }),
    ("`|` belongs to a bare name: a blank stands before `||`", |case| {
        case.name == "filter, exists or exists, data false" || case.name.ends_with(" after ||")
    }),
    ("of a path with several results the first is compared", |case| {
        case.name.starts_with("filter, ")
            && case.name.contains(" non-singular query")
            && !case.name.contains(" query, combined, ")
    }),
    (
        "a number may lack digits around its point and have zeros before it, but no plus in its exponent",
        |case| {
            let parts = [
                "positive exponent",
                "exponent +",
                "invalid minus no int digit",
                "invalid 00",
                "leading 0",
                "no fractional digit",
            ];
            case.name.starts_with("filter, equals number, ")
                && parts.iter().any(|part| case.name.contains(part))
        },
    ),
    ("`&&` and `||` bind alike", |case| case.name == "filter, and binds more tightly than or"),
    ("a literal may stand beside `&&` and `||`", |case| {
        let starts = ["filter, and, ", "filter, or, "];
        starts.iter().any(|start| case.name.starts_with(start)) && case.name.ends_with("must be compared")
    }),
    ("an index has 64 bits and may have a sign and zeros before it", |case| {
        let parts = ["exact index - 1", "exact index + 1", "exact - 1", "exact + 1", "leading ", "-0"];
        let selectors = ["index selector, ", "slice selector, "];
        selectors.iter().any(|start| case.name.starts_with(start))
            && parts.iter().any(|part| case.name.contains(part))
    }),
    ("a bare name may begin with a digit", |case| case.name == "basic, name shorthand, number"),
];

fn cases() -> Vec<Case> {
    let budget = Budget::default();
    let Ok(Json::Array(cases)) = json::parse(CASES, &budget) else { panic!("the cases are no list") };
    let text = |case: &Json, name| match member(case, name) {
        Some(Json::String(text)) => text.clone(),
        other => panic!("{name} is {other:?}"),
    };
    let read = |case: &Json| Case {
        name: text(case, "name"),
        selector: in_parentheses(&text(case, "selector")),
        document: member(case, "document").cloned().unwrap_or(Json::Null),
        results: match (member(case, "results"), member(case, "invalid_selector")) {
            (Some(Json::Array(results)), None) => results.clone(),
            (None, Some(Json::Bool(true))) => Vec::new(),
            other => panic!("the answers are {other:?}"),
        },
    };
    cases.iter().map(read).collect()
}

fn member<'c>(case: &'c Json, name: &str) -> Option<&'c Json> {
    match case {
        Json::Object(members) => members.iter().find(|(known, _)| known == name).map(|(_, value)| value),
        _ => None,
    }
}

/// Writes every filter in parentheses, as the dialect demands: `[?@.a]` becomes `[?(@.a)]`.
fn in_parentheses(selector: &str) -> String {
    let mut out = String::new();
    // The signs that close what is open; `true` where a filter ends with them.
    let mut open: Vec<(char, bool)> = Vec::new();
    let mut quote = None;
    let mut chars = selector.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', Some(_)) => {
                out.push(c);
                out.extend(chars.next());
                continue;
            }
            (c, Some(closing)) if c == closing => quote = None,
            ('\'' | '"', None) => quote = Some(c),
            ('[', None) => open.push((']', false)),
            ('(', None) => open.push((')', false)),
            ('?', None) if open.last() == Some(&(']', false)) => {
                open.pop();
                open.push((']', true));
                out.push_str("?(");
                continue;
            }
            (']' | ',', None) if open.last() == Some(&(']', true)) => {
                out.push(')');
                open.pop();
                if c == ',' {
                    open.push((']', false));
                }
            }
            (']' | ')', None) => drop(open.pop()),
            _ => {}
        }
        out.push(c);
    }
    out
}

/// Compares the answer with the standard's; the error says how it differs.
fn comply(case: &Case) -> Result<(), String> {
    let budget = Budget::default();
    let path = match Path::parse(&case.selector) {
        Err(_) if case.results.is_empty() => return Ok(()),
        Err(error) => return Err(format!("it is invalid: {error}")),
        Ok(_) if case.results.is_empty() => return Err("it is valid".to_owned()),
        Ok(path) => path,
    };
    let found = path.find(&case.document, &budget).map_err(|exceeded| exceeded.to_string())?;
    let found = Json::Array(found.into_iter().map(std::borrow::Cow::into_owned).collect());
    for result in &case.results {
        if result.same(&found, &budget).map_err(|exceeded| exceeded.to_string())? {
            return Ok(());
        }
    }
    Err(format!("it finds {found:?}"))
}

#[test]
fn cases_that_apply_are_answered_as_the_standard_says() {
    let (mut checked, mut wrong) = (0, Vec::new());
    for case in cases().iter().filter(|case| !RULES.iter().any(|(_, excludes)| excludes(case))) {
        checked += 1;
        wrong.extend(comply(case).err().map(|how| format!("{}: {}: {how}", case.name, case.selector)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked >= 390, "{checked} cases are left");
}

#[test]
fn excluded_cases_differ_for_the_reason_that_is_given() {
    let cases = cases();
    for (reason, excludes) in RULES {
        let excluded: Vec<&Case> = cases.iter().filter(|case| excludes(case)).collect();
        assert!(!excluded.is_empty(), "no case shows that {reason}");
        let comply: Vec<&str> =
            excluded.iter().filter(|case| comply(case).is_ok()).map(|case| case.name.as_str()).collect();
        assert!(
            comply.is_empty(),
            "excluded because {reason}, but answered as the standard says: {comply:?}"
        );
    }
}
