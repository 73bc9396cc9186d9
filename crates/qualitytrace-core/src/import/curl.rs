//! Commands of curl: one test for each URL.

mod options;
mod shell;

use super::ImportError;
use super::collection::Collection;
use super::credentials;
use super::http::{
    add_query, basic, bearer, has_header, header, name_of, path_of, plain_header, test, text_body,
    warn_of_file,
};
use super::name::shortened;
use super::template::Template;
use crate::definition::trigger::{Auth, Body, Header, Http, HttpVersion, Part, Redirects, Tls};
use options::{Argument, Meaning};

/// Whether a word of a text is the name of the program.
pub(super) fn is_curl(word: &str) -> bool {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
    matches!(name, "curl" | "curl.exe")
}

pub(super) fn import(text: &str, found: &mut Collection<'_>) -> Result<(), ImportError> {
    for words in shell::commands(text, found) {
        found.budget.work(words.len())?;
        let Some(at) = words.iter().position(|word| word.plain().is_some_and(is_curl)) else {
            let command = words.first().map(Template::shown).unwrap_or_default();
            found.warn(format!("the command `{command}` is left out: it is not curl"));
            continue;
        };
        let mut command = Command::default();
        for argument in options::arguments(&words[at + 1..], found) {
            // Requests after `--next` have options of their own.
            if argument.meaning == Meaning::Next {
                std::mem::take(&mut command).finish(found)?;
                continue;
            }
            command.take(argument, found);
        }
        command.finish(found)?;
    }
    Ok(())
}

/// A command under construction.
#[derive(Default)]
struct Command {
    urls: Vec<Template>,
    method: Option<Template>,
    headers: Vec<Header>,
    /// Data for the body or the query.
    data: Vec<Template>,
    queries: Vec<Template>,
    file: Option<String>,
    parts: Vec<Part>,
    auth: Option<Auth>,
    is_json: bool,
    /// Whether the data go into the query.
    is_get: bool,
    /// The method that another option implies.
    implied: Option<&'static str>,
    is_insecure: bool,
    redirects: Option<Redirects>,
    most_redirects: Option<u8>,
    version: Option<HttpVersion>,
    proxy: Template,
    tls: Tls,
}

impl Command {
    fn take(&mut self, Argument { meaning, name, value }: Argument, found: &mut Collection<'_>) {
        match meaning {
            Meaning::Url => self.urls.push(value),
            Meaning::Method => self.method = Some(value),
            Meaning::Header => self.header(&value, found),
            Meaning::Data => self.data(value, found),
            Meaning::DataRaw => self.data.push(value),
            Meaning::DataUrlencode => self.data.extend(urlencoded(&value, found)),
            Meaning::Query => self.queries.extend(urlencoded(&value, found)),
            Meaning::Json => {
                self.is_json = true;
                self.data(value, found);
            }
            Meaning::Form => self.parts.extend(part(&value, true, found)),
            Meaning::FormString => self.parts.extend(part(&value, false, found)),
            Meaning::User => {
                self.auth = Some(match value.split_once(&[':']) {
                    Some((user, _, password)) => basic(&user, &password),
                    None => {
                        found.warn("`--user` has no password: curl would ask for it");
                        basic(&value, &Template::default())
                    }
                });
            }
            Meaning::Bearer => self.auth = Some(bearer(&value)),
            Meaning::Cookie => {
                if value.split_once(&['=']).is_some() {
                    self.headers.push(header(&Template::literal("Cookie"), &value));
                } else {
                    found.warn(format!("the cookies in the file `{}` are not carried over", value.shown()));
                }
            }
            Meaning::UserAgent => self.headers.push(header(&Template::literal("User-Agent"), &value)),
            Meaning::Referer => self.headers.push(header(&Template::literal("Referer"), &value)),
            Meaning::Range => self.headers.push(plain_header("Range", &format!("bytes={}", value.shown()))),
            Meaning::Insecure => self.is_insecure = true,
            Meaning::Location => self.redirects = Some(Redirects::default()),
            Meaning::MaxRedirects => self.most_redirects = value.plain().and_then(|most| most.parse().ok()),
            Meaning::Get => self.is_get = true,
            Meaning::Head => self.implied = Some("HEAD"),
            Meaning::Upload => {
                self.implied = Some("PUT");
                self.body_file(&value, found);
            }
            Meaning::HttpOne => self.version = Some(HttpVersion::One),
            Meaning::HttpTwo => self.version = Some(HttpVersion::Two),
            Meaning::Proxy => self.proxy = value,
            Meaning::Ca => self.tls.ca = certificate(&value, found).into(),
            Meaning::Certificate => self.tls.certificate = certificate(&value, found).into(),
            Meaning::Key => self.tls.key = certificate(&value, found).into(),
            Meaning::Timeout => found.warn("`--max-time` is left out: write `timeout:` below `httpRequest:`"),
            Meaning::Output | Meaning::Next => {}
            Meaning::Unknown => {
                found.warn(format!("the option `{}` of curl is not carried over", shortened(&name)));
            }
        }
    }

