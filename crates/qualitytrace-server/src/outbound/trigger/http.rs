//! HTTP triggers.

mod body;
mod clients;
mod oauth;
mod redirect;

use std::time::Duration;

use base64::Engine;
use futures_util::StreamExt;
use qualitytrace_core::definition::trigger::{ApiKeyLocation, Auth, Http, HttpVersion, Tls};
use qualitytrace_core::run::Reply;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response, StatusCode, Url};

use super::connect::Gate;
use super::failure::{Endpoint, Reason, Role, TriggerError};
use super::progress;
use super::propagation::Context;
use clients::{Clients, Settings};
use redirect::Step;

/// Default timeout of the whole request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The setting that names the peer of a request.
const URL: &str = "the trigger's url";

/// Sends requests; keeps connections and OAuth tokens between them.
#[derive(Debug, Clone)]
pub(super) struct Sender {
    clients: Clients,
    tokens: oauth::Tokens,
    gate: Gate,
}

impl Sender {
    pub(super) fn new(gate: Gate) -> Self {
        Self { clients: Clients::new(gate.clone()), tokens: oauth::Tokens::default(), gate }
    }

    /// Returns the gate of its connections.
    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Refuses an address that is not allowed, for a connection that another process makes.
    pub(super) async fn admits_elsewhere(&self, address: &str) -> Result<(), TriggerError> {
        match url(address, "url") {
            Ok(url) => self.gate.host_elsewhere(&endpoint(&url, URL)).await,
            // An invalid URL is reported by the process that connects.
            Err(_) => Ok(()),
        }
    }

    /// Sends a request, with the headers of a trace context if there is one.
    pub(super) async fn send(
        &self,
        request: &Http,
        context: Option<&Context>,
        reply_bytes: u64,
    ) -> Result<Reply, TriggerError> {
        let timeout = request.timeout.as_ref().map_or(TIMEOUT, |timeout| timeout.duration);
        let endpoint = endpoint_of(request)?;
        progress::within(timeout, &endpoint, self.exchange(request, context, reply_bytes)).await
    }

    async fn exchange(
        &self,
        request: &Http,
        context: Option<&Context>,
        reply_bytes: u64,
    ) -> Result<Reply, TriggerError> {
        let mut url = url(&request.url.value, "url")?;
        let method = method(&request.method.value)?;
        let mut headers = headers(request)?;
        let auth = self.granted(request.auth.as_ref(), &self.settings(request, &url)?).await?;
        if let Some(auth) = &auth {
            authorize(auth, &mut url, &mut headers)?;
        }
        for (name, value) in context.into_iter().flat_map(Context::headers) {
            headers.insert(HeaderName::from_static(name), header_value(name, &value)?);
        }
        let mut step = Step { url, method, headers, with_body: true };
        let mut followed = 0;
        let response = loop {
            let response = self.ask(request, &step).await?;
            let next = redirect::next(&step, &response, request.redirects, followed)?;
            let Some(next) = next else { break response };
            (step, followed) = (next, followed + 1);
        };
        progress::answers();
        let status = response.status();
        if let (StatusCode::UNAUTHORIZED, Some(Auth::OAuth2(oauth2))) = (status, &request.auth) {
            // The token may have been revoked: the next run fetches a new one.
            self.tokens.forget(oauth2);
        }
        let reply_headers = response
            .headers()
            .iter()
            .map(|(name, value)| {
                (canonical(name.as_str()), String::from_utf8_lossy(value.as_bytes()).into_owned())
            })
            .collect();
        let settings = self.settings(request, &step.url)?;
        let failed = |error: reqwest::Error| failure(&error, &endpoint(&step.url, URL), &step.url, &settings);
        let (body, truncated) = read(response, reply_bytes).await.map_err(failed)?;
        let binary = is_binary(&body, truncated);
        let body = String::from_utf8_lossy(&body).into_owned();
        Ok(Reply::Http {
            status: status.as_u16(),
            reason: status.to_string(),
            headers: reply_headers,
            body,
            truncated,
            binary,
        })
    }

