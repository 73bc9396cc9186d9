//! The meter provider: its readers, and the settings that they share.

use std::time::Duration;

use qualitytrace_config::{Located, Origin, Severity};

use super::Declarative;
use crate::config::{
    CardinalityLimits, Config, DefaultHistogram, ExemplarFilter, InstrumentType, Signal, metrics, value,
};

/// Settings of readers that apply to all of them.
#[derive(Default)]
struct Shared {
    limits: Option<CardinalityLimits>,
    histogram: Option<DefaultHistogram>,
}

impl Declarative<'_> {
    pub(super) fn meter_provider(&mut self, root: &Located, config: &mut Config) {
        let Some(provider) = root.get("meter_provider") else {
            return;
        };
        self.map(provider, "meter_provider", &["readers", "views", "exemplar_filter"]);
        if let Some(views) = provider.get("views") {
            config.metrics.views = self.views(views);
            config.origins.insert("telemetry.views".to_owned(), views.origin.clone());
        }
        let found = self.parsed(provider, "exemplar_filter", metrics::EXEMPLAR_FILTER, ExemplarFilter::parse);
        if let Some((filter, origin)) = found {
            config.metrics.exemplars = filter;
            config.origins.insert("telemetry.exemplar-filter".to_owned(), origin);
        }
        let Some(readers) = provider.get("readers") else { return };
        let mut shared = Shared::default();
        for (index, reader) in self.list(readers, "meter_provider.readers").iter().enumerate() {
            match self.one_of(reader, "readers", &["periodic", "pull"]) {
                Some(("periodic", periodic)) => {
                    self.cardinality(periodic, "periodic", &mut shared, config);
                    self.periodic(periodic, index, &mut shared, config);
                }
                Some((_, pull)) => {
                    let message = "`pull` has no effect here: metrics are served at `/metrics`".to_owned();
                    self.report.push(Severity::Warning, &pull.origin, "readers.pull", message, None);
                    self.cardinality(pull, "pull", &mut shared, config);
                }
                None => {}
            }
        }
    }

    fn periodic(&mut self, body: &Located, index: usize, shared: &mut Shared, config: &mut Config) {
        let known = ["interval", "timeout", "exporter", "cardinality_limits", "producers"];
        self.map(body, "periodic", &known);
        let id = format!("declarative.metrics.{index}");
        let Some(exporter) = body.get("exporter") else {
            let message = "`periodic` needs an `exporter`".to_owned();
            self.report.error(&body.origin, "periodic", message, None);
            return;
        };
        let Some(mut sink) = self.exporter(exporter, Signal::Metrics, id) else { return };
        self.histogram(exporter, shared, config);
        self.without_effect(body, "producers", "periodic.producers");
        let millis = |text: &str| text.parse().ok().map(Duration::from_millis);
        let interval = |text: &str| millis(text).filter(|_| value::interval(text).is_some());
        let allowed = "a whole number of milliseconds, at least 10";
        if let Some((interval, origin)) = self.parsed(body, "interval", allowed, interval) {
            sink.interval = interval;
            sink.origins.insert("interval".to_owned(), origin);
        }
        if let Some((timeout, origin)) = self.timeout(body, "timeout") {
            sink.limit_timeout(timeout, origin);
        }
        config.sinks.push(sink);
    }

    /// Series are limited once for all readers, so the largest limit applies.
    fn cardinality(&mut self, reader: &Located, path: &str, shared: &mut Shared, config: &mut Config) {
        let mut limits = CardinalityLimits::default();
        let node = reader.get("cardinality_limits");
        if let Some(node) = node {
            let types = InstrumentType::ALL.map(InstrumentType::name);
            let known: Vec<&str> = ["default"].into_iter().chain(types).collect();
            self.map(node, &format!("{path}.cardinality_limits"), &known);
            let parse = metrics::cardinality;
            if let Some((limit, _)) = self.parsed(node, "default", metrics::CARDINALITY, parse) {
                limits.default = limit;
            }
            for kind in InstrumentType::ALL {
                if let Some((limit, _)) = self.parsed(node, kind.name(), metrics::CARDINALITY, parse) {
                    limits.set(kind, limit);
                }
            }
            config.origins.insert("telemetry.cardinality-limit".to_owned(), node.origin.clone());
        }
        let before = shared.limits.replace(limits);
        if let Some(before) = before.filter(|before| *before != limits) {
            let origin = node.map_or(&reader.origin, |node| &node.origin);
            let key = format!("{path}.cardinality_limits");
            self.shared_by_readers(origin, &key, "the larger limit counts");
            shared.limits = Some(before.larger(limits));
        }
        config.metrics.cardinality = shared.limits.unwrap_or_default();
    }

    /// Measurements are aggregated once for all readers, so the first default applies.
    fn histogram(&mut self, exporter: &Located, shared: &mut Shared, config: &mut Config) {
        let key = "default_histogram_aggregation";
        let body = exporter.get("otlp_http").or_else(|| exporter.get("otlp_grpc"));
        let found =
            body.and_then(|body| self.parsed(body, key, metrics::DEFAULT_HISTOGRAM, DefaultHistogram::parse));
        let (wanted, origin) = found.unzip();
        let wanted = wanted.unwrap_or_default();
        if let Some(first) = shared.histogram {
            if first != wanted {
                self.shared_by_readers(
                    &origin.unwrap_or(exporter.origin.clone()),
                    key,
                    "the first one counts",
                );
            }
            return;
        }
        shared.histogram = Some(wanted);
        config.metrics.default_histogram = wanted;
        let name = "telemetry.default-histogram-aggregation";
        config.origins.extend(origin.map(|origin| (name.to_owned(), origin)));
    }

    fn shared_by_readers(&mut self, origin: &Origin, key: &str, what: &str) {
        let message = format!("`{key}` is not the same in all readers, which share it here: {what}");
        self.report.push(Severity::Warning, origin, key, message, None);
    }
}
