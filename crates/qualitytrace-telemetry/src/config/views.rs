//! Reads `telemetry.views.<name>.`, the views of this crate's own format.

use super::{
    Aggregation, AttributeKeys, InstrumentType, MetricView, Selector, Stream, metrics, settings::Reader,
    value,
};

impl Reader<'_> {
    /// The view, or `None` when it is invalid.
    pub(crate) fn view(mut self, id: &str) -> Option<MetricView> {
        let aggregation = self.aggregation();
        let view = MetricView {
            selector: Selector {
                instrument_name: self.word("instrument-name"),
                instrument_type: self.parsed("instrument-type", InstrumentType::parse),
                unit: self.word("unit"),
                meter_name: self.word("meter-name"),
                meter_version: self.word("meter-version"),
                meter_schema_url: self.word("meter-schema-url"),
            },
            stream: Stream {
                name: self.word("name"),
                description: self.word("description"),
                aggregation,
                cardinality_limit: self.parsed("cardinality-limit", metrics::cardinality),
                attributes: AttributeKeys {
                    included: self.list("attributes.included"),
                    excluded: self.list("attributes.excluded").unwrap_or_default(),
                },
            },
        };
        if let Some((part, why)) = view.wrong() {
            let key = format!("telemetry.views.{id}.{part}");
            let origin = self.origins.get(part).cloned().unwrap_or_else(|| self.anywhere());
            self.report.error(&origin, &key, format!("`{key}` cannot be so: {why}"), None);
            return None;
        }
        Some(view)
    }

    fn word(&mut self, name: &'static str) -> Option<String> {
        self.text(name).map(|(text, _)| text)
    }

    fn aggregation(&mut self) -> Option<Aggregation> {
        let mut aggregation = self.parsed("aggregation", Aggregation::named);
        let min_max = self.parsed("record-min-max", value::boolean);
        let wanted = self.list("boundaries");
        let (size, scale) =
            (self.parsed("max-size", metrics::max_size), self.parsed("max-scale", metrics::max_scale));
        match &mut aggregation {
            Some(Aggregation::ExplicitBucketHistogram { boundaries, record_min_max }) => {
                self.refuse(&["max-size", "max-scale"], "base2_exponential_bucket_histogram");
                *record_min_max = min_max.unwrap_or(*record_min_max);
                if let Some(wanted) = wanted {
                    let numbers: Option<Vec<f64>> = wanted.iter().map(|text| text.parse().ok()).collect();
                    match numbers.filter(|numbers| metrics::are_boundaries(numbers)) {
                        Some(numbers) => *boundaries = numbers,
                        None => self.bad("boundaries", &wanted.join(",")),
                    }
                }
            }
            Some(Aggregation::Base2ExponentialBucketHistogram { max_size, max_scale, record_min_max }) => {
                self.refuse(&["boundaries"], "explicit_bucket_histogram");
                *max_size = size.unwrap_or(*max_size);
                *max_scale = scale.unwrap_or(*max_scale);
                *record_min_max = min_max.unwrap_or(*record_min_max);
            }
            Some(Aggregation::Default | Aggregation::Drop | Aggregation::Sum | Aggregation::LastValue)
            | None => {
                self.refuse(&["boundaries"], "explicit_bucket_histogram");
                self.refuse(&["max-size", "max-scale"], "base2_exponential_bucket_histogram");
                self.refuse(&["record-min-max"], "explicit_bucket_histogram");
            }
        }
        aggregation
    }

    /// Reports parameters of another aggregation.
    fn refuse(&mut self, names: &[&'static str], aggregation: &str) {
        for name in names {
            let Some(given) = self.draft.settings.get(name) else { continue };
            let message = format!("`{}` belongs to another aggregation", given.key);
            let help = Some(format!("set `aggregation` to `{aggregation}`"));
            self.report.error(&given.value.origin, &given.key, message, help);
        }
    }
}
