//! Metrics as bytes: checked against the schema and counted, without decoding. A data point of two bytes takes a
//! hundred times as much when it is decoded.

use super::protobuf::{ProtobufError, check, fields};
use super::schema::{METRICS, Message};
use super::sender::{Ends, Senders};
use crate::receive::register::Sender;

/// The fields that lead from a request to its data points: resources, scopes, metrics, the five kinds of data, points.
const TO_POINTS: [&[u32]; 5] = [&[1], &[2], &[2], &[5, 7, 9, 10, 11], &[1]];

/// Checks an `ExportMetricsServiceRequest`; returns the number of its data points, and their senders.
pub(super) fn count(body: &[u8]) -> Result<(u64, Vec<Sender>), ProtobufError> {
    let mut senders = Senders::default();
    for of_resource in fields(body, &METRICS) {
        let of_resource = of_resource?;
        check(&of_resource, &METRICS, 0)?;
        if of_resource.number == 1 {
            let resource =
                fields(of_resource.bytes, &METRICS).flatten().filter(|field| field.number == 1).last();
            senders.add(resource.map(|resource| resource.bytes).unwrap_or_default(), Ends::NONE, Vec::new());
        }
    }
    Ok((leaves(body, &METRICS, &TO_POINTS), senders.into_list()))
}

/// Counts the messages that these fields lead to. The bytes must have been checked before.
fn leaves(bytes: &[u8], request: &'static Message, path: &[&[u32]]) -> u64 {
    let Some((numbers, rest)) = path.split_first() else { return 1 };
    let inner = fields(bytes, request).flatten().filter(|field| numbers.contains(&field.number));
    inner.map(|field| leaves(field.bytes, request, rest)).sum()
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
    use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
    use opentelemetry_proto::tonic::metrics::v1::metric::Data;
    use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
    use opentelemetry_proto::tonic::metrics::v1::{
        Exemplar, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint,
        Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, Summary, SummaryDataPoint, exemplar,
        number_data_point,
    };
    use opentelemetry_proto::tonic::resource::v1::Resource;
    use prost::Message as _;

    use super::*;

    fn pair(key: &str, text: &str) -> KeyValue {
        let value = Some(AnyValue { value: Some(Value::StringValue(text.to_owned())) });
        KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
    }

    /// One to five data points of each kind, with every field.
    fn every_kind() -> Vec<Data> {
        let exemplar = Exemplar {
            filtered_attributes: vec![pair("a", "b")],
            time_unix_nano: 1,
            span_id: vec![1; 8],
            trace_id: vec![1; 16],
            value: Some(exemplar::Value::AsInt(-1)),
        };
        let number = NumberDataPoint {
            attributes: vec![pair("a", "b")],
            start_time_unix_nano: 1,
            time_unix_nano: 2,
            exemplars: vec![exemplar.clone()],
            flags: 1,
            value: Some(number_data_point::Value::AsDouble(0.5)),
        };
        let histogram = HistogramDataPoint {
            attributes: vec![pair("a", "b")],
            count: 3,
            sum: Some(1.5),
            bucket_counts: vec![1, 2],
            explicit_bounds: vec![0.5],
            exemplars: vec![exemplar.clone()],
            flags: 1,
            min: Some(0.1),
            max: Some(0.9),
            ..HistogramDataPoint::default()
        };
        let buckets = Buckets { offset: -1, bucket_counts: vec![1, 300] };
        let exponential = ExponentialHistogramDataPoint {
            attributes: vec![pair("a", "b")],
            count: 3,
            sum: Some(1.5),
            scale: -2,
            zero_count: 1,
            positive: Some(buckets.clone()),
            negative: Some(buckets),
            flags: 1,
            exemplars: vec![exemplar],
            min: Some(0.1),
            max: Some(0.9),
            zero_threshold: 0.2,
            ..ExponentialHistogramDataPoint::default()
        };
        let summary = SummaryDataPoint {
            attributes: vec![pair("a", "b")],
            count: 3,
            sum: 1.5,
            quantile_values: vec![ValueAtQuantile { quantile: 0.5, value: 1.0 }],
            flags: 1,
            ..SummaryDataPoint::default()
        };
        vec![
            Data::Gauge(Gauge { data_points: vec![number.clone()] }),
            Data::Sum(Sum { data_points: vec![number; 2], aggregation_temporality: 2, is_monotonic: true }),
            Data::Histogram(Histogram { data_points: vec![histogram; 3], aggregation_temporality: 2 }),
            Data::ExponentialHistogram(ExponentialHistogram {
                data_points: vec![exponential; 4],
                aggregation_temporality: 2,
            }),
            Data::Summary(Summary { data_points: vec![summary; 5] }),
        ]
    }

    fn request() -> Vec<u8> {
        let metric = |data| Metric {
            name: "requests".to_owned(),
            unit: "1".to_owned(),
            metadata: vec![pair("a", "b")],
            data: Some(data),
            ..Metric::default()
        };
        let metrics = every_kind().into_iter().map(metric).collect();
        let of_resource = ResourceMetrics {
            resource: Some(Resource {
                attributes: vec![pair("service.name", "shop")],
                ..Resource::default()
            }),
            scope_metrics: vec![ScopeMetrics { metrics, ..ScopeMetrics::default() }],
            schema_url: "schema".to_owned(),
        };
        ExportMetricsServiceRequest { resource_metrics: vec![of_resource.clone(), of_resource] }
            .encode_to_vec()
    }

    #[test]
    fn data_points_of_every_kind_are_counted() {
        let (points, senders) = count(&request()).unwrap();
        let names: Vec<&str> = senders.iter().map(|sender| sender.service.as_str()).collect();
        assert_eq!((points, names), (2 * (1 + 2 + 3 + 4 + 5), vec!["shop"]));
        assert_eq!(count(b"").unwrap(), (0, vec![]));
    }

    #[test]
    fn metrics_that_cannot_be_decoded_are_refused() {
        let request = request();
        assert!(count(&request[..request.len() - 1]).is_err());
        for at in 0..request.len() {
            let mut damaged = request.clone();
            damaged[at] ^= 0x07;
            let decoded = ExportMetricsServiceRequest::decode(&damaged[..]);
            // Lists of numbers are not checked.
            if let (Ok(_), Err(error)) = (count(&damaged), decoded) {
                let told = error.to_string();
                assert!(told.contains("bucket_counts") || told.contains("explicit_bounds"), "{at}: {told}");
            }
        }
    }
}
