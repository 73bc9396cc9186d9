//! Requests to the API: a server span each, as the caller's child.

use std::time::Instant;

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{MatchedPath, OriginalUri, RawPathParams, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::{HOST, USER_AGENT};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, Method, Uri, Version};
use qualitytrace_telemetry::{SpanExt, redact};
use tracing::Instrument;
use tracing::field::Empty;

use super::Watch;

/// The name of a request, in its head and in that of the answer.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What the conventions call a method that they do not know: clients may invent any number of them.
const OTHER_METHOD: &str = "_OTHER";

/// What is known of a request before it is answered, in words of which there are few.
pub(super) struct Facts {
    pub(super) method: &'static str,
    pub(super) scheme: &'static str,
    /// `None` when no route fits.
    pub(super) route: Option<String>,
}

impl Facts {
    fn of(request: &Request) -> Self {
        let is_secure = request.extensions().get::<Scheme>() == Some(&Scheme::HTTPS);
        Self {
            method: known(request.method()),
            scheme: if is_secure { "https" } else { "http" },
            route: request.extensions().get::<MatchedPath>().map(|route| template(route.as_str())),
        }
    }

    /// The name of the span.
    fn name(&self) -> String {
        let method = if self.method == OTHER_METHOD { "HTTP" } else { self.method };
        self.route.as_ref().map_or_else(|| method.to_owned(), |route| format!("{method} {route}"))
    }
}

/// Records one request.
pub(super) async fn record(
    State(watch): State<Watch>,
    parameters: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    next: Next,
) -> Response {
    let facts = Facts::of(&request);
    let original = request.method().as_str();
    // Below a prefix the router shows the rest of the path only.
    let uri = request.extensions().get::<OriginalUri>().map_or(request.uri(), |OriginalUri(uri)| uri);
    let server = addressed(&request, uri);
    let secret = &watch.config.get().redact_headers;
    let target = uri.path_and_query().map_or("", PathAndQuery::as_str);
    let target = redact::query(target, |name| is_secret_value(name, secret));
    let queried = target.split_once('?').map(|(_, query)| query);
    let span = tracing::info_span!(
        "request",
        otel.name = facts.name(),
        otel.kind = "server",
        http.method = facts.method,
        http.request.method = facts.method,
        http.request.method_original = (original != facts.method).then_some(original),
        http.route = facts.route,
        http.target = (!target.is_empty()).then_some(&*target),
        url.scheme = facts.scheme,
        url.path = uri.path(),
        server.address = server.as_ref().map(host),
        server.port = server.as_ref().map(|server| port(server, facts.scheme)),
        network.protocol.version = version(request.version()),
        user_agent.original = request.headers().get(USER_AGENT).and_then(|agent| agent.to_str().ok()),
        request.id = request.headers().get(REQUEST_ID).and_then(|id| id.to_str().ok()),
        http.request.headers = shown(request.headers(), secret),
        http.request.params = parameters.ok().map(|found| object(found.iter())),
        http.request.query = queried.map(|query| object(url::form_urlencoded::parse(query.as_bytes()))),
        http.response.status_code = Empty,
        error.type = Empty,
        otel.status_code = Empty,
    );
    if let Some(caller) = watch.telemetry.propagators().extract(request.headers()) {
        span.continue_from(&caller);
    }
    let began = Instant::now();
    let _active = watch.instruments.active(&facts);
    let response = next.run(request).instrument(span.clone()).await;
    let status = response.status();
    span.record("http.response.status_code", status.as_u16());
    if status.is_server_error() {
        span.record("error.type", status.as_str());
        span.record("otel.status_code", "ERROR");
    }
    span.in_scope(|| watch.instruments.request(&facts, status, began.elapsed()));
    response
}

/// The method, if the conventions know it.
fn known(method: &Method) -> &'static str {
    const KNOWN: [&str; 9] = ["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"];
    KNOWN.into_iter().find(|known| *known == method.as_str()).unwrap_or(OTHER_METHOD)
}

/// Whom the client believes to speak to.
fn addressed(request: &Request, uri: &Uri) -> Option<Authority> {
    let named = || request.headers().get(HOST)?.to_str().ok()?.parse().ok();
    uri.authority().cloned().or_else(named)
}

/// A host as the conventions write it: an address of IPv6 without brackets.
fn host(server: &Authority) -> &str {
    let host = server.host();
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host)
}

fn port(server: &Authority, scheme: &str) -> u16 {
    server.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 })
}

fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_09 => "0.9",
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2",
        Version::HTTP_3 => "3",
        _ => "1.1",
    }
}

/// The route as tests of the server know it: what belongs to a run is named as the original's description names it.
fn template(route: &str) -> String {
    for (kind, id) in [("/api/tests/", "{testId}"), ("/api/testsuites/", "{testSuiteId}")] {
        if let Some((prefix, rest)) = route.split_once(&format!("{kind}{{id}}/run")) {
            return format!("{prefix}{kind}{id}/run{}", rest.replace("{number}", "{runId}"));
        }
    }
    route.to_owned()
}

