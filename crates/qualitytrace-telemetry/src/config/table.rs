//! All settings in three tables, of the process, of a sink and of a view: for reading, for `config show`, for
//! suggestions and for the documentation.
//!
//! A new setting is a field with a default (in [`Config`], in [`Sink`](super::Sink) or in a draft) and a line here;
//! docs/telemetry.md gets a row, which a test checks.

use qualitytrace_config::same_key;

use super::draft::{Dialect, SinkDraft, ViewDraft};
use super::slot::Slot;
use super::{Config, Role, Transport, metrics};

/// One setting of the process, of a sink or of a view.
#[derive(Debug)]
#[non_exhaustive]
pub struct Setting {
    /// Its name: the whole key of a setting of the process, the part under `tracer.<id>.` of a sink's, and the part
    /// under `telemetry.views.<name>.` of a view's. Case, `-` and `_` are ignored.
    pub name: &'static str,
    /// Further names with the same meaning.
    pub aliases: &'static [&'static str],
    /// What applies while it is not set, where that is no fixed value.
    pub unset: &'static str,
    /// Whether a file, a variable or a flag can set it by its name.
    pub is_key: bool,
    expects: Option<&'static str>,
    field: Field,
}

/// The field that a setting sets.
#[derive(Debug, Clone, Copy)]
enum Field {
    Process(for<'d> fn(&'d mut Config) -> Slot<'d>),
    Sink(for<'d> fn(&'d mut SinkDraft) -> Slot<'d>),
    View(for<'d> fn(&'d mut ViewDraft) -> Slot<'d>),
    /// No field of its own: the line says why.
    None,
}

impl Setting {
    /// Describes the values that it accepts.
    pub fn expected(&self) -> &'static str {
        self.expects.unwrap_or_else(|| match self.field {
            Field::Process(slot) => slot(&mut Config::new("")).expected(),
            Field::Sink(slot) => slot(&mut plain_sink(Dialect::Tracer)).expected(),
            Field::View(slot) => slot(&mut ViewDraft::default()).expected(),
            Field::None => "",
        })
    }

    /// Formats its default, as it may be written.
    pub fn default_text(&self) -> String {
        let default = match self.field {
            Field::Process(slot) => slot(&mut Config::new("")).written(),
            Field::Sink(slot) => {
                let [tracer, exporter] = [Dialect::Tracer, Dialect::Exporter]
                    .map(|dialect| slot(&mut plain_sink(dialect)).written());
                if tracer == exporter { tracer } else { format!("{tracer}; exporters {exporter}") }
            }
            Field::View(slot) => slot(&mut ViewDraft::default()).written(),
            Field::None => String::new(),
        };
        if default.is_empty() { self.unset.to_owned() } else { default }
    }

    /// Returns its field of the process, if it is a setting of the process that has one.
    pub(super) fn of_process<'d>(&self, config: &'d mut Config) -> Option<Slot<'d>> {
        if let Field::Process(slot) = self.field { Some(slot(config)) } else { None }
    }

    /// Returns its field of a sink, if it is a setting of sinks that has one.
    pub(super) fn of_sink<'d>(&self, draft: &'d mut SinkDraft) -> Option<Slot<'d>> {
        if let Field::Sink(slot) = self.field { Some(slot(draft)) } else { None }
    }

    /// Returns its field of a view, if it is a setting of views that has one.
    pub(super) fn of_view<'d>(&self, draft: &'d mut ViewDraft) -> Option<Slot<'d>> {
        if let Field::View(slot) = self.field { Some(slot(draft)) } else { None }
    }

    /// Whether this is its name or an alias, in any spelling.
    pub(super) fn is_called(&self, name: &str) -> bool {
        same_key(self.name, name) || self.aliases.iter().any(|alias| same_key(alias, name))
    }

    const fn new(name: &'static str, field: Field) -> Self {
        Self { name, aliases: &[], unset: "", is_key: true, expects: None, field }
    }

    const fn alias(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    const fn expects(mut self, what: &'static str) -> Self {
        self.expects = Some(what);
        self
    }

    const fn unset(mut self, default: &'static str) -> Self {
        self.unset = default;
        self
    }

    const fn without_key(mut self) -> Self {
        self.is_key = false;
        self
    }
}

