//! Evaluation of expressions, on a span or without one.

mod aggregate;

use std::cell::RefCell;
use std::collections::HashMap;

use super::ast::{Expr, ExprKind, Filter, Operator, Part};
use super::field::{Field, FieldValue, TraceIndex};
use super::filters;
use super::functions::Generator;
use super::item::{Item, Origin, Quantity};
use super::variables::Variables;
use crate::budget::{Budget, BudgetError};
use crate::names;
use crate::number::{Number, print_f64};
use crate::value::Value;

/// Why an expression could not be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct EvalError {
    /// The kind of error.
    pub class: EvalErrorKind,
    /// The complete message, in the form that Tracetest's clients recognise.
    pub text: String,
}

/// The kind of an evaluation error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvalErrorKind {
    /// The text is invalid.
    Syntax,
    /// A name is unknown.
    Resolution,
    /// The span does not have this attribute.
    Attribute,
    /// The values do not fit the operation.
    Evaluation,
}

impl From<BudgetError> for EvalError {
    fn from(exceeded: BudgetError) -> Self {
        Self::evaluation(exceeded.to_string())
    }
}

impl EvalError {
    fn resolution(text: impl AsRef<str>) -> Self {
        Self { class: EvalErrorKind::Resolution, text: format!("resolution error: {}", text.as_ref()) }
    }

    pub(crate) fn evaluation(text: impl Into<String>) -> Self {
        Self { class: EvalErrorKind::Evaluation, text: text.into() }
    }

    pub(crate) fn syntax(source: &str, message: &str) -> Self {
        Self { class: EvalErrorKind::Syntax, text: format!("invalid syntax \"{source}\": {message}") }
    }

    /// Turns an error inside a list or a call into one of the whole.
    fn within(self, place: &str) -> Self {
        let rest = self.text.strip_prefix("resolution error: ").unwrap_or(&self.text);
        let class = if self.class == EvalErrorKind::Attribute {
            EvalErrorKind::Attribute
        } else {
            EvalErrorKind::Resolution
        };
        Self { class, ..Self::resolution(format!("{place}: {rest}")) }
    }
}

/// The span that an expression is evaluated on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// There is no trace: a trigger's field.
    Nowhere,
    /// There is a trace, but no span is selected.
    NoSpan,
    /// This span.
    Span(usize),
}

/// The context of an evaluation.
pub(crate) struct Context<'a, 't> {
    pub(crate) scene: Option<&'a TraceIndex<'t>>,
    pub(crate) selection: Option<&'a [usize]>,
    pub(crate) variables: &'a Variables,
    pub(crate) generator: &'a RefCell<Generator>,
    pub(crate) aliases: bool,
    pub(crate) budget: &'a Budget,
    pub(crate) memory: Memory,
}

/// Values that are computed once and used for every span.
#[derive(Default)]
pub(crate) struct Memory {
    fields: Remembered<std::rc::Rc<Field>>,
    constants: Remembered<Item>,
    aggregates: Remembered<Result<Item, EvalError>>,
    pub(crate) used_aliases: RefCell<Vec<(String, &'static str)>>,
}

/// A cache by the address of the node.
type Remembered<T> = RefCell<HashMap<usize, T>>;

const META: &str = "tracetest.selected_spans.";

impl Context<'_, '_> {
    pub(crate) fn evaluate(&self, expr: &Expr, subject: Subject) -> Result<Item, EvalError> {
        self.budget.work(1)?;
        match &expr.kind {
            ExprKind::Number(text) | ExprKind::Duration(text) => {
                Ok(self.constant(expr, || Item::plain(text.as_str())))
            }
            ExprKind::Bool(truth) => Ok(Item::plain(*truth)),
            ExprKind::Text(parts) => self.text(expr, parts, subject),
            ExprKind::Attribute(name) => self.attribute(expr, name, subject),
            ExprKind::Variable(name) => match self.variables.get(name) {
                Some(text) => Ok(self.constant(expr, || Item::plain(text))),
                None => Err(EvalError::resolution(format!("variable \"{name}\" not found"))),
            },
            ExprKind::Array(items) => self.items(items, subject).map(|items| list(&items)),
            ExprKind::Call { name, arguments } => self.call(name, arguments, subject),
            ExprKind::Calculation { first, rest } => {
                let mut value = self.evaluate(first, subject)?;
                for (operator, operand) in rest {
                    value = calculate(&value, *operator, &self.evaluate(operand, subject)?)?;
                }
                Ok(value)
            }
            ExprKind::Filtered { input, filters } => {
                let mut value = self.evaluate(input, subject)?;
                for filter in filters {
                    value = self.filter(filter, &value, subject)?;
                }
                Ok(value)
            }
            ExprKind::Aggregate { function, over } => {
                remembered(&self.memory.aggregates, expr, || aggregate::evaluate(self, *function, over))
            }
            ExprKind::Hole => Err(EvalError::evaluation("the expression is not valid")),
        }
    }

