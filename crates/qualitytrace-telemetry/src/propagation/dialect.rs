//! The propagators and their header formats.

use std::collections::HashMap;

use http::HeaderMap;
use opentelemetry::{
    propagation::TextMapPropagator as _,
    trace::{SpanId, TraceContextExt as _, TraceId},
};
use opentelemetry_sdk::propagation::TraceContextPropagator;

use super::Context;

/// A propagator, by its name in `OTEL_PROPAGATORS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagator {
    /// `tracecontext`: `traceparent` and `tracestate` of the W3C.
    TraceContext,
    /// `b3`: one `b3` header. Reads the headers of `b3multi` too.
    B3,
    /// `b3multi`: `x-b3-*` headers. Reads the header of `b3` too.
    B3Multi,
    /// `jaeger`: `uber-trace-id`.
    Jaeger,
    /// `ottrace`: `ot-tracer-*`.
    OtTrace,
    /// `xray`: `x-amzn-trace-id`.
    Xray,
    /// `baggage` of the W3C, forwarded unchanged.
    Baggage,
}

impl Propagator {
    /// All propagators.
    pub const ALL: [Self; 7] =
        [Self::TraceContext, Self::B3, Self::B3Multi, Self::Jaeger, Self::OtTrace, Self::Xray, Self::Baggage];

    /// The name that `OTEL_PROPAGATORS` uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::TraceContext => "tracecontext",
            Self::B3 => "b3",
            Self::B3Multi => "b3multi",
            Self::Jaeger => "jaeger",
            Self::OtTrace => "ottrace",
            Self::Xray => "xray",
            Self::Baggage => "baggage",
        }
    }

    /// The headers that it reads.
    pub fn fields(self) -> &'static [&'static str] {
        match self {
            Self::TraceContext => &["traceparent", "tracestate"],
            Self::B3 | Self::B3Multi => &["b3", "x-b3-traceid", "x-b3-spanid", "x-b3-sampled", "x-b3-flags"],
            Self::Jaeger => &["uber-trace-id"],
            Self::OtTrace => &["ot-tracer-traceid", "ot-tracer-spanid", "ot-tracer-sampled"],
            Self::Xray => &["x-amzn-trace-id"],
            Self::Baggage => &["baggage"],
        }
    }

    /// The headers that carry a context.
    pub fn headers(self, context: &Context) -> Vec<(&'static str, String)> {
        let (trace, span) = (context.trace_id.to_string(), context.span_id.to_string());
        let sampled = u8::from(context.sampled);
        match self {
            Self::TraceContext => {
                let state = context.trace_state.as_deref().map(|state| ("tracestate", state.to_owned()));
                let parent = ("traceparent", format!("00-{trace}-{span}-{sampled:02x}"));
                std::iter::once(parent).chain(state).collect()
            }
            Self::B3 => vec![("b3", format!("{trace}-{span}-{sampled}"))],
            Self::B3Multi => {
                vec![("x-b3-traceid", trace), ("x-b3-spanid", span), ("x-b3-sampled", sampled.to_string())]
            }
            Self::Jaeger => vec![("uber-trace-id", format!("{trace}:{span}:0:{sampled}"))],
            Self::OtTrace => vec![
                ("ot-tracer-traceid", trace[16..].to_owned()),
                ("ot-tracer-spanid", span),
                ("ot-tracer-sampled", context.sampled.to_string()),
            ],
            Self::Xray => {
                let (epoch, unique) = trace.split_at(8);
                vec![("x-amzn-trace-id", format!("Root=1-{epoch}-{unique};Parent={span};Sampled={sampled}"))]
            }
            Self::Baggage => context
                .baggage
                .as_deref()
                .map(|baggage| ("baggage", baggage.to_owned()))
                .into_iter()
                .collect(),
        }
    }

    /// Reads the caller's context, if its headers are there.
    pub(super) fn read(self, headers: &HeaderMap) -> Option<Context> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
        match self {
            Self::TraceContext => trace_context(text("traceparent")?, text("tracestate")),
            Self::B3 | Self::B3Multi => text("b3").and_then(b3).or_else(|| {
                let sampled =
                    text("x-b3-flags").filter(|flags| *flags == "1").or_else(|| text("x-b3-sampled"));
                context(text("x-b3-traceid")?, text("x-b3-spanid")?, sampled)
            }),
            Self::Jaeger => jaeger(text("uber-trace-id")?),
            Self::OtTrace => {
                context(text("ot-tracer-traceid")?, text("ot-tracer-spanid")?, text("ot-tracer-sampled"))
            }
            Self::Xray => xray(text("x-amzn-trace-id")?),
            Self::Baggage => None,
        }
    }
}

fn trace_context(parent: &str, state: Option<&str>) -> Option<Context> {
    let pairs = [("traceparent", Some(parent)), ("tracestate", state)];
    let carrier: HashMap<String, String> =
        pairs.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?.to_owned()))).collect();
    let found = TraceContextPropagator::new().extract_with_context(&opentelemetry::Context::new(), &carrier);
    let found = found.span().span_context().clone();
    let state = found.trace_state().header();
    found.is_valid().then(|| Context {
        trace_state: Some(state).filter(|state| !state.is_empty()).map(Into::into),
        ..Context::new(found.trace_id(), found.span_id(), Some(found.is_sampled()))
    })
}

/// Reads `{trace}-{span}`, `{trace}-{span}-{sampled}` or `{trace}-{span}-{sampled}-{parent}`.
fn b3(text: &str) -> Option<Context> {
    let mut parts = text.split('-');
    context(parts.next()?, parts.next()?, parts.next())
}

/// Reads `{trace}:{span}:{parent}:{flags}`, percent-encoded or not, with or without leading zeros.
fn jaeger(text: &str) -> Option<Context> {
    let text = text.replace("%3A", ":").replace("%3a", ":");
    let parts: Vec<&str> = text.split(':').collect();
    let [trace, span, _, flags] = parts.as_slice() else { return None };
    let flags = u8::from_str_radix(flags, 16).ok()?;
    context(trace, span, Some(if flags & 1 == 1 { "1" } else { "0" }))
}

/// Reads `Root=1-{8 digits}-{24 digits};Parent={span};Sampled={0|1|?}` in any order.
fn xray(text: &str) -> Option<Context> {
    let part = |name: &str| {
        text.split(';').filter_map(|part| part.trim().split_once('=')).find(|(key, _)| *key == name)
    };
    let (_, root) = part("Root")?;
    let trace = root.strip_prefix("1-")?.replace('-', "");
    let (_, span) = part("Parent")?;
    context(&trace, span, part("Sampled").map(|(_, sampled)| sampled))
}

/// A context of ids and a sampling flag; a missing or unknown flag defers the decision to this process.
fn context(trace: &str, span: &str, sampled: Option<&str>) -> Option<Context> {
    let hex = |text: &str, most: usize| {
        let digits = !text.is_empty() && text.len() <= most && text.bytes().all(|b| b.is_ascii_hexdigit());
        digits.then_some(())
    };
    hex(trace, 32).and(hex(span, 16))?;
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    let sampled = match sampled.map(str::to_ascii_lowercase).as_deref() {
        Some("1" | "true" | "d") => Some(true),
        Some("0" | "false") => Some(false),
        Some(_) | None => None,
    };
    (trace != TraceId::INVALID && span != SpanId::INVALID).then(|| Context::new(trace, span, sampled))
}
