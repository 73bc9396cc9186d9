//! ClickHouse: the table that the Collector's exporter writes.

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

use crate::definition::reader::Reader;
use crate::definition::shape::is_blank;

/// The database of the Collector's exporter.
const DATABASE: &str = "default";
/// The table of the Collector's exporter.
const TABLE: &str = "otel_traces";

/// A table of spans in ClickHouse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClickHouse {
    /// The address of its HTTP interface.
    pub url: String,
    /// The database.
    pub database: String,
    /// The table.
    pub table: String,
    /// The user name.
    pub username: String,
    /// The password.
    pub password: String,
}

pub(super) fn read(reader: &Reader<'_>, block: &Node) -> Option<ClickHouse> {
    let mut fields = reader.fields(block, "`clickhouse`")?;
    let named = |text: Option<String>, other: &str| {
        text.filter(|text| !text.is_empty()).unwrap_or_else(|| other.to_owned())
    };
    let source = ClickHouse {
        url: fields.string("url").unwrap_or_default(),
        database: named(fields.string("database"), DATABASE),
        table: named(fields.string("table"), TABLE),
        username: fields.string("username").unwrap_or_default(),
        password: fields.string("password").unwrap_or_default(),
    };
    fields.finish();
    Some(source)
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ClickHouseSpec<'a> {
    /// The address of its HTTP interface.
    url: &'a str,
    /// The database that has the traces.
    database: &'a str,
    /// The table that has the spans.
    table: &'a str,
    /// The name of the user.
    #[serde(skip_serializing_if = "is_blank")]
    username: &'a str,
    /// The password of the user.
    #[serde(skip_serializing_if = "is_blank")]
    password: &'a str,
}

impl<'a> ClickHouseSpec<'a> {
    pub(super) fn of(clickhouse: &'a ClickHouse) -> Self {
        Self {
            url: &clickhouse.url,
            database: &clickhouse.database,
            table: &clickhouse.table,
            username: &clickhouse.username,
            password: &clickhouse.password,
        }
    }
}
