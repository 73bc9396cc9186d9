//! Interpretation of a receiver's response, as OTLP specifies it. Pure.

use std::time::Duration;

use prost::Message;
use tonic_types::Status;
use tonic_types::pb::RetryInfo;

/// The outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Accepted, except for `rejected` items; the message is a warning or a reason.
    Accepted { rejected: u64, message: String },
    /// Failed for now: to be retried.
    Retry { after: Option<Duration>, reason: String },
    /// Refused for good.
    Refused { reason: String },
    /// Refused for lack of authorization.
    Unauthorized { reason: String },
    /// Refused because of its size; to be split.
    TooLarge { reason: String },
}

/// The shape of all three export responses.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Response {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected: i64,
    #[prost(string, tag = "2")]
    message: String,
}

/// Reads a success response. Bytes that are no such message do not come from a collector, so the items are retried.
pub(crate) fn success(body: &[u8]) -> Answer {
    match Response::decode(body) {
        Ok(response) => {
            let partial = response.partial_success.unwrap_or_default();
            let rejected = u64::try_from(partial.rejected).unwrap_or(0);
            Answer::Accepted { rejected, message: partial.message }
        }
        Err(_) => Answer::Retry { after: None, reason: "the answer is not OTLP".to_owned() },
    }
}

/// Interprets an HTTP response; `retry_after` is the header's text.
pub(crate) fn http(status: u16, content_type: &str, retry_after: Option<&str>, body: &[u8]) -> Answer {
    let reason = || {
        let text = if content_type.starts_with("application/x-protobuf") {
            Status::decode(body).map(|status| status.message).unwrap_or_default()
        } else {
            String::from_utf8_lossy(&body[..body.len().min(200)]).trim().to_owned()
        };
        if text.is_empty() { format!("HTTP {status}") } else { format!("HTTP {status}: {text}") }
    };
    match status {
        200..=299 if body.is_empty() => Answer::Accepted { rejected: 0, message: String::new() },
        200..=299 if content_type.starts_with("application/json") => json_success(body),
        200..=299 if content_type.starts_with("application/x-protobuf") || content_type.is_empty() => {
            success(body)
        }
        200..=299 => {
            Answer::Retry { after: None, reason: format!("the answer is not OTLP but `{content_type}`") }
        }
        401 | 403 => Answer::Unauthorized { reason: reason() },
        413 => Answer::TooLarge { reason: reason() },
        429 | 502..=504 => {
            let seconds = retry_after.and_then(|text| text.trim().parse::<f64>().ok());
            let after = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            Answer::Retry { after, reason: reason() }
        }
        _ => Answer::Refused { reason: reason() },
    }
}

fn json_success(body: &[u8]) -> Answer {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(body) else {
        return Answer::Retry { after: None, reason: "the answer is not OTLP".to_owned() };
    };
    let partial = &value["partialSuccess"];
    let rejected = ["rejectedSpans", "rejectedDataPoints", "rejectedLogRecords"]
        .iter()
        .find_map(|key| partial[key].as_u64().or_else(|| partial[key].as_str()?.parse().ok()))
        .unwrap_or(0);
    Answer::Accepted { rejected, message: partial["errorMessage"].as_str().unwrap_or_default().to_owned() }
}

/// Interprets a gRPC status that the receiver sent.
pub(crate) fn grpc(code: i32, message: &str, details: &[u8]) -> Answer {
    let reason = format!("gRPC status {code}: {message}");
    let hint = retry_info(details);
    match code {
        // cancelled, deadline exceeded, aborted, out of range, unavailable, data loss
        1 | 4 | 10 | 11 | 14 | 15 => Answer::Retry { after: hint, reason },
        8 if hint.is_some() => Answer::Retry { after: hint, reason },
        8 if message.contains("larger than max") || message.contains("too large") => {
            Answer::TooLarge { reason }
        }
        // permission denied, unauthenticated
        7 | 16 => Answer::Unauthorized { reason },
        _ => Answer::Refused { reason },
    }
}

fn retry_info(details: &[u8]) -> Option<Duration> {
    let status = Status::decode(details).ok()?;
    let info = status.details.iter().find(|any| any.type_url.ends_with("google.rpc.RetryInfo"))?;
    let delay = RetryInfo::decode(&*info.value).ok()?.retry_delay.unwrap_or_default();
    let seconds = u64::try_from(delay.seconds).ok()?;
    Some(Duration::new(seconds, u32::try_from(delay.nanos).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::{Answer, Duration, Message as _, Status, grpc, http};

    /// The kind of an answer in one word, for assertions.
    fn kind(answer: &Answer) -> &'static str {
        match answer {
            Answer::Accepted { .. } => "ok",
            Answer::Retry { .. } => "retry",
            Answer::Refused { .. } => "refused",
            Answer::Unauthorized { .. } => "unauthorized",
            Answer::TooLarge { .. } => "large",
        }
    }

    #[test]
    fn http_answers_mean_what_otlp_says() {
        for (status, expected) in [
            (200, "ok"),
            (202, "ok"),
            (301, "refused"),
            (400, "refused"),
            (401, "unauthorized"),
            (403, "unauthorized"),
            (404, "refused"),
            (413, "large"),
            (429, "retry"),
            (500, "refused"),
            (501, "refused"),
            (502, "retry"),
            (503, "retry"),
            (504, "retry"),
        ] {
            assert_eq!(kind(&http(status, "", None, b"")), expected, "{status}");
        }
        assert_eq!(kind(&http(200, "text/html", None, b"<html>")), "retry");
        assert_eq!(kind(&http(200, "application/x-protobuf", None, b"\xff\xff")), "retry");
        let Answer::Retry { after, .. } = http(503, "", Some("7"), b"") else { panic!() };
        assert_eq!(after, Some(Duration::from_secs(7)));
        let body = br#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"no"}}"#;
        assert_eq!(
            http(200, "application/json", None, body),
            Answer::Accepted { rejected: 3, message: "no".to_owned() }
        );
    }

    #[test]
    fn grpc_codes_mean_what_otlp_says() {
        let retryable = [1, 4, 10, 11, 14, 15];
        for code in 1..=16 {
            let expected = match code {
                7 | 16 => "unauthorized",
                code if retryable.contains(&code) => "retry",
                _ => "refused",
            };
            assert_eq!(kind(&grpc(code, "", b"")), expected, "{code}");
        }
        let mut status = Status { code: 8, ..Status::default() };
        status.details.resize_with(1, Default::default);
        status.details[0].type_url = "type.googleapis.com/google.rpc.RetryInfo".to_owned();
        // The field `retry_delay`, of two seconds.
        status.details[0].value = vec![0x0a, 2, 0x08, 2];
        let Answer::Retry { after, .. } = grpc(8, "", &status.encode_to_vec()) else { panic!() };
        assert_eq!(after, Some(Duration::from_secs(2)));
        assert_eq!(kind(&grpc(8, "grpc: received message larger than max (5 vs. 4)", b"")), "large");
    }
}
