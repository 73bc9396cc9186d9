//! What a data store returned of a trace, on its way into the ingest.
//!
//! A store returns the whole trace with every answer. Only spans that are new, or that changed, are stored, and only
//! spans of the trace that was asked for: an answer cannot write into another trace.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;
use qualitytrace_core::id::TraceId;

use super::error::FetchError;
use crate::base::compute;
use crate::outbound::trigger::{Reason, TriggerError};
use crate::receive::ingest::Ingest;
use crate::receive::otlp::{SpanFileError, store_fetched};

/// The encoded size from which collected spans are stored.
const BATCH_BYTES: usize = 4 << 20;
/// Answers that are remembered, to recognize repeated ones without decoding them.
const KNOWN_ANSWERS: usize = 4_096;
/// The beginning of attributes that Jaeger adds: its warnings on a span, more of them with every answer.
const JAEGER_NOTE: &str = "@jaeger@";

/// The spans of a trace that were stored already.
#[derive(Debug, Default)]
pub(crate) struct StoredSpans {
    /// The content of each span, by its id.
    spans: HashMap<Vec<u8>, u64>,
    /// Whole answers.
    answers: HashSet<u64>,
}

/// Stores what a data store returns of one trace.
#[derive(Debug)]
pub(crate) struct Received<'a> {
    ingest: &'a Arc<Ingest>,
    sender: &'a str,
    trace: TraceId,
    is_live: bool,
    known: &'a mut StoredSpans,
    batch: ExportTraceServiceRequest,
    batch_bytes: usize,
    /// The spans of the batch, with their content.
    batched: Vec<(Vec<u8>, u64)>,
    /// Answers that are known once they are stored.
    answers: Vec<u64>,
    new: u64,
}

impl<'a> Received<'a> {
    /// Receives spans of this trace from the data store `sender`. `is_live` says whether they tell how late their
    /// services deliver.
    pub(crate) fn new(
        ingest: &'a Arc<Ingest>,
        sender: &'a str,
        trace: TraceId,
        is_live: bool,
        known: &'a mut StoredSpans,
    ) -> Self {
        Self {
            ingest,
            sender,
            trace,
            is_live,
            known,
            batch: ExportTraceServiceRequest::default(),
            batch_bytes: 0,
            batched: Vec::new(),
            answers: Vec::new(),
            new: 0,
        }
    }

    /// The trace that is asked for.
    pub(crate) fn trace(&self) -> TraceId {
        self.trace
    }

    /// Whether a span is stored already.
    pub(crate) fn knows(&self, span: &[u8]) -> bool {
        self.known.spans.contains_key(span)
    }

    /// Whether an answer differs from those before. One that does not has nothing new.
    pub(crate) fn is_new(&mut self, answer: &[u8]) -> bool {
        let hash = hash_of(&[answer]);
        if self.known.answers.contains(&hash) {
            return false;
        }
        self.answers.push(hash);
        true
    }

    /// Adds spans.
    pub(crate) async fn add(&mut self, request: ExportTraceServiceRequest) -> Result<(), FetchError> {
        for of_resource in request.resource_spans {
            let ResourceSpans { resource, scope_spans, schema_url } = of_resource;
            let encoded = resource.as_ref().map(prost::Message::encode_to_vec).unwrap_or_default();
            for of_scope in scope_spans {
                let ScopeSpans { scope, spans, schema_url: of_schema } = of_scope;
                let scope_encoded = scope.as_ref().map(prost::Message::encode_to_vec).unwrap_or_default();
                let mut spans = spans.into_iter().peekable();
                while spans.peek().is_some() {
                    let mut kept = Vec::new();
                    let limit = BATCH_BYTES.saturating_sub(self.batch_bytes);
                    let mut bytes = 0;
                    for span in spans.by_ref() {
                        if let Some((span, size)) = self.wanted(span, &encoded, &scope_encoded) {
                            bytes += size;
                            kept.push(span);
                        }
                        if bytes >= limit {
                            break;
                        }
                    }
                    if kept.is_empty() {
                        continue;
                    }
                    self.batch_bytes += bytes + encoded.len() + scope_encoded.len();
                    self.batch.resource_spans.push(ResourceSpans {
                        resource: resource.clone(),
                        scope_spans: vec![ScopeSpans {
                            scope: scope.clone(),
                            spans: kept,
                            schema_url: of_schema.clone(),
                        }],
                        schema_url: schema_url.clone(),
                    });
                    if self.batch_bytes >= BATCH_BYTES {
                        self.store().await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Stores what is left. Returns the number of spans that are new.
    pub(crate) async fn finish(mut self) -> Result<u64, FetchError> {
        self.store().await?;
        if self.known.answers.len() + self.answers.len() > KNOWN_ANSWERS {
            self.known.answers.clear();
        }
        self.known.answers.extend(self.answers);
        Ok(self.new)
    }

    /// Returns a span that is to be stored, with its encoded size.
    fn wanted(&mut self, mut span: Span, resource: &[u8], scope: &[u8]) -> Option<(Span, usize)> {
        let wanted = self.trace.to_bytes();
        let is_short = |id: &[u8]| id.len() == 8 && *id == wanted[8..];
        let is_padded = |id: &[u8]| id.len() == 16 && id[..8] == [0; 8] && id[8..] == wanted[8..];
        let id = span.trace_id.as_slice();
        if id != wanted && !id.is_empty() && !is_short(id) && !is_padded(id) {
            return None;
        }
        span.trace_id = wanted.to_vec();
        span.attributes.retain(|attribute| !attribute.key.starts_with(JAEGER_NOTE));
        let encoded = span.encode_to_vec();
        let content = hash_of(&[&encoded, resource, scope]);
        if self.known.spans.get(&span.span_id) == Some(&content) {
            return None;
        }
        if !span.span_id.is_empty() {
            self.batched.push((span.span_id.clone(), content));
        }
        Some((span, encoded.len()))
    }

    /// Stores what was added so far.
    pub(crate) async fn store(&mut self) -> Result<(), FetchError> {
        let request = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        if request.resource_spans.is_empty() {
            return Ok(());
        }
        let is_new = |(id, _): &&(Vec<u8>, u64)| !self.known.spans.contains_key(id);
        let count = self.batched.iter().filter(is_new).count() as u64;
        compute::give_way().await;
        let message = request.encode_to_vec().into();
        let sender = format!("the data store {}", self.sender);
        match store_fetched(self.ingest, sender, message, self.is_live).await {
            // What the limits refuse is counted there, and stays refused.
            Ok(_) | Err(SpanFileError::Refused { .. }) => {
                self.new += count;
                self.known.spans.extend(self.batched.drain(..));
                Ok(())
            }
            Err(SpanFileError::Later(message)) => {
                Err(FetchError::passing(TriggerError::told(Reason::Timeout, message)))
            }
        }
    }
}

fn hash_of(parts: &[&[u8]]) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}
