//! Connections to gRPC servers: Jaeger, and Tempo over gRPC.

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

use super::tls::{self, ClientTlsSpec, Tls};
use crate::definition::reader::{Fields, Reader};
use crate::definition::shape::{Pairs, is_blank};
use crate::definition::text::Text;
use crate::lang::Diagnostic;

/// The connection to a gRPC server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GrpcClient {
    /// Host and port.
    pub endpoint: String,
    /// Bytes of the read buffer; 0 means the default.
    pub read_buffer_size: i64,
    /// Bytes of the write buffer; 0 means the default.
    pub write_buffer_size: i64,
    /// Whether calls wait until a lost connection is restored.
    pub wait_for_ready: bool,
    /// Metadata for every call.
    pub headers: Vec<(String, Text)>,
    /// Kept for old files.
    pub balancer_name: String,
    /// The compression of calls; empty means none.
    pub compression: String,
    /// The TLS settings.
    pub tls: Option<Tls>,
}

pub(super) fn read(reader: &Reader<'_>, block: &Node) -> Option<GrpcClient> {
    let mut fields = reader.fields(block, "gRPC settings")?;
    let client = read_fields(&mut fields);
    fields.finish();
    Some(client)
}

/// Reads the settings from the fields of a mapping, which may have others too.
pub(super) fn read_fields(fields: &mut Fields<'_, '_>) -> GrpcClient {
    let compression = fields.text("compression").unwrap_or_default();
    let known = ["gzip", "zlib", "deflate", "snappy", "zstd", "none"];
    if !compression.is_empty() && !known.contains(&compression.value.as_str()) {
        let span = compression.place(0..compression.value.len());
        let message = format!("`{}` is not a way to compress", compression.value);
        let diagnostic = Diagnostic::error("wrong-value", span, message);
        fields.reader.report(diagnostic.helped(format!("use one of {}", known.join(", "))));
    }
    GrpcClient {
        endpoint: fields.string("endpoint").unwrap_or_default(),
        read_buffer_size: fields.int("readBufferSize").unwrap_or_default(),
        write_buffer_size: fields.int("writeBufferSize").unwrap_or_default(),
        wait_for_ready: fields.flag("waitForReady").unwrap_or_default(),
        headers: fields.pairs("headers"),
        balancer_name: fields.string("balancerName").unwrap_or_default(),
        compression: compression.value,
        tls: tls::read(fields),
    }
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct GrpcClientSpec<'a> {
    /// Host and port.
    #[serde(skip_serializing_if = "is_blank")]
    endpoint: &'a str,
    /// Has no effect; it is read for files of Tracetest.
    #[serde(skip_serializing_if = "is_blank")]
    read_buffer_size: i64,
    /// Has no effect; it is read for files of Tracetest.
    #[serde(skip_serializing_if = "is_blank")]
    write_buffer_size: i64,
    /// Has no effect; it is read for files of Tracetest.
    #[serde(skip_serializing_if = "is_blank")]
    wait_for_ready: bool,
    /// Metadata that is sent with each request.
    #[serde(skip_serializing_if = "is_blank")]
    headers: Pairs<'a>,
    /// Has no effect; it is read for files of Tracetest.
    #[serde(skip_serializing_if = "is_blank")]
    balancer_name: &'a str,
    /// The compression of requests: `gzip`, `zstd` or `none`.
    #[serde(skip_serializing_if = "is_blank")]
    compression: &'a str,
    /// How the connection is encrypted.
    #[serde(skip_serializing_if = "is_blank")]
    tls: Option<ClientTlsSpec<'a>>,
}

impl<'a> GrpcClientSpec<'a> {
    pub(super) fn of(client: &'a GrpcClient) -> Self {
        Self {
            endpoint: &client.endpoint,
            read_buffer_size: client.read_buffer_size,
            write_buffer_size: client.write_buffer_size,
            wait_for_ready: client.wait_for_ready,
            headers: Pairs::of(&client.headers).sorted(),
            balancer_name: &client.balancer_name,
            compression: &client.compression,
            tls: client.tls.as_ref().map(ClientTlsSpec::of),
        }
    }
}
