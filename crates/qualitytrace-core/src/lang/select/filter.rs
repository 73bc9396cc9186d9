//! Compiled conditions of a selector.

use std::cmp::Ordering;
use std::ops::Range;

use crate::budget::Budget;
use crate::lang::ast::{Clause, Comparator, Condition, Literal, Test};
use crate::lang::field::{Field, FieldValue, TextComparison, TraceIndex};
use crate::lang::pattern::Pattern;
use crate::names;
use crate::number;
use crate::time;
use crate::value::Value;

#[derive(Debug)]
pub(crate) enum Filter {
    Test(Field, Check),
    Not(Box<Filter>),
    All(Vec<Filter>),
    Any(Vec<Filter>),
}

/// A test of a field.
#[derive(Debug)]
pub(crate) enum Check {
    Text(Comparator, Box<str>),
    Number(Comparator, Box<str>),
    Duration(Comparator, i64),
    Matches(bool, Box<Pattern>),
    OneOf(bool, Vec<Check>),
    Exists(bool),
    /// Never true: it could not be compiled.
    Never,
}

pub(crate) fn compile_condition(condition: &Condition, aliases: bool) -> Filter {
    let compile_all = |conditions: &[Condition]| {
        let mut filters: Vec<_> =
            conditions.iter().map(|condition| compile_condition(condition, aliases)).collect();
        filters.sort_by_key(Filter::cost);
        filters
    };
    match condition {
        Condition::Clause(clause) => compile_clause(clause, aliases),
        Condition::Not(inner) => Filter::Not(Box::new(compile_condition(inner, aliases))),
        Condition::All(all) => Filter::All(compile_all(all)),
        Condition::Any(any) => Filter::Any(compile_all(any)),
    }
}