    /// Evaluates the items of a list.
    pub(crate) fn items(&self, items: &[Expr], subject: Subject) -> Result<Vec<Item>, EvalError> {
        let mut values = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            let item = self
                .evaluate(item, subject)
                .map_err(|trouble| trouble.within(&format!("at index {at} of array")))?;
            values.push(item);
        }
        Ok(values)
    }

    fn filter(&self, filter: &Filter, input: &Item, subject: Subject) -> Result<Item, EvalError> {
        let Filter { name, arguments, .. } = filter;
        let arguments = arguments
            .iter()
            .map(|argument| self.evaluate(argument, subject))
            .collect::<Result<Vec<_>, _>>()?;
        match filters::apply(name, input, &arguments, self.budget) {
            Some(Ok(item)) => Ok(item),
            Some(Err(text)) => Err(EvalError::evaluation(format!("{name}: {text}"))),
            None => Err(EvalError::resolution(format!("filter \"{name}\" not found"))),
        }
    }

    fn constant(&self, expr: &Expr, make: impl FnOnce() -> Item) -> Item {
        remembered(&self.memory.constants, expr, make)
    }

    fn text(&self, expr: &Expr, parts: &[Part], subject: Subject) -> Result<Item, EvalError> {
        match parts {
            [] => return Ok(Item::quoted(String::new())),
            [Part::Literal(text)] => return Ok(self.constant(expr, || Item::quoted(text.clone()))),
            _ => {}
        }
        self.fill(parts, subject).map(Item::plain)
    }

    /// Returns the text with every `${...}` replaced.
    pub(crate) fn fill(&self, parts: &[Part], subject: Subject) -> Result<String, EvalError> {
        let mut text = String::new();
        for part in parts {
            match part {
                Part::Literal(literal) => {
                    self.budget.read(literal.len())?;
                    self.budget.hold(literal.len())?;
                    text.push_str(literal);
                }
                Part::Interpolation(inner) => {
                    let item = self.evaluate(inner, subject).map_err(|mut trouble| {
                        trouble.text = format!("could not execute expression: {}", trouble.text);
                        trouble
                    })?;
                    self.budget.read(item.size())?;
                    self.budget.hold(item.size())?;
                    text.push_str(&item.text());
                }
            }
        }
        Ok(text)
    }

    fn attribute(&self, expr: &Expr, name: &str, subject: Subject) -> Result<Item, EvalError> {
        let folded = names::attribute(name);
        if let Some(meta) = folded.strip_prefix(META) {
            return self.meta(name, meta);
        }
        let (Some(scene), Subject::Span(at)) = (self.scene, subject) else {
            return Err(EvalError::resolution(match subject {
                Subject::Nowhere => format!("there is no span here to read the attribute \"{name}\" from"),
                _ => format!(
                    "there are no matching spans to retrieve the attribute \"{name}\" from. To fix this error, create a selector matching at least one span."
                ),
            }));
        };
        let field = remembered(&self.memory.fields, expr, || {
            std::rc::Rc::new(Field::attribute(name, true, self.aliases))
        });
        self.read(scene, &field, name, at)
    }

    /// Returns the value of an expression that is compared with `other`: the method of a call is read in the form that
    /// the other value has.
    pub(crate) fn in_form_of(
        &self,
        expr: &Expr,
        value: Item,
        other: &Item,
        subject: Subject,
    ) -> Result<Item, EvalError> {
        let (ExprKind::Attribute(name), Some(scene), Subject::Span(at), true) =
            (&expr.kind, self.scene, subject, self.aliases)
        else {
            return Ok(value);
        };
        match Field::compared_with(name, [&*other.text()]) {
            Some(field) => self.read(scene, &field, name, at),
            None => Ok(value),
        }
    }

