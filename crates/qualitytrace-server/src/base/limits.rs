//! The limits of the server, with their names and defaults.

pub mod deny;

use std::time::Duration;

use deny::Deny;

const MIB: u64 = 1024 * 1024;

/// All limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// `limits.bodyBytes`: the largest request body, as sent.
    pub body_bytes: u64,
    /// `limits.decompressedBytes`: the largest request body, after decompression.
    pub decompressed_bytes: u64,
    /// `limits.ingestBytes`: decompressed bytes that may wait for the store at one time.
    pub ingest_bytes: u64,
    /// `limits.apiBytes`: memory that requests to the API and their responses may take at one time.
    pub api_bytes: u64,
    /// `limits.spansPerTrace`: spans kept of one trace; further ones are rejected and counted.
    pub spans_per_trace: u64,
    /// `limits.retainedBytes`: bytes of traces and logs kept in total.
    pub retained_bytes: u64,
    /// `limits.retention`: how long a trace is kept that belongs to no run.
    pub retention: Duration,
    /// `limits.evictableAfter`: the age from which such a trace may be evicted early, to make room.
    pub evictable_after: Duration,
    /// `ingest.fsync`: whether spans and log records are synced to the disk before they are acknowledged.
    pub ingest_fsync: bool,
    /// `limits.headerBytes`: the largest head of a request.
    pub header_bytes: u64,
    /// `limits.headers`: headers of one request over HTTP/1.1.
    pub headers: usize,
    /// `limits.headerTimeout`: how long a client may take for the TLS handshake and for the head of a request.
    pub header_timeout: Duration,
    /// `limits.progressTimeout`: how long a client may send nothing of a body, or read nothing of a response.
    pub progress_timeout: Duration,
    /// `limits.requestTimeout`: how long a request may take, from its head to the head of the response.
    pub request_timeout: Duration,
    /// `limits.connections`: connections to one port at one time; further ones wait.
    pub connections: usize,
    /// `limits.retryAfter`: the retry delay that a refused sender is told.
    pub retry_after: Duration,
    /// `runs.concurrency`: triggers in progress at one time; further runs are queued.
    pub concurrent_runs: usize,
    /// `runs.waiting`: runs in progress at one time, including those that only wait for spans; further ones are queued.
    pub waiting_runs: usize,
    /// `runs.queue`: runs that may be queued; further ones are refused.
    pub queued_runs: u64,
    /// `runs.retention`: how long a run is kept with its trace; 0 for as long as its test or suite.
    pub run_retention: Duration,
    /// `runs.perTest`: runs kept of one test or suite; the oldest are removed first.
    pub runs_per_test: u64,
    /// `runs.lateWindow`: how long after a verdict late spans are accepted.
    pub late_window: Duration,
    /// The settle window of a first run whose services have all proven to deliver promptly. Set by a program that sends
    /// the system requests during the tests, so that there is something to deliver; `None` for none.
    pub prompt_settle: Option<Duration>,
    /// `runs.uninstrumented`: services that send no spans, for every test. A call to them is not expected to have a
    /// child span.
    pub uninstrumented: Vec<String>,
    /// `audit.retention`: how long a line of the audit log is kept.
    pub audit_retention: Duration,
    /// `audit.entries`: lines of the audit log; the oldest are removed first.
    pub audit_entries: u64,
    /// `runs.commands`: whether tests may run commands on the server's machine. Every user who may write a test then
    /// has the server's permissions there.
    pub commands: bool,
    /// `trigger.deny`: addresses that no trigger may connect to.
    pub deny: Deny,
    /// `trigger.verifyCertificates`: whether the certificate of every server that a trigger connects to over TLS is
    /// verified, whatever the test says.
    pub verify_certificates: bool,
    /// `limits.replyBytes`: how much of a trigger's response is kept.
    pub reply_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 64 * MIB,
            decompressed_bytes: 64 * MIB,
            ingest_bytes: 96 * MIB,
            api_bytes: 192 * MIB,
            spans_per_trace: 200_000,
            retained_bytes: 16 * 1024 * MIB,
            retention: Duration::from_hours(24),
            evictable_after: Duration::from_mins(10),
            ingest_fsync: true,
            header_bytes: 400 * 1024,
            headers: 100,
            header_timeout: Duration::from_secs(30),
            progress_timeout: Duration::from_secs(15),
            request_timeout: Duration::from_mins(2),
            connections: 10_000,
            retry_after: Duration::from_secs(1),
            concurrent_runs: 64,
            waiting_runs: 2_000,
            queued_runs: 10_000,
            run_retention: Duration::ZERO,
            runs_per_test: 1_000_000,
            late_window: Duration::from_mins(1),
            prompt_settle: None,
            uninstrumented: Vec::new(),
            audit_retention: Duration::from_hours(24 * 90),
            audit_entries: 100_000,
            commands: false,
            deny: Deny::default(),
            verify_certificates: false,
            reply_bytes: 16 * MIB,
        }
    }
}
