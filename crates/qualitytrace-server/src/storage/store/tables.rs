//! The tables of a database, with the types of their columns.

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Integer,
    Text,
    Bytes,
}

/// A table, and its columns as `name:type` with the types `i`, `t` and `b`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table {
    pub(super) name: &'static str,
    columns: &'static str,
}

const fn table(name: &'static str, columns: &'static str) -> Table {
    Table { name, columns }
}

/// Every table in a backup, parents first. The live servers are left out.
#[rustfmt::skip]
pub(super) const TABLES: &[Table] = &[
    table("documents", "name:t body:t"),
    table("totals", "name:t value:i"),
    table("resources", "kind:t id:t tenant:t version:i created:i name:t description:t sort_name:b sort_kind:b last_run:i spec:t"),
    table("definitions", "kind:t id:t version:i format:t text:t"),
    table("facets", "kind:t id:t facet:t value:t"),
    table("runs", "kind:t test_id:t number:i test_version:i trace_id:b state:t created:i variables:t request:t passed:i failed:i turn:i owner:t triggered:i wish:t secrets:t client:t tenant:t outcome:t duration:i spans:i source:t branch:t"),
    table("run_numbers", "kind:t test_id:t number:i stored:i ended:i outcome:t"),
    table("run_events", "test_id:t number:i seq:i at:i body:t"),
    table("histories", "kind:t test_id:t body:t"),
    table("series", "test_id:t first:i owner:t outcome:t body:t"),
    table("suite_runs", "kind:t suite_id:t number:i suite_version:i state:t created:i variables:t request:t passed:i failed:i owner:t wish:t"),
    table("suite_run_numbers", "kind:t suite_id:t number:i stored:i"),
    table("suite_run_events", "suite_id:t number:i seq:i at:i body:t"),
    table("suite_run_steps", "suite_id:t number:i test_id:t run:i"),
    table("retired_numbers", "kind:t id:t number:i deleted:i"),
    table("audit", "at:i entry:t who:t address:t action:t kind:t id:t request:t"),
    table("chunks", "trace_id:b signal:i arrived:i items:i size:i data:b"),
];

impl Table {
    pub(super) fn columns(&self) -> Vec<(String, Type)> {
        let column = |text: &str| {
            let (name, kind) = text.split_once(':')?;
            Some((name.to_owned(), Type::of(kind.bytes().next()?)?))
        };
        self.columns.split(' ').filter_map(column).collect()
    }
}

impl Type {
    pub(super) fn of(code: u8) -> Option<Self> {
        [Self::Integer, Self::Text, Self::Bytes].into_iter().find(|kind| kind.code() == code)
    }

    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Integer => b'i',
            Self::Text => b't',
            Self::Bytes => b'b',
        }
    }
}

/// A value of a row.
#[derive(Debug)]
pub(super) enum Value {
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
}
