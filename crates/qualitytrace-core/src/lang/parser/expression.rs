//! The grammar of assertions and expressions.

use super::Parser;
use crate::lang::ast::{
    Aggregate, Assertion, Claim, Comparator, Expr, ExprKind, Filter, Operator, Over, Place, Quantifier,
    Relation,
};
use crate::lang::diagnostic::Diagnostic;
use crate::lang::print::is_attribute_character;
use crate::time;

const UNITS: [&str; 6] = ["ns", "us", "ms", "s", "m", "h"];

impl<'s> Parser<'s> {
    pub(super) fn whole_assertion(&mut self) -> Assertion {
        let start = self.cursor.at;
        let quantifier = self.quantifier();
        let claim = self.claim();
        self.skip();
        if claim.is_some() && !self.cursor.at_end() {
            self.unexpected("unexpected-text", "the end of the assertion");
            let rest = self.cursor.rest();
            if rest.starts_with("and") || rest.starts_with("or") {
                self.help("write each condition as an assertion of its own");
            }
        }
        self.cursor.at = self.cursor.text.len();
        Assertion { quantifier, claim: claim.unwrap_or(Claim::Hole), place: self.span(start).into() }
    }

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

    fn quantifier(&mut self) -> Quantifier {
        self.skip();
        let start = self.cursor.at;
        let quantifier = self.try_quantifier();
        if let Some(quantifier) = quantifier {
            self.beyond(start);
            quantifier
        } else {
            self.cursor.at = start;
            Quantifier::All
        }
    }

    fn try_quantifier(&mut self) -> Option<Quantifier> {
        let mut ahead = self.cursor;
        let word = ahead.take_while(|c| c.is_ascii_alphabetic());
        ahead.take_while(is_blank);
        let simple = match word {
            "all" => Some(Quantifier::All),
            "any" => Some(Quantifier::Any),
            "none" => Some(Quantifier::None),
            _ => None,
        };
        if simple.is_some() && !ahead.starts_with("(") {
            self.cursor = ahead;
            return simple;
        }
        let bound: fn(u64) -> Quantifier = match word {
            "" | "exactly" => Quantifier::Exactly,
            "at" => {
                let limit = ahead.take_while(|c| c.is_ascii_alphabetic());
                ahead.take_while(is_blank);
                match limit {
                    "least" => Quantifier::AtLeast,
                    "most" => Quantifier::AtMost,
                    _ => return None,
                }
            }
            _ => return None,
        };
        let start = ahead.at;
        let digits = ahead.take_while(|c| c.is_ascii_digit());
        let span = self.base + start..self.base + ahead.at;
        let blank = !ahead.take_while(is_blank).is_empty();
        let is_quantifier = !digits.is_empty()
            && blank
            && ahead.take_while(|c| c.is_ascii_alphanumeric() || c == '_') == "of";
        if !is_quantifier {
            return None;
        }
        self.cursor = ahead;
        Some(bound(digits.parse().unwrap_or_else(|_| {
            self.report(
                Diagnostic::error("number-too-large", span, "there are never so many spans")
                    .labelled("too large")
                    .helped("write how many of the spans are meant, like `2 of`"),
            );
            u64::MAX
        })))
    }

    fn claim(&mut self) -> Option<Claim> {
        self.skip();
        if let Some(claim) = self.time_claim() {
            return claim;
        }
        let left = self.expression()?;
        self.skip();
        let start = self.cursor.at;
        if self.cursor.starts_with("==") {
            self.cursor.take_while(|c| c == '=');
            let span = self.span(start);
            self.report(
                Diagnostic::error("unknown-operator", span, "there is no operator `==`")
                    .labelled("not an operator")
                    .helped("write `=` to compare"),
            );
            self.expression();
            return None;
        }
        if let Some(comparator) = self.comparator() {
            let right = self.expression()?;
            return Some(Claim::Compare { left, comparator, right });
        }
        if self.cursor.eat("!exists") || self.take_word("exists") {
            let negated = self.cursor.since(start).starts_with('!');
            self.beyond(start);
            return Some(Claim::Exists { left, negated });
        }
        if self.take_word("is") {
            return self.one_of(left, start);
        }
        self.unexpected("expected-comparator", "a comparator like `=`, `<` or `contains`");
        let rest = self.cursor.rest();
        if rest.starts_with(['+', '-', '*', '/']) && matches!(left.kind, ExprKind::Filtered { .. }) {
            self.help("put the filtered value in parentheses to calculate with it");
        }
        None
    }

    fn one_of(&mut self, left: Expr, start: usize) -> Option<Claim> {
        self.skip();
        let negated = self.take_word("not");
        self.skip();
        if !self.take_word("one") {
            self.unexpected("expected-comparator", "`one of` after `is`");
            return None;
        }
        self.skip();
        if !self.take_word("of") {
            self.unexpected("expected-comparator", "`of` after `one`");
            return None;
        }
        self.beyond(start);
        let right = self.expression()?;
        Some(Claim::OneOf { left, negated, right })
    }