/// Names and values as JSON.
fn object(pairs: impl Iterator<Item = (impl Into<String>, impl Into<String>)>) -> String {
    let pairs = pairs.map(|(name, value)| (name.into(), value.into().into()));
    serde_json::Value::Object(pairs.collect()).to_string()
}

/// Values of a query that are secrets wherever they stand, besides those that are named like secret headers.
const SECRET_VALUES: [&str; 10] =
    ["*auth*", "*key*", "*pass*", "*sig*", "*session*", "*jwt*", "code", "pw", "pwd", "*assertion*"];

/// Whether a value of a query is to be left out, by its name.
fn is_secret_value(name: &str, headers: &[String]) -> bool {
    is_listed(name, headers) || SECRET_VALUES.iter().any(|pattern| matches(pattern, name))
}

fn is_listed(name: &str, secret: &[String]) -> bool {
    secret.iter().any(|pattern| matches(&pattern.to_ascii_lowercase(), name))
}

/// The headers as JSON, without what is secret. Addresses among them lose the secrets of their query.
fn shown(headers: &HeaderMap, secret: &[String]) -> String {
    object(headers.iter().map(|(name, value)| {
        let value = if is_listed(name.as_str(), secret) { "***" } else { value.to_str().unwrap_or("") };
        (name.as_str(), redact::query(value, |name| is_secret_value(name, secret)))
    }))
}

/// Whether a name fits a pattern in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == name };
    let Some(rest) = name.strip_prefix(head) else { return false };
    (0..=rest.len()).filter_map(|at| rest.get(at..)).any(|rest| matches(tail, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn routes_of_runs_have_the_names_of_the_original() {
        for (route, shown) in [
            ("/api/tests/{id}", "/api/tests/{id}"),
            ("/api/tests/{id}/run", "/api/tests/{testId}/run"),
            ("/x/api/tests/{id}/run/{number}/stop", "/x/api/tests/{testId}/run/{runId}/stop"),
            ("/api/testsuites/{id}/run/{number}", "/api/testsuites/{testSuiteId}/run/{runId}"),
        ] {
            assert_eq!(template(route), shown);
        }
    }

    #[test]
    fn a_method_is_one_of_few() {
        for (method, shown) in [("GET", "GET"), ("PATCH", "PATCH"), ("get", "_OTHER"), ("M2100", "_OTHER")] {
            assert_eq!(known(&method.parse().unwrap()), shown);
        }
    }

    #[test]
    fn a_server_is_named_as_its_client_names_it() {
        for (authority, scheme, expected) in [
            ("tests.example", "https", ("tests.example", 443)),
            ("tests.example:11633", "http", ("tests.example", 11633)),
            ("[::1]:80", "http", ("::1", 80)),
        ] {
            let authority: Authority = authority.parse().unwrap();
            assert_eq!((host(&authority), port(&authority, scheme)), expected);
        }
    }

    #[test]
    fn secret_headers_are_masked() {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", "Bearer abc".parse().unwrap());
        headers.insert("x-shop-api-key", "abc".parse().unwrap());
        headers.insert("accept", "*/*".parse().unwrap());
        assert_eq!(
            shown(&headers, &Config::default().redact_headers),
            r#"{"authorization":"***","x-shop-api-key":"***","accept":"*/*"}"#
        );
        assert_eq!(
            shown(&headers, &["Accept".to_owned()]),
            r#"{"authorization":"Bearer abc","x-shop-api-key":"abc","accept":"***"}"#
        );
    }

    #[test]
    fn secrets_of_a_query_are_masked() {
        let secret = &Config::default().redact_headers;
        for (target, shown) in [
            ("/ws?token=abc", "/ws?token=***"),
            ("/api/tests?take=5&access_token=abc&query=x", "/api/tests?take=5&access_token=***&query=x"),
            (
                "/x?X-Amz-Signature=abc&api_key=a&apikey=b&Password=c&skip=1",
                "/x?X-Amz-Signature=***&api_key=***&apikey=***&Password=***&skip=1",
            ),
        ] {
            assert_eq!(redact::query(target, |name| is_secret_value(name, secret)), shown);
        }
        let mut headers = HeaderMap::new();
        headers.insert("referer", "http://x/?token=abc&a=1".parse().unwrap());
        assert_eq!(super::shown(&headers, secret), r#"{"referer":"http://x/?token=***&a=1"}"#);
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, fits) in [
            ("cookie", "cookie", true),
            ("cookie", "cookies", false),
            ("*token*", "x-token", true),
            ("*token*", "token", true),
            ("x-*-key", "x-api-key", true),
            ("x-*-key", "x-key", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }
}
