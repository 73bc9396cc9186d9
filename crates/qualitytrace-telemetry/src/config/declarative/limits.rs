//! Limits of spans and log records: the general ones, and those of each provider, which take precedence.

use qualitytrace_config::Located;

use super::Declarative;
use crate::config::Config;

impl Declarative<'_> {
    pub(super) fn limits(&mut self, root: &Located, config: &mut Config) {
        if let Some(general) = root.get("attribute_limits") {
            let known =
                ["attribute_value_length_limit", "attribute_value_depth_limit", "attribute_count_limit"];
            self.map(general, "attribute_limits", &known);
            let limits = &mut config.limits;
            self.limit(general, known[0], |limit| {
                limits.span_attributes.length = limit;
                limits.log_attributes.length = limit;
            });
            self.limit(general, known[2], |limit| {
                limits.span_attributes.count = limit;
                limits.log_attributes.count = limit;
                limits.event_attributes = limit;
            });
            // Values are never nested, so any depth limit holds.
            self.limit(general, known[1], |_| {});
        }
        let limits = &mut config.limits;
        if let Some(own) = root.get("tracer_provider").and_then(|provider| provider.get("limits")) {
            let known = [
                "attribute_value_length_limit",
                "attribute_value_depth_limit",
                "attribute_count_limit",
                "event_count_limit",
                "link_count_limit",
                "event_attribute_count_limit",
                "link_attribute_count_limit",
            ];
            self.map(own, "tracer_provider.limits", &known);
            self.limit(own, known[0], |limit| limits.span_attributes.length = limit);
            self.limit(own, known[1], |_| {});
            self.limit(own, known[2], |limit| limits.span_attributes.count = limit);
            self.limit(own, known[3], |limit| limits.events = limit);
            self.limit(own, known[4], |limit| limits.links = limit);
            self.limit(own, known[5], |limit| limits.event_attributes = limit);
            // Links have no attributes, so any limit holds.
            self.limit(own, known[6], |_| {});
        }
        if let Some(own) = root.get("logger_provider").and_then(|provider| provider.get("limits")) {
            let known =
                ["attribute_value_length_limit", "attribute_value_depth_limit", "attribute_count_limit"];
            self.map(own, "logger_provider.limits", &known);
            self.limit(own, known[0], |limit| limits.log_attributes.length = limit);
            self.limit(own, known[1], |_| {});
            self.limit(own, known[2], |limit| limits.log_attributes.count = limit);
        }
    }

    fn limit(&mut self, node: &Located, key: &str, set: impl FnOnce(u32)) {
        if let Some((limit, _)) = self.parsed(node, key, "a whole number", |text| text.parse().ok()) {
            set(limit);
        }
    }
}
