//! Semantic checks: unknown names, wrong numbers of arguments, values that never fit.

use super::ast::{Aggregate, AggregateInput, Assertion, Claim, Comparator, Expr, ExprKind, Operator, Part};
use super::diagnostic::{Diagnostic, nearest};
use super::filters::FILTERS;
use super::functions::FUNCTIONS;
use super::json_path::Path;
use super::parser::{Form, parse_assertion, parse_expression, parse_selector, parse_template};
use super::pattern::Pattern;
use super::vocabulary;
use crate::names;
use crate::number;
use crate::time;

/// Returns all diagnostics of a text of this form.
pub fn diagnose(text: &str, form: Form) -> Vec<Diagnostic> {
    match form {
        Form::Selector => diagnose_selector(text),
        Form::Assertion => diagnose_assertion(text),
        Form::Expression => diagnose_expression(text),
        Form::Template => diagnose_template(text),
    }
}

/// Returns all diagnostics of a selector.
pub fn diagnose_selector(text: &str) -> Vec<Diagnostic> {
    let parsed = parse_selector(text);
    let mut diagnostics = parsed.diagnostics;
    if diagnostics.is_empty() {
        vocabulary::check_selector(&parsed.tree, &mut diagnostics);
    }
    diagnostics
}

/// Returns all diagnostics of an assertion.
pub fn diagnose_assertion(text: &str) -> Vec<Diagnostic> {
    let parsed = parse_assertion(text);
    let mut diagnostics = parsed.diagnostics;
    check_assertion(&parsed.tree, &mut diagnostics);
    help_interpolation(text, &mut diagnostics);
    diagnostics
}

/// Explains how to write a variable where the `${...}` of a trigger's text is used outside of quotes.
fn help_interpolation(text: &str, found: &mut [Diagnostic]) {
    let Some(start) = text.find("${") else { return };
    let inner = text[start + 2..].split('}').next().unwrap_or_default().trim();
    let about = |diagnostic: &Diagnostic| {
        diagnostic.is_error() && (start..start + 3 + inner.len()).contains(&diagnostic.span.start)
    };
    for diagnostic in found.iter_mut().filter(|diagnostic| about(diagnostic)) {
        diagnostic.help = Some(format!("outside of quotes write `{inner}`, without `${{` and `}}`"));
    }
}

/// Returns all diagnostics of an expression: the value of an output.
pub fn diagnose_expression(text: &str) -> Vec<Diagnostic> {
    let parsed = parse_expression(text);
    let mut diagnostics = parsed.diagnostics;
    check_expression(&parsed.tree, &mut diagnostics);
    diagnostics
}

/// Returns all diagnostics of a text of a trigger.
pub fn diagnose_template(text: &str) -> Vec<Diagnostic> {
    let parsed = parse_template(text);
    let mut diagnostics = parsed.diagnostics;
    for part in &parsed.tree {
        if let Part::Interpolation(inner) = part {
            check_expression(inner, &mut diagnostics);
            no_attributes(inner, &mut diagnostics);
        }
    }
    diagnostics
}

fn check_assertion(assertion: &Assertion, found: &mut Vec<Diagnostic>) {
    match &assertion.claim {
        Claim::Compare { left, comparator, right } => {
            check_expression(left, found);
            check_expression(right, found);
            check_comparison(*comparator, left, found);
            check_comparison(*comparator, right, found);
            found.extend(without_unit(&assertion.claim));
            if let (Comparator::Matches | Comparator::NotMatches, Some(pattern)) =
                (comparator, literal(right))
            {
                check_pattern(pattern, right, found);
            }
        }
        Claim::OneOf { left, right, .. } => {
            check_expression(left, found);
            check_expression(right, found);
        }
        Claim::Exists { left, .. } => check_expression(left, found),
        Claim::Time { .. } | Claim::Hole => {}
    }
}

/// Returns a warning if the claim compares the duration of a span with a number without a unit.
pub(crate) fn without_unit(claim: &Claim) -> Option<Diagnostic> {
    let Claim::Compare { left, right, .. } = claim else { return None };
    let number = match (is_duration(left), is_duration(right)) {
        (true, false) => right,
        (false, true) => left,
        (true, true) | (false, false) => return None,
    };
    match &number.kind {
        ExprKind::Number(text) => vocabulary::without_unit(text, &number.place.0),
        _ => vocabulary::without_unit(literal(number)?, &number.place.0),
    }
}

/// Whether the value is the duration of a span, or one of several.
fn is_duration(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Attribute(name) => vocabulary::is_duration(name),
        ExprKind::Aggregate { function: Aggregate::Count | Aggregate::Distinct, .. } => false,
        ExprKind::Aggregate { over: AggregateInput::Own(Some(inner)), .. } => is_duration(inner),
        ExprKind::Aggregate { over: AggregateInput::Selection { attribute: Some(name), .. }, .. } => {
            vocabulary::is_duration(name)
        }
        _ => false,
    }
}

