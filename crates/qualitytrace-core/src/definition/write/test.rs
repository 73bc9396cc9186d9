//! Writing tests, their triggers, and suites.

use serde_json::Value;

use super::{Object, Stored};
use crate::definition::settings::Period;
use crate::definition::trigger::{
    ApiKeyPlace, Auth, Command, Exec, Graphql, Grpc, Header, Http, Kafka, Trigger,
};
use crate::definition::{Output, Spec, Test, TestSuite, Text};

pub(super) fn test(out: &mut Object, test: &Test, stored: &Stored) {
    out.maybe("createdAt", stored.created_at.clone());
    out.filled("name", &test.name);
    out.filled("description", &test.description);
    out.maybe("version", stored.version);
    out.put("trigger", trigger(test.trigger.as_ref()));
    out.list("specs", test.specs.iter().map(spec).collect());
    out.list("outputs", test.outputs.iter().map(output).collect());
    out.maybe("summary", stored.summary.clone());
    out.flag("skipTraceCollection", test.skip_trace_collection);
    out.maybe("pollingProfile", test.polling_profile.as_ref().map(|id| id.value.clone()));
}

pub(super) fn suite(out: &mut Object, suite: &TestSuite, stored: &Stored) {
    out.maybe("createdAt", stored.created_at.clone());
    out.put("name", suite.name.clone());
    out.put("description", suite.description.clone());
    out.maybe("version", stored.version);
    out.put("steps", texts(&suite.steps));
    out.maybe("fullSteps", stored.full_steps.clone());
    out.maybe("summary", stored.summary.clone());
}

fn spec(spec: &Spec) -> Value {
    let mut out = Object::default();
    out.put("selector", spec.selector.value.clone());
    out.filled("name", spec.name.as_deref().unwrap_or_default());
    out.put("assertions", texts(&spec.assertions));
    out.into()
}

fn output(output: &Output) -> Value {
    let mut out = Object::default();
    out.put("name", output.name.value.clone());
    out.put("selector", output.selector.value.clone());
    out.put("value", output.value.value.clone());
    out.into()
}

fn trigger(trigger: Option<&Trigger>) -> Value {
    let mut out = Object::default();
    out.put("type", trigger.map(Trigger::kind).unwrap_or_default());
    match trigger {
        None | Some(Trigger::Integration(_)) => {}
        Some(Trigger::Http(request)) => out.put("httpRequest", http(request)),
        Some(Trigger::Grpc(call)) => out.put("grpc", grpc(call)),
        Some(Trigger::Kafka(message)) => out.put("kafka", kafka(message)),
        Some(Trigger::TraceId(trace)) => {
            let mut block = Object::default();
            block.filled("id", &trace.id.value);
            out.put("traceid", block);
        }
        Some(Trigger::Graphql(request)) => out.put("graphql", graphql(request)),
        Some(Trigger::Exec(command)) => out.put("exec", exec(command)),
        Some(Trigger::PlaywrightEngine(engine)) => {
            let mut block = Object::default();
            block.filled("target", &engine.target.value);
            block.filled("script", &engine.script.value);
            block.filled("method", &engine.method.value);
            out.put("playwrightEngine", block);
        }
    }
    out.into()
}

fn http(request: &Http) -> Value {
    let mut out = Object::default();
    out.filled("method", &request.method.value);
    out.filled("url", &request.url.value);
    out.filled("body", &request.body.value);
    out.list("headers", headers(&request.headers));
    out.maybe("auth", request.auth.as_ref().map(auth));
    out.flag("sslVerification", request.ssl_verification);
    out.maybe("timeout", period(request.timeout.as_ref()));
    out.into()
}

fn grpc(call: &Grpc) -> Value {
    let mut out = Object::default();
    out.filled("protobufFile", &call.protobuf_file.value);
    if !call.imports.is_empty() {
        out.put("imports", pairs(&call.imports));
    }
    out.filled("descriptorSet", &call.descriptor_set.value);
    out.filled("address", &call.address.value);
    out.filled("service", &call.service.value);
    out.filled("method", &call.method.value);
    out.filled("request", &call.request.value);
    out.list("metadata", headers(&call.metadata));
    out.maybe("auth", call.auth.as_ref().map(auth));
    out.flag("tls", call.tls);
    out.flag("sslVerification", call.ssl_verification);
    out.maybe("timeout", period(call.timeout.as_ref()));
    out.into()
}

fn kafka(message: &Kafka) -> Value {
    let mut out = Object::default();
    out.list("brokerUrls", texts(&message.broker_urls));
    out.filled("topic", &message.topic.value);
    out.list("headers", headers(&message.headers));
    if let Some(plain) = &message.authentication {
        let mut credentials = Object::default();
        credentials.put("username", plain.username.value.clone());
        credentials.put("password", plain.password.value.clone());
        let mut authentication = Object::default();
        authentication.put("type", "plain");
        authentication.put("plain", credentials);
        out.put("authentication", authentication);
    }
    out.filled("messageKey", &message.message_key.value);
    out.filled("messageValue", &message.message_value.value);
    out.flag("sslVerification", message.ssl_verification);
    out.into()
}

fn graphql(request: &Graphql) -> Value {
    let mut out = Object::default();
    out.filled("url", &request.url.value);
    out.list("headers", headers(&request.headers));
    out.maybe("auth", request.auth.as_ref().map(auth));
    let mut body = Object::default();
    body.filled("query", &request.query.value);
    if !request.variables.is_empty() {
        body.put("variables", pairs(&request.variables));
    }
    body.filled("operationName", &request.operation_name.value);
    out.put("body", body);
    out.flag("sslVerification", request.ssl_verification);
    out.filled("schema", &request.schema.value);
    out.into()
}

fn auth(auth: &Auth) -> Value {
    let mut block = Object::default();
    let kind = match auth {
        Auth::Basic { username, password } => {
            block.put("username", username.value.clone());
            block.put("password", password.value.clone());
            "basic"
        }
        Auth::Bearer { token } => {
            block.put("token", token.value.clone());
            "bearer"
        }
        Auth::ApiKey { key, value, place } => {
            block.put("key", key.value.clone());
            block.put("value", value.value.clone());
            let place = match place {
                ApiKeyPlace::Header => "header",
                ApiKeyPlace::Query => "query",
            };
            block.put("in", place);
            "apiKey"
        }
    };
    let mut out = Object::default();
    out.put("type", kind);
    out.put(kind, block);
    out.into()
}

fn exec(exec: &Exec) -> Value {
    let mut out = Object::default();
    match &exec.command {
        Command::Words(words) => out.list("command", texts(words)),
        Command::Line(line) => out.filled("command", &line.value),
    }
    if !exec.env.is_empty() {
        out.put("env", pairs(&exec.env));
    }
    out.filled("workingDirectory", &exec.working_directory.value);
    out.maybe("timeout", period(exec.timeout.as_ref()));
    out.into()
}

fn period(period: Option<&Period>) -> Option<String> {
    period.map(|period| period.text.clone())
}

fn pairs(pairs: &[(String, Text)]) -> Object {
    let mut out = Object::default();
    for (name, value) in pairs {
        out.put(name, value.value.clone());
    }
    out
}

fn headers(headers: &[Header]) -> Vec<Value> {
    let one = |header: &Header| {
        let mut out = Object::default();
        out.filled("key", &header.key.value);
        out.filled("value", &header.value.value);
        out.into()
    };
    headers.iter().map(one).collect()
}

fn texts(texts: &[Text]) -> Vec<Value> {
    texts.iter().map(|text| text.value.clone().into()).collect()
}
