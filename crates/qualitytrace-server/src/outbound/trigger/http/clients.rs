//! HTTP clients for the settings of triggers. Each distinct client is cached, with its connections.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use hyper_util::client::proxy::matcher::Matcher;
use qualitytrace_core::definition::trigger::HttpVersion;
use reqwest::redirect::Policy;
use reqwest::{Client, Proxy, Url};
use tower::util::MapFutureLayer;

use super::super::connect::{Certificates, Gate, Resolver};
use super::super::failure::{Endpoint, Role, TriggerError, root_cause};
use super::super::progress;

/// The default user agent.
const USER_AGENT: &str = concat!("qualitytrace/", env!("CARGO_PKG_VERSION"));
/// Capacity of the cache of clients.
const MAX_CLIENTS: usize = 64;

/// The settings that distinguish clients.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Settings {
    pub(super) certificates: Certificates,
    pub(super) version: Option<HttpVersion>,
    pub(super) proxy: ProxyMode,
}

/// The proxy of requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) enum ProxyMode {
    /// From the environment: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`.
    #[default]
    Environment,
    /// No proxy.
    Direct,
    /// This proxy.
    Through(Url),
}

impl ProxyMode {
    /// Returns the proxy for a request to this URL, if any.
    pub(super) fn serving(&self, url: &Url) -> Option<Endpoint> {
        static ENVIRONMENT: LazyLock<Matcher> = LazyLock::new(Matcher::from_env);
        match self {
            Self::Direct => None,
            Self::Through(proxy) => {
                Some(Endpoint { role: Role::Proxy, ..super::endpoint(proxy, "the trigger's proxy") })
            }
            Self::Environment => {
                let uri = url.as_str().parse().ok()?;
                let proxy = ENVIRONMENT.intercept(&uri)?.uri().clone();
                let host = proxy.host()?.to_owned();
                let setting = "the proxy variables in the server's environment";
                Some(Endpoint { role: Role::Proxy, host, port: proxy.port_u16(), setting })
            }
        }
    }
}

/// Parses the `proxy` of a trigger.
pub(super) fn proxy(written: &str, url: &Url) -> Result<ProxyMode, TriggerError> {
    match written.trim() {
        // The proxy of the environment is for other machines: loopback addresses are reached directly, as in other
        // clients.
        "" if is_loopback(url) => Ok(ProxyMode::Direct),
        "" => Ok(ProxyMode::Environment),
        "none" => Ok(ProxyMode::Direct),
        text => super::url(text, "proxy").map(ProxyMode::Through),
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// The cached clients.
#[derive(Debug, Clone)]
pub(super) struct Clients {
    made: Arc<Mutex<HashMap<Settings, Client>>>,
    gate: Gate,
}

impl Clients {
    pub(super) fn new(gate: Gate) -> Self {
        Self { made: Arc::default(), gate }
    }

    /// Refuses an address that is not allowed and that our resolver does not see: a literal one, also of the proxy, or
    /// one that a proxy resolves.
    pub(super) async fn admit(&self, url: &Url, settings: &Settings) -> Result<(), TriggerError> {
        let endpoint = super::endpoint(url, super::URL);
        match settings.proxy.serving(url) {
            None => self.gate.host(&endpoint.host),
            Some(proxy) => {
                self.gate.host(&proxy.host)?;
                self.gate.host_elsewhere(&endpoint).await
            }
        }
    }

    /// Returns the client for these settings.
    pub(super) fn of(&self, settings: &Settings) -> Result<Client, TriggerError> {
        let mut clients = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(settings) {
            return Ok(client.clone());
        }
        let client = build(settings, &self.gate)?;
        if clients.len() >= MAX_CLIENTS {
            clients.clear();
        }
        clients.insert(settings.clone(), client.clone());
        Ok(client)
    }
}

fn build(settings: &Settings, gate: &Gate) -> Result<Client, TriggerError> {
    let alpn: &[&[u8]] = match settings.version {
        None => &[b"h2", b"http/1.1"],
        Some(HttpVersion::One) => &[b"http/1.1"],
        Some(HttpVersion::Two) => &[b"h2"],
    };
    let mut builder = Client::builder()
        .connector_layer(MapFutureLayer::new(progress::connecting))
        .user_agent(USER_AGENT)
        .referer(false)
        .dns_resolver(Resolver { gate: gate.clone(), instead: None })
        .tls_backend_preconfigured(settings.certificates.client(alpn)?)
        .redirect(Policy::none());
    builder = match settings.version {
        None => builder,
        Some(HttpVersion::One) => builder.http1_only(),
        Some(HttpVersion::Two) => builder.http2_prior_knowledge(),
    };
    let failed = |error: reqwest::Error| {
        TriggerError::invalid(format!("a client cannot be made from the trigger: {}", root_cause(&error)))
    };
    builder = match &settings.proxy {
        ProxyMode::Environment => builder,
        ProxyMode::Direct => builder.no_proxy(),
        ProxyMode::Through(proxy) => builder.proxy(Proxy::all(proxy.clone()).map_err(failed)?),
    };
    builder.build().map_err(failed)
}
