//! Regular expressions, as Tracetest's files are written: RE2's.

mod outline;

use std::sync::OnceLock;

use regex_syntax::ast::parse::Parser;

use super::budget::{Budget, Exceeded};
use outline::Outline;

/// How large a compiled expression may become, in KiB, and the steps that it takes to find out: each is tried in turn, and
/// tells what searching may cost.
const SIZES: [(usize, usize); 4] = [(4, 400), (32, 6_400), (256, 128_000), (1024, 1_000_000)];
/// States that the largest size has no room for.
const MAX_STATES: u64 = 50_000;
/// Bytes of a pattern.
const MAX_BYTES: usize = 64 * 1024;
/// Characters that may be folded while a text is parsed: looking for all mistakes then costs next to nothing.
const CHEAP_TO_FOLD: u64 = 1_000;

/// A regular expression: known to be well-formed, and compiled when something is searched for the first time.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    translated: String,
    outline: Outline,
    compiled: OnceLock<Compiled>,
}

#[derive(Debug, Clone)]
struct Compiled {
    regex: regex::Regex,
    /// KiB that it takes at most. Searching takes time in proportion to this and to the text in the worst case.
    size: usize,
}

impl Pattern {
    /// Reads a pattern, in time that is linear in its length; classes like `\w` mean ASCII only.
    ///
    /// What is found only by looking up many characters of Unicode is found when it is compiled.
    pub(crate) fn new(pattern: &str) -> Result<Self, String> {
        if pattern.len() > MAX_BYTES {
            return Err(too_large());
        }
        let translated = translate(pattern);
        let ast = Parser::new().parse(&translated).map_err(|error| invalid(error.kind()))?;
        let outline = Outline::of(&ast);
        if outline.states > MAX_STATES {
            return Err(too_large());
        }
        if outline.folded <= CHEAP_TO_FOLD {
            let mut translator = regex_syntax::hir::translate::Translator::new();
            translator.translate(&translated, &ast).map_err(|error| invalid(error.kind()))?;
        }
        Ok(Self { translated, outline, compiled: OnceLock::new() })
    }

    /// The same at its price.
    pub(crate) fn within(pattern: &str, budget: &Budget) -> Result<Self, PatternError> {
        budget.work(100 + pattern.len())?;
        Self::new(pattern).map_err(PatternError::Invalid)
    }

    pub(crate) fn is_match(&self, text: &str, budget: &Budget) -> Result<bool, PatternError> {
        Ok(self.search(text, budget)?.is_match(text))
    }

    /// Whether parts of it stand in parentheses, to be taken out.
    pub(crate) fn has_groups(&self) -> bool {
        self.outline.has_groups
    }

    /// The compiled expression, paid for one search of this text.
    pub(crate) fn search(&self, text: &str, budget: &Budget) -> Result<&regex::Regex, PatternError> {
        let compiled = match self.compiled.get() {
            Some(compiled) => compiled,
            None => {
                let compiled = self.compile(budget)?;
                self.compiled.get_or_init(|| compiled)
            }
        };
        budget.work(1 + text.len().saturating_mul(compiled.size) / 16)?;
        Ok(&compiled.regex)
    }

    fn compile(&self, budget: &Budget) -> Result<Compiled, PatternError> {
        let mut reason = too_large();
        for (size, steps) in SIZES {
            // Each try looks up the other cases again.
            budget.work(steps.saturating_add(usize::try_from(self.outline.folded).unwrap_or(usize::MAX)))?;
            match regex::RegexBuilder::new(&self.translated).size_limit(size * 1024).build() {
                Ok(regex) => return Ok(Compiled { regex, size }),
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(regex::Error::Syntax(text)) => {
                    reason = invalid(text.lines().last().unwrap_or_default().trim_start_matches("error: "));
                    break;
                }
                Err(other) => {
                    reason = invalid(other);
                    break;
                }
            }
        }
        Err(PatternError::Invalid(reason))
    }
}

fn invalid(why: impl std::fmt::Display) -> String {
    format!("invalid regular expression: {why}")
}

fn too_large() -> String {
    invalid("it is too large")
}

/// Why a pattern cannot be searched for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PatternError {
    #[error("{0}")]
    Invalid(String),
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
}

impl PatternError {
    /// Ends the whole evaluation where a pattern that was read without a mistake turns out to be of no use.
    pub(crate) fn give_up(self, budget: &Budget) -> Exceeded {
        match self {
            Self::Invalid(_) => budget.refuse_pattern(),
            Self::Exceeded(exceeded) => exceeded,
        }
    }
}

fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut characters = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(c) = characters.next() {
        match c {
            '\\' => match characters.next() {
                Some(escaped) => {
                    if let Some(class) = ascii_class(escaped, in_class) {
                        out.push_str(class);
                    } else {
                        out.push('\\');
                        out.push(escaped);
                    }
                }
                None => out.push('\\'),
            },
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                for sign in ['^', ']'] {
                    if characters.peek() == Some(&sign) {
                        characters.next();
                        out.push_str(if sign == ']' { "\\]" } else { "^" });
                    }
                }
            }
            '[' if characters.peek() == Some(&':') => {
                out.push('[');
                for inner in characters.by_ref() {
                    out.push(inner);
                    if inner == ']' {
                        break;
                    }
                }
            }
            // Inside a class these are plain characters in RE2, but not here.
            '[' | '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            c => out.push(c),
        }
    }
    out
}

fn ascii_class(escaped: char, in_class: bool) -> Option<&'static str> {
    Some(match (escaped, in_class) {
        ('d', true) => "0-9",
        ('d', false) => "[0-9]",
        ('w', true) => "0-9A-Za-z_",
        ('w', false) => "[0-9A-Za-z_]",
        ('s', true) => r"\t\n\f\r ",
        ('s', false) => r"[\t\n\f\r ]",
        ('D', _) => "[^0-9]",
        ('W', _) => "[^0-9A-Za-z_]",
        ('S', _) => r"[^\t\n\f\r ]",
        ('b', false) => r"(?-u:\b)",
        ('B', false) => r"(?-u:\B)",
        _ => return None,
    })
}
