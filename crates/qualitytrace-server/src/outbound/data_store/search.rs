//! Search engines with an index of spans: OpenSearch and Elasticsearch.
//!
//! A trace that fits into one page takes one request. A larger one is read again with a scroll, page by page.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use qualitytrace_core::definition::Text;
use qualitytrace_core::definition::source::SearchIndex;
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answers::Answers;
use super::error::FetchError;
use super::http::{Answer, Http, MAX_PAGES, Settings};
use super::received::Received;
use super::{elastic, opensearch};
use crate::base::budget::Lease;
use crate::base::decode::{self, DecodeError, Room};
use crate::outbound::trigger::{Certificates, Endpoint, Gate, Reason, TriggerError};

/// Documents of one page.
const PAGE: usize = 1_000;
/// How long the engine keeps the state of a scroll between two pages.
const SCROLL: &str = "30s";
const JSON: &str = "application/json";

/// The layout of the documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    OpenSearch,
    ElasticApm,
}

impl Layout {
    /// The name of the engine, for messages.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::OpenSearch => "OpenSearch",
            Self::ElasticApm => "Elastic APM",
        }
    }

    /// The fields that hold the id of the trace.
    const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::OpenSearch => &["traceId", "traceID"],
            Self::ElasticApm => &["trace.id"],
        }
    }

    /// Converts documents to spans.
    pub(super) fn read(
        self,
        documents: Vec<Map<String, Value>>,
        room: &mut impl Room,
    ) -> Result<ExportTraceServiceRequest, DecodeError> {
        match self {
            Self::OpenSearch => opensearch::read(documents, room),
            Self::ElasticApm => elastic::read(&documents, room),
        }
    }
}

/// The client of an index.
#[derive(Debug)]
pub(super) struct Search {
    layout: Layout,
    nodes: Vec<Http>,
    /// The node to ask next.
    at: AtomicUsize,
    index: String,
    login: Option<(String, String)>,
}

/// A page of an answer.
#[derive(Debug, Deserialize)]
pub(super) struct Page {
    #[serde(rename = "_scroll_id")]
    scroll: Option<String>,
    #[serde(rename = "_shards", default)]
    shards: Shards,
    #[serde(default)]
    timed_out: bool,
    hits: Hits,
}

/// The parts of the index that were asked. One that is being started, or moved, is not successful.
#[derive(Debug, Default, Deserialize)]
struct Shards {
    #[serde(default)]
    total: u64,
    #[serde(default)]
    successful: u64,
}

#[derive(Debug, Deserialize)]
struct Hits {
    total: Option<Value>,
    hits: Vec<Hit>,
}

#[derive(Debug, Deserialize)]
struct Hit {
    #[serde(rename = "_source", default)]
    source: Map<String, Value>,
}

impl Page {
    /// Parses an answer.
    pub(super) fn read(body: &[u8], room: &mut impl Room) -> Result<Self, DecodeError> {
        decode::json(body, room)
    }

    /// Why the answer has not all documents that match, if it does not.
    fn gap(&self) -> Option<String> {
        let Shards { total, successful } = self.shards;
        if self.timed_out {
            return Some("its search was cut off by a timeout".to_owned());
        }
        (successful < total).then(|| format!("only {successful} of {total} shards answered"))
    }

    /// Whether there are more documents than these.
    fn has_more(&self) -> bool {
        let total = self.hits.total.as_ref();
        let total = total.and_then(|total| total.as_u64().or_else(|| total.get("value")?.as_u64()));
        total.is_some_and(|total| total > self.hits.hits.len() as u64)
    }

    /// Returns its documents.
    pub(super) fn into_documents(self) -> Vec<Map<String, Value>> {
        self.hits.hits.into_iter().map(|hit| hit.source).collect()
    }
}

impl Search {
    /// Creates the client.
    pub(super) fn new(
        layout: Layout,
        index: &SearchIndex,
        gate: &Gate,
        answers: &Answers,
    ) -> Result<Self, TriggerError> {
        let name = layout.name();
        let addresses = index.addresses.as_deref().unwrap_or_default();
        if addresses.iter().all(|address| address.trim().is_empty()) {
            return Err(TriggerError::invalid(format!(
                "the data store has no address of {name}; list it in `addresses`"
            )));
        }
        if index.index.trim().is_empty() {
            return Err(TriggerError::invalid(format!(
                "the data store has no index of {name}; write it in `index`"
            )));
        }
        let certificates = Certificates {
            verify: gate.verifies(!index.insecure_skip_verify),
            authorities: index.certificate.trim().to_owned(),
            ..Certificates::default()
        };
        let none: [(String, Text); 0] = [];
        let nodes = addresses.iter().filter(|address| !address.trim().is_empty()).map(|url| {
            let settings = Settings {
                name,
                url,
                setting: "the data store's addresses",
                headers: &none,
                certificates: certificates.clone(),
            };
            Http::new(&settings, gate, answers)
        });
        let login = (!index.username.is_empty()).then(|| (index.username.clone(), index.password.clone()));
        Ok(Self {
            layout,
            nodes: nodes.collect::<Result<_, _>>()?,
            at: AtomicUsize::new(0),
            index: index.index.trim().to_owned(),
            login,
        })
    }

