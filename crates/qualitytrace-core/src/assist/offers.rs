//! What the language itself offers at a place: its words, signs, functions and filters.

use crate::lang::ast::Comparator;
use crate::lang::{FILTERS, FUNCTIONS, OTHER_SPECIAL};
use crate::names;
use crate::trace::special;

/// What a completion is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompletionKind {
    /// A word of the grammar.
    Keyword,
    /// An attribute or a field of a span.
    Attribute,
    /// A value that spans have.
    Value,
    /// A function or an aggregate.
    Function,
    /// A filter.
    Filter,
    /// A comparator.
    Comparator,
    /// A variable.
    Variable,
    /// A pseudo-class.
    PseudoClass,
    /// What joins two steps of a selector.
    Combinator,
    /// A key of a definition.
    Key,
    /// A value that a definition can have for a key.
    Choice,
}

/// A completion before it is matched with what is typed.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    pub(super) label: String,
    pub(super) insert: String,
    pub(super) kind: CompletionKind,
    pub(super) detail: String,
    /// The smaller, the more useful.
    pub(super) priority: usize,
}

/// Operators of a condition, the most usual first.
const TESTS: [(&str, &str); 17] = [
    ("=", "equals the value"),
    ("!=", "does not equal the value"),
    ("contains", "has the text in it"),
    (">", "is greater"),
    (">=", "is greater or equal"),
    ("<", "is less"),
    ("<=", "is less or equal"),
    ("=~", "matches the regular expression"),
    ("!~", "does not match the regular expression"),
    ("startsWith", "begins with the text"),
    ("endsWith", "ends with the text"),
    ("exists", "is there"),
    ("!exists", "is not there"),
    ("in", "is one of the values in parentheses"),
    ("not in", "is none of the values in parentheses"),
    ("not-contains", "does not have the text in it"),
    ("matches", "matches the regular expression"),
];

const PSEUDO_CLASSES: [(&str, &str, &str); 7] = [
    (":first", ":first", "the first of the spans found"),
    (":last", ":last", "the last of the spans found"),
    (":nth_child(n)", ":nth_child(1)", "the n-th of the spans found"),
    (":root", ":root", "spans without a parent"),
    (":leaf", ":leaf", "spans without children"),
    (":has(...)", ":has(span[])", "spans with such a span below"),
    (":not(...)", ":not(span[])", "spans that are not among these"),
];

const QUANTIFIERS: [(&str, &str); 5] = [
    ("any", "holds for at least one span"),
    ("none", "holds for no span"),
    ("all", "holds for every span"),
    ("at least 1 of", "holds for so many spans or more"),
    ("at most 1 of", "holds for so many spans or fewer"),
];

const RELATIONS: [(&str, &str); 4] = [
    ("before", "ends before the first of the others begins"),
    ("after", "begins after the last of the others has ended"),
    ("overlaps", "shares a moment with one of the others"),
    ("within 1s of", "is no further away than this from the nearest of the others"),
];

const AGGREGATES: [(&str, &str, &str); 9] = [
    ("count()", "count()", "how many spans are selected"),
    ("sum(...)", "sum(attr:tracetest.span.duration)", "the sum over the selected spans"),
    ("avg(...)", "avg(attr:tracetest.span.duration)", "the mean over the selected spans"),
    ("min(...)", "min(attr:tracetest.span.duration)", "the smallest of the selected spans"),
    ("max(...)", "max(attr:tracetest.span.duration)", "the largest of the selected spans"),
    ("p95(...)", "p95(attr:tracetest.span.duration)", "the percentile over the selected spans"),
    ("distinct(...)", "distinct(attr:service.name)", "how many different values"),
    ("first(span[...])", "first(span[]).name", "an attribute of the first span of another selection"),
    ("last(span[...])", "last(span[]).name", "an attribute of the last span of another selection"),
];

/// Fields of a span in a selector.
pub(super) const FIELDS: [(&str, &str); 5] = [
    ("name", "the span's name"),
    ("kind", "server, client, producer, consumer or internal"),
    ("status", "ok, error or unset"),
    ("duration", "how long the span took"),
    ("service.name", "the service that sent the span"),
];

fn offer(kind: CompletionKind, label: &str, insert: &str, detail: &str, priority: usize) -> Offer {
    Offer { label: label.to_owned(), insert: insert.to_owned(), kind, detail: detail.to_owned(), priority }
}

fn plain(kind: CompletionKind, list: &[(&str, &str)]) -> Vec<Offer> {
    list.iter().enumerate().map(|(at, (word, detail))| offer(kind, word, word, detail, at)).collect()
}

fn complex(kind: CompletionKind, list: &[(&str, &str, &str)]) -> Vec<Offer> {
    list.iter()
        .enumerate()
        .map(|(at, (label, insert, detail))| offer(kind, label, insert, detail, at))
        .collect()
}

/// `span[`.
pub(super) fn step() -> Vec<Offer> {
    vec![offer(CompletionKind::Keyword, "span[", "span[", "the spans with these attributes", 0)]
}