    /// Reads the field of this name from the span.
    pub(crate) fn read(
        &self,
        scene: &TraceIndex<'_>,
        field: &Field,
        name: &str,
        at: usize,
    ) -> Result<Item, EvalError> {
        let Some((seen, alias)) = field.look(scene, at) else {
            if name == "name" {
                return Ok(Item::plain(Value::String(scene.trace.span(at).name.clone())));
            }
            let class = EvalErrorKind::Attribute;
            return Err(EvalError {
                class,
                ..EvalError::resolution(format!("attribute \"{name}\" not found"))
            });
        };
        if let Some(alias) = alias {
            let mut used = self.memory.used_aliases.borrow_mut();
            if !used.iter().any(|(known, other)| known == name && *other == alias) {
                used.push((name.to_owned(), alias));
            }
        }
        Ok(item_of(seen, field.is_duration()))
    }

    fn meta(&self, name: &str, meta: &str) -> Result<Item, EvalError> {
        match (meta, self.selection) {
            ("count", Some(selection)) => Ok(Item::plain(i64::try_from(selection.len()).unwrap_or(i64::MAX))),
            ("count", None) => {
                Err(EvalError::resolution(format!("there is no selection here to read \"{name}\" from")))
            }
            _ => Err(EvalError::evaluation(format!("unknown meta attribute {name}"))),
        }
    }

    fn call(&self, name: &str, arguments: &[Expr], subject: Subject) -> Result<Item, EvalError> {
        let mut items = Vec::with_capacity(arguments.len());
        for (at, argument) in arguments.iter().enumerate() {
            let item = self
                .evaluate(argument, subject)
                .map_err(|trouble| trouble.within(&format!("on argument {at} of function {name}")))?;
            items.push(item);
        }
        match self.generator.borrow_mut().call(name, &items) {
            Some(result) => result.map_err(EvalError::evaluation),
            None => Err(EvalError::resolution(format!("could not find function \"{name}\""))),
        }
    }
}

/// Returns the cached value of this node, computed on first use.
fn remembered<T: Clone>(memory: &Remembered<T>, expr: &Expr, make: impl FnOnce() -> T) -> T {
    let key = std::ptr::from_ref(expr) as usize;
    if let Some(known) = memory.borrow().get(&key) {
        return known.clone();
    }
    let value = make();
    memory.borrow_mut().insert(key, value.clone());
    value
}

/// Converts an attribute to an item; lists and objects become the JSON that Tracetest's files see.
pub(crate) fn item_of(seen: FieldValue<'_>, is_duration: bool) -> Item {
    let value = match seen.into_value() {
        value @ (Value::List(_) | Value::Object(_)) => Value::from(value.to_json().to_text()),
        Value::Null => Value::from(""),
        value => value,
    };
    Item { value, origin: if is_duration { Origin::Nanoseconds } else { Origin::Plain } }
}

/// Makes a list of items.
pub(crate) fn list(items: &[Item]) -> Item {
    Item::plain(Value::List(items.iter().map(|item| item.single().clone()).collect()))
}

