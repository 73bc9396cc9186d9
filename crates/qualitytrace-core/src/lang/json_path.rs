//! JSONPath: where to look in a JSON document.
//!
//! The dialect is the one that Tracetest's files are written in; the order of the results is that of the document.

use std::cmp::Ordering;

use super::cursor::Cursor;
use super::filters;
use super::json::Json;
use super::number;

/// A path, ready to be followed.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    steps: Vec<Step>,
}

#[derive(Debug, Clone)]
enum Step {
    Name(String),
    Index(i64),
    All,
    Descend,
    Names(Vec<String>),
    Indexes(Vec<i64>),
    Slice(Option<i64>, Option<i64>, i64),
    Filter(Test),
}

/// An expression inside `[?( )]`.
#[derive(Debug, Clone)]
enum Test {
    Value(Json),
    List(Vec<Test>),
    Path(bool, Path),
    Regex(Box<regex::Regex>),
    Not(Box<Test>),
    Binary(Box<Test>, &'static str, Box<Test>),
}

/// Filters inside filters beyond this are refused.
const MAX_DEPTH: usize = 24;

impl Path {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("the path is empty".to_owned());
        }
        let mut parser = Parser { cursor: Cursor::new(text), depth: 0 };
        let steps = parser.path(true)?;
        if parser.cursor.at_end() { Ok(Self { steps }) } else { Err(parser.wrong("unexpected text")) }
    }

    /// Whether the path leads to one place at most.
    pub(crate) fn is_definite(&self) -> bool {
        self.steps.iter().all(|step| matches!(step, Step::Name(_) | Step::Index(_)))
    }

    /// What stands where the path leads.
    pub(crate) fn find(&self, document: &Json) -> Vec<Json> {
        follow(&self.steps, document, document)
    }
}

fn follow(steps: &[Step], from: &Json, root: &Json) -> Vec<Json> {
    let mut found = vec![from.clone()];
    for step in steps {
        found = found.iter().flat_map(|value| step.take(value, root)).collect();
    }
    found
}

impl Step {
    fn take(&self, value: &Json, root: &Json) -> Vec<Json> {
        match self {
            Self::Name(name) => match (value.get(name), value) {
                (Some(value), _) => vec![value.clone()],
                (None, Json::Array(items)) if name == "length" => vec![Json::Number(items.len().to_string())],
                (None, _) => Vec::new(),
            },
            Self::Index(index) => at(value, *index).into_iter().collect(),
            Self::All => children(value),
            Self::Descend => {
                let mut found = Vec::new();
                descend(value, &mut found);
                found
            }
            Self::Names(names) => names.iter().filter_map(|name| value.get(name).cloned()).collect(),
            Self::Indexes(indexes) => indexes.iter().filter_map(|index| at(value, *index)).collect(),
            Self::Slice(start, end, step) => slice(value, *start, *end, *step),
            Self::Filter(test) => children(value)
                .into_iter()
                .filter(|child| test.evaluate(child, root) == Some(Json::Bool(true)))
                .collect(),
        }
    }
}

fn children(value: &Json) -> Vec<Json> {
    match value {
        Json::Array(items) => items.clone(),
        Json::Object(members) => members.iter().map(|(_, value)| value.clone()).collect(),
        _ => Vec::new(),
    }
}

/// Children before the value itself, as Tracetest's library has it.
fn descend(value: &Json, found: &mut Vec<Json>) {
    for child in children(value) {
        if matches!(child, Json::Array(_) | Json::Object(_)) {
            descend(&child, found);
        }
    }
    found.push(value.clone());
}

fn at(value: &Json, index: i64) -> Option<Json> {
    let Json::Array(items) = value else { return None };
    let length = i64::try_from(items.len()).ok()?;
    let index = if index < 0 { index + length } else { index };
    items.get(usize::try_from(index).ok()?).cloned()
}

