//! The grammar of selectors.

use super::Parser;
use crate::lang::ast::{
    Chain, Clause, Combinator, Comparator, Condition, Literal, Name, Place, Pseudo, Selector, Step, Test,
};
use crate::lang::diagnostic::{Diagnostic, nearest};

const PSEUDOS: [&str; 7] = ["first", "last", "nth_child", "root", "leaf", "has", "not"];
const UNITS: [&str; 6] = ["ns", "us", "ms", "s", "m", "h"];

impl<'s> Parser<'s> {
    pub(super) fn whole_selector(&mut self) -> Selector {
        let selector = self.selector();
        self.blanks();
        if !self.cursor.at_end() {
            let code = "unexpected-text";
            let rest = self.cursor.rest();
            self.unexpected(code, "`span[` or the end of the selector");
            if rest.starts_with("and") || rest.starts_with("or") {
                self.help("to select the spans of either, separate the selectors with a comma; `and` and `or` stand inside the brackets");
            } else if rest.to_lowercase().starts_with("span") {
                self.help("the word is `span`, in lower case, followed by `[`");
            }
        }
        selector
    }

    /// A comma list of chains, up to something that cannot continue it.
    pub(super) fn selector(&mut self) -> Selector {
        self.blanks();
        let start = self.cursor.at;
        let mut chains = Vec::new();
        let mut after_comma = self.comma();
        loop {
            if !self.at_word("span") {
                if after_comma {
                    self.unexpected("expected-selector", "`span[` after the comma");
                }
                break;
            }
            match self.chain() {
                Some(chain) => chains.push(chain),
                None => break,
            }
            after_comma = self.comma();
            if !after_comma {
                break;
            }
        }
        Selector { chains, place: self.span(start).into() }
    }

    fn chain(&mut self) -> Option<Chain> {
        let first = self.step()?;
        let mut rest = Vec::new();
        loop {
            self.blanks();
            let start = self.cursor.at;
            let combinator = self.combinator();
            if combinator != Combinator::Descendant {
                self.beyond(start);
                self.blanks();
                if !self.at_word("span") {
                    self.unexpected("expected-selector", "`span[` after this sign");
                    break;
                }
            } else if !self.at_word("span") {
                break;
            }
            rest.push((combinator, self.step()?));
        }
        Some(Chain { first, rest })
    }

    fn combinator(&mut self) -> Combinator {
        for (sign, combinator) in
            [(">", Combinator::Child), ("~", Combinator::Sibling), ("+", Combinator::Next)]
        {
            if self.cursor.eat(sign) {
                return combinator;
            }
        }
        Combinator::Descendant
    }

    /// `span[...]` and its pseudo-classes; the word `span` is here.
    fn step(&mut self) -> Option<Step> {
        let start = self.cursor.at;
        self.cursor.at += "span".len();
        self.blanks();
        if !self.cursor.eat("[") {
            self.unexpected("expected-bracket", "`[` after `span`");
            return None;
        }
        let open = self.span(self.cursor.at - 1);
        let condition = self.deeper(Self::conditions)?;
        self.blanks();
        if !self.cursor.eat("]") {
            if self.cursor.at_end() {
                // A text that is never closed has swallowed the bracket.
                let swallowed = self.diagnostics.iter().any(|other| other.code == "unclosed-string");
                if swallowed {
                    return None;
                }
                self.report(
                    Diagnostic::error("unclosed-bracket", open, "this bracket is never closed")
                        .labelled("never closed")
                        .helped("add `]` after the last condition"),
                );
            } else {
                self.unexpected("unexpected-text", "a condition or `]`");
                self.recover_in_brackets();
            }
        }
        let mut pseudos = Vec::new();
        while let Some(pseudo) = self.deeper(Self::pseudo)? {
            self.add_pseudo(&mut pseudos, pseudo, start);
        }
        Some(Step { condition, pseudos, place: self.span(start).into() })
    }

    fn add_pseudo(&mut self, pseudos: &mut Vec<Pseudo>, pseudo: Pseudo, start: usize) {
        let is_position = |pseudo: &Pseudo| matches!(pseudo, Pseudo::First | Pseudo::Last | Pseudo::Nth(_));
        if is_position(&pseudo) && pseudos.iter().any(is_position) {
            let span = self.span(start);
            self.report(
                Diagnostic::error("two-positions", span, "a selector can take only one position of its list")
                    .labelled("two positions")
                    .helped("keep one of `:first`, `:last` and `:nth_child(n)`"),
            );
        }
        pseudos.push(pseudo);
    }

