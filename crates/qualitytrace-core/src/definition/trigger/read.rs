//! The reader of triggers, in the current layout and the two before it.

mod auth;
mod http;
mod tls;

use std::ops::Range;

use qualitytrace_config::tree::{Node, Shape};

use super::{
    Command, Exec, Graphql, Grpc, Header, Integration, Kafka, Mechanism, PlaywrightEngine, Sasl, TraceId,
    Trigger,
};
use crate::definition::reader::{Fields, Reader};
use crate::definition::settings::period;
use crate::lang::Diagnostic;
use crate::lang::diagnostic::nearest;
use auth::auth;
use tls::{Bare, security};

/// The triggers that have a block of details.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Http,
    Grpc,
    Kafka,
    TraceId,
    Graphql,
    Exec,
    PlaywrightEngine,
}

impl Block {
    const ALL: [Self; 7] = [
        Self::Http,
        Self::Grpc,
        Self::Kafka,
        Self::TraceId,
        Self::Graphql,
        Self::Exec,
        Self::PlaywrightEngine,
    ];

    /// Returns the trigger's `type`.
    const fn kind(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::Kafka => "kafka",
            Self::TraceId => "traceid",
            Self::Graphql => "graphql",
            Self::Exec => "exec",
            Self::PlaywrightEngine => "playwrightengine",
        }
    }

    /// Returns the keys under which its details have been written, the current one first.
    const fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Http => &["httpRequest", "http", "HTTP"],
            Self::Grpc => &["grpc", "GRPC"],
            Self::Kafka => &["kafka"],
            Self::TraceId => &["traceid", "TraceID"],
            Self::Graphql => &["graphql"],
            Self::Exec => &["exec", "shell"],
            Self::PlaywrightEngine => &["playwrightEngine", "playwrightengine"],
        }
    }

    fn read(self, reader: &Reader<'_>, node: &Node) -> Option<Trigger> {
        match self {
            Self::Http => http::read(reader, node).map(Trigger::Http),
            Self::Grpc => grpc(reader, node).map(Trigger::Grpc),
            Self::Kafka => kafka(reader, node).map(Trigger::Kafka),
            Self::TraceId => trace_id(reader, node).map(Trigger::TraceId),
            Self::Graphql => graphql(reader, node).map(Trigger::Graphql),
            Self::Exec => exec(reader, node).map(Trigger::Exec),
            Self::PlaywrightEngine => playwright(reader, node).map(Trigger::PlaywrightEngine),
        }
    }
}

pub(in crate::definition) fn read(reader: &Reader<'_>, node: &Node) -> Option<Trigger> {
    if let Shape::Scalar(scalar) = &node.shape {
        let message = "`trigger` takes a mapping, but this is a text";
        let help = format!("write `type: {}` under `trigger:`, and its details beside it", scalar.text);
        reader.report(Diagnostic::error("wrong-type", node.span.clone(), message).helped(help));
        return None;
    }
    let mut fields = reader.fields(node, "a trigger")?;
    let written = ["type", "triggerType", "Type"]
        .into_iter()
        .filter_map(|key| fields.text(key))
        .reduce(|first, next| if first.is_empty() { next } else { first })
        .filter(|text| !text.is_empty());
    let blocks: Vec<(Block, &str, &Node)> = Block::ALL
        .iter()
        .flat_map(|block| block.keys().iter().map(|key| (*block, *key)))
        .filter_map(|(block, key)| fields.get(key).map(|node| (block, key, node)))
        .collect();
    fields.finish();

    let kind = match &written {
        Some(text) => match text.value.to_lowercase().as_str() {
            "shell" => "exec".to_owned(),
            kind => kind.to_owned(),
        },
        // An exported test without a trigger has an empty type and no block.
        None => inferred(reader, &blocks)?.to_owned(),
    };
    for (block, key, node) in &blocks {
        if block.kind() != kind && !node.is_empty() {
            let message = format!("`{key}` is not used by a trigger of type `{kind}`");
            reader.report(Diagnostic::warning("unused-block", node.span.clone(), message));
        }
    }
    if let Some(tool) = Integration::ALL.into_iter().find(|tool| tool.as_str() == kind) {
        return Some(Trigger::Integration(tool));
    }
    let Some(block) = Block::ALL.into_iter().find(|block| block.kind() == kind) else {
        let span = written.map_or(node.span.clone(), |text| text.place(0..text.value.len()));
        unknown(reader, span, &kind);
        return None;
    };
    let Some((_, _, details)) = blocks.iter().find(|(of, _, _)| *of == block) else {
        let key = block.keys()[0];
        reader.report(
            Diagnostic::warning(
                "no-trigger-block",
                node.span.clone(),
                format!("the trigger is of type `{kind}` but has no `{key}`, so the test cannot run"),
            )
            .helped(format!("put its details under `{key}:`")),
        );
        return None;
    };
    block.read(reader, details)
}

