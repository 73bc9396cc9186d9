//! Which trace a value of a histogram came from. The SDK keeps no exemplars, so we do.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use opentelemetry::{KeyValue, metrics};
use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest,
    common::v1::{self as common, any_value},
    metrics::v1::{Exemplar, exemplar, metric::Data},
};

use crate::{clock, propagation::Context};

/// Series that are remembered; the SDK itself keeps 2,000 per instrument.
const MAX_SERIES: usize = 2_000;

/// The last sampled value of each series.
#[derive(Debug, Default)]
pub(crate) struct Exemplars(Mutex<HashMap<String, Exemplar>>);

/// A histogram that remembers, for each series, a trace in which a value was recorded.
#[derive(Debug, Clone)]
pub struct Histogram {
    pub(crate) name: Arc<str>,
    pub(crate) inner: metrics::Histogram<f64>,
    pub(crate) exemplars: Arc<Exemplars>,
}

impl Histogram {
    /// Records a value, with the current span as its example if somebody takes that span.
    pub fn record(&self, value: f64, attributes: &[KeyValue]) {
        self.inner.record(value, attributes);
        if let Some(context) = Context::current().filter(|context| context.sampled) {
            let pairs = attributes.iter().map(|pair| (pair.key.as_str(), pair.value.to_string()));
            self.exemplars.put(key(&self.name, pairs), value, &context);
        }
    }
}

impl Exemplars {
    fn put(&self, series: String, value: f64, context: &Context) {
        let exemplar = Exemplar {
            filtered_attributes: Vec::new(),
            time_unix_nano: clock::now(),
            span_id: context.span_id.to_bytes().to_vec(),
            trace_id: context.trace_id.to_bytes().to_vec(),
            value: Some(exemplar::Value::AsDouble(value)),
        };
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if map.len() < MAX_SERIES || map.contains_key(&series) {
            map.insert(series, exemplar);
        }
    }

    /// Gives every series of every histogram its example.
    pub(crate) fn attach(&self, request: &mut ExportMetricsServiceRequest) {
        let map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if map.is_empty() {
            return;
        }
        let scopes = request.resource_metrics.iter_mut().flat_map(|resource| &mut resource.scope_metrics);
        for metric in scopes.flat_map(|scope| &mut scope.metrics) {
            let Some(Data::Histogram(data)) = &mut metric.data else { continue };
            for point in &mut data.data_points {
                let found = map.get(&series(&metric.name, &point.attributes));
                point.exemplars.extend(found.cloned());
            }
        }
    }
}

fn text(pair: &common::KeyValue) -> String {
    match pair.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        Some(any_value::Value::BoolValue(value)) => value.to_string(),
        Some(any_value::Value::IntValue(value)) => value.to_string(),
        Some(any_value::Value::DoubleValue(value)) => value.to_string(),
        Some(_) | None => String::new(),
    }
}

/// A name for one series.
pub(super) fn series(name: &str, attributes: &[common::KeyValue]) -> String {
    key(name, attributes.iter().map(|pair| (pair.key.as_str(), text(pair))))
}

/// A name for one set of attributes, whatever their order.
fn key<'a>(name: &str, pairs: impl Iterator<Item = (&'a str, String)>) -> String {
    let mut pairs: Vec<(&str, String)> = pairs.collect();
    pairs.sort();
    let mut key = name.to_owned();
    for (name, value) in pairs {
        key.push('\0');
        key.push_str(name);
        key.push('\0');
        key.push_str(&value);
    }
    key
}