    fn recover_in_brackets(&mut self) {
        while let Some(c) = self.cursor.peek() {
            match c {
                '"' => {
                    let before = self.diagnostics.len();
                    self.selector_string();
                    self.diagnostics.truncate(before);
                }
                ']' => {
                    self.cursor.bump();
                    return;
                }
                _ => {
                    self.cursor.bump();
                }
            }
        }
    }

    fn conditions(&mut self) -> Condition {
        self.blanks();
        if self.cursor.peek().is_none_or(|c| c == ']') {
            return Condition::All(Vec::new());
        }
        self.comma();
        self.any_condition()
    }

    fn any_condition(&mut self) -> Condition {
        let mut any = vec![self.all_conditions()];
        while let Some(start) = self.keyword("or") {
            self.beyond(start);
            any.push(self.all_conditions());
        }
        if any.len() == 1 { any.remove(0) } else { Condition::Any(any) }
    }

    fn all_conditions(&mut self) -> Condition {
        let mut all = Vec::new();
        loop {
            let start = self.cursor.at;
            let condition = self.one_condition();
            let is_broken = condition.is_none();
            all.extend(condition);
            // After a broken condition the next one may be well again.
            if is_broken && self.cursor.at == start {
                break;
            }
            if let Some(start) = self.keyword("and") {
                self.beyond(start);
                continue;
            }
            if self.comma() {
                continue;
            }
            if self.at_keyword("or") || !self.at_condition() {
                break;
            }
        }
        if all.len() == 1 { all.remove(0) } else { Condition::All(all) }
    }

    fn at_condition(&mut self) -> bool {
        self.blanks();
        self.cursor.peek().is_some_and(|c| is_identifier_start(c) || matches!(c, '"' | '(' | '!'))
    }

    fn one_condition(&mut self) -> Option<Condition> {
        self.blanks();
        let start = self.cursor.at;
        if self.keyword("not").is_some() || (self.cursor.starts_with("!") && self.cursor.eat("!")) {
            self.beyond(start);
            let inner = self.deeper(Self::one_condition)??;
            return Some(Condition::Not(Box::new(inner)));
        }
        if self.cursor.eat("(") {
            let inner = self.deeper(Self::any_condition)?;
            self.blanks();
            if !self.cursor.eat(")") {
                self.unexpected("unclosed-parenthesis", "`)`");
            }
            self.beyond(start);
            return Some(inner);
        }
        self.clause().map(Condition::Clause)
    }

    fn clause(&mut self) -> Option<Clause> {
        let start = self.cursor.at;
        let name = self.name()?;
        let test = self.test(&name)?;
        Some(Clause { name, test, place: self.span(start).into() })
    }

    fn name(&mut self) -> Option<Name> {
        self.blanks();
        let start = self.cursor.at;
        if self.cursor.peek() == Some('"') {
            let text = self.selector_string()?;
            self.beyond(start);
            return Some(Name { text, quoted: true, place: self.span(start).into() });
        }
        if !self.cursor.peek().is_some_and(is_identifier_start) {
            self.unexpected("expected-attribute", "the name of an attribute");
            if self.cursor.peek().is_some_and(|c| matches!(c, '“' | '”')) {
                self.help("write straight quotes (\") instead of typographic ones");
            }
            return None;
        }
        let mut text = String::new();
        let mut end = self.cursor.at;
        loop {
            let at = self.cursor.at;
            let segment = self.cursor.take_while(|c| is_identifier_part(c) || c == '-');
            if segment.is_empty() {
                self.unexpected("expected-attribute", "the rest of the attribute's name after the dot");
                return None;
            }
            if segment.contains('-') || segment.starts_with(|c| !is_identifier_start(c)) {
                self.beyond(at);
            }
            text.push_str(segment);
            end = end.max(self.cursor.at);
            self.blanks();
            if !self.cursor.eat(".") {
                self.cursor.at = end;
                break;
            }
            text.push('.');
            self.blanks();
        }
        Some(Name { text, quoted: false, place: self.span(start).into() })
    }

