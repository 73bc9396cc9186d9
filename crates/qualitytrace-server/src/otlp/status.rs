//! Protobuf responses that both protocols share.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use prost::Message;

use crate::ingest::Accepted;

/// The gRPC status codes of our responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    InvalidArgument = 3,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Unavailable = 14,
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<Delay>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Delay {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

impl Status {
    pub(super) fn new(code: Code, message: &str) -> Self {
        Self { code: code as i32, message: message.to_owned(), details: Vec::new() }
    }

    /// Adds a `RetryInfo` with this delay.
    pub(super) fn retry_after(mut self, delay: Duration) -> Self {
        let delay = Delay {
            seconds: i64::try_from(delay.as_secs()).unwrap_or(i64::MAX),
            nanos: i32::try_from(delay.subsec_nanos()).unwrap_or(0),
        };
        self.details.push(Any {
            type_url: "type.googleapis.com/google.rpc.RetryInfo".to_owned(),
            value: RetryInfo { retry_delay: Some(delay) }.encode_to_vec(),
        });
        self
    }
}

/// Encodes the response to an accepted request. The response messages of the three signals have the same encoding.
pub(super) fn response_message(accepted: &Accepted) -> Vec<u8> {
    let partial =
        (accepted.rejected > 0 || !accepted.message.is_empty()).then(|| ExportTracePartialSuccess {
            rejected_spans: i64::try_from(accepted.rejected).unwrap_or(i64::MAX),
            error_message: accepted.message.clone(),
        });
    ExportTraceServiceResponse { partial_success: partial }.encode_to_vec()
}
