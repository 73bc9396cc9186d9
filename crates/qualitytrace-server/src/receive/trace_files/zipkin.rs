//! The reader of Zipkin JSON v2: a list of spans, or a list of such lists.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use super::collected::{Collected, ScopeName, attribute, json, text};
use super::{Each, RefusedSpans, ids, item, numbers};
use crate::base::decode::{self, Allowance, DecodeError, Room};

/// The beginning of tags that hold a link.
const LINK_PREFIX: &str = "otlp.link.";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ZipkinSpan {
    trace_id: String,
    id: String,
    parent_id: Option<String>,
    name: Option<String>,
    kind: Option<String>,
    /// Microseconds since the epoch.
    timestamp: Option<Number>,
    /// Microseconds.
    duration: Option<Number>,
    debug: Option<bool>,
    local_endpoint: Option<Endpoint>,
    remote_endpoint: Option<Endpoint>,
    annotations: Option<Vec<Annotation>>,
    tags: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint {
    service_name: Option<String>,
    ipv4: Option<String>,
    ipv6: Option<String>,
    port: Option<u16>,
}

#[derive(Deserialize)]
struct Annotation {
    /// Microseconds since the epoch.
    timestamp: Number,
    #[serde(default)]
    value: String,
}

/// Reads a document. Spans that cannot be read are left out.
pub(crate) fn read(
    document: &[u8],
    room: &mut impl Room,
) -> Result<(ExportTraceServiceRequest, RefusedSpans), DecodeError> {
    let (mut collected, mut refused) = (Collected::default(), RefusedSpans::default());
    let inner = document.trim_ascii_start().strip_prefix(b"[").unwrap_or_default();
    if inner.trim_ascii_start().starts_with(b"[") {
        let mut list = 0..;
        Each(|items: &RawValue| {
            let location = format!("[{}]", list.next().unwrap_or(0));
            add(items.get().as_bytes(), &location, room, &mut collected, &mut refused)
        })
        .of(document)?;
    } else {
        add(document, "", room, &mut collected, &mut refused)?;
    }
    Ok((collected.into_request(), refused))
}

/// Adds the spans of a list.
fn add(
    list: &[u8],
    location: &str,
    room: &mut impl Room,
    collected: &mut Collected,
    refused: &mut RefusedSpans,
) -> Result<(), DecodeError> {
    let mut at = 0..;
    Each(|sent: &RawValue| {
        let at = at.next().unwrap_or(0);
        match item(sent, room, span)? {
            Ok((service, span, scope)) => {
                let weight = collected.add(&service, scope, span, || {
                    if service.is_empty() { Vec::new() } else { vec![text("service.name", service.as_str())] }
                });
                room.take(weight)?;
            }
            Err(reason) => refused.note(|| format!("{location}[{at}]"), reason),
        }
        Ok(())
    })
    .of(list)
}

/// Converts a span; also returns its service and its scope.
fn span(sent: ZipkinSpan, room: &mut Allowance) -> Result<(String, Span, ScopeName), String> {
    let annotations = sent.annotations.unwrap_or_default();
    // A span that was not finished may have annotations only, or no time at all.
    let began = sent.timestamp.as_ref().or_else(|| annotations.first().map(|first| &first.timestamp));
    let start = began.map_or(Ok(0), |began| numbers::nanos("timestamp", began))?;
    let mut tags = sent.tags.unwrap_or_default();
    let kind = kind(sent.kind.as_deref(), &mut tags);
    let status = status(&mut tags);
    let mut taken = |names: [&str; 2]| {
        let found = names.map(|name| tags.shift_remove(name));
        let found = found.iter().flatten().find_map(Value::as_str);
        found.unwrap_or_default().to_owned()
    };
    let scope = (
        taken(["otel.scope.name", "otel.library.name"]),
        taken(["otel.scope.version", "otel.library.version"]),
    );
    let trace_state = taken(["w3c.tracestate", "w3c.tracestate"]);
    let links = links(&mut tags, room);
    let mut attributes: Vec<KeyValue> = tags.iter().map(|(key, value)| json(key, value)).collect();
    let local = sent.local_endpoint.map(|endpoint| {
        addresses(&endpoint, "network.local", &mut attributes);
        endpoint.service_name.unwrap_or_default()
    });
    if let Some(remote) = sent.remote_endpoint {
        addresses(&remote, "network.peer", &mut attributes);
        let peer = remote.service_name.filter(|name| !name.is_empty());
        attributes.extend(peer.map(|name| text("peer.service", name)));
    }
    let span = Span {
        trace_id: ids::trace("traceId", &sent.trace_id)?,
        span_id: ids::span("id", &sent.id)?,
        parent_span_id: ids::span("parentId", sent.parent_id.as_deref().unwrap_or_default())?,
        name: sent.name.unwrap_or_default(),
        kind: kind.into(),
        start_time_unix_nano: start,
        end_time_unix_nano: numbers::end(start, sent.duration.as_ref())?,
        attributes,
        events: annotations.into_iter().map(|sent| event(sent, room)).collect::<Result<_, _>>()?,
        links,
        status,
        trace_state,
        flags: u32::from(sent.debug.unwrap_or_default()),
        ..Span::default()
    };
    Ok((local.unwrap_or_default(), span, scope))
}

/// Returns the kind. Zipkin has no word for `internal`; OpenTelemetry's exporters write a tag.
fn kind(word: Option<&str>, tags: &mut Map<String, Value>) -> SpanKind {
    match word.unwrap_or_default().to_ascii_uppercase().as_str() {
        "CLIENT" => SpanKind::Client,
        "SERVER" => SpanKind::Server,
        "PRODUCER" => SpanKind::Producer,
        "CONSUMER" => SpanKind::Consumer,
        _ if tags.get("span.kind").and_then(Value::as_str) == Some("internal") => {
            tags.shift_remove("span.kind");
            SpanKind::Internal
        }
        _ => SpanKind::Unspecified,
    }
}

/// Returns the status: that of OpenTelemetry's exporters, else an error if the span has the tag `error`, whose value is
/// the message.
fn status(tags: &mut Map<String, Value>) -> Option<Status> {
    let mut taken = |name: &str| tags.shift_remove(name);
    let code = taken("otel.status_code");
    // The specification has `OK`; the Collector's exporter writes `STATUS_CODE_OK`.
    let code = code.as_ref().and_then(Value::as_str).map(str::to_ascii_uppercase);
    let code = match code.as_deref().map(|code| code.trim_start_matches("STATUS_CODE_")) {
        Some("OK") => Some(StatusCode::Ok),
        Some("ERROR") => Some(StatusCode::Error),
        _ => None,
    };
    let message = taken("otel.status_description");
    let message = message.as_ref().and_then(Value::as_str).map(ToOwned::to_owned);
    // An `error` that is `false` is none.
    let is_error = tags.get("error").is_some_and(|error| error != "false" && *error != Value::Bool(false));
    let error = if is_error && code != Some(StatusCode::Ok) { tags.shift_remove("error") } else { None };
    if code.is_none() && error.is_none() && message.is_none() {
        return None;
    }
    let told = error.as_ref().and_then(Value::as_str).filter(|told| *told != "true").map(ToOwned::to_owned);
    let code = code.or(error.as_ref().map(|_| StatusCode::Error)).unwrap_or_default();
    Some(Status { code: code.into(), message: message.or(told).unwrap_or_default() })
}

/// Returns the links, which the Collector's exporter writes as tags: `otlp.link.0` is `TRACE|SPAN|STATE|{...}|0`.
fn links(tags: &mut Map<String, Value>, room: &mut Allowance) -> Vec<Link> {
    let mut links = Vec::new();
    loop {
        let key = format!("{LINK_PREFIX}{}", links.len());
        let written = tags.get(&key).and_then(Value::as_str);
        let Some(link) = written.and_then(|written| link(written, room)) else { return links };
        tags.shift_remove(&key);
        links.push(link);
    }
}

fn link(written: &str, room: &mut Allowance) -> Option<Link> {
    let mut parts = written.splitn(3, '|');
    let (trace, span, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let (rest, dropped) = rest.rsplit_once('|')?;
    let (state, attributes) = rest.split_once('|')?;
    let attributes: Map<String, Value> = decode::json(attributes.as_bytes(), room).ok()?;
    Some(Link {
        trace_id: ids::linked_trace("traceId", trace).ok()?,
        span_id: ids::span("spanId", span).ok()?,
        trace_state: state.to_owned(),
        attributes: attributes.iter().map(|(key, value)| json(key, value)).collect(),
        dropped_attributes_count: dropped.parse().ok()?,
        ..Link::default()
    })
}

/// Adds the address and the port of an endpoint.
fn addresses(endpoint: &Endpoint, location: &str, attributes: &mut Vec<KeyValue>) {
    let address = endpoint.ipv4.as_ref().or(endpoint.ipv6.as_ref());
    attributes.extend(address.map(|address| text(format!("{location}.address"), address)));
    let port = endpoint.port.filter(|port| *port != 0);
    attributes.extend(port.map(|port| attribute(format!("{location}.port"), Any::IntValue(port.into()))));
}

/// Converts an annotation. Exporters of OpenTelemetry write the attributes of an event into it: `name|{...}|0`.
fn event(annotation: Annotation, room: &mut Allowance) -> Result<Event, String> {
    let parts = annotation.value.split_once('|').and_then(|(name, rest)| {
        let (written, dropped) = rest.rsplit_once('|')?;
        let attributes: Map<String, Value> = decode::json(written.as_bytes(), room).ok()?;
        Some((name.to_owned(), attributes, dropped.parse().ok()?))
    });
    let (name, attributes, dropped_attributes_count) =
        parts.unwrap_or_else(|| (annotation.value, Map::new(), 0));
    Ok(Event {
        time_unix_nano: numbers::nanos("timestamp", &annotation.timestamp)?,
        name,
        attributes: attributes.iter().map(|(key, value)| json(key, value)).collect(),
        dropped_attributes_count,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use qualitytrace_core::trace::{self, StatusCode};
    use qualitytrace_core::value::Value as Core;
    use serde_json::json;

    use super::*;
    use crate::receive::otlp::convert;

    fn spans(document: &Value) -> Vec<trace::Span> {
        let (request, refused) = read(document.to_string().as_bytes(), &mut Allowance::new(1 << 20)).unwrap();
        assert_eq!(refused, RefusedSpans::default());
        convert::spans(request).into_iter().map(|(_, span)| span).collect()
    }

    #[test]
    fn a_span_keeps_what_zipkin_has_of_it() {
        let span = &spans(&json!([{
            "traceId": "5982fe77008310cc80f1da5e10147517", "id": "90394f6bcffb5d13", "parentId": "bd7a977555f6b982",
            "name": "get", "kind": "SERVER", "timestamp": 1_700_000_000_000_001_u64, "duration": 25,
            "localEndpoint": { "serviceName": "shop", "ipv4": "10.0.0.1", "port": 8080 },
            "remoteEndpoint": { "serviceName": "till", "ipv6": "::1" },
            "annotations": [{ "timestamp": 1_700_000_000_000_002_u64, "value": "retry" },
                { "timestamp": 3, "value": "log|{\"n\":1,\"s\":\"a|b\"}|2" }],
            "tags": { "http.path": "/", "error": "gone", "otel.scope.name": "lib" },
        }]))[0];
        assert_eq!(
            (span.id.unwrap().to_string(), span.parent.unwrap().to_string()),
            ("90394f6bcffb5d13".into(), "bd7a977555f6b982".into())
        );
        assert_eq!((span.start.as_nanos(), span.duration().as_nanos()), (1_700_000_000_000_001_000, 25_000));
        assert_eq!((span.kind, span.service(), &*span.scope.name), (trace::SpanKind::Server, "shop", "lib"));
        let status = span.status.as_ref().unwrap();
        assert_eq!((status.code, &*status.message), (StatusCode::Error, "gone"));
        let attribute = |name: &str| span.attributes.get(name).cloned();
        assert_eq!(attribute("network.local.port"), Some(Core::Int(8080)));
        assert_eq!(attribute("network.peer.address"), Some(Core::from("::1")));
        assert_eq!((attribute("peer.service"), attribute("error")), (Some(Core::from("till")), None));
        assert_eq!((&*span.events[0].name, &*span.events[1].name), ("retry", "log"));
        assert_eq!(span.events[1].attributes.get("s"), Some(&Core::from("a|b")));
        assert_eq!(span.events[1].dropped_attributes, 2);
    }

    #[test]
    fn tags_of_the_collectors_exporter_are_what_they_were_in_otlp() {
        let of = |tags: Value| {
            let mut document = json!([{ "traceId": "ab", "id": "1", "timestamp": 1, "duration": 2, "tags": {
                "otel.library.name": "lib", "otel.library.version": "1.2", "span.kind": "internal",
                "w3c.tracestate": "vendor=1" } }]);
            document[0]["tags"].as_object_mut().unwrap().extend(tags.as_object().unwrap().clone());
            let span = spans(&document).remove(0);
            assert_eq!(
                (&*span.scope.name, &*span.scope.version, &*span.trace_state),
                ("lib", "1.2", "vendor=1")
            );
            assert_eq!((span.kind, span.attributes.len()), (trace::SpanKind::Internal, 0));
            span
        };
        for (tags, expected) in [
            (json!({}), None),
            (json!({ "otel.status_code": "STATUS_CODE_OK" }), Some((StatusCode::Ok, ""))),
            (
                json!({ "otel.status_code": "STATUS_CODE_ERROR", "error": "true" }),
                Some((StatusCode::Error, "")),
            ),
            (
                json!({ "otel.status_code": "STATUS_CODE_ERROR", "error": "true", "otel.status_description": "gone" }),
                Some((StatusCode::Error, "gone")),
            ),
            (json!({ "otel.status_code": "OK" }), Some((StatusCode::Ok, ""))),
            (json!({ "otel.status_code": "ERROR", "error": "gone" }), Some((StatusCode::Error, "gone"))),
        ] {
            let status = of(tags).status;
            let told = status.as_ref().map(|status| (status.code, &*status.message));
            assert_eq!(told, expected);
        }
        let trace = "5982fe77008310cc80f1da5e10147517";
        let linked =
            of(json!({ "otlp.link.0": format!("{trace}|90394f6bcffb5d13|vendor=2|{{\"n\":\"a|b\"}}|3"),
            "otlp.link.1": format!("{trace}|90394f6bcffb5d14||{{}}|0") }));
        let link = &linked.links[0];
        assert_eq!((linked.links.len(), link.trace.unwrap().to_string()), (2, trace.to_owned()));
        assert_eq!((&*link.trace_state, link.dropped_attributes), ("vendor=2", 3));
        assert_eq!(link.attributes.get("n"), Some(&Core::from("a|b")));
        assert_eq!(linked.links[1].span.unwrap().to_string(), "90394f6bcffb5d14");
    }

    proptest! {
        #[test]
        fn ids_names_times_and_tags_are_kept(
            parts in proptest::collection::vec(
                (1..u64::MAX, any::<u64>(), "\\PC{0,8}", 0..1_u64 << 50, 0..1_u64 << 40, "[a-z]{0,3}",
                 proptest::collection::btree_map("k[a-z]{1,2}", "\\PC{0,8}", 0..4)), 1..6),
            is_nested in any::<bool>(),
        ) {
            let written = parts.iter().map(|(id, parent, name, start, duration, service, tags)| json!({
                "traceId": "ab", "id": format!("{id:x}"), "parentId": format!("{parent:016x}"), "name": name,
                "timestamp": start, "duration": duration, "localEndpoint": { "serviceName": service }, "tags": tags,
            }));
            let written: Value = written.collect();
            let found = spans(&if is_nested { json!([written]) } else { written });
            prop_assert_eq!(found.len(), parts.len());
            for (id, parent, name, start, duration, service, tags) in &parts {
                let is_it = |span: &&trace::Span| span.id.map(qualitytrace_core::id::SpanId::to_bytes) == Some(id.to_be_bytes())
                    && span.start.as_nanos() == start * 1_000 && *span.name == **name && span.service() == service;
                let span = found.iter().find(is_it).unwrap();
                prop_assert_eq!(span.parent.map_or([0; 8], qualitytrace_core::id::SpanId::to_bytes), parent.to_be_bytes());
                prop_assert_eq!(span.duration().as_nanos(), u128::from(duration * 1_000));
                let kept = span.attributes.iter().map(|(key, value)| (key.to_owned(), value.clone()));
                let given = tags.iter().map(|(key, value)| (key.clone(), Core::from(value.clone())));
                prop_assert_eq!(kept.collect::<Vec<_>>(), given.collect::<Vec<_>>());
            }
        }
    }
}
