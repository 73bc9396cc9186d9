//! Parts of HTTP requests that several tools have.

use super::collection::Collection;
use super::name::shortened;
use super::template::Template;
use crate::definition::Test;
use crate::definition::trigger::{Auth, Body, Header, Http, Trigger};

/// Headers that a client derives from the rest of the request.
const DERIVED: [&str; 4] = ["content-length", "host", "connection", "transfer-encoding"];

/// A test of one request, without specs.
pub(super) fn test(name: String, http: Http) -> Test {
    Test { name, trigger: Some(Trigger::Http(http)), ..Test::default() }
}

/// Names a request by its method and the path of its URL.
pub(super) fn name_of(method: &str, url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = rest.find('/').map_or("/", |at| &rest[at..]);
    let path = path.split(['?', '#']).next().unwrap_or(path);
    shortened(&format!("{method} {path}"))
}

pub(super) fn header(key: &Template, value: &Template) -> Header {
    Header { key: key.written().into(), value: value.written().into() }
}

pub(super) fn plain_header(key: &str, value: &str) -> Header {
    header(&Template::literal(key), &Template::literal(value))
}

pub(super) fn has_header(headers: &[Header], name: &str) -> bool {
    headers.iter().any(|header| header.key.value.eq_ignore_ascii_case(name))
}

/// Whether a recorded header is sent again: pseudo headers of HTTP/2 and derived ones are not.
pub(super) fn is_sent(name: &str, found: &mut Collection<'_>) -> bool {
    if name.eq_ignore_ascii_case("accept-encoding") {
        found.warn("`Accept-Encoding` is left out: specs could not read a compressed answer");
        return false;
    }
    !name.is_empty()
        && !name.starts_with(':')
        && !DERIVED.iter().any(|derived| name.eq_ignore_ascii_case(derived))
}

/// A body with this text. The command line takes some texts for the path of a file.
pub(super) fn text_body(text: &Template, found: &mut Collection<'_>) -> Body {
    let text = text.written();
    if ["./", "../", "/"].iter().any(|start| text.starts_with(start)) {
        found.warn(format!(
            "the body `{}` begins like a path: the command line would send a file of this name",
            shortened(&text)
        ));
    }
    Body::Text(text.into())
}

/// The path of a file, as definitions have it.
pub(super) fn path_of(path: &str) -> String {
    if path.starts_with('/') || path.starts_with("./") || path.starts_with("../") {
        return path.to_owned();
    }
    format!("./{path}")
}

pub(super) fn warn_of_file(path: &str, found: &mut Collection<'_>) {
    let path = shortened(path);
    found.warn(format!(
        "the file `{path}` is not part of the text: put it beside the definition for the command line"
    ));
}

/// Adds a parameter to the query of a URL.
pub(super) fn add_query(url: &mut Template, parameter: Template) {
    if parameter.is_empty() {
        return;
    }
    // A fragment stays at the end.
    let (before, fragment) = match url.split_once(&['#']) {
        Some((before, _, fragment)) => (before, Some(fragment)),
        None => (url.clone(), None),
    };
    let separator = match before.split_once(&['?']) {
        Some((_, _, query)) if query.is_empty() => "",
        Some(_) => "&",
        None => "?",
    };
    let mut whole = before;
    whole.push_str(separator);
    whole.append(parameter);
    if let Some(fragment) = fragment {
        whole.push('#');
        whole.append(fragment);
    }
    *url = whole;
}

/// A parameter of a query or a form, with its value encoded.
pub(super) fn parameter(name: &Template, value: &Template) -> Template {
    let mut parameter = name.encoded();
    parameter.push('=');
    parameter.append(value.encoded());
    parameter
}

pub(super) fn bearer(token: &Template) -> Auth {
    Auth::Bearer { token: format!("Bearer {}", token.written()).into() }
}

pub(super) fn basic(user: &Template, password: &Template) -> Auth {
    Auth::Basic { username: user.written().into(), password: password.written().into() }
}
