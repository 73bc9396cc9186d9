//! Judging while spans are absent: neither here nor known not to exist.

mod assertions;
mod random;
mod verdicts;

use qualitytrace_core::judge::Options;
use qualitytrace_core::lang::Generator;
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::wait::{Absence, AffectedServices};

/// How often billing, whose spans are absent, delivers.
const REASON: &str = "billing delivers every 20 s (last seen 14 s ago)";

/// The absence of spans with no other known property.
fn missing(of: AffectedServices) -> Absence {
    Absence { of, ..Absence::of_anyone(REASON.to_owned()) }
}

/// The absence of a span of billing.
fn of_billing() -> Absence {
    missing(AffectedServices::Service("billing".into()))
}

/// Options of a judge that knows of this absence.
fn options(absence: Absence) -> Options {
    Options { absences: vec![absence], ..Options::new(Generator::in_utc(Timestamp::from_nanos(1), 1)) }
}
