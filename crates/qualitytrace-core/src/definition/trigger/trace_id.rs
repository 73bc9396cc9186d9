//! Traces that exist already.

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

use crate::definition::reader::Reader;
use crate::definition::shape::is_blank;
use crate::definition::text::Text;

/// A trace that exists already.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TraceId {
    /// The trace's id in hex, usually `${var:TRACE_ID}`.
    pub id: Text,
}

impl TraceId {
    pub(super) fn mapped<E>(&self, text: &mut impl FnMut(&Text) -> Result<Text, E>) -> Result<Self, E> {
        Ok(Self { id: text(&self.id)? })
    }
}

pub(super) fn read(reader: &Reader<'_>, block: &Node) -> Option<TraceId> {
    let mut fields = reader.fields(block, "a trace id trigger")?;
    let id = fields.text("id").unwrap_or_default();
    fields.finish();
    Some(TraceId { id })
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TraceIdSpec<'a> {
    /// The id of the trace, as `${var:TRACE_ID}`.
    #[serde(skip_serializing_if = "is_blank")]
    id: &'a str,
}

impl<'a> TraceIdSpec<'a> {
    pub(super) fn of(trace: &'a TraceId) -> Self {
        Self { id: &trace.id.value }
    }
}
