//! Context propagation with every propagator that `OTEL_PROPAGATORS` and the declarative file name.

use std::time::Duration;

use http::{HeaderMap, HeaderName};
use qualitytrace_telemetry::{
    Context, SpanExt as _, SpanId, Telemetry,
    config::{Config, Diagnostic, Sampler, Sources, Transport},
};

use crate::{
    basics::{sink, under},
    receiver::Receiver,
};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

fn read(propagators: &str) -> (Config, Vec<Diagnostic>) {
    let mut sources = Sources::default();
    sources.environment = [("OTEL_PROPAGATORS".to_owned(), propagators.to_owned())].into();
    sources.read()
}

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let pairs = pairs.iter().map(|(name, text)| (name.parse::<HeaderName>().unwrap(), text.parse().unwrap()));
    pairs.collect()
}

/// A server that receives a request and sends one: returns the parent and trace of its span as a receiver sees them,
/// the id of that span, and the outgoing headers.
fn serve(propagators: &str, incoming: &[(&str, &str)]) -> (String, String, String, HeaderMap) {
    let (mut config, diagnostics) = read(propagators);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let receiver = Receiver::start();
    let mut one = sink("one", &receiver.url(), Transport::Grpc);
    // Only a sampler that follows the caller takes anything.
    one.sampler = Sampler::parent_based(Sampler::AlwaysOff);
    config.sinks.push(one);
    let telemetry = Telemetry::start(config).unwrap();
    let outgoing = under(&telemetry, || {
        let span = tracing::info_span!("handler");
        if let Some(caller) = telemetry.propagators().extract(&headers(incoming)) {
            span.continue_from(&caller);
        }
        span.in_scope(|| {
            let mut outgoing = HeaderMap::new();
            telemetry.propagators().inject(&Context::current().unwrap(), &mut outgoing);
            outgoing
        })
    });
    telemetry.shutdown(Duration::from_secs(10));
    let got = receiver.stop();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    let Some(span) = got.spans.first() else {
        return (String::new(), String::new(), String::new(), outgoing);
    };
    (hex(&span.parent_span_id), hex(&span.trace_id), hex(&span.span_id), outgoing)
}

#[test]
fn every_dialect_is_heard_and_spoken() {
    let own = |text: &str, id: &str| text.replace("{id}", id);
    for (name, incoming, outgoing) in [
        (
            "tracecontext",
            vec![("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")],
            vec![("traceparent", "00-0af7651916cd43dd8448eb211c80319c-{id}-01")],
        ),
        (
            "b3",
            vec![("b3", "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1-05e3ac9a4f6e3b90")],
            vec![("b3", "0af7651916cd43dd8448eb211c80319c-{id}-1")],
        ),
        (
            "b3multi",
            vec![
                ("X-B3-TraceId", TRACE),
                ("X-B3-SpanId", SPAN),
                ("X-B3-Sampled", "1"),
                ("X-B3-ParentSpanId", "05e3ac9a4f6e3b90"),
            ],
            vec![("x-b3-traceid", TRACE), ("x-b3-spanid", "{id}"), ("x-b3-sampled", "1")],
        ),
        (
            "jaeger",
            vec![("uber-trace-id", "af7651916cd43dd8448eb211c80319c%3Ab7ad6b7169203331%3A0%3A3")],
            vec![("uber-trace-id", "0af7651916cd43dd8448eb211c80319c:{id}:0:1")],
        ),
        (
            "xray",
            vec![(
                "X-Amzn-Trace-Id",
                "Self=x;Root=1-0af76519-16cd43dd8448eb211c80319c;Parent=b7ad6b7169203331;Sampled=1",
            )],
            vec![("x-amzn-trace-id", "Root=1-0af76519-16cd43dd8448eb211c80319c;Parent={id};Sampled=1")],
        ),
        (
            "ottrace",
            vec![("ot-tracer-traceid", TRACE), ("ot-tracer-spanid", SPAN), ("ot-tracer-sampled", "true")],
            vec![
                ("ot-tracer-traceid", "8448eb211c80319c"),
                ("ot-tracer-spanid", "{id}"),
                ("ot-tracer-sampled", "true"),
            ],
        ),
    ] {
        let (parent, trace, id, spoken) = serve(name, &incoming);
        assert_eq!((parent.as_str(), trace.as_str()), (SPAN, TRACE), "{name}");
        let expected: Vec<(&str, String)> =
            outgoing.into_iter().map(|(key, text)| (key, own(text, &id))).collect();
        let spoken: Vec<(&str, String)> =
            spoken.iter().map(|(key, value)| (key.as_str(), value.to_str().unwrap().to_owned())).collect();
        assert_eq!(spoken, expected, "{name}");
    }
}

