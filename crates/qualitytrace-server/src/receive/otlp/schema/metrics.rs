//! The schema of metrics. Lists of numbers may be packed or not: they are not checked.

use super::{KEY_VALUE, Kind, Message, RESOURCE, SCOPE};

pub(in crate::receive::otlp) static METRICS: Message =
    Message { name: "ExportMetricsServiceRequest", fields: &[Kind::Message(&RESOURCE_METRICS)] };

static RESOURCE_METRICS: Message = Message {
    name: "ResourceMetrics",
    fields: &[Kind::Message(&RESOURCE), Kind::Message(&SCOPE_METRICS), Kind::Text],
};

static SCOPE_METRICS: Message =
    Message { name: "ScopeMetrics", fields: &[Kind::Message(&SCOPE), Kind::Message(&METRIC), Kind::Text] };

static METRIC: Message = Message {
    name: "Metric",
    fields: &[
        Kind::Text,
        Kind::Text,
        Kind::Text,
        Kind::Unknown,
        Kind::Message(&GAUGE),
        Kind::Unknown,
        Kind::Message(&SUM),
        Kind::Unknown,
        Kind::Message(&HISTOGRAM),
        Kind::Message(&EXPONENTIAL_HISTOGRAM),
        Kind::Message(&SUMMARY),
        Kind::Message(&KEY_VALUE),
    ],
};

static GAUGE: Message = Message { name: "Gauge", fields: &[Kind::Message(&NUMBER_DATA_POINT)] };

static SUM: Message =
    Message { name: "Sum", fields: &[Kind::Message(&NUMBER_DATA_POINT), Kind::Varint, Kind::Varint] };

static HISTOGRAM: Message =
    Message { name: "Histogram", fields: &[Kind::Message(&HISTOGRAM_DATA_POINT), Kind::Varint] };

static EXPONENTIAL_HISTOGRAM: Message = Message {
    name: "ExponentialHistogram",
    fields: &[Kind::Message(&EXPONENTIAL_HISTOGRAM_DATA_POINT), Kind::Varint],
};

static SUMMARY: Message = Message { name: "Summary", fields: &[Kind::Message(&SUMMARY_DATA_POINT)] };

static NUMBER_DATA_POINT: Message = Message {
    name: "NumberDataPoint",
    fields: &[
        Kind::Unknown,
        Kind::Fixed64,
        Kind::Fixed64,
        Kind::Fixed64,
        Kind::Message(&EXEMPLAR),
        Kind::Fixed64,
        Kind::Message(&KEY_VALUE),
        Kind::Varint,
    ],
};

static HISTOGRAM_DATA_POINT: Message = Message {
    name: "HistogramDataPoint",
    fields: &[
        Kind::Unknown,
        Kind::Fixed64,
        Kind::Fixed64,
        Kind::Fixed64,
        Kind::Fixed64,
        Kind::Unknown,
        Kind::Unknown,
        Kind::Message(&EXEMPLAR),
        Kind::Message(&KEY_VALUE),
        Kind::Varint,
        Kind::Fixed64,
        Kind::Fixed64,
    ],
};

static EXPONENTIAL_HISTOGRAM_DATA_POINT: Message = Message {
    name: "ExponentialHistogramDataPoint",
    fields: &[
        Kind::Message(&KEY_VALUE),
        Kind::Fixed64,
        Kind::Fixed64,
        Kind::Fixed64,
        Kind::Fixed64,
        Kind::Varint,
        Kind::Fixed64,
        Kind::Message(&BUCKETS),
        Kind::Message(&BUCKETS),
        Kind::Varint,
        Kind::Message(&EXEMPLAR),
        Kind::Fixed64,
        Kind::Fixed64,
        Kind::Fixed64,
    ],
};

static BUCKETS: Message = Message { name: "Buckets", fields: &[Kind::Varint, Kind::Unknown] };

static SUMMARY_DATA_POINT: Message = Message {
    name: "SummaryDataPoint",
    fields: &[
        Kind::Unknown,
        Kind::Fixed64,
        Kind::Fixed64,
        Kind::Fixed64,
        Kind::Fixed64,
        Kind::Message(&VALUE_AT_QUANTILE),
        Kind::Message(&KEY_VALUE),
        Kind::Varint,
    ],
};

static VALUE_AT_QUANTILE: Message =
    Message { name: "ValueAtQuantile", fields: &[Kind::Fixed64, Kind::Fixed64] };

static EXEMPLAR: Message = Message {
    name: "Exemplar",
    fields: &[
        Kind::Unknown,
        Kind::Fixed64,
        Kind::Fixed64,
        Kind::Bytes,
        Kind::Bytes,
        Kind::Fixed64,
        Kind::Message(&KEY_VALUE),
    ],
};
