//! A trace as columns: one list for each property of its spans, in the order of arrival.

use std::collections::HashMap;

use qualitytrace_core::id::SpanId;
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{SpanKind, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;

use crate::base::redact::Redactor;
use crate::receive::columns::{self, Row, TextId, Texts};

/// The bits of `flags`.
mod flag {
    pub(super) const TRIGGER: u8 = 1;
    pub(super) const LATE: u8 = 2;
    pub(super) const EVENTS: u8 = 4;
    pub(super) const LINKS: u8 = 8;
    pub(super) const REDACTED: u8 = 16;
    pub(super) const UNFINISHED: u8 = 32;
}

/// Spans as columns, in the order of arrival. Each list has one entry for each span, beginning with row `from`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "TraceColumns")]
pub struct Columns {
    /// The trace.
    trace_id: String,
    /// The last arrival, in nanoseconds since the epoch. With `from` and this as `revision`, a later request returns
    /// what is new.
    revision: String,
    /// The first row. It is less than the requested one if earlier rows have changed since the given revision: the rows
    /// from here on replace what is known.
    from: usize,
    /// The number of rows of the trace.
    total: usize,
    /// What `start` counts from, in nanoseconds since the epoch: the start of row 0.
    origin: String,
    /// The span of the trigger, if the columns are those of a run that has sent it: row 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger: Option<Trigger>,
    /// The distinct names of these spans.
    names: Vec<String>,
    /// The distinct services of these spans.
    services: Vec<String>,
    /// The ids, 16 hexadecimal digits each, without separators; zeros for a span that was sent without one.
    ids: String,
    /// The row of the parent; -1 for a root.
    parent: Vec<i64>,
    /// Spans whose parent has not arrived: row, and the id of the parent.
    orphans: Vec<(usize, String)>,
    /// Rows before `from` whose parent has arrived since: row, and the row of the parent.
    adopted: Vec<(usize, usize)>,
    /// An index into `names`.
    name: Vec<usize>,
    /// An index into `services`.
    service: Vec<usize>,
    /// 0 unspecified, 1 internal, 2 server, 3 client, 4 producer, 5 consumer.
    kind: Vec<u8>,
    /// 0 unset, 1 ok, 2 error.
    status: Vec<u8>,
    /// Nanoseconds since the origin; may be negative.
    start: Vec<i64>,
    /// Nanoseconds.
    duration: Vec<u64>,
    /// The sum of: 1 the trigger, 2 arrived after the verdict, 4 has events, 8 has links, 16 a secret is redacted in
    /// its name or service, 32 has not ended.
    flags: Vec<u8>,
}

/// The span of the trigger. It may still be under way when spans arrive.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "TriggerTimes")]
struct Trigger {
    /// Its id.
    id: String,
    /// Nanoseconds; 0 while it is under way.
    duration: u64,
    /// Whether it got its response.
    finished: bool,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ColumnsQuery {
    /// The first row.
    pub(crate) from: usize,
    /// The revision that the client knows; `None` if it has not said.
    pub(crate) revision: Option<Timestamp>,
    /// Spans that arrived after this time are late.
    pub(crate) judged: Option<Timestamp>,
}

impl ColumnsQuery {
    /// Returns the first row of the response: the first that the client does not have, or that has changed since.
    pub(crate) fn first_row(&self, table: &columns::Columns) -> usize {
        let changed = self.revision.map_or(usize::MAX, |revision| table.changed_since(revision));
        self.from.min(changed).min(table.rows().len())
    }
}

impl Columns {
    /// Returns the rows that are asked for, with secrets redacted.
    pub(crate) fn of(table: &columns::Columns, asked: ColumnsQuery, redactor: &Redactor) -> Self {
        let (rows, parents) = (table.rows(), table.parents());
        let from = asked.first_row(table);
        let late = asked.judged.map_or(rows.len(), |judged| table.first_after(judged));
        let origin = rows.first().map(|row| row.start).unwrap_or_default();
        let trigger = rows.first().filter(|_| table.has_trigger());
        let root = trigger.map_or(-1, |_| 0);
        let parent = |at: usize| match parents[at] {
            Some(parent) => i64::try_from(parent).unwrap_or(-1),
            None if at == 0 => -1,
            None => root,
        };
        let shown = || rows.iter().enumerate().skip(from);
        let mut names = Table::new(table.names(), redactor);
        let mut services = Table::new(table.services(), redactor);
        let name: Vec<usize> = shown().map(|(_, row)| names.index(row.name)).collect();
        let service: Vec<usize> = shown().map(|(_, row)| services.index(row.service)).collect();
        let flags = shown()
            .map(|(at, row)| {
                let is_redacted = names.is_redacted(row.name) || services.is_redacted(row.service);
                flag::TRIGGER * u8::from(at == 0 && trigger.is_some())
                    + flag::LATE * u8::from(at >= late)
                    + flag::EVENTS * u8::from(row.has_events)
                    + flag::LINKS * u8::from(row.has_links)
                    + flag::REDACTED * u8::from(is_redacted)
                    + flag::UNFINISHED * u8::from(row.end.is_none())
            })
            .collect();
        let orphan = |(at, row): (usize, &Row)| {
            let missing = row.parent.filter(|parent| parents[at].is_none() && !table.has(*parent))?;
            Some((at, missing.to_string()))
        };
        let adopted = parents[..from].iter().enumerate();
        Self {
            trace_id: table.trace().to_string(),
            revision: table.revision().as_nanos().to_string(),
            from,
            total: rows.len(),
            origin: origin.as_nanos().to_string(),
            trigger: trigger.map(|row| Trigger {
                id: row.id.map(|id| id.to_string()).unwrap_or_default(),
                duration: duration(row),
                finished: row.end.is_some(),
            }),
            ids: ids(shown().map(|(_, row)| row.id)),
            parent: shown().map(|(at, _)| parent(at)).collect(),
            orphans: shown().filter_map(orphan).collect(),
            adopted: adopted
                .filter_map(|(at, parent)| parent.filter(|to| *to >= from).map(|to| (at, to)))
                .collect(),
            name,
            service,
            names: names.shown,
            services: services.shown,
            kind: shown().map(|(_, row)| kind(row.kind)).collect(),
            status: shown().map(|(_, row)| status(row.status)).collect(),
            start: shown().map(|(_, row)| offset(row.start, origin)).collect(),
            duration: shown().map(|(_, row)| duration(row)).collect(),
            flags,
        }
    }
}

/// The part of a table of texts that a response uses.
struct Table<'t> {
    texts: &'t Texts,
    redactor: &'t Redactor,
    /// The index in the response, and whether a secret was redacted.
    used: HashMap<TextId, (usize, bool)>,
    shown: Vec<String>,
}

impl<'t> Table<'t> {
    fn new(texts: &'t Texts, redactor: &'t Redactor) -> Self {
        Self { texts, redactor, used: HashMap::new(), shown: Vec::new() }
    }

    fn index(&mut self, id: TextId) -> usize {
        let Self { texts, redactor, used, shown } = self;
        let (index, _) = used.entry(id).or_insert_with(|| {
            let text = texts.get(id);
            let redacted = redactor.text(text);
            let is_redacted = redacted != text;
            shown.push(redacted.into_owned());
            (shown.len() - 1, is_redacted)
        });
        *index
    }

    fn is_redacted(&self, id: TextId) -> bool {
        self.used.get(&id).is_some_and(|(_, is_redacted)| *is_redacted)
    }
}

fn ids(ids: impl Iterator<Item = Option<SpanId>>) -> String {
    let mut text = String::with_capacity(ids.size_hint().0 * 16);
    for id in ids {
        let bytes = id.map(SpanId::to_bytes).unwrap_or_default();
        let mut digits = [0; 16];
        if const_hex::encode_to_slice(bytes, &mut digits).is_ok() {
            text.extend(digits.map(char::from));
        }
    }
    text
}

/// The duration of a span, by the same rule as [`qualitytrace_core::trace::Span::duration`].
fn duration(row: &Row) -> u64 {
    match row.end {
        Some(end) if row.start != Timestamp::default() => end.as_nanos().saturating_sub(row.start.as_nanos()),
        Some(_) | None => 0,
    }
}

fn offset(start: Timestamp, origin: Timestamp) -> i64 {
    start.as_nanos().wrapping_sub(origin.as_nanos()).cast_signed()
}

const fn kind(kind: SpanKind) -> u8 {
    match kind {
        SpanKind::Unspecified => 0,
        SpanKind::Internal => 1,
        SpanKind::Server => 2,
        SpanKind::Client => 3,
        SpanKind::Producer => 4,
        SpanKind::Consumer => 5,
    }
}

const fn status(status: StatusCode) -> u8 {
    match status {
        StatusCode::Unset => 0,
        StatusCode::Ok => 1,
        StatusCode::Error => 2,
    }
}

#[cfg(test)]
mod tests;