/// What joins two steps.
pub(super) fn combinators() -> Vec<Offer> {
    let signs = plain(
        CompletionKind::Combinator,
        &[
            (">", "directly below"),
            ("~", "later under the same parent"),
            ("+", "the very next under the same parent"),
        ],
    );
    after(30, signs)
}

/// Pseudo-classes, with their colons.
pub(super) fn pseudo_classes() -> Vec<Offer> {
    after(10, complex(CompletionKind::PseudoClass, &PSEUDO_CLASSES))
}

/// What joins two conditions.
pub(super) fn conjunctions() -> Vec<Offer> {
    let words = [("and", "both must hold"), ("or", "one of them must hold")];
    plain(CompletionKind::Keyword, &words)
}

/// The negation of a condition.
pub(super) fn negation() -> Vec<Offer> {
    vec![offer(CompletionKind::Keyword, "not", "not", "the next condition must not hold", LAST)]
}

/// Operators of a condition.
pub(super) fn tests() -> Vec<Offer> {
    plain(CompletionKind::Comparator, &TESTS)
}

/// Comparators of an assertion.
pub(super) fn comparators() -> Vec<Offer> {
    let words = Comparator::ALL.map(|comparator| (comparator.as_str(), ""));
    let mut offers = plain(CompletionKind::Comparator, &words);
    let others = [
        ("is one of", "is an item of the list"),
        ("is not one of", "is no item of the list"),
        ("exists", "is there"),
        ("!exists", "is not there"),
    ];
    offers.extend(plain(CompletionKind::Comparator, &others));
    for (at, offer) in offers.iter_mut().enumerate() {
        offer.priority = at;
    }
    offers
}

/// Quantifiers of an assertion.
pub(super) fn quantifiers() -> Vec<Offer> {
    after(LAST, plain(CompletionKind::Keyword, &QUANTIFIERS))
}

/// Relations in time.
pub(super) fn relations() -> Vec<Offer> {
    after(LAST + 10, plain(CompletionKind::Keyword, &RELATIONS))
}

/// Functions, and aggregates where there are spans.
pub(super) fn functions(with_spans: bool) -> Vec<Offer> {
    let mut offers: Vec<Offer> = FUNCTIONS
        .iter()
        .map(|(name, least, _)| {
            let call = if *least == 0 { format!("{name}()") } else { format!("{name}(1, 100)") };
            offer(CompletionKind::Function, &call, &call, "a generated value", 100)
        })
        .collect();
    if with_spans {
        offers.extend(after(50, complex(CompletionKind::Function, &AGGREGATES)));
    }
    offers
}

/// What begins a value: the prefixes of attributes and variables.
pub(super) fn prefixes(with_spans: bool) -> Vec<Offer> {
    let mut offers = vec![offer(CompletionKind::Keyword, "var:", "var:", "a variable or an output", 1)];
    if with_spans {
        offers.push(offer(CompletionKind::Keyword, "attr:", "attr:", "an attribute of the span", 0));
    }
    offers
}

/// Filters; with their `|` if it is not there yet.
pub(super) fn filters(with_sign: bool) -> Vec<Offer> {
    let argument = |name: &str| match name {
        "json_path" => " '$'",
        "regex" => " '.*'",
        "regex_group" => " '(.*)'",
        "get_index" => " 0",
        _ => "",
    };
    let detail = |name: &str| match name {
        "json_path" => "the value at a path in JSON",
        "regex" => "all matches of a regular expression",
        "regex_group" => "the groups of all matches",
        "get_index" => "an item of a list",
        "length" => "how many items or characters",
        _ => "the type of the value",
    };
    let sign = if with_sign { "| " } else { "" };
    let filter = |(at, (name, _)): (usize, &(&str, usize))| {
        let insert = format!("{sign}{name}{}", argument(name));
        let priority = if with_sign { at + 50 } else { at };
        offer(CompletionKind::Filter, &format!("{sign}{name}"), &insert, detail(name), priority)
    };
    FILTERS.iter().enumerate().map(filter).collect()
}

/// Special attributes, in both spellings: the second only where it is typed.
pub(super) fn special_attributes() -> Vec<Offer> {
    let mut offers = Vec::new();
    for name in special::names().chain(OTHER_SPECIAL) {
        let priority = match name {
            "tracetest.span.type" => 4,
            "tracetest.span.duration" | "tracetest.response.status" | "tracetest.selected_spans.count" => 20,
            _ => LAST,
        };
        let detail = "a special attribute";
        offers.push(offer(CompletionKind::Attribute, name, name, detail, priority));
        if let Some(other) = names::other_spelling(name) {
            offers.push(offer(CompletionKind::Attribute, &other, &other, detail, LAST + 100 + priority));
        }
    }
    offers
}

/// The priority of what is rarely wanted.
pub(super) const LAST: usize = 10_000;

fn after(first: usize, mut offers: Vec<Offer>) -> Vec<Offer> {
    for offer in &mut offers {
        offer.priority += first;
    }
    offers
}
