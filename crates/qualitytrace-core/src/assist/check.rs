//! The tokens of a text, to colour it, and its diagnostics.

use crate::lang::limits::MAX_DIAGNOSTICS;
use crate::lang::{self, Diagnostic, Form, MAX_TOKENS, Token, TokenKind};

/// What an editor shows of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The tokens, in order. They never overlap, and cover everything but blanks; a text with very many of them is
    /// covered up to the last one kept.
    pub tokens: Vec<Token>,
    /// The diagnostics.
    pub diagnostics: Vec<Diagnostic>,
}

/// Returns the tokens and the diagnostics of a text.
pub fn check(text: &str, form: Form) -> Checked {
    let mut diagnostics = lang::diagnose(text, form);
    diagnostics.truncate(MAX_DIAGNOSTICS);
    Checked { tokens: without_gaps(text, lang::tokens(text, form)), diagnostics }
}

/// Adds a token for each word that the parser could not read.
fn without_gaps(text: &str, read: Vec<Token>) -> Vec<Token> {
    let is_cut = read.len() >= MAX_TOKENS;
    let mut all = Vec::with_capacity(read.len());
    let mut end = 0;
    for token in read {
        fill(text, end..token.place.start, &mut all);
        end = token.place.end;
        all.push(token);
    }
    if !is_cut {
        fill(text, end..text.len(), &mut all);
    }
    all.truncate(MAX_TOKENS);
    all
}

fn fill(text: &str, gap: std::ops::Range<usize>, all: &mut Vec<Token>) {
    let mut at = gap.start;
    for part in text[gap].split_inclusive(char::is_whitespace) {
        let length = part.trim_end().len();
        if length > 0 && all.len() < MAX_TOKENS {
            all.push(Token { kind: TokenKind::Invalid, place: at..at + length });
        }
        at += part.len();
    }
}
