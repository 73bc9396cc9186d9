//! The grammar of expressions.

use super::Parser;
use super::trail::{SyntaxChoice, TokenKind};
use crate::lang::ast::{
    Aggregate, AggregateInput, Comparator, Expr, ExprKind, Filter, Operator, SourceRange,
};
use crate::lang::diagnostic::Diagnostic;
use crate::lang::print::is_attribute_character;
use crate::time;

const UNITS: [&str; 6] = ["ns", "us", "ms", "s", "m", "h"];

impl<'s> Parser<'s> {
    pub(super) fn whole_expression(&mut self) -> Expr {
        let start = self.cursor.at;
        let tree = self.expression();
        self.skip();
        if !self.cursor.at_end() && tree.is_some() {
            self.unexpected("unexpected-text", "an operator, a filter or the end of the expression");
        }
        self.cursor.at = self.cursor.text.len();
        tree.unwrap_or(Expr { kind: ExprKind::Hole, place: self.span(start).into() })
    }

    pub(super) fn expression(&mut self) -> Option<Expr> {
        self.skip();
        let start = self.cursor.at;
        let value = self.deeper(Self::sum)??;
        let mut end = self.cursor.at;
        let mut filters = Vec::new();
        loop {
            self.skip();
            self.want(|| SyntaxChoice::AfterValue);
            if !self.eat_token("|", TokenKind::Operator) {
                break;
            }
            filters.push(self.filter()?);
            end = self.cursor.at;
        }
        if filters.is_empty() {
            return Some(value);
        }
        // Filters of a value that has filters already are appended to them.
        let (input, filters) = match value.kind {
            ExprKind::Filtered { input, filters: mut earlier } => {
                earlier.append(&mut filters);
                (input, earlier)
            }
            kind => (Box::new(Expr { kind, place: value.place }), filters),
        };
        Some(Expr {
            kind: ExprKind::Filtered { input, filters },
            place: (self.base + start..self.base + end).into(),
        })
    }

    fn filter(&mut self) -> Option<Filter> {
        self.part()?;
        self.skip();
        self.want(|| SyntaxChoice::Filter);
        let name_at = self.cursor.at;
        let name = self.identifier();
        self.token(TokenKind::Filter, name_at);
        if name.is_empty() {
            self.unexpected("expected-filter", "the name of a filter after `|`");
            return None;
        }
        let place = SourceRange(self.span(name_at));
        let mut arguments = Vec::new();
        let mut end = self.cursor.at;
        loop {
            self.skip();
            if !self.at_argument() {
                break;
            }
            arguments.push(self.deeper(Self::term)??);
            end = self.cursor.at;
        }
        self.cursor.at = end;
        Some(Filter { name: name.to_owned(), place, arguments })
    }

    fn at_argument(&mut self) -> bool {
        let mut ahead = self.cursor;
        let Some(c) = ahead.bump() else { return false };
        match c {
            '"' | '\'' | '[' | '(' => true,
            '-' => ahead.peek().is_some_and(|c| c.is_ascii_digit()),
            c if c.is_ascii_digit() => true,
            c if c.is_ascii_alphabetic() => {
                let mut ahead = self.cursor;
                let word = ahead.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
                !(word.starts_with("contains")
                    || matches!(word, "is" | "exists")
                    || Comparator::ALL.iter().any(|comparator| comparator.as_str() == word)
                    || word.starts_with("not-contains"))
            }
            _ => false,
        }
    }

    fn sum(&mut self) -> Option<Expr> {
        self.operation(&[("+", Operator::Add), ("-", Operator::Subtract)], Self::product)
    }

    fn product(&mut self) -> Option<Expr> {
        self.operation(&[("*", Operator::Multiply), ("/", Operator::Divide)], Self::term)
    }

    fn operation(
        &mut self,
        operators: &[(&str, Operator)],
        operand: fn(&mut Self) -> Option<Expr>,
    ) -> Option<Expr> {
        self.skip();
        let start = self.cursor.at;
        let value = operand(self)?;
        let mut rest = Vec::new();
        loop {
            self.skip();
            let found = operators.iter().find(|(sign, _)| self.cursor.starts_with(sign));
            let Some((sign, operator)) = found else { break };
            self.eat_token(sign, TokenKind::Operator);
            rest.push((*operator, operand(self)?));
        }
        let Some((_, last)) = rest.last() else { return Some(value) };
        let place = SourceRange(self.base + start..last.place.0.end);
        let same_level = |earlier: &[(Operator, Expr)]| {
            earlier.iter().all(|(operator, _)| operators.iter().any(|(_, own)| own == operator))
        };
        // Parentheses around the first operands change nothing: evaluation is from left to right anyway.
        let (first, rest) = match value.kind {
            ExprKind::Calculation { first, rest: mut earlier } if same_level(&earlier) => {
                earlier.append(&mut rest);
                (first, earlier)
            }
            kind => (Box::new(Expr { kind, place: value.place }), rest),
        };
        Some(Expr { kind: ExprKind::Calculation { first, rest }, place })
    }

