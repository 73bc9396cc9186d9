//! The answers of data stores, converted without a connection: for tests against recorded answers, and for fuzzing.

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;

use super::search::{Layout, Page};
use super::xray::segment;
use super::{azure, clickhouse, signalfx, sumo_logic, tempo};
use crate::base::decode::{Allowance, DecodeError};

/// The kind of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreAnswer {
    /// Tempo over HTTP.
    Tempo,
    /// A page of an OpenSearch index.
    OpenSearch,
    /// A page of an Elastic APM index.
    ElasticApm,
    /// A segment of SignalFx.
    SignalFx,
    /// A page of the table of ClickHouse.
    ClickHouse,
    /// The tables of Application Insights.
    Azure,
    /// A span of Sumo Logic, as `{"summary": ..., "details": ...}`.
    SumoLogic,
    /// A segment document of X-Ray.
    XRay,
}

impl StoreAnswer {
    /// Converts the body of an answer to spans.
    pub fn read(self, content_type: &str, body: Bytes) -> Result<ExportTraceServiceRequest, String> {
        let room = &mut Allowance::new(u64::MAX);
        let documents = |layout: Layout, room: &mut Allowance| {
            Page::read(&body, room).and_then(|page| layout.read(page.into_documents(), room))
        };
        let read = match self {
            Self::Tempo => tempo::read(content_type, body, room),
            Self::OpenSearch => documents(Layout::OpenSearch, room),
            Self::ElasticApm => documents(Layout::ElasticApm, room),
            Self::SignalFx => signalfx::read(&body, room),
            Self::ClickHouse => clickhouse::Page::read(&body, room).map(|page| page.spans),
            Self::Azure => azure::read(&body, room).map(|(_, spans)| spans),
            Self::SumoLogic => sumo_logic::read(&body, room),
            Self::XRay => segment::read(&String::from_utf8_lossy(&body), room),
        };
        read.map_err(|error: DecodeError| error.to_string())
    }
}
