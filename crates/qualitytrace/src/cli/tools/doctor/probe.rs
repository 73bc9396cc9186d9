//! A span that is sent to a server and asked for again.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value::StringValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;
use qualitytrace_server::base::clock;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;

use super::super::subject::OTLP;
use super::{Finding, PATIENCE};
use crate::client::Client;
use crate::terminal;

/// How often the span is asked for.
const POLL: Duration = Duration::from_millis(50);
/// The method that receives spans.
const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// How a span is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Grpc,
    Http,
}

impl Protocol {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Grpc => "gRPC",
            Self::Http => "HTTP",
        }
    }
}

/// Sends a span to `endpoint` and waits until the server has it.
pub(super) async fn span(client: &Client, protocol: Protocol, endpoint: &str) -> Finding {
    let began = Instant::now();
    let id: [u8; 16] = rand::random();
    let name = protocol.name();
    let sent = tokio::time::timeout(PATIENCE, send(protocol, endpoint, request(id))).await;
    match sent {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            let text = format!("a test span over {name} to {endpoint} is not accepted: {error:#}");
            let next = "check the address and what listens there; exporters meet the same";
            return Finding::bad("span", text, next);
        }
        Err(_) => {
            let text = format!("a test span over {name} to {endpoint} is not answered within {PATIENCE:?}");
            return Finding::bad("span", text, "look for a firewall or proxy in between");
        }
    }
    let id = format!("{:032x}", u128::from_be_bytes(id));
    loop {
        match client.trace_as(&id, OTLP).await {
            Ok(Some(_)) => {
                let took = terminal::duration(began.elapsed());
                return Finding::good("span", format!("over {name} to {endpoint} arrived after {took}"));
            }
            Ok(None) if began.elapsed() < PATIENCE => tokio::time::sleep(POLL).await,
            Ok(None) => {
                let text = format!("a test span over {name} was accepted at {endpoint} and is not here");
                let next = "another server or a collector listens there; send to the server's own address";
                return Finding::bad("span", text, next);
            }
            Err(error) => return Finding::bad("span", format!("{error:#}"), "look at the server's log"),
        }
    }
}

async fn send(protocol: Protocol, endpoint: &str, request: ExportTraceServiceRequest) -> anyhow::Result<()> {
    match protocol {
        Protocol::Grpc => {
            let channel =
                Endpoint::from_shared(endpoint.to_owned())?.connect_timeout(PATIENCE).connect().await?;
            let mut grpc = tonic::client::Grpc::new(channel);
            grpc.ready().await?;
            let codec: tonic_prost::ProstCodec<ExportTraceServiceRequest, ExportTraceServiceResponse> =
                tonic_prost::ProstCodec::default();
            let path = PathAndQuery::from_static(EXPORT);
            grpc.unary(tonic::Request::new(request), path, codec).await?;
        }
        Protocol::Http => {
            let http = reqwest::Client::builder().no_proxy().build()?;
            let answer = http
                .post(format!("{endpoint}/v1/traces"))
                .header("content-type", "application/x-protobuf")
                .body(request.encode_to_vec())
                .send()
                .await
                .context("failed to send it")?;
            if !answer.status().is_success() {
                bail!("the answer is {}", answer.status());
            }
        }
    }
    Ok(())
}

fn request(trace: [u8; 16]) -> ExportTraceServiceRequest {
    let now = clock::now().as_nanos();
    let span = Span {
        trace_id: trace.to_vec(),
        span_id: rand::random::<[u8; 8]>().to_vec(),
        name: "qualitytrace doctor".to_owned(),
        kind: 1,
        start_time_unix_nano: now.saturating_sub(1_000_000),
        end_time_unix_nano: now,
        ..Span::default()
    };
    let service = KeyValue {
        key: "service.name".to_owned(),
        value: Some(AnyValue { value: Some(StringValue("qualitytrace-doctor".to_owned())) }),
        ..KeyValue::default()
    };
    let resource = Resource { attributes: vec![service], ..Resource::default() };
    let scope = ScopeSpans { spans: vec![span], ..ScopeSpans::default() };
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource),
            scope_spans: vec![scope],
            ..ResourceSpans::default()
        }],
    }
}
