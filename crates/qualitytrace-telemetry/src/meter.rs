//! Metrics: aggregated by the OpenTelemetry SDK, collected on demand.

pub(crate) mod delta;
pub(crate) mod exemplar;
mod exponential;
mod merge;
mod own;
#[cfg(target_os = "linux")]
mod process;
#[cfg(feature = "prometheus")]
pub(crate) mod prometheus;
mod views;

use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use bytes::Bytes;
use opentelemetry::{
    KeyValue,
    metrics::{Meter, MeterProvider as _},
};
use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest,
    metrics::v1::{Metric, metric::Data},
};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    metrics::{
        InstrumentKind, ManualReader, Pipeline, SdkMeterProvider, data::ResourceMetrics, reader::MetricReader,
    },
};
use prost::Message as _;

use crate::{
    clock,
    config::{AttributeValue, Config, Signal, Temporality},
    context,
    item::Item,
};

use delta::Deltas;
use exemplar::{Exemplars, Histogram};
pub(crate) use own::{observe, runtime};
use views::Streams;

/// The instruments of the process: provider, reader and views.
pub(crate) struct Metrics {
    provider: SdkMeterProvider,
    reader: Reader,
    streams: Arc<Streams>,
    exemplars: Arc<Exemplars>,
}

impl Metrics {
    pub(crate) fn new(resource: &[(String, AttributeValue)], config: &Config) -> Self {
        // Lists are left out here: requests carry the resource of their sink, which has them.
        let attributes = resource.iter().filter_map(|(key, value)| match value {
            AttributeValue::Bool(value) => Some(KeyValue::new(key.clone(), *value)),
            AttributeValue::Int(value) => Some(KeyValue::new(key.clone(), *value)),
            AttributeValue::Double(value) => Some(KeyValue::new(key.clone(), *value)),
            AttributeValue::Text(value) => Some(KeyValue::new(key.clone(), value.clone())),
            AttributeValue::List(_) => None,
        });
        let reader = Reader(Arc::new(ManualReader::builder().build()));
        let streams = Arc::<Streams>::default();
        let builder = SdkMeterProvider::builder()
            .with_resource(Resource::builder_empty().with_attributes(attributes).build())
            .with_reader(reader.clone());
        let provider = views::install(builder, &config.metrics, config.log_level, &streams).build();
        let exemplars = Arc::new(Exemplars::new(config.metrics.exemplars));
        Self { provider, reader, streams, exemplars }
    }

    /// The meter provider, for `opentelemetry::global`.
    pub(crate) fn provider(&self) -> SdkMeterProvider {
        self.provider.clone()
    }

    pub(crate) fn meter(&self, name: &'static str) -> Meter {
        self.provider.meter(name)
    }

    pub(crate) fn histogram(
        &self,
        meter: &'static str,
        name: &'static str,
        unit: &'static str,
        description: &'static str,
        bounds: &[f64],
    ) -> Histogram {
        let meter = self.meter(meter);
        let mut builder = meter.f64_histogram(name).with_unit(unit).with_description(description);
        if !bounds.is_empty() {
            builder = builder.with_boundaries(bounds.to_vec());
        }
        Histogram { name: name.into(), inner: builder.build(), exemplars: self.exemplars.clone() }
    }

    /// Collects the state of all instruments. Callbacks run here; their spans and events are not recorded.
    pub(crate) fn collect(&self) -> ExportMetricsServiceRequest {
        context::without_telemetry(|| {
            let mut metrics = ResourceMetrics::default();
            match self.reader.collect(&mut metrics) {
                Ok(()) => {
                    let mut request = ExportMetricsServiceRequest::from(&metrics);
                    self.shape(&mut request);
                    request
                }
                Err(_) => ExportMetricsServiceRequest::default(),
            }
        })
    }

    /// Applies to every metric what its view asks for and the SDK does not do.
    fn shape(&self, request: &mut ExportMetricsServiceRequest) {
        let scopes = request.resource_metrics.iter_mut().flat_map(|resource| &mut resource.scope_metrics);
        for scope in scopes {
            let name = scope.scope.as_ref().map_or("", |scope| scope.name.as_str());
            for metric in &mut scope.metrics {
                let Some(shape) = self.streams.get(name, &metric.name) else { continue };
                if let Some(keys) = shape.keys.as_ref().filter(|keys| keys.as_list().is_none()) {
                    merge::keep(metric, keys);
                }
                self.exemplars.attach(metric, &shape);
            }
        }
    }

    /// The state of all instruments as items, in the temporality of a sink.
    pub(crate) fn items(&self, temporality: Temporality, deltas: &Mutex<Deltas>) -> Vec<Item> {
        let time = clock::now();
        let mut deltas = deltas.lock().unwrap_or_else(PoisonError::into_inner);
        let mut items = Vec::new();
        for resource in self.collect().resource_metrics {
            for scope in resource.scope_metrics {
                let scope_of = scope.scope.unwrap_or_default();
                let name: Bytes = scope_of.encode_to_vec().into();
                for mut metric in scope.metrics {
                    let subtract = match temporality {
                        Temporality::Cumulative => false,
                        Temporality::Delta => true,
                        Temporality::LowMemory => {
                            let shape = self.streams.get(&scope_of.name, &metric.name);
                            !shape.is_some_and(|shape| shape.is_observed_counter)
                        }
                    };
                    if subtract {
                        deltas.subtract(&scope_of.name, &mut metric);
                    }
                    let count = u32::try_from(points(&metric)).unwrap_or(u32::MAX);
                    if count > 0 {
                        let body = metric.encode_to_vec().into();
                        items.push(Item { signal: Signal::Metrics, count, time, scope: name.clone(), body });
                    }
                }
            }
        }
        items
    }
}

/// The number of data points in a metric, which the ledger counts.
fn points(metric: &Metric) -> usize {
    match &metric.data {
        Some(Data::Gauge(data)) => data.data_points.len(),
        Some(Data::Sum(data)) => data.data_points.len(),
        Some(Data::Histogram(data)) => data.data_points.len(),
        Some(Data::ExponentialHistogram(data)) => data.data_points.len(),
        Some(Data::Summary(data)) => data.data_points.len(),
        None => 0,
    }
}

/// A reader that can be shared.
#[derive(Debug, Clone)]
struct Reader(Arc<ManualReader>);

impl MetricReader for Reader {
    fn register_pipeline(&self, pipeline: Weak<Pipeline>) {
        self.0.register_pipeline(pipeline);
    }

    fn collect(&self, metrics: &mut ResourceMetrics) -> OTelSdkResult {
        self.0.collect(metrics)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn temporality(&self, kind: InstrumentKind) -> opentelemetry_sdk::metrics::Temporality {
        self.0.temporality(kind)
    }
}
