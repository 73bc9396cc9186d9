//! The spans of the shop, as an OTLP receiver gets them.

use std::fmt::Write as _;
use std::future::ready;

use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use axum::{Router, extract::Request};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use tokio::sync::watch;
use tonic::codec::CompressionEncoding;
use tonic_prost::ProstCodec;

use super::*;

/// The trace and the parent span of every request in these tests.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const TRIGGER: &str = "b7ad6b7169203331";

/// A span with the service it came from.
#[derive(Debug, Clone)]
struct ServiceSpan {
    service: String,
    span: Span,
}

type Spans = watch::Sender<Vec<ServiceSpan>>;

/// An OTLP receiver on a free port.
async fn receiver(spans: Arc<Spans>) -> String {
    let (listener, address) = http::bind().await.unwrap();
    let router = Router::new()
        .route("/opentelemetry.proto.collector.trace.v1.TraceService/Export", post(receive))
        .with_state(spans);
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

async fn receive(State(spans): State<Arc<Spans>>, request: Request) -> Response {
    let keep = tower::service_fn(|request: tonic::Request<ExportTraceServiceRequest>| {
        spans.send_modify(|all| all.extend(flatten(request.into_inner())));
        ready(Ok::<_, tonic::Status>(tonic::Response::new(ExportTraceServiceResponse::default())))
    });
    let codec = ProstCodec::<ExportTraceServiceResponse, ExportTraceServiceRequest>::default();
    // The user's shell may set OTEL_EXPORTER_OTLP_COMPRESSION.
    tonic::server::Grpc::new(codec)
        .accept_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Zstd)
        .unary(keep, request)
        .await
        .map(axum::body::Body::new)
}

fn flatten(request: ExportTraceServiceRequest) -> Vec<ServiceSpan> {
    let mut seen = Vec::new();
    for resource_spans in request.resource_spans {
        let attributes = resource_spans.resource.unwrap_or_default().attributes;
        let service = attributes.iter().find(|attribute| attribute.key == "service.name");
        let service = match service.and_then(|attribute| attribute.value.clone()?.value) {
            Some(Value::StringValue(service)) => service,
            other => panic!("a service without a name: {other:?}"),
        };
        for span in resource_spans.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            seen.push(ServiceSpan { service: service.clone(), span });
        }
    }
    seen
}

/// Sends one request to a shop, waits for a span called `until`, stops the shop, and returns the status and all spans.
async fn visit(
    bug: Option<Bug>,
    method: &str,
    path: &str,
    body: &'static str,
    until: &str,
) -> (u16, Vec<ServiceSpan>) {
    let spans = Arc::new(Spans::default());
    let mut arrivals = spans.subscribe();
    let shop = Shop::start(&receiver(spans).await, bug).await.unwrap();
    let answer = reqwest::Client::builder()
        .no_proxy()
        .build()
        .unwrap()
        .request(method.parse().unwrap(), format!("{}{path}", shop.gateway_url()))
        .header("traceparent", format!("00-{TRACE}-{TRIGGER}-01"))
        .header("content-type", "application/json")
        .body(body)
        .send()
        .await
        .unwrap();
    let status = answer.status().as_u16();
    let arrived = arrivals.wait_for(|all| all.iter().any(|seen| seen.span.name == until));
    tokio::time::timeout(Duration::from_secs(30), arrived).await.unwrap().unwrap();
    shop.stop().await.unwrap();
    (status, arrivals.borrow().clone())
}

/// Renders the spans as an indented tree below the trigger: service, kind, name, and links.
fn picture(spans: &[ServiceSpan]) -> String {
    let mut text = String::new();
    let trigger: Vec<u8> =
        (0..8).map(|i| u8::from_str_radix(&TRIGGER[2 * i..2 * i + 2], 16).unwrap()).collect();
    draw(&mut text, spans, &trigger, 0);
    text
}

