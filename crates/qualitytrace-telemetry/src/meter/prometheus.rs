//! Prometheus exposition of all metrics, in its text format or as `OpenMetrics`.

use std::{collections::BTreeMap, fmt::Write as _};

use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest,
    common::v1::{KeyValue, any_value::Value},
    metrics::v1::{
        AggregationTemporality, Exemplar, ExponentialHistogramDataPoint, HistogramDataPoint, Metric,
        NumberDataPoint, exemplar, metric::Data, number_data_point,
    },
};

/// The media type of `OpenMetrics` text.
pub const CONTENT_TYPE: &str = Exposition::OpenMetrics.content_type();

/// An exposition format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exposition {
    /// The text format of Prometheus, version 0.0.4.
    Prometheus,
    /// `OpenMetrics` 1.0, which also has units and exemplars.
    OpenMetrics,
}

impl Exposition {
    /// The media type of the text.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The format that a client prefers by its `Accept` header; the Prometheus text format without a preference, as
    /// every reader understands it.
    pub fn accepted(accept: &str) -> Self {
        let (mut best, mut quality) = (Self::Prometheus, 0.0);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
            let parameter = |name: &str| {
                let found = parameters.iter().find(|(key, _)| key.trim().eq_ignore_ascii_case(name));
                found.map(|(_, value)| value.trim().trim_matches('"'))
            };
            let format = if media.eq_ignore_ascii_case("application/openmetrics-text")
                && parameter("version").is_none_or(|version| ["1.0.0", "0.0.1"].contains(&version))
            {
                Self::OpenMetrics
            } else if ["text/plain", "text/*", "*/*"].iter().any(|known| media.eq_ignore_ascii_case(known)) {
                Self::Prometheus
            } else {
                continue;
            };
            let wanted = parameter("q").map_or(1.0, |q| q.parse::<f64>().unwrap_or(0.0));
            if wanted > quality {
                (best, quality) = (format, wanted);
            }
        }
        best
    }
}

/// A metric and the scope that it comes from.
type Scoped<'a> = (&'a str, &'a Metric);

/// Renders a collection. Metrics of the same name from several scopes become one family.
pub(crate) fn render(request: &ExportMetricsServiceRequest, format: Exposition) -> String {
    let mut families: BTreeMap<String, Vec<Scoped<'_>>> = BTreeMap::new();
    let mut writer = Writer { out: String::new(), format };
    for resource in &request.resource_metrics {
        if let Some(info) = &resource.resource {
            writer.head("target", "info", "", "What the metrics are about");
            let _ = writeln!(writer.out, "target_info{} 1", labels(&info.attributes, &[]));
        }
        for scope in &resource.scope_metrics {
            let name = scope.scope.as_ref().map_or("", |scope| scope.name.as_str());
            for metric in scope.metrics.iter().filter(|metric| has_points(metric)) {
                families.entry(family(metric)).or_default().push((name, metric));
            }
        }
    }
    for (name, metrics) in &families {
        let Some((_, first)) = metrics.first() else { continue };
        let help = if first.description.is_empty() { &first.name } else { &first.description };
        writer.head(name, kind(first), &unit(&first.unit), help);
        // Several scopes may have the same series.
        let are_several = metrics.iter().any(|(scope, _)| *scope != metrics[0].0);
        for (scope, metric) in metrics.iter().filter(|(_, metric)| kind(metric) == kind(first)) {
            writer.points(name, metric, are_several.then_some(scope));
        }
    }
    if format == Exposition::OpenMetrics {
        writer.out.push_str("# EOF\n");
    }
    writer.out
}

struct Writer {
    out: String,
    format: Exposition,
}

impl Writer {
    /// Writes the metadata lines of a family.
    fn head(&mut self, family: &str, kind: &str, unit: &str, help: &str) {
        let out = &mut self.out;
        match self.format {
            Exposition::OpenMetrics => {
                let _ = writeln!(out, "# TYPE {family} {kind}");
                if !unit.is_empty() && family.ends_with(&format!("_{unit}")) {
                    let _ = writeln!(out, "# UNIT {family} {unit}");
                }
                let _ = writeln!(out, "# HELP {family} {}", escape(help));
            }
            // The older format names families after their samples, and has no `info` type.
            Exposition::Prometheus => {
                let (suffix, kind) = match kind {
                    "counter" => ("_total", kind),
                    "info" => ("_info", "gauge"),
                    _ => ("", kind),
                };
                let help = help.replace('\\', "\\\\").replace('\n', "\\n");
                let _ = writeln!(out, "# HELP {family}{suffix} {help}");
                let _ = writeln!(out, "# TYPE {family}{suffix} {kind}");
            }
        }
    }

