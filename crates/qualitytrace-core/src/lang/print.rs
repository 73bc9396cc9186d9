//! The printer of syntax trees. Printed text parses to the same tree again.

use std::fmt::{self, Display, Formatter, Write};

use super::ast::{
    Aggregate, AggregateInput, Assertion, Chain, Claim, Clause, Combinator, Condition, Expr, ExprKind,
    Literal, Name, Part, Pseudo, Quantifier, Relation, Selector, Step, Test,
};

/// Puts the text in double quotes, so that it parses to itself as an expression.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    escape(text, &mut quoted);
    quoted.push('"');
    quoted
}

fn escape(text: &str, out: &mut String) {
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '$' if characters.peek() == Some(&'{') => out.push_str("\\$"),
            c => out.push(c),
        }
    }
}

/// Puts the text in double quotes, so that it parses to itself in a selector.
pub fn quote_in_selector(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => {
                // Writing to a string cannot fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

fn separated<T: Display>(f: &mut Formatter<'_>, items: &[T], separator: &str) -> fmt::Result {
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            f.write_str(separator)?;
        }
        item.fmt(f)?;
    }
    Ok(())
}

impl Display for Selector {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        separated(f, &self.chains, ", ")
    }
}

impl Display for Chain {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.first.fmt(f)?;
        self.rest.iter().try_for_each(|(combinator, step)| write!(f, " {combinator}{step}"))
    }
}

impl Display for Combinator {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Descendant => "",
            Self::Child => "> ",
            Self::Sibling => "~ ",
            Self::Next => "+ ",
        })
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "span[{}]", self.condition)?;
        self.pseudos.iter().try_for_each(|pseudo| pseudo.fmt(f))
    }
}

impl Display for Condition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clause(clause) => clause.fmt(f),
            Self::Not(inner) => match &**inner {
                inner @ (Self::Clause(_) | Self::Not(_)) => write!(f, "not {inner}"),
                inner => write!(f, "not ({inner})"),
            },
            Self::All(all) => {
                for (at, condition) in all.iter().enumerate() {
                    if at > 0 {
                        f.write_char(' ')?;
                    }
                    match condition {
                        Self::Clause(_) | Self::Not(_) => condition.fmt(f)?,
                        Self::All(_) | Self::Any(_) => write!(f, "({condition})")?,
                    }
                }
                Ok(())
            }
            Self::Any(any) => {
                for (at, condition) in any.iter().enumerate() {
                    if at > 0 {
                        f.write_str(" or ")?;
                    }
                    match condition {
                        Self::Clause(_) | Self::Not(_) | Self::All(_) => condition.fmt(f)?,
                        Self::Any(_) => write!(f, "({condition})")?,
                    }
                }
                Ok(())
            }
        }
    }
}

impl Display for Clause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name, self.test)
    }
}

impl Display for Name {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.quoted { f.write_str(&quote_in_selector(&self.text)) } else { f.write_str(&self.text) }
    }
}

impl Display for Test {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let not = |negated: &bool| if *negated { "not " } else { "" };
        match self {
            Self::Compare(comparator, literal) => match comparator.as_str() {
                sign @ ("=" | "!=" | "<" | "<=" | ">" | ">=") => write!(f, "{sign}{literal}"),
                word => write!(f, " {word} {literal}"),
            },
            Self::Matches { negated, pattern, .. } => {
                let sign = if *negated { "!~" } else { "=~" };
                write!(f, " {sign} {}", quote_in_selector(pattern))
            }
            Self::OneOf { negated, choices } => {
                write!(f, " {}in (", not(negated))?;
                separated(f, choices, ", ")?;
                f.write_char(')')
            }
            Self::Exists { negated } => f.write_str(if *negated { " !exists" } else { " exists" }),
        }
    }
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(&quote_in_selector(text)),
            Self::Number(text) | Self::Duration(text) | Self::Word(text) => f.write_str(text),
            Self::Bool(truth) => truth.fmt(f),
        }
    }
}

impl Display for Pseudo {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => f.write_str(":first"),
            Self::Last => f.write_str(":last"),
            Self::Nth(n) => write!(f, ":nth_child({n})"),
            Self::Root => f.write_str(":root"),
            Self::Leaf => f.write_str(":leaf"),
            Self::Has { combinator, selector } => write!(f, ":has({combinator}{selector})"),
            Self::Not(selector) => write!(f, ":not({selector})"),
        }
    }
}

impl Display for Assertion {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.quantifier {
            Quantifier::All => {}
            Quantifier::Any => f.write_str("any ")?,
            Quantifier::None => f.write_str("none ")?,
            Quantifier::Exactly(n) => write!(f, "{n} of ")?,
            Quantifier::AtLeast(n) => write!(f, "at least {n} of ")?,
            Quantifier::AtMost(n) => write!(f, "at most {n} of ")?,
        }
        self.claim.fmt(f)
    }
}

impl Display for Claim {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compare { left, comparator, right } => write!(f, "{left} {} {right}", comparator.as_str()),
            Self::OneOf { left, negated, right } => {
                write!(f, "{left} is {}one of {right}", if *negated { "not " } else { "" })
            }
            Self::Exists { left, negated } => write!(f, "{left} {}exists", if *negated { "!" } else { "" }),
            Self::Time { relation, selector } => match relation {
                Relation::Before => write!(f, "before {selector}"),
                Relation::After => write!(f, "after {selector}"),
                Relation::Overlaps => write!(f, "overlaps {selector}"),
                Relation::Within(duration) => write!(f, "within {duration} of {selector}"),
            },
            Self::Hole => Ok(()),
        }
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.print(f, false)
    }
}