fn compile_clause(clause: &Clause, aliases: bool) -> Filter {
    let literals = match &clause.test {
        Test::Compare(Comparator::Equal | Comparator::NotEqual, literal) => std::slice::from_ref(literal),
        Test::OneOf { choices, .. } => choices,
        Test::Compare(..) | Test::Matches { .. } | Test::Exists { .. } => &[],
    };
    let texts = literals.iter().filter(|_| aliases).filter_map(|literal| match literal {
        Literal::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let field = Field::compared_with(&clause.name.text, texts)
        .unwrap_or_else(|| Field::in_selector(&clause.name.text, clause.name.quoted, aliases));
    let check = match &clause.test {
        Test::Compare(comparator, literal) => compile_literal(&field, *comparator, literal),
        Test::Matches { negated, pattern, .. } => match Pattern::new(pattern) {
            Ok(pattern) => Check::Matches(*negated, Box::new(pattern)),
            Err(_) => Check::Never,
        },
        Test::OneOf { negated, choices } => Check::OneOf(
            *negated,
            choices.iter().map(|choice| compile_literal(&field, Comparator::Equal, choice)).collect(),
        ),
        Test::Exists { negated } => Check::Exists(*negated),
    };
    Filter::Test(field, check)
}

fn compile_literal(field: &Field, comparator: Comparator, literal: &Literal) -> Check {
    match literal {
        Literal::Text(text) => {
            let text = match field {
                Field::Name => names::span(text),
                // Tracetest's spelling.
                Field::Kind if text == "unespecified" => "unspecified",
                _ => text,
            };
            Check::Text(comparator, text.into())
        }
        Literal::Word(word) => Check::Text(comparator, word.as_str().into()),
        Literal::Bool(truth) => Check::Text(comparator, truth.to_string().into()),
        Literal::Number(number) => Check::Number(comparator, number.as_str().into()),
        Literal::Duration(text) => match time::parse_duration(text) {
            Some(nanos) => Check::Duration(comparator, nanos),
            None => Check::Never,
        },
    }
}

/// Spans for each step of a filter that has their values already.
const SPANS_OF_STEP: usize = 8;

impl Filter {
    fn cost(&self) -> u8 {
        match self {
            Self::Test(field, Check::Matches(..)) => field.cost().saturating_add(8),
            Self::Test(field, _) => field.cost(),
            Self::Not(inner) => inner.cost(),
            Self::All(filters) | Self::Any(filters) => {
                filters.iter().map(Self::cost).max().unwrap_or(0).saturating_add(1)
            }
        }
    }

    pub(super) fn each_field<'f>(&'f self, visit: &mut impl FnMut(&'f Field)) {
        match self {
            Self::Test(field, _) => visit(field),
            Self::Not(inner) => inner.each_field(visit),
            Self::All(filters) | Self::Any(filters) => {
                for filter in filters {
                    filter.each_field(visit);
                }
            }
        }
    }

    /// Returns the spans in `range` for which it holds, in order.
    pub(crate) fn find(&self, scene: &TraceIndex<'_>, range: Range<usize>) -> Vec<usize> {
        let alone = std::slice::from_ref(self);
        let filters = if let Self::All(filters) = self { filters } else { alone };
        let rarest = filters
            .iter()
            .enumerate()
            .filter_map(|(at, filter)| {
                let Self::Test(field, check) = filter else { return None };
                let column = scene.column(field, range.len())?;
                let hits = column.hits(scene, |seen| check.holds(seen, scene.budget));
                Some((at, column, hits))
            })
            .min_by_key(|(_, _, hits)| hits.spans);
        let (first, mut found) = match rarest {
            Some((at, column, hits)) => (Some(at), column.gather(&hits, &range)),
            None => (None, range.collect()),
        };
        for (at, filter) in filters.iter().enumerate() {
            if Some(at) != first && !found.is_empty() {
                filter.retain(scene, &mut found);
            }
        }
        found
    }

    /// Keeps the spans for which it holds, in order; none once the budget is used up.
    pub(crate) fn retain(&self, scene: &TraceIndex<'_>, candidates: &mut Vec<usize>) {
        if scene.budget.work(candidates.len() / SPANS_OF_STEP).is_err() {
            candidates.clear();
            return;
        }
        match self {
            Self::Test(field, check) => match scene.column(field, candidates.len()) {
                Some(column) => column.retain(scene, candidates, |seen| check.holds(seen, scene.budget)),
                None => candidates.retain(|at| self.holds(scene, *at)),
            },
            Self::All(filters) => {
                for filter in filters {
                    if candidates.is_empty() {
                        break;
                    }
                    filter.retain(scene, candidates);
                }
            }
            Self::Not(inner) => {
                let mut held = candidates.clone();
                inner.retain(scene, &mut held);
                let mut held = held.into_iter().peekable();
                candidates.retain(|at| held.next_if_eq(at).is_none());
            }
            Self::Any(filters) => {
                let mut left = candidates.clone();
                let mut kept = Vec::new();
                for filter in filters {
                    if scene.budget.check().is_err() {
                        break;
                    }
                    let mut held = left.clone();
                    filter.retain(scene, &mut held);
                    let mut gone = held.iter().peekable();
                    left.retain(|at| gone.next_if_eq(&at).is_none());
                    kept.append(&mut held);
                }
                kept.sort_unstable();
                *candidates = kept;
            }
        }
    }

    pub(crate) fn holds(&self, scene: &TraceIndex<'_>, at: usize) -> bool {
        match self {
            Self::Test(field, check) => {
                check.holds(field.look(scene, at).as_ref().map(|(seen, _)| seen), scene.budget)
            }
            Self::Not(inner) => !inner.holds(scene, at),
            Self::All(filters) => filters.iter().all(|filter| filter.holds(scene, at)),
            Self::Any(filters) => filters.iter().any(|filter| filter.holds(scene, at)),
        }
    }
}

impl Check {
    /// Whether it holds for the value found; every check but `!exists` needs one.
    ///
    /// Returns false once the budget is used up.
    pub(crate) fn holds(&self, seen: Option<&FieldValue<'_>>, budget: &Budget) -> bool {
        if budget.work(1).is_err() {
            return false;
        }
        let Some(seen) = seen else {
            return matches!(self, Self::Exists(true));
        };
        match seen {
            FieldValue::Text(text) => self.holds_for_text(text, budget),
            FieldValue::Nanos(nanos) => match self {
                Self::Duration(comparator, expected) => {
                    ordered(*comparator, time::measured_against(*nanos, *expected))
                }
                _ => self.holds_for_value(&Value::Int(*nanos), budget),
            },
            FieldValue::Value(value) => self.holds_for_value(value, budget),
            FieldValue::Made(value) => self.holds_for_value(value, budget),
        }
    }

    fn holds_for_value(&self, value: &Value, budget: &Budget) -> bool {
        if let Value::String(text) = value {
            return self.holds_for_text(text, budget);
        }
        if let (Value::List(items), false) = (value, matches!(self, Self::Exists(_))) {
            let mut items = items.iter();
            if self.is_negated() {
                return items.all(|item| self.holds_for_value(item, budget));
            }
            if items.any(|item| self.holds_for_value(item, budget)) {
                return true;
            }
        }
        match self {
            Self::Text(Comparator::Equal, expected) => {
                let mut same = TextComparison(Some(expected));
                // Comparing cannot fail.
                let _ = value.write(&mut same);
                same.0 == Some("")
            }
            Self::Number(comparator, expected) => match (value, expected.parse::<i64>()) {
                (Value::Int(number), Ok(expected)) if is_order(*comparator) => {
                    ordered(*comparator, number.cmp(&expected))
                }
                _ => self.holds_for_text(&value.text(), budget),
            },
            Self::Duration(comparator, expected) => match value {
                Value::Duration(nanos) => ordered(*comparator, nanos.cmp(expected)),
                Value::Int(nanos) => ordered(*comparator, time::measured_against(*nanos, *expected)),
                _ => false,
            },
            Self::OneOf(negated, choices) => {
                *negated != choices.iter().any(|choice| choice.holds_for_value(value, budget))
            }
            _ => self.holds_for_text(&value.text(), budget),
        }
    }

    /// Whether it asks for something not to be so: of a list, no item may be so.
    fn is_negated(&self) -> bool {
        match self {
            Self::Text(comparator, _) | Self::Number(comparator, _) | Self::Duration(comparator, _) => {
                matches!(comparator, Comparator::NotEqual | Comparator::NotContains)
            }
            Self::Matches(negated, _) | Self::OneOf(negated, _) => *negated,
            Self::Exists(_) | Self::Never => false,
        }
    }

    fn holds_for_text(&self, text: &str, budget: &Budget) -> bool {
        if budget.read(text.len()).is_err() {
            return false;
        }
        match self {
            Self::Number(comparator, expected) if is_order(*comparator) => {
                match number::compare(text, expected) {
                    Some(order) => ordered(*comparator, order),
                    None => *comparator == Comparator::NotEqual,
                }
            }
            Self::Text(comparator, expected) | Self::Number(comparator, expected) => {
                compare_texts(*comparator, text, expected)
            }
            Self::Duration(comparator, expected) => match text.parse::<i64>() {
                Ok(nanos) => ordered(*comparator, time::measured_against(nanos, *expected)),
                Err(_) => match time::parse_plain_duration(text) {
                    Some(nanos) => ordered(*comparator, nanos.cmp(expected)),
                    None => *comparator == Comparator::NotEqual,
                },
            },
            // An exceeded budget is reported at the end of the selection.
            Self::Matches(negated, pattern) => pattern
                .is_match(text, budget)
                .map_err(|error| error.give_up(budget))
                .is_ok_and(|found| *negated != found),
            Self::OneOf(negated, choices) => {
                *negated != choices.iter().any(|choice| choice.holds_for_text(text, budget))
            }
            Self::Exists(negated) => !negated,
            Self::Never => false,
        }
    }
}

fn compare_texts(comparator: Comparator, text: &str, expected: &str) -> bool {
    match comparator {
        Comparator::Equal => text == expected,
        Comparator::NotEqual => text != expected,
        Comparator::Contains => text.contains(expected),
        Comparator::NotContains => !text.contains(expected),
        Comparator::StartsWith => text.starts_with(expected),
        Comparator::EndsWith => text.ends_with(expected),
        Comparator::Less | Comparator::LessOrEqual | Comparator::Greater | Comparator::GreaterOrEqual => {
            number::compare(text, expected).is_some_and(|order| ordered(comparator, order))
        }
        Comparator::JsonContains
        | Comparator::NotJsonContains
        | Comparator::Matches
        | Comparator::NotMatches => false,
    }
}

fn is_order(comparator: Comparator) -> bool {
    matches!(
        comparator,
        Comparator::Equal
            | Comparator::NotEqual
            | Comparator::Less
            | Comparator::LessOrEqual
            | Comparator::Greater
            | Comparator::GreaterOrEqual
    )
}

/// Whether an order satisfies a comparator.
pub(crate) fn ordered(comparator: Comparator, order: Ordering) -> bool {
    match comparator {
        Comparator::Equal => order.is_eq(),
        Comparator::NotEqual => order.is_ne(),
        Comparator::Less => order.is_lt(),
        Comparator::LessOrEqual => order.is_le(),
        Comparator::Greater => order.is_gt(),
        Comparator::GreaterOrEqual => order.is_ge(),
        _ => false,
    }
}
