//! Columns: the spans of a trace as a table in the order of arrival, extended while spans arrive.
//!
//! A row stays where it is. A span that is delivered again replaces its row, and spans may turn out to share an id or
//! to form a cycle; the table remembers at which revision its earliest row changed, so that a reader who knows an
//! earlier revision can be given every row that differs. The rules for parents are those of the core.

mod texts;

use std::collections::HashMap;

use qualitytrace_core::id::{SpanId, TraceId};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::parents::{ById, Node, parents};
use qualitytrace_core::trace::{Span, SpanKind, StatusCode};

use crate::receive::otlp::heads::{Head, heads};
use crate::receive::otlp::protobuf::ProtobufError;
pub(crate) use texts::{TextId, Texts};

/// Bytes of a row with its entries in the tables of ids.
pub(crate) const ROW_BYTES: u64 = 184;
/// Levels up to which a new span is followed towards the root in search of a cycle; what is deeper may have one.
const SEARCHED_LEVELS: usize = 256;

/// One span of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) id: Option<SpanId>,
    /// The parent that it names.
    pub(crate) parent: Option<SpanId>,
    pub(crate) name: TextId,
    pub(crate) service: TextId,
    pub(crate) kind: SpanKind,
    pub(crate) status: StatusCode,
    pub(crate) start: Timestamp,
    pub(crate) end: Option<Timestamp>,
    pub(crate) has_events: bool,
    pub(crate) has_links: bool,
}

impl Node for Row {
    fn id(&self) -> Option<SpanId> {
        self.id
    }

    fn parent(&self) -> Option<SpanId> {
        self.parent
    }

    fn kind(&self) -> SpanKind {
        self.kind
    }

    fn start(&self) -> Timestamp {
        self.start
    }

    fn has_service_of(&self, other: &Self) -> bool {
        self.service == other.service
    }

    fn relink(&mut self, id: Option<SpanId>, parent: Option<SpanId>) {
        (self.id, self.parent) = (id, parent);
    }
}

/// Spans with the ids and parents that they have in the tree.
#[derive(Debug)]
struct Linked {
    rows: Vec<Row>,
    parents: Vec<Option<usize>>,
}

/// The spans of one trace, in the order of arrival.
#[derive(Debug)]
pub(crate) struct Columns {
    trace: TraceId,
    /// The spans as sent.
    sent: Vec<Row>,
    /// The row of the parent that each span was sent with.
    parents: Vec<Option<usize>>,
    /// The tree, where ids and parents are others than sent: spans share an id or may form a cycle.
    linked: Option<Linked>,
    by_id: ById,
    /// Rows whose parent has not arrived, by the parent.
    orphans: HashMap<SpanId, Vec<usize>>,
    /// Whether parents may form a cycle.
    may_cycle: bool,
    names: Texts,
    services: Texts,
    /// Each delivery with its first row.
    deliveries: Vec<(Timestamp, usize)>,
    /// The delivery that brought the last copy of each row, counted from 1.
    brought_by: Vec<usize>,
    /// Changes of rows that were there before: at which revision, and the first changed row; both increase.
    changes: Vec<(Timestamp, usize)>,
    /// When all rows were read again.
    restarted: Timestamp,
    /// The numbers of rows and of deliveries when a series of deliveries last ended.
    finished: (usize, usize),
    /// Whether the first row is the trigger of a run.
    has_trigger: bool,
    /// The service that sent a copy of the trigger's span: it decides which children belong to the trigger where
    /// another span shares its id.
    service_of_copy: Option<TextId>,
}

impl Columns {
    /// Creates the table of a trace. The trigger of a run becomes its first row.
    pub(crate) fn new(trace: TraceId, trigger: Option<&Head<'_>>) -> Self {
        let mut columns = Self {
            trace,
            sent: Vec::new(),
            linked: None,
            parents: Vec::new(),
            by_id: ById::default(),
            orphans: HashMap::new(),
            may_cycle: false,
            names: Texts::default(),
            services: Texts::default(),
            deliveries: Vec::new(),
            brought_by: Vec::new(),
            changes: Vec::new(),
            restarted: Timestamp::default(),
            finished: (0, 0),
            has_trigger: trigger.is_some(),
            service_of_copy: None,
        };
        if let Some(trigger) = trigger {
            columns.add(trigger);
        }
        columns
    }

