//! Ten thousand invalid OTLP requests, each refused correctly; and everything that is accepted can be decoded.

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use proptest::prelude::*;
use prost::Message;
use qualitytrace_server::base::limits::Limits;
use qualitytrace_server::receive::ingest::{Budget, Lease};
use qualitytrace_server::receive::otlp::wire;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE};

use crate::otlp::Fixture;
use crate::requests;

proptest! {
    #[test]
    fn what_is_accepted_can_be_decoded(flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6), cut in any::<prop::sample::Index>()) {
        let mut body = requests::spans(&[[1; 16], [2; 16]]).encode_to_vec();
        for (at, byte) in flips {
            let at = at.index(body.len());
            body[at] = byte;
        }
        body.truncate(cut.index(body.len()) + 1);
        let body = Bytes::from(body);
        let decoded = ExportTraceServiceRequest::decode(body.clone());
        if let Ok(split) = wire::split_traces(&body, &mut lease()) {
            prop_assert!(decoded.is_ok(), "{decoded:?}");
            for chunk in split.chunks {
                prop_assert!(ExportTraceServiceRequest::decode(chunk.data).is_ok());
            }
        }
    }

    #[test]
    fn splitting_keeps_every_span(traces in prop::collection::vec(1u8..5, 0..20)) {
        let ids: Vec<[u8; 16]> = traces.iter().map(|trace| [*trace; 16]).collect();
        let request = requests::spans(&ids);
        let split = wire::split_traces(&request.encode_to_vec().into(), &mut lease()).unwrap();
        let total: usize = split.chunks.iter().map(|chunk| {
            let part = ExportTraceServiceRequest::decode(chunk.data.clone()).unwrap();
            let spans = &part.resource_spans[0].scope_spans[0].spans;
            assert!(spans.iter().all(|span| span.trace_id == chunk.trace.to_bytes()));
            assert_eq!(part.resource_spans[0].resource, request.resource_spans[0].resource);
            assert_eq!(part.resource_spans[0].scope_spans[0].scope, request.resource_spans[0].scope_spans[0].scope);
            spans.len()
        }).sum();
        prop_assert_eq!(total, traces.len());
    }
}

fn lease() -> Lease {
    Budget::new(1 << 20).lease().unwrap()
}

/// Set in the child process, whose memory is measured.
const ALONE: &str = "QUALITYTRACE_TEST_ALONE";

/// Runs the work of the test with this name in a child process, because its memory is measured.
pub(crate) async fn alone(name: &str, work: impl Future<Output = ()>) {
    if std::env::var_os(ALONE).is_some() {
        return work.await;
    }
    let alone = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env(ALONE, "yes")
        .output()
        .await
        .unwrap();
    let told = String::from_utf8_lossy(&alone.stdout);
    assert!(alone.status.success() && told.contains("1 passed"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_malformed_requests_get_an_error_each() {
    let name = "malformed::ten_thousand_malformed_requests_get_an_error_each";
    alone(name, send_ten_thousand()).await;
}

async fn send_ten_thousand() {
    let limits = Limits { decompressed_bytes: 1024 * 1024, ..Limits::default() };
    let fixture = std::sync::Arc::new(Fixture::start(limits).await);
    let before = memory_kib("VmRSS");
    let senders = (0..8).map(|sender| {
        let fixture = std::sync::Arc::clone(&fixture);
        tokio::spawn(async move {
            for number in 0..1_250 {
                let (headers, body) = malformed(sender * 1_250 + number);
                let answer = fixture.post("/v1/traces", &headers, body).await;
                assert!([400, 413, 415].contains(&answer.status), "request {number} of {sender}: {answer:?}");
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.unwrap();
    }
    let growth = memory_kib("VmRSS").saturating_sub(before);
    assert!(growth < 100 * 1024, "memory grew by {growth} KiB");
    let fine = requests::spans(&[[1; 16]]).encode_to_vec();
    assert_eq!(
        fixture.post("/v1/traces", &[(CONTENT_TYPE, "application/x-protobuf")], fine).await.status,
        200
    );
}

type Headers = Vec<(reqwest::header::HeaderName, &'static str)>;

/// Returns the n-th invalid request: truncated, of a wrong type, nested too deeply, a decompression bomb, or
/// mislabelled.
fn malformed(number: usize) -> (Headers, Vec<u8>) {
    let good = requests::spans(&[[1; 16], [2; 16]]).encode_to_vec();
    let protobuf = vec![(CONTENT_TYPE, "application/x-protobuf")];
    let json = vec![(CONTENT_TYPE, "application/json")];
    let gzip = vec![(CONTENT_TYPE, "application/x-protobuf"), (CONTENT_ENCODING, "gzip")];
    let zstd = vec![(CONTENT_TYPE, "application/x-protobuf"), (CONTENT_ENCODING, "zstd")];
    match number % 10 {
        0 => (protobuf, good[..good.len() - 1 - number % (good.len() - 10)].to_vec()),
        1 => (protobuf, vec![0x0a, 0x03, 0x12, 0x05, number.to_le_bytes()[0]]),
        2 => (protobuf, wrong_wire_type(good)),
        3 => (protobuf, deep(number % 1_000 + 100)),
        4 => (json, format!("{}1", "[".repeat(number % 5_000 + 1)).into_bytes()),
        5 => (json, br#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"startTimeUnixNano":{}}]}]}]}"#.to_vec()),
        6 => (gzip, good),
        7 => (gzip, crate::malformed::bomb()),
        8 => (zstd, good),
        _ => (vec![(CONTENT_TYPE, "application/xml")], good),
    }
}

/// Turns the first span's name (field 5, text) into a number.
fn wrong_wire_type(mut good: Vec<u8>) -> Vec<u8> {
    let name = good.windows(6).position(|bytes| bytes == b"span 1").unwrap();
    good[name - 2] = 5 << 3;
    good
}

/// Encodes a span with so many nested lists.
fn deep(levels: usize) -> Vec<u8> {
    let value = (0..levels).fold(Vec::new(), |inner, _| wrap(5, wrap(1, inner)));
    [9, 2, 2, 1].into_iter().fold(wrap(2, value), |inner, field| wrap(field, inner))
}

/// Encodes a length-delimited field.
pub(crate) fn wrap(field: u8, inner: Vec<u8>) -> Vec<u8> {
    let mut outer = vec![field << 3 | 2];
    prost::encode_length_delimiter(inner.len(), &mut outer).unwrap();
    outer.extend(inner);
    outer
}

/// A small gzip body that decompresses to a hundred megabytes of zeros.
fn bomb() -> Vec<u8> {
    use std::io::Write;
    static BOMB: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        for _ in 0..100 {
            encoder.write_all(&vec![0; 1024 * 1024]).unwrap();
        }
        encoder.finish().unwrap()
    });
    BOMB.clone()
}

/// The memory of this process: what is resident (`VmRSS`), or was at its peak (`VmHWM`).
pub(crate) fn memory_kib(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0");
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap_or(0)
}
