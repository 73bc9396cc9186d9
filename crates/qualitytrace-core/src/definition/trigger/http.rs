//! HTTP requests.

mod body;

use std::ops::Range;

use qualitytrace_config::tree::{Node, Shape};
use schemars::JsonSchema;
use serde::Serialize;

pub use body::{Body, Part};

use super::auth::{self, Auth, AuthSpec};
use super::files::FileUse;
use super::header::{self, Header, HeaderSpec};
use super::tls::{self, BareTls, Tls, TlsSpec};
use crate::definition::period::{self, Period};
use crate::definition::reader::{Fields, Reader};
use crate::definition::shape::is_blank;
use crate::definition::text::Text;
use body::PartSpec;

/// An HTTP request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Http {
    /// The URL; the default scheme is `http`.
    pub url: Text,
    /// The method; empty means GET.
    pub method: Text,
    /// Headers in order.
    pub headers: Vec<Header>,
    /// The body.
    pub body: Body,
    /// Credentials.
    pub auth: Option<Auth>,
    /// Which redirects are followed.
    pub redirects: Redirects,
    /// The version of HTTP; `None` negotiates it.
    pub version: Option<HttpVersion>,
    /// The certificates.
    pub tls: Option<Tls>,
    /// Whether the server's certificate must be valid.
    pub ssl_verification: bool,
    /// The proxy's address; empty means that of the server's environment, `none` means none.
    pub proxy: Text,
    /// The timeout; `None` means the server's default.
    pub timeout: Option<Period>,
}

impl Http {
    pub(super) fn mapped<E>(&self, text: &mut impl FnMut(&Text) -> Result<Text, E>) -> Result<Self, E> {
        Ok(Self {
            url: text(&self.url)?,
            method: text(&self.method)?,
            headers: header::mapped(&self.headers, text)?,
            body: self.body.mapped(text)?,
            auth: self.auth.as_ref().map(|auth| auth.mapped(text)).transpose()?,
            tls: self.tls.as_ref().map(|tls| tls.mapped(text)).transpose()?,
            proxy: text(&self.proxy)?,
            ..self.clone()
        })
    }

    pub(super) fn each_file<E>(
        &mut self,
        change: &mut impl FnMut(FileUse, &mut Text) -> Result<(), E>,
    ) -> Result<(), E> {
        self.body.each_file(change)?;
        self.tls.iter_mut().try_for_each(|tls| tls.each_file(change))
    }
}

/// Which redirects are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Redirects {
    /// Up to this many; one more is an error.
    Follow(u8),
    /// None: the redirect is the response.
    Stay,
}

impl Redirects {
    /// The default maximum of redirects.
    pub const USUAL: u8 = 10;
}

impl Default for Redirects {
    fn default() -> Self {
        Self::Follow(Self::USUAL)
    }
}

/// A version of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HttpVersion {
    /// HTTP/1.1.
    One,
    /// HTTP/2, with prior knowledge where there is no TLS.
    Two,
}

impl HttpVersion {
    /// Returns the name used in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::One => "1.1",
            Self::Two => "2",
        }
    }
}

pub(super) fn read(reader: &Reader<'_>, block: &Node) -> Option<Http> {
    let mut fields = reader.fields(block, "an HTTP trigger")?;
    let (tls, ssl_verification) = tls::security(&mut fields, BareTls::Meaningless);
    let http = Http {
        url: fields.text("url").unwrap_or_default(),
        method: fields.text("method").unwrap_or_default(),
        headers: header::read(&mut fields, "headers"),
        body: body::read(&mut fields),
        auth: auth::read(&mut fields),
        redirects: redirects(&mut fields),
        version: version(&mut fields),
        tls,
        ssl_verification,
        proxy: fields.text("proxy").unwrap_or_default(),
        timeout: period::read(&mut fields, "timeout"),
    };
    fields.unused("authentication", "`authentication` has no effect on an HTTP trigger", "write `auth:`");
    fields.finish();
    Some(http)
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

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct HttpRequestSpec<'a> {
    /// The method; `GET` by default.
    #[serde(skip_serializing_if = "is_blank")]
    method: &'a str,
    /// The URL; without a scheme it is `http`.
    #[serde(skip_serializing_if = "is_blank")]
    url: &'a str,
    /// The body as text; the command line takes a path like `./order.json`, and sends the content of the file.
    #[serde(skip_serializing_if = "is_blank")]
    body: &'a str,
    /// A file whose bytes are the body.
    #[serde(skip_serializing_if = "is_blank")]
    body_file: &'a str,
    /// The fields of a form, sent as `application/x-www-form-urlencoded`.
    #[serde(skip_serializing_if = "is_blank")]
    form: Vec<HeaderSpec<'a>>,
    /// The parts of a form, sent as `multipart/form-data`.
    #[serde(skip_serializing_if = "is_blank")]
    multipart: Vec<PartSpec<'a>>,
    /// The headers of the request.
    #[serde(skip_serializing_if = "is_blank")]
    headers: Vec<HeaderSpec<'a>>,
    /// The credentials of the request.
    #[serde(skip_serializing_if = "is_blank")]
    auth: Option<AuthSpec<'a>>,
    /// `follow` for up to 10 redirects, a number for that many, `none` to take the redirect as the answer.
    #[serde(skip_serializing_if = "is_blank")]
    redirects: Option<RedirectsSpec>,
    /// `1.1` or `2`.
    #[serde(skip_serializing_if = "is_blank")]
    http_version: Option<&'static str>,
    /// Certificates of the connection: authorities to trust, and those of the client.
    #[serde(skip_serializing_if = "is_blank")]
    tls: Option<TlsSpec<'a>>,
    /// Whether the certificate of the server must be valid; `false` by default.
    #[serde(skip_serializing_if = "is_blank")]
    ssl_verification: bool,
    /// The address of an HTTP proxy, or `none`; without it, the variables of the server decide.
    #[serde(skip_serializing_if = "is_blank")]
    proxy: &'a str,
    /// How long the whole request may take; `30s` by default.
    #[serde(skip_serializing_if = "is_blank")]
    timeout: Option<&'a str>,
}

impl<'a> HttpRequestSpec<'a> {
    pub(super) fn of(request: &'a Http) -> Self {
        let (mut body, mut body_file, mut form, mut multipart) = ("", "", Vec::new(), Vec::new());
        match &request.body {
            Body::Text(text) => body = &text.value,
            Body::File(file) => body_file = &file.value,
            Body::Form(fields) => form = header::specs(fields),
            Body::Multipart(parts) => multipart = parts.iter().map(PartSpec::of).collect(),
        }
        Self {
            method: &request.method.value,
            url: &request.url.value,
            body,
            body_file,
            form,
            multipart,
            headers: header::specs(&request.headers),
            auth: request.auth.as_ref().map(AuthSpec::of),
            redirects: match request.redirects {
                Redirects::Follow(Redirects::USUAL) => None,
                Redirects::Follow(most) => Some(RedirectsSpec::Most(most)),
                Redirects::Stay => Some(RedirectsSpec::None("none")),
            },
            http_version: request.version.map(HttpVersion::as_str),
            tls: request.tls.as_ref().map(TlsSpec::of),
            ssl_verification: request.ssl_verification,
            proxy: &request.proxy.value,
            timeout: period::text(request.timeout.as_ref()),
        }
    }
}

/// How many are followed, or `none`.
#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
enum RedirectsSpec {
    Most(u8),
    None(&'static str),
}
