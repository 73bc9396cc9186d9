//! The credentials of a request.

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

use crate::definition::reader::{Fields, Reader};
use crate::definition::shape::{is_blank, texts};
use crate::definition::text::Text;
use crate::lang::Diagnostic;
use crate::lang::diagnostic::nearest;

/// Credentials of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// User and password.
    Basic {
        /// The user name.
        username: Text,
        /// The password.
        password: Text,
    },
    /// A token, sent as the whole `Authorization` header.
    Bearer {
        /// The token.
        token: Text,
    },
    /// A named key.
    ApiKey {
        /// The header or query parameter that carries it.
        key: Text,
        /// The key itself.
        value: Text,
        /// Where it is sent.
        place: ApiKeyLocation,
    },
    /// A token that is fetched first, with client credentials.
    OAuth2(Box<OAuth2>),
}

impl Auth {
    pub(super) fn mapped<E>(&self, text: &mut impl FnMut(&Text) -> Result<Text, E>) -> Result<Self, E> {
        Ok(match self {
            Self::Basic { username, password } => {
                Self::Basic { username: text(username)?, password: text(password)? }
            }
            Self::Bearer { token } => Self::Bearer { token: text(token)? },
            Self::ApiKey { key, value, place } => {
                Self::ApiKey { key: text(key)?, value: text(value)?, place: *place }
            }
            Self::OAuth2(oauth2) => Self::OAuth2(Box::new(OAuth2 {
                token_url: text(&oauth2.token_url)?,
                client_id: text(&oauth2.client_id)?,
                client_secret: text(&oauth2.client_secret)?,
                scopes: oauth2.scopes.iter().map(&mut *text).collect::<Result<_, _>>()?,
                audience: text(&oauth2.audience)?,
                place: oauth2.place,
            })),
        })
    }
}

/// How to fetch a token: the client credentials grant of OAuth 2.0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OAuth2 {
    /// The token endpoint.
    pub token_url: Text,
    /// The client id.
    pub client_id: Text,
    /// The client secret.
    pub client_secret: Text,
    /// The requested scopes.
    pub scopes: Vec<Text>,
    /// The audience of the token; empty means that none is sent.
    pub audience: Text,
    /// Where the client credentials are sent.
    pub place: ClientAuthLocation,
}

/// Where the credentials of an OAuth client are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientAuthLocation {
    /// In the `Authorization` header.
    #[default]
    Header,
    /// In the body.
    Body,
}

/// Where an API key is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ApiKeyLocation {
    /// In a header.
    #[default]
    Header,
    /// In the query of the URL.
    Query,
}

/// The types of credentials, each the name of its block.
const KINDS: [&str; 4] = ["basic", "bearer", "apiKey", "oauth2"];

/// Reads credentials: the block named by `type`. Editors write the other blocks too, empty.
pub(super) fn read(fields: &mut Fields<'_, '_>) -> Option<Auth> {
    let reader = fields.reader;
    let node = fields.get("auth")?;
    let mut fields = reader.fields(node, "`auth`")?;
    let kind = fields.text("type").filter(|kind| !kind.is_empty());
    let blocks = KINDS.map(|kind| fields.get(kind));
    fields.finish();
    let Some(kind) = kind else {
        if let Some(block) = blocks.into_iter().flatten().find(|block| !block.is_empty()) {
            reader.report(
                Diagnostic::warning(
                    "no-auth-type",
                    block.span.clone(),
                    "`auth` has no `type`, so these credentials are not sent",
                )
                .helped("write `type: basic`, `type: bearer`, `type: apiKey` or `type: oauth2`"),
            );
        }
        return None;
    };
    let Some(known) = KINDS.iter().position(|known| *known == kind.value) else {
        let help = match nearest(&kind.value, KINDS) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "use `basic`, `bearer`, `apiKey` or `oauth2`".to_owned(),
        };
        let message = format!("`{}` is not a type of `auth`", kind.value);
        let span = kind.place(0..kind.value.len());
        reader.report(Diagnostic::error("unknown-auth", span, message).helped(help));
        return None;
    };
    let Some(block) = blocks[known] else {
        let message = format!("`auth` is of type `{0}` but has no `{0}`", kind.value);
        reader.error("no-auth-block", node.span.clone(), message);
        return None;
    };
    for (other, block) in KINDS.iter().zip(blocks) {
        if let Some(block) = block.filter(|block| *other != KINDS[known] && !block.is_empty()) {
            let message = format!("`{other}` is not used by `auth` of type `{}`", kind.value);
            reader.report(Diagnostic::warning("unused-block", block.span.clone(), message));
        }
    }
    match KINDS[known] {
        "basic" => {
            let mut fields = reader.fields(block, "basic credentials")?;
            let auth = Auth::Basic {
                username: fields.text("username").unwrap_or_default(),
                password: fields.text("password").unwrap_or_default(),
            };
            fields.finish();
            Some(auth)
        }
        "bearer" => {
            let mut fields = reader.fields(block, "a bearer token")?;
            let token = fields.text("token").unwrap_or_default();
            fields.finish();
            Some(Auth::Bearer { token })
        }
        "oauth2" => oauth2(reader, block),
        _ => api_key(reader, block),
    }
}