fn draw(text: &mut String, spans: &[ServiceSpan], parent: &[u8], depth: usize) {
    let mut children: Vec<_> = spans.iter().filter(|seen| seen.span.parent_span_id == parent).collect();
    children.sort_by_key(|seen| seen.span.start_time_unix_nano);
    for ServiceSpan { service, span } in children {
        let kind = span.kind().as_str_name().trim_start_matches("SPAN_KIND_").to_lowercase();
        let indent = "  ".repeat(depth);
        write!(text, "{indent}{service}: {} ({kind})", span.name).unwrap();
        for link in &span.links {
            let cause = spans.iter().find(|seen| seen.span.span_id == link.span_id).unwrap();
            write!(text, " -> {}", cause.span.name).unwrap();
        }
        text.push('\n');
        draw(text, spans, &span.span_id, depth + 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkout_is_one_trace_through_every_service() {
    let body = r#"{"user": "grace", "card": "4242424242424242"}"#;
    let (status, spans) = visit(None, "POST", "/checkout", body, "process orders").await;
    assert_eq!(status, 200);
    assert!(spans.iter().all(|seen| hex(&seen.span.trace_id) == TRACE));
    insta::assert_snapshot!(picture(&spans), @"
    gateway: POST /checkout (server)
      gateway: GET /carts/{user} (client)
        cart: GET /carts/{user} (server)
          cart: SELECT cart_items (client)
      gateway: shop.Catalogue/ListProducts (client)
        catalogue: shop.Catalogue/ListProducts (server)
      gateway: POST /charges (client)
        payment: POST /charges (server)
          payment: authorize card (internal)
      gateway: DELETE /carts/{user} (client)
        cart: DELETE /carts/{user} (server)
          cart: DELETE cart_items (client)
      gateway: send orders (producer)
        worker: process orders (consumer) -> send orders
          worker: INSERT orders (client)
          worker: pack order (internal)
          worker: UPDATE orders (client)
    ");
    let end = |name: &str, kind: SpanKind| {
        let found = spans.iter().find(|seen| seen.span.name == name && seen.span.kind() == kind);
        found.unwrap().span.end_time_unix_nano
    };
    assert!(end("process orders", SpanKind::Consumer) > end("POST /checkout", SpanKind::Server));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declined_card_fails_where_it_is_declined_and_reaches_the_buyer() {
    let body = r#"{"user": "henry", "card": "4000000000000002"}"#;
    let (status, spans) = visit(None, "POST", "/checkout", body, "POST /checkout").await;
    assert_eq!(status, 402);
    let failed: Vec<_> =
        spans.iter().filter(|seen| seen.span.status.as_ref().is_some_and(|s| s.code == 2)).collect();
    let mut failed: Vec<_> =
        failed.iter().map(|seen| format!("{}: {}", seen.service, seen.span.name)).collect();
    failed.sort();
    assert_eq!(failed, ["gateway: POST /charges", "payment: authorize card"]);
    assert!(!spans.iter().any(|seen| seen.span.name.starts_with("send")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_catalogue_answers_other_callers_too() {
    let receiver = receiver(Arc::default()).await;
    let shop = Shop::start(&receiver, None).await.unwrap();
    let caller = Arc::new(Telemetry::new("caller", &receiver).unwrap());
    let client = catalogue::Client::new(Arc::clone(&caller), shop.catalogue_address()).unwrap();
    let context = opentelemetry::Context::new();
    let product = client.get(&context, "travel-mug".to_owned()).await.unwrap();
    assert_eq!(product.price_cents, 2400);
    let problem = client.get(&context, "teapot".to_owned()).await.unwrap_err();
    assert_eq!(problem.to_string(), "there is no product `teapot`");
    shop.stop().await.unwrap();
    tokio::task::spawn_blocking(move || caller.shutdown()).await.unwrap().unwrap();
}

#[test]
fn every_bug_is_found_by_its_name() {
    for bug in Bug::ALL {
        assert_eq!(Bug::from_name(bug.name()), Some(bug));
        assert!(bug.description().ends_with('.'));
    }
    assert_eq!(Bug::from_name("list"), None);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