#[test]
fn a_dialect_that_is_not_listed_is_neither_heard_nor_spoken() {
    let w3c = ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    for name in ["b3", "none", "baggage"] {
        let (parent, _, _, outgoing) = serve(name, &[w3c, ("baggage", "user=a")]);
        assert_eq!(parent, "", "{name}");
        assert!(!outgoing.contains_key("traceparent"), "{name}");
    }
    let (parent, ..) =
        serve("tracecontext", &[("b3", "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1")]);
    assert_eq!(parent, "");
}

#[test]
fn several_dialects_go_together_and_the_last_that_finds_something_wins() {
    let incoming = [
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("b3", "1af7651916cd43dd8448eb211c80319c-05e3ac9a4f6e3b90-1"),
        ("baggage", "user=a"),
    ];
    let (parent, _, _, outgoing) = serve("tracecontext, baggage,b3", &incoming);
    assert_eq!(parent, "05e3ac9a4f6e3b90");
    for name in ["traceparent", "b3", "baggage"] {
        assert!(outgoing.contains_key(name), "{name}");
    }
    let (parent, ..) = serve("b3,tracecontext", &incoming);
    assert_eq!(parent, SPAN);
}

#[test]
fn a_reload_changes_the_dialect() {
    let telemetry = Telemetry::start(read("tracecontext").0).unwrap();
    telemetry.reload(read("jaeger").0);
    let incoming = headers(&[("uber-trace-id", "1:2:0:1")]);
    let found = telemetry.propagators().extract(&incoming).unwrap();
    assert_eq!((found.span_id, found.sampled), (SpanId::from(2), true));
    telemetry.shutdown(Duration::ZERO);
}

#[test]
fn a_caller_may_decide_refuse_or_leave_the_choice() {
    let extract = |text: &str| read("b3").0.propagators.extract(&headers(&[("b3", text)]));
    let of = |text: &str| extract(text).map(|context| (context.sampled, context.deferred));
    assert_eq!(of("8448eb211c80319c-b7ad6b7169203331-d"), Some((true, false)));
    assert_eq!(of("8448eb211c80319c-b7ad6b7169203331-0"), Some((false, false)));
    assert_eq!(of("8448eb211c80319c-b7ad6b7169203331"), Some((false, true)));
    assert_eq!(
        extract("8448eb211c80319c-b7ad6b7169203331-1").unwrap().span_id,
        SpanId::from_hex(SPAN).unwrap()
    );
    for wrong in ["0", "", "x-y-1", "8448eb211c80319c-0000000000000000-1", "8448eb211c80319c--1", "+1-+1-1"] {
        assert_eq!(of(wrong), None, "{wrong}");
    }
}

#[test]
fn an_unknown_name_is_an_error_that_says_what_was_meant() {
    let said = |diagnostics: Vec<Diagnostic>| {
        diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(
        said(read("tracecontext,jeager").1),
        "$OTEL_PROPAGATORS: error: `OTEL_PROPAGATORS` cannot be `jeager`: expected tracecontext|b3|b3multi|jaeger|ottrace|xray|baggage|none; did you mean `jaeger`?"
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("o.yaml").to_str().unwrap().to_owned();
    let file = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let mut sources = Sources::default();
        sources.environment = [("OTEL_CONFIG_FILE".to_owned(), path.clone())].into();
        let (config, diagnostics) = sources.read();
        (config.propagators.to_string(), said(diagnostics).replace(&path, "o.yaml"))
    };
    let listed = "file_format: '1.1'\npropagator:\n  composite: [{b3multi: }, {baggage: }]\n  composite_list: xray,baggage\n";
    assert_eq!(file(listed), ("b3multi, baggage, xray".to_owned(), String::new()));
    let none = "file_format: '1.1'\npropagator: {composite_list: none}\n";
    assert_eq!(file(none), ("none".to_owned(), String::new()));
    let wrong = "file_format: '1.1'\npropagator:\n  composite:\n    - xrai:\n";
    assert_eq!(
        file(wrong).1,
        "o.yaml:4:7: error: `propagator` cannot be `xrai`: expected tracecontext|b3|b3multi|jaeger|ottrace|xray|baggage|none; did you mean `xray`?"
    );
}
