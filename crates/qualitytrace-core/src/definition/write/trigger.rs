//! JSON shapes of triggers.

mod auth;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Pairs, is_blank, texts};
use crate::definition::settings::Period;
use crate::definition::trigger::{
    Body, Command, Exec, Graphql, Grpc, Header, Http, HttpVersion, Kafka, Part, Redirects, Trigger,
};
use auth::{AuthSpec, SaslSpec, TlsSpec};

/// What is sent to the system under test: the block that belongs to the type.
#[derive(Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TriggerSpec<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    http_request: Option<HttpRequestSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    grpc: Option<GrpcSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    kafka: Option<KafkaSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    traceid: Option<TraceIdSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    graphql: Option<GraphqlSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    exec: Option<ExecSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    playwright_engine: Option<PlaywrightEngineSpec<'a>>,
}

impl<'a> TriggerSpec<'a> {
    pub(super) fn of(trigger: Option<&'a Trigger>) -> Self {
        let none = Self { kind: trigger.map(Trigger::kind).unwrap_or_default(), ..Self::default() };
        match trigger {
            None | Some(Trigger::Integration(_)) => none,
            Some(Trigger::Http(request)) => Self { http_request: Some(HttpRequestSpec::of(request)), ..none },
            Some(Trigger::Grpc(call)) => Self { grpc: Some(GrpcSpec::of(call)), ..none },
            Some(Trigger::Kafka(message)) => Self { kafka: Some(KafkaSpec::of(message)), ..none },
            Some(Trigger::TraceId(trace)) => {
                Self { traceid: Some(TraceIdSpec { id: &trace.id.value }), ..none }
            }
            Some(Trigger::Graphql(request)) => Self { graphql: Some(GraphqlSpec::of(request)), ..none },
            Some(Trigger::Exec(command)) => Self { exec: Some(ExecSpec::of(command)), ..none },
            Some(Trigger::PlaywrightEngine(engine)) => {
                let engine = PlaywrightEngineSpec {
                    target: &engine.target.value,
                    script: &engine.script.value,
                    method: &engine.method.value,
                };
                Self { playwright_engine: Some(engine), ..none }
            }
        }
    }
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TraceIdSpec<'a> {
    #[serde(skip_serializing_if = "is_blank")]
    id: &'a str,
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PlaywrightEngineSpec<'a> {
    #[serde(skip_serializing_if = "is_blank")]
    target: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    script: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    method: &'a str,
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HttpRequestSpec<'a> {
    #[serde(skip_serializing_if = "is_blank")]
    method: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    url: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    body: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    body_file: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    form: Vec<HeaderSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    multipart: Vec<PartSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    headers: Vec<HeaderSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    auth: Option<AuthSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    redirects: Option<RedirectsSpec>,
    /// `1.1` or `2`.
    #[serde(skip_serializing_if = "is_blank")]
    http_version: Option<&'static str>,
    #[serde(skip_serializing_if = "is_blank")]
    tls: Option<TlsSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    ssl_verification: bool,
    #[serde(skip_serializing_if = "is_blank")]
    proxy: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    timeout: Option<&'a str>,
}

impl<'a> HttpRequestSpec<'a> {
    fn of(request: &'a Http) -> Self {
        let (mut body, mut body_file, mut form, mut multipart) = ("", "", Vec::new(), Vec::new());
        match &request.body {
            Body::Text(text) => body = &text.value,
            Body::File(file) => body_file = &file.value,
            Body::Form(fields) => form = headers(fields),
            Body::Multipart(parts) => multipart = parts.iter().map(PartSpec::of).collect(),
        }
        Self {
            method: &request.method.value,
            url: &request.url.value,
            body,
            body_file,
            form,
            multipart,
            headers: headers(&request.headers),
            auth: request.auth.as_ref().map(AuthSpec::of),
            redirects: match request.redirects {
                Redirects::Follow(Redirects::USUAL) => None,
                Redirects::Follow(most) => Some(RedirectsSpec::Most(most)),
                Redirects::Stay => Some(RedirectsSpec::None("none")),
            },
            http_version: request.version.map(HttpVersion::as_str),
            tls: request.tls.as_ref().map(TlsSpec::of),
            ssl_verification: request.ssl_verification,
            proxy: &request.proxy.value,
            timeout: period(request.timeout.as_ref()),
        }
    }
}

