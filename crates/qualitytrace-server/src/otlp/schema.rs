//! The parts of the OTLP schema that decide whether a request can be decoded.

/// A message: its name and its fields.
pub(super) struct Message {
    pub(super) name: &'static str,
    fields: &'static [(u32, Kind)],
}

impl Message {
    pub(super) fn field(&self, number: u32) -> Option<&'static Kind> {
        self.fields.iter().find(|(known, _)| *known == number).map(|(_, kind)| kind)
    }
}

/// What a field holds.
pub(super) enum Kind {
    Varint,
    Fixed64,
    Fixed32,
    Text,
    Bytes,
    Message(&'static Message),
}

/// One of the two signals whose items name their trace. Both nest alike: request, resource, scope, items.
pub(super) struct Signal {
    pub(super) request: &'static Message,
    pub(super) resource: &'static Message,
    pub(super) scope: &'static Message,
    pub(super) item: &'static Message,
    /// The item's field that holds the trace id.
    pub(super) trace_id: u32,
}

pub(super) static TRACES: Signal = Signal {
    request: &Message { name: "ExportTraceServiceRequest", fields: &[(1, Kind::Message(&RESOURCE_SPANS))] },
    resource: &RESOURCE_SPANS,
    scope: &SCOPE_SPANS,
    item: &SPAN,
    trace_id: 1,
};

pub(super) static LOGS: Signal = Signal {
    request: &Message { name: "ExportLogsServiceRequest", fields: &[(1, Kind::Message(&RESOURCE_LOGS))] },
    resource: &RESOURCE_LOGS,
    scope: &SCOPE_LOGS,
    item: &LOG_RECORD,
    trace_id: 9,
};

static RESOURCE_SPANS: Message = Message {
    name: "ResourceSpans",
    fields: &[(1, Kind::Message(&RESOURCE)), (2, Kind::Message(&SCOPE_SPANS)), (3, Kind::Text)],
};

static SCOPE_SPANS: Message = Message {
    name: "ScopeSpans",
    fields: &[(1, Kind::Message(&SCOPE)), (2, Kind::Message(&SPAN)), (3, Kind::Text)],
};

static RESOURCE_LOGS: Message = Message {
    name: "ResourceLogs",
    fields: &[(1, Kind::Message(&RESOURCE)), (2, Kind::Message(&SCOPE_LOGS)), (3, Kind::Text)],
};

static SCOPE_LOGS: Message = Message {
    name: "ScopeLogs",
    fields: &[(1, Kind::Message(&SCOPE)), (2, Kind::Message(&LOG_RECORD)), (3, Kind::Text)],
};

static RESOURCE: Message = Message {
    name: "Resource",
    fields: &[(1, Kind::Message(&KEY_VALUE)), (2, Kind::Varint), (3, Kind::Message(&ENTITY_REF))],
};

static ENTITY_REF: Message = Message {
    name: "EntityRef",
    fields: &[(1, Kind::Text), (2, Kind::Text), (3, Kind::Text), (4, Kind::Text)],
};

static SCOPE: Message = Message {
    name: "InstrumentationScope",
    fields: &[(1, Kind::Text), (2, Kind::Text), (3, Kind::Message(&KEY_VALUE)), (4, Kind::Varint)],
};

static SPAN: Message = Message {
    name: "Span",
    fields: &[
        (1, Kind::Bytes),
        (2, Kind::Bytes),
        (3, Kind::Text),
        (4, Kind::Bytes),
        (5, Kind::Text),
        (6, Kind::Varint),
        (7, Kind::Fixed64),
        (8, Kind::Fixed64),
        (9, Kind::Message(&KEY_VALUE)),
        (10, Kind::Varint),
        (11, Kind::Message(&EVENT)),
        (12, Kind::Varint),
        (13, Kind::Message(&LINK)),
        (14, Kind::Varint),
        (15, Kind::Message(&STATUS)),
        (16, Kind::Fixed32),
    ],
};

static EVENT: Message = Message {
    name: "Span.Event",
    fields: &[(1, Kind::Fixed64), (2, Kind::Text), (3, Kind::Message(&KEY_VALUE)), (4, Kind::Varint)],
};

static LINK: Message = Message {
    name: "Span.Link",
    fields: &[
        (1, Kind::Bytes),
        (2, Kind::Bytes),
        (3, Kind::Text),
        (4, Kind::Message(&KEY_VALUE)),
        (5, Kind::Varint),
        (6, Kind::Fixed32),
    ],
};

static STATUS: Message = Message { name: "Status", fields: &[(2, Kind::Text), (3, Kind::Varint)] };

static LOG_RECORD: Message = Message {
    name: "LogRecord",
    fields: &[
        (1, Kind::Fixed64),
        (2, Kind::Varint),
        (3, Kind::Text),
        (5, Kind::Message(&ANY_VALUE)),
        (6, Kind::Message(&KEY_VALUE)),
        (7, Kind::Varint),
        (8, Kind::Fixed32),
        (9, Kind::Bytes),
        (10, Kind::Bytes),
        (11, Kind::Fixed64),
        (12, Kind::Text),
    ],
};

static KEY_VALUE: Message = Message {
    name: "KeyValue",
    fields: &[(1, Kind::Text), (2, Kind::Message(&ANY_VALUE)), (3, Kind::Varint)],
};

static ANY_VALUE: Message = Message {
    name: "AnyValue",
    fields: &[
        (1, Kind::Text),
        (2, Kind::Varint),
        (3, Kind::Varint),
        (4, Kind::Fixed64),
        (5, Kind::Message(&ARRAY_VALUE)),
        (6, Kind::Message(&KEY_VALUE_LIST)),
        (7, Kind::Bytes),
        (8, Kind::Varint),
    ],
};

static ARRAY_VALUE: Message = Message { name: "ArrayValue", fields: &[(1, Kind::Message(&ANY_VALUE))] };

static KEY_VALUE_LIST: Message = Message { name: "KeyValueList", fields: &[(1, Kind::Message(&KEY_VALUE))] };
