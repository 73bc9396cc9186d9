//! Files of hurl: one test for each entry, with what it asserts about the answer as far as that can be said.

mod assert;
mod body;

use super::ImportError;
use super::answer::{answer_spec, trigger_selector};
use super::collection::Collection;
use super::http::{add_query, basic, has_header, header, name_of, parameter, plain_header, test};
use super::name::shortened;
use super::template::Template;
use crate::definition::trigger::{Body, Header, Http, HttpVersion, Part, Redirects};
use crate::definition::{Output, Test};
use body::Lines;

/// Whether a line begins an entry: a method and a URL.
pub(super) fn is_request(line: &str) -> bool {
    let Some((method, url)) = line.trim().split_once([' ', '\t']) else { return false };
    let is_method = method.len() > 1 && method.bytes().all(|byte| byte.is_ascii_uppercase());
    is_method && method != "HTTP" && !url.trim().is_empty()
}

pub(super) fn import(text: &str, found: &mut Collection<'_>) -> Result<(), ImportError> {
    let has_captures = text.lines().any(|line| Section::named(line) == Some(Section::Captures));
    let mut lines = Lines::new(text);
    while let Some(line) = lines.next_solid() {
        found.budget.work(1)?;
        if !is_request(line) {
            found.warn(format!(
                "line {} is not understood and left out: `{}`",
                lines.number(),
                shortened(line)
            ));
            continue;
        }
        if found.is_full() {
            while lines.peek_solid().is_some_and(|line| !is_request(line)) {
                lines.next_solid();
            }
            continue;
        }
        let test = Entry::read(line, &mut lines, found).finish(found);
        if has_captures { found.step(test)? } else { found.test(test)? }
    }
    Ok(())
}

/// An entry under construction.
#[derive(Default)]
struct Entry {
    method: String,
    url: Template,
    headers: Vec<Header>,
    query: Template,
    form: Vec<Header>,
    parts: Vec<Part>,
    cookies: Template,
    body: Option<Body>,
    http: Http,
    assertions: Vec<String>,
    outputs: Vec<Output>,
}

/// The part of an entry that lines belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Headers,
    Query,
    Form,
    Multipart,
    Cookies,
    BasicAuth,
    Options,
    /// Headers that the answer must have.
    AnswerHeaders,
    Captures,
    Asserts,
    Unknown,
}

impl Section {
    fn named(line: &str) -> Option<Self> {
        let name = without_comment(line).trim().strip_prefix('[')?.strip_suffix(']')?;
        Some(match name {
            "QueryStringParams" | "Query" => Self::Query,
            "FormParams" | "Form" => Self::Form,
            "MultipartFormData" | "Multipart" => Self::Multipart,
            "Cookies" => Self::Cookies,
            "BasicAuth" => Self::BasicAuth,
            "Options" => Self::Options,
            "Captures" => Self::Captures,
            "Asserts" => Self::Asserts,
            _ if name.bytes().all(|byte| byte.is_ascii_alphabetic()) && !name.is_empty() => Self::Unknown,
            _ => return None,
        })
    }
}

impl Entry {
    fn read(line: &str, lines: &mut Lines<'_>, found: &mut Collection<'_>) -> Self {
        let (method, url) = line.trim().split_once([' ', '\t']).unwrap_or((line, ""));
        let mut entry = Self {
            method: method.to_owned(),
            url: Template::braces(without_comment(url).trim(), found),
            http: Http { redirects: Redirects::Stay, ssl_verification: true, ..Http::default() },
            ..Self::default()
        };
        let mut section = Section::Headers;
        while let Some(line) = lines.peek_solid() {
            if is_request(line) {
                break;
            }
            if let Some(named) = Section::named(line) {
                lines.next_solid();
                if named == Section::Unknown {
                    found.warn(format!(
                        "line {}: the section `{}` is left out",
                        lines.number(),
                        shortened(line)
                    ));
                }
                section = named;
                continue;
            }
            if let Some(status) = response_status(line) {
                lines.next_solid();
                section = Section::AnswerHeaders;
                if let Status::Exactly(status) = status {
                    entry.assertions.push(assert::status(status));
                }
                continue;
            }
            let is_answer = matches!(section, Section::AnswerHeaders | Section::Captures | Section::Asserts);
            if body::begins(line) {
                let read = body::read(lines, found);
                if is_answer {
                    found.warn(format!("line {}: the expected body is not carried over", lines.number()));
                } else {
                    entry.set_body(read, found);
                }
                continue;
            }
            lines.next_solid();
            entry.take(section, without_comment(line).trim(), lines.number(), found);
        }
        entry
    }

    fn set_body(&mut self, read: body::ParsedBody, found: &mut Collection<'_>) {
        if let Some(kind) = read.content_type.filter(|_| !has_header(&self.headers, "content-type")) {
            self.headers.push(plain_header("Content-Type", kind));
        }
        if self.body.is_some() {
            found.warn("a second body of an entry is left out");
            return;
        }
        self.body = read.body;
    }

