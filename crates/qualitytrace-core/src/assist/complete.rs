//! Completion: what can stand at a place of a text, even of a broken one.
//!
//! The parser reads the text up to the place and notes what it was ready to read there. What a trace holds and what
//! the language offers is then filtered by the word that is being typed, and ranked.

use std::ops::Range;

use super::offers::{self, CompletionKind, LAST, Offer};
use super::standing::{AttributeRank, is_random, standing};
use super::{conventions, facts};
use crate::budget::Budget;
use crate::lang::ast::{Expr, ExprKind, Name, SourceRange};
use crate::lang::{
    Field, Form, KINDS, STATUSES, SyntaxChoice, TYPES, ending, is_word, quote, quote_in_selector,
};
use crate::names;
use crate::trace::Trace;

/// Maximum number of completions.
const MAX_COMPLETIONS: usize = 100;

/// What a text can refer to.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The trace whose attributes and values are offered.
    pub trace: Option<&'a Trace>,
    /// The names of the variables that are offered.
    pub variables: &'a [String],
    /// The budget of reading the trace: when it is used up, less is offered.
    pub budget: &'a Budget,
}

/// One way to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// What the user sees.
    pub label: String,
    /// What is written into the text.
    pub insert: String,
    /// What it is.
    pub kind: CompletionKind,
    /// More about it; may be empty.
    pub detail: String,
    /// The bytes of the text that it replaces.
    pub replaces: Range<usize>,
}

/// Returns what can stand at the byte `at` of a text, most useful first. A place inside a character or behind the end
/// is the nearest one before it.
pub fn complete(text: &str, at: usize, form: Form, context: &Context<'_>) -> Vec<Completion> {
    let at = text.floor_char_boundary(at.min(text.len()));
    let before = &text[..at];
    let ending = ending(before, form);
    if ending.is_comment {
        return Vec::new();
    }
    let (typed, behind) = split(before, ending.wanted);
    let mut found = Vec::new();
    let is_compared = typed.iter().any(|(_, wanted)| matches!(wanted, SyntaxChoice::Compared(_)));
    for (start, wanted) in &typed {
        let mut offers = offers_for(wanted, form, context);
        if is_compared && *wanted == SyntaxChoice::Term {
            for offer in &mut offers {
                offer.priority += LAST / 2;
            }
        }
        found.extend(matching(text, *start..at, &offers));
    }
    // Behind a word that is complete, a sign can follow.
    let word = typed.first().map_or("", |(start, _)| before[*start..].trim_start_matches(['"', '\'']));
    if found.is_empty() || found.iter().any(|(_, known)| known.label == word) {
        for (start, wanted) in &behind {
            let signs = offers_for(wanted, form, context)
                .into_iter()
                .filter(|offer| !before.ends_with(is_word) || !offer.insert.starts_with(is_word))
                .collect::<Vec<_>>();
            let matches = matching(text, *start..at, &signs).into_iter();
            found.extend(matches.map(|((class, priority), sign)| ((class + 1, priority), sign)));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.label.cmp(&b.1.label)));
    let mut completions: Vec<Completion> = Vec::new();
    for (_, completion) in found {
        let is_known =
            |known: &Completion| known.insert == completion.insert && known.label == completion.label;
        if completions.len() < MAX_COMPLETIONS && !completions.iter().any(is_known) {
            completions.push(completion);
        }
    }
    completions
}

type Places = Vec<(usize, SyntaxChoice)>;

/// Splits what could stand at the end of a text into what continues the word that is being typed, and what could
/// follow it.
fn split(before: &str, mut wanted: Places) -> (Places, Places) {
    let mut seen: Places = Vec::new();
    wanted.retain(|place| {
        let is_new = !seen.contains(place);
        if is_new {
            seen.push(place.clone());
        }
        is_new
    });
    let is_typed = |(start, wanted): &(usize, SyntaxChoice)| {
        let first = before[*start..].chars().next();
        first.is_some_and(|c| is_word(c) || matches!(c, '"' | '\'')) || (first.is_none() && wanted.is_glued())
    };
    match wanted.iter().filter(|place| is_typed(place)).map(|(start, _)| *start).max() {
        Some(best) => {
            let typed = wanted.iter().filter(|(start, _)| *start == best).cloned().collect();
            (typed, wanted.into_iter().filter(|(start, _)| *start == before.len() && best < *start).collect())
        }
        None => (wanted, Vec::new()),
    }
}

