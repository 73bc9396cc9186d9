//! Merges series that differ only in attributes which a view drops.

use std::collections::HashMap;

use opentelemetry_proto::tonic::{
    common::v1::KeyValue,
    metrics::v1::{
        ExponentialHistogramDataPoint, HistogramDataPoint, Metric, NumberDataPoint, metric::Data,
        number_data_point::Value,
    },
};

use super::{exemplar::series, exponential};
use crate::config::AttributeKeys;

/// Removes attributes from all points of a metric, and merges the points that then belong to the same series.
pub(super) fn keep(metric: &mut Metric, keys: &AttributeKeys) {
    match &mut metric.data {
        Some(Data::Sum(data)) => merge(&mut data.data_points, keys, add),
        Some(Data::Gauge(data)) => merge(&mut data.data_points, keys, later),
        Some(Data::Histogram(data)) => merge(&mut data.data_points, keys, add_histogram),
        Some(Data::ExponentialHistogram(data)) => merge(&mut data.data_points, keys, exponential::add),
        Some(Data::Summary(_)) | None => {}
    }
}

/// A point of a series.
trait Point {
    fn attributes(&mut self) -> &mut Vec<KeyValue>;
}

impl Point for NumberDataPoint {
    fn attributes(&mut self) -> &mut Vec<KeyValue> {
        &mut self.attributes
    }
}

impl Point for HistogramDataPoint {
    fn attributes(&mut self) -> &mut Vec<KeyValue> {
        &mut self.attributes
    }
}

impl Point for ExponentialHistogramDataPoint {
    fn attributes(&mut self) -> &mut Vec<KeyValue> {
        &mut self.attributes
    }
}

fn merge<P: Point>(points: &mut Vec<P>, keys: &AttributeKeys, add: impl Fn(&mut P, &P)) {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut merged: Vec<P> = Vec::new();
    for mut point in std::mem::take(points) {
        point.attributes().retain(|pair| keys.keep(&pair.key));
        let at = *places.entry(series("", point.attributes())).or_insert(merged.len());
        match merged.get_mut(at) {
            Some(first) => add(first, &point),
            None => merged.push(point),
        }
    }
    *points = merged;
}

fn add(sum: &mut NumberDataPoint, other: &NumberDataPoint) {
    sum.start_time_unix_nano = sum.start_time_unix_nano.min(other.start_time_unix_nano);
    sum.time_unix_nano = sum.time_unix_nano.max(other.time_unix_nano);
    match (&mut sum.value, other.value) {
        (Some(Value::AsInt(sum)), Some(Value::AsInt(other))) => *sum = sum.saturating_add(other),
        (Some(Value::AsDouble(sum)), Some(Value::AsDouble(other))) => *sum += other,
        (Some(_) | None, _) => {}
    }
}

fn later(last: &mut NumberDataPoint, other: &NumberDataPoint) {
    if other.time_unix_nano >= last.time_unix_nano {
        last.clone_from(other);
    }
}

/// Adds a point; all points of a metric have the same boundaries.
fn add_histogram(sum: &mut HistogramDataPoint, other: &HistogramDataPoint) {
    sum.start_time_unix_nano = sum.start_time_unix_nano.min(other.start_time_unix_nano);
    sum.time_unix_nano = sum.time_unix_nano.max(other.time_unix_nano);
    sum.count += other.count;
    sum.sum = sum.sum.zip(other.sum).map(|(a, b)| a + b);
    sum.min = sum.min.zip(other.min).map(|(a, b)| a.min(b));
    sum.max = sum.max.zip(other.max).map(|(a, b)| a.max(b));
    for (sum, other) in sum.bucket_counts.iter_mut().zip(&other.bucket_counts) {
        *sum += other;
    }
}