    fn take(&mut self, section: Section, line: &str, number: usize, found: &mut Collection<'_>) {
        if section == Section::Asserts {
            match assert::assertion(line) {
                Some(assertion) => self.assertions.push(assertion),
                None => {
                    found
                        .warn(format!("line {number}: the assert `{}` is not carried over", shortened(line)));
                }
            }
            return;
        }
        let Some((key, value)) = line.split_once(':') else {
            found.warn(format!("line {number} is not understood and left out: `{}`", shortened(line)));
            return;
        };
        let (key, value) = (key.trim(), value.trim());
        match section {
            Section::Captures => match assert::captured(value) {
                Some(value) => self.outputs.push(Output {
                    name: super::name::variable_name(key).into(),
                    selector: trigger_selector().into(),
                    value: value.into(),
                }),
                None => {
                    found
                        .warn(format!("line {number}: the capture `{}` is not carried over", shortened(key)));
                }
            },
            Section::AnswerHeaders => {
                found.warn(format!(
                    "line {number}: the expected header `{}` is not carried over",
                    shortened(key)
                ));
            }
            Section::Options => self.option(key, value, found),
            Section::Unknown | Section::Asserts => {}
            Section::Headers
            | Section::Query
            | Section::Form
            | Section::Multipart
            | Section::Cookies
            | Section::BasicAuth => {
                let (key, value) = (Template::braces(key, found), Template::braces(value, found));
                self.pair(section, &key, &value, found);
            }
        }
    }

    fn pair(&mut self, section: Section, key: &Template, value: &Template, found: &mut Collection<'_>) {
        match section {
            Section::Query => {
                self.query.push_str(if self.query.is_empty() { "" } else { "&" });
                self.query.append(parameter(key, value));
            }
            Section::Form => self.form.push(header(key, value)),
            Section::Cookies => {
                self.cookies.push_str(if self.cookies.is_empty() { "" } else { "; " });
                self.cookies.append(key.clone());
                self.cookies.push('=');
                self.cookies.append(value.clone());
            }
            Section::BasicAuth => self.http.auth = Some(basic(key, value)),
            Section::Multipart => {
                let mut part = Part { name: key.written().into(), ..Part::default() };
                match value.plain().and_then(|value| value.strip_prefix("file,")) {
                    Some(file) => {
                        let (path, kind) = file.split_once(';').unwrap_or((file, ""));
                        super::http::warn_of_file(path, found);
                        part.file = super::http::path_of(path.trim()).into();
                        part.content_type = kind.trim().into();
                    }
                    None => part.value = value.written().into(),
                }
                self.parts.push(part);
            }
            _ => self.headers.push(header(key, value)),
        }
    }

    fn option(&mut self, key: &str, value: &str, found: &mut Collection<'_>) {
        match (key, value) {
            ("location" | "location-trusted", "true") => self.http.redirects = Redirects::default(),
            ("insecure", "true") => self.http.ssl_verification = false,
            ("max-redirs", most) if most.parse::<u8>().is_ok() => {
                self.http.redirects = match most.parse() {
                    Ok(0) | Err(_) => Redirects::Stay,
                    Ok(most) => Redirects::Follow(most),
                };
            }
            ("http1.1", "true") => self.http.version = Some(HttpVersion::One),
            ("http2", "true") => self.http.version = Some(HttpVersion::Two),
            ("proxy", proxy) => self.http.proxy = Template::braces(proxy, found).written().into(),
            ("variable", pair) => match pair.split_once('=') {
                Some((name, value)) => found.variable(name.trim(), value.trim(), false),
                None => found.warn("a variable without a value is left out"),
            },
            ("user", pair) => {
                let (user, password) = pair.split_once(':').unwrap_or((pair, ""));
                self.http.auth =
                    Some(basic(&Template::braces(user, found), &Template::braces(password, found)));
            }
            ("verbose" | "very-verbose" | "output", _) | ("location" | "insecure", "false") => {}
            (other, _) => {
                found.warn(format!("the option `{}` of hurl is not carried over", shortened(other)));
            }
        }
    }

    fn finish(mut self, found: &mut Collection<'_>) -> Test {
        add_query(&mut self.url, std::mem::take(&mut self.query));
        if !self.cookies.is_empty() {
            self.headers.push(header(&Template::literal("Cookie"), &self.cookies));
        }
        let has_form = !self.form.is_empty() || !self.parts.is_empty();
        if has_form && self.body.is_some() || !self.form.is_empty() && !self.parts.is_empty() {
            found.warn("an entry has more than one body: only one of them is carried over");
        }
        let body = if !self.form.is_empty() {
            Body::Form(self.form)
        } else if !self.parts.is_empty() {
            Body::Multipart(self.parts)
        } else {
            self.body.unwrap_or_default()
        };
        let url = self.url.written();
        let name = name_of(&self.method, &url);
        let http =
            Http { url: url.into(), method: self.method.into(), headers: self.headers, body, ..self.http };
        let mut test = test(name, http);
        if !self.assertions.is_empty() {
            test.specs.push(answer_spec("The answer is as expected", self.assertions));
        }
        test.outputs = self.outputs;
        test
    }
}

/// The status that an answer must have.
enum Status {
    Any,
    Exactly(u64),
}

/// Reads `HTTP 200` or `HTTP/1.1 *`; `None` if the line is another one.
fn response_status(line: &str) -> Option<Status> {
    let mut words = without_comment(line).split_whitespace();
    let version = words.next()?;
    if !matches!(version, "HTTP" | "HTTP/1.0" | "HTTP/1.1" | "HTTP/2" | "HTTP/3") {
        return None;
    }
    match (words.next()?, words.next()) {
        ("*", None) => Some(Status::Any),
        (status, None) => status.parse().ok().map(Status::Exactly),
        _ => None,
    }
}

/// Returns a line without the comment at its end.
fn without_comment(line: &str) -> &str {
    line.find(" #").map_or(line, |at| &line[..at])
}
