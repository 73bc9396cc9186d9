//! The grammar of selectors: conditions in brackets.

use super::Parser;
use super::selector::{is_identifier_part, is_identifier_start};
use super::trail::{SyntaxChoice, TokenKind};
use crate::lang::ast::{Clause, Comparator, Condition, Name, SourceRange, Test};
use crate::lang::diagnostic::Diagnostic;

impl Parser<'_> {
    pub(super) fn conditions(&mut self) -> Condition {
        self.blanks();
        self.want(|| SyntaxChoice::Condition);
        if self.cursor.peek().is_none_or(|c| c == ']') {
            return Condition::All(Vec::new());
        }
        if self.cursor.starts_with(",") {
            self.unexpected("expected-attribute", "a condition before the comma");
            self.comma();
        }
        self.any_condition()
    }

    pub(super) fn any_condition(&mut self) -> Condition {
        let mut any = vec![self.all_conditions()];
        while let Some(start) = self.keyword("or") {
            self.beyond(start);
            any.push(self.all_conditions());
        }
        if any.len() == 1 { any.remove(0) } else { Condition::Any(any) }
    }

    pub(super) fn all_conditions(&mut self) -> Condition {
        let mut all = Vec::new();
        loop {
            let start = self.cursor.at;
            let condition = self.one_condition();
            let is_broken = condition.is_none();
            all.extend(condition);
            // After an invalid condition the next one may be valid.
            if is_broken && self.cursor.at == start {
                break;
            }
            self.blanks();
            self.want(|| SyntaxChoice::AfterCondition);
            self.want(|| SyntaxChoice::Condition);
            if let Some(start) = self.keyword("and") {
                self.beyond(start);
                continue;
            }
            if self.comma() {
                continue;
            }
            if self.at_keyword("or") || !self.at_condition() {
                break;
            }
        }
        if all.len() == 1 { all.remove(0) } else { Condition::All(all) }
    }

    pub(super) fn at_condition(&mut self) -> bool {
        self.blanks();
        self.cursor.peek().is_some_and(|c| is_identifier_start(c) || matches!(c, '"' | '(' | '!'))
    }

    pub(super) fn one_condition(&mut self) -> Option<Condition> {
        self.blanks();
        let start = self.cursor.at;
        if self.keyword("not").is_some() || self.eat_token("!", TokenKind::Operator) {
            self.beyond(start);
            let inner = self.deeper(Self::one_condition)??;
            return Some(Condition::Not(Box::new(inner)));
        }
        if self.eat_token("(", TokenKind::Punctuation) {
            let inner = self.deeper(Self::any_condition)?;
            self.blanks();
            if !self.eat_token(")", TokenKind::Punctuation) {
                self.unexpected("unclosed-parenthesis", "`)`");
            }
            self.beyond(start);
            return Some(inner);
        }
        self.clause().map(Condition::Clause)
    }

    pub(super) fn clause(&mut self) -> Option<Clause> {
        self.part()?;
        let start = self.cursor.at;
        let name = self.name()?;
        let test = self.test(&name)?;
        Some(Clause { name, test, place: self.span(start).into() })
    }

    pub(super) fn name(&mut self) -> Option<Name> {
        self.blanks();
        self.want(|| SyntaxChoice::Condition);
        let start = self.cursor.at;
        if self.cursor.peek() == Some('"') {
            let text = self.selector_string();
            self.token(TokenKind::Attribute, start);
            let text = text?;
            self.beyond(start);
            return Some(Name { text, quoted: true, place: self.span(start).into() });
        }
        if !self.cursor.peek().is_some_and(is_identifier_start) {
            self.unexpected("expected-attribute", "the name of an attribute");
            if self.cursor.peek().is_some_and(|c| matches!(c, '“' | '”')) {
                self.help("write straight quotes (\") instead of typographic ones");
            }
            return None;
        }
        let mut text = String::new();
        let mut end = self.cursor.at;
        loop {
            let at = self.cursor.at;
            let segment = self.cursor.take_while(|c| is_identifier_part(c) || c == '-');
            if segment.is_empty() {
                self.unexpected("expected-attribute", "the rest of the attribute's name after the dot");
                return None;
            }
            if segment.contains('-') || segment.starts_with(|c| !is_identifier_start(c)) {
                self.beyond(at);
            }
            text.push_str(segment);
            end = end.max(self.cursor.at);
            self.blanks();
            if !self.cursor.eat(".") {
                self.cursor.at = end;
                break;
            }
            text.push('.');
            self.blanks();
        }
        self.token(TokenKind::Attribute, start);
        Some(Name { text, quoted: false, place: self.span(start).into() })
    }

    pub(super) fn test(&mut self, name: &Name) -> Option<Test> {
        self.blanks();
        self.want(|| SyntaxChoice::Test);
        let start = self.cursor.at;
        if self.cursor.starts_with("==") {
            self.cursor.at += 2;
            let span = self.span(start);
            self.report(
                Diagnostic::error("unknown-operator", span, "there is no operator `==`")
                    .labelled("not an operator")
                    .helped("write `=` to compare"),
            );
            self.literal(name);
            return None;
        }
        for (sign, negated) in [("=~", false), ("!~", true)] {
            if self.eat_token(sign, TokenKind::Comparator) {
                self.beyond(start);
                return self.pattern(negated);
            }
        }
        for comparator in [
            Comparator::NotEqual,
            Comparator::LessOrEqual,
            Comparator::GreaterOrEqual,
            Comparator::Equal,
            Comparator::Less,
            Comparator::Greater,
        ] {
            if self.eat_token(comparator.as_str(), TokenKind::Comparator) {
                if comparator != Comparator::Equal {
                    self.beyond(start);
                }
                return Some(Test::Compare(comparator, self.literal(name)?));
            }
        }
        if self.cursor.eat("!") {
            self.blanks();
            if self.word("exists") {
                self.token(TokenKind::Comparator, start);
                self.beyond(start);
                return Some(Test::Exists { negated: true });
            }
            self.unexpected("expected-operator", "`exists` after `!`");
            return None;
        }
        self.word_test(name, start)
    }

    pub(super) fn word_test(&mut self, name: &Name, start: usize) -> Option<Test> {
        let mut negated = false;
        if self.word("not") {
            negated = true;
            self.blanks();
            self.cursor.eat("-");
            self.blanks();
        }
        if self.word("contains") {
            self.token(TokenKind::Comparator, start);
            let comparator = if negated {
                self.beyond(start);
                Comparator::NotContains
            } else {
                Comparator::Contains
            };
            return Some(Test::Compare(comparator, self.literal(name)?));
        }
        if self.word("in") {
            self.token(TokenKind::Comparator, start);
            self.beyond(start);
            return self.choices(name, negated);
        }
        if self.word("matches") {
            self.token(TokenKind::Comparator, start);
            self.beyond(start);
            return self.pattern(negated);
        }
        if !negated {
            for (word, comparator) in
                [("startsWith", Comparator::StartsWith), ("endsWith", Comparator::EndsWith)]
            {
                if self.word(word) {
                    self.token(TokenKind::Comparator, start);
                    self.beyond(start);
                    return Some(Test::Compare(comparator, self.literal(name)?));
                }
            }
        }
        if self.word("exists") {
            self.token(TokenKind::Comparator, start);
            self.beyond(start);
            return Some(Test::Exists { negated });
        }
        self.unexpected("expected-operator", "an operator like `=`, `!=`, `contains` or `exists`");
        if self.cursor.peek().is_none_or(|c| c == ']') {
            self.help(format!("write `{} exists` to select the spans that have it", name.text));
        }
        None
    }

    pub(super) fn choices(&mut self, name: &Name, negated: bool) -> Option<Test> {
        self.blanks();
        if !self.eat_token("(", TokenKind::Punctuation) {
            self.unexpected("expected-list", "a list in parentheses after `in`");
            self.help("write `in (200, 201)`");
            return None;
        }
        let mut choices = Vec::new();
        loop {
            self.part()?;
            choices.push(self.literal(name)?);
            if !self.comma() {
                break;
            }
        }
        self.blanks();
        if !self.eat_token(")", TokenKind::Punctuation) {
            self.unexpected("unclosed-parenthesis", "`,` or `)`");
            return None;
        }
        Some(Test::OneOf { negated, choices })
    }

    pub(super) fn pattern(&mut self, negated: bool) -> Option<Test> {
        self.blanks();
        let start = self.cursor.at;
        if self.cursor.peek() != Some('"') {
            self.unexpected("expected-pattern", "a regular expression in double quotes");
            return None;
        }
        let pattern = self.selector_string();
        self.token(TokenKind::Text, start);
        let pattern = pattern?;
        let place = SourceRange(self.span(start));
        if let Err(error) = crate::lang::pattern::Pattern::new(&pattern) {
            let span = place.0.clone();
            self.report(Diagnostic::error(
                "invalid-regex",
                span,
                format!("the regular expression is invalid: {error}"),
            ));
        }
        Some(Test::Matches { negated, pattern, place })
    }

    /// Consumes `and`, `or` or `not`, unless it is the name of an attribute; returns its position.
    pub(super) fn keyword(&mut self, word: &str) -> Option<usize> {
        if !self.at_keyword(word) {
            return None;
        }
        let start = self.cursor.at;
        self.cursor.at += word.len();
        self.token(TokenKind::Keyword, start);
        Some(start)
    }

    pub(super) fn at_keyword(&mut self, word: &str) -> bool {
        self.blanks();
        let before = self.cursor;
        if !self.word(word) {
            return false;
        }
        self.blanks();
        let next = self.cursor.peek();
        let is_name = next.is_none_or(|c| matches!(c, '=' | '.' | '<' | '>' | '-' | ']' | ','))
            || self.cursor.starts_with("!=")
            || self.cursor.starts_with("!~")
            || self.at_word("contains");
        self.cursor = before;
        !is_name
    }
}
