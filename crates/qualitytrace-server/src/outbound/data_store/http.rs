//! The HTTP client of a data store: one for each store, reused, behind the same gate as triggers.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use http::StatusCode;
use qualitytrace_core::definition::Text;
use qualitytrace_core::definition::source::Tls;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Url};
use serde::de::DeserializeOwned;
use url::Host;

use super::answers::{Answers, short_of_memory};
use super::error::FetchError;
use super::tls;
use crate::base::budget::Lease;
use crate::base::decode::{self, DecodeError, decoded};
use crate::outbound::trigger::{Certificates, Endpoint, Gate, Reason, Resolver, Role, TriggerError};

/// How long a connection may take.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long an answer may take, or a message of it. A trace may have many.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Who asks.
pub(super) const USER_AGENT: &str = concat!("qualitytrace/", env!("CARGO_PKG_VERSION"));
/// Pages of one trace. A store that has no last page is asked no further.
pub(super) const MAX_PAGES: usize = 2_000;
/// Characters of an error's body that are shown.
const SHOWN: usize = 200;
/// The longest wait that a store may ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_mins(1);

/// What an HTTP client is made of.
#[derive(Debug)]
pub(super) struct Settings<'a> {
    /// The name of the store, for messages.
    pub(super) name: &'static str,
    /// Its address.
    pub(super) url: &'a str,
    /// What holds the address, for messages.
    pub(super) setting: &'static str,
    /// Headers for every request.
    pub(super) headers: &'a [(String, Text)],
    /// Which certificates are trusted.
    pub(super) certificates: Certificates,
}

/// The client of one store.
#[derive(Debug)]
pub(super) struct Http {
    client: Client,
    base: Url,
    headers: HeaderMap,
    endpoint: Endpoint,
    answers: Answers,
}

/// An answer whose status is no error, or 404.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) content_type: String,
    pub(super) body: Bytes,
    /// The memory of the body.
    lease: Lease,
}

impl Answer {
    /// Whether the store does not have what was asked for.
    pub(super) fn is_missing(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }
}

impl Http {
    /// Creates the client.
    pub(super) fn new(settings: &Settings<'_>, gate: &Gate, answers: &Answers) -> Result<Self, TriggerError> {
        let Settings { name, setting, certificates, .. } = settings;
        let mut base = parse(settings.url, name, setting)?;
        let endpoint = endpoint(&base, settings.name, settings.setting);
        // A literal address does not pass the resolver.
        gate.host(&endpoint.host)?;
        let instead = match certificates.server_name.as_str() {
            "" => None,
            server_name => {
                gate.host(server_name)?;
                base.set_host(Some(server_name)).map_err(|_| {
                    TriggerError::invalid(format!(
                        "`{server_name}`, the `serverName` of {name}, is no host name"
                    ))
                })?;
                elsewhere(&base, &endpoint, server_name)?
            }
        };
        let tls = certificates
            .client_config(&[b"h2", b"http/1.1"])
            .map_err(|error| TriggerError::invalid(format!("the TLS settings of {name}: {error}")))?;
        let client = Resolver { gate: gate.clone(), instead }
            .client()
            .user_agent(USER_AGENT)
            .referer(false)
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .tls_backend_preconfigured(tls)
            .redirect(Policy::none())
            .build()
            .map_err(|error| TriggerError::invalid(format!("no client can be made for {name}: {error}")))?;
        Ok(Self { client, base, headers: header_map(settings.headers)?, endpoint, answers: answers.clone() })
    }

