//! The reader of credentials.

use qualitytrace_config::tree::Node;

use super::super::{ApiKeyPlace, Auth, ClientPlace, OAuth2};
use crate::definition::reader::{Fields, Reader};
use crate::lang::Diagnostic;
use crate::lang::diagnostic::nearest;

/// The types of credentials, each the name of its block.
const KINDS: [&str; 4] = ["basic", "bearer", "apiKey", "oauth2"];

/// Reads credentials: the block named by `type`. Editors write the other blocks too, empty.
pub(super) fn auth(fields: &mut Fields<'_, '_>) -> Option<Auth> {
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
            "" | "header" => ClientPlace::Header,
            "body" => ClientPlace::Body,
            other => {
                let message = format!(
                    "the client's credentials go into the `header` or the `body`, not into `{other}`"
                );
                reader.error("unknown-auth", place.place(0..other.len()), message);
                ClientPlace::Header
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
            "" | "header" => ApiKeyPlace::Header,
            "query" => ApiKeyPlace::Query,
            other => {
                let message = format!("an API key goes into the `header` or the `query`, not into `{other}`");
                reader.error("unknown-auth", place.place(0..other.len()), message);
                ApiKeyPlace::Header
            }
        },
    };
    fields.finish();
    Some(auth)
}