/// How many are followed, or `none`.
#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
enum RedirectsSpec {
    Most(u8),
    None(&'static str),
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PartSpec<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    value: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    file: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    filename: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    content_type: &'a str,
}

impl<'a> PartSpec<'a> {
    fn of(part: &'a Part) -> Self {
        Self {
            name: &part.name.value,
            value: &part.value.value,
            file: &part.file.value,
            filename: &part.filename.value,
            content_type: &part.content_type.value,
        }
    }
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GrpcSpec<'a> {
    #[serde(skip_serializing_if = "is_blank")]
    protobuf_file: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    imports: Pairs<'a>,
    #[serde(skip_serializing_if = "is_blank")]
    descriptor_set: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    address: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    service: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    method: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    request: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    metadata: Vec<HeaderSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    auth: Option<AuthSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    tls: Option<TlsSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    ssl_verification: bool,
    #[serde(skip_serializing_if = "is_blank")]
    timeout: Option<&'a str>,
}

impl<'a> GrpcSpec<'a> {
    fn of(call: &'a Grpc) -> Self {
        Self {
            protobuf_file: &call.protobuf_file.value,
            imports: Pairs::of(&call.imports),
            descriptor_set: &call.descriptor_set.value,
            address: &call.address.value,
            service: &call.service.value,
            method: &call.method.value,
            request: &call.request.value,
            metadata: headers(&call.metadata),
            auth: call.auth.as_ref().map(AuthSpec::of),
            tls: call.tls.as_ref().map(TlsSpec::of),
            ssl_verification: call.ssl_verification,
            timeout: period(call.timeout.as_ref()),
        }
    }
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KafkaSpec<'a> {
    #[serde(skip_serializing_if = "is_blank")]
    broker_urls: Vec<&'a str>,
    #[serde(skip_serializing_if = "is_blank")]
    topic: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    headers: Vec<HeaderSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    authentication: Option<SaslSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    message_key: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    message_value: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    tls: Option<TlsSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    ssl_verification: bool,
    #[serde(skip_serializing_if = "is_blank")]
    timeout: Option<&'a str>,
}

impl<'a> KafkaSpec<'a> {
    fn of(message: &'a Kafka) -> Self {
        Self {
            broker_urls: texts(&message.broker_urls),
            topic: &message.topic.value,
            headers: headers(&message.headers),
            authentication: message.authentication.as_ref().map(SaslSpec::of),
            message_key: &message.message_key.value,
            message_value: &message.message_value.value,
            tls: message.tls.as_ref().map(TlsSpec::of),
            ssl_verification: message.ssl_verification,
            timeout: period(message.timeout.as_ref()),
        }
    }
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GraphqlSpec<'a> {
    #[serde(skip_serializing_if = "is_blank")]
    url: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    headers: Vec<HeaderSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    auth: Option<AuthSpec<'a>>,
    body: GraphqlBodySpec<'a>,
    #[serde(skip_serializing_if = "is_blank")]
    tls: Option<TlsSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    ssl_verification: bool,
    #[serde(skip_serializing_if = "is_blank")]
    proxy: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    timeout: Option<&'a str>,
    #[serde(skip_serializing_if = "is_blank")]
    schema: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    introspection: bool,
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GraphqlBodySpec<'a> {
    #[serde(skip_serializing_if = "is_blank")]
    query: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    variables: Pairs<'a>,
    #[serde(skip_serializing_if = "is_blank")]
    operation_name: &'a str,
}

impl<'a> GraphqlSpec<'a> {
    fn of(request: &'a Graphql) -> Self {
        Self {
            url: &request.url.value,
            headers: headers(&request.headers),
            auth: request.auth.as_ref().map(AuthSpec::of),
            body: GraphqlBodySpec {
                query: &request.query.value,
                variables: Pairs::of(&request.variables),
                operation_name: &request.operation_name.value,
            },
            tls: request.tls.as_ref().map(TlsSpec::of),
            ssl_verification: request.ssl_verification,
            proxy: &request.proxy.value,
            timeout: period(request.timeout.as_ref()),
            schema: &request.schema.value,
            introspection: request.introspection,
        }
    }
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ExecSpec<'a> {
    #[serde(skip_serializing_if = "is_blank")]
    command: Option<CommandSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    env: Pairs<'a>,
    #[serde(skip_serializing_if = "is_blank")]
    working_directory: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    timeout: Option<&'a str>,
}

/// A program and its arguments, or a line for the shell.
#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
enum CommandSpec<'a> {
    Words(Vec<&'a str>),
    Line(&'a str),
}

impl<'a> ExecSpec<'a> {
    fn of(exec: &'a Exec) -> Self {
        let command = match &exec.command {
            Command::Words(words) => {
                Some(texts(words)).filter(|words| !words.is_empty()).map(CommandSpec::Words)
            }
            Command::Line(line) => {
                Some(line.value.as_str()).filter(|line| !line.is_empty()).map(CommandSpec::Line)
            }
        };
        Self {
            command,
            env: Pairs::of(&exec.env),
            working_directory: &exec.working_directory.value,
            timeout: period(exec.timeout.as_ref()),
        }
    }
}

pub(super) fn period(period: Option<&Period>) -> Option<&str> {
    period.map(|period| period.text.as_str())
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HeaderSpec<'a> {
    #[serde(skip_serializing_if = "is_blank")]
    key: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    value: &'a str,
}

fn headers(headers: &[Header]) -> Vec<HeaderSpec<'_>> {
    headers.iter().map(|header| HeaderSpec { key: &header.key.value, value: &header.value.value }).collect()
}
