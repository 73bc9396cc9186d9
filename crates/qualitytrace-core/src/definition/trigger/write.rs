//! The JSON shape of triggers.

use schemars::JsonSchema;
use serde::Serialize;

use super::Trigger;
use super::exec::ExecSpec;
use super::graphql::GraphqlSpec;
use super::grpc::GrpcSpec;
use super::http::HttpRequestSpec;
use super::kafka::KafkaSpec;
use super::playwright::PlaywrightEngineSpec;
use super::trace_id::TraceIdSpec;
use crate::definition::shape::is_blank;

/// What is sent to the system under test: the block that belongs to the type.
#[derive(Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::definition) struct TriggerSpec<'a> {
    /// The kind of trigger; the block of the same name has the details.
    #[serde(rename = "type")]
    kind: &'a str,
    /// The HTTP request to send.
    #[serde(skip_serializing_if = "is_blank")]
    http_request: Option<HttpRequestSpec<'a>>,
    /// The gRPC call to make.
    #[serde(skip_serializing_if = "is_blank")]
    grpc: Option<GrpcSpec<'a>>,
    /// The message to send to a Kafka topic.
    #[serde(skip_serializing_if = "is_blank")]
    kafka: Option<KafkaSpec<'a>>,
    /// The trace that exists already.
    #[serde(skip_serializing_if = "is_blank")]
    traceid: Option<TraceIdSpec<'a>>,
    /// The GraphQL request to send.
    #[serde(skip_serializing_if = "is_blank")]
    graphql: Option<GraphqlSpec<'a>>,
    /// The command to run on the machine of the server.
    #[serde(skip_serializing_if = "is_blank")]
    exec: Option<ExecSpec<'a>>,
    /// The browser script to run.
    #[serde(skip_serializing_if = "is_blank")]
    playwright_engine: Option<PlaywrightEngineSpec<'a>>,
}

impl<'a> TriggerSpec<'a> {
    pub(in crate::definition) fn of(trigger: Option<&'a Trigger>) -> Self {
        let none = Self { kind: trigger.map(Trigger::kind).unwrap_or_default(), ..Self::default() };
        match trigger {
            None | Some(Trigger::Integration(_)) => none,
            Some(Trigger::Http(request)) => Self { http_request: Some(HttpRequestSpec::of(request)), ..none },
            Some(Trigger::Grpc(call)) => Self { grpc: Some(GrpcSpec::of(call)), ..none },
            Some(Trigger::Kafka(message)) => Self { kafka: Some(KafkaSpec::of(message)), ..none },
            Some(Trigger::TraceId(trace)) => Self { traceid: Some(TraceIdSpec::of(trace)), ..none },
            Some(Trigger::Graphql(request)) => Self { graphql: Some(GraphqlSpec::of(request)), ..none },
            Some(Trigger::Exec(command)) => Self { exec: Some(ExecSpec::of(command)), ..none },
            Some(Trigger::PlaywrightEngine(engine)) => {
                Self { playwright_engine: Some(PlaywrightEngineSpec::of(engine)), ..none }
            }
        }
    }
}
