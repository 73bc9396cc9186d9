//! The keys of this crate: what each of them names, and the one form that all its spellings share.

use qualitytrace_config::{layer::normalised, same_key};

use super::{
    Role,
    table::{SETTINGS, Setting, VIEW_SETTINGS, find, process_keys},
};

const EXPORTERS: &str = "telemetry.exporters.";
const TRACERS: &str = "tracer.";
const METRICS: &str = "metrics.open-telemetry.";
const VIEWS: &str = "telemetry.views.";

/// The part of an exporter's keys that may stand before its settings.
const NESTED: &str = "exporter.collector.";
/// The type of an exporter, in the same form.
const NESTED_TYPE: &str = "exporter.type";

/// The keys that name the exporter of a role.
pub(super) const ROLES: [(&str, Role); 2] = [
    ("server.telemetry.exporter", Role::Server),
    ("server.telemetry.applicationExporter", Role::Application),
];

/// The beginnings of keys of older configurations, in lower case.
const OBSOLETE: [&str; 3] = ["telemetry.profiler.", "telemetry.datastores.", "server.telemetry.datastore"];

/// What a key names.
#[derive(Debug, Clone, Copy)]
pub(super) enum Key<'a> {
    /// A setting of a block, as the key spells it; empty if the key is the block itself.
    Setting(Block<'a>, &'a str),
    /// The exporter of a role.
    Exporter(Role),
    /// A setting of the process.
    Process(&'static Setting),
    /// A setting of older configurations that has no effect here.
    Obsolete,
    /// Nothing that this crate knows, in one of its blocks.
    Unknown,
    /// A setting of the embedding server.
    Foreign,
}

/// A sink or a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Block<'a> {
    /// `telemetry.exporters.<name>`
    Exporter(&'a str),
    /// `tracer.<id>`
    Tracer(&'a str),
    /// `metrics.open-telemetry`
    Metrics,
    /// `telemetry.views.<name>`
    View(&'a str),
}

impl<'a> Key<'a> {
    /// Reads a key.
    pub(super) fn of(key: &'a str) -> Self {
        if !owned(key) {
            return Self::Foreign;
        }
        let named = |rest: &'a str| rest.split_once('.').unwrap_or((rest, ""));
        if let Some((name, path)) = below(key, EXPORTERS).map(named) {
            return Self::Setting(Block::Exporter(name), flat(path));
        }
        if let Some((id, path)) = below(key, TRACERS).map(named) {
            return Self::Setting(Block::Tracer(id), path);
        }
        if let Some(path) = below(key, METRICS) {
            return Self::Setting(Block::Metrics, path);
        }
        if let Some((name, path)) = below(key, VIEWS).map(named) {
            return Self::Setting(Block::View(name), path);
        }
        if let Some((_, role)) = ROLES.iter().find(|(name, _)| same_key(name, key)) {
            return Self::Exporter(*role);
        }
        if OBSOLETE.iter().any(|start| key.to_ascii_lowercase().starts_with(start)) {
            return Self::Obsolete;
        }
        process_keys().find(|setting| setting.is_called(key)).map_or(Self::Unknown, Self::Process)
    }

    /// The block that it belongs to.
    pub(super) fn block(self) -> Option<Block<'a>> {
        if let Self::Setting(block, _) = self { Some(block) } else { None }
    }
}

impl Block<'_> {
    /// The beginning of its keys.
    pub(super) fn prefix(self) -> String {
        match self {
            Self::Exporter(name) => format!("{EXPORTERS}{name}."),
            Self::Tracer(id) => format!("{TRACERS}{id}."),
            Self::Metrics => METRICS.to_owned(),
            Self::View(name) => format!("{VIEWS}{name}."),
        }
    }

    /// The keys of its settings under every name that they have.
    pub(super) fn keys(self) -> Vec<String> {
        let prefix = self.prefix();
        let settings = self.table().iter();
        let names = settings.flat_map(|setting| setting.aliases.iter().copied().chain([setting.name]));
        let mut keys: Vec<String> = names.clone().map(|name| format!("{prefix}{name}")).collect();
        if let Self::Exporter(_) = self {
            keys.extend(names.map(|name| format!("{prefix}{NESTED}{name}")));
            keys.push(format!("{prefix}{NESTED_TYPE}"));
        }
        keys
    }

    fn table(self) -> &'static [Setting] {
        match self {
            Self::Exporter(_) | Self::Tracer(_) | Self::Metrics => SETTINGS,
            Self::View(_) => VIEW_SETTINGS,
        }
    }
}

/// Normalises a key: all names and spellings of a setting have one form, so that a higher layer overrides a lower one
/// that names it differently. Names that users choose keep their dashes.
pub(super) fn fold(key: &str) -> String {
    match Key::of(key) {
        Key::Setting(block, path) => {
            let setting = find(block.table(), path);
            let path = setting.map_or_else(|| path.to_ascii_lowercase(), |setting| setting.name.to_owned());
            block.prefix().to_ascii_lowercase() + &path
        }
        Key::Process(setting) => setting.name.to_owned(),
        Key::Exporter(_) | Key::Foreign => normalised(key),
        Key::Obsolete | Key::Unknown => key.to_ascii_lowercase(),
    }
}

/// Whether a key belongs to this crate; all others are the embedding server's.
pub(super) fn owned(key: &str) -> bool {
    let lower = key.to_ascii_lowercase();
    ["telemetry", "server.telemetry", "tracer", "metrics.open-telemetry"].iter().any(|prefix| {
        lower == *prefix || lower.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.'))
    })
}

/// The rest of a key after a beginning, in upper or lower case.
pub(super) fn below<'a>(key: &'a str, beginning: &str) -> Option<&'a str> {
    key.get(..beginning.len()).filter(|start| start.eq_ignore_ascii_case(beginning))?;
    key.get(beginning.len()..)
}

/// The setting of an exporter, without the blocks that may stand before it.
fn flat(path: &str) -> &str {
    if path.eq_ignore_ascii_case(NESTED_TYPE) { "type" } else { below(path, NESTED).unwrap_or(path) }
}

#[cfg(test)]
mod tests {
    use super::fold;

    #[test]
    fn all_spellings_of_a_key_have_one_form() {
        let check = |keys: &[&str], form: &str| {
            for key in keys {
                assert_eq!(fold(key), form, "{key}");
            }
        };
        check(
            &[
                "telemetry.exporters.Main.service-name",
                "Telemetry.Exporters.main.serviceName",
                "telemetry.exporters.main.exporter.collector.service_name",
            ],
            "telemetry.exporters.main.service-name",
        );
        check(
            &["telemetry.exporters.a.exporter.type", "telemetry.exporters.a.type"],
            "telemetry.exporters.a.type",
        );
        check(&["tracer.a-b.tls.caFile", "tracer.a-b.tls.ca-file", "tracer.A-B.TLS.CA"], "tracer.a-b.tls.ca");
        check(&["tracer.a.headers.X-Key", "tracer.a.Headers.x-key"], "tracer.a.headers.x-key");
        check(&["metrics.open-telemetry.metricsReaderInterval"], "metrics.open-telemetry.interval");
        check(&["telemetry.views.v.instrumentName"], "telemetry.views.v.instrument-name");
        check(&["telemetry.serviceName", "telemetry.service_name"], "telemetry.service-name");
        check(
            &["server.telemetry.applicationExporter", "server.telemetry.application-exporter"],
            "server.telemetry.applicationexporter",
        );
        check(&["server.httpPort", "server.http-port"], "server.httpport");
    }
}
