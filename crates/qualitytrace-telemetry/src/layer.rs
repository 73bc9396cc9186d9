//! The `tracing` layer: records spans when they close, and events at once.
//!
//! Nothing here can wait or fail. Special fields: `otel.name`, `otel.kind`, `otel.status_code`,
//! `otel.status_message`; every other field becomes an attribute.

mod api_spans;
mod fields;
mod limits;
mod open;
mod span_ext;
mod statement;

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use opentelemetry::trace::{SpanId, TraceId};
use opentelemetry_sdk::trace::{IdGenerator as _, RandomIdGenerator};
use tracing::{Dispatch, Event, Metadata, Subscriber, dispatcher::WeakDispatch, span};
use tracing_subscriber::{
    Layer, Registry,
    layer::{Context, Filter},
    registry::{LookupSpan, SpanRef},
};

use crate::{
    attributes::Value,
    clock,
    config::{Level, Role, Signal},
    context, filter,
    propagation::Parents,
    recorder::Intake,
    sinks::{Current, Set},
    span::{Log, Span, Status},
};
use api_spans::ApiSpans;
use fields::Fields;
use limits::LimitCell;
use open::Open;
pub use span_ext::SpanExt;

/// State shared by the layer, the tracers and [`Telemetry`](crate::Telemetry).
pub(crate) struct Shared {
    pub(crate) intake: Intake,
    pub(crate) sinks: Arc<Current>,
    span_level: AtomicU8,
    log_level: AtomicU8,
    /// Whether a sink decides by targets.
    targeted: AtomicBool,
    closed: AtomicBool,
    open: Open,
    dispatch: OnceLock<WeakDispatch>,
    pub(crate) started: AtomicU64,
    pub(crate) live: AtomicU64,
    /// The database system for statements of `sqlx`; they are not recorded while it is unset.
    pub(crate) database: OnceLock<&'static str>,
    /// Limits of spans and log records.
    pub(crate) limits: LimitCell,
    /// Spans of the OpenTelemetry API.
    pub(crate) api_spans: ApiSpans,
}

/// A trace and a span.
type Ids = (TraceId, SpanId);

impl Shared {
    pub(crate) fn new(intake: Intake, sinks: Arc<Current>) -> Self {
        Self {
            intake,
            sinks,
            span_level: AtomicU8::new(Level::Disable as u8),
            log_level: AtomicU8::new(Level::Disable as u8),
            targeted: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            open: Open::default(),
            dispatch: OnceLock::new(),
            started: AtomicU64::new(0),
            live: AtomicU64::new(0),
            database: OnceLock::new(),
            limits: LimitCell::default(),
            api_spans: ApiSpans::default(),
        }
    }

    /// Updates the levels after the sinks changed, and the interest cache of `tracing` if needed.
    pub(crate) fn refresh(&self, set: &Set) {
        let spans = self.span_level.swap(set.level(Signal::Traces) as u8, Relaxed);
        let logs = self.log_level.swap(set.level(Signal::Logs) as u8, Relaxed);
        let targeted = self.targeted.swap(set.is_targeted(), Relaxed);
        let same = (spans, logs) == (self.span_level.load(Relaxed), self.log_level.load(Relaxed));
        if same && !targeted && !set.is_targeted() {
            return;
        }
        // With a single subscriber the cache is rebuilt from the calling thread's default, which
        // may be none at all: every call site of the process would be switched off.
        if let Some(dispatch) = self.dispatch.get().and_then(WeakDispatch::upgrade) {
            tracing::dispatcher::with_default(&dispatch, tracing::callsite::rebuild_interest_cache);
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Relaxed);
    }

    fn wants(&self, metadata: &Metadata<'_>) -> bool {
        let level = level(*metadata.level()) as u8;
        let spans = self.span_level.load(Relaxed);
        let least = if metadata.is_span() { spans } else { spans.min(self.log_level.load(Relaxed)) };
        level >= least && !context::suppressed() && !self.closed.load(Relaxed) && self.takes_target(metadata)
    }

