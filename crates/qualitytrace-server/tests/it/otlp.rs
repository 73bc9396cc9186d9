//! OTLP over real sockets, as exporters speak it.

use std::io::Write;
use std::net::SocketAddr;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use prost::Message;
use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::Trace;
use qualitytrace_server::base::limits::Limits;
use qualitytrace_server::config::Config;
use qualitytrace_server::receive::otlp::convert;
use qualitytrace_server::receive::source;
use qualitytrace_server::serve::server::Server;
use qualitytrace_server::storage::store::Signal;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use tonic::codec::CompressionEncoding;
use tonic::transport::Channel;

use crate::databases::Database;
use crate::requests;

const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";

pub(crate) struct Fixture {
    pub(crate) server: Server,
    pub(crate) database: Database,
    pub(crate) client: reqwest::Client,
}

impl Fixture {
    pub(crate) async fn start(limits: Limits) -> Self {
        let database = Database::named_memory();
        let server = start(&database, limits).await;
        // Fails only when a provider is installed already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self { server, database, client: crate::client() }
    }

    fn http(&self) -> SocketAddr {
        self.server.addresses().http
    }

    async fn grpc(&self) -> Channel {
        let address = self.server.addresses().otlp_grpc.unwrap();
        Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
    }

    pub(crate) async fn post(
        &self,
        path: &str,
        headers: &[(reqwest::header::HeaderName, &str)],
        body: Vec<u8>,
    ) -> Answer {
        let mut request = self.client.post(format!("http://{}{path}", self.http())).body(body);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let response = request.send().await.unwrap();
        let header = |name| {
            response.headers().get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
        };
        Answer {
            status: response.status().as_u16(),
            content_type: header(CONTENT_TYPE),
            retry_after: header(RETRY_AFTER),
            body: response.bytes().await.unwrap().to_vec(),
        }
    }

    async fn trace(&self, id: [u8; 16]) -> Trace {
        source::load(&self.database.open().await, TraceId::from_bytes(id).unwrap()).await.unwrap()
    }
}

async fn start(database: &Database, limits: Limits) -> Server {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = Config {
        http: any,
        otlp_grpc: Some(any),
        otlp_http: Some(any),
        database_url: database.url.clone(),
        limits,
        ..Config::default()
    };
    Server::start(config).await.unwrap()
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) retry_after: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

pub(crate) fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

/// Returns the trace that the server is expected to store, converted by the core.
fn expected(request: &ExportTraceServiceRequest, id: [u8; 16]) -> Trace {
    let id = TraceId::from_bytes(id).unwrap();
    let spans = convert::spans(request.clone())
        .into_iter()
        .filter(|(trace, _)| *trace == Some(id))
        .map(|(_, span)| span);
    Trace::assemble(id, spans)
}

