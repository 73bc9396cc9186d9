//! The views of the meter provider.

use qualitytrace_config::Located;

use super::Declarative;
use crate::config::{
    Aggregation, AttributeKeys, InstrumentType, MetricView, Selector, Stream, metrics, value,
};

impl Declarative<'_> {
    pub(super) fn views(&mut self, node: &Located) -> Vec<MetricView> {
        self.list(node, "views").iter().filter_map(|item| self.view(item)).collect()
    }

    fn view(&mut self, node: &Located) -> Option<MetricView> {
        self.map(node, "views", &["selector", "stream"]);
        let (Some(selector), Some(stream)) = (node.get("selector"), node.get("stream")) else {
            let message = "a view needs `selector` and `stream`".to_owned();
            self.report.error(&node.origin, "views", message, None);
            return None;
        };
        let view = MetricView { selector: self.selector(selector), stream: self.stream(stream) };
        if let Some((part, why)) = view.wrong() {
            let origin = stream.get(part).map_or(&stream.origin, |node| &node.origin);
            let key = format!("views.stream.{part}");
            self.report.error(origin, &key, format!("`{key}` cannot be so: {why}"), None);
            return None;
        }
        Some(view)
    }

    fn selector(&mut self, node: &Located) -> Selector {
        let known =
            ["instrument_name", "instrument_type", "unit", "meter_name", "meter_version", "meter_schema_url"];
        self.map(node, "views.selector", &known);
        let kind = self.parsed(node, "instrument_type", metrics::INSTRUMENT_TYPE, InstrumentType::parse);
        let mut text = |key: &str| self.scalar(node, key).map(|(text, _)| text);
        Selector {
            instrument_name: text("instrument_name"),
            instrument_type: kind.map(|(kind, _)| kind),
            unit: text("unit"),
            meter_name: text("meter_name"),
            meter_version: text("meter_version"),
            meter_schema_url: text("meter_schema_url"),
        }
    }

    fn stream(&mut self, node: &Located) -> Stream {
        let known = ["name", "description", "aggregation", "aggregation_cardinality_limit", "attribute_keys"];
        self.map(node, "views.stream", &known);
        let limit =
            self.parsed(node, "aggregation_cardinality_limit", metrics::CARDINALITY, metrics::cardinality);
        Stream {
            name: self.scalar(node, "name").map(|(name, _)| name),
            description: self.scalar(node, "description").map(|(text, _)| text),
            aggregation: node.get("aggregation").and_then(|node| self.aggregation(node)),
            cardinality_limit: limit.map(|(limit, _)| limit),
            attributes: node.get("attribute_keys").map(|node| self.attributes(node)).unwrap_or_default(),
        }
    }

    fn attributes(&mut self, node: &Located) -> AttributeKeys {
        self.map(node, "views.stream.attribute_keys", &["included", "excluded"]);
        let included = node.get("included").map(|node| self.texts(node, "included"));
        let excluded = node.get("excluded").map(|node| self.texts(node, "excluded"));
        AttributeKeys { included, excluded: excluded.unwrap_or_default() }
    }

    fn aggregation(&mut self, node: &Located) -> Option<Aggregation> {
        let known: Vec<&str> = metrics::AGGREGATION.split('|').collect();
        let (name, body) = self.one_of(node, "views.stream.aggregation", &known)?;
        let mut aggregation = Aggregation::named(name)?;
        let path = format!("views.stream.aggregation.{name}");
        match &mut aggregation {
            Aggregation::ExplicitBucketHistogram { boundaries, record_min_max } => {
                self.map(body, &path, &["boundaries", "record_min_max"]);
                if let Some(node) = body.get("boundaries") {
                    let texts = self.texts(node, "boundaries");
                    let numbers: Option<Vec<f64>> = texts.iter().map(|text| text.parse().ok()).collect();
                    match numbers.filter(|numbers| metrics::are_boundaries(numbers)) {
                        Some(numbers) => *boundaries = numbers,
                        None => {
                            let message = format!("`{path}.boundaries`: expected {}", metrics::BOUNDARY_LIST);
                            self.report.error(&node.origin, &format!("{path}.boundaries"), message, None);
                        }
                    }
                }
                self.record_min_max(body, record_min_max);
            }
            Aggregation::Base2ExponentialBucketHistogram { max_size, max_scale, record_min_max } => {
                self.map(body, &path, &["max_scale", "max_size", "record_min_max"]);
                if let Some((size, _)) = self.parsed(body, "max_size", metrics::MAX_SIZE, metrics::max_size) {
                    *max_size = size;
                }
                let scale = self.parsed(body, "max_scale", metrics::MAX_SCALE, metrics::max_scale);
                if let Some((scale, _)) = scale {
                    *max_scale = scale;
                }
                self.record_min_max(body, record_min_max);
            }
            Aggregation::Default | Aggregation::Drop | Aggregation::Sum | Aggregation::LastValue => {
                self.map(body, &path, &[]);
            }
        }
        Some(aggregation)
    }

    fn record_min_max(&mut self, body: &Located, target: &mut bool) {
        if let Some((record, _)) = self.parsed(body, "record_min_max", "true|false", value::boolean) {
            *target = record;
        }
    }
}
