//! Tokens and diagnostics of texts.

use proptest::prelude::*;
use qualitytrace_core::assist::check;
use qualitytrace_core::lang::{Form, TokenKind, diagnose};

use crate::properties::any_text;

pub(super) const FORMS: [Form; 4] = [Form::Selector, Form::Assertion, Form::Expression, Form::Template];

/// The tokens of a text, each as its kind and its characters.
fn tokens(text: &str, form: Form) -> Vec<(TokenKind, &str)> {
    check(text, form).tokens.into_iter().map(|token| (token.kind, &text[token.place])).collect()
}

#[test]
fn a_selector_is_coloured() {
    use TokenKind::*;
    let text = r#"span[kind = client not (a.b in ("x", 2ms) or n >= -1)] > span["q r" =~ "^a"]:nth_child(2) /* c */, span[ok=true]:has(> span[])"#;
    let expected = [
        (Keyword, "span"),
        (Punctuation, "["),
        (Attribute, "kind"),
        (Comparator, "="),
        (Word, "client"),
        (Keyword, "not"),
        (Punctuation, "("),
        (Attribute, "a.b"),
        (Comparator, "in"),
        (Punctuation, "("),
        (Text, "\"x\""),
        (Punctuation, ","),
        (Duration, "2ms"),
        (Punctuation, ")"),
        (Keyword, "or"),
        (Attribute, "n"),
        (Comparator, ">="),
        (Number, "-1"),
        (Punctuation, ")"),
        (Punctuation, "]"),
        (Operator, ">"),
        (Keyword, "span"),
        (Punctuation, "["),
        (Attribute, "\"q r\""),
        (Comparator, "=~"),
        (Text, "\"^a\""),
        (Punctuation, "]"),
        (PseudoClass, ":nth_child"),
        (Punctuation, "("),
        (Number, "2"),
        (Punctuation, ")"),
        (Comment, "/* c */"),
        (Punctuation, ","),
        (Keyword, "span"),
        (Punctuation, "["),
        (Attribute, "ok"),
        (Comparator, "="),
        (Bool, "true"),
        (Punctuation, "]"),
        (PseudoClass, ":has"),
        (Punctuation, "("),
        (Operator, ">"),
        (Keyword, "span"),
        (Punctuation, "["),
        (Punctuation, "]"),
        (Punctuation, ")"),
    ];
    assert_eq!(tokens(text, Form::Selector), expected);
}

#[test]
fn an_assertion_is_coloured() {
    use TokenKind::*;
    let text = r#"at least 2 of attr:a-b | json_path '$.x' + [1, 2s] != "v ${var:X} w""#;
    let expected = [
        (Keyword, "at least 2 of"),
        (Attribute, "attr:a-b"),
        (Operator, "|"),
        (Filter, "json_path"),
        (Text, "'$.x'"),
    ];
    assert_eq!(tokens(text, Form::Assertion)[..5], expected);
    let text = r#"first(span[name="a"]).x is not one of [uuid(), "v ${var:X} w", true]"#;
    let expected = [
        (Function, "first"),
        (Punctuation, "("),
        (Keyword, "span"),
        (Punctuation, "["),
        (Attribute, "name"),
        (Comparator, "="),
        (Text, "\"a\""),
        (Punctuation, "]"),
        (Punctuation, ")"),
        (Attribute, ".x"),
        (Comparator, "is not one of"),
        (Punctuation, "["),
        (Function, "uuid"),
        (Punctuation, "("),
        (Punctuation, ")"),
        (Punctuation, ","),
        (Text, "\"v"),
        (Punctuation, "${"),
        (Variable, "var:X"),
        (Punctuation, "}"),
        (Text, " w\""),
        (Punctuation, ","),
        (Bool, "true"),
        (Punctuation, "]"),
    ];
    assert_eq!(tokens(text, Form::Assertion), expected);
    let expected = [
        (Keyword, "within"),
        (Duration, "2s"),
        (Keyword, "of"),
        (Keyword, "span"),
        (Punctuation, "["),
        (Punctuation, "]"),
    ];
    assert_eq!(tokens("within 2s of span[]", Form::Assertion), expected);
}

#[test]
fn templates_and_broken_texts_are_coloured() {
    use TokenKind::*;
    let expected =
        [(Text, "http://é"), (Punctuation, "${"), (Variable, "var:H"), (Punctuation, "}"), (Text, "/x")];
    assert_eq!(tokens("http://é${var:H}/x", Form::Template), expected);
    let expected = [
        (Keyword, "span"),
        (Punctuation, "["),
        (Attribute, "a"),
        (Comparator, "="),
        (Invalid, "word"),
        (Invalid, "§"),
        (Punctuation, "]"),
        (Invalid, "rest"),
    ];
    assert_eq!(tokens("span[a = word §] rest", Form::Selector), expected);
    assert_eq!(tokens("span[a=\"x", Form::Selector)[4..], [(Text, "\"x")]);
}

#[test]
fn a_large_text_is_checked_in_bounds() {
    for (text, form) in [
        ("span[a=1] ".repeat(100_000), Form::Selector),
        ("x ".repeat(500_000), Form::Template),
        ("§ ".repeat(300_000), Form::Expression),
        ("\"${".repeat(300_000), Form::Expression),
        ("// c\n".repeat(200_000), Form::Selector),
    ] {
        let checked = check(&text, form);
        assert!(checked.tokens.len() <= 100_000 && checked.diagnostics.len() <= 100);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_tokens_of_any_text_are_in_order_and_cover_it(text in any_text()) {
        for form in FORMS {
            let checked = check(&text, form);
            prop_assert_eq!(&checked.diagnostics, &diagnose(&text, form));
            let mut end = 0;
            for token in &checked.tokens {
                let place = token.place.clone();
                prop_assert!(end <= place.start && place.start < place.end && place.end <= text.len());
                prop_assert!(text[end..place.start].trim().is_empty(), "{form:?} {text:?} {:?}", checked.tokens);
                end = place.end;
            }
            prop_assert!(text[end..].trim().is_empty(), "{form:?} {text:?} {:?}", checked.tokens);
            // What is valid has no part that the parser did not read.
            let is_valid = !checked.diagnostics.iter().any(qualitytrace_core::lang::Diagnostic::is_error);
            let is_unread = checked.tokens.iter().any(|token| token.kind == TokenKind::Invalid);
            prop_assert!(!(is_valid && is_unread), "{form:?} {text:?} {:?}", checked.tokens);
        }
    }
}