#[tokio::test]
async fn every_protocol_and_encoding_keeps_every_field() {
    let fixture = Fixture::start(Limits::default()).await;
    let requests: Vec<_> =
        (1..=8).map(|trace| requests::spans(&[[trace; 16], [99; 16], [trace; 16]])).collect();
    let body = |at: usize| requests[at].encode_to_vec();
    let json = |at: usize| serde_json::to_vec(&requests[at]).unwrap();
    let answers = [
        fixture.post("/v1/traces", &[(CONTENT_TYPE, PROTOBUF)], body(0)).await,
        fixture
            .post("/v1/traces", &[(CONTENT_TYPE, PROTOBUF), (CONTENT_ENCODING, "gzip")], gzip(&body(1)))
            .await,
        fixture
            .post(
                "/v1/traces",
                &[(CONTENT_TYPE, PROTOBUF), (CONTENT_ENCODING, "zstd")],
                zstd::encode_all(&body(2)[..], 3).unwrap(),
            )
            .await,
        fixture.post("/v1/traces", &[(CONTENT_TYPE, "application/json; charset=utf-8")], json(3)).await,
        fixture.post("/v1/traces", &[(CONTENT_TYPE, JSON), (CONTENT_ENCODING, "gzip")], gzip(&json(4))).await,
    ];
    for answer in answers {
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let channel = fixture.grpc().await;
    for (at, encoding) in
        [(5, None), (6, Some(CompressionEncoding::Gzip)), (7, Some(CompressionEncoding::Zstd))]
    {
        let mut client = TraceServiceClient::new(channel.clone());
        if let Some(encoding) = encoding {
            client = client.send_compressed(encoding);
        }
        let answer = client.export(requests[at].clone()).await.unwrap().into_inner();
        assert_eq!(answer, ExportTraceServiceResponse::default());
    }
    for (request, id) in requests.iter().zip(1..) {
        assert_eq!(fixture.trace([id; 16]).await.spans(), expected(request, [id; 16]).spans(), "trace {id}");
    }
    assert_eq!(fixture.trace([99; 16]).await.spans().len(), 1, "eight copies of one span are one span");
    fixture.server.shutdown().await;
}

#[tokio::test]
async fn the_answer_has_the_content_type_of_the_request() {
    let fixture = Fixture::start(Limits::default()).await;
    let request = requests::spans(&[[1; 16]]);
    let protobuf = fixture.post("/v1/traces", &[(CONTENT_TYPE, PROTOBUF)], request.encode_to_vec()).await;
    assert_eq!((protobuf.content_type.as_str(), protobuf.body.len()), (PROTOBUF, 0));
    let json =
        fixture.post("/v1/traces", &[(CONTENT_TYPE, JSON)], serde_json::to_vec(&request).unwrap()).await;
    assert_eq!((json.content_type.as_str(), json.text().as_str()), (JSON, "{}"));
    let empty = fixture.post("/v1/traces", &[(CONTENT_TYPE, PROTOBUF)], vec![]).await;
    assert_eq!(empty.status, 200, "an empty request is a success");
}

#[tokio::test]
async fn spans_without_a_trace_are_rejected_and_counted_and_the_others_stay() {
    let fixture = Fixture::start(Limits::default()).await;
    let mut request = requests::spans(&[[1; 16], [0; 16], [2; 16]]);
    request.resource_spans[0].scope_spans[0].spans[2].trace_id = vec![2; 7];
    let json =
        fixture.post("/v1/traces", &[(CONTENT_TYPE, JSON)], serde_json::to_vec(&request).unwrap()).await;
    assert_eq!(
        json.text(),
        r#"{"partialSuccess":{"rejectedSpans":"2","errorMessage":"2 spans have no valid trace id"}}"#
    );
    let mut client = TraceServiceClient::new(fixture.grpc().await);
    let answer = client.export(request).await.unwrap().into_inner().partial_success.unwrap();
    assert_eq!((answer.rejected_spans, answer.error_message.as_str()), (2, "2 spans have no valid trace id"));
    assert_eq!(fixture.trace([1; 16]).await.spans().len(), 1);
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_in_words() {
    let limits = Limits { body_bytes: 10_000, decompressed_bytes: 20_000, ..Limits::default() };
    let fixture = Fixture::start(limits).await;
    let check =
        async |headers: &[(reqwest::header::HeaderName, &str)], body: Vec<u8>, expected: (u16, &str)| {
            let answer = fixture.post("/v1/traces", headers, body).await;
            assert_eq!((answer.status, answer.text().as_str()), expected);
        };
    let json = &[(CONTENT_TYPE, JSON)][..];
    check(json, b"{".to_vec(), (400, r#"{"code":3,"message":"the body is not valid OTLP JSON: EOF while parsing an object at line 1 column 1"}"#)).await;
    check(
        json,
        vec![b' '; 10_001],
        (
            413,
            r#"{"code":3,"message":"the body is larger than the limit of 10000 bytes (limits.bodyBytes)"}"#,
        ),
    )
    .await;
    check(
        &[(CONTENT_TYPE, JSON), (CONTENT_ENCODING, "gzip")],
        gzip(&vec![b' '; 50_000]),
        (413, r#"{"code":3,"message":"the body is larger than the limit of 20000 bytes (limits.decompressedBytes)"}"#),
    )
    .await;
    check(
        &[(CONTENT_TYPE, "text/plain")],
        b"x".to_vec(),
        (415, r#"{"code":3,"message":"content type `text/plain` is not supported: send application/x-protobuf or application/json"}"#),
    )
    .await;
    check(
        &[(CONTENT_TYPE, JSON), (CONTENT_ENCODING, "br")],
        b"x".to_vec(),
        (415, r#"{"code":3,"message":"content encoding `br` is not supported: use one of identity, gzip, zstd"}"#),
    )
    .await;
    let answer = fixture.post("/v1/traces", &[(CONTENT_TYPE, PROTOBUF)], vec![0xff, 0xff]).await;
    assert_eq!((answer.status, answer.content_type.as_str()), (400, PROTOBUF));
    assert_eq!(
        String::from_utf8_lossy(&answer.body[4..]),
        "the body is not a valid OTLP request: the message ends in the middle of `ExportTraceServiceRequest`"
    );
}

#[tokio::test]
async fn a_full_store_asks_to_come_back_later() {
    let limits = Limits { retained_bytes: 100, ..Limits::default() };
    let fixture = Fixture::start(limits).await;
    let send = async |trace| {
        fixture
            .post("/v1/traces", &[(CONTENT_TYPE, PROTOBUF)], requests::spans(&[[trace; 16]]).encode_to_vec())
            .await
    };
    assert_eq!(send(1).await.status, 200);
    let refused = send(2).await;
    assert_eq!((refused.status, refused.retry_after.as_str()), (429, "1"));
    let status =
        TraceServiceClient::new(fixture.grpc().await).export(requests::spans(&[[3; 16]])).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    let details = String::from_utf8_lossy(status.details()).into_owned();
    assert!(details.contains("google.rpc.RetryInfo"), "{details}");
    assert_eq!(fixture.trace([2; 16]).await.spans().len(), 0);
}

#[tokio::test]
async fn what_would_never_fit_into_the_budget_is_refused_for_good() {
    let limits = Limits { ingest_bytes: 1_024, ..Limits::default() };
    let fixture = Fixture::start(limits).await;
    let answer = fixture
        .post("/v1/traces", &[(CONTENT_TYPE, PROTOBUF)], requests::spans(&[[1; 16]; 20]).encode_to_vec())
        .await;
    assert_eq!((answer.status, answer.retry_after.as_str()), (413, ""));
    assert!(answer.text().contains("limits.ingestBytes"), "{}", answer.text());
    let mut client = TraceServiceClient::new(fixture.grpc().await);
    let status = client.export(requests::spans(&[[1; 16]; 20])).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
}

#[tokio::test]
async fn a_crowded_trace_loses_its_new_spans_and_says_so() {
    let limits = Limits { spans_per_trace: 3, ..Limits::default() };
    let fixture = Fixture::start(limits).await;
    let send = async |traces: &[[u8; 16]]| {
        fixture
            .post(
                "/v1/traces",
                &[(CONTENT_TYPE, JSON)],
                serde_json::to_vec(&requests::spans(traces)).unwrap(),
            )
            .await
            .text()
    };
    assert_eq!(send(&[[1; 16], [1; 16]]).await, "{}");
    assert_eq!(
        send(&[[1; 16], [2; 16], [1; 16]]).await,
        r#"{"partialSuccess":{"rejectedSpans":"2","errorMessage":"2 spans are beyond the limit of 3 in one trace (limits.spansPerTrace)"}}"#
    );
    assert_eq!(fixture.trace([2; 16]).await.spans().len(), 1);
}

#[tokio::test]
async fn logs_are_kept_by_trace_and_metrics_are_counted() {
    let fixture = Fixture::start(Limits::default()).await;
    let record = |trace: Vec<u8>| LogRecord {
        trace_id: trace,
        severity_text: "INFO".to_owned(),
        ..LogRecord::default()
    };
    let scope = ScopeLogs { log_records: vec![record(vec![5; 16]), record(vec![])], ..ScopeLogs::default() };
    let logs = ExportLogsServiceRequest {
        resource_logs: vec![ResourceLogs { scope_logs: vec![scope], ..ResourceLogs::default() }],
    };
    let channel = fixture.grpc().await;
    LogsServiceClient::new(channel.clone()).export(logs).await.unwrap();
    MetricsServiceClient::new(channel).export(ExportMetricsServiceRequest::default()).await.unwrap();
    let store = fixture.database.open().await;
    let chunks = store
        .chunks(TraceId::from_bytes([5; 16]).unwrap(), Signal::Logs, Timestamp::default())
        .await
        .unwrap();
    assert_eq!(
        ExportLogsServiceRequest::decode(chunks[0].data.clone()).unwrap().resource_logs[0].scope_logs[0]
            .log_records
            .len(),
        1
    );
}

#[tokio::test]
async fn browsers_of_any_origin_may_send() {
    let fixture = Fixture::start(Limits::default()).await;
    let response = fixture
        .client
        .request(
            reqwest::Method::OPTIONS,
            format!("http://{}/v1/traces", fixture.server.addresses().otlp_http.unwrap()),
        )
        .header("origin", "https://shop.example")
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "content-type,x-tenant")
        .send()
        .await
        .unwrap();
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(
        (
            response.status().as_u16(),
            header("access-control-allow-origin"),
            header("access-control-allow-headers")
        ),
        (200, "*".to_owned(), "*".to_owned())
    );
}

#[tokio::test]
async fn an_unknown_grpc_method_is_unimplemented() {
    let fixture = Fixture::start(Limits::default()).await;
    let mut client = tonic::client::Grpc::new(fixture.grpc().await);
    client.ready().await.unwrap();
    let codec = tonic_prost::ProstCodec::<ExportTraceServiceRequest, ExportTraceServiceResponse>::default();
    let path = http::uri::PathAndQuery::from_static(
        "/opentelemetry.proto.collector.profiles.v1.ProfilesService/Export",
    );
    let request = tonic::Request::new(ExportTraceServiceRequest::default());
    let status = client.unary(request, path, codec).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unimplemented);
}

#[tokio::test]
async fn a_port_in_use_is_named_with_the_way_out() {
    let fixture = Fixture::start(Limits::default()).await;
    let taken = fixture.http();
    let config = Config { http: taken, otlp_grpc: None, otlp_http: None, ..Config::default() };
    assert_eq!(
        Server::start(config).await.unwrap_err().to_string(),
        format!(
            "the server cannot listen on {taken}: the port is in use; stop the other process or choose another with \
             --server.httpPort PORT"
        )
    );
}