    fn test(&mut self, name: &Name) -> Option<Test> {
        self.blanks();
        let start = self.cursor.at;
        if self.cursor.starts_with("==") {
            self.cursor.at += 2;
            let span = self.span(start);
            self.report(
                Diagnostic::error("unknown-operator", span, "there is no operator `==`")
                    .labelled("not an operator")
                    .helped("write `=` to compare"),
            );
            self.literal(name);
            return None;
        }
        for (sign, negated) in [("=~", false), ("!~", true)] {
            if self.cursor.eat(sign) {
                self.beyond(start);
                return self.pattern(negated);
            }
        }
        for comparator in [
            Comparator::NotEqual,
            Comparator::LessOrEqual,
            Comparator::GreaterOrEqual,
            Comparator::Equal,
            Comparator::Less,
            Comparator::Greater,
        ] {
            if self.cursor.eat(comparator.as_str()) {
                if comparator != Comparator::Equal {
                    self.beyond(start);
                }
                return Some(Test::Compare(comparator, self.literal(name)?));
            }
        }
        if self.cursor.eat("!") {
            self.blanks();
            if self.word("exists") {
                self.beyond(start);
                return Some(Test::Exists { negated: true });
            }
            self.unexpected("expected-operator", "`exists` after `!`");
            return None;
        }
        self.word_test(name, start)
    }

    fn word_test(&mut self, name: &Name, start: usize) -> Option<Test> {
        let mut negated = false;
        if self.word("not") {
            negated = true;
            self.blanks();
            self.cursor.eat("-");
            self.blanks();
        }
        if self.word("contains") {
            let comparator = if negated {
                self.beyond(start);
                Comparator::NotContains
            } else {
                Comparator::Contains
            };
            return Some(Test::Compare(comparator, self.literal(name)?));
        }
        if self.word("in") {
            self.beyond(start);
            return self.choices(name, negated);
        }
        if self.word("matches") {
            self.beyond(start);
            return self.pattern(negated);
        }
        if !negated {
            for (word, comparator) in
                [("startsWith", Comparator::StartsWith), ("endsWith", Comparator::EndsWith)]
            {
                if self.word(word) {
                    self.beyond(start);
                    return Some(Test::Compare(comparator, self.literal(name)?));
                }
            }
        }
        if self.word("exists") {
            self.beyond(start);
            return Some(Test::Exists { negated });
        }
        self.unexpected("expected-operator", "an operator like `=`, `!=`, `contains` or `exists`");
        if self.cursor.peek().is_none_or(|c| c == ']') {
            self.help(format!("write `{} exists` to select the spans that have it", name.text));
        }
        None
    }

    fn choices(&mut self, name: &Name, negated: bool) -> Option<Test> {
        self.blanks();
        if !self.cursor.eat("(") {
            self.unexpected("expected-list", "a list in parentheses after `in`");
            self.help("write `in (200, 201)`");
            return None;
        }
        let mut choices = Vec::new();
        loop {
            choices.push(self.literal(name)?);
            if !self.comma() {
                break;
            }
        }
        self.blanks();
        if !self.cursor.eat(")") {
            self.unexpected("unclosed-parenthesis", "`,` or `)`");
            return None;
        }
        Some(Test::OneOf { negated, choices })
    }

    fn pattern(&mut self, negated: bool) -> Option<Test> {
        self.blanks();
        let start = self.cursor.at;
        if self.cursor.peek() != Some('"') {
            self.unexpected("expected-pattern", "a regular expression in double quotes");
            return None;
        }
        let pattern = self.selector_string()?;
        let place = Place(self.span(start));
        if let Err(error) = crate::lang::filters::regex(&pattern) {
            let span = place.0.clone();
            self.report(Diagnostic::error(
                "invalid-regex",
                span,
                format!("the regular expression is invalid: {error}"),
            ));
        }
        Some(Test::Matches { negated, pattern, place })
    }

    fn literal(&mut self, name: &Name) -> Option<Literal> {
        self.blanks();
        let start = self.cursor.at;
        let literal = match self.cursor.peek() {
            Some('"') => Literal::Text(self.selector_string()?),
            Some('-') => {
                self.cursor.bump();
                if !self.cursor.peek().is_some_and(|c| c.is_ascii_digit() || c == '.') {
                    self.unexpected("expected-value", "a number after `-`");
                    return None;
                }
                self.beyond(start);
                self.number(start)?
            }
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(start)?,
            Some(c) if is_identifier_start(c) => self.bare_word(name)?,
            _ => {
                self.unexpected("expected-value", "a value");
                let next = self.cursor.peek();
                if next.is_none_or(|c| c == ']') {
                    self.help("to select the spans that have the attribute, write `exists` after its name");
                } else if next.is_some_and(|c| matches!(c, '“' | '”' | '\'' | '`' | '‘' | '’')) {
                    self.help("values of text stand in straight double quotes: \"...\"");
                }
                return None;
            }
        };
        self.blanks();
        if self.cursor.peek() == Some('"') && !self.string_is_name() {
            let before = self.cursor.at;
            self.selector_string();
            let span = self.span(before);
            self.report(
                Diagnostic::error("two-values", span, "a condition compares with one value")
                    .labelled("a second value")
                    .helped("remove it, or write `in (...)` to accept several values"),
            );
        }
        Some(literal)
    }

