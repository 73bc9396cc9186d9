//! Reads `telemetry.views.<name>.`, the views of this crate's own format.

use super::{Aggregation, MetricView, draft::ViewDraft, metrics, settings::Reader, table::VIEW_SETTINGS};

impl Reader<'_> {
    /// The view, or `None` when it is invalid.
    pub(crate) fn view(mut self, id: &str) -> Option<MetricView> {
        let mut draft = ViewDraft::default();
        for setting in VIEW_SETTINGS {
            if let Some(slot) = setting.of_view(&mut draft) {
                self.read(setting, slot);
            }
        }
        self.parameters(&mut draft);
        let view = draft.view;
        if let Some((part, why)) = view.wrong() {
            let key = format!("telemetry.views.{id}.{part}");
            let origin = self.origins.get(part).cloned().unwrap_or_else(|| self.anywhere());
            self.report.error(&origin, &key, format!("`{key}` cannot be so: {why}"), None);
            return None;
        }
        Some(view)
    }

    /// Gives the aggregation its parameters.
    fn parameters(&mut self, draft: &mut ViewDraft) {
        match &mut draft.view.stream.aggregation {
            Some(Aggregation::ExplicitBucketHistogram { boundaries, record_min_max }) => {
                self.refuse(&["max-size", "max-scale"], "base2_exponential_bucket_histogram");
                *record_min_max = draft.record_min_max;
                if let Some(wanted) = &draft.boundaries {
                    let numbers: Option<Vec<f64>> = wanted.iter().map(|text| text.parse().ok()).collect();
                    match numbers.filter(|numbers| metrics::are_boundaries(numbers)) {
                        Some(numbers) => *boundaries = numbers,
                        None => self.bad("boundaries", &wanted.join(",")),
                    }
                }
            }
            Some(Aggregation::Base2ExponentialBucketHistogram { max_size, max_scale, record_min_max }) => {
                self.refuse(&["boundaries"], "explicit_bucket_histogram");
                *max_size = draft.max_size;
                *max_scale = draft.max_scale;
                *record_min_max = draft.record_min_max;
            }
            Some(Aggregation::Default | Aggregation::Drop | Aggregation::Sum | Aggregation::LastValue)
            | None => {
                self.refuse(&["boundaries"], "explicit_bucket_histogram");
                self.refuse(&["max-size", "max-scale"], "base2_exponential_bucket_histogram");
                self.refuse(&["record-min-max"], "explicit_bucket_histogram");
            }
        }
    }

    /// Reports parameters of another aggregation.
    fn refuse(&mut self, names: &[&'static str], aggregation: &str) {
        for name in names {
            let Some(given) = self.raw.get(name) else { continue };
            let message = format!("`{}` belongs to another aggregation", given.key);
            let help = Some(format!("set `aggregation` to `{aggregation}`"));
            self.report.error(&given.value.origin, &given.key, message, help);
        }
    }
}