    /// Reads `before`, `after`, `overlaps` or `within 2s of` another selection.
    #[expect(clippy::option_option, reason = "not such a claim, a broken one, a good one")]
    fn time_claim(&mut self) -> Option<Option<Claim>> {
        let start = self.cursor.at;
        let mut ahead = self.cursor;
        let word = ahead.take_while(|c| c.is_ascii_alphabetic());
        ahead.take_while(is_blank);
        if ahead.starts_with("(") {
            return None;
        }
        let relation = match word {
            "before" => Relation::Before,
            "after" => Relation::After,
            "overlaps" => Relation::Overlaps,
            "within" => Relation::Within(String::new()),
            _ => return None,
        };
        self.cursor = ahead;
        self.beyond(start);
        let relation = if let Relation::Within(_) = relation {
            let (written, found) = (self.cursor.at, self.diagnostics.len());
            let Some(Expr { kind: ExprKind::Duration(duration), .. }) = self.term() else {
                // An invalid duration was reported already.
                if self.diagnostics.len() == found {
                    self.unexpected("expected-duration", "a duration like `2s` after `within`");
                }
                return Some(None);
            };
            if duration.starts_with('-') {
                let span = self.span(written);
                self.report(
                    Diagnostic::error("negative-duration", span, "nothing is less than no time away")
                        .labelled("a negative distance")
                        .helped("`within` counts before and after: write the duration without `-`"),
                );
            }
            self.skip();
            if !self.take_word("of") {
                self.unexpected("expected-selector", "`of` and a selector");
                return Some(None);
            }
            Relation::Within(duration)
        } else {
            relation
        };
        let selector = self.selector();
        if selector.chains.is_empty() {
            self.unexpected("expected-selector", "a selector that begins with `span[`");
            return Some(None);
        }
        Some(Some(Claim::Time { relation, selector }))
    }

    fn comparator(&mut self) -> Option<Comparator> {
        let start = self.cursor.at;
        for comparator in [
            Comparator::NotEqual,
            Comparator::LessOrEqual,
            Comparator::GreaterOrEqual,
            Comparator::Equal,
            Comparator::Less,
            Comparator::Greater,
            Comparator::Contains,
            Comparator::NotContains,
        ] {
            if self.cursor.eat(comparator.as_str()) {
                return Some(comparator);
            }
        }
        let words = [
            Comparator::JsonContains,
            Comparator::NotJsonContains,
            Comparator::StartsWith,
            Comparator::EndsWith,
            Comparator::Matches,
            Comparator::NotMatches,
        ];
        let comparator = words.into_iter().find(|word| self.take_word(word.as_str()))?;
        self.beyond(start);
        Some(comparator)
    }

    fn expression(&mut self) -> Option<Expr> {
        self.skip();
        let start = self.cursor.at;
        let value = self.deeper(Self::sum)??;
        let mut end = self.cursor.at;
        let mut filters = Vec::new();
        loop {
            self.skip();
            if !self.cursor.eat("|") {
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
        let name_at = self.cursor.at;
        let name = self.identifier();
        if name.is_empty() {
            self.unexpected("expected-filter", "the name of a filter after `|`");
            return None;
        }
        let place = Place(self.span(name_at));
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
            self.cursor.at += sign.len();
            rest.push((*operator, operand(self)?));
        }
        let Some((_, last)) = rest.last() else { return Some(value) };
        let place = Place(self.base + start..last.place.0.end);
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

    fn term(&mut self) -> Option<Expr> {
        self.part()?;
        self.skip();
        let start = self.cursor.at;
        let kind = match self.cursor.peek() {
            Some('"' | '\'') => ExprKind::Text(self.quoted()?),
            Some('[') => {
                self.cursor.bump();
                ExprKind::Array(self.list("]")?)
            }
            Some('(') => {
                self.cursor.bump();
                let inner = self.expression()?;
                self.skip();
                if !self.cursor.eat(")") {
                    self.unexpected("unclosed-parenthesis", "`)`");
                    return None;
                }
                self.beyond(start);
                inner.kind
            }
            Some(c) if c.is_ascii_digit() => self.number_literal(start)?,
            Some('-') if self.cursor.rest()[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                self.cursor.bump();
                self.beyond(start);
                self.number_literal(start)?
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
            return self.attribute_name(start).map(ExprKind::Attribute);
        }
        for prefix in ["env:", "var:"] {
            if self.cursor.eat(prefix) {
                let name = self.cursor.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
                if name.is_empty() || name.starts_with('.') {
                    self.unexpected("expected-variable", "the name of a variable right after the colon");
                    return None;
                }
                return Some(ExprKind::Variable(name.to_owned()));
            }
        }
        let name = self.identifier();
        self.skip_if_before("(");
        if self.cursor.eat("(") {
            return self.call(name, start);
        }
        match name {
            "true" | "false" => {
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
        let over = if self.cursor.starts_with(")") {
            Over::Own(None)
        } else if self.at_word("span") {
            let selector = self.deeper(Self::selector)?;
            Over::Selection { selector, attribute: None }
        } else {
            Over::Own(Some(Box::new(self.expression()?)))
        };
        self.skip();
        if !self.cursor.eat(")") {
            self.unexpected("unclosed-parenthesis", "`)`");
            return None;
        }
        let over = match over {
            Over::Selection { selector, .. } => {
                let attribute = if self.cursor.eat(".") { Some(self.attribute_name(start)?) } else { None };
                Over::Selection { selector, attribute }
            }
            over @ Over::Own(_) => over,
        };
        self.beyond(start);
        Some(ExprKind::Aggregate { function, over })
    }

    /// Reads the items up to `close`, and consumes it.
    fn list(&mut self, close: &str) -> Option<Vec<Expr>> {
        let mut items = Vec::new();
        self.skip();
        if self.cursor.eat(close) {
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
            if self.cursor.eat(close) {
                return Some(items);
            }
            if !self.cursor.eat(",") {
                self.unexpected("unclosed-list", &format!("`,` or `{close}`"));
                return None;
            }
        }
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
    fn take_word(&mut self, word: &str) -> bool {
        let mut ahead = self.cursor;
        let here = ahead.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')) == word;
        if here {
            self.cursor = ahead;
        }
        here
    }

    /// Skips blanks.
    fn skip(&mut self) {
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

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\u{c}' | '\r')
}
