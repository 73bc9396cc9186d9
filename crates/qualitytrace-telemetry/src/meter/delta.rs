//! Converts cumulative points to deltas. The SDK aggregates once for all readers; each sink keeps the points that it
//! was sent last.

use std::collections::HashMap;

use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, ExponentialHistogramDataPoint, HistogramDataPoint, Metric, NumberDataPoint,
    metric::Data, number_data_point::Value,
};

use super::{exemplar::series, exponential};

/// The points that one sink was sent last, per series.
#[derive(Debug, Default)]
pub(crate) struct Deltas {
    numbers: HashMap<String, NumberDataPoint>,
    histograms: HashMap<String, HistogramDataPoint>,
    exponential: HashMap<String, ExponentialHistogramDataPoint>,
}

impl Deltas {
    /// Turns the points of a counter or histogram into deltas since the last call. A series to which nothing was added
    /// has no point.
    pub(crate) fn subtract(&mut self, scope: &str, metric: &mut Metric) {
        let delta = AggregationTemporality::Delta.into();
        let name = format!("{scope}\0{}", metric.name);
        match &mut metric.data {
            Some(Data::Sum(sum)) if sum.is_monotonic => {
                sum.aggregation_temporality = delta;
                sum.data_points.retain_mut(|point| {
                    let before = self.numbers.insert(series(&name, &point.attributes), point.clone());
                    added(point, before)
                });
            }
            Some(Data::Histogram(histogram)) => {
                histogram.aggregation_temporality = delta;
                histogram.data_points.retain_mut(|point| {
                    let before = self.histograms.insert(series(&name, &point.attributes), point.clone());
                    recorded(point, before)
                });
            }
            Some(Data::ExponentialHistogram(histogram)) => {
                histogram.aggregation_temporality = delta;
                histogram.data_points.retain_mut(|point| {
                    let before = self.exponential.insert(series(&name, &point.attributes), point.clone());
                    recorded_exponential(point, before)
                });
            }
            Some(Data::Sum(_) | Data::Gauge(_) | Data::Summary(_)) | None => {}
        }
    }
}

/// Subtracts an earlier point; returns whether anything was added since then.
fn added(point: &mut NumberDataPoint, before: Option<NumberDataPoint>) -> bool {
    let Some(before) = before.filter(|before| before.start_time_unix_nano == point.start_time_unix_nano)
    else {
        return true;
    };
    point.start_time_unix_nano = before.time_unix_nano;
    match (&mut point.value, before.value) {
        (Some(Value::AsInt(now)), Some(Value::AsInt(before))) => {
            *now -= before;
            *now != 0
        }
        (Some(Value::AsDouble(now)), Some(Value::AsDouble(before))) => {
            *now -= before;
            *now != 0.0
        }
        _ => true,
    }
}

/// Like [`added`], for a histogram. The minimum and maximum of the time in between are unknown.
fn recorded(point: &mut HistogramDataPoint, before: Option<HistogramDataPoint>) -> bool {
    let Some(before) = before.filter(|before| before.start_time_unix_nano == point.start_time_unix_nano)
    else {
        return true;
    };
    point.start_time_unix_nano = before.time_unix_nano;
    point.count -= before.count;
    point.sum = point.sum.zip(before.sum).map(|(now, before)| now - before);
    for (now, before) in point.bucket_counts.iter_mut().zip(before.bucket_counts) {
        *now -= before;
    }
    point.min = None;
    point.max = None;
    point.exemplars.retain(|exemplar| exemplar.time_unix_nano > before.time_unix_nano);
    point.count != 0
}

fn recorded_exponential(
    point: &mut ExponentialHistogramDataPoint,
    before: Option<ExponentialHistogramDataPoint>,
) -> bool {
    let Some(before) = before.filter(|before| before.start_time_unix_nano == point.start_time_unix_nano)
    else {
        return true;
    };
    let since = before.time_unix_nano;
    exponential::subtract(point, before);
    point.start_time_unix_nano = since;
    point.min = None;
    point.max = None;
    point.exemplars.retain(|exemplar| exemplar.time_unix_nano > since);
    point.count != 0
}
