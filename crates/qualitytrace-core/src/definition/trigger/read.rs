//! Reading a trigger, in today's layout and the two before it.

use std::ops::Range;

use super::{
    ApiKeyPlace, Auth, Command, Exec, Graphql, Grpc, Header, Http, Integration, Kafka, Plain,
    PlaywrightEngine, TraceId, Trigger,
};
use crate::definition::node::{Node, Shape};
use crate::definition::reader::{Fields, Reader};
use crate::definition::settings::period;
use crate::lang::Diagnostic;
use crate::lang::diagnostic::nearest;

/// The triggers that have details of their own.
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

    /// The trigger's `type`.
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

    /// The keys under which its details have been written, today's first.
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
            Self::Http => http(reader, node).map(Trigger::Http),
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
        // An export of a test without a trigger has an empty type and no block.
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

/// The type of a trigger that does not say, by the block that it has.
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

fn http(reader: &Reader<'_>, block: &Node) -> Option<Http> {
    let mut fields = reader.fields(block, "an HTTP trigger")?;
    let http = Http {
        url: fields.text("url").unwrap_or_default(),
        method: fields.text("method").unwrap_or_default(),
        headers: headers(&mut fields, "headers"),
        body: fields.text("body").unwrap_or_default(),
        auth: auth(&mut fields),
        ssl_verification: fields.flag("sslVerification").unwrap_or_default(),
        timeout: period(&mut fields, "timeout"),
    };
    if let Some(entry) = fields.entry("authentication") {
        reader.report(
            Diagnostic::warning(
                "unused-key",
                entry.key_span.clone(),
                "`authentication` has no effect on an HTTP trigger",
            )
            .helped("write `auth:`"),
        );
    }
    fields.finish();
    Some(http)
}

fn grpc(reader: &Reader<'_>, block: &Node) -> Option<Grpc> {
    let mut fields = reader.fields(block, "a gRPC trigger")?;
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
        tls: fields.flag("tls").unwrap_or_default(),
        ssl_verification: fields.flag("sslVerification").unwrap_or_default(),
        timeout: period(&mut fields, "timeout"),
    };
    fields.finish();
    Some(grpc)
}

fn kafka(reader: &Reader<'_>, block: &Node) -> Option<Kafka> {
    let mut fields = reader.fields(block, "a Kafka trigger")?;
    // Stored tests of the original carry the misspelt key.
    let authentication = ["authentication", "authetication"]
        .into_iter()
        .filter_map(|key| fields.get(key))
        .find_map(|node| plain(reader, node));
    let kafka = Kafka {
        broker_urls: fields.texts("brokerUrls"),
        topic: fields.text("topic").unwrap_or_default(),
        headers: headers(&mut fields, "headers"),
        message_key: fields.text("messageKey").unwrap_or_default(),
        message_value: fields.text("messageValue").unwrap_or_default(),
        authentication,
        ssl_verification: fields.flag("sslVerification").unwrap_or_default(),
    };
    fields.finish();
    Some(kafka)
}

fn plain(reader: &Reader<'_>, node: &Node) -> Option<Plain> {
    let mut fields = reader.fields(node, "Kafka credentials")?;
    let kind = fields.text("type").filter(|kind| !kind.is_empty());
    let block = fields.get("plain");
    fields.finish();
    if let Some(kind) = kind.filter(|kind| kind.value != "plain") {
        reader.error(
            "unknown-auth",
            kind.place(0..kind.value.len()),
            format!("`{}` is not a way to log in to Kafka: use `plain`", kind.value),
        );
        return None;
    }
    let mut fields = reader.fields(block?, "Kafka credentials")?;
    let plain = Plain {
        username: fields.text("username").unwrap_or_default(),
        password: fields.text("password").unwrap_or_default(),
    };
    fields.finish();
    (!plain.username.is_empty() || !plain.password.is_empty()).then_some(plain)
}

fn trace_id(reader: &Reader<'_>, block: &Node) -> Option<TraceId> {
    let mut fields = reader.fields(block, "a trace id trigger")?;
    let id = fields.text("id").unwrap_or_default();
    fields.finish();
    Some(TraceId { id })
}

fn graphql(reader: &Reader<'_>, block: &Node) -> Option<Graphql> {
    let mut fields = reader.fields(block, "a GraphQL trigger")?;
    let mut graphql = Graphql {
        url: fields.text("url").unwrap_or_default(),
        headers: headers(&mut fields, "headers"),
        auth: auth(&mut fields),
        ssl_verification: fields.flag("sslVerification").unwrap_or_default(),
        schema: fields.text("schema").unwrap_or_default(),
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

/// Credentials: the block that `type` names. Editors write the other blocks too, empty.
fn auth(fields: &mut Fields<'_, '_>) -> Option<Auth> {
    let reader = fields.reader;
    let node = fields.get("auth")?;
    let mut fields = reader.fields(node, "`auth`")?;
    let kind = fields.text("type").filter(|kind| !kind.is_empty());
    let blocks = [fields.get("basic"), fields.get("bearer"), fields.get("apiKey")];
    fields.finish();
    let Some(kind) = kind else {
        if let Some(block) = blocks.into_iter().flatten().find(|block| !block.is_empty()) {
            reader.report(
                Diagnostic::warning(
                    "no-auth-type",
                    block.span.clone(),
                    "`auth` has no `type`, so these credentials are not sent",
                )
                .helped("write `type: basic`, `type: bearer` or `type: apiKey`"),
            );
        }
        return None;
    };
    let [basic, bearer, api_key] = blocks;
    match (kind.value.as_str(), basic, bearer, api_key) {
        ("basic", Some(block), _, _) => {
            let mut fields = reader.fields(block, "basic credentials")?;
            let auth = Auth::Basic {
                username: fields.text("username").unwrap_or_default(),
                password: fields.text("password").unwrap_or_default(),
            };
            fields.finish();
            Some(auth)
        }
        ("bearer", _, Some(block), _) => {
            let mut fields = reader.fields(block, "a bearer token")?;
            let token = fields.text("token").unwrap_or_default();
            fields.finish();
            Some(Auth::Bearer { token })
        }
        ("apiKey", _, _, Some(block)) => api_key_of(reader, block),
        (known @ ("basic" | "bearer" | "apiKey"), _, _, _) => {
            let message = format!("`auth` is of type `{known}` but has no `{known}`");
            reader.error("no-auth-block", node.span.clone(), message);
            None
        }
        (other, _, _, _) => {
            let help = match nearest(other, ["basic", "bearer", "apiKey"]) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "use `basic`, `bearer` or `apiKey`".to_owned(),
            };
            let span = kind.place(0..other.len());
            reader.report(
                Diagnostic::error("unknown-auth", span, format!("`{other}` is not a type of `auth`"))
                    .helped(help),
            );
            None
        }
    }
}

fn api_key_of(reader: &Reader<'_>, block: &Node) -> Option<Auth> {
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
