//! The grammar of assertions: quantifiers, comparisons and relations in time.

use super::Parser;
use super::expression::is_blank;
use super::trail::{SyntaxChoice, TokenKind};
use crate::lang::ast::{Assertion, Claim, Comparator, Expr, ExprKind, Quantifier, Relation};
use crate::lang::diagnostic::Diagnostic;

impl Parser<'_> {
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

    fn quantifier(&mut self) -> Quantifier {
        self.skip();
        self.want(|| SyntaxChoice::Quantifier);
        let start = self.cursor.at;
        let quantifier = self.try_quantifier();
        if let Some(quantifier) = quantifier {
            self.token(TokenKind::Keyword, start);
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
        self.want(|| SyntaxChoice::Relation);
        if let Some(claim) = self.time_claim() {
            return claim;
        }
        let left = self.expression()?;
        self.skip();
        self.want(|| SyntaxChoice::Comparator);
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
            self.token(TokenKind::Comparator, start);
            if let ExprKind::Attribute(name) = &left.kind {
                self.skip();
                self.want(|| SyntaxChoice::Compared(name.clone()));
            }
            let right = self.expression()?;
            return Some(Claim::Compare { left, comparator, right });
        }
        if self.cursor.eat("!exists") || self.take_word("exists") {
            let negated = self.cursor.since(start).starts_with('!');
            self.token(TokenKind::Comparator, start);
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
        self.token(TokenKind::Comparator, start);
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
        self.token(TokenKind::Keyword, start);
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
            let of = self.cursor.at;
            if !self.take_word("of") {
                self.unexpected("expected-selector", "`of` and a selector");
                return Some(None);
            }
            self.token(TokenKind::Keyword, of);
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
}
