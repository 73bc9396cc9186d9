//! Writing triggers.

use serde_json::Value;

use super::{Object, texts};
use crate::definition::Text;
use crate::definition::settings::Period;
use crate::definition::trigger::{
    ApiKeyPlace, Auth, Body, ClientPlace, Command, Exec, Graphql, Grpc, Header, Http, HttpVersion, Kafka,
    Part, Redirects, Tls, Trigger,
};

pub(super) fn trigger(trigger: Option<&Trigger>) -> Value {
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
    match &request.body {
        Body::Text(text) => out.filled("body", &text.value),
        Body::File(file) => out.filled("bodyFile", &file.value),
        Body::Form(fields) => out.list("form", headers(fields)),
        Body::Multipart(parts) => out.list("multipart", parts.iter().map(part).collect()),
    }
    out.list("headers", headers(&request.headers));
    out.maybe("auth", request.auth.as_ref().map(auth));
    match request.redirects {
        Redirects::Follow(Redirects::USUAL) => {}
        Redirects::Follow(most) => out.put("redirects", most),
        Redirects::Stay => out.put("redirects", "none"),
    }
    out.maybe("httpVersion", request.version.map(HttpVersion::as_str));
    out.maybe("tls", request.tls.as_ref().map(tls));
    out.flag("sslVerification", request.ssl_verification);
    out.filled("proxy", &request.proxy.value);
    out.maybe("timeout", period(request.timeout.as_ref()));
    out.into()
}

fn part(part: &Part) -> Value {
    let mut out = Object::default();
    out.put("name", part.name.value.clone());
    out.filled("value", &part.value.value);
    out.filled("file", &part.file.value);
    out.filled("filename", &part.filename.value);
    out.filled("contentType", &part.content_type.value);
    out.into()
}

/// Certificates, or `true` when there are none.
fn tls(tls: &Tls) -> Value {
    let mut out = Object::default();
    out.filled("ca", &tls.ca.value);
    out.filled("certificate", &tls.certificate.value);
    out.filled("key", &tls.key.value);
    if *tls == Tls::default() { true.into() } else { out.into() }
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
    out.maybe("tls", call.tls.as_ref().map(tls));
    out.flag("sslVerification", call.ssl_verification);
    out.maybe("timeout", period(call.timeout.as_ref()));
    out.into()
}

fn kafka(message: &Kafka) -> Value {
    let mut out = Object::default();
    out.list("brokerUrls", texts(&message.broker_urls));
    out.filled("topic", &message.topic.value);
    out.list("headers", headers(&message.headers));
    if let Some(sasl) = &message.authentication {
        let mut credentials = Object::default();
        credentials.put("username", sasl.username.value.clone());
        credentials.put("password", sasl.password.value.clone());
        let mut authentication = Object::default();
        authentication.put("type", sasl.mechanism.as_str());
        authentication.put(sasl.mechanism.as_str(), credentials);
        out.put("authentication", authentication);
    }
    out.filled("messageKey", &message.message_key.value);
    out.filled("messageValue", &message.message_value.value);
    out.maybe("tls", message.tls.as_ref().map(tls));
    out.flag("sslVerification", message.ssl_verification);
    out.maybe("timeout", period(message.timeout.as_ref()));
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
    out.maybe("tls", request.tls.as_ref().map(tls));
    out.flag("sslVerification", request.ssl_verification);
    out.filled("proxy", &request.proxy.value);
    out.maybe("timeout", period(request.timeout.as_ref()));
    out.filled("schema", &request.schema.value);
    out.flag("introspection", request.introspection);
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
        Auth::OAuth2(oauth2) => {
            block.put("tokenUrl", oauth2.token_url.value.clone());
            block.put("clientId", oauth2.client_id.value.clone());
            block.put("clientSecret", oauth2.client_secret.value.clone());
            block.list("scopes", texts(&oauth2.scopes));
            block.filled("audience", &oauth2.audience.value);
            match oauth2.place {
                ClientPlace::Header => {}
                ClientPlace::Body => block.put("in", "body"),
            }
            "oauth2"
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

pub(super) fn period(period: Option<&Period>) -> Option<String> {
    period.map(|period| period.text.clone())
}

pub(super) fn pairs(pairs: &[(String, Text)]) -> Object {
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
