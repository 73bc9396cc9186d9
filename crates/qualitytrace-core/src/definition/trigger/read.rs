//! The reader of triggers, in the current layout and the two before it.

use std::ops::Range;

use qualitytrace_config::tree::{Node, Shape};

use super::{Integration, Trigger, exec, graphql, grpc, http, kafka, playwright, trace_id};
use crate::definition::reader::Reader;
use crate::lang::Diagnostic;
use crate::lang::diagnostic::nearest;

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
            Self::Grpc => grpc::read(reader, node).map(Trigger::Grpc),
            Self::Kafka => kafka::read(reader, node).map(Trigger::Kafka),
            Self::TraceId => trace_id::read(reader, node).map(Trigger::TraceId),
            Self::Graphql => graphql::read(reader, node).map(Trigger::Graphql),
            Self::Exec => exec::read(reader, node).map(Trigger::Exec),
            Self::PlaywrightEngine => playwright::read(reader, node).map(Trigger::PlaywrightEngine),
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
