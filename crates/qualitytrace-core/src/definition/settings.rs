//! The settings that a server has one of: polling profile, test runner, config; also demos.

use std::time::Duration;

use qualitytrace_config::tree::Node;

pub use super::period::{Period, parse_duration};

use super::period;
use super::reader::{Fields, Reader};
use super::text::Text;
use crate::gates::Gate;
use crate::lang::Diagnostic;
use crate::lang::diagnostic::nearest;

/// How long to wait for a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollingProfile {
    /// The title for the user.
    pub name: String,
    /// The polling strategy.
    pub strategy: Strategy,
    /// The interval at which a trace data store is polled.
    pub retry_delay: Period,
    /// The timeout.
    pub timeout: Period,
    /// Maximum number of further polls while a selector matches nothing.
    pub selector_match_retries: u32,
    /// The silence after which a trace that owes nothing counts as complete; `None` means the default.
    pub quiet: Option<Period>,
    /// The time to wait for what a trace seems to owe; `None` means the default.
    pub settle: Option<Period>,
    /// The time for which a failure that rests on missing spans is checked again before it is reported; `None`
    /// means the default.
    pub confirm: Option<Period>,
    /// Peers that send no spans: addresses, hosts, `*.domain`, destinations. Calls to them owe no answer.
    pub uninstrumented: Vec<String>,
    /// Whether a `periodic` block is present.
    pub is_periodic_given: bool,
}

impl Default for PollingProfile {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            strategy: Strategy::Periodic,
            retry_delay: Period::new("5s", Duration::from_secs(5)),
            timeout: Period::new("1m", Duration::from_mins(1)),
            selector_match_retries: 3,
            quiet: None,
            settle: None,
            confirm: None,
            uninstrumented: Vec::new(),
            is_periodic_given: true,
        }
    }
}

/// The polling strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// Poll until the trace is complete or the timeout is over.
    #[default]
    Periodic,
    /// Do not poll.
    NoPolling,
}

impl Strategy {
    /// Returns the name used in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Periodic => "periodic",
            Self::NoPolling => "no-polling",
        }
    }
}

/// The default gates of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestRunner {
    /// The title for the user.
    pub name: String,
    /// The gates.
    pub required_gates: Vec<Gate>,
}

impl Default for TestRunner {
    fn default() -> Self {
        Self { name: "default".to_owned(), required_gates: vec![Gate::TestSpecs] }
    }
}

/// Further settings of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Kept for old clients; this product sends no analytics.
    pub analytics_enabled: bool,
}

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

pub(super) fn polling_profile(reader: &Reader<'_>, node: &Node) -> Option<PollingProfile> {
    let mut fields = reader.fields(node, "a polling profile")?;
    let strategy = fields.text("strategy").filter(|strategy| !strategy.is_empty());
    let mut profile = PollingProfile {
        name: fields.string("name").unwrap_or_default(),
        strategy: strategy.as_ref().map_or(Strategy::Periodic, |text| strategy_named(reader, text)),
        is_periodic_given: false,
        selector_match_retries: 0,
        ..PollingProfile::default()
    };
    fields.text("id");
    fields.flag("default");
    let periodic = fields.get("periodic");
    fields.finish();
    // A profile that names the strategy must configure it; one that does not gets the defaults.
    let is_strict = strategy.is_some_and(|strategy| strategy.value == Strategy::Periodic.as_str());
    match periodic {
        Some(periodic) => read_periodic(&mut reader.fields(periodic, "`periodic`")?, &mut profile, is_strict),
        None if is_strict => {
            let message = "missing periodic polling profile configuration";
            let diagnostic = Diagnostic::error("no-details", node.span.clone(), message);
            reader.report(diagnostic.helped("put `retryDelay` and `timeout` under `periodic:`"));
        }
        None => {}
    }
    Some(profile)
}

