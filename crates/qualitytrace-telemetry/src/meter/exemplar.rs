//! Exemplars of histograms: the trace that a value came from. The SDK keeps no exemplars, so this module does.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use opentelemetry::{KeyValue, metrics};
use opentelemetry_proto::tonic::{
    common::v1::{self as common, any_value},
    metrics::v1::{Exemplar, Metric, exemplar, metric::Data},
};

use super::views::Shape;
use crate::{
    clock,
    config::{AttributeKeys, ExemplarFilter},
    propagation::Context,
};

/// How many series of an instrument have an exemplar.
const MAX_SERIES: usize = 2_000;

/// The last eligible value of each series, by instrument.
#[derive(Debug, Default)]
pub(crate) struct Exemplars {
    filter: ExemplarFilter,
    instruments: Mutex<HashMap<Arc<str>, BTreeMap<String, Remembered>>>,
}

#[derive(Debug)]
struct Remembered {
    attributes: Vec<KeyValue>,
    exemplar: Exemplar,
}

/// A histogram that keeps an exemplar for each series.
#[derive(Debug, Clone)]
pub struct Histogram {
    pub(crate) name: Arc<str>,
    pub(crate) inner: metrics::Histogram<f64>,
    pub(crate) exemplars: Arc<Exemplars>,
}

impl Histogram {
    /// Records a value, with the current span as its exemplar if the exemplar filter allows it.
    pub fn record(&self, value: f64, attributes: &[KeyValue]) {
        self.inner.record(value, attributes);
        let context = Context::current();
        let is_eligible = match self.exemplars.filter {
            ExemplarFilter::TraceBased => context.as_ref().is_some_and(|context| context.sampled),
            ExemplarFilter::AlwaysOn => true,
            ExemplarFilter::AlwaysOff => false,
        };
        if is_eligible {
            self.exemplars.put(&self.name, attributes, value, context.as_ref());
        }
    }
}

impl Exemplars {
    pub(crate) fn new(filter: ExemplarFilter) -> Self {
        Self { filter, instruments: Mutex::default() }
    }

    fn put(&self, name: &Arc<str>, attributes: &[KeyValue], value: f64, context: Option<&Context>) {
        let exemplar = Exemplar {
            filtered_attributes: Vec::new(),
            time_unix_nano: clock::now(),
            span_id: context.map(|context| context.span_id.to_bytes().to_vec()).unwrap_or_default(),
            trace_id: context.map(|context| context.trace_id.to_bytes().to_vec()).unwrap_or_default(),
            value: Some(exemplar::Value::AsDouble(value)),
        };
        let series = key("", attributes.iter().map(|pair| (pair.key.as_str(), pair.value.to_string())));
        let mut instruments = self.instruments.lock().unwrap_or_else(PoisonError::into_inner);
        let of_instrument = instruments.entry(name.clone()).or_default();
        if let Some(known) = of_instrument.get_mut(&series) {
            known.exemplar = exemplar;
        } else if of_instrument.len() < MAX_SERIES {
            of_instrument.insert(series, Remembered { attributes: attributes.to_vec(), exemplar });
        }
    }

    /// Adds the exemplars to the series of a histogram.
    pub(super) fn attach(&self, metric: &mut Metric, shape: &Shape) {
        let instruments = self.instruments.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = instruments.get(shape.instrument.as_str()) else { return };
        let filtered = shape.keys.as_ref().map(|keys| filtered(known, keys));
        let find = |attributes: &[common::KeyValue]| {
            let series = series("", attributes);
            match &filtered {
                Some(filtered) => filtered.get(&series).cloned(),
                None => known.get(&series).map(|known| known.exemplar.clone()),
            }
        };
        match &mut metric.data {
            Some(Data::Histogram(data)) => {
                data.data_points.iter_mut().for_each(|point| point.exemplars.extend(find(&point.attributes)));
            }
            Some(Data::ExponentialHistogram(data)) => {
                data.data_points.iter_mut().for_each(|point| point.exemplars.extend(find(&point.attributes)));
            }
            Some(Data::Sum(_) | Data::Gauge(_) | Data::Summary(_)) | None => {}
        }
    }
}

/// The latest exemplar of each series after a view removed attributes; it carries the removed ones itself.
fn filtered(known: &BTreeMap<String, Remembered>, keys: &AttributeKeys) -> HashMap<String, Exemplar> {
    let mut latest: HashMap<String, Exemplar> = HashMap::new();
    for remembered in known.values() {
        let (kept, left): (Vec<&KeyValue>, Vec<&KeyValue>) =
            remembered.attributes.iter().partition(|pair| keys.keep(pair.key.as_str()));
        let series = key("", kept.iter().map(|pair| (pair.key.as_str(), pair.value.to_string())));
        let time = remembered.exemplar.time_unix_nano;
        if latest.get(&series).is_none_or(|other| other.time_unix_nano < time) {
            let filtered_attributes = left.into_iter().map(Into::into).collect();
            latest.insert(series, Exemplar { filtered_attributes, ..remembered.exemplar.clone() });
        }
    }
    latest
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

/// The key of a series.
pub(super) fn series(name: &str, attributes: &[common::KeyValue]) -> String {
    key(name, attributes.iter().map(|pair| (pair.key.as_str(), text(pair))))
}

/// The key of a set of attributes, whatever their order.
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
