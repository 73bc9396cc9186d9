//! A real OTLP receiver, gRPC and HTTP on one port, with configurable faults.

use std::{
    collections::BTreeMap,
    io::Read as _,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::{
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use opentelemetry_proto::tonic::{
    collector::{
        logs::v1::ExportLogsServiceRequest, metrics::v1::ExportMetricsServiceRequest,
        trace::v1::ExportTraceServiceRequest,
    },
    common::v1::{KeyValue, any_value::Value},
    logs::v1::LogRecord,
    metrics::v1::Metric,
    resource::v1::Resource,
    trace::v1::Span,
};
use prost::Message as _;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tokio::{net::TcpListener, runtime::Runtime};

/// What a receiver does with one request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fault {
    None,
    Delay,
    /// 429 or 503 with a hint; nothing is stored.
    Busy,
    /// The same with a hint of an hour.
    BusyForAnHour,
    Partial,
    /// Bytes that are no valid response; `true`: after storing.
    Garbage(bool),
    /// The connection is cut; `true`: after storing.
    Cut(bool),
    /// A response that forbids a retry.
    Refuse,
    /// 401 or its gRPC equivalent.
    Unauthorized,
    /// 413 or its gRPC equivalent when there are more than this many items.
    Larger(usize),
}

#[derive(Debug, Default, Clone)]
pub(crate) struct Got {
    pub(crate) spans: Vec<Span>,
    pub(crate) logs: Vec<LogRecord>,
    pub(crate) metrics: Vec<Metric>,
    pub(crate) resources: Vec<Resource>,
    /// The schemas of the resources of spans.
    pub(crate) schemas: Vec<String>,
    pub(crate) headers: Vec<HeaderMap>,
    pub(crate) paths: Vec<String>,
    pub(crate) requests: usize,
    /// Items that were refused in a partial success.
    pub(crate) rejected: Vec<i64>,
    /// Items that were stored without the sender knowing.
    pub(crate) unsure: BTreeMap<i64, usize>,
}

/// `google.rpc.Status` with a `RetryInfo` of an hour.
const RETRY_INFO: &str = "CA4aMQoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIFCgMIkBw";

type Choose = dyn FnMut() -> Fault + Send;

pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    got: Arc<Mutex<Got>>,
    runtime: Option<Runtime>,
}

impl Receiver {
    pub(crate) fn start() -> Self {
        Self::with("127.0.0.1:0", || Fault::None)
    }

    pub(crate) fn with(address: &str, choose: impl FnMut() -> Fault + Send + 'static) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind(address)).unwrap();
        let address = listener.local_addr().unwrap();
        let got: Arc<Mutex<Got>> = Arc::default();
        let choose: Arc<Mutex<Box<Choose>>> = Arc::new(Mutex::new(Box::new(choose)));
        let shared = got.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (shared, choose) = (shared.clone(), choose.clone());
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        let (shared, choose) = (shared.clone(), choose.clone());
                        async move {
                            let fault = (choose.lock().unwrap())();
                            serve(request, &shared, fault).await
                        }
                    });
                    let _ = auto::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self { address, got, runtime: Some(runtime) }
    }

    /// Random faults from a seed.
    pub(crate) fn faulty(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        Self::with("127.0.0.1:0", move || match rng.random_range(0..100) {
            0..8 => Fault::Delay,
            8..18 => Fault::Busy,
            18..24 => Fault::Partial,
            24..30 => Fault::Garbage(rng.random()),
            30..40 => Fault::Cut(rng.random()),
            40..44 => Fault::Larger(20),
            _ => Fault::None,
        })
    }

    pub(crate) fn got(&self) -> Got {
        self.got.lock().unwrap().clone()
    }

    /// `grpc` and `http` endpoints are the same.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn stop(mut self) -> Got {
        let got = self.got();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
        got
    }
}

/// The attribute `n` that tests number their items with.
pub(crate) fn number(attributes: &[KeyValue]) -> Option<i64> {
    attributes.iter().find(|attribute| attribute.key == "n").and_then(|attribute| {
        match attribute.value.as_ref()?.value.as_ref()? {
            Value::IntValue(n) => Some(*n),
            _ => None,
        }
    })
}

type Body = http_body_util::combinators::BoxBody<Bytes, std::io::Error>;

