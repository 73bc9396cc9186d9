//! OAuth 2.0 tokens by the client credentials grant, cached until shortly before they expire.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use qualitytrace_core::definition::trigger::{ClientAuthLocation, OAuth2};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use reqwest::{RequestBuilder, Url};
use serde::Deserialize;

use super::super::failure::{Endpoint, Reason, Role, TriggerError};
use super::super::progress;
use super::clients::{self, Clients, Settings};
use crate::base::decode::{self, Allowance};

/// How long before its expiry a token is no longer used.
const MARGIN: Duration = Duration::from_secs(30);
/// The lifetime of a token whose server does not say.
const USUAL_LIFE: Duration = Duration::from_mins(5);
/// Capacity of the cache of tokens.
const MAX_TOKENS: usize = 256;
/// The largest response of a token endpoint.
const MAX_ANSWER: u64 = 1 << 20;

/// The cached tokens.
#[derive(Debug, Clone, Default)]
pub(super) struct Tokens(Arc<Mutex<HashMap<[String; 5], Slot>>>);

/// One token. Concurrent callers wait for the same fetch.
type Slot = Arc<tokio::sync::Mutex<Option<Token>>>;

#[derive(Debug)]
struct Token {
    text: String,
    until: Instant,
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    expires_in: Option<u64>,
}

#[derive(Deserialize)]
struct TokenError {
    error: String,
    #[serde(default)]
    error_description: String,
}

impl Tokens {
    /// Returns a valid token; fetches one if needed.
    pub(super) async fn get(
        &self,
        oauth2: &OAuth2,
        clients: &Clients,
        settings: &Settings,
    ) -> Result<String, TriggerError> {
        let endpoint = endpoint(&super::url(&oauth2.token_url.value, "tokenUrl")?);
        // Recorded before the lock: another caller may be fetching the token.
        progress::asks(&endpoint, None);
        let slot = self.slot(oauth2);
        let mut slot = slot.lock().await;
        if let Some(token) = slot.as_ref().filter(|token| Instant::now() < token.until) {
            return Ok(token.text.clone());
        }
        let asked = Instant::now();
        let granted = fetch(oauth2, clients, settings, &endpoint).await?;
        let life = granted.expires_in.map_or(USUAL_LIFE, Duration::from_secs).saturating_sub(MARGIN);
        let until = asked.checked_add(life).unwrap_or(asked);
        *slot = Some(Token { text: granted.access_token.clone(), until });
        Ok(granted.access_token)
    }

    /// Removes a token, so that the next caller fetches a new one.
    pub(super) fn forget(&self, oauth2: &OAuth2) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key(oauth2));
    }

    fn slot(&self, oauth2: &OAuth2) -> Slot {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= MAX_TOKENS {
            slots.clear();
        }
        Arc::clone(slots.entry(key(oauth2)).or_default())
    }
}

fn key(oauth2: &OAuth2) -> [String; 5] {
    let OAuth2 { token_url, client_id, client_secret, audience, .. } = oauth2;
    [token_url, client_id, client_secret, audience]
        .map(|text| text.value.clone())
        .into_iter()
        .chain([scope(oauth2)])
        .collect::<Vec<_>>()
        .try_into()
        .unwrap_or_default()
}

fn scope(oauth2: &OAuth2) -> String {
    oauth2.scopes.iter().map(|scope| scope.value.as_str()).collect::<Vec<_>>().join(" ")
}

fn endpoint(url: &Url) -> Endpoint {
    Endpoint { role: Role::TokenServer, ..super::endpoint(url, "the trigger's `tokenUrl`") }
}

/// Fetches a token. The trace context is not propagated: fetching tokens is not part of the test.
async fn fetch(
    oauth2: &OAuth2,
    clients: &Clients,
    settings: &Settings,
    endpoint: &Endpoint,
) -> Result<Granted, TriggerError> {
    let url = super::url(&oauth2.token_url.value, "tokenUrl")?;
    let settings = Settings {
        version: None,
        proxy: match &settings.proxy {
            clients::ProxyMode::Through(proxy) => clients::ProxyMode::Through(proxy.clone()),
            clients::ProxyMode::Environment | clients::ProxyMode::Direct => clients::proxy("", &url)?,
        },
        certificates: settings.certificates.clone(),
    };
    clients.admit(&url, &settings).await?;
    let request = request(oauth2, clients.of(&settings)?.post(url.clone()))?;
    let failed = |error: reqwest::Error| super::failure(&error, endpoint, &url, &settings);
    progress::asks(endpoint, settings.proxy.serving(&url));
    let response = request.send().await;
    let response = response.map_err(|error| super::unanswered(&error, endpoint, &url, &settings))?;
    progress::answers();
    let status = response.status();
    let (body, _) = super::read(response, MAX_ANSWER).await.map_err(failed)?;
    if status.is_success() {
        return decode::json_within(&body, Allowance::SMALL)
            .map_err(|error| odd(endpoint, &format!("it is no token: {error}")));
    }
    match decode::json_within::<TokenError>(&body, Allowance::SMALL) {
        Ok(TokenError { error, error_description }) => {
            let cause = format!("{error} {error_description}");
            Err(TriggerError::at(endpoint, Reason::Credentials, cause.trim()))
        }
        Err(_) if status.is_client_error() => {
            Err(TriggerError::at(endpoint, Reason::Credentials, &status.to_string()))
        }
        Err(_) => Err(odd(endpoint, &format!("its status is {status}"))),
    }
}

fn request(oauth2: &OAuth2, request: RequestBuilder) -> Result<RequestBuilder, TriggerError> {
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "client_credentials");
    for (name, value) in [("scope", scope(oauth2)), ("audience", oauth2.audience.value.clone())] {
        if !value.is_empty() {
            form.append_pair(name, &value);
        }
    }
    let mut request = request.header(ACCEPT, "application/json");
    match oauth2.place {
        ClientAuthLocation::Header => {
            let encoded =
                |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
            let login =
                super::basic(&encoded(&oauth2.client_id.value), &encoded(&oauth2.client_secret.value));
            request = request.header(AUTHORIZATION, super::secret("authorization", &login)?);
        }
        ClientAuthLocation::Body => {
            form.append_pair("client_id", &oauth2.client_id.value);
            form.append_pair("client_secret", &oauth2.client_secret.value);
        }
    }
    Ok(request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form.finish()))
}

fn odd(endpoint: &Endpoint, cause: &str) -> TriggerError {
    let message =
        format!("the answer of {} cannot be used: {cause}; check the trigger's `tokenUrl`", endpoint.named());
    TriggerError::told(Reason::Protocol, message)
}
