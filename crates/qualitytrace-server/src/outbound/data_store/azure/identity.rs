//! Tokens of Azure Active Directory (Microsoft Entra ID) for the identity that the server has in its environment.
//!
//! A token is valid for one address only, that of the data store: another address cannot use it elsewhere.

use std::time::Duration;

use reqwest::{Client, RequestBuilder};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::NAME;
use crate::base::decode::{self, Allowance};
use crate::base::files::{self, CREDENTIAL_BYTES};
use crate::outbound::data_store::credentials;
use crate::outbound::data_store::error::FetchError;
use crate::outbound::trigger::{Reason, TriggerError};

/// Who gives tokens, unless the environment names another cloud.
const AUTHORITY: &str = "https://login.microsoftonline.com";
/// Who gives tokens to a virtual machine.
const INSTANCE: &str = "http://169.254.169.254";
/// How long before its end a token is replaced.
const MARGIN: Duration = Duration::from_mins(2);
/// How long a token is kept that does not say when it ends.
const UNTOLD: u64 = 300;

/// The identity of the server.
#[derive(Debug)]
pub(super) struct Identity {
    client: Client,
    audience: String,
    proof: Proof,
    token: Mutex<Option<Token>>,
}

/// What the identity is proved with.
enum Proof {
    /// The secret of an application.
    Secret { url: String, client: String, secret: String },
    /// A file whose content another party has signed: the identity of a Kubernetes workload.
    Workload { url: String, client: String, file: String },
    /// Being on a machine of App Service, or of Azure Functions.
    Service { url: String, header: String, client: String },
    /// Being on a virtual machine.
    Instance { url: String, client: String },
}

// Without the secrets.
impl std::fmt::Debug for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A token, and until when it is used.
struct Token {
    text: String,
    until: Instant,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("until", &self.until).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    /// Seconds, as a number or a text.
    expires_in: Option<Value>,
}

#[derive(Deserialize)]
struct TokenError {
    error: Option<String>,
    error_description: Option<String>,
}

impl Proof {
    /// Chooses the proof in the order of Azure's own libraries.
    fn new(variable: impl Fn(&str) -> Option<String>) -> Self {
        let named = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let client = named("AZURE_CLIENT_ID").unwrap_or_default();
        let authority = named("AZURE_AUTHORITY_HOST").unwrap_or_else(|| AUTHORITY.to_owned());
        let url = named("AZURE_TENANT_ID")
            .filter(|_| !client.is_empty())
            .map(|tenant| format!("{}/{tenant}/oauth2/v2.0/token", authority.trim_end_matches('/')));
        match (url, named("AZURE_CLIENT_SECRET"), named("AZURE_FEDERATED_TOKEN_FILE")) {
            (Some(url), Some(secret), _) => Self::Secret { url, client, secret },
            (Some(url), None, Some(file)) => Self::Workload { url, client, file },
            _ => match (named("IDENTITY_ENDPOINT"), named("IDENTITY_HEADER")) {
                (Some(url), Some(header)) => Self::Service { url, header, client },
                _ => {
                    let host = named("AZURE_POD_IDENTITY_AUTHORITY_HOST");
                    let host = host.unwrap_or_else(|| INSTANCE.to_owned());
                    let url = format!("{}/metadata/identity/oauth2/token", host.trim_end_matches('/'));
                    Self::Instance { url, client }
                }
            },
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Secret { .. } => "the application of AZURE_CLIENT_ID",
            Self::Workload { .. } => "the workload of AZURE_FEDERATED_TOKEN_FILE",
            Self::Service { .. } => "the managed identity of IDENTITY_ENDPOINT",
            Self::Instance { .. } => "the managed identity of the machine",
        }
    }
}

impl Identity {
    /// Takes the identity from the environment. `audience` is the address that its tokens are for.
    pub(super) fn new(audience: String) -> Result<Self, TriggerError> {
        let proof = Proof::new(|name| std::env::var(name).ok());
        Ok(Self { client: credentials::client()?, audience, proof, token: Mutex::default() })
    }

    /// Returns a token; a kept one as long as it is valid.
    pub(super) async fn token(&self) -> Result<String, FetchError> {
        let mut kept = self.token.lock().await;
        if let Some(token) = kept.as_ref().filter(|token| token.until > Instant::now()) {
            return Ok(token.text.clone());
        }
        let granted = self.ask().await?;
        let seconds = granted.expires_in.and_then(|time| match time {
            Value::String(text) => text.trim().parse().ok(),
            other => other.as_u64(),
        });
        let lifetime = Duration::from_secs(seconds.unwrap_or(UNTOLD));
        let until = Instant::now() + lifetime.saturating_sub(MARGIN).max(lifetime / 2);
        *kept = Some(Token { text: granted.access_token.clone(), until });
        Ok(granted.access_token)
    }

