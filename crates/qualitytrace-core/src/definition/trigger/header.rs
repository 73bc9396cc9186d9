//! Headers of requests and messages, entries of gRPC metadata, and fields of forms.

use qualitytrace_config::tree::Shape;
use schemars::JsonSchema;
use serde::Serialize;

use crate::definition::reader::Fields;
use crate::definition::shape::is_blank;
use crate::definition::text::Text;
use crate::lang::Diagnostic;

/// A header, or an entry of gRPC metadata.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    /// Its name.
    pub key: Text,
    /// Its value.
    pub value: Text,
}

pub(super) fn read(fields: &mut Fields<'_, '_>, key: &'static str) -> Vec<Header> {
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

pub(super) fn mapped<E>(
    headers: &[Header],
    text: &mut impl FnMut(&Text) -> Result<Text, E>,
) -> Result<Vec<Header>, E> {
    headers.iter().map(|header| Ok(Header { key: text(&header.key)?, value: text(&header.value)? })).collect()
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HeaderSpec<'a> {
    /// The name.
    #[serde(skip_serializing_if = "is_blank")]
    key: &'a str,
    /// The value; `${...}` in it is an expression.
    #[serde(skip_serializing_if = "is_blank")]
    value: &'a str,
}

pub(super) fn specs(headers: &[Header]) -> Vec<HeaderSpec<'_>> {
    headers.iter().map(|header| HeaderSpec { key: &header.key.value, value: &header.value.value }).collect()
}
