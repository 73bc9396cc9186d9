//! Messages to Kafka topics.

mod sasl;

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

pub use sasl::{Mechanism, Sasl};

use super::files::FileUse;
use super::header::{self, Header, HeaderSpec};
use super::tls::{self, BareTls, Tls, TlsSpec};
use crate::definition::period::{self, Period};
use crate::definition::reader::Reader;
use crate::definition::shape::{is_blank, texts};
use crate::definition::text::Text;
use sasl::SaslSpec;

/// A message to a Kafka topic.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kafka {
    /// The brokers, as host and port.
    pub broker_urls: Vec<Text>,
    /// The topic.
    pub topic: Text,
    /// Headers in order.
    pub headers: Vec<Header>,
    /// The message's key; empty means none.
    pub message_key: Text,
    /// The message.
    pub message_value: Text,
    /// Credentials.
    pub authentication: Option<Sasl>,
    /// Whether to use TLS, and with which certificates; verified certificates mean TLS too.
    pub tls: Option<Tls>,
    /// Whether the broker's certificate must be valid.
    pub ssl_verification: bool,
    /// The timeout; `None` means the server's default.
    pub timeout: Option<Period>,
}

impl Kafka {
    pub(super) fn mapped<E>(&self, text: &mut impl FnMut(&Text) -> Result<Text, E>) -> Result<Self, E> {
        Ok(Self {
            broker_urls: self.broker_urls.iter().map(&mut *text).collect::<Result<_, _>>()?,
            topic: text(&self.topic)?,
            headers: header::mapped(&self.headers, text)?,
            message_key: text(&self.message_key)?,
            message_value: text(&self.message_value)?,
            authentication: self.authentication.as_ref().map(|sasl| sasl.mapped(text)).transpose()?,
            tls: self.tls.as_ref().map(|tls| tls.mapped(text)).transpose()?,
            ssl_verification: self.ssl_verification,
            timeout: self.timeout.clone(),
        })
    }

    pub(super) fn each_file<E>(
        &mut self,
        change: &mut impl FnMut(FileUse, &mut Text) -> Result<(), E>,
    ) -> Result<(), E> {
        self.tls.iter_mut().try_for_each(|tls| tls.each_file(change))
    }
}

pub(super) fn read(reader: &Reader<'_>, block: &Node) -> Option<Kafka> {
    let mut fields = reader.fields(block, "a Kafka trigger")?;
    // Stored tests of Tracetest have the misspelt key.
    let authentication = ["authentication", "authetication"]
        .into_iter()
        .filter_map(|key| fields.get(key))
        .find_map(|node| sasl::read(reader, node));
    let (tls, ssl_verification) = tls::security(&mut fields, BareTls::Allowed);
    let kafka = Kafka {
        broker_urls: fields.texts("brokerUrls"),
        topic: fields.text("topic").unwrap_or_default(),
        headers: header::read(&mut fields, "headers"),
        message_key: fields.text("messageKey").unwrap_or_default(),
        message_value: fields.text("messageValue").unwrap_or_default(),
        authentication,
        tls,
        ssl_verification,
        timeout: period::read(&mut fields, "timeout"),
    };
    fields.finish();
    Some(kafka)
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct KafkaSpec<'a> {
    /// The brokers, each as host and port.
    #[serde(skip_serializing_if = "is_blank")]
    broker_urls: Vec<&'a str>,
    /// The topic to send to.
    #[serde(skip_serializing_if = "is_blank")]
    topic: &'a str,
    /// The headers of the message.
    #[serde(skip_serializing_if = "is_blank")]
    headers: Vec<HeaderSpec<'a>>,
    /// The credentials for the brokers.
    #[serde(skip_serializing_if = "is_blank")]
    authentication: Option<SaslSpec<'a>>,
    /// The key of the message.
    #[serde(skip_serializing_if = "is_blank")]
    message_key: &'a str,
    /// The message itself.
    #[serde(skip_serializing_if = "is_blank")]
    message_value: &'a str,
    /// Whether the connection uses TLS, or its certificates.
    #[serde(skip_serializing_if = "is_blank")]
    tls: Option<TlsSpec<'a>>,
    /// Whether the certificate of the broker must be valid; `true` means TLS.
    #[serde(skip_serializing_if = "is_blank")]
    ssl_verification: bool,
    /// How long the whole call may take; `30s` by default.
    #[serde(skip_serializing_if = "is_blank")]
    timeout: Option<&'a str>,
}

impl<'a> KafkaSpec<'a> {
    pub(super) fn of(message: &'a Kafka) -> Self {
        Self {
            broker_urls: texts(&message.broker_urls),
            topic: &message.topic.value,
            headers: header::specs(&message.headers),
            authentication: message.authentication.as_ref().map(SaslSpec::of),
            message_key: &message.message_key.value,
            message_value: &message.message_value.value,
            tls: message.tls.as_ref().map(TlsSpec::of),
            ssl_verification: message.ssl_verification,
            timeout: period::text(message.timeout.as_ref()),
        }
    }
}
