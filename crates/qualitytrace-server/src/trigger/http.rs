//! HTTP requests.

use std::time::Duration;

use base64::Engine;
use futures_util::StreamExt;
use qualitytrace_core::definition::trigger::{ApiKeyPlace, Auth, Http};
use qualitytrace_core::run::Reply;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Url};

use super::failure::Failure;
use super::propagation::Context;

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the whole request may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// What we call ourselves, unless the test says otherwise.
const USER_AGENT: &str = concat!("qualitytrace/", env!("CARGO_PKG_VERSION"));

/// One client that checks certificates and one that does not.
#[derive(Debug, Clone)]
pub(super) struct Clients {
    verifying: Client,
    trusting: Client,
}

impl Clients {
    pub(super) fn new() -> Self {
        Self { verifying: client(true), trusting: client(false) }
    }

    pub(super) async fn send(
        &self,
        request: &Http,
        context: &Context,
        reply_bytes: u64,
    ) -> Result<Reply, Failure> {
        let mut url = url(&request.url.value)?;
        let mut headers = headers(request)?;
        if let Some(auth) = &request.auth {
            authorize(auth, &mut url, &mut headers)?;
        }
        for (name, value) in context.headers() {
            headers.insert(HeaderName::from_static(name), header_value(name, &value)?);
        }
        let client = if request.ssl_verification { &self.verifying } else { &self.trusting };
        let mut builder = client.request(method(&request.method.value)?, url.clone()).headers(headers);
        if let Some(timeout) = &request.timeout {
            builder = builder.timeout(timeout.duration);
        }
        if !request.body.value.is_empty() {
            builder = builder.body(request.body.value.clone());
        }
        let failed = |error: reqwest::Error| Failure::of_request(&error, &url);
        let response = builder.send().await.map_err(failed)?;
        let status = response.status();
        let reply_headers = response
            .headers()
            .iter()
            .map(|(name, value)| {
                (canonical(name.as_str()), String::from_utf8_lossy(value.as_bytes()).into_owned())
            })
            .collect();
        let (body, truncated) = read(response, reply_bytes).await.map_err(failed)?;
        Ok(Reply::Http {
            status: status.as_u16(),
            reason: status.to_string(),
            headers: reply_headers,
            body,
            truncated,
        })
    }
}

fn client(verify: bool) -> Client {
    Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(TIMEOUT)
        .user_agent(USER_AGENT)
        .danger_accept_invalid_certs(!verify)
        .no_proxy()
        .build()
        // Without a proxy or certificates to load, nothing here can fail.
        .unwrap_or_default()
}

fn url(text: &str) -> Result<Url, Failure> {
    let text = text.trim();
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    Url::parse(&with_scheme).map_err(|error| Failure::invalid(format!("`{text}` is not a URL: {error}")))
}

fn method(text: &str) -> Result<Method, Failure> {
    let upper = if text.is_empty() { "GET".to_owned() } else { text.to_uppercase() };
    Method::from_bytes(upper.as_bytes())
        .map_err(|_| Failure::invalid(format!("`{text}` is not an HTTP method")))
}

fn headers(request: &Http) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    for header in request.headers.iter().filter(|header| !header.key.value.is_empty()) {
        let name = header_name(&header.key.value)?;
        headers.append(name, header_value(&header.key.value, &header.value.value)?);
    }
    Ok(headers)
}

fn authorize(auth: &Auth, url: &mut Url, headers: &mut HeaderMap) -> Result<(), Failure> {
    match auth {
        Auth::Basic { username, password } => {
            let login = format!("{}:{}", username.value, password.value);
            let login = base64::engine::general_purpose::STANDARD.encode(login);
            headers.insert(AUTHORIZATION, secret(AUTHORIZATION.as_str(), &format!("Basic {login}"))?);
        }
        // The token stands for itself: files write `Bearer ...` where it is wanted.
        Auth::Bearer { token } => {
            headers.insert(AUTHORIZATION, secret(AUTHORIZATION.as_str(), &token.value)?);
        }
        Auth::ApiKey { key, value, place: ApiKeyPlace::Header } => {
            headers.insert(header_name(&key.value)?, secret(&key.value, &value.value)?);
        }
        Auth::ApiKey { key, value, place: ApiKeyPlace::Query } => {
            url.query_pairs_mut().append_pair(&key.value, &value.value);
        }
    }
    Ok(())
}

fn header_name(name: &str) -> Result<HeaderName, Failure> {
    HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| Failure::invalid(format!("`{name}` is not a header name")))
}

fn header_value(name: &str, value: &str) -> Result<HeaderValue, Failure> {
    HeaderValue::from_str(value).or_else(|_| HeaderValue::from_bytes(value.as_bytes())).map_err(|_| {
        Failure::invalid(format!("the value of header `{name}` has characters that a header cannot carry"))
    })
}

fn secret(name: &str, value: &str) -> Result<HeaderValue, Failure> {
    let mut value = header_value(name, value)?;
    value.set_sensitive(true);
    Ok(value)
}

/// The body as text, up to the limit, and whether there was more.
async fn read(response: reqwest::Response, limit: u64) -> Result<(String, bool), reqwest::Error> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut body = Vec::new();
    let mut stream = response.bytes_stream();
    while let Some(part) = stream.next().await {
        let part = part?;
        let room = limit - body.len();
        body.extend_from_slice(&part[..part.len().min(room)]);
        if part.len() > room {
            return Ok((String::from_utf8_lossy(&body).into_owned(), true));
        }
    }
    Ok((String::from_utf8_lossy(&body).into_owned(), false))
}

/// `content-type` as `Content-Type`: the spelling that tests written for other tools compare with.
fn canonical(name: &str) -> String {
    let words = name.split('-').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_uppercase() + rest
    });
    words.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::super::failure::Reason;
    use super::*;

    #[test]
    fn a_url_without_scheme_is_http() {
        assert_eq!(url("shop:8080/x").unwrap().as_str(), "http://shop:8080/x");
        assert_eq!(url(" https://shop ").unwrap().as_str(), "https://shop/");
        assert_eq!(url("http://").unwrap_err().reason, Reason::Invalid);
    }

    #[test]
    fn header_names_are_shown_as_others_show_them() {
        assert_eq!(canonical("x-request-id"), "X-Request-Id");
        assert_eq!(canonical("etag"), "Etag");
    }
}
