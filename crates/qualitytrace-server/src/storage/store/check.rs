//! Findings about the content of a database or of a backup.

use qualitytrace_core::id::TraceId;

use super::chunks::unpacked;
use super::tables::{Type, Value};

/// Findings listed per check; further ones are counted.
const NAMED: usize = 20;

/// The result of one check.
#[derive(Debug)]
pub struct Check {
    /// The name of the check.
    pub name: &'static str,
    /// How many items were checked.
    pub looked_at: u64,
    /// Findings as sentences; empty when there are none.
    pub findings: Vec<String>,
    /// The number of further findings.
    pub further: u64,
}

impl Check {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, looked_at: 0, findings: Vec::new(), further: 0 }
    }

    pub(super) fn find(&mut self, finding: String) {
        if self.findings.len() < NAMED {
            self.findings.push(finding);
        } else {
            self.further += 1;
        }
    }

    /// Checks the content of a row that is written to a backup or read from one.
    pub(super) fn row(&mut self, table: &str, columns: &[(String, Type)], values: &[Value]) {
        self.looked_at += 1;
        let value = |name: &str| {
            let at = columns.iter().position(|(column, _)| column == name)?;
            values.get(at)
        };
        let (text, bytes, number) = (
            |name: &str| if let Some(Value::Text(text)) = value(name) { text.as_str() } else { "" },
            |name: &str| if let Some(Value::Bytes(bytes)) = value(name) { bytes.as_slice() } else { &[] },
            |name: &str| if let Some(Value::Integer(number)) = value(name) { *number } else { 0 },
        );
        let fault = match table {
            "run_events" => event_fault(text("test_id"), number("number"), text("body")),
            "suite_run_events" => event_fault(text("suite_id"), number("number"), text("body")),
            "chunks" => chunk_fault(bytes("trace_id"), bytes("data")),
            _ => None,
        };
        if let Some(fault) = fault {
            self.find(fault);
        }
    }
}

/// Reports an event that is not JSON.
pub(super) fn event_fault(id: &str, number: i64, body: &str) -> Option<String> {
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(body).is_ok();
    (!is_json).then(|| format!("an event of run {number} of `{id}` is no JSON"))
}

/// Reports a chunk that cannot be decompressed.
pub(super) fn chunk_fault(trace: &[u8], data: &[u8]) -> Option<String> {
    unpacked(data).is_err().then(|| {
        let id = TraceId::from_slice(trace).map(|id| id.to_string()).unwrap_or_default();
        format!("what arrived of trace {id} cannot be unpacked")
    })
}
