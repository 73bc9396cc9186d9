//! Grafana Tempo.

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

use super::grpc_client::{self, GrpcClient, GrpcClientSpec};
use super::tls::{self, ClientTlsSpec, Tls};
use crate::definition::reader::Reader;
use crate::definition::shape::{Pairs, is_blank};
use crate::definition::text::Text;
use crate::lang::Diagnostic;

/// Grafana Tempo, by protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tempo {
    /// Over gRPC.
    Grpc(GrpcClient),
    /// Over HTTP.
    Http(HttpClient),
    /// Not configured: it cannot be queried.
    Unset,
}

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

/// Reads `tempo`: `type: grpc` or `type: http`; old files leave the type out, and the oldest have the gRPC
/// settings at the top level.
pub(super) fn read(reader: &Reader<'_>, block: &Node) -> Option<Tempo> {
    let mut fields = reader.fields(block, "`tempo`")?;
    let kind = fields.text("type").unwrap_or_default();
    let (grpc_block, http_block) = (fields.get("grpc"), fields.get("http"));
    if fields.has("endpoint") {
        let client = grpc_client::read_fields(&mut fields);
        fields.finish();
        let message = "`tempo` has gRPC settings outside `grpc`; they are taken as such";
        let help = "put them under `grpc:` and write `type: grpc`";
        reader.report(Diagnostic::warning("old-layout", block.span.clone(), message).helped(help));
        return Some(Tempo::Grpc(client));
    }
    fields.finish();
    for (other, block) in [("grpc", grpc_block), ("http", http_block)] {
        let is_unused = ["grpc", "http"].contains(&kind.value.as_str()) && kind.value != other;
        if let Some(block) = block.filter(|block| is_unused && !block.is_empty()) {
            let message = format!("`{other}` is not used by `tempo` of type `{}`", kind.value);
            reader.report(Diagnostic::warning("unused-block", block.span.clone(), message));
        }
    }
    match (kind.value.as_str(), grpc_block, http_block) {
        ("grpc", block, _) | ("", block @ Some(_), None) => match block {
            Some(block) => grpc_client::read(reader, block).map(Tempo::Grpc),
            None => missing(reader, &kind),
        },
        ("http", _, block) | ("", None, block @ Some(_)) => match block {
            Some(block) => http(reader, block).map(Tempo::Http),
            None => missing(reader, &kind),
        },
        ("", _, _) => {
            let message = "`tempo` does not say how it is asked, so no trace is found";
            let help = "write `type: grpc` or `type: http`, with a block of that name";
            reader.report(Diagnostic::warning("no-type", block.span.clone(), message).helped(help));
            Some(Tempo::Unset)
        }
        (other, _, _) => {
            let message = format!("Tempo is asked over `grpc` or `http`, not over `{other}`");
            reader.error("wrong-value", kind.place(0..other.len()), message);
            None
        }
    }
}

fn http(reader: &Reader<'_>, block: &Node) -> Option<HttpClient> {
    let mut fields = reader.fields(block, "`tempo.http`")?;
    let client = HttpClient {
        url: fields.string("url").unwrap_or_default(),
        headers: fields.pairs("headers"),
        tls: tls::read(&mut fields),
    };
    fields.finish();
    Some(client)
}

fn missing(reader: &Reader<'_>, kind: &Text) -> Option<Tempo> {
    let span = kind.place(0..kind.value.len());
    let message = format!("`tempo` is of type `{0}` but has no `{0}`", kind.value);
    reader.report(Diagnostic::error("no-details", span, message));
    None
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TempoSpec<'a> {
    /// `grpc` or `http`.
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "is_blank")]
    grpc: Option<GrpcClientSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    http: Option<HttpClientSpec<'a>>,
}

impl<'a> TempoSpec<'a> {
    pub(super) fn of(tempo: &'a Tempo) -> Self {
        match tempo {
            Tempo::Grpc(client) => Self { kind: "grpc", grpc: Some(GrpcClientSpec::of(client)), http: None },
            Tempo::Http(client) => Self { kind: "http", grpc: None, http: Some(HttpClientSpec::of(client)) },
            Tempo::Unset => Self { kind: "", grpc: None, http: None },
        }
    }
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HttpClientSpec<'a> {
    #[serde(skip_serializing_if = "is_blank")]
    url: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    headers: Pairs<'a>,
    #[serde(skip_serializing_if = "is_blank")]
    tls: Option<ClientTlsSpec<'a>>,
}

impl<'a> HttpClientSpec<'a> {
    fn of(client: &'a HttpClient) -> Self {
        Self {
            url: &client.url,
            headers: Pairs::of(&client.headers).sorted(),
            tls: client.tls.as_ref().map(ClientTlsSpec::of),
        }
    }
}
