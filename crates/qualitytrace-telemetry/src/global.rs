//! Providers for `opentelemetry::global`, for libraries that use the OpenTelemetry API and not `tracing`.
//!
//! Their spans take the same path as those of the layer. A span of theirs is the child of the current `tracing` span
//! where no span of the API is current, and vice versa.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Instant, SystemTime},
};

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::{
    Context as ApiContext, InstrumentationScope, KeyValue, Value as ApiValue,
    propagation::{Extractor, Injector, TextMapPropagator, text_map_propagator::FieldIter},
    trace::{
        Span as ApiSpan, SpanBuilder, SpanContext, SpanKind, Status as ApiStatus, TraceContextExt as _,
        TraceFlags, TraceState, Tracer, TracerProvider,
    },
};
use opentelemetry_sdk::{
    propagation::BaggagePropagator,
    trace::{IdGenerator as _, RandomIdGenerator},
};

use crate::{
    attributes::{Attributes, Value, shorten},
    clock,
    config::{Level, Role},
    context,
    layer::Shared,
    propagation::{Context, Local, Propagator},
    span::{Span, Status},
};

/// Installs this telemetry as the global provider of the process.
pub(crate) fn install(shared: &Arc<Shared>, meters: opentelemetry_sdk::metrics::SdkMeterProvider) {
    shared.api_spans.serve();
    opentelemetry::global::set_tracer_provider(Provider(shared.clone()));
    opentelemetry::global::set_meter_provider(meters);
    opentelemetry::global::set_text_map_propagator(Headers::new(shared.clone()));
}

/// The tracer provider.
#[derive(Clone)]
struct Provider(Arc<Shared>);

impl TracerProvider for Provider {
    type Tracer = ApiTracer;

    fn tracer_with_scope(&self, scope: InstrumentationScope) -> ApiTracer {
        ApiTracer { shared: self.0.clone(), scope }
    }
}

struct ApiTracer {
    shared: Arc<Shared>,
    scope: InstrumentationScope,
}

impl Tracer for ApiTracer {
    type Span = Open;

    fn build_with_context(&self, builder: SpanBuilder, parent: &ApiContext) -> Open {
        if context::suppressed() || self.shared.is_closed() {
            return Open::nowhere();
        }
        let parent = self.shared.api_spans.of(parent).or_else(Context::current);
        let ids = RandomIdGenerator::default();
        let trace_id = parent.as_ref().map_or_else(|| ids.new_trace_id(), |parent| parent.trace_id);
        let span_id = ids.new_span_id();
        let start = builder.start_time.map_or_else(clock::now, clock::nanos);
        let span = Span::new(Role::Server, Level::Info, (trace_id, span_id), builder.name, start);
        let mut span = span.limited(self.shared.limits.get());
        span.kind = builder.span_kind.unwrap_or(SpanKind::Internal);
        if let Some(parent) = &parent {
            match parent.local() {
                Some(local) => (span.parents, span.remote) = (local.parents, local.remote),
                None => {
                    span.parents = [parent.span_id; 5];
                    span.remote_parent = true;
                    span.remote = (!parent.deferred).then_some(parent.sampled);
                }
            }
            span.trace_state.clone_from(&parent.trace_state);
        }
        put(&mut span.attributes, &KeyValue::new("otel.scope.name", self.scope.name().to_owned()));
        builder.attributes.iter().flatten().for_each(|pair| put(&mut span.attributes, pair));
        for link in builder.links.iter().flatten() {
            span.follows(link.span_context.trace_id(), link.span_context.span_id());
        }
        let sampled = self.shared.sinks.with(|set| set.samples(Role::Server, trace_id, span.remote));
        // Every level of sinks takes a span of this level or a finer one, or knows its parent.
        let mut parents = span.parents;
        parents.iter_mut().take(Level::Info as usize + 1).for_each(|parent| *parent = span_id);
        self.shared.api_spans.open().insert(span_id, Local { remote: span.remote, parents });
        self.shared.started.fetch_add(1, Relaxed);
        self.shared.live.fetch_add(1, Relaxed);
        let state = span.trace_state.as_deref().and_then(|state| state.parse::<TraceState>().ok());
        let flags = if sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
        let place = SpanContext::new(trace_id, span_id, flags, false, state.unwrap_or_default());
        let mut open = Open {
            place,
            clock: (start, Instant::now()),
            recording: Some((self.shared.clone(), Box::new(span))),
            sampled,
        };
        for event in builder.events.into_iter().flatten() {
            open.add_event_with_timestamp(event.name, event.timestamp, event.attributes);
        }
        open
    }
}

/// A span of the API; it has not ended while it is recording.
struct Open {
    place: SpanContext,
    clock: (u64, Instant),
    recording: Option<(Arc<Shared>, Box<Span>)>,
    sampled: bool,
}

impl Open {
    fn nowhere() -> Self {
        Self { place: SpanContext::NONE, clock: (0, Instant::now()), recording: None, sampled: false }
    }

    fn span(&mut self) -> Option<&mut Span> {
        self.recording.as_mut().map(|(_, span)| &mut **span)
    }