/// Infers the type of a trigger without one from its block.
fn inferred(reader: &Reader<'_>, blocks: &[(Block, &str, &Node)]) -> Option<&'static str> {
    let (block, key, node) = blocks.iter().find(|(_, _, node)| !node.is_empty())?;
    let kind = block.kind();
    reader.report(
        Diagnostic::warning(
            "no-trigger-type",
            node.span.clone(),
            format!("the trigger has no `type`; it is taken as `{kind}` because of `{key}`"),
        )
        .helped(format!("write `type: {kind}`")),
    );
    Some(kind)
}

fn unknown(reader: &Reader<'_>, span: Range<usize>, kind: &str) {
    let mut known: Vec<&str> = Block::ALL.iter().map(|block| block.kind()).collect();
    known.extend(Integration::ALL.iter().map(|tool| tool.as_str()));
    let help = match nearest(kind, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("use one of {}", known.join(", ")),
    };
    reader.report(
        Diagnostic::error("unknown-trigger", span, format!("`{kind}` is not a type of trigger")).helped(help),
    );
}

fn grpc(reader: &Reader<'_>, block: &Node) -> Option<Grpc> {
    let mut fields = reader.fields(block, "a gRPC trigger")?;
    let (tls, ssl_verification) = security(&mut fields, Bare::Allowed);
    let grpc = Grpc {
        protobuf_file: fields.text("protobufFile").unwrap_or_default(),
        imports: fields.pairs("imports"),
        descriptor_set: fields.text("descriptorSet").unwrap_or_default(),
        address: fields.text("address").unwrap_or_default(),
        service: fields.text("service").unwrap_or_default(),
        method: fields.text("method").unwrap_or_default(),
        request: fields.text("request").unwrap_or_default(),
        metadata: headers(&mut fields, "metadata"),
        auth: auth(&mut fields),
        tls,
        ssl_verification,
        timeout: period(&mut fields, "timeout"),
    };
    fields.finish();
    Some(grpc)
}

fn kafka(reader: &Reader<'_>, block: &Node) -> Option<Kafka> {
    let mut fields = reader.fields(block, "a Kafka trigger")?;
    // Stored tests of Tracetest have the misspelt key.
    let authentication = ["authentication", "authetication"]
        .into_iter()
        .filter_map(|key| fields.get(key))
        .find_map(|node| sasl(reader, node));
    let (tls, ssl_verification) = security(&mut fields, Bare::Allowed);
    let kafka = Kafka {
        broker_urls: fields.texts("brokerUrls"),
        topic: fields.text("topic").unwrap_or_default(),
        headers: headers(&mut fields, "headers"),
        message_key: fields.text("messageKey").unwrap_or_default(),
        message_value: fields.text("messageValue").unwrap_or_default(),
        authentication,
        tls,
        ssl_verification,
        timeout: period(&mut fields, "timeout"),
    };
    fields.finish();
    Some(kafka)
}

/// Reads the credentials for a broker: the block named by `type`.
fn sasl(reader: &Reader<'_>, node: &Node) -> Option<Sasl> {
    let mut fields = reader.fields(node, "Kafka credentials")?;
    let kind = fields.text("type").filter(|kind| !kind.is_empty());
    let blocks = Mechanism::ALL.map(|mechanism| (mechanism, fields.get(mechanism.as_str())));
    fields.finish();
    let mechanism = match &kind {
        None => Mechanism::Plain,
        Some(kind) => match Mechanism::ALL.into_iter().find(|known| known.as_str() == kind.value) {
            Some(known) => known,
            None => {
                let words = Mechanism::ALL.map(Mechanism::as_str);
                let message = format!("`{}` is not a way to log in to Kafka", kind.value);
                let help = match nearest(&kind.value, words) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("use `{}`", words.join("`, `")),
                };
                let span = kind.place(0..kind.value.len());
                reader.report(Diagnostic::error("unknown-auth", span, message).helped(help));
                return None;
            }
        },
    };
    let (_, block) = blocks.into_iter().find(|(known, _)| *known == mechanism)?;
    let Some(block) = block else {
        // Exports have the type alone.
        if mechanism != Mechanism::Plain {
            let word = mechanism.as_str();
            let message = format!("`authentication` is of type `{word}` but has no `{word}`");
            reader.error("no-auth-block", node.span.clone(), message);
        }
        return None;
    };
    let mut fields = reader.fields(block, "Kafka credentials")?;
    let sasl = Sasl {
        mechanism,
        username: fields.text("username").unwrap_or_default(),
        password: fields.text("password").unwrap_or_default(),
    };
    fields.finish();
    (!sasl.username.is_empty() || !sasl.password.is_empty()).then_some(sasl)
}

