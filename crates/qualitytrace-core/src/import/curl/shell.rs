//! Words of commands, as a shell like bash splits them.
//!
//! Variables of the shell become variables of the test. What only a shell can do (substitutions of commands, pipes,
//! redirections) is named in a warning.

use std::iter::Peekable;
use std::str::Chars;

use crate::import::collection::Collection;
use crate::import::name::shortened;
use crate::import::template::Template;

/// Returns the commands of a text, each as its words.
pub(super) fn commands(text: &str, found: &mut Collection<'_>) -> Vec<Vec<Template>> {
    let letters = text.chars().peekable();
    let mut shell = Shell { letters, word: None, words: Vec::new(), is_piped: false, commands: Vec::new() };
    while let Some(letter) = shell.letters.next() {
        shell.take(letter, found);
    }
    shell.end_command();
    shell.commands
}

struct Shell<'t> {
    letters: Peekable<Chars<'t>>,
    word: Option<Template>,
    words: Vec<Template>,
    /// Whether the current command reads what another one writes.
    is_piped: bool,
    commands: Vec<Vec<Template>>,
}

impl Shell<'_> {
    fn take(&mut self, letter: char, found: &mut Collection<'_>) {
        match letter {
            '\\' => match self.letters.next() {
                // A line that goes on in the next one.
                Some('\n') | None => {}
                Some('\r') if self.letters.peek() == Some(&'\n') => {
                    self.letters.next();
                }
                Some(other) => self.push(other),
            },
            '\'' => self.single_quoted(),
            '"' => self.double_quoted(found),
            '$' => self.dollar(false, found),
            '`' => self.backticks(found),
            '#' if self.word.is_none() => while self.letters.next_if(|letter| *letter != '\n').is_some() {},
            '\n' | ';' => self.end_command(),
            '&' | '|' => {
                let is_chain = self.letters.next_if_eq(&letter).is_some();
                self.end_command();
                if !is_chain && letter == '|' {
                    found.warn("what a pipe `|` does with the answer is not carried over");
                    self.is_piped = true;
                }
            }
            '<' | '>' => {
                found.warn(format!("the redirection `{letter}` and its file are not carried over"));
                while self.letters.next_if(|next| matches!(next, '>' | '<' | '&' | ' ')).is_some() {}
                // The file's name is a word that is dropped.
                self.end_word();
                while let Some(next) =
                    self.letters.next_if(|next| !next.is_whitespace() && !matches!(next, ';' | '|'))
                {
                    self.take_quoted_name(next, found);
                }
                self.word = None;
            }
            letter if letter.is_whitespace() => self.end_word(),
            letter => self.push(letter),
        }
    }

    /// Takes a part of a word that is not used.
    fn take_quoted_name(&mut self, letter: char, found: &mut Collection<'_>) {
        match letter {
            '\'' => self.single_quoted(),
            '"' => self.double_quoted(found),
            _ => {}
        }
    }

    fn word(&mut self) -> &mut Template {
        self.word.get_or_insert_default()
    }

    fn push(&mut self, letter: char) {
        self.word().push(letter);
    }

    fn end_word(&mut self) {
        self.words.extend(self.word.take());
    }

    fn end_command(&mut self) {
        self.end_word();
        let words = std::mem::take(&mut self.words);
        if !words.is_empty() && !std::mem::take(&mut self.is_piped) {
            self.commands.push(words);
        }
    }

    fn single_quoted(&mut self) {
        self.word();
        while let Some(letter) = self.letters.next_if(|letter| *letter != '\'') {
            self.push(letter);
        }
        self.letters.next();
    }

    fn double_quoted(&mut self, found: &mut Collection<'_>) {
        self.word();
        while let Some(letter) = self.letters.next() {
            match letter {
                '"' => return,
                '\\' => match self.letters.next() {
                    Some('\n') | None => {}
                    Some(letter @ ('"' | '\\' | '$' | '`')) => self.push(letter),
                    Some(other) => {
                        self.push('\\');
                        self.push(other);
                    }
                },
                '$' => self.dollar(true, found),
                '`' => self.backticks(found),
                letter => self.push(letter),
            }
        }
    }

    /// Takes what follows a dollar sign: a variable, `$'...'`, or the sign itself.
    fn dollar(&mut self, is_quoted: bool, found: &mut Collection<'_>) {
        match self.letters.peek().copied() {
            Some('\'') if !is_quoted => {
                self.letters.next();
                self.escaped();
            }
            Some('"') if !is_quoted => {
                self.letters.next();
                self.double_quoted(found);
            }
            Some('(') => {
                found.warn("`$(...)` is not run: it is carried over as it is written");
                self.push('$');
            }
            Some('{') => {
                self.letters.next();
                let mut inner = String::new();
                while let Some(letter) = self.letters.next_if(|letter| *letter != '}') {
                    inner.push(letter);
                }
                self.letters.next();
                let end = inner.find(|letter: char| !is_name(letter)).unwrap_or(inner.len());
                if end < inner.len() {
                    found.warn(format!(
                        "only the name of the shell's variable `{}` is carried over",
                        shortened(&inner[..end])
                    ));
                }
                self.variable(&inner[..end], found);
            }
            Some(letter) if letter.is_ascii_alphabetic() || letter == '_' => {
                let mut name = String::new();
                while let Some(letter) = self.letters.next_if(|letter| is_name(*letter)) {
                    name.push(letter);
                }
                self.variable(&name, found);
            }
            _ => self.push('$'),
        }
    }

    fn variable(&mut self, name: &str, found: &mut Collection<'_>) {
        if name.is_empty() {
            found.warn("a parameter of the shell without a name is not carried over");
            return;
        }
        let shown = shortened(name);
        found.warn(format!("the shell's variable `{shown}` is a variable of the test now: give it a value"));
        self.word().append(Template::variable(name));
    }

    fn backticks(&mut self, found: &mut Collection<'_>) {
        found.warn("a command in backticks is not run: it is carried over as it is written");
        self.push('`');
        while let Some(letter) = self.letters.next_if(|letter| *letter != '`') {
            self.push(letter);
        }
        self.letters.next();
        self.push('`');
    }

    /// Takes the rest of `$'...'`, with its escapes.
    fn escaped(&mut self) {
        self.word();
        while let Some(letter) = self.letters.next() {
            match letter {
                '\'' => return,
                '\\' => self.escape(),
                letter => self.push(letter),
            }
        }
    }

    fn escape(&mut self) {
        let Some(letter) = self.letters.next() else { return };
        let meant = match letter {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'a' => '\u{7}',
            'b' => '\u{8}',
            'e' | 'E' => '\u{1b}',
            'f' => '\u{c}',
            'v' => '\u{b}',
            'x' => self.number(16, 2).unwrap_or('x'),
            'u' => self.utf16().unwrap_or('u'),
            'U' => self.number(16, 8).unwrap_or('U'),
            digit @ '0'..='7' => self.octal(digit),
            // Quotes and backslashes mean themselves; bash keeps the backslash before all others.
            letter @ ('\\' | '\'' | '"' | '?') => letter,
            other => {
                self.push('\\');
                other
            }
        };
        self.push(meant);
    }

    fn octal(&mut self, first: char) -> char {
        let mut code = first.to_digit(8).unwrap_or(0);
        for _ in 0..2 {
            let Some(digit) = self.letters.next_if(|letter| letter.is_digit(8)) else { break };
            code = code * 8 + digit.to_digit(8).unwrap_or(0);
        }
        char::from_u32(code).unwrap_or('\u{fffd}')
    }

    fn number(&mut self, radix: u32, most: usize) -> Option<char> {
        let code = self.code(radix, most)?;
        Some(char::from_u32(code).unwrap_or('\u{fffd}'))
    }

    fn code(&mut self, radix: u32, most: usize) -> Option<u32> {
        let mut code: Option<u32> = None;
        for _ in 0..most {
            let Some(digit) = self.letters.next_if(|letter| letter.is_digit(radix)) else { break };
            code =
                Some(code.unwrap_or(0).wrapping_mul(radix).wrapping_add(digit.to_digit(radix).unwrap_or(0)));
        }
        code
    }

    /// Browsers write characters outside the basic plane as two escapes.
    fn utf16(&mut self) -> Option<char> {
        let high = self.code(16, 4)?;
        if !(0xd800..0xdc00).contains(&high) {
            return Some(char::from_u32(high).unwrap_or('\u{fffd}'));
        }
        let mut ahead = self.letters.clone();
        if ahead.next() != Some('\\') || ahead.next() != Some('u') {
            return Some('\u{fffd}');
        }
        self.letters = ahead;
        let low = self.code(16, 4).unwrap_or(0);
        let pair = [u16::try_from(high).unwrap_or(0), u16::try_from(low).unwrap_or(0)];
        Some(char::decode_utf16(pair).next().and_then(Result::ok).unwrap_or('\u{fffd}'))
    }
}

fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}