    /// Whether the string here is the name of the next condition, not a second value of the last.
    fn string_is_name(&mut self) -> bool {
        let (cursor, diagnostics) = (self.cursor, self.diagnostics.len());
        self.selector_string();
        self.diagnostics.truncate(diagnostics);
        self.blanks();
        let is_name =
            self.cursor.peek().is_some_and(|c| matches!(c, '=' | '!' | '<' | '>') || is_identifier_start(c));
        self.cursor = cursor;
        is_name
    }

    fn bare_word(&mut self, name: &Name) -> Option<Literal> {
        let start = self.cursor.at;
        let word = self.cursor.take_while(is_identifier_part);
        match word {
            "true" => return Some(Literal::Bool(true)),
            "false" => return Some(Literal::Bool(false)),
            _ => {}
        }
        let span = self.span(start);
        let words: &[&str] = match name.text.as_str() {
            "kind" | "span.kind" if !name.quoted => {
                &["server", "client", "producer", "consumer", "internal", "unspecified"]
            }
            "status" | "span.status" if !name.quoted => &["ok", "error", "unset"],
            _ => {
                self.report(
                    Diagnostic::error(
                        "unquoted-text",
                        span,
                        format!("the text `{word}` stands without quotes"),
                    )
                    .labelled("text needs quotes")
                    .helped(format!("write \"{word}\"")),
                );
                return None;
            }
        };
        if words.contains(&word) {
            self.beyond(start);
            return Some(Literal::Word(word.to_owned()));
        }
        let known = words.join(", ");
        let mut diagnostic =
            Diagnostic::error("unknown-word", span, format!("`{word}` is not a {}", name.text))
                .labelled(format!("one of {known}"));
        if let Some(near) = nearest(word, words.iter().copied()) {
            diagnostic = diagnostic.helped(format!("did you mean `{near}`?"));
        }
        self.report(diagnostic);
        None
    }

    /// A number or a duration; a sign may stand before it.
    fn number(&mut self, start: usize) -> Option<Literal> {
        let digits = self.cursor.at;
        if let Some(radix) = self.radix() {
            let text = self.cursor.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
            let span = self.span(start);
            return if let Ok(number) = i64::from_str_radix(text, radix) {
                Some(Literal::Number(number.to_string()))
            } else {
                self.report(
                    Diagnostic::error("invalid-number", span, "this is not a number")
                        .labelled("not a number"),
                );
                None
            };
        }
        self.cursor.take_while(|c| c.is_ascii_digit());
        if self.cursor.starts_with("_") {
            self.cursor.take_while(|c| c.is_ascii_digit() || c == '_');
            let span = self.span(start);
            self.report(
                Diagnostic::error("invalid-number", span, "numbers are written without `_`")
                    .labelled("digits are separated")
                    .helped("remove the `_`"),
            );
            return None;
        }
        let mut is_integer = true;
        if self.cursor.eat(".") {
            is_integer = false;
            self.cursor.take_while(|c| c.is_ascii_digit());
        }
        is_integer &= !self.exponent();
        let span = self.span(start);
        let text = self.cursor.since(start);
        if self.cursor.since(digits) == "." {
            self.report(
                Diagnostic::error("invalid-number", span, "this is not a number").labelled("not a number"),
            );
            return None;
        }
        if let Some(unit) = self.unit() {
            self.beyond(start);
            return Some(Literal::Duration(format!("{text}{unit}")));
        }
        if is_integer && text.parse::<i64>().is_err() {
            self.report(
                Diagnostic::error("number-too-large", span, "this number does not fit 64 bits")
                    .labelled("too large")
                    .helped("put it in quotes to compare it as text"),
            );
            return None;
        }
        Some(Literal::Number(text.to_owned()))
    }