fn read_periodic(fields: &mut Fields<'_, '_>, profile: &mut PollingProfile, is_strict: bool) {
    profile.is_periodic_given = true;
    let mut required = |key: &'static str, period: &mut Period| {
        let is_given = fields.text(key).is_some_and(|text| !text.is_empty());
        match period::read_or(fields, key, |text| known_complaint(key, text)) {
            Some(given) => *period = given,
            None if is_strict && !is_given => {
                let diagnostic =
                    Diagnostic::error("no-details", fields.span.clone(), known_complaint(key, ""));
                fields.reader.report(diagnostic.helped(format!("put `{key}` under `periodic:`")));
            }
            None => {}
        }
    };
    required("retryDelay", &mut profile.retry_delay);
    required("timeout", &mut profile.timeout);
    profile.quiet = period::read(fields, "quiet");
    profile.settle = period::read(fields, "settle");
    profile.confirm = period::read(fields, "confirm");
    profile.uninstrumented = uninstrumented(fields);
    let reader = fields.reader;
    if let Some(retries) = fields.get("selectorMatchRetries")
        && let Some(count) = reader.int(retries, "`selectorMatchRetries`")
    {
        profile.selector_match_retries = u32::try_from(count).unwrap_or_else(|_| {
            let message = format!("`selectorMatchRetries` is a number from 0 to {}, not {count}", u32::MAX);
            reader.error("wrong-value", retries.span.clone(), message);
            0
        });
    }
    fields.finish();
}

/// Reads the peers that send no spans.
pub(in crate::definition) fn uninstrumented(fields: &mut Fields<'_, '_>) -> Vec<String> {
    let names = fields.texts("uninstrumented");
    names.into_iter().map(|name| name.value).filter(|name| !name.is_empty()).collect()
}

fn strategy_named(reader: &Reader<'_>, text: &Text) -> Strategy {
    match text.value.as_str() {
        "periodic" => Strategy::Periodic,
        "no-polling" => Strategy::NoPolling,
        other => {
            let message = format!("`{other}` is not a strategy");
            let diagnostic = Diagnostic::error("unknown-strategy", text.place(0..other.len()), message);
            reader.report(diagnostic.helped("use `periodic` or `no-polling`"));
            Strategy::Periodic
        }
    }
}

/// Returns the message for an invalid duration in a polling profile; existing clients recognise the text.
fn known_complaint(key: &str, text: &str) -> String {
    let name = if key == "retryDelay" { "retry delay" } else { key };
    format!("{name} configuration is invalid: time: {}", period::unreadable(text))
}

pub(super) fn test_runner(reader: &Reader<'_>, node: &Node) -> Option<TestRunner> {
    let mut fields = reader.fields(node, "a test runner")?;
    fields.text("id");
    let name = fields.string("name").unwrap_or_default();
    let required_gates = fields.texts("requiredGates").iter().filter_map(|text| gate(reader, text)).collect();
    fields.finish();
    Some(TestRunner { name, required_gates })
}

fn gate(reader: &Reader<'_>, text: &Text) -> Option<Gate> {
    let found = Gate::named(&text.value);
    if found.is_none() {
        let names = Gate::ALL.map(Gate::as_str);
        let help = match nearest(&text.value, names) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("use {}", names.join(", ")),
        };
        let message = format!("`{}` is not a gate", text.value);
        let span = text.place(0..text.value.len());
        reader.report(Diagnostic::error("unknown-gate", span, message).helped(help));
    }
    found
}

pub(super) fn config(reader: &Reader<'_>, node: &Node) -> Option<Config> {
    let mut fields = reader.fields(node, "a config")?;
    fields.text("id");
    fields.text("name");
    let analytics_enabled = fields.flag("analyticsEnabled").unwrap_or_default();
    fields.finish();
    Some(Config { analytics_enabled })
}

pub(super) fn demo(reader: &Reader<'_>, node: &Node) -> Option<Demo> {
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