/// Returns the offers that fit what is typed at `typed`, with their ranks.
fn matching(text: &str, typed: Range<usize>, offers: &[Offer]) -> Vec<((u8, usize), Completion)> {
    let word = &text[typed.clone()];
    let quote = word.chars().next().filter(|c| matches!(c, '"' | '\''));
    let asked = word.trim_start_matches(['"', '\'']).to_lowercase();
    let end = if word.is_empty() { typed.end } else { word_end(text, typed.end, quote) };
    let fits = |offer: &Offer| {
        let label = offer.label.to_lowercase();
        let text = if offer.kind == CompletionKind::PseudoClass && !asked.starts_with(':') {
            label.trim_start_matches(':')
        } else {
            &label
        };
        // A word in quotes is a text.
        let is_text = matches!(offer.kind, CompletionKind::Value | CompletionKind::Attribute);
        if quote.is_some() && !is_text {
            return None;
        }
        if text.starts_with(&asked) {
            Some(0)
        } else if text.contains(&asked) {
            Some(1)
        } else {
            None
        }
    };
    let completion = |offer: &Offer| Completion {
        label: offer.label.clone(),
        insert: offer.insert.clone(),
        kind: offer.kind,
        detail: offer.detail.clone(),
        replaces: typed.start..end,
    };
    offers.iter().filter_map(|offer| Some(((fits(offer)?, offer.priority), completion(offer)))).collect()
}

/// Returns the end of the word or of the text in quotes around `at`.
fn word_end(text: &str, at: usize, quote: Option<char>) -> usize {
    let rest = &text[at..];
    match quote {
        // A quote further away belongs to another text.
        Some(quote) => match rest.find([quote, '=', '[', ']', '\n', '\\']) {
            Some(end) if rest[end..].starts_with(quote) => at + end + quote.len_utf8(),
            _ => at,
        },
        None => at + rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
    }
}

fn offers_for(wanted: &SyntaxChoice, form: Form, context: &Context<'_>) -> Vec<Offer> {
    let with_spans = form != Form::Template;
    match wanted {
        SyntaxChoice::Step => offers::step(),
        SyntaxChoice::AfterStep => offers::combinators(),
        SyntaxChoice::PseudoClass => offers::pseudo_classes(),
        SyntaxChoice::Condition => {
            let mut offers = attributes(context, &name_in_selector);
            offers.extend(offers::negation());
            offers
        }
        SyntaxChoice::AfterCondition => offers::conjunctions(),
        SyntaxChoice::Test => offers::tests(),
        SyntaxChoice::Value(name) => values_in_selector(name, context),
        SyntaxChoice::Quantifier => offers::quantifiers(),
        SyntaxChoice::Relation => offers::relations(),
        SyntaxChoice::Term => {
            let mut offers = offers::prefixes(with_spans);
            offers.extend(offers::functions(with_spans));
            offers.extend(variables(context, "var:"));
            if with_spans {
                let known = attributes(context, &attribute);
                offers.extend(known.into_iter().map(|offer| Offer {
                    label: offer.insert.clone(),
                    priority: offer.priority + 10,
                    ..offer
                }));
            }
            offers
        }
        SyntaxChoice::Compared(name) => compared_values(name, context),
        SyntaxChoice::Attribute => {
            let behind_prefix =
                |name: &str| attribute(name).strip_prefix("attr:").unwrap_or_default().to_owned();
            attributes(context, &behind_prefix)
        }
        SyntaxChoice::Variable => variables(context, ""),
        SyntaxChoice::Comparator => offers::comparators(),
        SyntaxChoice::AfterValue => offers::filters(true),
        SyntaxChoice::Filter => offers::filters(false),
    }
}

