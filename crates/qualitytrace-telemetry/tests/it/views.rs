//! Views, cardinality limits and exemplars in both configuration formats, as a receiver sees them.

use std::time::Duration;

use opentelemetry_proto::tonic::{
    common::v1::{KeyValue as Pair, any_value},
    metrics::v1::{Metric, metric::Data, number_data_point::Value},
};
use qualitytrace_telemetry::{
    KeyValue, Telemetry,
    config::{Aggregation, Config, DefaultHistogram, ExemplarFilter, InstrumentType, Temporality},
};
use qualitytrace_testing::{DEADLINE, eventually_blocking};

use crate::{
    basics::under,
    config::{good, read},
    receiver::Receiver,
    words::declarative,
};

const READER: &str = "  readers: [{periodic: {interval: 50, LIMITS exporter: {otlp_http: {endpoint: URL/v1/metrics HISTOGRAM}}}}]\n";

/// The metrics that a receiver gets under a declarative file with this text in its meter provider.
fn by_file(provider: &str) -> Vec<Metric> {
    with_reader(provider, READER)
}

fn with_reader(provider: &str, reader: &str) -> Vec<Metric> {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start();
    let reader = reader.replace("LIMITS", "").replace(" HISTOGRAM", "").replace("URL", &receiver.url());
    let (config, lines) = declarative(folder.path(), &format!("meter_provider:\n{reader}{provider}"), &[]);
    assert!(lines.is_empty(), "{lines:?}");
    received(config, receiver)
}

/// The same under a TOML file of this crate's own format.
fn by_toml(text: &str) -> Vec<Metric> {
    let receiver = Receiver::start();
    let sink = format!(
        "[metrics.open-telemetry]\ntransport = \"http\"\nendpoint = \"{}\"\ninterval = \"50ms\"\n",
        receiver.url()
    );
    received(good("t.toml", &format!("{sink}{text}")), receiver)
}

/// Counts 3 and 4 requests of two routes, and records 0.5 s and 2 s.
fn received(mut config: Config, receiver: Receiver) -> Vec<Metric> {
    // No sink takes spans here, so none would become an exemplar.
    if config.metrics.exemplars == ExemplarFilter::TraceBased {
        config.metrics.exemplars = ExemplarFilter::AlwaysOn;
    }
    let telemetry = Telemetry::start(config).unwrap();
    let meter = telemetry.meter("shop");
    let requests = meter.u64_counter("requests").with_unit("{request}").build();
    let durations = telemetry.histogram("shop", "durations", "s", "How long", &[1.0]);
    let gauge = meter.i64_gauge("depth").build();
    let pairs = |route: &'static str, user: i64| [KeyValue::new("route", route), KeyValue::new("user", user)];
    under(&telemetry, || {
        for (user, (route, count, duration)) in [("a", 3, 0.5), ("b", 4, 2.0)].into_iter().enumerate() {
            let _span = tracing::info_span!("request").entered();
            let pairs = pairs(route, i64::try_from(user).unwrap());
            requests.add(count, &pairs);
            durations.record(duration, &pairs);
            gauge.record(7, &pairs);
        }
    });
    telemetry.shutdown(Duration::from_secs(10));
    receiver.stop().metrics
}

fn find<'a>(metrics: &'a [Metric], name: &str) -> Option<&'a Metric> {
    metrics.iter().find(|metric| metric.name == name)
}

fn text(attributes: &[Pair]) -> String {
    let mut pairs: Vec<String> = attributes
        .iter()
        .map(|pair| match pair.value.as_ref().and_then(|value| value.value.as_ref()) {
            Some(any_value::Value::StringValue(text)) => format!("{}={text}", pair.key),
            Some(any_value::Value::IntValue(value)) => format!("{}={value}", pair.key),
            Some(any_value::Value::BoolValue(value)) => format!("{}={value}", pair.key),
            other => panic!("{other:?}"),
        })
        .collect();
    pairs.sort();
    pairs.join(" ")
}

/// The points of a metric as text: attributes and what there is of a value.
fn points(metrics: &[Metric], name: &str) -> Vec<String> {
    let mut lines: Vec<String> = match find(metrics, name).and_then(|metric| metric.data.as_ref()) {
        Some(Data::Sum(data)) => data.data_points.iter().map(|p| number(&p.attributes, p.value)).collect(),
        Some(Data::Gauge(data)) => data.data_points.iter().map(|p| number(&p.attributes, p.value)).collect(),
        Some(Data::Histogram(data)) => data
            .data_points
            .iter()
            .map(|p| {
                format!("{} {:?} {:?} {:?}", text(&p.attributes), p.explicit_bounds, p.bucket_counts, p.max)
            })
            .collect(),
        Some(Data::ExponentialHistogram(data)) => data
            .data_points
            .iter()
            .map(|p| format!("{} exponential {} {}", text(&p.attributes), p.count, p.sum.unwrap()))
            .collect(),
        other => panic!("{name}: {other:?}"),
    };
    lines.sort();
    lines
}

