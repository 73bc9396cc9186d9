//! Regular expressions, as Tracetest's files are written: RE2's.

use super::budget::{Budget, Exceeded};

/// How large a compiled expression may become, in KiB: each is tried in turn, and tells what searching may cost.
const SIZES: [usize; 4] = [4, 32, 256, 1024];

/// A regular expression, ready to be searched for.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    regex: regex::Regex,
    /// KiB that it takes at most. Searching takes time in proportion to this and to the text in the worst case.
    size: usize,
}

impl Pattern {
    /// Compiles a pattern; classes like `\w` mean ASCII only.
    pub(crate) fn new(pattern: &str) -> Result<Self, String> {
        let translated = translate(pattern);
        let mut reason = String::new();
        for size in SIZES {
            match regex::RegexBuilder::new(&translated).size_limit(size * 1024).build() {
                Ok(regex) => return Ok(Self { regex, size }),
                Err(regex::Error::CompiledTooBig(_)) => "it is too large".clone_into(&mut reason),
                Err(regex::Error::Syntax(text)) => {
                    let line = text.lines().last().unwrap_or_default();
                    line.trim_start_matches("error: ").clone_into(&mut reason);
                    break;
                }
                Err(other) => {
                    reason = other.to_string();
                    break;
                }
            }
        }
        Err(format!("invalid regular expression: {reason}"))
    }

    /// The same at the price of its size.
    pub(crate) fn within(pattern: &str, budget: &Budget) -> Result<Self, PatternError> {
        budget.work(100 + pattern.len())?;
        let compiled = Self::new(pattern).map_err(PatternError::Invalid)?;
        budget.work(compiled.size * 100)?;
        Ok(compiled)
    }

    /// Takes the steps that searching a text of so many bytes may cost.
    pub(crate) fn pay(&self, bytes: usize, budget: &Budget) -> Result<(), Exceeded> {
        budget.work(1 + bytes.saturating_mul(self.size) / 16)
    }

    pub(crate) fn is_match(&self, text: &str, budget: &Budget) -> Result<bool, Exceeded> {
        self.pay(text.len(), budget)?;
        Ok(self.regex.is_match(text))
    }

    /// Whether parts of it stand in parentheses, to be taken out.
    pub(crate) fn has_groups(&self) -> bool {
        self.regex.captures_len() > 1
    }

    /// The expression itself, for whoever has paid.
    pub(crate) fn regex(&self) -> &regex::Regex {
        &self.regex
    }
}

/// Why a pattern cannot be searched for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PatternError {
    #[error("{0}")]
    Invalid(String),
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
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
