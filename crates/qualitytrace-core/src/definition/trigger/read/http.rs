//! The reader of HTTP requests.

use std::ops::Range;

use qualitytrace_config::tree::{Node, Shape};

use super::super::{Body, Http, HttpVersion, Part, Redirects};
use super::auth::auth;
use super::headers;
use super::tls::{Bare, security};
use crate::definition::reader::{Fields, Reader};
use crate::definition::settings::period;
use crate::lang::Diagnostic;

pub(super) fn read(reader: &Reader<'_>, block: &Node) -> Option<Http> {
    let mut fields = reader.fields(block, "an HTTP trigger")?;
    let (tls, ssl_verification) = security(&mut fields, Bare::Meaningless);
    let http = Http {
        url: fields.text("url").unwrap_or_default(),
        method: fields.text("method").unwrap_or_default(),
        headers: headers(&mut fields, "headers"),
        body: body(&mut fields),
        auth: auth(&mut fields),
        redirects: redirects(&mut fields),
        version: version(&mut fields),
        tls,
        ssl_verification,
        proxy: fields.text("proxy").unwrap_or_default(),
        timeout: period(&mut fields, "timeout"),
    };
    fields.unused("authentication", "`authentication` has no effect on an HTTP trigger", "write `auth:`");
    fields.finish();
    Some(http)
}

/// The one body that is given.
fn body(fields: &mut Fields<'_, '_>) -> Body {
    let reader = fields.reader;
    let mut given: Vec<(&str, Range<usize>, Body)> = Vec::new();
    let mut note = |key, node: Option<&Node>, body: Option<Body>| {
        if let (Some(node), Some(body)) = (node, body) {
            given.push((key, node.span.clone(), body));
        }
    };
    let node = fields.get("body");
    note("body", node, fields.text("body").filter(|text| !text.is_empty()).map(Body::Text));
    let node = fields.get("bodyFile");
    note("bodyFile", node, fields.text("bodyFile").filter(|text| !text.is_empty()).map(Body::File));
    let node = fields.get("form");
    let form = headers(fields, "form");
    note("form", node, (!form.is_empty()).then_some(Body::Form(form)));
    let node = fields.get("multipart");
    let parts = parts(fields);
    note("multipart", node, (!parts.is_empty()).then_some(Body::Multipart(parts)));
    if let [(first, ..), (second, span, _), ..] = given.as_slice() {
        let message = format!("a request has one body, but both `{first}` and `{second}` are given");
        let diagnostic = Diagnostic::error("conflicting-keys", span.clone(), message);
        reader.report(diagnostic.helped("keep one of `body`, `bodyFile`, `form` and `multipart`"));
    }
    given.into_iter().next().map(|(_, _, body)| body).unwrap_or_default()
}

fn parts(fields: &mut Fields<'_, '_>) -> Vec<Part> {
    let reader = fields.reader;
    let part = |node: &Node| {
        let mut fields = reader.fields(node, "a part of a multipart body")?;
        let part = Part {
            name: fields.text("name").unwrap_or_default(),
            value: fields.text("value").unwrap_or_default(),
            file: fields.text("file").unwrap_or_default(),
            filename: fields.text("filename").unwrap_or_default(),
            content_type: fields.text("contentType").unwrap_or_default(),
        };
        fields.finish();
        if part.name.is_empty() {
            reader.error("no-name", node.span.clone(), "a part of a multipart body needs a `name`");
        }
        if !part.value.is_empty() && !part.file.is_empty() {
            let message = "a part has either a `value` or a `file`, but both are given";
            reader.error("conflicting-keys", node.span.clone(), message);
        }
        Some(part)
    };
    fields.items("multipart").iter().filter_map(part).collect()
}

fn redirects(fields: &mut Fields<'_, '_>) -> Redirects {
    let Some((word, span)) = word(fields, "redirects") else {
        return Redirects::default();
    };
    match (word, word.parse()) {
        ("follow", _) => Redirects::default(),
        ("none", _) | (_, Ok(0)) => Redirects::Stay,
        (_, Ok(most)) => Redirects::Follow(most),
        (other, Err(_)) => {
            let message = format!("`redirects` takes `follow`, `none` or a number up to 255, not `{other}`");
            fields.reader.error("wrong-redirects", span, message);
            Redirects::default()
        }
    }
}

fn version(fields: &mut Fields<'_, '_>) -> Option<HttpVersion> {
    let (word, span) = word(fields, "httpVersion")?;
    let version = match word {
        "1.1" | "1" => Some(HttpVersion::One),
        "2" | "2.0" => Some(HttpVersion::Two),
        _ => None,
    };
    if version.is_none() {
        let message = format!("`httpVersion` takes `1.1` or `2`, not `{word}`");
        fields.reader.error("unknown-http-version", span, message);
    }
    version
}

/// Reads a word or a number, in JSON too.
fn word<'n>(fields: &mut Fields<'n, '_>, key: &'static str) -> Option<(&'n str, Range<usize>)> {
    let node = fields.get(key)?;
    match &node.shape {
        Shape::Scalar(scalar) if scalar.text.is_empty() => None,
        Shape::Scalar(scalar) => Some((scalar.text.as_str(), node.span.clone())),
        Shape::Null => None,
        Shape::List(_) | Shape::Map(_) => {
            fields.reader.error("wrong-type", node.span.clone(), format!("`{key}` takes one word"));
            None
        }
    }
}
