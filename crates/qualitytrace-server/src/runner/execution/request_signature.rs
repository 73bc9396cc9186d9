//! How a request shows in the span that answers it.

use qualitytrace_core::definition::Trigger;
use qualitytrace_core::trace::{Span, SpanKind};
use qualitytrace_core::value::Value;

/// The attributes of a span that answers a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestSignature {
    Http { method: String, path: String },
    Rpc { service: String, method: String },
}

impl RequestSignature {
    /// The attributes of a span that answers this trigger.
    pub(super) fn of_trigger(trigger: &Trigger) -> Option<Self> {
        match trigger {
            Trigger::Http(request) => Some(Self::http(&request.method.value, &request.url.value)),
            Trigger::Graphql(request) => Some(Self::http("POST", &request.url.value)),
            Trigger::Grpc(call) => {
                let (service, method) = call.method.value.rsplit_once(['.', '/'])?;
                Some(Self::Rpc { service: service.to_owned(), method: method.to_owned() })
            }
            Trigger::Kafka(_)
            | Trigger::TraceId(_)
            | Trigger::Exec(_)
            | Trigger::PlaywrightEngine(_)
            | Trigger::Integration(_) => None,
        }
    }

    /// The attributes of a span that answers the call of a client.
    pub(super) fn of_call(client: &Span) -> Option<Self> {
        if let Some(method) = text(client, &["rpc.method"]) {
            let (service, method) = match text(client, &["rpc.service"]) {
                Some(service) => (service, method),
                None => method.rsplit_once('/')?,
            };
            return Some(Self::Rpc { service: service.to_owned(), method: method.to_owned() });
        }
        let method = text(client, &["http.request.method", "http.method"])?;
        Some(Self::http(method, text(client, &["url.full", "http.url", "http.target", "url.path"])?))
    }

    fn http(method: &str, url: &str) -> Self {
        let method = if method.is_empty() { "GET".to_owned() } else { method.to_uppercase() };
        Self::Http { method, path: path(url).to_owned() }
    }

    /// Whether a span answers such a request.
    pub(super) fn is_answered_by(&self, span: &Span) -> bool {
        span.kind == SpanKind::Server
            && match self {
                Self::Http { method, path } => {
                    let sent = text(span, &["http.request.method", "http.method"]);
                    sent.is_some_and(|sent| sent.eq_ignore_ascii_case(method)) && is_at(span, path)
                }
                Self::Rpc { service, method } => {
                    let full = [service.as_str(), method].join("/");
                    let sent = text(span, &["rpc.method"]).unwrap_or_default();
                    sent == full || sent == method && text(span, &["rpc.service"]) == Some(service)
                }
            }
    }
}

/// Whether an HTTP span is about this path.
fn is_at(span: &Span, wanted: &str) -> bool {
    let sent = text(span, &["url.path", "http.target", "url.full", "http.url"]).map(path);
    match sent {
        Some(sent) => sent == wanted,
        None => text(span, &["http.route"]).is_some_and(|route| is_routed(route, wanted)),
    }
}

/// Whether a route template matches a path.
fn is_routed(route: &str, path: &str) -> bool {
    let [mut route, mut path] = [route, path].map(|text| text.trim_matches('/').split('/'));
    loop {
        match (route.next(), path.next()) {
            (None, None) => return true,
            (Some(place), Some(part)) if place == part || place.starts_with(['{', ':', '<', '*', '[']) => {}
            _ => return false,
        }
    }
}

/// The path of a URL or of a request target.
fn path(url: &str) -> &str {
    let rest = match url.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
        None if url.starts_with('/') => url,
        // The scheme may be missing.
        None => url.find('/').map_or("/", |at| &url[at..]),
    };
    rest.split(['?', '#']).next().unwrap_or(rest)
}

fn text<'s>(span: &'s Span, names: &[&str]) -> Option<&'s str> {
    names.iter().find_map(|name| match span.attributes.get(name) {
        Some(Value::String(text)) => Some(&**text),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_urls_and_targets() {
        for (url, expected) in [
            ("http://shop:8080/orders/7?x=/y#z", "/orders/7"),
            ("shop:8080/orders", "/orders"),
            ("https://shop", "/"),
            ("shop", "/"),
            ("/orders?x", "/orders"),
        ] {
            assert_eq!(path(url), expected, "{url}");
        }
    }

    #[test]
    fn routes_have_places_for_values() {
        for (route, path, expected) in [
            ("/orders/{id}", "/orders/7", true),
            ("/orders/:id/", "/orders/7", true),
            ("/orders/<int:id>", "/orders/7", true),
            ("/orders/{id}", "/orders", false),
            ("/orders/{id}", "/carts/7", false),
            ("/", "/", true),
        ] {
            assert_eq!(is_routed(route, path), expected, "{route} {path}");
        }
    }
}
