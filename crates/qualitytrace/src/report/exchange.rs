//! What a test sent and what was answered. The server has redacted the values of secrets; headers and fields whose names
//! say that they hold one are redacted here, too.

use qualitytrace_core::definition::to_yaml;
use qualitytrace_server::wire::event::{Header, Reply};
use qualitytrace_server::wire::{self, RunEventKind};
use qualitytrace_telemetry::redact;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::brief;

/// What is shown in place of a secret.
const REDACTED: &str = "***";
/// How many headers are kept.
const MOST_HEADERS: usize = 50;

/// A request and its response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Exchange {
    pub(crate) request: Option<Message>,
    pub(crate) response: Option<Message>,
}

impl Message {
    /// Says that an answer has no body to read; `None` where it has one.
    pub(super) fn without_body(&self) -> Option<String> {
        self.body.is_empty().then(|| format!("no body: the answer was {}", self.line))
    }
}

/// A request or a response, with long texts truncated.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Message {
    /// Method and address, or the status.
    pub(crate) line: String,
    #[serde(default)]
    pub(crate) headers: Vec<Header>,
    #[serde(default)]
    pub(crate) body: String,
}

impl Exchange {
    /// The exchange of a run; empty for one that sent nothing.
    pub(super) fn of(events: &[wire::Event]) -> Self {
        let mut exchange = Self::default();
        for event in events {
            match &event.what {
                RunEventKind::Resolved { trigger: Some(trigger), .. } => {
                    exchange.request = request(trigger);
                }
                RunEventKind::Triggered { reply, .. } => exchange.response = response(reply),
                _ => {}
            }
        }
        exchange
    }
}

fn request(trigger: &Value) -> Option<Message> {
    let kind = trigger["type"].as_str().unwrap_or_default();
    if kind == "traceid" {
        return None;
    }
    let mut trigger = trigger.clone();
    hide(&mut trigger);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let headers = |pairs: &Value| {
        let pairs = pairs.as_array().into_iter().flatten();
        let headers = pairs.map(|pair| Header { key: text(&pair["key"]), value: text(&pair["value"]) });
        headers.take(MOST_HEADERS).collect()
    };
    if let Some(http) = trigger.get("httpRequest").filter(|_| kind == "http") {
        return Some(Message {
            line: brief(&format!("{} {}", text(&http["method"]), address(&text(&http["url"])))),
            headers: headers(&http["headers"]),
            body: brief(&text(&http["body"])),
        });
    }
    // The descriptions of the service are files of the test: what is sent says more.
    if let Some(call) = trigger.get("grpc").filter(|_| kind == "grpc") {
        let (service, method) = (text(&call["service"]), text(&call["method"]));
        let is_full = service.is_empty() || method.contains(&service);
        let method = if is_full { method } else { format!("{service}/{method}") };
        return Some(Message {
            line: brief(&format!("grpc {} {method}", text(&call["address"]))),
            headers: headers(&call["metadata"]),
            body: brief(&text(&call["request"])),
        });
    }
    // The details of any other trigger are under a key of their own.
    let details: Map<String, Value> = match trigger {
        Value::Object(fields) => fields.into_iter().filter(|(name, _)| name != "type").collect(),
        _ => Map::new(),
    };
    Some(Message {
        line: kind.to_owned(),
        headers: Vec::new(),
        body: brief(to_yaml(&Value::Object(details)).trim_end()),
    })
}

fn response(reply: &Reply) -> Option<Message> {
    Some(match reply {
        Reply::Http { status_code, status, headers, body, .. } => {
            // A status line begins with its code where the server sent one.
            let code = status_code.to_string();
            let line = if status.starts_with(&code) { status.clone() } else { format!("{code} {status}") };
            Message { line: line.trim_end().to_owned(), headers: shown(headers), body: brief(body) }
        }
        Reply::Grpc { status_code, status, message, metadata, body, .. } => {
            let line = format!("{status_code} {status} {message}").trim_end().to_owned();
            Message { line: brief(&line), headers: shown(metadata), body: brief(body) }
        }
        Reply::Kafka { partition, offset } => {
            Message { line: format!("partition {partition}, offset {offset}"), ..Message::default() }
        }
        Reply::Exec { exit_code, stdout, stderr, .. } => Message {
            line: format!("exit code {exit_code}"),
            headers: Vec::new(),
            body: brief(format!("{stdout}{stderr}").trim_end()),
        },
        Reply::TraceId { .. } => return None,
    })
}

fn shown(headers: &[Header]) -> Vec<Header> {
    let shown =
        |header: &Header| Header { key: header.key.clone(), value: header_value(&header.key, &header.value) };
    headers.iter().take(MOST_HEADERS).map(shown).collect()
}

fn header_value(name: &str, value: &str) -> String {
    let is_secret = is_secret(name) || redact::is_bearer(value);
    if is_secret && !value.is_empty() { REDACTED.to_owned() } else { brief(value) }
}