    /// Whether some sink takes the target. Transport crates are off where no sink decides by targets.
    fn takes_target(&self, metadata: &Metadata<'_>) -> bool {
        if !self.targeted.load(Relaxed) {
            return !filter::is_transport(metadata.target());
        }
        let level = level(*metadata.level());
        self.sinks.with(|set| set.wants(metadata.is_span(), metadata.target(), level))
    }

    /// Sends the spans that are still open, marked as such.
    pub(crate) fn end_open_spans(&self) {
        let Some(dispatch) = self.dispatch.get().and_then(WeakDispatch::upgrade) else {
            return;
        };
        let Some(registry) = dispatch.downcast_ref::<Registry>() else {
            return;
        };
        for id in self.open.take() {
            let Some(span) = registry.span(&span::Id::from_u64(id)) else {
                continue;
            };
            let taken = span.extensions_mut().get_mut::<State>().and_then(State::take);
            if let Some(mut span) = taken {
                span.attributes.put("span.open_at_shutdown", &Value::Bool(true));
                self.intake.push(&span.record());
            }
        }
    }
}

pub(crate) fn level(level: tracing::Level) -> Level {
    match level {
        tracing::Level::TRACE => Level::Trace,
        tracing::Level::DEBUG => Level::Debug,
        tracing::Level::INFO => Level::Info,
        tracing::Level::WARN => Level::Warn,
        tracing::Level::ERROR => Level::Error,
    }
}

/// The state of an open span.
pub(crate) struct State {
    pub(crate) trace_id: TraceId,
    pub(crate) span_id: SpanId,
    pub(crate) sampled: bool,
    pub(crate) remote: Option<bool>,
    pub(crate) vendor: Option<Arc<str>>,
    pub(crate) baggage: Option<Arc<str>>,
    /// How many levels of sinks it can be a parent for.
    reach: usize,
    parents: Parents,
    start: u64,
    clock: Instant,
    /// For a new sampling decision when the span learns of a caller.
    shared: Option<Arc<Shared>>,
    adopted: bool,
    /// `None` when no sink takes it.
    span: Option<Box<Span>>,
}

impl State {
    /// The parents of a child.
    pub(crate) fn for_child(&self) -> Parents {
        let mut parents = self.parents;
        for parent in parents.iter_mut().take(self.reach) {
            *parent = self.span_id;
        }
        parents
    }

    /// The current time by the clock of the span: children and events are never outside of its time, even when the
    /// machine's clock is set meanwhile.
    fn now(&self) -> u64 {
        self.start + u64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(0)
    }

    /// Attaches a span that has just begun to a caller in another process, or to an earlier span of this process.
    pub(crate) fn adopt(&mut self, caller: &crate::propagation::Context) {
        self.trace_id = caller.trace_id;
        if let Some(local) = caller.local() {
            self.parents = local.parents;
            self.remote = local.remote;
        } else {
            self.parents = [caller.span_id; 5];
            self.adopted = true;
            self.remote = (!caller.deferred).then_some(caller.sampled);
        }
        self.vendor.clone_from(&caller.trace_state);
        self.baggage.clone_from(&caller.baggage);
        if let Some(shared) = &self.shared {
            self.sampled = shared.sinks.with(|set| set.samples(Role::Server, self.trace_id, self.remote));
        }
    }

    /// Takes the finished span.
    fn take(&mut self) -> Option<Box<Span>> {
        let mut span = self.span.take()?;
        span.end = self.now();
        span.trace_id = self.trace_id;
        span.parents = self.parents;
        span.remote = self.remote;
        span.remote_parent = self.adopted;
        span.trace_state.clone_from(&self.vendor);
        Some(span)
    }
}

/// The layer; made by [`Telemetry::layer`](crate::Telemetry::layer).
pub(crate) struct TelemetryLayer(pub(crate) Arc<Shared>);

