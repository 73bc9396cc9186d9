//! Protobuf responses that both protocols share.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use prost::Message;
use prost_types::Any;
use tonic::Code;
use tonic_types::Status;
use tonic_types::pb::RetryInfo;

use crate::receive::ingest::Accepted;

/// Encodes a `google.rpc.Status`, with a `RetryInfo` when the sender may retry after a delay.
pub(super) fn status_message(code: Code, message: &str, retry_after: Option<Duration>) -> Vec<u8> {
    let retry_info = retry_after.map(|delay| Any {
        type_url: tonic_types::RetryInfo::TYPE_URL.to_owned(),
        value: RetryInfo { retry_delay: delay.try_into().ok() }.encode_to_vec(),
    });
    let details = retry_info.into_iter().collect();
    Status { code: code as i32, message: message.to_owned(), details }.encode_to_vec()
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