    fn points(&mut self, name: &str, metric: &Metric, scope: Option<&str>) {
        let scope: Vec<(&str, &str)> = scope.map(|scope| ("otel_scope_name", scope)).into_iter().collect();
        match &metric.data {
            Some(Data::Gauge(data)) => {
                data.data_points.iter().for_each(|point| self.number(name, "", point, &scope));
            }
            Some(Data::Sum(data)) => {
                let suffix = if kind(metric) == "counter" { "_total" } else { "" };
                data.data_points.iter().for_each(|point| self.number(name, suffix, point, &scope));
            }
            Some(Data::Histogram(data)) => {
                for point in &data.data_points {
                    self.histogram(name, &Buckets::explicit(point), &point.attributes, &scope);
                }
            }
            Some(Data::ExponentialHistogram(data)) => {
                for point in &data.data_points {
                    self.histogram(name, &Buckets::exponential(point), &point.attributes, &scope);
                }
            }
            Some(Data::Summary(_)) | None => {}
        }
    }

    fn number(&mut self, name: &str, suffix: &str, point: &NumberDataPoint, scope: &[(&str, &str)]) {
        let value = match point.value {
            Some(number_data_point::Value::AsDouble(value)) => plain(value),
            Some(number_data_point::Value::AsInt(value)) => value.to_string(),
            None => return,
        };
        let _ = writeln!(self.out, "{name}{suffix}{} {value}", labels(&point.attributes, scope));
    }

    /// Writes cumulative buckets: each counts all values up to its bound.
    fn histogram(
        &mut self,
        name: &str,
        buckets: &Buckets<'_>,
        attributes: &[KeyValue],
        scope: &[(&str, &str)],
    ) {
        let mut sum = 0;
        let mut below = f64::NEG_INFINITY;
        for (bound, count) in &buckets.counts {
            sum += count;
            let text = float(*bound);
            let all: Vec<(&str, &str)> = scope.iter().copied().chain([("le", text.as_str())]).collect();
            let _ = write!(self.out, "{name}_bucket{} {sum}", labels(attributes, &all));
            let example = buckets.exemplars.iter().find(|example| {
                matches!(example.value, Some(exemplar::Value::AsDouble(value)) if value > below && value <= *bound)
            });
            if let Some(example) = example.filter(|_| self.format == Exposition::OpenMetrics) {
                write_exemplar(&mut self.out, example);
            }
            self.out.push('\n');
            below = *bound;
        }
        let labels = labels(attributes, scope);
        let _ = writeln!(self.out, "{name}_count{labels} {}", buckets.count);
        let _ = writeln!(self.out, "{name}_sum{labels} {}", plain(buckets.sum));
    }
}

/// The buckets of a histogram: upper bounds in ascending order, the last one infinite, and the count of each.
struct Buckets<'a> {
    counts: Vec<(f64, u64)>,
    count: u64,
    sum: f64,
    exemplars: &'a [Exemplar],
}

impl<'a> Buckets<'a> {
    fn explicit(point: &'a HistogramDataPoint) -> Self {
        let bounds = point.explicit_bounds.iter().copied().chain([f64::INFINITY]);
        // A point without buckets has one that holds all values.
        let all = [point.count];
        let counts = if point.bucket_counts.is_empty() { &all[..] } else { &point.bucket_counts };
        let bounds =
            bounds.skip(if point.bucket_counts.is_empty() { point.explicit_bounds.len() } else { 0 });
        Self {
            counts: bounds.zip(counts.iter().copied()).collect(),
            count: point.count,
            sum: point.sum.unwrap_or(0.0),
            exemplars: &point.exemplars,
        }
    }

