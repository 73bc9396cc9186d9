//! Cumulative and delta temporality of data points.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use opentelemetry_proto::tonic::metrics::v1::{
    Metric, NumberDataPoint, metric::Data, number_data_point::Value,
};
use qualitytrace_telemetry::{
    KeyValue, Telemetry,
    config::{Temporality, Transport},
};
use qualitytrace_testing::{DEADLINE, eventually_blocking};

use crate::{
    basics::{config, sink},
    receiver::Receiver,
};

const DELTA: i32 = 1;
const CUMULATIVE: i32 = 2;

/// The metrics that a receiver gets of a counter (3 and 4), an observed counter (10 and 15), an up-down counter (5 and
/// -2) and a histogram; one value of each before the first point that arrives and one after it.
fn received(temporality: Temporality) -> Vec<Metric> {
    let receiver = Receiver::start();
    let mut one = sink("one", &receiver.url(), Transport::Http);
    one.interval = Duration::from_millis(50);
    one.temporality = temporality;
    let telemetry = Telemetry::start(config(None, vec![one.clone()])).unwrap();
    let meter = telemetry.meter("m");
    let value = Arc::new(AtomicU64::new(10));
    let observed = value.clone();
    meter
        .u64_observable_counter("observed")
        .with_callback(move |observer| observer.observe(observed.load(SeqCst), &[]))
        .build();
    let things = meter.u64_counter("things").build();
    let difference = meter.i64_up_down_counter("difference").build();
    let durations = telemetry.histogram("m", "durations", "s", "How long", &[1.0]);
    let labels = [KeyValue::new("a", "b")];
    things.add(3, &labels);
    difference.add(5, &labels);
    durations.record(0.5, &labels);
    let arrived = |name: &str| receiver.got().metrics.iter().any(|metric| metric.name == name);
    eventually_blocking(DEADLINE, "all metrics arrive", || {
        ["things", "difference", "durations", "observed"].into_iter().all(arrived)
    });
    // A changed sink keeps its earlier points.
    one.service_name = Some("renamed".to_owned());
    telemetry.reload(config(None, vec![one]));
    things.add(4, &labels);
    difference.add(-2, &labels);
    durations.record(2.0, &labels);
    value.store(15, SeqCst);
    let status = telemetry.shutdown(Duration::from_secs(10));
    assert!(status.holds(), "{status:#?}");
    receiver.stop().metrics
}

/// The temporality and the points of one sum.
fn sum(metrics: &[Metric], name: &str) -> (i32, Vec<NumberDataPoint>) {
    let sums = metrics.iter().filter(|metric| metric.name == name).filter_map(|metric| match &metric.data {
        Some(Data::Sum(sum)) => Some(sum),
        _ => None,
    });
    let mut temporality = 0;
    let mut points = Vec::new();
    for sum in sums {
        temporality = sum.aggregation_temporality;
        points.extend(sum.data_points.clone());
    }
    points.sort_by_key(|point| point.time_unix_nano);
    (temporality, points)
}

fn values(points: &[NumberDataPoint]) -> Vec<i64> {
    let values = points.iter().map(|point| match point.value {
        Some(Value::AsInt(value)) => value,
        other => panic!("{other:?}"),
    });
    values.collect()
}

/// The values without consecutive duplicates.
fn changes(points: &[NumberDataPoint]) -> Vec<i64> {
    let mut values = values(points);
    values.dedup();
    values
}

/// Counts, sums and buckets of the histogram.
fn histogram(metrics: &[Metric]) -> (i32, Vec<(u64, f64, Vec<u64>)>) {
    let mut temporality = 0;
    let mut points = Vec::new();
    for metric in metrics {
        if let Some(Data::Histogram(histogram)) = &metric.data {
            temporality = histogram.aggregation_temporality;
            let of = histogram.data_points.iter();
            points.extend(of.map(|p| (p.time_unix_nano, (p.count, p.sum.unwrap(), p.bucket_counts.clone()))));
        }
    }
    points.sort_by_key(|(time, _)| *time);
    let mut points: Vec<_> = points.into_iter().map(|(_, point)| point).collect();
    points.dedup();
    (temporality, points)
}

#[test]
fn cumulative_points_say_what_there_was_since_the_start() {
    let got = received(Temporality::Cumulative);
    for (name, expected) in [("things", [3, 7]), ("observed", [10, 15]), ("difference", [5, 3])] {
        let (temporality, points) = sum(&got, name);
        assert_eq!((temporality, changes(&points)), (CUMULATIVE, expected.to_vec()), "{name}");
        assert!(points.iter().all(|point| point.start_time_unix_nano == points[0].start_time_unix_nano));
    }
    assert_eq!(histogram(&got), (CUMULATIVE, vec![(1, 0.5, vec![1, 0]), (2, 2.5, vec![1, 1])]));
}

#[test]
fn delta_points_say_what_came_since_the_last_one() {
    let got = received(Temporality::Delta);
    for (name, expected) in [("things", [3, 4]), ("observed", [10, 5])] {
        let (temporality, points) = sum(&got, name);
        assert_eq!((temporality, values(&points)), (DELTA, expected.to_vec()), "{name}");
        assert!(points[1].start_time_unix_nano >= points[0].time_unix_nano, "{points:?}");
    }
    let (temporality, points) = sum(&got, "difference");
    assert_eq!((temporality, changes(&points)), (CUMULATIVE, vec![5, 3]));
    assert_eq!(histogram(&got), (DELTA, vec![(1, 0.5, vec![1, 0]), (1, 2.0, vec![0, 1])]));
}

#[test]
fn low_memory_points_are_differences_but_for_what_is_observed() {
    let got = received(Temporality::LowMemory);
    let (temporality, points) = sum(&got, "things");
    assert_eq!((temporality, values(&points)), (DELTA, vec![3, 4]));
    let (temporality, points) = sum(&got, "observed");
    assert_eq!((temporality, changes(&points)), (CUMULATIVE, vec![10, 15]));
    assert_eq!(histogram(&got).0, DELTA);
}
