//! The resource of the declarative file, with typed attributes.

use qualitytrace_config::{Kind, Located, Severity};

use super::Declarative;
use crate::config::{AttributeValue, Config, value};

const TYPES: &str = "string|bool|int|double|string_array|bool_array|int_array|double_array";

impl Declarative<'_> {
    pub(super) fn resource(&mut self, node: &Located, config: &mut Config) {
        self.map(node, "resource", &["attributes", "attributes_list", "schema_url"]);
        if let Some((url, origin)) = self.scalar(node, "schema_url") {
            config.schema_url = Some(url);
            config.origins.insert("telemetry.schema-url".to_owned(), origin);
        }
        if let Some((list, origin)) = self.scalar(node, "attributes_list") {
            for pair in list.split(',').filter(|pair| !pair.trim().is_empty()) {
                match pair
                    .split_once('=')
                    .and_then(|(k, v)| Some((k.trim().to_owned(), value::percent_decode(v.trim())?)))
                {
                    Some((key, text)) => put(config, key, text.into()),
                    None => self.report.bad_value(
                        Severity::Error,
                        &origin,
                        "resource.attributes_list",
                        pair,
                        "key=value pairs",
                    ),
                }
            }
        }
        let Some(attributes) = node.get("attributes") else { return };
        for item in self.list(attributes, "resource.attributes") {
            self.map(item, "resource.attributes", &["name", "value", "type"]);
            let Some(((name, _), given)) = self.scalar(item, "name").zip(item.get("value")) else {
                self.report.error(
                    &item.origin,
                    "resource.attributes",
                    "a resource attribute needs `name` and `value`".to_owned(),
                    None,
                );
                continue;
            };
            let (kind, origin) = self.scalar(item, "type").unwrap_or_else(|| {
                let list = matches!(given.kind, Kind::List(_));
                (if list { "string_array" } else { "string" }.to_owned(), given.origin.clone())
            });
            if !TYPES.split('|').any(|known| known == kind) {
                self.report.bad_value(Severity::Error, &origin, "resource.attributes.type", &kind, TYPES);
            } else if let Some(value) = self.attribute(given, &kind, &name) {
                put(config, name, value);
            }
        }
    }

    fn attribute(&mut self, node: &Located, kind: &str, name: &str) -> Option<AttributeValue> {
        let (single, is_list) = kind.strip_suffix("_array").map_or((kind, false), |single| (single, true));
        match &node.kind {
            Kind::List(items) if is_list => {
                let values: Vec<_> = items.iter().map(|item| self.attribute(item, single, name)).collect();
                values.into_iter().collect::<Option<Vec<_>>>().map(AttributeValue::List)
            }
            Kind::Scalar(text) if !is_list => {
                let parsed = match single {
                    "bool" => value::boolean(text).map(AttributeValue::Bool),
                    "int" => text.parse().ok().map(AttributeValue::Int),
                    "double" => text.parse().ok().map(AttributeValue::Double),
                    _ => Some(AttributeValue::Text(text.clone())),
                };
                if parsed.is_none() {
                    let key = format!("resource.attributes {name}");
                    self.report.bad_value(
                        Severity::Error,
                        &node.origin,
                        &key,
                        text,
                        &format!("of type `{kind}`"),
                    );
                }
                parsed
            }
            Kind::Null | Kind::Scalar(_) | Kind::List(_) | Kind::Map(_) => {
                let message = format!("the value of the resource attribute `{name}` is not of type `{kind}`");
                self.report.error(&node.origin, "resource.attributes", message, None);
                None
            }
        }
    }
}

fn put(config: &mut Config, key: String, value: AttributeValue) {
    match (key.as_str(), value) {
        ("service.name", AttributeValue::Text(text)) => config.service_name = text,
        ("service.version", AttributeValue::Text(text)) => config.service_version = Some(text),
        (_, value) => config.resource.push((key, value)),
    }
}