    pub(super) fn term(&mut self) -> Option<Expr> {
        self.part()?;
        self.skip();
        self.want(|| SyntaxChoice::Term);
        let start = self.cursor.at;
        let kind = match self.cursor.peek() {
            Some('"' | '\'') => ExprKind::Text(self.quoted()?),
            Some('[') => {
                self.eat_token("[", TokenKind::Punctuation);
                ExprKind::Array(self.list("]")?)
            }
            Some('(') => {
                self.eat_token("(", TokenKind::Punctuation);
                let inner = self.expression()?;
                self.skip();
                if !self.eat_token(")", TokenKind::Punctuation) {
                    self.unexpected("unclosed-parenthesis", "`)`");
                    return None;
                }
                self.beyond(start);
                inner.kind
            }
            Some(c) if c.is_ascii_digit() => self.noted_number(start)?,
            Some('-') if self.cursor.rest()[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                self.cursor.bump();
                self.beyond(start);
                self.noted_number(start)?
            }
            Some(c) if c.is_ascii_alphabetic() => self.word_term(start)?,
            _ => {
                self.unexpected("expected-value", "a value");
                if self.cursor.peek().is_some_and(|c| matches!(c, '“' | '”' | '‘' | '’')) {
                    self.help("write straight quotes instead of typographic ones");
                }
                return None;
            }
        };
        Some(Expr { kind, place: self.span(start).into() })
    }

    fn word_term(&mut self, start: usize) -> Option<ExprKind> {
        if self.cursor.eat("attr:") {
            self.want(|| SyntaxChoice::Attribute);
            let name = self.attribute_name(start);
            self.token(TokenKind::Attribute, start);
            return name.map(ExprKind::Attribute);
        }
        for prefix in ["env:", "var:"] {
            if self.cursor.eat(prefix) {
                self.want(|| SyntaxChoice::Variable);
                let name = self.cursor.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
                if name.is_empty() || name.starts_with('.') {
                    self.unexpected("expected-variable", "the name of a variable right after the colon");
                    return None;
                }
                self.token(TokenKind::Variable, start);
                return Some(ExprKind::Variable(name.to_owned()));
            }
        }
        let name = self.identifier();
        let name_end = self.cursor.at;
        self.skip_if_before("(");
        if self.cursor.starts_with("(") {
            self.token_at(TokenKind::Function, start..name_end);
            self.eat_token("(", TokenKind::Punctuation);
            return self.call(name, start);
        }
        match name {
            "true" | "false" => {
                self.token(TokenKind::Bool, start);
                self.beyond(start);
                return Some(ExprKind::Bool(name == "true"));
            }
            _ => {}
        }
        let mut end = self.cursor;
        end.take_while(is_attribute_character);
        let word = end.since(start);
        let span = self.base + start..self.base + end.at;
        self.report(
            Diagnostic::error("bare-word", span, format!("the word `{word}` is not a value"))
                .labelled("not a value")
                .helped(if word.contains('.') {
                    format!("write `attr:{word}` for the attribute, or '{word}' for the text")
                } else {
                    format!("write '{word}' for the text, or `attr:{word}` for the attribute")
                }),
        );
        self.cursor = end;
        None
    }

    fn attribute_name(&mut self, start: usize) -> Option<String> {
        if self.cursor.peek().is_some_and(|c| matches!(c, '"' | '\'')) {
            let parts = self.quoted()?;
            self.beyond(start);
            return if let [crate::lang::ast::Part::Literal(name)] = parts.as_slice() {
                Some(name.clone())
            } else {
                let span = self.span(start);
                self.report(Diagnostic::error(
                    "expected-attribute",
                    span,
                    "an attribute's name is plain text",
                ));
                None
            };
        }
        let name = self.cursor.take_while(is_attribute_character);
        if name.is_empty() || name.starts_with(['.', '-']) {
            self.cursor.at -= name.len();
            self.unexpected("expected-attribute", "the name of an attribute right after `attr:`");
            return None;
        }
        Some(name.to_owned())
    }