pub(crate) fn calculate(left: &Item, operator: Operator, right: &Item) -> Result<Item, EvalError> {
    let mismatch = || {
        EvalError::evaluation(format!(
            "types mismatch: {} {} {}",
            left.type_name(),
            operator.as_str(),
            right.type_name()
        ))
    };
    if left.origin == Origin::Path || matches!(left.value, Value::List(_)) {
        // A single result of a path counts as a value, a list never does.
        if matches!(left.single(), Value::List(_)) {
            return Err(mismatch());
        }
    }
    let (Some(left_quantity), Some(right_quantity)) = (left.quantity(), right.quantity()) else {
        return Err(mismatch());
    };
    let as_duration = |quantity: Quantity, item: &Item| match quantity {
        Quantity::Number(_) if item.origin == Origin::Nanoseconds => item.nanos().map(Quantity::Duration),
        other => Some(other),
    };
    // A span's duration is a number of nanoseconds; it becomes a duration only beside another one.
    let (left_quantity, right_quantity) = match (left_quantity, right_quantity) {
        (number, duration @ Quantity::Duration(_)) if !matches!(number, Quantity::Duration(_)) => {
            (as_duration(number, left).unwrap_or(number), duration)
        }
        (duration @ Quantity::Duration(_), number) if !matches!(number, Quantity::Duration(_)) => {
            (duration, as_duration(number, right).unwrap_or(number))
        }
        both => both,
    };
    match (left_quantity, right_quantity) {
        (Quantity::Duration(left), Quantity::Duration(right)) => {
            durations(left, operator, right).ok_or_else(mismatch)?
        }
        (Quantity::Duration(nanos), factor) => scale(nanos, operator, factor).ok_or_else(mismatch)?,
        (factor, Quantity::Duration(nanos)) if operator == Operator::Multiply => {
            scale(nanos, operator, factor).ok_or_else(mismatch)?
        }
        (_, Quantity::Duration(_)) => Err(mismatch()),
        (left_quantity, right_quantity) => {
            let mut result = numbers(left_quantity, operator, right_quantity)?;
            if is_time(left, operator, right) {
                result.origin = Origin::Nanoseconds;
            }
            Ok(result)
        }
    }
}

/// Whether the result of a calculation with numbers is a number of nanoseconds.
fn is_time(left: &Item, operator: Operator, right: &Item) -> bool {
    let (left, right) = (left.origin == Origin::Nanoseconds, right.origin == Origin::Nanoseconds);
    match operator {
        Operator::Add | Operator::Subtract => left || right,
        Operator::Multiply => left != right,
        Operator::Divide => left && !right,
    }
}

fn numbers(left: Quantity, operator: Operator, right: Quantity) -> Result<Item, EvalError> {
    let exact = match (left, right) {
        (Quantity::Number(_), Quantity::Number(right)) if operator == Operator::Divide && right.is_zero() => {
            return Err(EvalError::evaluation("division by zero"));
        }
        (Quantity::Number(left), Quantity::Number(right)) if left.is_rounded() || right.is_rounded() => None,
        (Quantity::Number(left), Quantity::Number(right)) => match operator {
            Operator::Add => left.add(right),
            Operator::Subtract => left.subtract(right),
            Operator::Multiply => left.multiply(right),
            Operator::Divide => left.divide_evenly(right),
        },
        _ => None,
    };
    if let Some(number) = exact {
        return Ok(Item::plain(number.to_text()));
    }
    let float = |quantity: Quantity| match quantity {
        Quantity::Number(number) => number.to_f64(),
        Quantity::Float(number) => number,
        #[expect(clippy::cast_precision_loss, reason = "durations do not come here")]
        Quantity::Duration(nanos) => nanos as f64,
    };
    let (left, right) = (float(left), float(right));
    let result = match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide => left / right,
    };
    if result.is_finite() {
        Ok(Item::plain(print_f64(result)))
    } else {
        Err(EvalError::evaluation("the result is too large to be a number"))
    }
}

/// Calculates with durations; `None` where the operator does not apply to them.
fn durations(left: i64, operator: Operator, right: i64) -> Option<Result<Item, EvalError>> {
    let nanos = match operator {
        Operator::Add => left.checked_add(right),
        Operator::Subtract => left.checked_sub(right),
        Operator::Multiply => return None,
        Operator::Divide => {
            let (left, right) = (Number::from_i64(left), Number::from_i64(right));
            return Some(numbers(Quantity::Number(left), operator, Quantity::Number(right)));
        }
    };
    Some(match nanos {
        Some(nanos) => Ok(Item::plain(Value::Duration(nanos))),
        None => Err(EvalError::evaluation("the result is too large to be a duration")),
    })
}

fn scale(nanos: i64, operator: Operator, factor: Quantity) -> Option<Result<Item, EvalError>> {
    if matches!(operator, Operator::Add | Operator::Subtract) {
        return None;
    }
    let result = match numbers(Quantity::Number(Number::from_i64(nanos)), operator, factor) {
        Ok(item) => item,
        Err(trouble) => return Some(Err(trouble)),
    };
    let text = result.text();
    let whole = text.split('.').next().unwrap_or_default();
    Some(match whole.parse() {
        Ok(nanos) => Ok(Item::plain(Value::Duration(nanos))),
        Err(_) => Err(EvalError::evaluation("the result is too large to be a duration")),
    })
}
