//! Propagator names in variables and in the declarative file.

use qualitytrace_config::{Origin, Report, Severity};

use super::{Config, slot::Slot};

/// Reads a list of names. An unknown name is an error: a server that reads no trace context looks as if it had no
/// callers.
pub(crate) fn read(names: Vec<(String, Origin)>, key: &str, config: &mut Config, report: &mut Report) {
    let (names, mut origins): (Vec<String>, Vec<Origin>) = names.into_iter().unzip();
    let slot = Slot::Propagators(&mut config.propagators);
    let allowed = slot.expected();
    for index in slot.set_all(&names) {
        report.bad_value(Severity::Error, &origins[index], key, &names[index], allowed);
    }
    config.origins.extend(origins.pop().map(|origin| ("telemetry.propagators".to_owned(), origin)));
}