/// A filter that passes what a sink may want; other layers are not affected.
pub(crate) struct Gate(pub(crate) Arc<Shared>);

impl<S> Filter<S> for Gate {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.0.wants(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> tracing::subscriber::Interest {
        let least = self.0.span_level.load(Relaxed).min(self.0.log_level.load(Relaxed));
        if level(*metadata.level()) as u8 >= least && self.0.takes_target(metadata) {
            // Not `always`: recording may be suppressed on the thread.
            tracing::subscriber::Interest::sometimes()
        } else {
            tracing::subscriber::Interest::never()
        }
    }
}

impl<S> Layer<S> for TelemetryLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_register_dispatch(&self, dispatch: &Dispatch) {
        let _ = self.0.dispatch.set(dispatch.downgrade());
    }

    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &span::Id, ctx: Context<'_, S>) {
        let Some(span) = ctx.span(id) else { return };
        let parent = match attributes.parent() {
            Some(parent) => ctx.span(parent),
            None if attributes.is_contextual() => ctx.lookup_current(),
            None => None,
        };
        let metadata = attributes.metadata();
        let level = level(*metadata.level());
        let reach = if self.0.targeted.load(Relaxed) {
            self.0.sinks.with(|set| set.reach(metadata.target(), level))
        } else {
            level as usize + 1
        };
        let ids = RandomIdGenerator::default();
        let span_id = ids.new_span_id();
        let clock = Instant::now();
        let inherited = parent.as_ref().and_then(|parent| {
            let extensions = parent.extensions();
            let state = extensions.get::<State>()?;
            Some(State {
                trace_id: state.trace_id,
                span_id,
                sampled: state.sampled,
                remote: state.remote,
                vendor: state.vendor.clone(),
                baggage: state.baggage.clone(),
                reach,
                parents: state.for_child(),
                start: state.now(),
                clock,
                shared: None,
                adopted: false,
                span: None,
            })
        });
        let mut state = inherited.unwrap_or_else(|| {
            let trace_id = ids.new_trace_id();
            State {
                trace_id,
                span_id,
                sampled: self.0.sinks.with(|set| set.samples(Role::Server, trace_id, None)),
                remote: None,
                vendor: None,
                baggage: None,
                reach,
                parents: [SpanId::INVALID; 5],
                start: clock::now(),
                clock,
                shared: Some(self.0.clone()),
                adopted: false,
                span: None,
            }
        });
        if parent.is_none()
            && attributes.is_contextual()
            && let Some(caller) = self.0.api_spans.current()
        {
            state.adopt(&caller);
        }
        // A root may still learn of its caller, which may have sampled it.
        if state.sampled || parent.is_none() {
            let ids = (state.trace_id, span_id);
            let record = Span::new(Role::Server, level, ids, metadata.name().into(), state.start);
            let mut record = Box::new(record.limited(self.0.limits.get()));
            record.target = metadata.target();
            attributes.record(&mut fields::OfSpan { span: &mut record, is_new: true });
            state.span = Some(record);
        }
        self.0.started.fetch_add(1, Relaxed);
        self.0.live.fetch_add(1, Relaxed);
        self.0.open.insert(id.into_u64());
        span.extensions_mut().replace(state);
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, ctx: Context<'_, S>) {
        let Some(span) = ctx.span(id) else { return };
        let mut extensions = span.extensions_mut();
        if let Some(record) = extensions.get_mut::<State>().and_then(|state| state.span.as_mut()) {
            values.record(&mut fields::OfSpan { span: record, is_new: false });
        }
    }

    fn on_follows_from(&self, id: &span::Id, follows: &span::Id, ctx: Context<'_, S>) {
        let (Some(span), Some(other)) = (ctx.span(id), ctx.span(follows)) else {
            return;
        };
        // One after the other: holding both locks could deadlock with the opposite order.
        let target = other.extensions().get::<State>().map(|state| (state.trace_id, state.span_id));
        let mut extensions = span.extensions_mut();
        let record = extensions.get_mut::<State>().and_then(|state| state.span.as_mut());
        if let (Some(record), Some((trace, id))) = (record, target) {
            record.follows(trace, id);
        }
    }

    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        let metadata = event.metadata();
        let level = level(*metadata.level());
        let span = match event.parent() {
            Some(parent) => ctx.span(parent),
            None if event.is_contextual() => ctx.lookup_current(),
            None => None,
        };
        if let Some(system) = self.0.database.get().filter(|_| metadata.target() == statement::TARGET) {
            let extensions = span.as_ref().map(SpanRef::extensions);
            let parent = extensions.as_ref().and_then(|extensions| extensions.get::<State>());
            if let Some(parent) = parent.filter(|parent| parent.sampled) {
                let time = parent.now();
                let ids = (parent.trace_id, RandomIdGenerator::default().new_span_id());
                let record = statement::span(event, time, level, parent, ids, system).record();
                self.0.started.fetch_add(1, Relaxed);
                self.0.intake.push(&record);
            }
            return;
        }
        let limits = self.0.limits.get();
        let mut fields = Fields::new(limits.of_events());
        event.record(&mut fields);
        let log = level as u8 >= self.0.log_level.load(Relaxed);
        let (mut place, mut time) = (None, None);
        if let Some(span) = span {
            let mut extensions = span.extensions_mut();
            if let Some(state) = extensions.get_mut::<State>() {
                place = Some((state.trace_id, state.span_id, state.sampled));
                let now = *time.insert(state.now());
                if let Some(record) = &mut state.span {
                    let target = self.0.targeted.load(Relaxed).then(|| metadata.target());
                    attach(record, &fields, (level, target), now, metadata.name());
                }
            }
        }
        if log {
            if limits.of_events() != limits.log_attributes {
                fields = Fields::new(limits.log_attributes);
                event.record(&mut fields);
            }
            let log = Log {
                level,
                time: time.unwrap_or_else(clock::now),
                name: metadata.name(),
                target: metadata.target(),
                body: fields.message,
                attributes: fields.attributes,
                context: place,
            };
            self.0.intake.push(&log.record());
        }
    }

    fn on_close(&self, id: span::Id, ctx: Context<'_, S>) {
        let Some(span) = ctx.span(&id) else { return };
        let state = span.extensions_mut().remove::<State>();
        self.0.open.remove(id.into_u64());
        let Some(mut state) = state else { return };
        self.0.live.fetch_sub(1, Relaxed);
        let ended_early = state.span.is_none() && state.sampled;
        match state.take() {
            Some(span) if state.sampled => self.0.intake.push(&span.record()),
            // It was sent at shutdown.
            _ if ended_early => {}
            Some(_) | None => self.0.intake.unsampled(),
        }
    }
}

/// Adds an event to its span; an error also sets the span's status.
fn attach(
    span: &mut Span,
    fields: &Fields,
    (level, target): (Level, Option<&str>),
    time: u64,
    name: &'static str,
) {
    if level == Level::Error && span.status == Status::Unset {
        span.status = Status::Error;
        span.status_message = fields.message.clone().unwrap_or_default();
    }
    let name = match &fields.message {
        _ if fields.is_exception() => "exception",
        Some(message) => message,
        None => name,
    };
    span.happened((level, target), time, name, &fields.attributes);
}

/// Installs a panic hook: each panic becomes an error event of its span, and a log record. The previous hook still
/// runs.
pub fn record_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !context::suppressed() {
            let payload = info.payload();
            let text = payload.downcast_ref::<&str>().copied().map(str::to_owned);
            let message = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            let trace = std::backtrace::Backtrace::force_capture().to_string();
            tracing::event!(
                target: "panic",
                tracing::Level::ERROR,
                exception.message = message.as_str(),
                exception.kind = "panic",
                exception.stacktrace = trace.as_str(),
                code.location = place.as_str(),
                "panic: {message}"
            );
        }
        before(info);
    }));
}