    fn radix(&mut self) -> Option<u32> {
        let rest = self.cursor.rest().as_bytes();
        let radix = match (rest.first()?, rest.get(1)?) {
            (b'0', b'x' | b'X') => 16,
            (b'0', b'o' | b'O') => 8,
            (b'0', b'b' | b'B') => 2,
            _ => return None,
        };
        self.cursor.at += 2;
        Some(radix)
    }

    fn exponent(&mut self) -> bool {
        let mut ahead = self.cursor;
        if !(ahead.eat("e") || ahead.eat("E")) {
            return false;
        }
        let _ = ahead.eat("+") || ahead.eat("-");
        if ahead.take_while(|c| c.is_ascii_digit()).is_empty() {
            return false;
        }
        self.cursor = ahead;
        true
    }

    /// A unit right after a number, unless it is the name of the next condition.
    fn unit(&mut self) -> Option<&'s str> {
        let mut ahead = self.cursor;
        let word = ahead.take_while(is_identifier_part);
        if !UNITS.contains(&word) {
            return None;
        }
        let before = std::mem::replace(&mut self.cursor, ahead);
        self.blanks();
        let is_name =
            self.cursor.starts_with("=") || self.cursor.starts_with(".") || self.at_word("contains");
        if is_name {
            self.cursor = before;
            return None;
        }
        self.cursor = ahead;
        Some(word)
    }

    /// The content of the string that begins here, with Go's escapes.
    fn selector_string(&mut self) -> Option<String> {
        let start = self.cursor.at;
        self.cursor.bump();
        let mut bytes = Vec::new();
        loop {
            let at = self.cursor.at;
            match self.cursor.bump() {
                Some('"') => break,
                Some('\\') => {
                    if !self.escape(&mut bytes) {
                        let span = self.base + at..self.base + self.cursor.at;
                        self.report(
                            Diagnostic::error("unknown-escape", span, "this escape is unknown")
                                .labelled("unknown escape")
                                .helped("write `\\\\` for a backslash"),
                        );
                    }
                }
                Some('\n') | None => {
                    self.cursor.at = at;
                    let span = self.span(start);
                    self.report(
                        Diagnostic::error("unclosed-string", span, "this text is never closed")
                            .labelled("never closed")
                            .helped("add the closing `\"`"),
                    );
                    self.cursor.at = self.cursor.text.len();
                    return None;
                }
                Some(c) => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> bool {
        let Some(c) = self.cursor.peek() else { return false };
        let simple = match c {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' => b'\\',
            '"' => b'"',
            _ => 0,
        };
        if simple != 0 {
            self.cursor.bump();
            bytes.push(simple);
            return true;
        }
        let (skip, digits, radix) = match c {
            'x' => (1, 2, 16),
            'u' => (1, 4, 16),
            'U' => (1, 8, 16),
            '0'..='7' => (0, 3, 8),
            _ => return false,
        };
        self.cursor.at += skip;
        let Some(code) = self
            .cursor
            .rest()
            .get(..digits)
            .filter(|code| code.chars().all(|c| c.is_digit(radix)))
            .and_then(|code| u32::from_str_radix(code, radix).ok())
        else {
            return false;
        };
        self.cursor.at += digits;
        if matches!(c, 'u' | 'U') {
            let Some(c) = char::from_u32(code) else {
                return false;
            };
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            return true;
        }
        u8::try_from(code).is_ok_and(|byte| {
            bytes.push(byte);
            true
        })
    }

    fn pseudo(&mut self) -> Option<Pseudo> {
        self.blanks();
        let start = self.cursor.at;
        if !self.cursor.eat(":") {
            return None;
        }
        self.blanks();
        let word_at = self.cursor.at;
        let word = self.cursor.take_while(is_identifier_part);
        if !PSEUDOS.contains(&word) {
            self.cursor.at = word_at;
            self.unexpected(
                "unknown-pseudo-class",
                "`first`, `last`, `nth_child(n)`, `root`, `leaf`, `has(...)` or `not(...)`",
            );
            if let Some(near) = nearest(word, PSEUDOS) {
                self.help(format!("did you mean `:{near}`?"));
            }
            self.cursor.take_while(is_identifier_part);
            return None;
        }
        let pseudo = match word {
            "first" => Pseudo::First,
            "last" => Pseudo::Last,
            "nth_child" => return self.nth(),
            "root" => Pseudo::Root,
            "leaf" => Pseudo::Leaf,
            has_or_not => return self.inner_selector(has_or_not, start),
        };
        if matches!(pseudo, Pseudo::Root | Pseudo::Leaf) {
            self.beyond(start);
        }
        self.blanks();
        let open = self.cursor.at;
        if self.cursor.eat("(") {
            self.cursor.take_while(|c| c != ')');
            self.cursor.eat(")");
            let span = self.span(open);
            self.report(
                Diagnostic::error("unexpected-argument", span, format!("`:{word}` takes no argument"))
                    .labelled("not allowed here")
                    .helped("write `:nth_child(n)` for the n-th span"),
            );
        }
        Some(pseudo)
    }

    fn nth(&mut self) -> Option<Pseudo> {
        self.blanks();
        let open = self.cursor.at;
        let number = self.cursor.eat("(").then(|| {
            self.blanks();
            let digits = self.cursor.take_while(|c| c.is_ascii_digit());
            self.blanks();
            digits.parse().ok().filter(|_| self.cursor.eat(")"))
        });
        let Some(Some(number)) = number else {
            self.cursor.take_while(|c| c != ')' && c != ']' && c != ',');
            self.cursor.eat(")");
            let span = self.span(open);
            self.report(
                Diagnostic::error(
                    "expected-number",
                    span,
                    "`:nth_child` needs one whole number in parentheses",
                )
                .labelled("expected a whole number")
                .helped("write `:nth_child(2)` for the second span found"),
            );
            return None;
        };
        self.blanks();
        if self.cursor.starts_with("(") {
            self.unexpected("unexpected-argument", "one argument only");
            self.cursor.take_while(|c| c != ')');
            self.cursor.eat(")");
        }
        Some(Pseudo::Nth(number))
    }

    fn inner_selector(&mut self, word: &str, start: usize) -> Option<Pseudo> {
        self.beyond(start);
        self.blanks();
        if !self.cursor.eat("(") {
            self.unexpected("expected-selector", "a selector in parentheses");
            return None;
        }
        self.blanks();
        let combinator = if word == "has" { self.combinator() } else { Combinator::Descendant };
        let selector = self.deeper(Self::selector)?;
        self.blanks();
        if selector.chains.is_empty() {
            self.unexpected("expected-selector", "`span[`");
        }
        if !self.cursor.eat(")") {
            self.unexpected("unclosed-parenthesis", "`)`");
            return None;
        }
        Some(if word == "has" { Pseudo::Has { combinator, selector } } else { Pseudo::Not(selector) })
    }

    /// Skips blanks and comments.
    fn blanks(&mut self) {
        loop {
            self.cursor.take_while(|c| matches!(c, ' ' | '\t' | '\r' | '\n'));
            if self.cursor.starts_with("//") {
                self.cursor.take_while(|c| c != '\n');
            } else if self.cursor.starts_with("/*") {
                match self.cursor.rest()[2..].find("*/") {
                    Some(end) => self.cursor.at += end + 4,
                    None => return,
                }
            } else {
                return;
            }
        }
    }

    fn comma(&mut self) -> bool {
        self.blanks();
        let found = self.cursor.eat(",");
        self.blanks();
        found
    }

    /// Takes this word if it stands here as a whole.
    fn word(&mut self, word: &str) -> bool {
        let here = self.at_word(word);
        if here {
            self.cursor.at += word.len();
        }
        here
    }

    pub(super) fn at_word(&mut self, word: &str) -> bool {
        let mut ahead = self.cursor;
        ahead.take_while(is_identifier_part) == word
    }

    /// Takes `and`, `or` or `not`, unless it is the name of an attribute; gives its place.
    fn keyword(&mut self, word: &str) -> Option<usize> {
        if !self.at_keyword(word) {
            return None;
        }
        let start = self.cursor.at;
        self.cursor.at += word.len();
        Some(start)
    }

    fn at_keyword(&mut self, word: &str) -> bool {
        self.blanks();
        let before = self.cursor;
        if !self.word(word) {
            return false;
        }
        self.blanks();
        let next = self.cursor.peek();
        let is_name = next.is_none_or(|c| matches!(c, '=' | '.' | '<' | '>' | '-' | ']' | ','))
            || self.cursor.starts_with("!=")
            || self.cursor.starts_with("!~")
            || self.at_word("contains");
        self.cursor = before;
        !is_name
    }
}

fn is_identifier_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn is_identifier_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