async fn serve(
    request: Request<Incoming>,
    got: &Mutex<Got>,
    fault: Fault,
) -> std::io::Result<Response<Body>> {
    let (head, body) = request.into_parts();
    let bytes = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    let grpc = head
        .headers
        .get("content-type")
        .is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"));
    let encoding = head.headers.get(if grpc { "grpc-encoding" } else { "content-encoding" });
    let encoding = encoding.and_then(|value| value.to_str().ok()).unwrap_or("identity").to_owned();
    let message = if grpc {
        let compressed = bytes[0] == 1;
        if compressed { inflate(&bytes[5..], &encoding) } else { bytes.slice(5..) }
    } else {
        inflate(&bytes, &encoding)
    };
    // A receiver that is slow in real time.
    if fault == Fault::Delay {
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    let path = head.uri.path().to_owned();
    if path.contains("race") {
        let request = ExportTraceServiceRequest::decode(message.clone()).unwrap();
        let schemas = request.resource_spans.into_iter().map(|spans| spans.schema_url);
        got.lock().unwrap().schemas.extend(schemas);
    }
    let mut items = Items::decode(&path, message);
    let count = items.len();
    let mut rejected = 0;
    {
        let mut got = got.lock().unwrap();
        got.requests += 1;
        got.headers.push(head.headers.clone());
        got.paths.push(path.clone());
        if fault == Fault::Partial {
            let refused = items.split(count / 3);
            rejected = refused.len();
            got.rejected.extend(refused);
        }
        let store = match fault {
            Fault::None | Fault::Delay | Fault::Partial => true,
            Fault::Garbage(store) | Fault::Cut(store) => store,
            Fault::Busy | Fault::BusyForAnHour | Fault::Refuse | Fault::Unauthorized => false,
            Fault::Larger(max) => count <= max,
        };
        if store {
            if matches!(fault, Fault::Garbage(_) | Fault::Cut(_)) {
                for n in items.numbers() {
                    *got.unsure.entry(n).or_default() += 1;
                }
            }
            items.store(&mut got);
        }
    }
    Ok(match fault {
        Fault::None | Fault::Delay | Fault::Partial => success(grpc, rejected),
        Fault::Larger(max) if count <= max => success(grpc, 0),
        Fault::Larger(_) if grpc => {
            trailers(8, "grpc: received message larger than max (9 vs. 4)", None, None)
        }
        Fault::Larger(_) => plain(StatusCode::PAYLOAD_TOO_LARGE, b""),
        Fault::Busy if grpc => trailers(14, "busy", None, None),
        Fault::Busy => {
            let mut response = plain(StatusCode::SERVICE_UNAVAILABLE, b"busy");
            response.headers_mut().insert("retry-after", "0".parse().unwrap());
            response
        }
        // google.rpc.Status { code: 14, details: [RetryInfo { retry_delay { seconds: 3600 } }] }
        Fault::BusyForAnHour if grpc => trailers(14, "busy", None, Some(RETRY_INFO)),
        Fault::BusyForAnHour => {
            let mut response = plain(StatusCode::TOO_MANY_REQUESTS, b"busy");
            response.headers_mut().insert("retry-after", "3600".parse().unwrap());
            response
        }
        Fault::Unauthorized if grpc => trailers(16, "who are you", None, None),
        Fault::Unauthorized => plain(StatusCode::UNAUTHORIZED, b"who are you"),
        Fault::Refuse if grpc => trailers(3, "never", None, None),
        Fault::Refuse => plain(StatusCode::BAD_REQUEST, b"never"),
        Fault::Garbage(_) if grpc => trailers(0, "", Some(Bytes::from_static(b"\xff\xff\xff\xff")), None),
        Fault::Garbage(_) => {
            let mut response = plain(StatusCode::OK, b"<html>hello</html>");
            response.headers_mut().insert("content-type", "text/html".parse().unwrap());
            response
        }
        Fault::Cut(_) => {
            let frames = futures_util::stream::iter([
                Ok(Frame::data(Bytes::from_static(b"\0\0"))),
                Err(std::io::Error::other("cut")),
            ]);
            Response::new(BodyExt::boxed(StreamBody::new(frames)))
        }
    })
}

fn inflate(bytes: &[u8], encoding: &str) -> Bytes {
    match encoding {
        "gzip" => {
            let mut out = Vec::new();
            flate2::read::GzDecoder::new(bytes).read_to_end(&mut out).unwrap();
            out.into()
        }
        "zstd" => zstd::decode_all(bytes).unwrap().into(),
        _ => Bytes::copy_from_slice(bytes),
    }
}

fn plain(status: StatusCode, body: &'static [u8]) -> Response<Body> {
    let body = http_body_util::Full::new(Bytes::from_static(body)).map_err(|never| match never {});
    Response::builder().status(status).body(BodyExt::boxed(body)).unwrap()
}

fn success(grpc: bool, rejected: usize) -> Response<Body> {
    let mut message = BytesMut::new();
    if rejected > 0 {
        // partial_success { rejected, error_message: "no" }
        message.put_slice(&[10, 6, 8, u8::try_from(rejected).unwrap().min(127), 18, 2, b'n', b'o']);
    }
    if grpc {
        return trailers(0, "", Some(message.freeze()), None);
    }
    let body = http_body_util::Full::new(message.freeze()).map_err(|never| match never {});
    Response::builder().header("content-type", "application/x-protobuf").body(BodyExt::boxed(body)).unwrap()
}

fn trailers(code: i32, message: &str, body: Option<Bytes>, details: Option<&str>) -> Response<Body> {
    let mut map = HeaderMap::new();
    map.insert("grpc-status", code.into());
    map.insert("grpc-message", message.parse().unwrap());
    if let Some(details) = details {
        map.insert("grpc-status-details-bin", details.parse().unwrap());
    }
    let mut frames = Vec::new();
    if let Some(body) = body {
        let mut message = BytesMut::new();
        message.put_u8(0);
        message.put_u32(u32::try_from(body.len()).unwrap());
        message.put_slice(&body);
        frames.push(Ok(Frame::data(message.freeze())));
    }
    frames.push(Ok(Frame::trailers(map)));
    let body = BodyExt::boxed(StreamBody::new(futures_util::stream::iter(frames)));
    Response::builder().header("content-type", "application/grpc").body(body).unwrap()
}

/// The content of a request.
enum Items {
    Spans(Vec<Span>, Vec<Resource>),
    Logs(Vec<LogRecord>, Vec<Resource>),
    Metrics(Vec<Metric>, Vec<Resource>),
}

impl Items {
    fn decode(path: &str, bytes: Bytes) -> Self {
        if path.contains("race") || path.contains("otel") && !path.contains("opentelemetry") {
            let request = ExportTraceServiceRequest::decode(bytes).unwrap();
            let resources = request.resource_spans.iter().filter_map(|r| r.resource.clone()).collect();
            let spans = request.resource_spans.into_iter().flat_map(|r| r.scope_spans).flat_map(|s| s.spans);
            Self::Spans(spans.collect(), resources)
        } else if path.contains("log") {
            let request = ExportLogsServiceRequest::decode(bytes).unwrap();
            let resources = request.resource_logs.iter().filter_map(|r| r.resource.clone()).collect();
            let logs =
                request.resource_logs.into_iter().flat_map(|r| r.scope_logs).flat_map(|s| s.log_records);
            Self::Logs(logs.collect(), resources)
        } else {
            let request = ExportMetricsServiceRequest::decode(bytes).unwrap();
            let resources = request.resource_metrics.iter().filter_map(|r| r.resource.clone()).collect();
            let metrics =
                request.resource_metrics.into_iter().flat_map(|r| r.scope_metrics).flat_map(|s| s.metrics);
            Self::Metrics(metrics.collect(), resources)
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Spans(items, _) => items.len(),
            Self::Logs(items, _) => items.len(),
            Self::Metrics(items, _) => items.len(),
        }
    }

    fn numbers(&self) -> Vec<i64> {
        match self {
            Self::Spans(items, _) => items.iter().filter_map(|item| number(&item.attributes)).collect(),
            Self::Logs(items, _) => items.iter().filter_map(|item| number(&item.attributes)).collect(),
            Self::Metrics(..) => Vec::new(),
        }
    }

    /// Removes the first items and returns their numbers.
    fn split(&mut self, at: usize) -> Vec<i64> {
        let at = at.min(127);
        match self {
            Self::Spans(items, _) => items.drain(..at).filter_map(|item| number(&item.attributes)).collect(),
            Self::Logs(items, _) => items.drain(..at).filter_map(|item| number(&item.attributes)).collect(),
            Self::Metrics(..) => Vec::new(),
        }
    }

    fn store(self, got: &mut Got) {
        match self {
            Self::Spans(items, resources) => {
                got.spans.extend(items);
                got.resources.extend(resources);
            }
            Self::Logs(items, resources) => {
                got.logs.extend(items);
                got.resources.extend(resources);
            }
            Self::Metrics(items, resources) => {
                got.metrics.extend(items);
                got.resources.extend(resources);
            }
        }
    }
}