fn trace_id(reader: &Reader<'_>, block: &Node) -> Option<TraceId> {
    let mut fields = reader.fields(block, "a trace id trigger")?;
    let id = fields.text("id").unwrap_or_default();
    fields.finish();
    Some(TraceId { id })
}

fn graphql(reader: &Reader<'_>, block: &Node) -> Option<Graphql> {
    let mut fields = reader.fields(block, "a GraphQL trigger")?;
    let (tls, ssl_verification) = security(&mut fields, Bare::Meaningless);
    let mut graphql = Graphql {
        url: fields.text("url").unwrap_or_default(),
        headers: headers(&mut fields, "headers"),
        auth: auth(&mut fields),
        tls,
        ssl_verification,
        proxy: fields.text("proxy").unwrap_or_default(),
        timeout: period(&mut fields, "timeout"),
        schema: fields.text("schema").unwrap_or_default(),
        introspection: fields.flag("introspection").unwrap_or_default(),
        ..Graphql::default()
    };
    if let Some(mut body) = fields.get("body").and_then(|body| reader.fields(body, "a GraphQL body")) {
        graphql.query = body.text("query").unwrap_or_default();
        graphql.variables = body.pairs("variables");
        graphql.operation_name = body.text("operationName").unwrap_or_default();
        body.finish();
    }
    fields.finish();
    Some(graphql)
}

fn exec(reader: &Reader<'_>, block: &Node) -> Option<Exec> {
    let mut fields = reader.fields(block, "a command trigger")?;
    let command = match fields.get("command").map(|node| (node, &node.shape)) {
        None => Command::default(),
        Some((_, Shape::List(_))) => Command::Words(fields.texts("command")),
        Some((node, Shape::Scalar(_) | Shape::Map(_) | Shape::Null)) => {
            Command::Line(reader.text(node, "`command`").unwrap_or_default())
        }
    };
    let exec = Exec {
        command,
        env: fields.pairs("env"),
        working_directory: fields.text("workingDirectory").unwrap_or_default(),
        timeout: period(&mut fields, "timeout"),
    };
    fields.finish();
    Some(exec)
}

fn playwright(reader: &Reader<'_>, block: &Node) -> Option<PlaywrightEngine> {
    let mut fields = reader.fields(block, "a Playwright trigger")?;
    let engine = PlaywrightEngine {
        target: fields.text("target").unwrap_or_default(),
        script: fields.text("script").unwrap_or_default(),
        method: fields.text("method").unwrap_or_default(),
    };
    fields.finish();
    Some(engine)
}

fn headers(fields: &mut Fields<'_, '_>, key: &'static str) -> Vec<Header> {
    let reader = fields.reader;
    if let Some(node) = fields.get(key)
        && let Shape::Map(entries) = &node.shape
    {
        let message = format!("`{key}` takes a list, but this is a mapping");
        // Values may be secrets: the message contains only the name.
        let name = entries.first().map_or("NAME", |first| &first.key);
        let help = format!("write each of them as `- {{ key: {name}, value: ... }}`");
        reader.report(Diagnostic::error("wrong-type", node.span.clone(), message).helped(help));
        return Vec::new();
    }
    fields
        .items(key)
        .iter()
        .filter_map(|node| {
            let mut fields = reader.fields(node, "a header")?;
            let header = Header {
                key: fields.text("key").unwrap_or_default(),
                value: fields.text("value").unwrap_or_default(),
            };
            fields.finish();
            Some(header)
        })
        .collect()
}
