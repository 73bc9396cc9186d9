//! The reader of data stores.

use qualitytrace_config::tree::Node;

use super::{
    AwsXray, AzureAppInsights, DataStore, GrpcClient, HttpClient, SearchIndex, Sender, SignalFx, Source,
    SumoLogic, Tempo, Tls, TlsSettings,
};
use crate::definition::reader::{Fields, Reader};
use crate::definition::text::Text;
use crate::lang::Diagnostic;
use crate::lang::diagnostic::nearest;

/// The data stores that have details: `type`, which is also the key of the details, and the name for messages.
const DETAILED: [(&str, &str); 8] = [
    ("jaeger", "Jaeger"),
    ("tempo", "Tempo"),
    ("opensearch", "OpenSearch"),
    ("elasticapm", "ElasticApm"),
    ("signalfx", "SignalFx"),
    ("awsxray", "AWSXRay"),
    ("azureappinsights", "Azure Application Insights"),
    ("sumologic", "Sumo Logic"),
];

pub(in crate::definition) fn read(reader: &Reader<'_>, node: &Node) -> Option<DataStore> {
    let mut fields = reader.fields(node, "a data store")?;
    fields.text("id");
    fields.flag("default");
    fields.unused("isdefault", "`isdefault` has no effect", "leave it out: a server has one data store");
    let kind = fields.text("type").filter(|kind| !kind.is_empty());
    if kind.is_none() {
        reader.error("no-type", node.span.clone(), "data store should have a type");
    }
    let name = fields.required_name("data store should have a name");
    let created_at = fields.text("createdAt").filter(|time| !time.is_empty());
    let blocks = DETAILED.map(|(kind, _)| (kind, fields.get(kind)));
    fields.finish();

    if let Some(time) = &created_at
        && time.value.parse::<jiff::Timestamp>().is_err()
    {
        let message = "data store should have the createdAt field in a valid format";
        let wrong = Diagnostic::error("wrong-time", time.place(0..time.value.len()), message);
        reader.report(wrong.helped("write a time as RFC 3339 has it, such as `2026-01-31T12:00:00Z`"));
    }
    let source = source(reader, node, &kind?, &blocks)?;
    Some(DataStore { name, created_at: created_at.map(|time| time.value), source })
}

fn source(reader: &Reader<'_>, node: &Node, kind: &Text, blocks: &[(&str, Option<&Node>)]) -> Option<Source> {
    for (other, block) in blocks {
        if let Some(block) = block.filter(|block| *other != kind.value && !block.is_empty()) {
            let message = format!("`{other}` is not used by a data store of type `{}`", kind.value);
            reader.report(Diagnostic::warning("unused-block", block.span.clone(), message));
        }
    }
    if let Some(sender) = Sender::ALL.into_iter().find(|sender| sender.as_str() == kind.value) {
        return Some(Source::Received(sender));
    }
    let Some((_, title)) = DETAILED.iter().find(|(known, _)| *known == kind.value) else {
        unsupported(reader, kind);
        return None;
    };
    let Some(block) = blocks.iter().find(|(of, _)| *of == kind.value).and_then(|(_, block)| *block) else {
        let message = format!("data store should have {title} config values set up");
        let diagnostic = Diagnostic::error("no-details", node.span.clone(), message);
        reader.report(diagnostic.helped(format!("put its details under `{}:`", kind.value)));
        return None;
    };
    details(reader, &kind.value, unwrapped(reader, &kind.value, block))
}

fn unsupported(reader: &Reader<'_>, kind: &Text) {
    let known: Vec<&str> =
        DETAILED.iter().map(|(kind, _)| *kind).chain(Sender::ALL.into_iter().map(Sender::as_str)).collect();
    let message = format!("unsupported data store type {}", kind.value);
    let mut diagnostic = Diagnostic::error("unknown-source", kind.place(0..kind.value.len()), message);
    diagnostic = match nearest(&kind.value, known.iter().copied()) {
        Some(near) => diagnostic.helped(format!("did you mean `{near}`?")),
        None => diagnostic.helped(format!("use one of {}", known.join(", "))),
    };
    reader.report(diagnostic);
}

/// Old installers wrote the details one level too deep: `jaeger: {type: jaeger, jaeger: {...}}`.
fn unwrapped<'n>(reader: &Reader<'_>, kind: &str, block: &'n Node) -> &'n Node {
    let Some(inner) = block.get(kind) else {
        return block;
    };
    let message = format!("`{kind}` is nested inside `{kind}`; its details are read from there");
    reader.report(Diagnostic::warning("nested-block", inner.span.clone(), message));
    inner
}

