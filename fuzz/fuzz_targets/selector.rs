//! Fuzzes selectors with any text: no panic, spans inside the text, a round trip through printing, selection that
//! terminates.

#![no_main]

use libfuzzer_sys::fuzz_target;
use qualitytrace_core::id::{SpanId, TraceId};
use qualitytrace_core::judge::nearest_misses;
use qualitytrace_core::lang;
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Attributes, Dropped, Resource, Scope, Span, SpanKind, Trace};
use qualitytrace_fuzz::on_a_small_stack;

fuzz_target!(|text: &str| {
    on_a_small_stack(|| {
        let parsed = lang::parse_selector(text);
        for diagnostic in &parsed.diagnostics {
            assert!(diagnostic.span.start <= diagnostic.span.end && diagnostic.span.end <= text.len());
        }
        lang::render("selector", text, &parsed.diagnostics, false);
        if parsed.is_valid() {
            let printed = parsed.tree.to_string();
            let again = lang::parse_selector(&printed);
            assert!(again.is_valid(), "{printed}");
            assert_eq!(again.tree, parsed.tree, "{printed}");
            let trace = trace();
            let _ = lang::select(&parsed.tree, &trace, &qualitytrace_core::budget::Budget::default());
            nearest_misses(&parsed.tree, &trace, 2, true, &qualitytrace_core::budget::Budget::default());
        }
    });
});

/// A small trace: the parent of each span has half of its number.
fn trace() -> Trace {
    let spans = (1_u64..10).map(|at| {
        let mut attributes = Attributes::default();
        attributes.set("http.status_code", i64::try_from(200 + at).unwrap_or(0));
        attributes.set("text", ["a", "b", "", "[1,2]"][at as usize % 4]);
        Span {
            id: SpanId::from_bytes(at.to_be_bytes()),
            parent: SpanId::from_bytes((at / 2).to_be_bytes()),
            name: format!("span {}", at % 3).into(),
            kind: [SpanKind::Server, SpanKind::Client, SpanKind::Internal][at as usize % 3],
            start: Timestamp::from_nanos(at),
            end: Some(Timestamp::from_nanos(at * 7)),
            status: None,
            attributes,
            events: vec![],
            links: vec![],
            resource: Resource::default().into(),
            scope: Scope::default().into(),
            trace_state: "".into(),
            flags: 0,
            dropped: Dropped::default(),
        }
    });
    Trace::assemble(TraceId::from_bytes([1; 16]).expect("not zero"), spans)
}