fn slice(value: &Json, start: Option<i64>, end: Option<i64>, step: i64) -> Vec<Json> {
    let Json::Array(items) = value else {
        return Vec::new();
    };
    let Ok(length) = i64::try_from(items.len()) else {
        return Vec::new();
    };
    let absolute = |index: i64| {
        if index < 0 { (index + length).max(-1) } else { index.min(length) }
    };
    let pick = |index: i64| usize::try_from(index).ok().and_then(|index| items.get(index).cloned());
    let mut found = Vec::new();
    if step > 0 {
        let (mut index, end) = (absolute(start.unwrap_or(0)).max(0), absolute(end.unwrap_or(length)));
        while index < end {
            found.extend(pick(index));
            index = index.saturating_add(step);
        }
    } else if step < 0 {
        let (mut index, end) =
            (absolute(start.unwrap_or(length - 1)).min(length - 1), end.map_or(-1, absolute));
        while index > end {
            found.extend(pick(index));
            index = index.saturating_add(step);
        }
    }
    found
}

impl Test {
    fn evaluate(&self, here: &Json, root: &Json) -> Option<Json> {
        match self {
            Self::Value(value) => Some(value.clone()),
            Self::List(items) => {
                Some(Json::Array(items.iter().filter_map(|item| item.evaluate(here, root)).collect()))
            }
            Self::Path(from_root, path) => {
                follow(&path.steps, if *from_root { root } else { here }, root).into_iter().next()
            }
            Self::Regex(_) => None,
            Self::Not(inner) => Some(Json::Bool(inner.evaluate(here, root) != Some(Json::Bool(true)))),
            Self::Binary(left, operator, right) => {
                let left_value = left.evaluate(here, root);
                if let ("=~", Self::Regex(regex)) = (*operator, &**right) {
                    let matches = matches!(&left_value, Some(Json::String(text)) if regex.is_match(text));
                    return Some(Json::Bool(matches));
                }
                binary(left_value, operator, right.evaluate(here, root))
            }
        }
    }
}

fn binary(left: Option<Json>, operator: &str, right: Option<Json>) -> Option<Json> {
    let is_true = |value: &Option<Json>| *value == Some(Json::Bool(true));
    let truth = match operator {
        "&&" => is_true(&left) && is_true(&right),
        "||" => is_true(&left) || is_true(&right),
        "==" => same(left.as_ref(), right.as_ref()),
        "!=" => !same(left.as_ref(), right.as_ref()),
        "in" => {
            matches!(&right, Some(Json::Array(items)) if items.iter().any(|item| same(left.as_ref(), Some(item))))
        }
        "empty" => {
            let empty = match &left {
                Some(Json::Array(items)) => items.is_empty(),
                Some(Json::Object(members)) => members.is_empty(),
                Some(Json::String(text)) => text.is_empty(),
                _ => return Some(Json::Bool(false)),
            };
            Json::Bool(empty) == right.unwrap_or(Json::Bool(true))
        }
        "=~" => match (&left, &right) {
            (Some(Json::String(text)), Some(Json::String(pattern))) => {
                filters::regex(pattern).is_ok_and(|regex| regex.is_match(text))
            }
            _ => false,
        },
        "<" | "<=" | ">" | ">=" => {
            let order = match (&left, &right) {
                (Some(Json::Number(left)), Some(Json::Number(right))) => number::compare(left, right)?,
                (Some(Json::String(left)), Some(Json::String(right))) => left.cmp(right),
                _ => return Some(Json::Bool(false)),
            };
            match operator {
                "<" => order == Ordering::Less,
                "<=" => order != Ordering::Greater,
                ">" => order == Ordering::Greater,
                _ => order != Ordering::Less,
            }
        }
        _ => return arithmetic(&left?, operator, &right?),
    };
    Some(Json::Bool(truth))
}

fn same(left: Option<&Json>, right: Option<&Json>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => left.same(right),
        // What is not there equals null.
        (None, Some(Json::Null) | None) | (Some(Json::Null), None) => true,
        _ => false,
    }
}

fn arithmetic(left: &Json, operator: &str, right: &Json) -> Option<Json> {
    let (Json::Number(left), Json::Number(right)) = (left, right) else {
        return None;
    };
    let (left, right) = (number::Number::parse(left)?, number::Number::parse(right)?);
    let result = match operator {
        "+" => left.add(right)?,
        "-" => left.subtract(right)?,
        "*" => left.multiply(right)?,
        _ if right.is_zero() => return None,
        _ => {
            left.divide_evenly(right).or_else(|| number::Number::from_f64(left.to_f64() / right.to_f64()))?
        }
    };
    Some(Json::Number(result.to_text()))
}

