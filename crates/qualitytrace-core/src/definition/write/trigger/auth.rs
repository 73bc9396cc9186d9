//! JSON shapes of credentials and certificates.

use schemars::JsonSchema;
use serde::Serialize;

use super::super::{is_blank, texts};
use crate::definition::trigger::{ApiKeyPlace, Auth, ClientPlace, Mechanism, Sasl, Tls};

/// Credentials: the block that belongs to the type.
#[derive(Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AuthSpec<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "is_blank")]
    basic: Option<UserSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    bearer: Option<BearerSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    api_key: Option<ApiKeySpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    oauth2: Option<OAuth2Spec<'a>>,
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BearerSpec<'a> {
    token: &'a str,
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ApiKeySpec<'a> {
    key: &'a str,
    value: &'a str,
    /// `header` or `query`.
    r#in: &'static str,
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OAuth2Spec<'a> {
    token_url: &'a str,
    client_id: &'a str,
    client_secret: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    scopes: Vec<&'a str>,
    #[serde(skip_serializing_if = "is_blank")]
    audience: &'a str,
    /// `body`, or nothing for the header.
    #[serde(skip_serializing_if = "is_blank")]
    r#in: &'static str,
}

impl<'a> AuthSpec<'a> {
    pub(super) fn of(auth: &'a Auth) -> Self {
        let none = Self::default();
        match auth {
            Auth::Basic { username, password } => {
                let basic = UserSpec { username: &username.value, password: &password.value };
                Self { kind: "basic", basic: Some(basic), ..none }
            }
            Auth::Bearer { token } => {
                Self { kind: "bearer", bearer: Some(BearerSpec { token: &token.value }), ..none }
            }
            Auth::ApiKey { key, value, place } => {
                let r#in = match place {
                    ApiKeyPlace::Header => "header",
                    ApiKeyPlace::Query => "query",
                };
                let api_key = ApiKeySpec { key: &key.value, value: &value.value, r#in };
                Self { kind: "apiKey", api_key: Some(api_key), ..none }
            }
            Auth::OAuth2(oauth2) => {
                let oauth2 = OAuth2Spec {
                    token_url: &oauth2.token_url.value,
                    client_id: &oauth2.client_id.value,
                    client_secret: &oauth2.client_secret.value,
                    scopes: texts(&oauth2.scopes),
                    audience: &oauth2.audience.value,
                    r#in: match oauth2.place {
                        ClientPlace::Header => "",
                        ClientPlace::Body => "body",
                    },
                };
                Self { kind: "oauth2", oauth2: Some(oauth2), ..none }
            }
        }
    }
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SaslSpec<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "is_blank")]
    plain: Option<UserSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    scram_sha256: Option<UserSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    scram_sha512: Option<UserSpec<'a>>,
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UserSpec<'a> {
    username: &'a str,
    password: &'a str,
}

impl<'a> SaslSpec<'a> {
    pub(super) fn of(sasl: &'a Sasl) -> Self {
        let user = |mechanism: Mechanism| {
            (sasl.mechanism == mechanism)
                .then(|| UserSpec { username: &sasl.username.value, password: &sasl.password.value })
        };
        Self {
            kind: sasl.mechanism.as_str(),
            plain: user(Mechanism::Plain),
            scram_sha256: user(Mechanism::ScramSha256),
            scram_sha512: user(Mechanism::ScramSha512),
        }
    }
}

/// Certificates, or `true` when there are none.
#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum TlsSpec<'a> {
    Plain(bool),
    Certificates {
        #[serde(skip_serializing_if = "is_blank")]
        ca: &'a str,
        #[serde(skip_serializing_if = "is_blank")]
        certificate: &'a str,
        #[serde(skip_serializing_if = "is_blank")]
        key: &'a str,
    },
}

impl<'a> TlsSpec<'a> {
    pub(super) fn of(tls: &'a Tls) -> Self {
        if *tls == Tls::default() {
            return Self::Plain(true);
        }
        Self::Certificates { ca: &tls.ca.value, certificate: &tls.certificate.value, key: &tls.key.value }
    }
}