    fn header(&mut self, value: &Template, found: &mut Collection<'_>) {
        if value.head().starts_with('@') {
            return found.warn(format!("the headers in the file `{}` are not carried over", value.shown()));
        }
        match value.split_once(&[':', ';']) {
            Some((name, ':', content)) => {
                let content = content.trimmed();
                if content.is_empty() {
                    let name = name.shown();
                    return found
                        .warn(format!("`-H '{name}:'` removes a header that curl sends; it is left out"));
                }
                self.headers.push(header(&name.trimmed(), &content));
            }
            Some((name, _, rest)) if rest.is_empty() => {
                self.headers.push(header(&name.trimmed(), &Template::default()));
            }
            _ => found.warn(format!("the header `{}` is left out: it has no colon", value.shown())),
        }
    }

    fn data(&mut self, value: Template, found: &mut Collection<'_>) {
        if value.head().starts_with('@') {
            return self.body_file(&value.without_head(1), found);
        }
        self.data.push(value);
    }

    fn body_file(&mut self, path: &Template, found: &mut Collection<'_>) {
        match path.plain() {
            Some(path) if path != "-" => {
                warn_of_file(path, found);
                self.file = Some(path_of(path));
            }
            _ => found
                .warn("a body from standard input or from a file with a variable name is not carried over"),
        }
    }

    fn finish(mut self, found: &mut Collection<'_>) -> Result<(), ImportError> {
        if self.urls.is_empty() {
            found.warn("a command of curl is left out: it has no URL");
            return Ok(());
        }
        if self.is_get {
            self.queries.append(&mut self.data);
        }
        let has_body = !self.data.is_empty() || self.file.is_some();
        let method = match self.method.take() {
            Some(method) => method.written(),
            None if has_body || !self.parts.is_empty() => self.implied.unwrap_or("POST").to_owned(),
            None => self.implied.unwrap_or("GET").to_owned(),
        };
        let content_type =
            if self.is_json { "application/json" } else { "application/x-www-form-urlencoded" };
        if has_body && self.implied != Some("PUT") && !has_header(&self.headers, "content-type") {
            self.headers.push(plain_header("Content-Type", content_type));
        }
        if self.is_json && !has_header(&self.headers, "accept") {
            self.headers.push(plain_header("Accept", content_type));
        }
        let body = self.body(found);
        let urls = std::mem::take(&mut self.urls);
        let query = joined(std::mem::take(&mut self.queries), "&");
        for mut url in urls {
            if found.is_full() {
                continue;
            }
            add_query(&mut url, query.clone());
            let mut http = Http {
                url: url.written().into(),
                method: method.clone().into(),
                headers: self.headers.clone(),
                body: body.clone(),
                auth: self.auth.clone(),
                redirects: match (self.redirects, self.most_redirects) {
                    (None, _) | (Some(_), Some(0)) => Redirects::Stay,
                    (Some(_), Some(most)) => Redirects::Follow(most),
                    (Some(usual), None) => usual,
                },
                version: self.version,
                tls: (self.tls != Tls::default()).then(|| self.tls.clone()),
                ssl_verification: !self.is_insecure,
                proxy: self.proxy.written().into(),
                timeout: None,
            };
            credentials::move_out(&mut http, found);
            found.test(test(name_of(&method, &url.written()), http))?;
        }
        Ok(())
    }

