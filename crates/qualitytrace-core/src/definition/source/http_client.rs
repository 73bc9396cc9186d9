//! Connections to HTTP servers: Tempo over HTTP, and Zipkin.

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

use super::tls::{self, ClientTlsSpec, Tls};
use crate::definition::reader::Reader;
use crate::definition::shape::{Pairs, is_blank};
use crate::definition::text::Text;

/// The connection to an HTTP server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HttpClient {
    /// Its address.
    pub url: String,
    /// Headers for every request.
    pub headers: Vec<(String, Text)>,
    /// The TLS settings.
    pub tls: Option<Tls>,
}

/// Reads the settings; `title` names them in messages.
pub(super) fn read(reader: &Reader<'_>, block: &Node, title: &'static str) -> Option<HttpClient> {
    let mut fields = reader.fields(block, title)?;
    let client = HttpClient {
        url: fields.string("url").unwrap_or_default(),
        headers: fields.pairs("headers"),
        tls: tls::read(&mut fields),
    };
    fields.finish();
    Some(client)
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HttpClientSpec<'a> {
    /// The address of its API.
    #[serde(skip_serializing_if = "is_blank")]
    url: &'a str,
    /// Headers that are sent with each request.
    #[serde(skip_serializing_if = "is_blank")]
    headers: Pairs<'a>,
    /// How the connection is encrypted.
    #[serde(skip_serializing_if = "is_blank")]
    tls: Option<ClientTlsSpec<'a>>,
}

impl<'a> HttpClientSpec<'a> {
    pub(super) fn of(client: &'a HttpClient) -> Self {
        Self {
            url: &client.url,
            headers: Pairs::of(&client.headers).sorted(),
            tls: client.tls.as_ref().map(ClientTlsSpec::of),
        }
    }
}