    fn finish(&mut self, end: Option<SystemTime>) {
        let Some((shared, mut span)) = self.recording.take() else { return };
        let (start, clock) = self.clock;
        let took = u64::try_from(clock.elapsed().as_nanos()).unwrap_or(0);
        span.end = end.map_or(start + took, clock::nanos);
        shared.api_spans.open().remove(&span.id);
        shared.live.fetch_sub(1, Relaxed);
        if self.sampled {
            shared.intake.push(&span.record());
        } else {
            shared.intake.unsampled();
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.finish(None);
    }
}

impl ApiSpan for Open {
    fn add_event_with_timestamp<T>(&mut self, name: T, timestamp: SystemTime, attributes: Vec<KeyValue>)
    where
        T: Into<Cow<'static, str>>,
    {
        let Some((shared, span)) = &mut self.recording else { return };
        let mut found = Attributes::limited(shared.limits.get().of_events());
        for pair in &attributes {
            put(&mut found, pair);
        }
        span.happened((Level::Info, None), clock::nanos(timestamp), &name.into(), &found);
    }

    fn span_context(&self) -> &SpanContext {
        &self.place
    }

    fn is_recording(&self) -> bool {
        self.recording.is_some()
    }

    fn set_attribute(&mut self, attribute: KeyValue) {
        if let Some(span) = self.span() {
            put(&mut span.attributes, &attribute);
        }
    }

    fn set_status(&mut self, status: ApiStatus) {
        let Some(span) = self.span() else { return };
        match status {
            ApiStatus::Unset => {}
            // By the specification, a status of `Ok` is final.
            ApiStatus::Error { .. } if span.status == Status::Ok => {}
            ApiStatus::Error { description } => {
                span.status = Status::Error;
                shorten(&description).clone_into(&mut span.status_message);
            }
            ApiStatus::Ok => {
                span.status = Status::Ok;
                span.status_message.clear();
            }
        }
    }

    fn update_name<T>(&mut self, name: T)
    where
        T: Into<Cow<'static, str>>,
    {
        if let Some(span) = self.span() {
            span.name = name.into();
        }
    }

    fn add_link(&mut self, place: SpanContext, _: Vec<KeyValue>) {
        if let Some(span) = self.span() {
            span.follows(place.trace_id(), place.span_id());
        }
    }

    fn end_with_timestamp(&mut self, timestamp: SystemTime) {
        self.finish(Some(timestamp));
    }

    fn end(&mut self) {
        self.finish(None);
    }
}

fn put(attributes: &mut Attributes, pair: &KeyValue) {
    let value = match &pair.value {
        ApiValue::Bool(value) => Value::Bool(*value),
        ApiValue::I64(value) => Value::Int(*value),
        ApiValue::F64(value) => Value::Float(*value),
        other => Value::Text(other.as_str()),
    };
    attributes.put(pair.key.as_str(), &value);
}

/// The propagators of this telemetry, as a propagator of the API.
struct Headers {
    shared: Arc<Shared>,
    fields: Vec<String>,
    baggage: BaggagePropagator,
}

impl Headers {
    fn new(shared: Arc<Shared>) -> Self {
        let fields: BTreeSet<&str> =
            Propagator::ALL.into_iter().flat_map(Propagator::fields).copied().collect();
        let fields = fields.into_iter().map(str::to_owned).collect();
        Self { shared, fields, baggage: BaggagePropagator::new() }
    }
}

impl std::fmt::Debug for Headers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Headers").field(&self.fields).finish()
    }
}

impl TextMapPropagator for Headers {
    fn inject_context(&self, context: &ApiContext, injector: &mut dyn Injector) {
        let propagators = self.shared.sinks.with(|set| set.propagators.clone());
        if let Some(place) = self.shared.api_spans.of(context).or_else(Context::current) {
            let mut headers = HeaderMap::new();
            propagators.inject(&place, &mut headers);
            for (name, value) in &headers {
                injector.set(name.as_str(), value.to_str().unwrap_or_default().to_owned());
            }
        }
        if propagators.0.contains(&Propagator::Baggage) {
            self.baggage.inject_context(context, injector);
        }
    }

    fn extract_with_context(&self, context: &ApiContext, extractor: &dyn Extractor) -> ApiContext {
        let propagators = self.shared.sinks.with(|set| set.propagators.clone());
        let mut headers = HeaderMap::new();
        for field in &self.fields {
            let value = extractor.get(field).and_then(|text| HeaderValue::from_str(text).ok());
            if let (Ok(name), Some(value)) = (HeaderName::try_from(field), value) {
                headers.insert(name, value);
            }
        }
        let mut found = context.clone();
        if let Some(caller) = propagators.extract(&headers) {
            let flags = if caller.sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
            let state = caller.trace_state.as_deref().and_then(|state| state.parse::<TraceState>().ok());
            let state = state.unwrap_or_default();
            let place = SpanContext::new(caller.trace_id, caller.span_id, flags, true, state);
            found = found.with_remote_span_context(place);
        }
        if propagators.0.contains(&Propagator::Baggage) {
            found = self.baggage.extract_with_context(&found, extractor);
        }
        found
    }

    fn fields(&self) -> FieldIter<'_> {
        FieldIter::new(&self.fields)
    }
}
