//! The grammar of selectors: steps, combinators and pseudo-classes.

use super::Parser;
use super::trail::{SyntaxChoice, TokenKind};
use crate::lang::ast::{Chain, Combinator, Pseudo, Selector, Step};
use crate::lang::diagnostic::{Diagnostic, nearest};
use crate::lang::limits::MAX_DEPTH;

const PSEUDOS: [&str; 7] = ["first", "last", "nth_child", "root", "leaf", "has", "not"];

impl Parser<'_> {
    pub(super) fn whole_selector(&mut self) -> Selector {
        let selector = self.selector();
        self.blanks();
        if !self.cursor.at_end() {
            let code = "unexpected-text";
            let rest = self.cursor.rest();
            self.unexpected(code, "`span[` or the end of the selector");
            if rest.starts_with("and") || rest.starts_with("or") {
                self.help("to select the spans of either, separate the selectors with a comma; `and` and `or` stand inside the brackets");
            } else if rest.to_lowercase().starts_with("span") {
                self.help("the word is `span`, in lower case, followed by `[`");
            }
        }
        selector
    }

    /// Reads a comma list of chains, up to text that cannot continue it.
    pub(super) fn selector(&mut self) -> Selector {
        self.blanks();
        let start = self.cursor.at;
        let mut chains = Vec::new();
        if self.cursor.starts_with(",") {
            self.unexpected("expected-selector", "`span[` before the comma");
            self.comma();
        }
        let mut after_comma = false;
        loop {
            self.want(|| SyntaxChoice::Step);
            if !self.at_word("span") {
                if after_comma {
                    self.unexpected("expected-selector", "`span[` after the comma");
                }
                break;
            }
            match self.chain() {
                Some(chain) => chains.push(chain),
                None => break,
            }
            after_comma = self.comma();
            if !after_comma {
                break;
            }
        }
        Selector { chains, place: self.span(start).into() }
    }

    pub(super) fn chain(&mut self) -> Option<Chain> {
        let first = self.step()?;
        let mut rest = Vec::new();
        loop {
            self.blanks();
            self.want(|| SyntaxChoice::AfterStep);
            self.want(|| SyntaxChoice::Step);
            let start = self.cursor.at;
            let combinator = self.combinator();
            if combinator != Combinator::Descendant {
                self.beyond(start);
                self.blanks();
                self.want(|| SyntaxChoice::Step);
                if !self.at_word("span") {
                    self.unexpected("expected-selector", "`span[` after this sign");
                    break;
                }
            } else if !self.at_word("span") {
                break;
            }
            if rest.len() + 1 >= MAX_DEPTH {
                self.report_too_deep(self.cursor.at);
                self.cursor.at = self.cursor.text.len();
                return None;
            }
            rest.push((combinator, self.step()?));
        }
        Some(Chain { first, rest })
    }

    pub(super) fn combinator(&mut self) -> Combinator {
        for (sign, combinator) in
            [(">", Combinator::Child), ("~", Combinator::Sibling), ("+", Combinator::Next)]
        {
            if self.eat_token(sign, TokenKind::Operator) {
                return combinator;
            }
        }
        Combinator::Descendant
    }

    /// Reads `span[...]` and its pseudo-classes; the cursor is at `span`.
    pub(super) fn step(&mut self) -> Option<Step> {
        self.part()?;
        let start = self.cursor.at;
        self.cursor.at += "span".len();
        self.token(TokenKind::Keyword, start);
        self.blanks();
        if !self.eat_token("[", TokenKind::Punctuation) {
            self.unexpected("expected-bracket", "`[` after `span`");
            return None;
        }
        let open = self.span(self.cursor.at - 1);
        let condition = self.deeper(Self::conditions)?;
        self.blanks();
        if !self.eat_token("]", TokenKind::Punctuation) {
            if self.cursor.at_end() {
                self.ends_too_early();
                // An unclosed string contains the bracket.
                let swallowed = self.diagnostics.iter().any(|other| other.code == "unclosed-string");
                if swallowed {
                    return None;
                }
                self.report(
                    Diagnostic::error("unclosed-bracket", open, "this bracket is never closed")
                        .labelled("never closed")
                        .helped("add `]` after the last condition"),
                );
            } else {
                self.unexpected("unexpected-text", "a condition or `]`");
                self.recover_in_brackets();
            }
        }
        let mut pseudos = Vec::new();
        while let Some(pseudo) = self.deeper(Self::pseudo)? {
            self.add_pseudo(&mut pseudos, pseudo, start);
        }
        Some(Step { condition, pseudos, place: self.span(start).into() })
    }

    pub(super) fn add_pseudo(&mut self, pseudos: &mut Vec<Pseudo>, pseudo: Pseudo, start: usize) {
        let is_position = |pseudo: &Pseudo| matches!(pseudo, Pseudo::First | Pseudo::Last | Pseudo::Nth(_));
        if is_position(&pseudo) && pseudos.iter().any(is_position) {
            let span = self.span(start);
            self.report(
                Diagnostic::error("two-positions", span, "a selector can take only one position of its list")
                    .labelled("two positions")
                    .helped("keep one of `:first`, `:last` and `:nth_child(n)`"),
            );
        }
        pseudos.push(pseudo);
    }

    pub(super) fn recover_in_brackets(&mut self) {
        while let Some(c) = self.cursor.peek() {
            match c {
                '"' => {
                    let before = self.diagnostics.len();
                    self.selector_string();
                    self.diagnostics.truncate(before);
                }
                ']' => {
                    self.eat_token("]", TokenKind::Punctuation);
                    return;
                }
                _ => {
                    self.cursor.bump();
                }
            }
        }
    }

    pub(super) fn pseudo(&mut self) -> Option<Pseudo> {
        self.blanks();
        self.want(|| SyntaxChoice::PseudoClass);
        let start = self.cursor.at;
        if !self.cursor.eat(":") {
            return None;
        }
        self.blanks();
        let word_at = self.cursor.at;
        let word = self.cursor.take_while(is_identifier_part);
        if !PSEUDOS.contains(&word) {
            self.cursor.at = word_at;
            self.unexpected(
                "unknown-pseudo-class",
                "`first`, `last`, `nth_child(n)`, `root`, `leaf`, `has(...)` or `not(...)`",
            );
            if let Some(near) = nearest(word, PSEUDOS) {
                self.help(format!("did you mean `:{near}`?"));
            }
            self.cursor.take_while(is_identifier_part);
            return None;
        }
        self.token(TokenKind::PseudoClass, start);
        let pseudo = match word {
            "first" => Pseudo::First,
            "last" => Pseudo::Last,
            "nth_child" => return self.nth(),
            "root" => Pseudo::Root,
            "leaf" => Pseudo::Leaf,
            has_or_not => return self.inner_selector(has_or_not, start),
        };
        if matches!(pseudo, Pseudo::Root | Pseudo::Leaf) {
            self.beyond(start);
        }
        self.blanks();
        let open = self.cursor.at;
        if self.cursor.eat("(") {
            self.cursor.take_while(|c| c != ')');
            self.cursor.eat(")");
            let span = self.span(open);
            self.report(
                Diagnostic::error("unexpected-argument", span, format!("`:{word}` takes no argument"))
                    .labelled("not allowed here")
                    .helped("write `:nth_child(n)` for the n-th span"),
            );
        }
        Some(pseudo)
    }

    pub(super) fn nth(&mut self) -> Option<Pseudo> {
        self.blanks();
        let open = self.cursor.at;
        let number = self.eat_token("(", TokenKind::Punctuation).then(|| {
            self.blanks();
            let start = self.cursor.at;
            let digits = self.cursor.take_while(|c| c.is_ascii_digit());
            self.token(TokenKind::Number, start);
            self.blanks();
            digits.parse().ok().filter(|_| self.eat_token(")", TokenKind::Punctuation))
        });
        let Some(Some(number)) = number else {
            self.cursor.take_while(|c| c != ')' && c != ']' && c != ',');
            self.cursor.eat(")");
            let span = self.span(open);
            self.report(
                Diagnostic::error(
                    "expected-number",
                    span,
                    "`:nth_child` needs one whole number in parentheses",
                )
                .labelled("expected a whole number")
                .helped("write `:nth_child(2)` for the second span found"),
            );
            return None;
        };
        if number == 0 {
            let span = self.span(open);
            self.report(
                Diagnostic::warning(
                    "no-such-position",
                    span,
                    "`:nth_child` counts from 1: this selects nothing",
                )
                .labelled("no span is before the first")
                .helped("write `:nth_child(1)` for the first span found"),
            );
        }
        self.blanks();
        if self.cursor.starts_with("(") {
            self.unexpected("unexpected-argument", "one argument only");
            self.cursor.take_while(|c| c != ')');
            self.cursor.eat(")");
        }
        Some(Pseudo::Nth(number))
    }

    pub(super) fn inner_selector(&mut self, word: &str, start: usize) -> Option<Pseudo> {
        self.beyond(start);
        self.blanks();
        if !self.eat_token("(", TokenKind::Punctuation) {
            self.unexpected("expected-selector", "a selector in parentheses");
            return None;
        }
        self.blanks();
        let combinator = if word == "has" { self.combinator() } else { Combinator::Descendant };
        let inside = self.cursor.at;
        let selector = self.deeper(Self::selector)?;
        if word == "has" && selector.steps().any(Step::has_position) {
            let span = self.span(inside);
            self.report(
                Diagnostic::error(
                    "position-in-has",
                    span,
                    "`:has(...)` asks whether there is such a span, not which",
                )
                .labelled("`:first`, `:last` and `:nth_child` mean nothing here")
                .helped("leave the position out, or move it behind the whole selector"),
            );
        }
        self.blanks();
        if selector.chains.is_empty() {
            self.unexpected("expected-selector", "`span[`");
        }
        if !self.eat_token(")", TokenKind::Punctuation) {
            self.unexpected("unclosed-parenthesis", "`)`");
            return None;
        }
        Some(if word == "has" { Pseudo::Has { combinator, selector } } else { Pseudo::Not(selector) })
    }

    /// Skips blanks and comments.
    pub(super) fn blanks(&mut self) {
        loop {
            self.cursor.take_while(|c| matches!(c, ' ' | '\t' | '\r' | '\n'));
            let start = self.cursor.at;
            if self.cursor.starts_with("//") {
                self.cursor.take_while(|c| c != '\n');
                if self.cursor.at_end() {
                    self.ends_in_comment();
                }
            } else if self.cursor.starts_with("/*") {
                let Some(end) = self.cursor.rest()[2..].find("*/") else {
                    self.ends_in_comment();
                    return;
                };
                self.cursor.at += end + 4;
            } else {
                return;
            }
            self.token(TokenKind::Comment, start);
        }
    }

    pub(super) fn comma(&mut self) -> bool {
        self.blanks();
        let found = self.eat_token(",", TokenKind::Punctuation);
        self.blanks();
        found
    }

    /// Consumes this word if it is here as a whole.
    pub(super) fn word(&mut self, word: &str) -> bool {
        let here = self.at_word(word);
        if here {
            self.cursor.at += word.len();
        }
        here
    }

    pub(super) fn at_word(&mut self, word: &str) -> bool {
        let mut ahead = self.cursor;
        ahead.take_while(is_identifier_part) == word
    }
}

pub(super) fn is_identifier_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

pub(super) fn is_identifier_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
