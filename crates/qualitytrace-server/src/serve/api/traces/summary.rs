//! The summary of a trace in a list.

use std::time::Duration;

use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Span, StatusCode, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::wire::time::rfc3339;

/// A summary of a trace.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TraceSummary {
    trace_id: String,
    /// The name of its root span.
    name: String,
    /// The service of its root span.
    service: String,
    services: Vec<String>,
    /// The number of spans.
    spans: usize,
    /// `ok`, `error` or `unset`.
    status: &'static str,
    start_time: String,
    /// Nanoseconds.
    duration: u64,
    arrived_at: String,
}

impl TraceSummary {
    pub(super) fn of(
        trace: &Trace,
        start: Timestamp,
        duration: Duration,
        status: StatusCode,
        arrived: Timestamp,
    ) -> Self {
        let root = trace.roots().next().map(|root| trace.span(root));
        let mut services: Vec<String> = trace.spans().iter().map(|span| span.service().to_owned()).collect();
        services.sort_unstable();
        services.dedup();
        Self {
            trace_id: trace.id().to_string(),
            name: root.map(|root| root.name.to_string()).unwrap_or_default(),
            service: root.map(Span::service).unwrap_or_default().to_owned(),
            services,
            spans: trace.spans().len(),
            status: match status {
                StatusCode::Unset => "unset",
                StatusCode::Ok => "ok",
                StatusCode::Error => "error",
            },
            start_time: rfc3339(start),
            duration: u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX),
            arrived_at: rfc3339(arrived),
        }
    }
}