/// Reports an ordering comparison with a text that is neither a number nor a duration.
fn check_comparison(comparator: Comparator, side: &Expr, found: &mut Vec<Diagnostic>) {
    let is_order = matches!(
        comparator,
        Comparator::Less | Comparator::LessOrEqual | Comparator::Greater | Comparator::GreaterOrEqual
    );
    let Some(text) = literal(side).filter(|_| is_order) else {
        return;
    };
    if !number::is_number(text) && time::parse_duration(text).is_none() {
        found.push(
            Diagnostic::error(
                "not-a-number",
                side.place.0.clone(),
                format!("`{}` compares numbers, and \"{text}\" is not one", comparator.as_str()),
            )
            .labelled("not a number"),
        );
    }
}

fn check_expression(expr: &Expr, found: &mut Vec<Diagnostic>) {
    match &expr.kind {
        ExprKind::Text(parts) => {
            for part in parts {
                if let Part::Interpolation(inner) = part {
                    check_expression(inner, found);
                }
            }
        }
        ExprKind::Attribute(name) => check_attribute(name, expr, found),
        ExprKind::Array(items) => {
            for item in items {
                check_expression(item, found);
            }
        }
        ExprKind::Call { name, arguments } => {
            for argument in arguments {
                check_expression(argument, found);
            }
            check_call(name, arguments, expr, found);
        }
        ExprKind::Calculation { first, rest } => {
            check_expression(first, found);
            let mut kind = kind_of(first);
            for (operator, operand) in rest {
                check_expression(operand, found);
                let place = expr.place.0.start..operand.place.0.end;
                kind = check_operands(kind, *operator, kind_of(operand), place, found);
            }
        }
        ExprKind::Filtered { input, filters } => {
            check_expression(input, found);
            for filter in filters {
                for argument in &filter.arguments {
                    check_expression(argument, found);
                }
                check_filter(&filter.name, filter.place.0.clone(), &filter.arguments, found);
            }
        }
        ExprKind::Aggregate { function, over } => check_aggregate(*function, over, expr, found),
        ExprKind::Number(_)
        | ExprKind::Duration(_)
        | ExprKind::Bool(_)
        | ExprKind::Variable(_)
        | ExprKind::Hole => {}
    }
}

fn check_attribute(name: &str, expr: &Expr, found: &mut Vec<Diagnostic>) {
    let folded = names::attribute(name);
    let Some(meta) = folded.strip_prefix("tracetest.selected_spans.") else {
        return vocabulary::check_attribute(name, &expr.place.0, found);
    };
    if meta != "count" {
        found.push(
            Diagnostic::error(
                "unknown-attribute",
                expr.place.0.clone(),
                format!("a selection has no `{meta}`"),
            )
            .labelled("unknown")
            .helped("a selection has only `attr:tracetest.selected_spans.count`"),
        );
    }
}

fn check_call(name: &str, arguments: &[Expr], expr: &Expr, found: &mut Vec<Diagnostic>) {
    let Some((_, least, most)) = FUNCTIONS.iter().find(|(known, ..)| *known == name) else {
        let mut diagnostic = Diagnostic::error(
            "unknown-function",
            expr.place.0.clone(),
            format!("there is no function `{name}`"),
        )
        .labelled("unknown function");
        if let Some(near) = nearest(name, FUNCTIONS.iter().map(|(known, ..)| *known)) {
            diagnostic = diagnostic.helped(format!("did you mean `{near}`?"));
        }
        found.push(diagnostic);
        return;
    };
    if !(*least..=*most).contains(&arguments.len()) {
        let expected = if least == most { least.to_string() } else { format!("{least} to {most}") };
        found.push(
            Diagnostic::error(
                "wrong-arguments",
                expr.place.0.clone(),
                format!("`{name}` takes {expected} arguments, not {}", arguments.len()),
            )
            .labelled(format!("{} arguments", arguments.len())),
        );
    }
}

fn check_filter(name: &str, place: std::ops::Range<usize>, arguments: &[Expr], found: &mut Vec<Diagnostic>) {
    let Some((_, expected)) = FILTERS.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = FILTERS.iter().map(|(known, _)| *known).collect();
        let help = match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the filters are {}", known.join(", ")),
        };
        found.push(
            Diagnostic::error("unknown-filter", place, format!("there is no filter `{name}`"))
                .labelled("unknown filter")
                .helped(help),
        );
        return;
    };
    if arguments.len() != *expected {
        found.push(
            Diagnostic::error(
                "wrong-arguments",
                place,
                format!("`{name}` takes {expected} arguments, not {}", arguments.len()),
            )
            .labelled(format!("{} arguments", arguments.len())),
        );
        return;
    }
    let Some((argument, text)) = arguments.first().and_then(|argument| Some((argument, literal(argument)?)))
    else {
        return;
    };
    match name {
        "regex" => check_pattern(text, argument, found),
        "regex_group" => {
            check_pattern(text, argument, found);
            if Pattern::new(text).is_ok_and(|pattern| !pattern.has_groups()) {
                found.push(
                    Diagnostic::error("no-group", argument.place.0.clone(), "the pattern has no group")
                        .labelled("no group")
                        .helped("put parentheses around what to take out, or use the filter `regex`"),
                );
            }
        }
        "json_path" => {
            if let Err(error) = Path::parse(text) {
                found.push(
                    Diagnostic::error(
                        "invalid-path",
                        argument.place.0.clone(),
                        format!("the path is invalid: {error}"),
                    )
                    .labelled("not a JSONPath"),
                );
            }
        }
        _ => {}
    }
}

