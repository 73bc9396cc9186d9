//! The resource of every request: detected and configured attributes.

use bytes::Bytes;
use opentelemetry_proto::tonic::{
    common::v1::{AnyValue, ArrayValue, KeyValue, any_value},
    resource::v1::Resource,
};
use prost::Message as _;

use crate::config::{AttributeValue, Config, Sink};

/// The attributes that do not change while the process lives.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    attributes: Vec<(&'static str, AttributeValue)>,
}

impl Identity {
    pub(crate) fn detect() -> Self {
        let text = |text: &str| AttributeValue::from(text);
        let mut attributes = vec![
            ("service.instance.id", instance().into()),
            ("process.pid", AttributeValue::Int(i64::from(std::process::id()))),
            ("process.runtime.name", text("rust")),
            ("host.arch", text(arch())),
            ("os.type", text(std::env::consts::OS)),
            ("telemetry.sdk.name", text("opentelemetry")),
            ("telemetry.sdk.language", text("rust")),
            ("telemetry.sdk.version", text("0.33.1")),
            ("telemetry.distro.name", text(env!("CARGO_PKG_NAME"))),
            ("telemetry.distro.version", text(env!("CARGO_PKG_VERSION"))),
        ];
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
            .ok()
            .or_else(|| std::env::var("HOSTNAME").ok())
            .map(|name| name.trim().to_owned())
            .filter(|name| !name.is_empty());
        attributes.extend(host.map(|host| ("host.name", host.into())));
        let program = std::env::current_exe().ok();
        if let Some(name) = program.as_ref().and_then(|path| path.file_name()).and_then(|name| name.to_str())
        {
            attributes.push(("process.executable.name", text(name)));
        }
        Self { attributes }
    }

    /// The resource attributes of a sink: the detected ones, overridden by the configured ones.
    pub(crate) fn of(&self, config: &Config, sink: Option<&Sink>) -> Vec<(String, AttributeValue)> {
        let mut all: Vec<(String, AttributeValue)> = Vec::new();
        let mut put = |key: &str, value: AttributeValue| {
            all.retain(|(other, _)| other != key);
            all.push((key.to_owned(), value));
        };
        let name =
            sink.and_then(|sink| sink.service_name.clone()).unwrap_or_else(|| config.service_name.clone());
        put("service.name", name.into());
        if let Some(version) = &config.service_version {
            put("service.version", version.clone().into());
        }
        for (key, value) in &self.attributes {
            put(key, value.clone());
        }
        for (key, value) in &config.resource {
            put(key, value.clone());
        }
        all
    }

    pub(crate) fn encode(&self, config: &Config, sink: &Sink) -> Bytes {
        let attributes =
            self.of(config, Some(sink)).iter().map(|(key, value)| key_value(key, any_value(value))).collect();
        Resource { attributes, ..Resource::default() }.encode_to_vec().into()
    }
}

fn key_value(key: &str, value: AnyValue) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}

fn any_value(value: &AttributeValue) -> AnyValue {
    use any_value::Value;
    let value = match value {
        AttributeValue::Text(text) => Value::StringValue(text.clone()),
        AttributeValue::Bool(value) => Value::BoolValue(*value),
        AttributeValue::Int(value) => Value::IntValue(*value),
        AttributeValue::Double(value) => Value::DoubleValue(*value),
        AttributeValue::List(values) => {
            Value::ArrayValue(ArrayValue { values: values.iter().map(any_value).collect() })
        }
    };
    AnyValue { value: Some(value) }
}

fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// A random UUID.
fn instance() -> String {
    uuid::Uuid::new_v4().to_string()
}