    /// Creates the table of the spans of a trace that is complete.
    pub(crate) fn of(trace: TraceId, spans: &[Span]) -> Self {
        let mut columns = Self::new(trace, None);
        for span in spans {
            columns.add(&head(span));
        }
        columns.finish();
        columns
    }

    /// Adds the spans of a delivery: an encoded export request. [`Self::finish`] must follow.
    pub(crate) fn deliver(&mut self, at: Timestamp, request: &[u8]) -> Result<(), ProtobufError> {
        self.deliveries.push((at, self.sent.len()));
        let mut changed = usize::MAX;
        let read = heads(request, self.trace, |head| {
            changed = self.add(&head).unwrap_or(usize::MAX).min(changed);
        });
        self.change(at, changed);
        read
    }

    /// Ends a series of deliveries: finds all parents again where spans share ids or may form a cycle.
    pub(crate) fn finish(&mut self) {
        let (rows, deliveries) =
            std::mem::replace(&mut self.finished, (self.sent.len(), self.deliveries.len()));
        let is_plain = !self.by_id.has_shared() && !self.may_cycle;
        if is_plain || (rows, deliveries) == self.finished {
            return;
        }
        let mut linked = self.sent.clone();
        if let Some(service) = self.service_of_copy {
            linked[0].service = service;
        }
        let (found, _) = parents(&mut linked);
        if self.has_trigger {
            linked[0].service = self.sent[0].service;
        }
        let (before, parents_before) = (self.rows(), self.parents());
        let differs = |at: &usize| {
            let at = *at;
            let known = |parent: Option<usize>| parent.filter(|parent| *parent < rows);
            before[at].id != linked[at].id || known(parents_before[at]) != known(found[at])
        };
        let mut changed = (0..rows.min(before.len())).find(differs).unwrap_or(usize::MAX);
        if self.deliveries.len() > deliveries + 1 {
            // A reader that knows a revision in between may have seen other ids.
            changed = changed.min(rows);
        }
        self.linked = Some(Linked { rows: linked, parents: found });
        self.change(self.revision(), changed);
    }

    /// Marks all rows as changed at this time: they were read again, because others came in between or are gone.
    pub(crate) fn change_all(&mut self, at: Timestamp) {
        self.restarted = at;
        self.change(self.revision(), 0);
    }

    /// Sets the times of the trigger, which may be shown before it has ended. Returns whether they are new.
    pub(crate) fn set_trigger(&mut self, start: Timestamp, end: Option<Timestamp>) -> bool {
        let mut is_new = false;
        let linked = self.linked.iter_mut().map(|linked| &mut linked.rows);
        for rows in std::iter::once(&mut self.sent).chain(linked) {
            if let Some(trigger) = rows.first_mut().filter(|_| self.has_trigger) {
                is_new |= (trigger.start, trigger.end) != (start, end);
                (trigger.start, trigger.end) = (start, end);
            }
        }
        is_new
    }

    /// Adds a span. Returns its row if that was there before and has changed.
    fn add(&mut self, head: &Head<'_>) -> Option<usize> {
        let row = Row {
            id: head.id,
            parent: head.parent,
            name: self.names.intern(head.name),
            service: self.services.intern(head.service),
            kind: head.kind,
            status: head.status,
            start: head.start,
            end: head.end,
            has_events: head.has_events,
            has_links: head.has_links,
        };
        let at = self.sent.len();
        let Some(known) = self.by_id.register(&row, at) else {
            self.sent.push(row);
            self.parents.push(None);
            self.brought_by.push(self.deliveries.len());
            self.find_parent(at);
            let waiting = row.id.and_then(|id| self.orphans.remove(&id)).unwrap_or_default();
            let may_have_children = !waiting.is_empty() || self.parents[at] == Some(at);
            for orphan in waiting {
                if self.sent[orphan].parent == row.id {
                    self.parents[orphan] = Some(at);
                }
            }
            self.may_cycle |= may_have_children && self.may_be_its_own_ancestor(at);
            return None;
        };
        // The trigger's own span has the response; a copy of it that the system under test sent has not.
        if known == 0 && self.has_trigger {
            self.service_of_copy = Some(row.service);
            return None;
        }
        self.brought_by[known] = self.deliveries.len();
        if self.sent[known] == row {
            return None;
        }
        let has_new_parent = self.sent[known].parent != row.parent;
        self.sent[known] = row;
        if has_new_parent {
            self.find_parent(known);
            self.may_cycle |= self.may_be_its_own_ancestor(known);
        }
        Some(known)
    }