fn number(attributes: &[Pair], value: Option<Value>) -> String {
    match value {
        Some(Value::AsInt(value)) => format!("{} {value}", text(attributes)),
        Some(Value::AsDouble(value)) => format!("{} {value}", text(attributes)),
        None => panic!("a point has a value"),
    }
}

#[test]
fn a_view_renames_describes_and_aggregates() {
    let views = "  views:
    - selector: {instrument_name: durations, unit: s, meter_name: shop}
      stream: {name: request.time, description: told otherwise, aggregation: {explicit_bucket_histogram: {boundaries: [0.1, 5], record_min_max: false}}}
    - selector: {instrument_name: 'dep??'}
      stream: {aggregation: {drop: }}
";
    let toml = r#"
[telemetry.views.time]
instrument-name = "durations"
unit = "s"
meter-name = "shop"
name = "request.time"
description = "told otherwise"
aggregation = "explicit_bucket_histogram"
boundaries = [0.1, 5]
record-min-max = false
[telemetry.views.none]
instrument-name = "dep??"
aggregation = "drop"
"#;
    for got in [by_file(views), by_toml(toml)] {
        assert!(find(&got, "durations").is_none() && find(&got, "depth").is_none());
        assert_eq!(find(&got, "request.time").unwrap().description, "told otherwise");
        let expected = [
            "route=a user=0 [0.1, 5.0] [0, 1, 0] None".to_owned(),
            "route=b user=1 [0.1, 5.0] [0, 1, 0] None".to_owned(),
        ];
        assert_eq!(points(&got, "request.time"), expected);
        assert_eq!(points(&got, "requests"), ["route=a user=0 3", "route=b user=1 4"], "as it was");
    }
}

#[test]
fn a_view_sums_a_histogram_and_another_one_makes_it_exponential() {
    let got = by_file(
        "  views:
    - {selector: {instrument_type: histogram}, stream: {aggregation: {sum: }}}
    - {selector: {instrument_name: durations}, stream: {name: fine, aggregation: {base2_exponential_bucket_histogram: {max_size: 10, max_scale: 5}}}}
    - {selector: {instrument_type: gauge}, stream: {aggregation: {last_value: }}}
",
    );
    assert_eq!(points(&got, "durations"), ["route=a user=0 0.5", "route=b user=1 2"]);
    let expected = ["route=a user=0 exponential 1 0.5", "route=b user=1 exponential 1 2"];
    assert_eq!(points(&got, "fine"), expected, "each view gives a stream");
    let Some(Data::ExponentialHistogram(data)) = &find(&got, "fine").unwrap().data else { panic!() };
    assert!(data.data_points.iter().all(|point| point.scale == 5 && point.exemplars.len() == 1), "{data:?}");
    assert_eq!(points(&got, "depth"), ["route=a user=0 7", "route=b user=1 7"]);
}

#[test]
fn attributes_that_a_view_leaves_out_are_added_up() {
    for keys in
        ["{included: [route, other]}", "{included: ['r*']}", "{excluded: [user]}", "{excluded: ['use?']}"]
    {
        let got = by_file(&format!(
            "  views: [{{selector: {{meter_name: shop}}, stream: {{attribute_keys: {keys}}}}}]\n"
        ));
        assert_eq!(points(&got, "requests"), ["route=a 3", "route=b 4"], "{keys}");
    }
    for keys in [
        "attributes.included = [\"nothing\"]",
        "attributes.excluded = [\"*\"]",
        "attributes.included = [\"route\", \"us*\"]\nattributes.excluded = [\"route\", \"user\"]",
    ] {
        let got = by_toml(&format!("[telemetry.views.all]\nmeter-name = \"shop\"\n{keys}\n"));
        assert_eq!(points(&got, "requests"), [" 7"], "{keys}");
        assert_eq!(points(&got, "durations"), [" [1.0] [1, 1] Some(2.0)"], "{keys}");
        assert_eq!(points(&got, "depth"), [" 7"], "{keys}");
        let Some(Data::Histogram(data)) = &find(&got, "durations").unwrap().data else { panic!() };
        let [example] = data.data_points[0].exemplars.as_slice() else { panic!("{data:?}") };
        assert_eq!(
            text(&example.filtered_attributes),
            "route=b user=1",
            "{keys}: what is left out is told there"
        );
        let got = by_toml(&format!(
            "[telemetry]\ndefault-histogram-aggregation = \"base2_exponential_bucket_histogram\"\n\
             [telemetry.views.all]\nmeter-name = \"shop\"\n{keys}\n"
        ));
        assert_eq!(points(&got, "durations"), [" exponential 2 2.5"], "{keys}");
    }
}

