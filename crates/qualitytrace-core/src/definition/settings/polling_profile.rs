//! Polling profiles: how long to wait for a trace.

use std::time::Duration;

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

use crate::definition::period::{self, Period};
use crate::definition::reader::{Fields, Reader};
use crate::definition::shape::is_blank;
use crate::definition::text::Text;
use crate::lang::Diagnostic;

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
    /// How long after the rest of a trace the spans of a spec may end before they count as absent, where the spec does
    /// not say; `None` means that this is not known.
    pub within: Option<Period>,
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
            within: None,
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

pub(in crate::definition) fn read(reader: &Reader<'_>, node: &Node) -> Option<PollingProfile> {
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
    profile.within = period::read(fields, "within");
    profile.uninstrumented = fields.words("uninstrumented");
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

/// How long to wait for a trace.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::definition) struct PollingProfileSpec<'a> {
    /// The id; a server has one polling profile, `current`.
    id: &'a str,
    /// The title of the profile.
    name: &'a str,
    /// Whether it is the one in use; a server has only one.
    default: bool,
    /// `periodic` or `no-polling`.
    strategy: &'static str,
    /// How long to wait, and for what.
    periodic: Option<PeriodicSpec<'a>>,
}

impl<'a> PollingProfileSpec<'a> {
    pub(in crate::definition) fn of(id: &'a str, profile: &'a PollingProfile) -> Self {
        Self {
            id,
            name: &profile.name,
            default: true,
            strategy: profile.strategy.as_str(),
            periodic: profile.is_periodic_given.then(|| PeriodicSpec::of(profile)),
        }
    }
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::definition) struct PeriodicSpec<'a> {
    /// How often a data store is asked again, like `500ms`.
    retry_delay: &'a str,
    /// The longest wait for a trace, like `1m`.
    timeout: &'a str,
    /// How often a spec that selects nothing is tried again, as Tracetest has it.
    selector_match_retries: u32,
    /// Silence that ends a wait when nothing is owed, like `150ms`.
    #[serde(skip_serializing_if = "is_blank")]
    quiet: Option<&'a str>,
    /// Silence that ends a wait although spans may still arrive, like `6s`.
    #[serde(skip_serializing_if = "is_blank")]
    settle: Option<&'a str>,
    /// How long a failure that depends on missing spans is checked again, like `10s`.
    #[serde(skip_serializing_if = "is_blank")]
    confirm: Option<&'a str>,
    /// How long after the rest of a trace the spans of a spec may end that says nothing about it, like `30s`.
    #[serde(skip_serializing_if = "is_blank")]
    within: Option<&'a str>,
    /// Services that send no spans; calls to them owe no answer.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    uninstrumented: &'a [String],
}

impl<'a> PeriodicSpec<'a> {
    pub(in crate::definition) fn of(profile: &'a PollingProfile) -> Self {
        let text = |period: &'a Period| period.text.as_str();
        Self {
            retry_delay: text(&profile.retry_delay),
            timeout: text(&profile.timeout),
            selector_match_retries: profile.selector_match_retries,
            quiet: profile.quiet.as_ref().map(text),
            settle: profile.settle.as_ref().map(text),
            confirm: profile.confirm.as_ref().map(text),
            within: profile.within.as_ref().map(text),
            uninstrumented: &profile.uninstrumented,
        }
    }
}
