//! The one table of names that have two spellings.
//!
//! Files and clients were written for Tracetest and for its fork Qualitytrace. Inside, the `tracetest` spelling is
//! used, because it is the one on the wire; a `qualitytrace` spelling is folded into it on the way in.

use std::borrow::Cow;

/// The span that stands for the trigger itself: the root of every tested trace.
pub const TRIGGER_SPAN: &str = "Tracetest trigger";
/// Its other spelling.
const TRIGGER_SPAN_ALIAS: &str = "Qualitytrace trigger";
/// `service.name` of the trigger span.
pub const TRIGGER_SERVICE: &str = "tracetest";

/// Status of the trigger's answer, on the trigger span.
pub const RESPONSE_STATUS: &str = "tracetest.response.status";
/// Body of the trigger's answer, on the trigger span.
pub const RESPONSE_BODY: &str = "tracetest.response.body";
/// Headers of the trigger's answer as a JSON list of `{key, value}`, on the trigger span.
pub const RESPONSE_HEADERS: &str = "tracetest.response.headers";

const PREFIX: &str = "tracetest.";
const PREFIX_ALIAS: &str = "qualitytrace.";

/// The attribute name as it is kept inside: `qualitytrace.x` becomes `tracetest.x`, all else stays.
pub fn attribute(name: &str) -> Cow<'_, str> {
    match name.strip_prefix(PREFIX_ALIAS) {
        Some(rest) => Cow::Owned(format!("{PREFIX}{rest}")),
        None => Cow::Borrowed(name),
    }
}

/// The span name as it is kept inside: both spellings of the trigger span become one.
pub fn span(name: &str) -> &str {
    if name == TRIGGER_SPAN_ALIAS {
        TRIGGER_SPAN
    } else {
        name
    }
}