fn details(reader: &Reader<'_>, kind: &str, block: &Node) -> Option<Source> {
    Some(match kind {
        "jaeger" => Source::Jaeger(grpc(reader, block)?),
        "tempo" => Source::Tempo(tempo(reader, block)?),
        "opensearch" => Source::OpenSearch(search_index(reader, block)?),
        "elasticapm" => Source::ElasticApm(search_index(reader, block)?),
        "signalfx" => {
            let mut fields = reader.fields(block, "`signalfx`")?;
            let source = SignalFx {
                realm: fields.string("realm").unwrap_or_default(),
                token: fields.string("token").unwrap_or_default(),
            };
            fields.finish();
            Source::SignalFx(source)
        }
        "awsxray" => {
            let mut fields = reader.fields(block, "`awsxray`")?;
            let source = AwsXray {
                region: fields.string("region").unwrap_or_default(),
                access_key_id: fields.string("accessKeyId").unwrap_or_default(),
                secret_access_key: fields.string("secretAccessKey").unwrap_or_default(),
                session_token: fields.string("sessionToken").unwrap_or_default(),
                use_default_auth: fields.flag("useDefaultAuth").unwrap_or_default(),
            };
            fields.finish();
            Source::AwsXray(source)
        }
        "azureappinsights" => Source::AzureAppInsights(azure(reader, block)?),
        _ => {
            let mut fields = reader.fields(block, "`sumologic`")?;
            let source = SumoLogic {
                url: fields.string("url").unwrap_or_default(),
                access_id: fields.string("accessID").unwrap_or_default(),
                access_key: fields.string("accessKey").unwrap_or_default(),
            };
            fields.finish();
            Source::SumoLogic(source)
        }
    })
}

fn azure(reader: &Reader<'_>, block: &Node) -> Option<AzureAppInsights> {
    let mut fields = reader.fields(block, "`azureappinsights`")?;
    let connection = fields.text("connectionType").unwrap_or_default();
    if !matches!(connection.value.as_str(), "" | "direct" | "collector") {
        let message =
            format!("a connection is `direct` or through a `collector`, not `{}`", connection.value);
        reader.error("wrong-value", connection.place(0..connection.value.len()), message);
    }
    let source = AzureAppInsights {
        use_azure_active_directory_auth: fields.flag("useAzureActiveDirectoryAuth").unwrap_or_default(),
        access_token: fields.string("accessToken").unwrap_or_default(),
        resource_arm_id: fields.string("resourceArmId").unwrap_or_default(),
        connection_type: connection.value,
    };
    fields.finish();
    Some(source)
}

fn grpc(reader: &Reader<'_>, block: &Node) -> Option<GrpcClient> {
    let mut fields = reader.fields(block, "gRPC settings")?;
    let client = grpc_fields(&mut fields);
    fields.finish();
    Some(client)
}

fn grpc_fields(fields: &mut Fields<'_, '_>) -> GrpcClient {
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
        tls: tls(fields),
    }
}

fn tls(fields: &mut Fields<'_, '_>) -> Option<Tls> {
    let reader = fields.reader;
    let mut fields = reader.fields(fields.get("tls")?, "`tls`")?;
    let tls = Tls {
        insecure: fields.flag("insecure").unwrap_or_default(),
        insecure_skip_verify: fields.flag("insecureSkipVerify").unwrap_or_default(),
        server_name: fields.string("serverName").unwrap_or_default(),
        settings: fields.get("settings").and_then(|node| {
            let mut fields = reader.fields(node, "`tls.settings`")?;
            let settings = TlsSettings {
                ca_file: fields.string("cAFile").unwrap_or_default(),
                cert_file: fields.string("certFile").unwrap_or_default(),
                key_file: fields.string("keyFile").unwrap_or_default(),
                min_version: fields.string("minVersion").unwrap_or_default(),
                max_version: fields.string("maxVersion").unwrap_or_default(),
            };
            fields.finish();
            Some(settings)
        }),
    };
    fields.finish();
    Some(tls)
}

/// Reads `tempo`: `type: grpc` or `type: http`; old files leave the type out, and the oldest have the gRPC
/// settings at the top level.
fn tempo(reader: &Reader<'_>, block: &Node) -> Option<Tempo> {
    let mut fields = reader.fields(block, "`tempo`")?;
    let kind = fields.text("type").unwrap_or_default();
    let (grpc_block, http_block) = (fields.get("grpc"), fields.get("http"));
    if fields.has("endpoint") {
        let client = grpc_fields(&mut fields);
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
            Some(block) => grpc(reader, block).map(Tempo::Grpc),
            None => missing(reader, &kind),
        },
        ("http", _, block) | ("", None, block @ Some(_)) => match block {
            Some(block) => {
                let mut fields = reader.fields(block, "`tempo.http`")?;
                let client = HttpClient {
                    url: fields.string("url").unwrap_or_default(),
                    headers: fields.pairs("headers"),
                    tls: tls(&mut fields),
                };
                fields.finish();
                Some(Tempo::Http(client))
            }
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

fn search_index(reader: &Reader<'_>, block: &Node) -> Option<SearchIndex> {
    let mut fields = reader.fields(block, "a search index")?;
    let index = SearchIndex {
        addresses: fields
            .get("addresses")
            .is_some()
            .then(|| fields.texts("addresses").into_iter().map(|text| text.value).collect()),
        username: fields.string("username").unwrap_or_default(),
        password: fields.string("password").unwrap_or_default(),
        index: fields.string("index").unwrap_or_default(),
        certificate: fields.string("certificate").unwrap_or_default(),
        insecure_skip_verify: fields.flag("insecureSkipVerify").unwrap_or_default(),
    };
    fields.finish();
    Some(index)
}