    /// Sends one request of a trigger, without following redirects.
    async fn ask(&self, request: &Http, step: &Step) -> Result<Response, TriggerError> {
        let Step { url, method, headers, with_body } = step;
        let (endpoint, settings) = (endpoint(url, URL), self.settings(request, url)?);
        self.clients.admit(url, &settings).await?;
        progress::asks(&endpoint, settings.proxy.serving(url));
        let mut builder = self.clients.of(&settings)?.request(method.clone(), url.clone());
        if *with_body {
            builder = body::attach(builder, &request.body, headers)?;
        }
        let sent = builder.headers(headers.clone()).send().await;
        sent.map_err(|error| unanswered(&error, &endpoint, url, &settings))
    }

    /// Returns the credentials for a call that does not use this client; fetches a token if needed.
    pub(super) async fn granted_for(
        &self,
        auth: Option<&Auth>,
        tls: Option<&Tls>,
        verify: bool,
    ) -> Result<Option<Auth>, TriggerError> {
        let settings = Settings { certificates: self.gate.certificates(tls, verify), ..Settings::default() };
        self.granted(auth, &settings).await
    }

    /// Exchanges OAuth client credentials for a token; returns other credentials as they are.
    async fn granted(&self, auth: Option<&Auth>, settings: &Settings) -> Result<Option<Auth>, TriggerError> {
        match auth {
            Some(Auth::OAuth2(oauth2)) => {
                let token = self.tokens.get(oauth2, &self.clients, settings).await?;
                Ok(Some(Auth::Bearer { token: format!("Bearer {token}").into() }))
            }
            other => Ok(other.cloned()),
        }
    }

    /// Returns the client settings for a request to this URL.
    fn settings(&self, request: &Http, url: &Url) -> Result<Settings, TriggerError> {
        Ok(Settings {
            certificates: self.gate.certificates(request.tls.as_ref(), request.ssl_verification),
            version: request.version,
            proxy: clients::proxy(&request.proxy.value, url)?,
        })
    }
}

/// Describes why there is no response. The peer that failed may be the proxy.
fn failure(error: &reqwest::Error, endpoint: &Endpoint, url: &Url, settings: &Settings) -> TriggerError {
    let failure = TriggerError::of_request(error, endpoint);
    match (failure.reason, settings.proxy.serving(url)) {
        (Reason::Dns | Reason::Refused, Some(proxy)) => TriggerError::of_request(error, &proxy),
        (Reason::Unreachable, Some(proxy)) => failure.and(&format!(" (through the proxy {proxy})")),
        _ => failure,
    }
}

/// Like [`failure`], before the response began. A server that is addressed in the wrong protocol closes the connection,
/// or sends bytes that are not HTTP.
fn unanswered(error: &reqwest::Error, endpoint: &Endpoint, url: &Url, settings: &Settings) -> TriggerError {
    let failure = failure(error, endpoint, url, settings);
    match failure.reason {
        Reason::Cut | Reason::Protocol | Reason::Tls if settings.version == Some(HttpVersion::Two) => {
            failure.and("; if it does not speak HTTP/2, remove the trigger's `httpVersion`")
        }
        Reason::Cut | Reason::Protocol if url.scheme() == "http" => {
            failure.and(&format!("; if it speaks TLS, write `https://` in {}", endpoint.setting))
        }
        _ => failure,
    }
}

/// Returns the peer of a request.
pub(super) fn endpoint_of(request: &Http) -> Result<Endpoint, TriggerError> {
    Ok(endpoint(&url(&request.url.value, "url")?, URL))
}

/// Returns the peer of a URL.
fn endpoint(url: &Url, setting: &'static str) -> Endpoint {
    let host = url.host_str().unwrap_or_default().to_owned();
    Endpoint { role: Role::System, host, port: url.port_or_known_default(), setting }
}

/// Parses the URL of a trigger's key; the scheme defaults to `http`.
fn url(text: &str, key: &str) -> Result<Url, TriggerError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(TriggerError::invalid(format!("the trigger has no `{key}`; give it a `{key}`")));
    }
    let wrong = |cause: &str| {
        TriggerError::invalid(format!("`{text}` is not a URL: {cause}; correct the trigger's `{key}`"))
    };
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url = Url::parse(&with_scheme).map_err(|error| wrong(&error.to_string()))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(wrong(&format!("`{other}://` is not spoken here, only `http://` and `https://`"))),
    }
}

