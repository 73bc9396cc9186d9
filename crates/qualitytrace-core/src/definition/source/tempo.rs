//! Grafana Tempo.

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

use super::grpc_client::{self, GrpcClient, GrpcClientSpec};
use super::http_client::{self, HttpClient, HttpClientSpec};
use crate::definition::reader::Reader;
use crate::definition::shape::is_blank;
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
            Some(block) => http_client::read(reader, block, "`tempo.http`").map(Tempo::Http),
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
    /// The connection over gRPC.
    #[serde(skip_serializing_if = "is_blank")]
    grpc: Option<GrpcClientSpec<'a>>,
    /// The connection over HTTP.
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
