//! HTTP archives: one test for each recorded request.

use serde_json::Value;

use super::ImportError;
use super::answer::status_spec;
use super::collection::Collection;
use super::credentials;
use super::document::{json, list, text};
use super::http::{has_header, is_sent, name_of, path_of, plain_header, test, text_body, warn_of_file};
use super::template::Template;
use crate::definition::trigger::{Body, Http, Part, Redirects};

pub(super) fn import(source: &str, found: &mut Collection<'_>) -> Result<(), ImportError> {
    let archive = json(source, "an HTTP archive")?;
    let Some(entries) = archive.get("log").and_then(|log| log.get("entries")).and_then(Value::as_array)
    else {
        let why = "it has no list `log.entries`".to_owned();
        return Err(ImportError::Unreadable { what: "an HTTP archive", why });
    };
    for (number, entry) in entries.iter().enumerate() {
        if found.is_full() {
            continue;
        }
        let request = &entry["request"];
        let (method, url) = (text(request, "method"), text(request, "url"));
        if url.is_empty() {
            found.warn(format!("entry {number} is left out: it has no URL"));
            continue;
        }
        let mut http = Http {
            url: Template::literal(url).written().into(),
            method: Template::literal(method).written().into(),
            body: body(request, found),
            ssl_verification: true,
            // An archive has each step of a redirect as an entry of its own.
            redirects: Redirects::Stay,
            ..Http::default()
        };
        for header in list(request, "headers") {
            let (name, value) = (text(header, "name"), text(header, "value"));
            // The body has its own content type, with a boundary of its own.
            let is_of_body =
                matches!(http.body, Body::Multipart(_)) && name.eq_ignore_ascii_case("content-type");
            if is_sent(name, found) && !is_of_body {
                http.headers.push(plain_header(name, value));
            }
        }
        let cookies: Vec<String> = list(request, "cookies")
            .iter()
            .map(|cookie| format!("{}={}", text(cookie, "name"), text(cookie, "value")))
            .collect();
        if !cookies.is_empty() && !has_header(&http.headers, "cookie") {
            http.headers.push(plain_header("Cookie", &cookies.join("; ")));
        }
        credentials::move_out(&mut http, found);
        let mut test = test(name_of(method, url), http);
        let status = entry["response"]["status"].as_u64().filter(|status| *status > 0);
        test.specs.extend(status.map(status_spec));
        found.test(test)?;
    }
    Ok(())
}

fn body(request: &Value, found: &mut Collection<'_>) -> Body {
    let posted = &request["postData"];
    let content = text(posted, "text");
    if text(posted, "encoding") == "base64" {
        found.warn("a body in base64 is carried over as it is written: it is not decoded");
    }
    let params = list(posted, "params");
    if content.is_empty() && !params.is_empty() {
        if text(posted, "mimeType").starts_with("multipart/") {
            return Body::Multipart(params.iter().map(|param| part(param, found)).collect());
        }
        let fields = params.iter().map(|param| plain_header(text(param, "name"), text(param, "value")));
        return Body::Form(fields.collect());
    }
    text_body(&Template::literal(content), found)
}

fn part(param: &Value, found: &mut Collection<'_>) -> Part {
    let written = |key: &str| Template::literal(text(param, key)).written();
    let mut part = Part {
        name: written("name").into(),
        value: written("value").into(),
        content_type: written("contentType").into(),
        ..Part::default()
    };
    let file = text(param, "fileName");
    if !file.is_empty() && part.value.is_empty() {
        warn_of_file(file, found);
        part.file = path_of(file).into();
    }
    part
}
