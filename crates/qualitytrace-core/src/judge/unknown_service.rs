//! The services of a trace, for a selector that asks for one that is not there.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

use super::possible;
use crate::lang::ast::Selector;
use crate::lang::diagnostic::nearest;
use crate::names;
use crate::trace::{Span, Trace};

/// How many names of services or attributes are listed.
const MAX_NAMES: usize = 12;

/// A service that a selector asks for, and that the trace has no span of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownService {
    /// The service that is asked for.
    pub asked: String,
    /// The services of the trace, sorted.
    pub services: Vec<String>,
}

impl UnknownService {
    /// Returns the service that a selector asks for in vain; `None` where it names none, or one that is there.
    pub fn of(selector: &Selector, trace: &Trace) -> Option<Self> {
        let asked = possible::services(selector);
        let first = asked.first()?;
        let services: BTreeSet<&str> = trace.spans().iter().map(Span::service).collect();
        if asked.iter().any(|service| services.contains(&**service)) {
            return None;
        }
        let is_told = |service: &&str| !service.is_empty() && *service != names::TRIGGER_SERVICE;
        let services = services.into_iter().filter(is_told).map(ToOwned::to_owned).collect();
        Some(Self { asked: first.to_string(), services })
    }
}

impl Display for UnknownService {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "there is no span of the service `{}`", self.asked)?;
        let known = || self.services.iter().map(String::as_str);
        match nearest(&self.asked, known()) {
            Some(near) => {
                write!(f, "; did you mean `{near}`? The services of the trace are {}", listed(known()))
            }
            None if self.services.is_empty() => f.write_str("; only the trigger is there"),
            None => write!(f, "; the services of the trace are {}", listed(known())),
        }
    }
}

/// Lists names in backticks: the first ones, and how many there are besides.
pub(super) fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(MAX_NAMES) {
        0 => names.join(", "),
        rest => format!("{} and {rest} more", names[..MAX_NAMES].join(", ")),
    }
}