impl Expr {
    fn print(&self, f: &mut Formatter<'_>, inside_text: bool) -> fmt::Result {
        match &self.kind {
            ExprKind::Number(text) | ExprKind::Duration(text) => f.write_str(text),
            ExprKind::Bool(truth) => truth.fmt(f),
            ExprKind::Text(parts) => print_text(f, parts, inside_text),
            ExprKind::Attribute(name) => match if_plain(name) {
                Some(name) => write!(f, "attr:{name}"),
                None => write!(f, "attr:{}", quote(name)),
            },
            ExprKind::Variable(name) => write!(f, "var:{name}"),
            ExprKind::Array(items) => {
                f.write_char('[')?;
                print_list(f, items, inside_text)?;
                f.write_char(']')
            }
            ExprKind::Call { name, arguments } => {
                write!(f, "{name}(")?;
                print_list(f, arguments, inside_text)?;
                f.write_char(')')
            }
            ExprKind::Calculation { first, rest } => {
                first.print_operand(f, inside_text, level(rest))?;
                rest.iter().try_for_each(|(operator, operand)| {
                    write!(f, " {} ", operator.as_str())?;
                    operand.print_operand(f, inside_text, precedence(*operator) + 1)
                })
            }
            ExprKind::Filtered { input, filters } => {
                input.print(f, inside_text)?;
                filters.iter().try_for_each(|filter| {
                    write!(f, " | {}", filter.name)?;
                    filter.arguments.iter().try_for_each(|argument| {
                        f.write_char(' ')?;
                        argument.print_operand(f, inside_text, TERM)
                    })
                })
            }
            ExprKind::Aggregate { function, over } => print_aggregate(f, *function, over, inside_text),
            ExprKind::Hole => Ok(()),
        }
    }

    /// Prints an operand, in parentheses if its precedence is lower than required.
    fn print_operand(&self, f: &mut Formatter<'_>, inside_text: bool, demanded: u8) -> fmt::Result {
        let own = match &self.kind {
            ExprKind::Calculation { rest, .. } => level(rest),
            ExprKind::Filtered { .. } => 0,
            _ => TERM,
        };
        if own < demanded {
            f.write_char('(')?;
            self.print(f, inside_text)?;
            f.write_char(')')
        } else {
            self.print(f, inside_text)
        }
    }
}

const TERM: u8 = 3;

/// Returns the precedence of a calculation, which all its operators share.
fn level(rest: &[(super::ast::Operator, Expr)]) -> u8 {
    rest.first().map_or(TERM, |(operator, _)| precedence(*operator))
}

fn precedence(operator: super::ast::Operator) -> u8 {
    use super::ast::Operator;
    match operator {
        Operator::Add | Operator::Subtract => 1,
        Operator::Multiply | Operator::Divide => 2,
    }
}

fn print_list(f: &mut Formatter<'_>, items: &[Expr], inside_text: bool) -> fmt::Result {
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            f.write_str(", ")?;
        }
        item.print(f, inside_text)?;
    }
    Ok(())
}

fn print_aggregate(
    f: &mut Formatter<'_>,
    function: Aggregate,
    over: &AggregateInput,
    inside_text: bool,
) -> fmt::Result {
    match function {
        Aggregate::Count => f.write_str("count("),
        Aggregate::Sum => f.write_str("sum("),
        Aggregate::Avg => f.write_str("avg("),
        Aggregate::Min => f.write_str("min("),
        Aggregate::Max => f.write_str("max("),
        Aggregate::Distinct => f.write_str("distinct("),
        Aggregate::First => f.write_str("first("),
        Aggregate::Last => f.write_str("last("),
        Aggregate::Percentile(percent) => write!(f, "p{percent}("),
    }?;
    match over {
        AggregateInput::Own(None) => f.write_char(')'),
        AggregateInput::Own(Some(inner)) => {
            inner.print(f, inside_text)?;
            f.write_char(')')
        }
        AggregateInput::Selection { selector, attribute } => {
            write!(f, "{selector})")?;
            match attribute {
                None => Ok(()),
                Some(name) => match if_plain(name) {
                    Some(name) => write!(f, ".{name}"),
                    None => write!(f, ".{}", quote(name)),
                },
            }
        }
    }
}

fn print_text(f: &mut Formatter<'_>, parts: &[Part], inside_text: bool) -> fmt::Result {
    // Inside another text single quotes are easier to read, where they need no escapes.
    let plain = |part: &Part| matches!(part, Part::Literal(text) if !text.contains(['\'', '\\', '$', '}', '{', '[', '\n', '\r', '\t']));
    if inside_text && parts.iter().all(plain) {
        f.write_char('\'')?;
        for part in parts {
            if let Part::Literal(text) = part {
                f.write_str(text)?;
            }
        }
        return f.write_char('\'');
    }
    f.write_char('"')?;
    for part in parts {
        match part {
            Part::Literal(text) => {
                let mut escaped = String::new();
                escape(text, &mut escaped);
                f.write_str(&escaped)?;
            }
            Part::Interpolation(inner) => {
                f.write_str("${")?;
                inner.print(f, true)?;
                f.write_char('}')?;
            }
        }
    }
    f.write_char('"')
}

/// Whether the character is allowed in an attribute's name without quotes.
pub(super) fn is_attribute_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}

/// Returns the name, if it can be written without quotes.
fn if_plain(name: &str) -> Option<&str> {
    (!name.starts_with(['.', '-']) && !name.is_empty() && name.chars().all(is_attribute_character))
        .then_some(name)
}