fn check_pattern(pattern: &str, place: &Expr, found: &mut Vec<Diagnostic>) {
    if let Err(error) = Pattern::new(pattern) {
        found.push(
            Diagnostic::error("invalid-regex", place.place.0.clone(), error)
                .labelled("not a regular expression"),
        );
    }
}

/// Reports operands that cannot be calculated with; returns the type of the result, where it is known.
fn check_operands(
    left: Option<&'static str>,
    operator: Operator,
    right: Option<&'static str>,
    place: std::ops::Range<usize>,
    found: &mut Vec<Diagnostic>,
) -> Option<&'static str> {
    let (left, right) = (left?, right?);
    let fits = matches!(
        (left, operator, right),
        ("number", _, "number")
            | ("duration", Operator::Add | Operator::Subtract | Operator::Divide, "duration")
            | ("duration", Operator::Multiply | Operator::Divide, "number")
            | ("number", Operator::Multiply, "duration")
    );
    if !fits {
        let help = match (left, right) {
            ("duration", "number") | ("number", "duration") => Some("give the number a unit, like `5ms`"),
            _ => None,
        };
        let mut diagnostic = Diagnostic::error(
            "types-mismatch",
            place,
            format!("a {left} `{}` a {right} has no value", operator.as_str()),
        )
        .labelled(format!("{left} {} {right}", operator.as_str()));
        if let Some(help) = help {
            diagnostic = diagnostic.helped(help);
        }
        found.push(diagnostic);
    }
    Some(result_of(left, operator, right))
}

fn result_of(left: &str, operator: Operator, right: &str) -> &'static str {
    match (left, operator, right) {
        ("duration", Operator::Divide, "duration") | ("number", _, "number") => "number",
        _ => "duration",
    }
}

/// Returns the type of an expression, where it is known statically.
fn kind_of(expr: &Expr) -> Option<&'static str> {
    match &expr.kind {
        ExprKind::Number(_) => Some("number"),
        ExprKind::Duration(_) => Some("duration"),
        ExprKind::Array(_) => Some("list"),
        ExprKind::Calculation { first, rest } => {
            rest.iter().try_fold(kind_of(first)?, |left, (operator, operand)| {
                Some(result_of(left, *operator, kind_of(operand)?))
            })
        }
        _ => None,
    }
}

fn check_aggregate(function: Aggregate, over: &AggregateInput, expr: &Expr, found: &mut Vec<Diagnostic>) {
    let missing = match over {
        AggregateInput::Own(Some(inner)) => {
            check_expression(inner, found);
            false
        }
        AggregateInput::Own(None) => function != Aggregate::Count,
        AggregateInput::Selection { attribute, .. } => attribute.is_none() && function != Aggregate::Count,
    };
    if missing {
        found.push(
            Diagnostic::error(
                "wrong-arguments",
                expr.place.0.clone(),
                "this does not say which attribute to aggregate",
            )
            .labelled("which attribute?")
            .helped("write `sum(attr:...)` for the selected spans, or `sum(span[...]).attribute` for others"),
        );
    }
}

fn no_attributes(expr: &Expr, found: &mut Vec<Diagnostic>) {
    if let ExprKind::Attribute(name) = &expr.kind {
        found.push(
            Diagnostic::error(
                "no-span-here",
                expr.place.0.clone(),
                format!("a trigger has no span to read `{name}` from"),
            )
            .labelled("no span here")
            .helped("read it in an output of an earlier test, and use it as `var:NAME`"),
        );
    }
    match &expr.kind {
        ExprKind::Filtered { input, .. } => no_attributes(input, found),
        ExprKind::Calculation { first, rest } => {
            no_attributes(first, found);
            for (_, operand) in rest {
                no_attributes(operand, found);
            }
        }
        _ => {}
    }
}

/// Returns the text of a literal.
fn literal(expr: &Expr) -> Option<&str> {
    match &expr.kind {
        ExprKind::Text(parts) => match parts.as_slice() {
            [] => Some(""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        },
        _ => None,
    }
}
