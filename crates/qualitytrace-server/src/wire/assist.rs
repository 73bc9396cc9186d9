//! Help while writing: completions, tokens, and descriptions of spans.

use qualitytrace_core::assist;
use qualitytrace_core::lang;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::diagnostic::Diagnostic;
use super::utf16::Utf16Offsets;

/// A form of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Form {
    /// A selector.
    Selector,
    /// An assertion.
    Assertion,
    /// An expression: the value of an output.
    Expression,
    /// A text of a trigger, with `${...}` in it.
    Template,
    /// A whole definition, in YAML.
    Definition,
}

impl Form {
    /// Returns the form of the language; `None` for a definition.
    pub const fn language(self) -> Option<lang::Form> {
        match self {
            Self::Selector => Some(lang::Form::Selector),
            Self::Assertion => Some(lang::Form::Assertion),
            Self::Expression => Some(lang::Form::Expression),
            Self::Template => Some(lang::Form::Template),
            Self::Definition => None,
        }
    }
}

/// What can stand at a place of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Completions {
    /// The most useful first.
    pub items: Vec<Completion>,
}

/// One way to go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Completion {
    /// What the user sees.
    pub label: String,
    /// What is written into the text.
    pub insert: String,
    /// What it is.
    pub kind: CompletionKind,
    /// More about it; may be empty.
    pub detail: String,
    /// Where the text that it replaces begins, in UTF-16 code units.
    pub from: usize,
    /// Where it ends.
    pub to: usize,
}

/// What a completion is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names say it; `assist::CompletionKind` has the sentences")]
pub enum CompletionKind {
    Keyword,
    Attribute,
    Value,
    Function,
    Filter,
    Comparator,
    Variable,
    PseudoClass,
    Combinator,
    Key,
    Choice,
}

impl Completions {
    /// Makes the shape of completions; `offsets` are those of the text.
    pub fn of(completions: Vec<assist::Completion>, offsets: &Utf16Offsets<'_>) -> Self {
        let item = |completion: assist::Completion| Completion {
            label: completion.label,
            insert: completion.insert,
            kind: completion.kind.into(),
            detail: completion.detail,
            from: offsets.from_byte(completion.replaces.start),
            to: offsets.from_byte(completion.replaces.end),
        };
        Self { items: completions.into_iter().map(item).collect() }
    }
}

impl From<assist::CompletionKind> for CompletionKind {
    fn from(kind: assist::CompletionKind) -> Self {
        match kind {
            assist::CompletionKind::Keyword => Self::Keyword,
            assist::CompletionKind::Attribute => Self::Attribute,
            assist::CompletionKind::Value => Self::Value,
            assist::CompletionKind::Function => Self::Function,
            assist::CompletionKind::Filter => Self::Filter,
            assist::CompletionKind::Comparator => Self::Comparator,
            assist::CompletionKind::Variable => Self::Variable,
            assist::CompletionKind::PseudoClass => Self::PseudoClass,
            assist::CompletionKind::Combinator => Self::Combinator,
            assist::CompletionKind::Key => Self::Key,
            assist::CompletionKind::Choice => Self::Choice,
        }
    }
}

/// The tokens and the diagnostics of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Checked {
    /// In order, never overlapping; none of a definition, whose form is YAML.
    pub tokens: Vec<Token>,
    /// In order.
    pub diagnostics: Vec<Diagnostic>,
}

/// A part of a text with one meaning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// Its meaning.
    pub kind: TokenKind,
    /// Where it begins, in UTF-16 code units.
    pub from: usize,
    /// Where it ends.
    pub to: usize,
}

/// The meaning of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names say it; `lang::TokenKind` has the sentences")]
pub enum TokenKind {
    Keyword,
    Attribute,
    Comparator,
    Operator,
    Text,
    Number,
    Duration,
    Bool,
    Word,
    Function,
    Filter,
    Variable,
    PseudoClass,
    Punctuation,
    Comment,
    Invalid,
}

impl Checked {
    /// Makes the shape of a checked text.
    pub fn of(checked: &assist::Checked, text: &str) -> Self {
        let offsets = Utf16Offsets::of(text);
        let token = |token: &lang::Token| Token {
            kind: token.kind.into(),
            from: offsets.from_byte(token.place.start),
            to: offsets.from_byte(token.place.end),
        };
        Self {
            tokens: checked.tokens.iter().map(token).collect(),
            diagnostics: checked.diagnostics.iter().map(|found| Diagnostic::of(found, &offsets)).collect(),
        }
    }
}

impl From<lang::TokenKind> for TokenKind {
    fn from(kind: lang::TokenKind) -> Self {
        match kind {
            lang::TokenKind::Keyword => Self::Keyword,
            lang::TokenKind::Attribute => Self::Attribute,
            lang::TokenKind::Comparator => Self::Comparator,
            lang::TokenKind::Operator => Self::Operator,
            lang::TokenKind::Text => Self::Text,
            lang::TokenKind::Number => Self::Number,
            lang::TokenKind::Duration => Self::Duration,
            lang::TokenKind::Bool => Self::Bool,
            lang::TokenKind::Word => Self::Word,
            lang::TokenKind::Function => Self::Function,
            lang::TokenKind::Filter => Self::Filter,
            lang::TokenKind::Variable => Self::Variable,
            lang::TokenKind::PseudoClass => Self::PseudoClass,
            lang::TokenKind::Punctuation => Self::Punctuation,
            lang::TokenKind::Comment => Self::Comment,
            lang::TokenKind::Invalid => Self::Invalid,
        }
    }
}

/// A description of one span of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpanDescription {
    /// A selector that selects exactly this span.
    pub selector: String,
    /// Selectors that select more spans, this one among them; the narrowest first.
    pub alternatives: Vec<Alternative>,
    /// Assertions that hold for the span.
    pub assertions: Vec<Proposal>,
}

/// A selector that selects more than one span.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Alternative {
    /// What it selects, in words.
    pub title: String,
    /// The selector.
    pub selector: String,
    /// How many spans it selects.
    pub count: usize,
}

/// An assertion that holds for a span.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Proposal {
    /// The whole assertion.
    pub assertion: String,
    /// Its left side.
    pub left: String,
    /// Its comparator.
    pub comparator: String,
    /// Its right side; empty where the comparator has none.
    pub expected: String,
    /// The type of the value.
    #[serde(rename = "type")]
    pub value_type: ValueType,
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum ValueType {
    Number,
    String,
    Duration,
    Bool,
    List,
}

impl From<assist::Description> for SpanDescription {
    fn from(description: assist::Description) -> Self {
        let alternative = |wider: assist::Wider| Alternative {
            title: wider.title,
            selector: wider.selector,
            count: wider.count,
        };
        let proposal = |proposal: assist::Proposal| Proposal {
            assertion: proposal.assertion,
            left: proposal.left,
            comparator: proposal.comparator.to_owned(),
            expected: proposal.expected,
            value_type: match proposal.value_type {
                assist::ValueType::Number => ValueType::Number,
                assist::ValueType::Text => ValueType::String,
                assist::ValueType::Duration => ValueType::Duration,
                assist::ValueType::Bool => ValueType::Bool,
                assist::ValueType::List => ValueType::List,
            },
        };
        Self {
            selector: description.selector,
            alternatives: description.wider.into_iter().map(alternative).collect(),
            assertions: description.assertions.into_iter().map(proposal).collect(),
        }
    }
}
