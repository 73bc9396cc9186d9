//! All metrics as `OpenMetrics` text.

use std::{collections::BTreeMap, fmt::Write as _};

use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest,
    common::v1::{KeyValue, any_value::Value},
    metrics::v1::{
        AggregationTemporality, Exemplar, HistogramDataPoint, Metric, NumberDataPoint, exemplar,
        metric::Data, number_data_point,
    },
};

/// The media type of [`render`]'s text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Renders a collection. Metrics of one name from several scopes become one family.
pub(crate) fn render(request: &ExportMetricsServiceRequest) -> String {
    let mut families: BTreeMap<String, (&Metric, Vec<&Metric>)> = BTreeMap::new();
    let mut out = String::new();
    for resource in &request.resource_metrics {
        if let Some(info) = &resource.resource {
            let _ = writeln!(out, "# TYPE target info");
            let _ = writeln!(out, "target_info{} 1", labels(&info.attributes, None));
        }
        for metric in resource.scope_metrics.iter().flat_map(|scope| &scope.metrics) {
            families.entry(family(metric)).or_insert_with(|| (metric, Vec::new())).1.push(metric);
        }
    }
    for (name, (first, metrics)) in &families {
        let _ = writeln!(out, "# TYPE {name} {}", kind(first));
        let unit = unit(&first.unit);
        if !unit.is_empty() && name.ends_with(&unit) {
            let _ = writeln!(out, "# UNIT {name} {unit}");
        }
        if !first.description.is_empty() {
            let _ = writeln!(out, "# HELP {name} {}", escape(&first.description));
        }
        for metric in metrics.iter().filter(|metric| kind(metric) == kind(first)) {
            points(&mut out, name, metric);
        }
    }
    out.push_str("# EOF\n");
    out
}

fn points(out: &mut String, name: &str, metric: &Metric) {
    match &metric.data {
        Some(Data::Gauge(data)) => data.data_points.iter().for_each(|point| number(out, name, "", point)),
        Some(Data::Sum(data)) => {
            let suffix = if data.is_monotonic { "_total" } else { "" };
            data.data_points.iter().for_each(|point| number(out, name, suffix, point));
        }
        Some(Data::Histogram(data)) => data.data_points.iter().for_each(|point| histogram(out, name, point)),
        Some(Data::ExponentialHistogram(_) | Data::Summary(_)) | None => {}
    }
}

fn kind(metric: &Metric) -> &'static str {
    match &metric.data {
        Some(Data::Sum(data))
            if data.is_monotonic
                && data.aggregation_temporality == AggregationTemporality::Cumulative as i32 =>
        {
            "counter"
        }
        Some(Data::Histogram(_)) => "histogram",
        Some(Data::Sum(_) | Data::Gauge(_) | Data::ExponentialHistogram(_) | Data::Summary(_)) | None => {
            "gauge"
        }
    }
}

fn number(out: &mut String, name: &str, suffix: &str, point: &NumberDataPoint) {
    let value = match point.value {
        Some(number_data_point::Value::AsDouble(value)) => value.to_string(),
        Some(number_data_point::Value::AsInt(value)) => value.to_string(),
        None => return,
    };
    let _ = writeln!(out, "{name}{suffix}{} {value}", labels(&point.attributes, None));
}

/// Buckets add up: each counts all values up to its bound.
fn histogram(out: &mut String, name: &str, point: &HistogramDataPoint) {
    let mut sum = 0;
    let mut below = f64::NEG_INFINITY;
    for (index, count) in point.bucket_counts.iter().enumerate() {
        sum += count;
        let bound = point.explicit_bounds.get(index).copied().unwrap_or(f64::INFINITY);
        let text = if bound.is_finite() { float(bound) } else { "+Inf".to_owned() };
        let _ = write!(out, "{name}_bucket{} {sum}", labels(&point.attributes, Some(&text)));
        let example = point.exemplars.iter().find(|example| {
            matches!(example.value, Some(exemplar::Value::AsDouble(value)) if value > below && value <= bound)
        });
        if let Some(example) = example {
            write_exemplar(out, example);
        }
        out.push('\n');
        below = bound;
    }
    let labels = labels(&point.attributes, None);
    let _ = writeln!(out, "{name}_count{labels} {}", point.count);
    let _ = writeln!(out, "{name}_sum{labels} {}", point.sum.unwrap_or(0.0));
}

/// ` # {trace_id="...",span_id="..."} value seconds`
fn write_exemplar(out: &mut String, example: &Exemplar) {
    let hex = |bytes: &[u8]| {
        bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    };
    let Some(exemplar::Value::AsDouble(value)) = example.value else { return };
    let (trace, span) = (hex(&example.trace_id), hex(&example.span_id));
    let (seconds, millis) =
        (example.time_unix_nano / 1_000_000_000, example.time_unix_nano / 1_000_000 % 1_000);
    let _ = write!(out, " # {{trace_id=\"{trace}\",span_id=\"{span}\"}} {value} {seconds}.{millis:03}");
}

/// `5` is written as `5.0`, as the format asks for bounds.
fn float(value: f64) -> String {
    let text = value.to_string();
    if text.contains(['.', 'e', 'n']) { text } else { format!("{text}.0") }
}

fn family(metric: &Metric) -> String {
    let mut name: String =
        metric.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        name.insert(0, '_');
    }
    let unit = unit(&metric.unit);
    if !unit.is_empty() && !name.ends_with(&unit) {
        name = format!("{name}_{unit}");
    }
    // A counter's samples end in `_total`, its family does not.
    name.strip_suffix("_total").map_or(name.clone(), str::to_owned)
}

fn unit(unit: &str) -> String {
    match unit {
        "s" => "seconds",
        "ms" => "milliseconds",
        "us" => "microseconds",
        "By" => "bytes",
        "1" | "" => "",
        other if other.starts_with('{') => "",
        _ => "",
    }
    .to_owned()
}

fn labels(attributes: &[KeyValue], bound: Option<&str>) -> String {
    let mut pairs: BTreeMap<String, String> = BTreeMap::new();
    for attribute in attributes {
        let key: String =
            attribute.key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let value = match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
            Some(Value::StringValue(text)) => text.clone(),
            Some(Value::BoolValue(value)) => value.to_string(),
            Some(Value::IntValue(value)) => value.to_string(),
            Some(Value::DoubleValue(value)) => value.to_string(),
            Some(_) | None => String::new(),
        };
        pairs.insert(key, value);
    }
    pairs.extend(bound.map(|bound| ("le".to_owned(), bound.to_owned())));
    if pairs.is_empty() {
        return String::new();
    }
    let pairs: Vec<String> =
        pairs.iter().map(|(key, value)| format!("{key}=\"{}\"", escape(value))).collect();
    format!("{{{}}}", pairs.join(","))
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
}