    /// Several data are joined; parts of a form and files exclude all else.
    fn body(&mut self, found: &mut Collection<'_>) -> Body {
        let parts = std::mem::take(&mut self.parts);
        if !parts.is_empty() {
            if !self.data.is_empty() || self.file.is_some() {
                found.warn("`--form` and `--data` exclude each other: the data are left out");
            }
            return Body::Multipart(parts);
        }
        if let Some(file) = self.file.take() {
            if !self.data.is_empty() {
                found.warn(
                    "a body of a file and of further data cannot be carried over: the data are left out",
                );
            }
            return Body::File(file.into());
        }
        let separator = if self.is_json { "" } else { "&" };
        text_body(&joined(std::mem::take(&mut self.data), separator), found)
    }
}

fn joined(texts: Vec<Template>, separator: &str) -> Template {
    let mut whole = Template::default();
    for (at, text) in texts.into_iter().enumerate() {
        if at > 0 {
            whole.push_str(separator);
        }
        whole.append(text);
    }
    whole
}

fn certificate(path: &Template, found: &mut Collection<'_>) -> String {
    // A password may follow the file of a client certificate.
    let path = path.written();
    warn_of_file(&path, found);
    path_of(&path)
}

/// Encodes `content`, `=content`, `name=content`, and refuses `@file` and `name@file`.
fn urlencoded(value: &Template, found: &mut Collection<'_>) -> Option<Template> {
    match value.split_once(&['=', '@']) {
        Some((_, '@', path)) => {
            found.warn(format!("the data in the file `{}` are not carried over", path.shown()));
            None
        }
        Some((name, _, content)) if name.is_empty() => Some(content.encoded()),
        Some((name, _, content)) => {
            let mut data = name;
            data.push('=');
            data.append(content.encoded());
            Some(data)
        }
        None => Some(value.encoded()),
    }
}

/// A part of a multipart form: `name=content`, or with files `name=@path;type=...` and `name=<path`.
fn part(value: &Template, may_be_file: bool, found: &mut Collection<'_>) -> Option<Part> {
    let Some((name, _, content)) = value.split_once(&['=']) else {
        found.warn(format!("the part `{}` of a form is left out: it has no `=`", value.shown()));
        return None;
    };
    let mut part = Part { name: name.written().into(), ..Part::default() };
    if !may_be_file {
        part.value = content.written().into();
        return Some(part);
    }
    let is_file = content.head().starts_with('@');
    if content.head().starts_with('<') {
        found.warn(format!("the part `{}` is the content of a file: it is left out", name.shown()));
        return None;
    }
    let mut content = if is_file { content.without_head(1) } else { content };
    let mut pieces = content.split(';').into_iter();
    content = pieces.next().unwrap_or_default();
    for option in pieces {
        let written = option.written();
        match written.trim().split_once('=') {
            Some(("type", kind)) => part.content_type = kind.into(),
            Some(("filename", name)) => part.filename = name.trim_matches('"').into(),
            _ => found.warn(format!("`{}` of a part of a form is not carried over", shortened(&written))),
        }
    }
    if is_file {
        let path = content.written();
        warn_of_file(&path, found);
        part.file = path_of(&path).into();
    } else {
        part.value = content.written().into();
    }
    Some(part)
}