    fn may_be_its_own_ancestor(&self, at: usize) -> bool {
        let mut ancestors = std::iter::successors(self.parents[at], |row| self.parents[*row]);
        let is_own = ancestors.by_ref().take(SEARCHED_LEVELS).any(|row| row == at);
        is_own || ancestors.next().is_some()
    }

    fn find_parent(&mut self, at: usize) {
        self.parents[at] = None;
        let Some(named) = self.sent[at].parent else { return };
        match self.by_id.get(named) {
            Some(parent) => self.parents[at] = Some(parent),
            None => self.orphans.entry(named).or_default().push(at),
        }
    }

    fn change(&mut self, at: Timestamp, row: usize) {
        if row == usize::MAX {
            return;
        }
        while self.changes.last().is_some_and(|(_, known)| *known >= row) {
            self.changes.pop();
        }
        self.changes.push((at, row));
    }

    /// Returns the first row that differs from those of an earlier revision, or the number of rows.
    pub(crate) fn changed_since(&self, revision: Timestamp) -> usize {
        let newer = self.changes.partition_point(|(at, _)| *at <= revision);
        self.changes.get(newer).map_or(self.sent.len(), |(_, row)| *row)
    }

    /// Returns the time of the last delivery, or when all rows were read again.
    pub(crate) fn revision(&self) -> Timestamp {
        self.deliveries.last().map(|(at, _)| *at).unwrap_or_default().max(self.restarted)
    }

    pub(crate) fn trace(&self) -> TraceId {
        self.trace
    }

    pub(crate) fn rows(&self) -> &[Row] {
        self.linked.as_ref().map_or(&self.sent, |linked| &linked.rows)
    }

    /// Returns the row of each span's parent.
    pub(crate) fn parents(&self) -> &[Option<usize>] {
        self.linked.as_ref().map_or(&self.parents, |linked| &linked.parents)
    }

    /// Whether the span with this id has arrived.
    pub(crate) fn has(&self, id: SpanId) -> bool {
        self.by_id.get(id).is_some()
    }

    pub(crate) fn names(&self) -> &Texts {
        &self.names
    }

    pub(crate) fn services(&self) -> &Texts {
        &self.services
    }

    /// Whether the first row is the trigger of a run.
    pub(crate) fn has_trigger(&self) -> bool {
        self.has_trigger
    }

    /// Returns the row of the span that has this id in the tree.
    pub(crate) fn find(&self, id: SpanId) -> Option<usize> {
        match &self.linked {
            Some(linked) => linked.rows.iter().position(|row| row.id == Some(id)),
            None => self.by_id.get(id),
        }
    }

    /// Returns when the last copy of a row arrived, and the span as it was sent; `None` for the trigger.
    pub(crate) fn delivery(&self, row: usize) -> Option<(Timestamp, Row)> {
        let number = self.brought_by.get(row)?.checked_sub(1)?;
        Some((self.deliveries.get(number)?.0, *self.sent.get(row)?))
    }

    /// Returns the first row that arrived after this time.
    pub(crate) fn first_after(&self, at: Timestamp) -> usize {
        let later = self.deliveries.partition_point(|(arrived, _)| *arrived <= at);
        self.deliveries.get(later).map_or(self.sent.len(), |(_, row)| *row)
    }

    /// Returns the bytes that it takes in memory, roughly.
    pub(crate) fn bytes(&self) -> u64 {
        let rows = self.sent.len() + self.linked.as_ref().map_or(0, |linked| linked.rows.len());
        rows as u64 * ROW_BYTES
            + self.names.bytes()
            + self.services.bytes()
            + self.deliveries.len() as u64 * 32
    }
}

/// Returns the head of a decoded span.
pub(crate) fn head(span: &Span) -> Head<'_> {
    Head {
        id: span.id,
        parent: span.parent,
        name: &span.name,
        service: span.service(),
        kind: span.kind,
        status: span.status.as_ref().map(|status| status.code).unwrap_or_default(),
        start: span.start,
        end: span.end,
        has_events: !span.events.is_empty(),
        has_links: !span.links.is_empty(),
    }
}
