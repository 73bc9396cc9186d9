//! The reader of data stores.

use qualitytrace_config::tree::Node;

use super::{
    DataStore, Sender, Source, aws_xray, azure_app_insights, clickhouse, grpc_client, http_client,
    search_index, signalfx, sumo_logic, tempo,
};
use crate::definition::reader::Reader;
use crate::definition::text::Text;
use crate::lang::Diagnostic;
use crate::lang::diagnostic::nearest;

/// The data stores that have details: `type`, which is also the key of the details, and the name for messages.
const DETAILED: [(&str, &str); 10] = [
    ("jaeger", "Jaeger"),
    ("tempo", "Tempo"),
    ("opensearch", "OpenSearch"),
    ("elasticapm", "ElasticApm"),
    ("signalfx", "SignalFx"),
    ("awsxray", "AWSXRay"),
    ("azureappinsights", "Azure Application Insights"),
    ("sumologic", "Sumo Logic"),
    ("zipkin", "Zipkin"),
    ("clickhouse", "ClickHouse"),
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
        "jaeger" => Source::Jaeger(grpc_client::read(reader, block)?),
        "tempo" => Source::Tempo(tempo::read(reader, block)?),
        "opensearch" => Source::OpenSearch(search_index::read(reader, block)?),
        "elasticapm" => Source::ElasticApm(search_index::read(reader, block)?),
        "signalfx" => Source::SignalFx(signalfx::read(reader, block)?),
        "awsxray" => Source::AwsXray(aws_xray::read(reader, block)?),
        "azureappinsights" => Source::AzureAppInsights(azure_app_insights::read(reader, block)?),
        "zipkin" => Source::Zipkin(http_client::read(reader, block, "`zipkin`")?),
        "clickhouse" => Source::ClickHouse(clickhouse::read(reader, block)?),
        _ => Source::SumoLogic(sumo_logic::read(reader, block)?),
    })
}
