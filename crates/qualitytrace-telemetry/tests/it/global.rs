//! Telemetry of a library that only uses the OpenTelemetry API.

use std::{collections::HashMap, time::Duration};

use opentelemetry::{
    Context, KeyValue, global,
    trace::{TraceContextExt as _, Tracer as _},
};
use qualitytrace_telemetry::{SpanExt as _, SpanId, Telemetry, TraceId, config::Transport};

use crate::{
    basics::{config, sink, under},
    receiver::Receiver,
};

/// A library that only knows `opentelemetry::global`.
mod library {
    use opentelemetry::trace::{Span as _, SpanKind, Status, TraceContextExt as _, Tracer as _};

    use super::{Context, HashMap, KeyValue, global};

    /// Returns the headers that it would send.
    pub(super) fn ask(within: impl FnOnce()) -> HashMap<String, String> {
        let tracer = global::tracer("some-library");
        let mut span = tracer.span_builder("ask").with_kind(SpanKind::Client).start(&tracer);
        span.set_attribute(KeyValue::new("peer", "example.org"));
        span.add_event("sent", vec![KeyValue::new("bytes", 7)]);
        span.set_status(Status::error("no answer"));
        let context = Context::current_with_span(span);
        let mut headers = HashMap::new();
        global::get_text_map_propagator(|propagator| propagator.inject_context(&context, &mut headers));
        let guard = context.clone().attach();
        within();
        drop(guard);
        context.span().end();
        global::meter("some-library").u64_counter("library.asked").build().add(3, &[]);
        headers
    }
}

#[test]
fn a_library_that_uses_the_global_api_is_exported() {
    let receiver = Receiver::start();
    let mut config = config(None, vec![sink("one", &receiver.url(), Transport::Http)]);
    config.set_global = true;
    let telemetry = Telemetry::start(config).unwrap();
    let caller = HashMap::from([(
        "traceparent".to_owned(),
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned(),
    )]);
    let (headers, outer) = under(&telemetry, || {
        let outer = tracing::info_span!("outer").entered();
        let headers = library::ask(|| {
            // As in a separate task: no `tracing` span is current, but the library's span is.
            let nested = tracing::info_span!(parent: None, "detached");
            drop(nested);
        });
        let outer = outer.telemetry_context().unwrap();
        let tracer = global::tracer("some-library");
        let parent = global::get_text_map_propagator(|propagator| propagator.extract(&caller));
        tracer.build_with_context(tracer.span_builder("continued"), &parent);
        (headers, outer)
    });
    let inside = under(&telemetry, || {
        let tracer = global::tracer("some-library");
        let context = Context::current_with_span(tracer.start("work"));
        let _guard = context.attach();
        tracing::info_span!("child").telemetry_context().unwrap()
    });
    let status = telemetry.shutdown(Duration::from_secs(10));
    assert!(status.holds(), "{}", status.render());
    let got = receiver.stop();
    let find =
        |name: &str| got.spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("{name}"));
    let ask = find("ask");
    assert_eq!(ask.trace_id, outer.trace_id.to_bytes());
    assert_eq!(ask.parent_span_id, outer.span_id.to_bytes(), "a child of the `tracing` span");
    assert_eq!((ask.kind, ask.events.len()), (3, 1));
    assert_eq!(
        ask.status.as_ref().map(|status| (status.code, status.message.as_str())),
        Some((2, "no answer"))
    );
    let text = format!("{:?}", ask.attributes);
    assert!(text.contains("example.org") && text.contains("some-library"), "{text}");
    let trace = |bytes: &[u8]| TraceId::from_bytes(bytes.try_into().unwrap()).to_string();
    let span = |bytes: &[u8]| SpanId::from_bytes(bytes.try_into().unwrap()).to_string();
    let expected = format!("00-{}-{}-01", trace(&ask.trace_id), span(&ask.span_id));
    assert_eq!(headers.get("traceparent"), Some(&expected));
    let continued = find("continued");
    assert_eq!(trace(&continued.trace_id), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(span(&continued.parent_span_id), "b7ad6b7169203331");
    let (work, child) = (find("work"), find("child"));
    assert_eq!(child.parent_span_id, work.span_id, "a `tracing` span below the library's");
    assert_eq!(child.trace_id, inside.trace_id.to_bytes());
    assert!(find("detached").parent_span_id.is_empty());
    assert!(got.metrics.iter().any(|metric| metric.name == "library.asked"));
}