fn oauth2(reader: &Reader<'_>, block: &Node) -> Option<Auth> {
    let mut fields = reader.fields(block, "OAuth 2.0 credentials")?;
    let place = fields.text("in").unwrap_or_default();
    let oauth2 = OAuth2 {
        token_url: fields.text("tokenUrl").unwrap_or_default(),
        client_id: fields.text("clientId").unwrap_or_default(),
        client_secret: fields.text("clientSecret").unwrap_or_default(),
        scopes: fields.texts("scopes"),
        audience: fields.text("audience").unwrap_or_default(),
        place: match place.value.as_str() {
            "" | "header" => ClientAuthLocation::Header,
            "body" => ClientAuthLocation::Body,
            other => {
                let message = format!(
                    "the client's credentials go into the `header` or the `body`, not into `{other}`"
                );
                reader.error("unknown-auth", place.place(0..other.len()), message);
                ClientAuthLocation::Header
            }
        },
    };
    fields.finish();
    for (key, text) in [("tokenUrl", &oauth2.token_url), ("clientId", &oauth2.client_id)] {
        if text.is_empty() {
            reader.error("no-auth-block", block.span.clone(), format!("`oauth2` needs a `{key}`"));
        }
    }
    Some(Auth::OAuth2(Box::new(oauth2)))
}

fn api_key(reader: &Reader<'_>, block: &Node) -> Option<Auth> {
    let mut fields = reader.fields(block, "an API key")?;
    let place = fields.text("in").unwrap_or_default();
    let auth = Auth::ApiKey {
        key: fields.text("key").unwrap_or_default(),
        value: fields.text("value").unwrap_or_default(),
        place: match place.value.as_str() {
            "" | "header" => ApiKeyLocation::Header,
            "query" => ApiKeyLocation::Query,
            other => {
                let message = format!("an API key goes into the `header` or the `query`, not into `{other}`");
                reader.error("unknown-auth", place.place(0..other.len()), message);
                ApiKeyLocation::Header
            }
        },
    };
    fields.finish();
    Some(auth)
}

/// Credentials: the block that belongs to the type.
#[derive(Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AuthSpec<'a> {
    /// The kind of credentials; the block of the same name has the details.
    #[serde(rename = "type")]
    kind: &'static str,
    /// A user name and a password.
    #[serde(skip_serializing_if = "is_blank")]
    basic: Option<UserSpec<'a>>,
    /// A token that is sent as it is.
    #[serde(skip_serializing_if = "is_blank")]
    bearer: Option<BearerSpec<'a>>,
    /// A key in a header or in the query.
    #[serde(skip_serializing_if = "is_blank")]
    api_key: Option<ApiKeySpec<'a>>,
    /// Client credentials, for which a token is fetched.
    #[serde(skip_serializing_if = "is_blank")]
    oauth2: Option<OAuth2Spec<'a>>,
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UserSpec<'a> {
    /// The name of the user.
    username: &'a str,
    /// The password; better a variable, as `${var:PASSWORD}`.
    password: &'a str,
}

impl<'a> UserSpec<'a> {
    pub(super) fn of(username: &'a Text, password: &'a Text) -> Self {
        Self { username: &username.value, password: &password.value }
    }
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BearerSpec<'a> {
    /// The whole `Authorization` header, as `Bearer ${var:TOKEN}`.
    token: &'a str,
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ApiKeySpec<'a> {
    /// The name of the header or of the parameter.
    key: &'a str,
    /// The key; better a variable, as `${var:KEY}`.
    value: &'a str,
    /// `header` or `query`.
    r#in: &'static str,
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OAuth2Spec<'a> {
    /// The address that tokens are fetched from.
    token_url: &'a str,
    /// The id of the client.
    client_id: &'a str,
    /// The secret of the client; better a variable, as `${var:SECRET}`.
    client_secret: &'a str,
    /// The scopes to ask for.
    #[serde(skip_serializing_if = "is_blank")]
    scopes: Vec<&'a str>,
    /// The audience to ask for.
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
                Self { kind: "basic", basic: Some(UserSpec::of(username, password)), ..none }
            }
            Auth::Bearer { token } => {
                Self { kind: "bearer", bearer: Some(BearerSpec { token: &token.value }), ..none }
            }
            Auth::ApiKey { key, value, place } => {
                let r#in = match place {
                    ApiKeyLocation::Header => "header",
                    ApiKeyLocation::Query => "query",
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
                        ClientAuthLocation::Header => "",
                        ClientAuthLocation::Body => "body",
                    },
                };
                Self { kind: "oauth2", oauth2: Some(oauth2), ..none }
            }
        }
    }
}