    async fn ask(&self) -> Result<Granted, FetchError> {
        let response = self.request().await?.send().await.map_err(|error| {
            let cause = if error.is_timeout() { "no answer in time" } else { "no connection" };
            self.refused(&format!("{cause} at {}", error.url().map(ToString::to_string).unwrap_or_default()))
        })?;
        let status = response.status();
        let body = credentials::read(response).await.map_err(|cause| self.refused(&cause))?;
        if status.is_success() {
            let granted = decode::json_within(&body, Allowance::SMALL);
            return granted.map_err(|error| self.refused(&error.to_string()));
        }
        let told = decode::json_within::<TokenError>(&body, Allowance::SMALL).ok();
        let told = told.and_then(|told| told.error_description.or(told.error)).unwrap_or_default();
        let cause = format!("{status} {}", told.lines().next().unwrap_or_default());
        if status.is_server_error() || status == http::StatusCode::TOO_MANY_REQUESTS {
            let message = format!("Azure Active Directory cannot answer: {}", cause.trim());
            return Err(FetchError::passing(TriggerError::told(Reason::Timeout, message)));
        }
        Err(self.refused(cause.trim()))
    }

    async fn request(&self) -> Result<RequestBuilder, FetchError> {
        let resource = ("resource", self.audience.as_str());
        let scope = format!("{}/.default", self.audience);
        let login = |url: &str, client: &str, proof: &[(&str, &str)]| {
            let mut form =
                vec![("grant_type", "client_credentials"), ("client_id", client), ("scope", &scope)];
            form.extend(proof);
            self.client.post(url).form(&form)
        };
        let local = |url: &str, version: &str, client: &str| {
            let request = self.client.get(url).query(&[("api-version", version), resource]);
            if client.is_empty() { request } else { request.query(&[("client_id", client)]) }
        };
        Ok(match &self.proof {
            Proof::Secret { url, client, secret } => login(url, client, &[("client_secret", secret)]),
            Proof::Workload { url, client, file } => {
                let signed = files::read_aside(file.into(), CREDENTIAL_BYTES).await;
                let signed = signed.map_err(|error| self.refused(&format!("`{file}`: {error}")))?;
                let signed = String::from_utf8_lossy(&signed);
                let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
                login(url, client, &[("client_assertion_type", kind), ("client_assertion", signed.trim())])
            }
            Proof::Service { url, header, client } => {
                local(url, "2019-08-01", client).header("X-IDENTITY-HEADER", header)
            }
            Proof::Instance { url, client } => local(url, "2018-02-01", client).header("Metadata", "true"),
        })
    }

    fn refused(&self, cause: &str) -> FetchError {
        let message = format!(
            "Azure Active Directory gives the server no token for {NAME}, as {}: {cause}; set AZURE_TENANT_ID, \
             AZURE_CLIENT_ID and AZURE_CLIENT_SECRET for the server, or give its machine a managed identity",
            self.proof.name()
        );
        TriggerError::told(Reason::Credentials, message).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(variables: &[(&str, &str)], expected: &str) {
        let found = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        assert_eq!(Proof::new(found).name(), expected, "{variables:?}");
    }

    #[test]
    fn the_proof_is_chosen_as_azures_libraries_do() {
        let application = [("AZURE_TENANT_ID", "t"), ("AZURE_CLIENT_ID", "c")];
        check(&application, "the managed identity of the machine");
        let secret = [&application[..], &[("AZURE_CLIENT_SECRET", "s")]].concat();
        check(&secret, "the application of AZURE_CLIENT_ID");
        let file = [("AZURE_FEDERATED_TOKEN_FILE", "/f")];
        check(&[&secret[..], &file].concat(), "the application of AZURE_CLIENT_ID");
        check(&[&application[..], &file].concat(), "the workload of AZURE_FEDERATED_TOKEN_FILE");
        let service =
            [("IDENTITY_ENDPOINT", "http://i"), ("IDENTITY_HEADER", "h"), ("AZURE_CLIENT_SECRET", "s")];
        check(&service, "the managed identity of IDENTITY_ENDPOINT");
    }
}
