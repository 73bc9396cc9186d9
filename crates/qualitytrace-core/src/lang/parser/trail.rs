//! What the parser notes on its way, for editors: the tokens that it reads, or what could stand where the text ends.
//!
//! Parsing for evaluation notes nothing. The parser looks ahead and goes back; a token that begins before the end of
//! others replaces them.

use std::ops::Range;

use super::Parser;
use crate::lang::ast::Name;

/// Maximum number of tokens noted for one text; the rest of it stays without.
pub(crate) const MAX_TOKENS: usize = 100_000;

/// A token: a part of the text with one meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its meaning.
    pub kind: TokenKind,
    /// Its bytes.
    pub place: Range<usize>,
}

/// The meaning of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// A word of the grammar: `span`, `and`, `any`, `before`.
    Keyword,
    /// An attribute or a field of a span.
    Attribute,
    /// A comparator of a condition or an assertion.
    Comparator,
    /// An arithmetic operator, a combinator, `|` or `!`.
    Operator,
    /// Text: in quotes, or the literal part of a template.
    Text,
    /// A number.
    Number,
    /// A duration.
    Duration,
    /// True or false.
    Bool,
    /// A word without quotes that is a value: a kind or a status.
    Word,
    /// The name of a function or an aggregate.
    Function,
    /// The name of a filter.
    Filter,
    /// A variable.
    Variable,
    /// A pseudo-class, with its colon.
    PseudoClass,
    /// Brackets, parentheses, commas, and the ends of `${...}`.
    Punctuation,
    /// A comment.
    Comment,
    /// Text that the parser could not read.
    Invalid,
}

/// What could stand at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SyntaxChoice {
    /// `span[`.
    Step,
    /// A combinator or a comma, behind a step.
    AfterStep,
    /// A pseudo-class, with its colon.
    PseudoClass,
    /// A condition: an attribute, or `not`.
    Condition,
    /// `and` or `or`, behind a condition.
    AfterCondition,
    /// An operator behind the attribute of a condition.
    Test,
    /// A value of this attribute in a selector.
    Value(Name),
    /// A quantifier of an assertion.
    Quantifier,
    /// A relation in time.
    Relation,
    /// A value in an expression.
    Term,
    /// The value that this attribute is compared with.
    Compared(String),
    /// The name of an attribute behind `attr:`.
    Attribute,
    /// The name of a variable behind `var:`.
    Variable,
    /// A comparator of an assertion.
    Comparator,
    /// A filter with its `|`, behind a value.
    AfterValue,
    /// The name of a filter behind `|`.
    Filter,
}

impl SyntaxChoice {
    /// Whether it stands without a blank behind a sign that already says what it is.
    pub(crate) const fn is_glued(&self) -> bool {
        matches!(self, Self::Attribute | Self::Variable)
    }
}

/// What is noted.
#[derive(Debug, Default)]
pub(super) enum TrailMode {
    /// Nothing.
    #[default]
    Off,
    /// The tokens.
    Tokens(Vec<Token>),
    /// What could stand where the text ends.
    Ending(Continuations),
}

/// What could stand where a text ends.
#[derive(Debug, Default)]
pub(crate) struct Continuations {
    /// With the byte at which it would begin: the end, or the beginning of the last word.
    pub(crate) wanted: Vec<(usize, SyntaxChoice)>,
    /// Whether the text ends in a comment.
    pub(crate) is_comment: bool,
    /// Whether the end was found where more or something else is required: what the parser reads then is a guess.
    is_over: bool,
}

impl TrailMode {
    pub(super) fn into_tokens(self) -> Vec<Token> {
        match self {
            Self::Tokens(tokens) => tokens,
            Self::Off | Self::Ending(_) => Vec::new(),
        }
    }

    pub(super) fn into_ending(self) -> Continuations {
        match self {
            Self::Ending(ending) => ending,
            Self::Off | Self::Tokens(_) => Continuations::default(),
        }
    }
}

impl Parser<'_> {
    /// Notes the token from `start` to here, without the blanks at its end.
    pub(super) fn token(&mut self, kind: TokenKind, start: usize) {
        self.token_at(kind, start..self.cursor.at.max(start));
    }

    /// Notes a token at this place, without the blanks at its end.
    pub(super) fn token_at(&mut self, kind: TokenKind, place: Range<usize>) {
        let TrailMode::Tokens(tokens) = &mut self.trail else { return };
        let length = self.cursor.text[place.clone()].trim_end().len();
        let place = self.base + place.start..self.base + place.start + length;
        while tokens.last().is_some_and(|last| last.place.end > place.start) {
            tokens.pop();
        }
        if length > 0 && tokens.len() < MAX_TOKENS {
            tokens.push(Token { kind, place });
        }
    }

    /// Consumes this sign if it is here, and notes it as a token.
    pub(super) fn eat_token(&mut self, sign: &str, kind: TokenKind) -> bool {
        let start = self.cursor.at;
        let found = self.cursor.eat(sign);
        if found {
            self.token(kind, start);
        }
        found
    }

    /// Notes what could stand here, if the text ends here or in the word that begins here.
    pub(super) fn want(&mut self, wanted: impl FnOnce() -> SyntaxChoice) {
        if let TrailMode::Ending(ending) = &mut self.trail
            && !ending.is_over
            && is_open(self.cursor.rest())
        {
            ending.wanted.push((self.base + self.cursor.at, wanted()));
        }
    }

    /// Notes that the text ends where more is required.
    pub(super) fn ends_too_early(&mut self) {
        if let TrailMode::Ending(ending) = &mut self.trail {
            ending.is_over = true;
        }
    }

    /// Notes that the last word of the text, or its end, is not what was expected.
    pub(super) fn ends_in_error(&mut self) {
        if self.looks_for_ending() && is_open(self.cursor.rest()) {
            self.ends_too_early();
        }
    }

    /// Notes that the text ends in a comment.
    pub(super) fn ends_in_comment(&mut self) {
        if let TrailMode::Ending(ending) = &mut self.trail {
            ending.is_comment = true;
        }
    }

    /// Whether what could stand at the end is noted: then an open `${` reaches to the end.
    pub(super) fn looks_for_ending(&self) -> bool {
        matches!(self.trail, TrailMode::Ending(_))
    }

    /// Takes the notes over to a parser of the text at `inner`, and leaves nothing to note here meanwhile.
    pub(super) fn lend_trail(&mut self, inner: &Range<usize>) -> TrailMode {
        match &self.trail {
            TrailMode::Off => TrailMode::Off,
            TrailMode::Ending(_) if inner.end < self.cursor.text.len() => TrailMode::Off,
            TrailMode::Tokens(_) | TrailMode::Ending(_) => std::mem::take(&mut self.trail),
        }
    }

    /// Takes back the notes of a parser of an inner text.
    pub(super) fn return_trail(&mut self, trail: TrailMode) {
        if !matches!(trail, TrailMode::Off) {
            self.trail = trail;
        }
    }
}

/// Whether the rest of a text is nothing, one word, one sign, or a text in quotes that is not closed.
fn is_open(rest: &str) -> bool {
    let Some(first) = rest.chars().next() else { return true };
    if matches!(first, '"' | '\'') {
        let mut escaped = false;
        return !rest.chars().skip(1).any(|c| {
            let closes = c == first && !escaped;
            escaped = c == '\\' && !escaped;
            closes
        });
    }
    rest.chars().all(is_word) || rest.chars().all(|c| matches!(c, '=' | '!' | '<' | '>' | '~'))
}

/// Whether the character is part of a word, for an editor: names with their prefixes.
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | ':')
}