fn is_secret(name: &str) -> bool {
    redact::is_secret(&name.to_lowercase().replace('_', "-"))
}

/// An address without its password and without secrets in its query.
fn address(url: &str) -> String {
    let url = redact::query(url, redact::is_secret).into_owned();
    let parsed = reqwest::Url::parse(&url).ok().filter(|parsed| parsed.password().is_some());
    let without = parsed.and_then(|mut parsed| parsed.set_password(Some(REDACTED)).ok().map(|()| parsed));
    without.map_or(url, |without| without.to_string())
}

/// Redacts the values of fields and of pairs whose names say that they hold a secret, and passwords in addresses.
fn hide(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let name = fields.get("key").and_then(Value::as_str).map(ToOwned::to_owned);
            for (field, value) in fields.iter_mut() {
                let name: &str = if field == "value" { name.as_deref().unwrap_or(field) } else { field };
                if let Value::String(text) = value
                    && field != "key"
                {
                    *text = if field == "url" { address(text) } else { header_value(name, text) };
                }
                hide(value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(trigger: Value, reply: Reply, expected: &Exchange) {
        let what = [
            RunEventKind::Resolved { trigger: Some(trigger), warning: None },
            RunEventKind::Triggered { reply, sent: None, answered: None },
        ];
        let event = |what| wire::Event { seq: 1, at: 1, what };
        assert_eq!(Exchange::of(&what.map(event)), *expected);
    }

    fn header(key: &str, value: &str) -> Header {
        Header { key: key.to_owned(), value: value.to_owned() }
    }

    #[test]
    fn requests_and_responses_are_shown_without_their_secrets() {
        let trigger = json!({ "type": "http", "httpRequest": {
            "method": "POST", "url": "http://me:pass@localhost/orders?api_key=abc&page=2", "body": "{\"id\": 1}",
            "headers": [{ "key": "Authorization", "value": "Basic abc" }, { "key": "Accept", "value": "*/*" }],
        } });
        let reply = Reply::Http {
            status_code: 500,
            status: "500 Internal Server Error".to_owned(),
            headers: vec![header("Set-Cookie", "session=abc"), header("Server", "x")],
            body: "no".to_owned(),
            truncated: false,
            binary: false,
        };
        let request = Message {
            line: "POST http://me:***@localhost/orders?api_key=***&page=2".to_owned(),
            headers: vec![header("Authorization", "***"), header("Accept", "*/*")],
            body: "{\"id\": 1}".to_owned(),
        };
        let response = Message {
            line: "500 Internal Server Error".to_owned(),
            headers: vec![header("Set-Cookie", "***"), header("Server", "x")],
            body: "no".to_owned(),
        };
        check(trigger, reply, &Exchange { request: Some(request), response: Some(response) });
    }

    #[test]
    fn a_grpc_call_is_shown_without_the_text_of_its_proto_file() {
        let call = json!({ "type": "grpc", "grpc": {
            "protobufFile": "// Copyright\nsyntax = \"proto3\";", "address": "localhost:9090", "service": "shop.Stock",
            "method": "Reserve", "request": "{\"id\": 1}",
            "metadata": [{ "key": "authorization", "value": "Bearer abc" }, { "key": "tenant", "value": "a" }],
        } });
        let reply = Reply::Grpc {
            status_code: 13,
            status: "INTERNAL".to_owned(),
            message: "no stock".to_owned(),
            metadata: Vec::new(),
            details: Vec::new(),
            messages: None,
            body: String::new(),
            truncated: false,
        };
        let request = Message {
            line: "grpc localhost:9090 shop.Stock/Reserve".to_owned(),
            headers: vec![header("authorization", "***"), header("tenant", "a")],
            body: "{\"id\": 1}".to_owned(),
        };
        let response = Message { line: "13 INTERNAL no stock".to_owned(), ..Message::default() };
        check(call, reply, &Exchange { request: Some(request), response: Some(response) });
    }

    #[test]
    fn other_triggers_are_shown_as_they_are_written() {
        let kafka = json!({ "type": "kafka", "kafka": {
            "topic": "orders", "authentication": { "type": "plain", "plain": { "username": "me", "password": "abc" } },
        } });
        let body = "kafka:\n  topic: orders\n  authentication:\n    type: plain\n    plain:\n      username: me\n      password: \"***\"";
        let request = Message { line: "kafka".to_owned(), body: body.to_owned(), ..Message::default() };
        let response = Message { line: "partition 1, offset 2".to_owned(), ..Message::default() };
        let expected = Exchange { request: Some(request), response: Some(response) };
        check(kafka, Reply::Kafka { partition: 1, offset: 2 }, &expected);
        let nothing = json!({ "type": "traceid", "traceid": { "id": "a" } });
        check(nothing, Reply::TraceId { id: "a".to_owned() }, &Exchange::default());
    }
}