    /// The peer, for messages.
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the address of a path below the store's own.
    pub(super) fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        let whole = format!("{}/{}", url.path().trim_end_matches('/'), path.trim_start_matches('/'));
        url.set_path(&whole);
        url
    }

    /// Asks for a path.
    pub(super) async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Answer, FetchError> {
        self.send(self.client.get(self.queried(path, query))).await
    }

    /// Returns a request to be completed and sent.
    pub(super) fn request(&self, method: reqwest::Method, path: &str) -> RequestBuilder {
        self.client.request(method, self.url(path))
    }

    fn queried(&self, path: &str, query: &[(&str, &str)]) -> Url {
        let mut url = self.url(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    /// Sends a request with the headers of the store and reads the answer.
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<Answer, FetchError> {
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, self.receive(request)).await;
        answer.unwrap_or_else(|_| Err(unanswered(&self.endpoint)))
    }

    async fn receive(&self, request: RequestBuilder) -> Result<Answer, FetchError> {
        let failed = |error: reqwest::Error| self.failure(&error);
        let response = request.headers(self.headers.clone()).send().await.map_err(failed)?;
        let status = response.status();
        let header = |name: HeaderName| {
            let value = response.headers().get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let (content_type, retry_after) = (header(CONTENT_TYPE), seconds(&header(RETRY_AFTER)));
        let (mut body, mut lease) = (BytesMut::new(), self.lease()?);
        let mut stream = response.bytes_stream();
        while let Some(data) = stream.next().await {
            let data = data.map_err(failed)?;
            if (body.len() + data.len()) as u64 > self.answers.limit {
                let cause = "raise `limits.decompressedBytes`";
                return Err(TriggerError::at(&self.endpoint, Reason::TooLarge, cause).into());
            }
            body.extend_from_slice(&data);
            let grown = (body.capacity() as u64).saturating_sub(lease.bytes());
            lease.grow(grown).map_err(|short| self.undecoded(short.into()))?;
        }
        if status.is_success() || status == StatusCode::NOT_FOUND {
            return Ok(Answer { status, content_type, body: body.freeze(), lease });
        }
        Err(self.refused(status, &body, retry_after))
    }

    /// Returns memory for what is decoded: nothing yet.
    pub(super) fn lease(&self) -> Result<Lease, FetchError> {
        self.answers.lease(&self.endpoint)
    }

    /// Decodes an answer. What it becomes takes memory of the lease that is returned.
    pub(super) async fn decode<T: Send + 'static>(
        &self,
        answer: Answer,
        decode: impl FnOnce(Bytes, &mut Lease) -> Result<T, DecodeError> + Send + 'static,
    ) -> Result<(T, Lease), FetchError> {
        let decoded = decoded(answer.body, answer.lease, decode).await;
        decoded.map_err(|error| self.undecoded(error))
    }

    /// Decodes an answer in JSON.
    pub(super) async fn json<T: DeserializeOwned + Send + 'static>(
        &self,
        answer: Answer,
    ) -> Result<(T, Lease), FetchError> {
        self.decode(answer, |body, lease| decode::json(&body, lease)).await
    }

    /// Describes an answer that was not decoded.
    pub(super) fn undecoded(&self, error: DecodeError) -> FetchError {
        match error {
            DecodeError::Malformed(cause) => self.foreign(&cause),
            DecodeError::TooLarge { .. } | DecodeError::Busy => short_of_memory(&self.endpoint, error),
        }
    }

    /// Describes an answer that is an error.
    pub(super) fn refused(
        &self,
        status: StatusCode,
        body: &[u8],
        retry_after: Option<Duration>,
    ) -> FetchError {
        let told: String = String::from_utf8_lossy(body).chars().take(SHOWN).collect();
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        let cause = if told.is_empty() { status.to_string() } else { format!("{status}: {told}") };
        let at = |reason| TriggerError::at(&self.endpoint, reason, &cause);
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => at(Reason::Credentials).into(),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
                let failure = TriggerError::told(
                    Reason::Timeout,
                    format!("{} is busy: {cause}", self.endpoint.named()),
                );
                FetchError { retry_after, ..FetchError::passing(failure) }
            }
            status if status.is_server_error() => {
                let message = format!("{} cannot answer: {cause}", self.endpoint.named());
                FetchError {
                    retry_after,
                    ..FetchError::passing(TriggerError::told(Reason::Timeout, message))
                }
            }
            status if status.is_redirection() => {
                at(Reason::Protocol).and("; write the address that it redirects to").into()
            }
            _ => at(Reason::Missing).into(),
        }
    }

    /// Describes an answer that comes from something else than the store.
    pub(super) fn foreign(&self, cause: &str) -> FetchError {
        let path = self.base.path();
        let message = format!(
            "{} does not answer as {} does: {cause}; check {}, its path `{path}` included",
            self.endpoint,
            self.name(),
            self.endpoint.setting
        );
        TriggerError::told(Reason::Missing, message).into()
    }

    /// Describes a trace of which the store has, or returns, a part: it is not judged as if it were the whole.
    pub(super) fn partial(&self, cause: &str) -> FetchError {
        TriggerError::at(&self.endpoint, Reason::TooLarge, cause).into()
    }

    /// Describes a part of a trace that the store lists and does not have yet: a later answer may have it.
    pub(super) fn pending(&self, part: &str) -> FetchError {
        let message = format!("{} lists {part} of the trace, and does not have it", self.endpoint.named());
        FetchError::passing(TriggerError::told(Reason::Timeout, message))
    }

    /// Describes a trace whose pages do not end.
    pub(super) fn endless(&self) -> FetchError {
        self.partial(&format!("{MAX_PAGES} pages of one trace and no end"))
    }

    fn name(&self) -> &'static str {
        match self.endpoint.role {
            Role::DataStore(name) => name,
            Role::System | Role::TokenServer | Role::Proxy => "the data store",
        }
    }

    fn failure(&self, error: &reqwest::Error) -> FetchError {
        let failure = TriggerError::of_request(error, &self.endpoint);
        let is_plain = self.base.scheme() == "http";
        match failure.reason {
            Reason::Cut | Reason::Protocol if is_plain => {
                failure.and("; if it speaks TLS, write `https://` in the address").into()
            }
            Reason::Timeout if error.is_connect() => {
                let cause = "no connection came about in time";
                TriggerError::at(&self.endpoint, Reason::Unreachable, cause).into()
            }
            _ => failure.into(),
        }
    }
}