    /// The name of the engine, for messages.
    pub(super) fn name(&self) -> &'static str {
        self.layout.name()
    }

    fn endpoint(&self) -> &Endpoint {
        self.node().endpoint()
    }

    /// Every peer.
    pub(super) fn endpoints(&self) -> Vec<&Endpoint> {
        self.nodes.iter().map(Http::endpoint).collect()
    }

    fn node(&self) -> &Http {
        &self.nodes[self.at.load(Ordering::Relaxed) % self.nodes.len()]
    }

    /// Fetches a trace.
    pub(super) async fn fetch(&self, received: &mut Received<'_>) -> Result<(), FetchError> {
        let id = received.trace().to_string();
        let matches: Vec<Value> =
            self.layout.fields().iter().map(|field| json!({ "match": { (*field): id } })).collect();
        let query = json!({
            "size": PAGE, "track_total_hits": true,
            "query": { "bool": { "should": matches, "minimum_should_match": 1 } },
        });
        let path = format!("/{}/_search", self.index);
        let answer = self.post(&path, &query).await?;
        if answer.is_missing() {
            return Err(self.no_index());
        }
        if !received.is_new(&answer.body) {
            return Ok(());
        }
        let page = self.page(answer).await?;
        if !page.0.has_more() {
            return self.add(page, received).await;
        }
        // Its memory is given back before the same documents come again.
        drop(page);
        let answer = self.post(&format!("{path}?scroll={SCROLL}"), &query).await?;
        let mut page = self.page(answer).await?;
        for _ in 0..MAX_PAGES {
            let scroll = page.0.scroll.take();
            if page.0.hits.hits.is_empty() {
                self.end(scroll).await;
                return Ok(());
            }
            self.add(page, received).await?;
            let Some(scroll) = scroll else { return Ok(()) };
            let next = json!({ "scroll": SCROLL, "scroll_id": scroll });
            page = self.page(self.post("/_search/scroll", &next).await?).await?;
        }
        self.end(page.0.scroll).await;
        Err(self.node().endless())
    }

    /// Ends a scroll. The engine forgets it by itself, only later.
    async fn end(&self, scroll: Option<String>) {
        let Some(scroll) = scroll else { return };
        let request = self.node().request(Method::DELETE, "/_search/scroll");
        let body = json!({ "scroll_id": [scroll] }).to_string();
        let _ = self.send(request.header(CONTENT_TYPE, JSON).body(body)).await;
    }

    /// Asks for the index. A pattern that matches none yet is no mistake: the first span creates it.
    pub(super) async fn probe(&self) -> Result<(), FetchError> {
        let path = format!("/{}/_search?size=0", self.index);
        let answer = self.post(&path, &json!({ "query": { "match_all": {} } })).await?;
        if answer.is_missing() {
            return Err(self.no_index());
        }
        self.page(answer).await.map(|_| ())
    }

    async fn add(
        &self,
        (page, mut lease): (Page, Lease),
        received: &mut Received<'_>,
    ) -> Result<(), FetchError> {
        let read = self.layout.read(page.into_documents(), &mut lease);
        received.add(read.map_err(|error| self.node().undecoded(error))?).await
    }

    /// Reads a page. One that has a part of the documents is none: what it lacks would be taken for absent.
    async fn page(&self, answer: Answer) -> Result<(Page, Lease), FetchError> {
        let read = |body: Bytes, lease: &mut Lease| Page::read(&body, lease);
        let (page, lease) = self.node().decode(answer, read).await?;
        let Some(gap) = page.gap() else { return Ok((page, lease)) };
        let (named, index) = (self.endpoint().named(), &self.index);
        let message = format!(
            "{named} has not read all of `{index}`: {gap}; repair these indices, or name others in the data store's `index`"
        );
        Err(FetchError::passing(TriggerError::told(Reason::Timeout, message)))
    }

    fn no_index(&self) -> FetchError {
        let cause = format!("no index `{}`; correct the data store's `index`", self.index);
        TriggerError::at(self.endpoint(), Reason::Missing, &cause).into()
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Answer, FetchError> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let mut tried = 0;
        loop {
            let node = self.node();
            let mut request = node.request(Method::POST, path);
            if !query.is_empty() {
                let pairs: Vec<(&str, &str)> =
                    query.split('&').filter_map(|pair| pair.split_once('=')).collect();
                request = request.query(&pairs);
            }
            let request = request.header(CONTENT_TYPE, JSON).body(body.to_string());
            match self.send(request).await {
                // Another node of the same cluster may answer.
                Err(error) if error.failure.reason.is_connection() && tried + 1 < self.nodes.len() => {
                    tried += 1;
                    self.at.fetch_add(1, Ordering::Relaxed);
                }
                answer => return answer,
            }
        }
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Answer, FetchError> {
        let request = match &self.login {
            Some((user, password)) => request.basic_auth(user, Some(password)),
            None => request,
        };
        self.node().send(request).await
    }
}