/// Returns the attributes that spans have, as `written` writes them, and the special ones; without a trace, those of the
/// conventions.
fn attributes(context: &Context<'_>, written: &dyn Fn(&str) -> String) -> Vec<Offer> {
    let total = context.trace.map_or(0, |trace| trace.spans().len());
    let named = match context.trace {
        Some(trace) => facts::names(trace, context.budget),
        None => conventions::names().map(|name| (name, 0)).collect(),
    };
    let field = |(at, (name, detail)): (usize, &(&str, &str))| Offer {
        label: (*name).to_owned(),
        insert: String::new(),
        kind: CompletionKind::Attribute,
        detail: (*detail).to_owned(),
        priority: at,
    };
    let mut offers: Vec<Offer> = offers::FIELDS.iter().enumerate().map(field).collect();
    offers.extend(offers::special_attributes());
    let fixed = offers.len();
    for (name, spans) in named {
        if offers[..fixed].iter().any(|known| known.label == name) {
            continue;
        }
        let rank = match standing(name) {
            AttributeRank::Identity => 10,
            AttributeRank::Convention(place) => 30 + place,
            AttributeRank::Ordinary => 100,
            AttributeRank::Outcome => 80,
            AttributeRank::Volatile => 2 * LAST,
        };
        // Of equals, more spans have the first; the list is in this order.
        let rarity = if spans * 2 >= total { 0 } else { 5 };
        offers.push(Offer {
            label: name.to_owned(),
            insert: String::new(),
            kind: CompletionKind::Attribute,
            detail: if total == 0 {
                "a convention of OpenTelemetry".to_owned()
            } else {
                of_spans(spans, total)
            },
            priority: rank + rarity,
        });
    }
    offers.into_iter().map(|offer| Offer { insert: written(&offer.label), ..offer }).collect()
}

fn of_spans(spans: usize, total: usize) -> String {
    format!("{spans} of {total} spans")
}

/// Writes the name of an attribute in a selector; quotes where it needs them.
fn name_in_selector(name: &str) -> String {
    written_name(name).to_string()
}

/// Returns a name as a selector writes it: in quotes unless it has only letters, digits, `_`, `-` and dots.
pub(super) fn written_name(name: &str) -> Name {
    let is_plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.split('.').all(|part| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
        });
    Name { text: name.to_owned(), quoted: !is_plain, place: SourceRange::default() }
}

/// Writes an attribute in an expression. The fields of selectors have other names there.
pub(super) fn attribute(name: &str) -> String {
    let name = match name {
        "name" => "tracetest.span.name",
        "kind" => "tracetest.span.kind",
        name => name,
    };
    Expr { kind: ExprKind::Attribute(name.to_owned()), place: SourceRange::default() }.to_string()
}

fn values_in_selector(name: &Name, context: &Context<'_>) -> Vec<Offer> {
    let field = Field::in_selector(&name.text, name.quoted, true);
    let folded = names::attribute(&name.text);
    let words: &[&str] = match &*folded {
        "kind" | "span.kind" | "tracetest.span.kind" if !name.quoted => &KINDS,
        "status" | "span.status" if !name.quoted => &STATUSES,
        "tracetest.span.type" | "span.type" => &TYPES,
        _ => &[],
    };
    values(&field, words, context, &quote_in_selector)
}

fn compared_values(name: &str, context: &Context<'_>) -> Vec<Offer> {
    values(&Field::attribute(name, true, true), &[], context, &quote)
}

fn values(
    field: &Field,
    words: &[&str],
    context: &Context<'_>,
    quoted: &dyn Fn(&str) -> String,
) -> Vec<Offer> {
    let seen = context.trace.map(|trace| facts::values(trace, field, context.budget)).unwrap_or_default();
    let total = context.trace.map_or(0, |trace| trace.spans().len());
    let offer = |label: &str, insert: String, detail: String, priority: usize| Offer {
        label: label.to_owned(),
        insert,
        kind: CompletionKind::Value,
        detail,
        priority,
    };
    let mut offers: Vec<Offer> = seen
        .iter()
        .enumerate()
        .map(|(at, seen)| {
            let bare = !seen.is_text && is_literal(&seen.text);
            let insert = if bare { seen.text.to_string() } else { quoted(&seen.text) };
            let random = if is_random(&seen.text) { LAST } else { 0 };
            offer(&seen.text, insert, of_spans(seen.spans, total), at + random)
        })
        .collect();
    for word in words {
        if !offers.iter().any(|known| known.label == *word) {
            offers.push(offer(word, quoted(word), String::new(), LAST + 10));
        }
    }
    offers
}

/// Whether the text can be written without quotes: a number or a truth value.
fn is_literal(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = digits.len() <= 18
        && digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.ends_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        && digits.bytes().filter(|b| *b == b'.').count() <= 1;
    is_number || matches!(text, "true" | "false")
}

fn variables(context: &Context<'_>, prefix: &str) -> Vec<Offer> {
    let is_written = |name: &&String| {
        !name.is_empty()
            && !name.starts_with('.')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'))
    };
    let known = context.variables.iter().filter(is_written).enumerate();
    known
        .map(|(at, name)| Offer {
            label: format!("{prefix}{name}"),
            insert: format!("{prefix}{name}"),
            kind: CompletionKind::Variable,
            detail: "a variable".to_owned(),
            priority: at + 2,
        })
        .collect()
}