fn method(text: &str) -> Result<Method, TriggerError> {
    let upper = if text.is_empty() { "GET".to_owned() } else { text.to_uppercase() };
    Method::from_bytes(upper.as_bytes())
        .map_err(|_| TriggerError::invalid(format!("`{text}` is not an HTTP method")))
}

fn headers(request: &Http) -> Result<HeaderMap, TriggerError> {
    let mut headers = HeaderMap::new();
    for header in request.headers.iter().filter(|header| !header.key.value.is_empty()) {
        let name = header_name(&header.key.value)?;
        headers.append(name, header_value(&header.key.value, &header.value.value)?);
    }
    Ok(headers)
}

fn authorize(auth: &Auth, url: &mut Url, headers: &mut HeaderMap) -> Result<(), TriggerError> {
    match auth {
        Auth::Basic { username, password } => {
            let login = basic(&username.value, &password.value);
            headers.insert(AUTHORIZATION, secret(AUTHORIZATION.as_str(), &login)?);
        }
        // The token is the whole value: files write `Bearer ...` where it is wanted.
        Auth::Bearer { token } => {
            headers.insert(AUTHORIZATION, secret(AUTHORIZATION.as_str(), &token.value)?);
        }
        Auth::ApiKey { key, value, place: ApiKeyLocation::Header } => {
            headers.insert(header_name(&key.value)?, secret(&key.value, &value.value)?);
        }
        Auth::ApiKey { key, value, place: ApiKeyLocation::Query } => {
            url.query_pairs_mut().append_pair(&key.value, &value.value);
        }
        // The token has been fetched before.
        Auth::OAuth2(_) => {}
    }
    Ok(())
}

/// Encodes user and password for the header `Authorization`.
pub(super) fn basic(username: &str, password: &str) -> String {
    let login = base64::engine::general_purpose::STANDARD.encode(format!("{username}:{password}"));
    format!("Basic {login}")
}

fn header_name(name: &str) -> Result<HeaderName, TriggerError> {
    HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
        TriggerError::invalid(format!("`{name}` is not a header name; correct it in the trigger"))
    })
}

fn header_value(name: &str, value: &str) -> Result<HeaderValue, TriggerError> {
    HeaderValue::from_str(value).or_else(|_| HeaderValue::from_bytes(value.as_bytes())).map_err(|_| {
        TriggerError::invalid(format!(
            "the value of header `{name}` has characters that a header cannot carry"
        ))
    })
}

fn secret(name: &str, value: &str) -> Result<HeaderValue, TriggerError> {
    let mut value = header_value(name, value)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Reads the body up to the limit, and returns whether there was more.
async fn read(response: Response, limit: u64) -> Result<(Vec<u8>, bool), reqwest::Error> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut body = Vec::new();
    let mut stream = response.bytes_stream();
    while let Some(part) = stream.next().await {
        let part = part?;
        let room = limit - body.len();
        body.extend_from_slice(&part[..part.len().min(room)]);
        if part.len() > room {
            return Ok((body, true));
        }
    }
    Ok((body, false))
}

/// Whether bytes are not UTF-8. A character that was truncated at the end is allowed.
fn is_binary(bytes: &[u8], truncated: bool) -> bool {
    let wrong = std::str::from_utf8(bytes).err();
    wrong.is_some_and(|wrong| !truncated || wrong.error_len().is_some())
}

/// Formats `content-type` as `Content-Type`: the spelling that tests written for other tools compare with.
fn canonical(name: &str) -> String {
    let words = name.split('-').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_uppercase() + rest
    });
    words.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_without_scheme_is_http() {
        assert_eq!(url("shop:8080/x", "url").unwrap().as_str(), "http://shop:8080/x");
        assert_eq!(url(" https://shop ", "url").unwrap().as_str(), "https://shop/");
        assert_eq!(url("http://", "url").unwrap_err().reason, Reason::Invalid);
    }

    #[test]
    fn a_letter_that_was_cut_through_is_text() {
        let text = "größe".as_bytes();
        assert!(!is_binary(text, false) && !is_binary(&text[..3], true));
        assert!(is_binary(&text[..3], false) && is_binary(&[b'a', 0xff, b'b'], true));
    }

    #[test]
    fn header_names_are_shown_as_others_show_them() {
        assert_eq!(canonical("x-request-id"), "X-Request-Id");
        assert_eq!(canonical("etag"), "Etag");
    }
}