struct Parser<'s> {
    cursor: Cursor<'s>,
    depth: usize,
}

impl Parser<'_> {
    fn wrong(&self, what: &str) -> String {
        match self.cursor.peek() {
            Some(c) => format!("{what} at byte {}: `{c}`", self.cursor.at),
            None => "it ends too early".to_owned(),
        }
    }

    fn blanks(&mut self) {
        self.cursor.take_while(|c| matches!(c, ' ' | '\t' | '\n' | '\r'));
    }

    /// The steps; `alone` means that the first name may stand without a sign before it.
    fn path(&mut self, alone: bool) -> Result<Vec<Step>, String> {
        let mut steps = Vec::new();
        let _ = self.cursor.eat("$") || self.cursor.eat("@");
        if alone && self.cursor.at == 0 && self.cursor.peek().is_some_and(is_name) {
            steps.push(Step::Name(self.cursor.take_while(is_name).to_owned()));
        }
        loop {
            if self.cursor.eat("..") {
                steps.push(Step::Descend);
                if self.cursor.starts_with("[") {
                    continue;
                }
                steps.push(self.name()?);
            } else if self.cursor.eat(".") {
                steps.push(self.name()?);
            } else if self.cursor.eat("[") {
                steps.push(self.bracket()?);
            } else {
                return Ok(steps);
            }
        }
    }

    fn name(&mut self) -> Result<Step, String> {
        if self.cursor.eat("*") {
            return Ok(Step::All);
        }
        match self.cursor.take_while(is_name) {
            "" => Err(self.wrong("expected a name")),
            name => Ok(Step::Name(name.to_owned())),
        }
    }

    fn bracket(&mut self) -> Result<Step, String> {
        self.blanks();
        if self.cursor.eat("*") {
            self.close("]")?;
            return Ok(Step::All);
        }
        if self.cursor.eat("?") {
            self.blanks();
            if !self.cursor.eat("(") {
                return Err(self.wrong("expected `(`"));
            }
            let test = self.test()?;
            if !matches!(test, Test::Binary(..) | Test::Not(_)) {
                return Err("a filter needs an operator".to_owned());
            }
            self.close(")")?;
            self.close("]")?;
            return Ok(Step::Filter(test));
        }
        if self.cursor.peek().is_some_and(|c| matches!(c, '\'' | '"')) {
            let mut names = vec![self.quoted()?];
            while self.comma() {
                names.push(self.quoted()?);
            }
            self.close("]")?;
            return Ok(match names.len() {
                1 => Step::Name(names.remove(0)),
                _ => Step::Names(names),
            });
        }
        let first = self.integer();
        self.blanks();
        if self.cursor.starts_with(":") {
            return self.slice(first);
        }
        let Some(first) = first else {
            return Err(self.wrong("expected an index or a name"));
        };
        let mut indexes = vec![first];
        while self.comma() {
            indexes.push(self.integer().ok_or_else(|| self.wrong("expected an index"))?);
        }
        self.close("]")?;
        Ok(match indexes.len() {
            1 => Step::Index(first),
            _ => Step::Indexes(indexes),
        })
    }

    fn slice(&mut self, start: Option<i64>) -> Result<Step, String> {
        self.cursor.eat(":");
        self.blanks();
        let end = self.integer();
        self.blanks();
        let step = if self.cursor.eat(":") {
            self.blanks();
            self.integer().unwrap_or(1)
        } else {
            1
        };
        self.close("]")?;
        Ok(Step::Slice(start, end, step))
    }

    fn comma(&mut self) -> bool {
        self.blanks();
        let found = self.cursor.eat(",");
        self.blanks();
        found
    }

    fn close(&mut self, sign: &str) -> Result<(), String> {
        self.blanks();
        if self.cursor.eat(sign) { Ok(()) } else { Err(self.wrong(&format!("expected `{sign}`"))) }
    }

    fn integer(&mut self) -> Option<i64> {
        let before = self.cursor;
        self.cursor.eat("-");
        self.cursor.take_while(|c| c.is_ascii_digit());
        let number = self.cursor.since(before.at).parse().ok();
        if number.is_none() {
            self.cursor = before;
        }
        number
    }

    /// A name in quotes, taken as it stands.
    fn quoted(&mut self) -> Result<String, String> {
        let Some(quote) = self.cursor.peek().filter(|c| matches!(c, '\'' | '"')) else {
            return Err(self.wrong("expected a name in quotes"));
        };
        self.cursor.bump();
        let name = self.cursor.take_while(|c| c != quote);
        if self.cursor.bump().is_none() {
            return Err("a quote is not closed".to_owned());
        }
        Ok(name.to_owned())
    }

    fn test(&mut self) -> Result<Test, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("it is nested too deeply".to_owned());
        }
        let test = self.binary(&[&["&&", "||"], &COMPARISONS, &["+", "-"], &["*", "/"]]);
        self.depth -= 1;
        test
    }

    fn binary(&mut self, levels: &[&[&'static str]]) -> Result<Test, String> {
        let Some((operators, tighter)) = levels.split_first() else {
            return self.operand();
        };
        let mut left = self.binary(tighter)?;
        loop {
            self.blanks();
            let found = operators.iter().find(|operator| self.cursor.starts_with(operator));
            let Some(operator) = found else { return Ok(left) };
            self.cursor.at += operator.len();
            left = Test::Binary(Box::new(left), operator, Box::new(self.binary(tighter)?));
        }
    }

    fn operand(&mut self) -> Result<Test, String> {
        self.blanks();
        match self.cursor.peek() {
            Some('!') => {
                self.cursor.bump();
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return Err("it is nested too deeply".to_owned());
                }
                let inner = self.operand()?;
                self.depth -= 1;
                Ok(Test::Not(Box::new(inner)))
            }
            Some('(') => {
                self.cursor.bump();
                let inner = self.test()?;
                self.close(")")?;
                Ok(inner)
            }
            Some('@' | '$') => {
                let from_root = self.cursor.starts_with("$");
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return Err("it is nested too deeply".to_owned());
                }
                let steps = self.path(false)?;
                self.depth -= 1;
                Ok(Test::Path(from_root, Path { steps }))
            }
            Some('\'' | '"') => self.quoted().map(|text| Test::Value(Json::String(text))),
            Some('[') => self.list(),
            Some('/') => self.pattern(),
            Some(c) if c.is_ascii_digit() || c == '-' => {
                let text =
                    self.cursor.take_while(|c| c.is_ascii_digit() || matches!(c, '-' | '.' | 'e' | 'E'));
                if number::is_number(text) {
                    Ok(Test::Value(Json::Number(text.to_owned())))
                } else {
                    Err(self.wrong("expected a number before"))
                }
            }
            _ => {
                for (word, value) in
                    [("true", Json::Bool(true)), ("false", Json::Bool(false)), ("null", Json::Null)]
                {
                    if self.cursor.eat(word) {
                        return Ok(Test::Value(value));
                    }
                }
                Err(self.wrong("expected a value"))
            }
        }
    }

    fn list(&mut self) -> Result<Test, String> {
        self.cursor.bump();
        let mut items = Vec::new();
        self.blanks();
        while !self.cursor.starts_with("]") {
            items.push(self.operand()?);
            if !self.comma() {
                break;
            }
        }
        self.close("]")?;
        Ok(Test::List(items))
    }

    fn pattern(&mut self) -> Result<Test, String> {
        self.cursor.bump();
        let start = self.cursor.at;
        loop {
            match self.cursor.bump() {
                Some('\\') => {
                    self.cursor.bump();
                }
                Some('/') => break,
                Some(_) => {}
                None => return Err("a regular expression is not closed".to_owned()),
            }
        }
        let pattern = &self.cursor.text[start..self.cursor.at - 1];
        filters::regex(pattern).map(|regex| Test::Regex(Box::new(regex)))
    }
}

const COMPARISONS: [&str; 9] = ["==", "!=", "=~", "<=", ">=", "<", ">", "in", "empty"];

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric()
        || matches!(c, '_' | '#' | '%' | ':' | ';' | '?' | '^' | '{' | '|' | '}' | '~')
        || !c.is_ascii()
}