/// A sink with the defaults of its dialect.
fn plain_sink(dialect: Dialect) -> SinkDraft {
    SinkDraft::new("", Transport::Grpc, Role::Server, dialect)
}

const fn process(name: &'static str, slot: for<'d> fn(&'d mut Config) -> Slot<'d>) -> Setting {
    Setting::new(name, Field::Process(slot))
}

const fn sink(name: &'static str, slot: for<'d> fn(&'d mut SinkDraft) -> Slot<'d>) -> Setting {
    Setting::new(name, Field::Sink(slot))
}

const fn view(name: &'static str, slot: for<'d> fn(&'d mut ViewDraft) -> Slot<'d>) -> Setting {
    Setting::new(name, Field::View(slot))
}

const fn fieldless(name: &'static str) -> Setting {
    Setting::new(name, Field::None)
}

const PAUSE: &str = "a duration such as `4ms`, at least `1ms`";
const ATTRIBUTE_KEYS: &str = "a list of attribute keys, with `*` and `?`";

/// All settings of the process, in the order in which they are shown.
#[rustfmt::skip]
pub const PROCESS_SETTINGS: &[Setting] = &[
    process("telemetry.service-name", |c| Slot::Text(&mut c.service_name)).unset("the server's name"),
    process("telemetry.spool.path", |c| Slot::File(&mut c.spool_path)).unset("the server's data folder"),
    // Only variables of OpenTelemetry and the declarative file set it.
    process("telemetry.log-level", |c| Slot::Level(&mut c.log_level)).without_key(),
    process("telemetry.propagators", |c| Slot::Propagators(&mut c.propagators)),
    process("telemetry.recorder.items", |c| Slot::Count(&mut c.recorder.items)),
    process("telemetry.recorder.linger", |c| Slot::Pause(&mut c.recorder.linger)).expects(PAUSE),
    process("telemetry.recorder.block", |c| Slot::Pause(&mut c.recorder.block)).expects(PAUSE),
    process("telemetry.cardinality-limit", |c| Slot::Cardinality(&mut c.metrics.cardinality.default)),
    process("telemetry.default-histogram-aggregation", |c| Slot::DefaultHistogram(&mut c.metrics.default_histogram)),
    process("telemetry.exemplar-filter", |c| Slot::ExemplarFilter(&mut c.metrics.exemplars)),
];

/// All settings of a sink, in the order of the documentation.
#[rustfmt::skip]
pub const SETTINGS: &[Setting] = &[
    // What these two accept and whether they are required depends on the dialect; an invalid one ends the reading.
    fieldless("type").expects("collector (exporters), open-telemetry|otel (tracers)").unset("required"),
    fieldless("transport").expects("grpc|http (metrics: also disable)").unset("grpc for exporters, required for tracers, disable for metrics"),
    // Addresses are resolved together with the transport, and only those of the signals that are sent.
    fieldless("endpoint").expects("`host:port` or a URL").unset("the port of OTLP on this machine for gRPC tracers and metrics, required otherwise"),
    fieldless("endpoint.traces").expects("a URL, used as written").unset("from `endpoint`"),
    fieldless("endpoint.metrics").expects("a URL, used as written").unset("from `endpoint`"),
    fieldless("endpoint.logs").expects("a URL, used as written").unset("from `endpoint`"),
    // Lines or a map, whose names the user chooses; each header has its own position, and its value is never shown.
    fieldless("headers").expects("a list of `Name: value`, or a map").unset("none"),
    sink("enable", |d| Slot::Switch(&mut d.enabled)),
    sink("enable.span-exporter", |d| Slot::Switch(&mut d.signals.spans)),
    sink("enable.log-exporter", |d| Slot::Switch(&mut d.signals.logs)),
    sink("enable.metric-exporter", |d| Slot::Switch(&mut d.signals.metrics)),
    sink("level", |d| Slot::Level(&mut d.sink.level)),
    sink("targets", |d| Slot::Targets(&mut d.sink.targets)).unset("none; transport crates are `disable`"),
    sink("sampling", |d| Slot::Sampling(&mut d.sink.sampler)),
    sink("service-name", |d| Slot::OptionalText(&mut d.sink.service_name)).expects("a name").unset("the server's"),
    sink("throttle", |d| Slot::Pause(&mut d.sink.delivery.throttle)),
    sink("lossy", |d| Slot::Switch(&mut d.sink.lossy)),
    sink("interval", |d| Slot::Interval(&mut d.sink.interval)).alias(&["metricsReaderInterval"]),
    sink("temporality", |d| Slot::Temporality(&mut d.sink.temporality)),
    sink("compression", |d| Slot::Compression(&mut d.sink.compression)),
    sink("timeout", |d| Slot::Pause(&mut d.sink.delivery.timeout)),
    sink("tls.ca", |d| Slot::File(&mut d.sink.tls.ca)).alias(&["tls.caFile"]).expects("a PEM file").unset("the system's"),
    sink("tls.certificate", |d| Slot::File(&mut d.sink.tls.certificate)).alias(&["tls.certFile"]).expects("a PEM file").unset("none"),
    sink("tls.key", |d| Slot::File(&mut d.sink.tls.key)).alias(&["tls.keyFile"]).expects("a PEM file").unset("none"),
    sink("tls.server-name", |d| Slot::OptionalText(&mut d.sink.tls.server_name)).expects("a host name").unset("the endpoint's host"),
    sink("tls.insecure", |d| Slot::Switch(&mut d.insecure)),
    sink("tls.skip-verify", |d| Slot::Switch(&mut d.sink.tls.skip_verify)),
    sink("queue.items", |d| Slot::Count(&mut d.sink.limits.queue_items)),
    sink("queue.bytes", |d| Slot::Memory(&mut d.sink.limits.queue_bytes)),
    sink("spool.enable", |d| Slot::Switch(&mut d.sink.limits.spool)),
    sink("spool.bytes", |d| Slot::Size(&mut d.sink.limits.spool_bytes)),
    sink("spool.age", |d| Slot::Time(&mut d.sink.limits.spool_age)),
    sink("spool.sync", |d| Slot::Sync(&mut d.sink.limits.spool_sync)),
    sink("batch.items", |d| Slot::Count(&mut d.sink.delivery.batch_items)),
    sink("batch.bytes", |d| Slot::Memory(&mut d.sink.delivery.batch_bytes)),
    sink("batch.in-flight", |d| Slot::Count(&mut d.sink.delivery.in_flight)),
    sink("retry.initial", |d| Slot::Pause(&mut d.sink.delivery.retry_initial)),
    sink("retry.max", |d| Slot::Pause(&mut d.sink.delivery.retry_max)),
    sink("retry.circuit", |d| Slot::Attempts(&mut d.sink.delivery.retry_circuit)),
    sink("retry.unauthorized", |d| Slot::Switch(&mut d.sink.delivery.retry_unauthorized)),
    sink("redact", |d| Slot::List(&mut d.sink.redact)).expects("a list of attribute keys, `*` stands for any text"),
];

/// All settings of a view, in the order of the documentation.
#[rustfmt::skip]
pub const VIEW_SETTINGS: &[Setting] = &[
    view("instrument-name", |d| Slot::OptionalText(&mut d.view.selector.instrument_name)).expects("a name, `*` and `?` stand for any text and any character").unset("any"),
    view("instrument-type", |d| Slot::InstrumentType(&mut d.view.selector.instrument_type)).unset("any"),
    view("unit", |d| Slot::OptionalText(&mut d.view.selector.unit)).expects("a unit").unset("any"),
    view("meter-name", |d| Slot::OptionalText(&mut d.view.selector.meter_name)).expects("a name").unset("any"),
    view("meter-version", |d| Slot::OptionalText(&mut d.view.selector.meter_version)).expects("a version").unset("any"),
    view("meter-schema-url", |d| Slot::OptionalText(&mut d.view.selector.meter_schema_url)).expects("a URL").unset("any"),
    view("name", |d| Slot::OptionalText(&mut d.view.stream.name)).expects("a name").unset("the instrument's"),
    view("description", |d| Slot::OptionalText(&mut d.view.stream.description)).unset("the instrument's"),
    view("aggregation", |d| Slot::Aggregation(&mut d.view.stream.aggregation)).unset("`default`"),
    view("boundaries", |d| Slot::OptionalList(&mut d.boundaries)).expects(metrics::BOUNDARY_LIST).unset("those of the specification"),
    view("max-size", |d| Slot::MaxSize(&mut d.max_size)),
    view("max-scale", |d| Slot::MaxScale(&mut d.max_scale)),
    view("record-min-max", |d| Slot::Switch(&mut d.record_min_max)),
    view("attributes.included", |d| Slot::OptionalList(&mut d.view.stream.attributes.included)).expects(ATTRIBUTE_KEYS).unset("all"),
    view("attributes.excluded", |d| Slot::List(&mut d.view.stream.attributes.excluded)).expects(ATTRIBUTE_KEYS).unset("none"),
    view("cardinality-limit", |d| Slot::OptionalCardinality(&mut d.view.stream.cardinality_limit)).unset("`telemetry.cardinality-limit`"),
];

/// The settings of the process that have a key.
pub(super) fn process_keys() -> impl Iterator<Item = &'static Setting> {
    PROCESS_SETTINGS.iter().filter(|setting| setting.is_key)
}

/// The setting of this name in a table; the name may be an alias, in any spelling.
pub(super) fn find(table: &'static [Setting], name: &str) -> Option<&'static Setting> {
    table.iter().find(|setting| setting.is_called(name))
}

/// What the setting of a sink or of a view accepts.
pub(super) fn expected(name: &str) -> &'static str {
    let found = SETTINGS.iter().chain(VIEW_SETTINGS).find(|setting| setting.name == name);
    found.map_or("", Setting::expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets a field of its own to this value.
    fn set(setting: &Setting, text: &str) -> Option<()> {
        match setting.field {
            Field::Process(slot) => slot(&mut Config::new("")).set(text, None),
            Field::Sink(slot) => slot(&mut plain_sink(Dialect::Tracer)).set(text, None),
            Field::View(slot) => slot(&mut ViewDraft::default()).set(text, None),
            Field::None => None,
        }
    }

    fn with_field() -> impl Iterator<Item = &'static Setting> {
        let all = PROCESS_SETTINGS.iter().chain(SETTINGS).chain(VIEW_SETTINGS);
        all.filter(|setting| !matches!(setting.field, Field::None))
    }

    #[test]
    fn every_default_can_be_written() {
        for setting in with_field().filter(|setting| setting.unset.is_empty()) {
            let default = setting.default_text();
            assert!(!default.is_empty(), "{}", setting.name);
            for text in default.split("; exporters ") {
                assert_eq!(set(setting, text), Some(()), "{} = {text}", setting.name);
            }
        }
    }

    #[test]
    fn every_word_that_is_expected_is_accepted_and_no_other() {
        let words = with_field().filter(|setting| setting.expected().contains('|'));
        for setting in words {
            for word in setting.expected().split('|') {
                assert_eq!(set(setting, word), Some(()), "{} = {word}", setting.name);
            }
            assert_eq!(set(setting, "x"), None, "{}", setting.name);
        }
    }
}
