//! The addresses of demo systems.

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

use crate::definition::reader::Reader;
use crate::definition::shape::is_blank;

/// The addresses of a demo system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Demo {
    /// The demo's id; `None` until it is stored, when one is generated.
    pub id: Option<String>,
    /// The title for the user.
    pub name: String,
    /// The demo: `pokeshop` or `otelstore`.
    pub kind: String,
    /// Whether it is offered.
    pub enabled: bool,
    /// Addresses of the Pokeshop.
    pub pokeshop: Option<Pokeshop>,
    /// Addresses of the OpenTelemetry store.
    pub opentelemetry_store: Option<OpentelemetryStore>,
}

/// Addresses of the Pokeshop demo.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pokeshop {
    /// Its HTTP API.
    pub http_endpoint: String,
    /// Its gRPC API.
    pub grpc_endpoint: String,
    /// Its message broker.
    pub kafka_broker: String,
}

/// Addresses of the OpenTelemetry store demo.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpentelemetryStore {
    /// Its web frontend.
    pub frontend_endpoint: String,
    /// Its product catalogue.
    pub product_catalog_endpoint: String,
    /// Its cart.
    pub cart_endpoint: String,
    /// Its checkout.
    pub checkout_endpoint: String,
}

pub(in crate::definition) fn read(reader: &Reader<'_>, node: &Node) -> Option<Demo> {
    let mut fields = reader.fields(node, "a demo")?;
    let demo = Demo {
        id: fields.string("id").filter(|id| !id.is_empty()),
        name: fields.string("name").unwrap_or_default(),
        kind: fields.string("type").unwrap_or_default(),
        enabled: fields.flag("enabled").unwrap_or_default(),
        pokeshop: fields.get("pokeshop").and_then(|node| {
            let mut fields = reader.fields(node, "`pokeshop`")?;
            let pokeshop = Pokeshop {
                http_endpoint: fields.string("httpEndpoint").unwrap_or_default(),
                grpc_endpoint: fields.string("grpcEndpoint").unwrap_or_default(),
                kafka_broker: fields.string("kafkaBroker").unwrap_or_default(),
            };
            fields.finish();
            Some(pokeshop)
        }),
        opentelemetry_store: fields.get("opentelemetryStore").and_then(|node| {
            let mut fields = reader.fields(node, "`opentelemetryStore`")?;
            let store = OpentelemetryStore {
                frontend_endpoint: fields.string("frontendEndpoint").unwrap_or_default(),
                product_catalog_endpoint: fields.string("productCatalogEndpoint").unwrap_or_default(),
                cart_endpoint: fields.string("cartEndpoint").unwrap_or_default(),
                checkout_endpoint: fields.string("checkoutEndpoint").unwrap_or_default(),
            };
            fields.finish();
            Some(store)
        }),
    };
    fields.finish();
    Some(demo)
}

/// The addresses of a demo system.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::definition) struct DemoSpec<'a> {
    /// The id; a demo without one gets one when it is stored.
    #[serde(skip_serializing_if = "is_blank")]
    id: &'a str,
    /// The title of the demo.
    name: &'a str,
    /// `pokeshop` or `otelstore`.
    #[serde(rename = "type")]
    kind: &'a str,
    /// Whether clients offer the demo.
    enabled: bool,
    /// The addresses of the Pokeshop.
    #[serde(skip_serializing_if = "is_blank")]
    pokeshop: Option<PokeshopSpec<'a>>,
    /// The addresses of the OpenTelemetry store.
    #[serde(skip_serializing_if = "is_blank")]
    opentelemetry_store: Option<OpentelemetryStoreSpec<'a>>,
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PokeshopSpec<'a> {
    /// Its address over HTTP.
    #[serde(skip_serializing_if = "is_blank")]
    http_endpoint: &'a str,
    /// Its address over gRPC.
    #[serde(skip_serializing_if = "is_blank")]
    grpc_endpoint: &'a str,
    /// The broker that it reads from.
    #[serde(skip_serializing_if = "is_blank")]
    kafka_broker: &'a str,
}

#[expect(clippy::struct_field_names, reason = "they are the keys")]
#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OpentelemetryStoreSpec<'a> {
    /// The address of its frontend.
    #[serde(skip_serializing_if = "is_blank")]
    frontend_endpoint: &'a str,
    /// The address of its product catalogue.
    #[serde(skip_serializing_if = "is_blank")]
    product_catalog_endpoint: &'a str,
    /// The address of its cart.
    #[serde(skip_serializing_if = "is_blank")]
    cart_endpoint: &'a str,
    /// The address of its checkout.
    #[serde(skip_serializing_if = "is_blank")]
    checkout_endpoint: &'a str,
}

impl<'a> DemoSpec<'a> {
    pub(in crate::definition) fn of(id: &'a str, demo: &'a Demo) -> Self {
        Self {
            id,
            name: &demo.name,
            kind: &demo.kind,
            enabled: demo.enabled,
            pokeshop: demo.pokeshop.as_ref().map(|shop| PokeshopSpec {
                http_endpoint: &shop.http_endpoint,
                grpc_endpoint: &shop.grpc_endpoint,
                kafka_broker: &shop.kafka_broker,
            }),
            opentelemetry_store: demo.opentelemetry_store.as_ref().map(|store| OpentelemetryStoreSpec {
                frontend_endpoint: &store.frontend_endpoint,
                product_catalog_endpoint: &store.product_catalog_endpoint,
                cart_endpoint: &store.cart_endpoint,
                checkout_endpoint: &store.checkout_endpoint,
            }),
        }
    }
}