#[test]
fn series_are_limited_by_instrument_type_and_by_view() {
    let reader = READER.replace("LIMITS", "cardinality_limits: {default: 9, counter: 1},");
    let got = with_reader("", &reader);
    assert_eq!(points(&got, "requests"), ["otel.metric.overflow=true 4", "route=a user=0 3"]);
    assert_eq!(points(&got, "depth").len(), 2);
    let view = "[telemetry]\ncardinality-limit = 1\n[telemetry.views.depth]\ninstrument-name = \"depth\"\ncardinality-limit = 5\n";
    let got = by_toml(view);
    assert_eq!(points(&got, "requests"), ["otel.metric.overflow=true 4", "route=a user=0 3"]);
    assert_eq!(points(&got, "depth"), ["route=a user=0 7", "route=b user=1 7"]);
}

#[test]
fn histograms_become_exponential_by_one_word() {
    let reader =
        READER.replace(" HISTOGRAM", ", default_histogram_aggregation: base2_exponential_bucket_histogram");
    let expected = ["route=a user=0 exponential 1 0.5", "route=b user=1 exponential 1 2"];
    assert_eq!(points(&with_reader("", &reader), "durations"), expected);
    let (config, lines) = read(
        &[],
        &[
            (
                "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
                "base2_exponential_bucket_histogram",
            ),
            ("OTEL_METRICS_EXEMPLAR_FILTER", "always_off"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"),
        ],
        &[],
    );
    assert!(lines.is_empty(), "{lines:?}");
    assert_eq!(config.metrics.default_histogram, DefaultHistogram::Base2ExponentialBucketHistogram);
    assert_eq!(config.metrics.exemplars, ExemplarFilter::AlwaysOff);
}

#[test]
fn exponential_points_are_also_told_as_differences() {
    let receiver = Receiver::start();
    let text = format!(
        "[telemetry]\ndefault-histogram-aggregation = \"base2_exponential_bucket_histogram\"\n\
         [metrics.open-telemetry]\ntransport = \"http\"\nendpoint = \"{}\"\ninterval = \"50ms\"\ntemporality = \"delta\"\n",
        receiver.url()
    );
    let config = good("t.toml", &text);
    assert_eq!(config.sinks[0].temporality, Temporality::Delta);
    let telemetry = Telemetry::start(config).unwrap();
    let durations = telemetry.histogram("shop", "durations", "s", "How long", &[]);
    let arrived = || find(&receiver.got().metrics, "durations").is_some();
    durations.record(1.0, &[]);
    eventually_blocking(DEADLINE, "the metrics arrive", arrived);
    durations.record(1.0, &[]);
    // Far from the first value, so that the scale becomes coarser.
    durations.record(1e9, &[]);
    telemetry.shutdown(Duration::from_secs(10));
    let got = receiver.stop().metrics;
    let mut counts = Vec::new();
    for metric in got.iter().filter(|metric| metric.name == "durations") {
        let Some(Data::ExponentialHistogram(data)) = &metric.data else { panic!("{metric:?}") };
        assert_eq!(data.aggregation_temporality, 1);
        for point in &data.data_points {
            let buckets: u64 = point.positive.iter().flat_map(|buckets| &buckets.bucket_counts).sum();
            assert_eq!(buckets + point.zero_count, point.count, "{point:?}");
            counts.push(point.count);
        }
    }
    assert_eq!(counts.iter().sum::<u64>(), 3, "{counts:?}");
    assert_eq!(counts[0], 1, "{counts:?}");
}

#[test]
fn the_exemplar_filter_decides_which_values_become_examples() {
    let examples = |filter: &str, in_span: bool| {
        let text = format!("[telemetry]\nexemplar-filter = \"{filter}\"\n");
        let telemetry = Telemetry::start(good("t.toml", &text)).unwrap();
        let durations = telemetry.histogram("shop", "durations", "s", "How long", &[1.0]);
        under(&telemetry, || {
            let span = in_span.then(|| tracing::info_span!("s").entered());
            durations.record(0.5, &[]);
            drop(span);
        });
        let text = telemetry.prometheus();
        telemetry.shutdown(Duration::ZERO);
        let line = text.lines().find(|line| line.starts_with("durations_seconds_bucket{le=\"1.0\"}"));
        line.unwrap().contains(" # {")
    };
    // Without a sink no span is sampled.
    assert_eq!([false, true].map(|in_span| examples("trace_based", in_span)), [false, false]);
    assert_eq!([false, true].map(|in_span| examples("always_on", in_span)), [true, true]);
    assert_eq!([false, true].map(|in_span| examples("always_off", in_span)), [false, false]);
    let got = by_file("  exemplar_filter: always_off\n");
    let Some(Data::Histogram(data)) = &find(&got, "durations").unwrap().data else { panic!() };
    assert!(data.data_points.iter().all(|point| point.exemplars.is_empty()), "{data:?}");
}

#[test]
fn views_that_cannot_be_are_told_with_their_place() {
    let check = |text: &str, expected: &str| {
        let (_, diagnostics) = read(&[("t.toml", text)], &[], &[]);
        let lines: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
        assert!(lines.len() == 1 && lines[0].contains(expected), "{expected}: {lines:?}");
    };
    let view = "[telemetry.views.a]\n";
    check(
        &format!("{view}instrument-name = \"a*\"\nname = \"b\"\n"),
        "t.toml:3:8: error: `telemetry.views.a.name` cannot be so",
    );
    check(&format!("{view}aggregation = \"summ\"\n"), "did you mean `sum`?");
    check(
        &format!("{view}instrumentname = \"a\"\nagregation = \"sum\"\n"),
        "did you mean `telemetry.views.a.aggregation`?",
    );
    check(&format!("{view}aggregation = \"sum\"\nboundaries = [1]\n"), "belongs to another aggregation");
    check(
        &format!("{view}aggregation = \"explicit_bucket_histogram\"\nboundaries = [2, 1]\n"),
        "numbers in ascending order",
    );
    check(
        &format!("{view}instrument-type = \"counter\"\naggregation = \"last_value\"\n"),
        "a `counter` cannot be aggregated so",
    );
    check("[telemetry]\ncardinality-limit = 0\n", "a whole number from 1 to 1000000");
    check("[telemetry]\nexemplar-filter = \"always\"\n", "expected trace_based|always_on|always_off");

    let folder = tempfile::tempdir().unwrap();
    let check = |text: &str, expected: &[&str]| {
        let (_, lines) = declarative(folder.path(), &format!("meter_provider:\n{text}"), &[]);
        assert_eq!(lines.len(), expected.len(), "{lines:?}");
        for (line, expected) in lines.iter().zip(expected) {
            assert!(line.contains(expected), "{expected}: {lines:?}");
        }
    };
    check("  views: [{selector: {instrument_nam: a}, stream: {}}]", &["did you mean `instrument_name`?"]);
    check("  views: [{selector: {}}]", &["a view needs `selector` and `stream`"]);
    check(
        "  views: [{selector: {}, stream: {aggregation: {base2_exponential_bucket_histogram: {max_scale: 21}}}}]",
        &["expected a whole number from -10 to 20"],
    );
    let reader = |more: &str, histogram: &str| {
        format!(
            "{{periodic: {{{more} exporter: {{otlp_http: {{endpoint: 'http://c/v1/metrics' {histogram}}}}}}}}}"
        )
    };
    let (one, other) = (
        reader("cardinality_limits: {default: 5},", ""),
        reader("", ", default_histogram_aggregation: base2_exponential_bucket_histogram"),
    );
    check(
        &format!("  readers: [{one}, {other}]"),
        &[
            "`periodic.cardinality_limits` is not the same in all readers",
            "`default_histogram_aggregation` is not the same",
        ],
    );
}

#[test]
fn a_view_of_a_variable_and_of_a_file_are_one() {
    let (config, lines) = read(
        &[("t.toml", "[telemetry.views.time]\ninstrument-name = \"durations\"\n")],
        &[("QUALITYTRACE_TELEMETRY_VIEWS_TIME_AGGREGATION", "base2_exponential_bucket_histogram")],
        &[("telemetry.views.time.max-size", "20"), ("telemetry.cardinality-limit", "7")],
    );
    assert!(lines.is_empty(), "{lines:?}");
    let [view] = config.metrics.views.as_slice() else { panic!("{config:?}") };
    assert_eq!(view.selector.instrument_name.as_deref(), Some("durations"));
    let expected =
        Aggregation::Base2ExponentialBucketHistogram { max_size: 20, max_scale: 20, record_min_max: true };
    assert_eq!(view.stream.aggregation, Some(expected));
    assert_eq!(config.metrics.cardinality.of(InstrumentType::Gauge), 7);
    let shown: Vec<String> =
        config.lines().iter().map(|line| format!("{}={}", line.key, line.value)).collect();
    for line in
        ["telemetry.views=1", "telemetry.cardinality-limit=7", "telemetry.exemplar-filter=trace_based"]
    {
        assert!(shown.iter().any(|found| found == line), "{line}: {shown:?}");
    }
}
