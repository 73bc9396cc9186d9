//! Regular expressions in the syntax of RE2, as in Tracetest's files.

mod outline;

use std::sync::OnceLock;

use regex_syntax::ast::parse::Parser;

use crate::budget::{Budget, BudgetError};
use outline::Outline;

/// Size limits of a compiled expression in KiB, with the steps charged for compiling; each is tried in turn, and
/// determines the cost of a search.
const SIZES: [(usize, usize); 4] = [(4, 400), (32, 6_400), (256, 128_000), (1024, 1_000_000)];
/// Maximum number of states; more exceed the largest size.
const MAX_STATES: u64 = 50_000;
/// Maximum length of a pattern in bytes.
const MAX_BYTES: usize = 64 * 1024;
/// Maximum number of case foldings during parsing: up to here a complete check is cheap.
const CHEAP_TO_FOLD: u64 = 1_000;

/// A regular expression: syntactically valid, and compiled on first use.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    translated: String,
    outline: Outline,
    compiled: OnceLock<Compiled>,
}

#[derive(Debug, Clone)]
struct Compiled {
    regex: regex::Regex,
    /// Its maximum size in KiB. In the worst case a search takes time in proportion to this and to the text.
    size: usize,
}

impl Pattern {
    /// Parses a pattern, in time linear in its length; classes like `\w` mean ASCII only.
    ///
    /// Errors that need the lookup of many Unicode characters are found when it is compiled.
    pub(crate) fn new(pattern: &str) -> Result<Self, String> {
        if pattern.len() > MAX_BYTES {
            return Err(too_large());
        }
        let translated = translate(pattern)?;
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

    /// Parses a pattern, charged to the budget.
    pub(crate) fn within(pattern: &str, budget: &Budget) -> Result<Self, PatternError> {
        budget.work(100 + pattern.len())?;
        Self::new(pattern).map_err(PatternError::Invalid)
    }

    pub(crate) fn is_match(&self, text: &str, budget: &Budget) -> Result<bool, PatternError> {
        Ok(self.search(text, budget)?.is_match(text))
    }

    /// Whether it has capture groups.
    pub(crate) fn has_groups(&self) -> bool {
        self.outline.has_groups
    }

    /// Returns the compiled expression; charges one search of this text.
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
            // Each attempt folds the cases again.
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

/// Why a pattern cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PatternError {
    #[error("{0}")]
    Invalid(String),
    #[error(transparent)]
    Exceeded(#[from] BudgetError),
}

impl PatternError {
    /// Aborts the whole evaluation where a pattern that parsed turns out to be unusable.
    pub(crate) fn give_up(self, budget: &Budget) -> BudgetError {
        match self {
            Self::Invalid(_) => budget.refuse_pattern(),
            Self::Exceeded(exceeded) => exceeded,
        }
    }
}

/// The names of classes that RE2 knows between `[:` and `:]`.
const CLASS_NAMES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

/// Translates the pattern to the syntax of the `regex` crate. Characters with another meaning there are escaped.
fn translate(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut class: Option<Class> = None;
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match (&mut class, c) {
            (_, '\\') => {
                let Some(escaped) = rest.chars().next() else {
                    out.push('\\');
                    break;
                };
                rest = &rest[escaped.len_utf8()..];
                if escaped == 'Q' && class.is_none() {
                    let (literal, after) = rest.split_once("\\E").unwrap_or((rest, ""));
                    out.push_str(&regex_syntax::escape(literal));
                    rest = after;
                    continue;
                }
                let several = ascii_class(escaped, class.is_some());
                if let Some(class) = &mut class {
                    class.item(several.is_none());
                }
                match (several, escaped) {
                    (Some(several), _) => out.push_str(several),
                    // Plain characters, which begin and end a word here.
                    (None, '<' | '>') => out.push(escaped),
                    (None, _) => out.extend(['\\', escaped]),
                }
                // `\x{10ffff}` and `\p{Greek}`: the braces belong to the escape.
                if matches!(escaped, 'x' | 'p' | 'P')
                    && let Some(after) = rest.strip_prefix('{')
                {
                    out.push('{');
                    rest = after;
                }
            }
            (None, '[') => {
                class = Some(Class::default());
                out.push('[');
                for (sign, written) in [("^", "^"), ("]", "\\]")] {
                    if let Some(after) = rest.strip_prefix(sign) {
                        out.push_str(written);
                        rest = after;
                    }
                }
            }
            // A brace that begins no repetition is a plain character.
            (None, '{') if !begins_repetition(rest) => out.push_str("\\{"),
            (None, c) => out.push(c),
            (Some(_), ']') => {
                class = None;
                out.push(']');
            }
            (Some(class), '[') if rest.starts_with(':') && rest[1..].contains(":]") => {
                let end = 1 + rest[1..].find(":]").unwrap_or_default();
                let name = &rest[1..end];
                if !CLASS_NAMES.contains(&name.strip_prefix('^').unwrap_or(name)) {
                    return Err(invalid(format_args!("invalid character class range: `[:{name}:]`")));
                }
                class.item(false);
                out.push_str("[:");
                out.push_str(name);
                out.push_str(":]");
                rest = &rest[end + 2..];
            }
            (Some(class), '-') if class.may_be_range && !rest.starts_with(']') && !rest.is_empty() => {
                out.push('-');
                class.begin_range();
            }
            // Inside a class these are plain characters in RE2, but not here.
            (Some(class), '[' | '&' | '~' | '-') => {
                class.item(true);
                out.extend(['\\', c]);
            }
            (Some(class), c) => {
                class.item(true);
                out.push(c);
            }
        }
    }
    Ok(out)
}

/// Whether the text after a `{` makes it a repetition: `{n}`, `{n,}` or `{n,m}`.
fn begins_repetition(rest: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit();
    let after = rest.trim_start_matches(is_digit);
    let end = after.strip_prefix(',').map_or(after, |most| most.trim_start_matches(is_digit));
    after.len() < rest.len() && end.starts_with('}')
}

/// The state while a class in brackets is read.
#[derive(Debug, Default)]
struct Class {
    /// Whether a `-` would make a range with the item before it.
    may_be_range: bool,
    /// Whether a range lacks its end.
    is_open: bool,
}

impl Class {
    /// Records one character, or several in place of one.
    fn item(&mut self, is_one: bool) {
        self.may_be_range = is_one && !self.is_open;
        self.is_open = false;
    }

    fn begin_range(&mut self) {
        *self = Self { may_be_range: false, is_open: true };
    }
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