/// Describes a request that is not answered.
pub(super) fn unanswered(endpoint: &Endpoint) -> FetchError {
    let message = format!("{} did not answer within {} s", endpoint.named(), ANSWER_TIMEOUT.as_secs());
    FetchError::passing(TriggerError::told(Reason::Timeout, message))
}

/// Returns what is looked up instead of the name of the certificate, which `base` has for its host. An address there
/// would be connected to, past the resolver.
fn elsewhere(base: &Url, endpoint: &Endpoint, server_name: &str) -> Result<Option<String>, TriggerError> {
    match base.host() {
        _ if base.host_str() == Some(endpoint.host.as_str()) => Ok(None),
        Some(Host::Domain(_)) => Ok(Some(endpoint.host.clone())),
        Some(Host::Ipv4(_) | Host::Ipv6(_)) | None => Err(TriggerError::invalid(format!(
            "`{server_name}`, the data store's `tls.serverName`, is an address; write the name that is in the certificate, or \
             make the address {}",
            endpoint.setting
        ))),
    }
}

/// Parses the address of a store.
fn parse(url: &str, name: &str, setting: &str) -> Result<Url, TriggerError> {
    let text = url.trim();
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let parsed = Url::parse(&with_scheme).ok().filter(|url| ["http", "https"].contains(&url.scheme()));
    let parsed = parsed.filter(|url| url.host_str().is_some_and(|host| !host.is_empty()));
    parsed.ok_or_else(|| {
        TriggerError::invalid(format!("{setting} of {name} is no address; write it as http://HOST:PORT"))
    })
}

/// Returns the peer of an address.
fn endpoint(url: &Url, name: &'static str, setting: &'static str) -> Endpoint {
    let host = url.host_str().unwrap_or_default().to_owned();
    Endpoint { role: Role::DataStore(name), host, port: url.port_or_known_default(), setting }
}

/// Returns headers as users write them. Files of Tracetest's page have empty ones.
fn header_map(headers: &[(String, Text)]) -> Result<HeaderMap, TriggerError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers.iter().filter(|(name, _)| !name.trim().is_empty()) {
        let wrong = || TriggerError::invalid(format!("the header `{name}` of the data store cannot be sent"));
        let key = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(value.value.trim()).map_err(|_| wrong())?;
        value.set_sensitive(true);
        map.append(key, value);
    }
    Ok(map)
}

/// Returns the certificates of the TLS settings.
pub(super) fn certificates(tls: Option<&Tls>, gate: &Gate) -> Result<Certificates, TriggerError> {
    // `insecure` means that certificates are not verified where the address decides about TLS.
    let is_open = tls.is_some_and(|tls| tls.insecure || tls.insecure_skip_verify);
    tls::certificates(tls, gate.verifies(!is_open))
}

/// Reads `Retry-After` in seconds; a date is ignored.
fn seconds(text: &str) -> Option<Duration> {
    text.trim().parse().ok().map(|seconds| Duration::from_secs(seconds).min(MAX_RETRY_AFTER))
}