    fn call(&mut self, name: &'s str, start: usize) -> Option<ExprKind> {
        let Some(function) = Aggregate::parse(name) else {
            let arguments = self.list(")")?;
            return Some(ExprKind::Call { name: name.to_owned(), arguments });
        };
        self.skip();
        self.want(|| SyntaxChoice::Step);
        let over = if self.cursor.starts_with(")") {
            AggregateInput::Own(None)
        } else if self.at_word("span") {
            let selector = self.deeper(Self::selector)?;
            AggregateInput::Selection { selector, attribute: None }
        } else {
            AggregateInput::Own(Some(Box::new(self.expression()?)))
        };
        self.skip();
        if !self.eat_token(")", TokenKind::Punctuation) {
            self.unexpected("unclosed-parenthesis", "`)`");
            return None;
        }
        let over = match over {
            AggregateInput::Selection { selector, .. } => {
                let dot = self.cursor.at;
                let attribute = if self.cursor.eat(".") {
                    self.want(|| SyntaxChoice::Attribute);
                    let name = self.attribute_name(start);
                    self.token(TokenKind::Attribute, dot);
                    Some(name?)
                } else {
                    None
                };
                AggregateInput::Selection { selector, attribute }
            }
            over @ AggregateInput::Own(_) => over,
        };
        self.beyond(start);
        Some(ExprKind::Aggregate { function, over })
    }

    /// Reads the items up to `close`, and consumes it.
    fn list(&mut self, close: &str) -> Option<Vec<Expr>> {
        let mut items = Vec::new();
        self.skip();
        if self.eat_token(close, TokenKind::Punctuation) {
            return Some(items);
        }
        loop {
            self.skip();
            let start = self.cursor.at;
            let item = self.expression()?;
            if matches!(item.kind, ExprKind::Calculation { .. } | ExprKind::Filtered { .. }) {
                self.beyond(start);
            }
            items.push(item);
            self.skip();
            if self.eat_token(close, TokenKind::Punctuation) {
                return Some(items);
            }
            if !self.eat_token(",", TokenKind::Punctuation) {
                self.unexpected("unclosed-list", &format!("`,` or `{close}`"));
                return None;
            }
        }
    }

    fn noted_number(&mut self, start: usize) -> Option<ExprKind> {
        let number = self.number_literal(start)?;
        let is_duration = matches!(number, ExprKind::Duration(_));
        self.token(if is_duration { TokenKind::Duration } else { TokenKind::Number }, start);
        Some(number)
    }

    /// Reads a number, or a duration if a unit follows; a sign may precede it.
    fn number_literal(&mut self, start: usize) -> Option<ExprKind> {
        self.cursor.take_while(|c| c.is_ascii_digit());
        let mut ahead = self.cursor;
        if ahead.eat(".") && !ahead.take_while(|c| c.is_ascii_digit()).is_empty() {
            self.cursor = ahead;
        }
        let number = self.cursor.since(start);
        let mut ahead = self.cursor;
        ahead.eat(" ");
        let unit = ahead.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        if UNITS.contains(&unit) {
            self.cursor = ahead;
            return self.duration(start, format!("{number}{unit}")).map(ExprKind::Duration);
        }
        let mut ahead = self.cursor;
        ahead.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
        let written = ahead.since(start);
        if written.ends_with(|c: char| c.is_ascii_alphabetic()) && time::parse_duration(written).is_some() {
            self.beyond(start);
            self.cursor = ahead;
            return self.duration(start, written.to_owned()).map(ExprKind::Duration);
        }
        let glued = self.cursor.peek().is_some_and(|c| c.is_alphanumeric() || c == '_');
        if glued && !self.cursor.starts_with("contains") && !self.cursor.starts_with("not-contains") {
            let rest = self.cursor.at;
            self.cursor.take_while(|c| c.is_alphanumeric() || c == '_');
            let span = self.span(rest);
            self.report(
                Diagnostic::error(
                    "invalid-number",
                    span,
                    "the number is followed by something that is no unit",
                )
                .labelled("not a unit")
                .helped("the units of time are ns, us, ms, s, m, h and d, the largest first: `1h30m`"),
            );
            return None;
        }
        Some(ExprKind::Number(number.to_owned()))
    }

    fn identifier(&mut self) -> &'s str {
        if self.cursor.peek().is_some_and(|c| c.is_ascii_alphabetic()) {
            self.cursor.take_while(|c| c.is_ascii_alphanumeric() || c == '_')
        } else {
            ""
        }
    }

    /// Consumes this word if it is here as a whole; a dash is part of a word.
    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let mut ahead = self.cursor;
        let here = ahead.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')) == word;
        if here {
            self.cursor = ahead;
        }
        here
    }

    /// Skips blanks.
    pub(super) fn skip(&mut self) {
        self.cursor.take_while(is_blank);
    }

    fn skip_if_before(&mut self, sign: &str) {
        let mut ahead = self.cursor;
        ahead.take_while(is_blank);
        if ahead.starts_with(sign) {
            self.cursor = ahead;
        }
    }
}

pub(super) fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\u{c}' | '\r')
}
