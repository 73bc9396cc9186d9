//! The parts of the OTLP schema that are needed to check whether a request can be decoded.

mod metrics;

pub(super) use metrics::METRICS;

/// A message: its name and its fields, starting with field 1.
pub(super) struct Message {
    pub(super) name: &'static str,
    fields: &'static [Kind],
}

impl Message {
    pub(super) fn field(&self, number: u32) -> &'static Kind {
        let at = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        at.and_then(|at| self.fields.get(at)).unwrap_or(&Kind::Unknown)
    }
}

/// The type of a field.
pub(super) enum Kind {
    /// Not in the schema: skipped.
    Unknown,
    Varint,
    Fixed64,
    Fixed32,
    Text,
    Bytes,
    Message(&'static Message),
}

/// One of the two signals whose items carry a trace id. Both have the same nesting: request, resource, scope, items.
pub(super) struct Signal {
    pub(super) request: &'static Message,
    pub(super) resource: &'static Message,
    pub(super) scope: &'static Message,
    pub(super) item: &'static Message,
    /// The item's field that holds the trace id.
    pub(super) trace_id: u32,
    /// The item's field that holds its end time, if it has one.
    pub(super) end: Option<u32>,
    /// The item's field that holds its links, if it has any.
    pub(super) links: Option<u32>,
}

pub(super) static TRACES: Signal = Signal {
    request: &Message { name: "ExportTraceServiceRequest", fields: &[Kind::Message(&RESOURCE_SPANS)] },
    resource: &RESOURCE_SPANS,
    scope: &SCOPE_SPANS,
    item: &SPAN,
    trace_id: 1,
    end: Some(8),
    links: Some(13),
};

pub(super) static LOGS: Signal = Signal {
    request: &Message { name: "ExportLogsServiceRequest", fields: &[Kind::Message(&RESOURCE_LOGS)] },
    resource: &RESOURCE_LOGS,
    scope: &SCOPE_LOGS,
    item: &LOG_RECORD,
    trace_id: 9,
    end: None,
    links: None,
};

static RESOURCE_SPANS: Message = Message {
    name: "ResourceSpans",
    fields: &[Kind::Message(&RESOURCE), Kind::Message(&SCOPE_SPANS), Kind::Text],
};

static SCOPE_SPANS: Message =
    Message { name: "ScopeSpans", fields: &[Kind::Message(&SCOPE), Kind::Message(&SPAN), Kind::Text] };

static RESOURCE_LOGS: Message = Message {
    name: "ResourceLogs",
    fields: &[Kind::Message(&RESOURCE), Kind::Message(&SCOPE_LOGS), Kind::Text],
};

static SCOPE_LOGS: Message =
    Message { name: "ScopeLogs", fields: &[Kind::Message(&SCOPE), Kind::Message(&LOG_RECORD), Kind::Text] };

pub(super) static RESOURCE: Message = Message {
    name: "Resource",
    fields: &[Kind::Message(&KEY_VALUE), Kind::Varint, Kind::Message(&ENTITY_REF)],
};

static ENTITY_REF: Message =
    Message { name: "EntityRef", fields: &[Kind::Text, Kind::Text, Kind::Text, Kind::Text] };

static SCOPE: Message = Message {
    name: "InstrumentationScope",
    fields: &[Kind::Text, Kind::Text, Kind::Message(&KEY_VALUE), Kind::Varint],
};

static SPAN: Message = Message {
    name: "Span",
    fields: &[
        Kind::Bytes,
        Kind::Bytes,
        Kind::Text,
        Kind::Bytes,
        Kind::Text,
        Kind::Varint,
        Kind::Fixed64,
        Kind::Fixed64,
        Kind::Message(&KEY_VALUE),
        Kind::Varint,
        Kind::Message(&EVENT),
        Kind::Varint,
        Kind::Message(&LINK),
        Kind::Varint,
        Kind::Message(&STATUS),
        Kind::Fixed32,
    ],
};

static EVENT: Message = Message {
    name: "Span.Event",
    fields: &[Kind::Fixed64, Kind::Text, Kind::Message(&KEY_VALUE), Kind::Varint],
};

pub(super) static LINK: Message = Message {
    name: "Span.Link",
    fields: &[Kind::Bytes, Kind::Bytes, Kind::Text, Kind::Message(&KEY_VALUE), Kind::Varint, Kind::Fixed32],
};

pub(super) static STATUS: Message =
    Message { name: "Status", fields: &[Kind::Unknown, Kind::Text, Kind::Varint] };

static LOG_RECORD: Message = Message {
    name: "LogRecord",
    fields: &[
        Kind::Fixed64,
        Kind::Varint,
        Kind::Text,
        Kind::Unknown,
        Kind::Message(&ANY_VALUE),
        Kind::Message(&KEY_VALUE),
        Kind::Varint,
        Kind::Fixed32,
        Kind::Bytes,
        Kind::Bytes,
        Kind::Fixed64,
        Kind::Text,
    ],
};

pub(super) static KEY_VALUE: Message =
    Message { name: "KeyValue", fields: &[Kind::Text, Kind::Message(&ANY_VALUE), Kind::Varint] };

pub(super) static ANY_VALUE: Message = Message {
    name: "AnyValue",
    fields: &[
        Kind::Text,
        Kind::Varint,
        Kind::Varint,
        Kind::Fixed64,
        Kind::Message(&ARRAY_VALUE),
        Kind::Message(&KEY_VALUE_LIST),
        Kind::Bytes,
        Kind::Varint,
    ],
};

static ARRAY_VALUE: Message = Message { name: "ArrayValue", fields: &[Kind::Message(&ANY_VALUE)] };

static KEY_VALUE_LIST: Message = Message { name: "KeyValueList", fields: &[Kind::Message(&KEY_VALUE)] };
