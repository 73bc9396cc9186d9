//! Instrumentation of the shop's services: the OpenTelemetry SDK, one provider per service, W3C propagation.
//!
//! Nothing here knows the tool that receives the spans: the shop exports OTLP as any system would.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::time::Duration;

use anyhow::Context as _;
use opentelemetry::propagation::{Extractor, Injector, TextMapCompositePropagator, TextMapPropagator};
use opentelemetry::trace::{SpanContext, SpanKind, Status, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::{BaggagePropagator, TraceContextPropagator};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider, SpanLimits,
};

/// How long a finished span waits for its batch. The SDK's default of 5 s is made for production.
const SCHEDULE_DELAY: Duration = Duration::from_millis(100);
/// Timeout of an export.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// The tracing setup of one service.
#[derive(Debug)]
pub(super) struct Telemetry {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    propagator: TextMapCompositePropagator,
}

impl Telemetry {
    /// Sets up a service that exports to `endpoint`. Must be called inside a Tokio runtime.
    pub(super) fn new(service: &'static str, endpoint: &str) -> anyhow::Result<Self> {
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(endpoint)
            .with_timeout(EXPORT_TIMEOUT)
            .build()
            .with_context(|| format!("failed to set up the span exporter of {service}"))?;
        let batches = BatchSpanProcessor::builder(exporter)
            .with_batch_config(BatchConfigBuilder::default().with_scheduled_delay(SCHEDULE_DELAY).build())
            .build();
        // Limits, sampler and resource are explicit, so that OTEL_* variables of the user's shell change nothing.
        let provider = SdkTracerProvider::builder()
            .with_span_processor(batches)
            .with_span_limits(SpanLimits::default())
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)))
            .with_resource(
                Resource::builder_empty()
                    .with_service_name(service)
                    .with_attributes([
                        KeyValue::new("service.namespace", "shop"),
                        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
                        KeyValue::new("service.instance.id", uuid::Uuid::new_v4().to_string()),
                        KeyValue::new("deployment.environment.name", "demo"),
                        KeyValue::new("telemetry.sdk.name", "opentelemetry"),
                        KeyValue::new("telemetry.sdk.language", "rust"),
                    ])
                    .build(),
            )
            .build();
        Ok(Self {
            tracer: provider.tracer("shop"),
            provider,
            propagator: TextMapCompositePropagator::new(vec![
                Box::new(TraceContextPropagator::new()),
                Box::new(BaggagePropagator::new()),
            ]),
        })
    }

    /// Starts a span below `parent`.
    pub(super) fn start(
        &self,
        parent: &Context,
        kind: SpanKind,
        name: impl Into<Cow<'static, str>>,
        attributes: Vec<KeyValue>,
    ) -> Active {
        let span = self
            .tracer
            .span_builder(name)
            .with_kind(kind)
            .with_attributes(attributes)
            .start_with_context(&self.tracer, parent);
        Active { context: parent.with_span(span) }
    }

    /// Injects the context into the headers, metadata or attributes of a call.
    pub(super) fn inject(&self, context: &Context, carrier: &mut dyn Injector) {
        self.propagator.inject_context(context, carrier);
    }

    /// Extracts the caller's context from a call; a call without one starts a new trace.
    pub(super) fn extract(&self, carrier: &dyn Extractor) -> Context {
        self.propagator.extract_with_context(&Context::new(), carrier)
    }

    /// Flushes the queue. Blocks, so it must not be called on a thread of the runtime that exports.
    pub(super) fn shutdown(&self) -> anyhow::Result<()> {
        self.provider.shutdown().context("failed to send the last spans of a shop service")
    }
}

/// An active span; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Active {
    context: Context,
}

impl Active {
    /// The context for children of this span.
    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    /// Adds an attribute.
    pub(super) fn set(&self, key: &'static str, value: impl Into<Value>) {
        self.context.span().set_attribute(KeyValue::new(key, value));
    }

    /// Adds a link to a span that caused this one.
    pub(super) fn link(&self, cause: SpanContext) {
        self.context.span().add_link(cause, Vec::new());
    }

    /// Marks the span as failed, with the exception that made it fail.
    pub(super) fn fail(&self, kind: &'static str, error: &dyn StdError) {
        self.context.span().add_event(
            "exception",
            vec![
                KeyValue::new("exception.type", kind),
                KeyValue::new("exception.message", error.to_string()),
            ],
        );
        self.mark_failed(kind, error.to_string());
    }

    /// Marks the span as failed without an exception, by a status code for example.
    pub(super) fn mark_failed(&self, kind: impl Into<Value>, description: impl Into<Cow<'static, str>>) {
        self.set("error.type", kind);
        self.context.span().set_status(Status::error(description));
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.context.span().end();
    }
}