    /// Text formats have no exponential buckets: the used ones are written with explicit bounds.
    fn exponential(point: &'a ExponentialHistogramDataPoint) -> Self {
        // The exponent of one step: a bound is 2^(2^-scale) times the one before.
        let step = 2_f64.powi(-point.scale);
        let bound = |index: i64| {
            #[expect(clippy::cast_precision_loss, reason = "an index has 32 bits")]
            let index = index as f64;
            2_f64.powf(step * index)
        };
        let mut counts = Vec::new();
        if let Some(negative) = &point.negative {
            let offset = i64::from(negative.offset);
            // The upper bound of a negative bucket is its bound nearest to zero.
            let buckets = (offset..).zip(&negative.bucket_counts).filter(|(_, count)| **count > 0);
            let mut buckets: Vec<(f64, u64)> = buckets.map(|(at, count)| (-bound(at), *count)).collect();
            buckets.reverse();
            counts.extend(buckets);
        }
        if point.zero_count > 0 {
            counts.push((point.zero_threshold.max(0.0), point.zero_count));
        }
        if let Some(positive) = &point.positive {
            let offset = i64::from(positive.offset);
            let buckets = (offset..).zip(&positive.bucket_counts).filter(|(_, count)| **count > 0);
            counts.extend(buckets.map(|(at, count)| (bound(at + 1), *count)));
        }
        if !counts.last().is_some_and(|(bound, _)| bound.is_infinite()) {
            counts.push((f64::INFINITY, 0));
        }
        Self { counts, count: point.count, sum: point.sum.unwrap_or(0.0), exemplars: &point.exemplars }
    }
}

fn has_points(metric: &Metric) -> bool {
    match &metric.data {
        Some(Data::Gauge(data)) => !data.data_points.is_empty(),
        Some(Data::Sum(data)) => !data.data_points.is_empty(),
        Some(Data::Histogram(data)) => !data.data_points.is_empty(),
        Some(Data::ExponentialHistogram(data)) => !data.data_points.is_empty(),
        Some(Data::Summary(_)) | None => false,
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
        Some(Data::Histogram(_) | Data::ExponentialHistogram(_)) => "histogram",
        Some(Data::Sum(_) | Data::Gauge(_) | Data::Summary(_)) | None => "gauge",
    }
}

/// Writes ` # {trace_id="...",span_id="..."} value seconds`.
fn write_exemplar(out: &mut String, example: &Exemplar) {
    let Some(exemplar::Value::AsDouble(value)) = example.value else { return };
    let labels = if example.trace_id.is_empty() {
        String::new()
    } else {
        format!(
            "trace_id=\"{}\",span_id=\"{}\"",
            const_hex::encode(&example.trace_id),
            const_hex::encode(&example.span_id)
        )
    };
    let (seconds, millis) =
        (example.time_unix_nano / 1_000_000_000, example.time_unix_nano / 1_000_000 % 1_000);
    let _ = write!(out, " # {{{labels}}} {value} {seconds}.{millis:03}");
}

/// Formats a number for both formats.
fn plain(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned()
    } else {
        value.to_string()
    }
}

/// Formats a bound: `5` as `5.0`, as the format asks.
fn float(value: f64) -> String {
    let text = plain(value);
    if text.contains(['.', 'e', 'n']) { text } else { format!("{text}.0") }
}

/// The name of the family, without the suffixes that only samples have.
fn family(metric: &Metric) -> String {
    let mut name: String =
        metric.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        name.insert(0, '_');
    }
    let unit = unit(&metric.unit);
    if !unit.is_empty() && !name.ends_with(&format!("_{unit}")) {
        name = format!("{name}_{unit}");
    }
    // Samples of a counter end in `_total`, its family does not; `_count` and similar suffixes belong to histograms.
    for suffix in ["_total", "_count", "_sum", "_bucket", "_info", "_created"] {
        if let Some(stem) = name.strip_suffix(suffix).filter(|stem| !stem.is_empty()) {
            return stem.to_owned();
        }
    }
    name
}

fn unit(unit: &str) -> String {
    match unit {
        "s" => "seconds",
        "ms" => "milliseconds",
        "us" => "microseconds",
        "By" => "bytes",
        // `1` and annotations in braces are no unit.
        _ => "",
    }
    .to_owned()
}

fn labels(attributes: &[KeyValue], own: &[(&str, &str)]) -> String {
    let mut pairs: BTreeMap<String, String> = BTreeMap::new();
    for attribute in attributes {
        let mut key: String =
            attribute.key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        if key.is_empty() || key.starts_with(|c: char| c.is_ascii_digit()) {
            key.insert(0, '_');
        }
        let value = match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
            Some(Value::StringValue(text)) => text.clone(),
            Some(Value::BoolValue(value)) => value.to_string(),
            Some(Value::IntValue(value)) => value.to_string(),
            Some(Value::DoubleValue(value)) => value.to_string(),
            Some(_) | None => String::new(),
        };
        // `a.b` and `a_b` become the same label; the conventions join their values.
        let known = pairs.entry(key).or_default();
        let separator = if known.is_empty() { "" } else { ";" };
        *known = format!("{known}{separator}{value}");
    }
    pairs.extend(own.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
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
