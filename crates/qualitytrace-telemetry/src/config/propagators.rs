//! Propagator names in variables and in the declarative file.

use qualitytrace_config::{Origin, Report, Severity};

use super::Config;
use crate::propagation::{Propagator, Propagators};

/// Reads a list of names. An unknown name is an error: a server that reads no trace context looks as if it had no
/// callers.
pub(crate) fn read(names: Vec<(String, Origin)>, key: &str, config: &mut Config, report: &mut Report) {
    let mut chosen: Vec<Propagator> = Vec::new();
    for (name, origin) in names {
        let found = Propagator::ALL.into_iter().find(|propagator| propagator.name() == name);
        match found {
            Some(propagator) if !chosen.contains(&propagator) => chosen.push(propagator),
            Some(_) => {}
            None if name == "none" || name.is_empty() => {}
            None => {
                let allowed = Propagator::ALL.map(Propagator::name).join("|") + "|none";
                report.bad_value(Severity::Error, &origin, key, &name, &allowed);
            }
        }
        config.origins.insert("telemetry.propagators".to_owned(), origin);
    }
    config.propagators = Propagators(chosen);
}
