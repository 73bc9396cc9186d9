//! What a wait can tell while it goes on: the open debts, and until when each is waited for if nothing more arrives.

use super::{MAX_NAMED_DEBTS, Pending, Policy, Progress, Register, SpecStatus, Windows};
use crate::time::Timestamp;

/// The open debts of a trace and the ends of the wait for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forecast {
    /// The open debts, up to [`MAX_NAMED_DEBTS`].
    pub debts: Vec<PendingDeadline>,
    /// How many more debts there are.
    pub unnamed_debts: usize,
    /// When the wait ends if nothing is owed.
    pub quiet_until: Timestamp,
    /// When the wait ends although something is owed.
    pub settle_until: Timestamp,
    /// When the wait ends in any case.
    pub deadline: Timestamp,
}

/// A debt, and until when it is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingDeadline {
    /// The debt.
    pub debt: Pending,
    /// When the wait for it ends if nothing more arrives.
    pub until: Timestamp,
}

/// Describes a wait that goes on.
pub fn forecast(
    policy: &Policy,
    run: &Progress,
    register: &Register,
    specs: &SpecStatus,
    now: Timestamp,
) -> Forecast {
    let windows = Windows::new(policy, run, register, run.answered_at().unwrap_or(now));
    let reach = run.reach(register, &windows, now);
    let outlook = run.outlook(run.facts(register, &reach, &windows, now));
    let settled = windows.last + windows.settle;
    let spans_until = outlook.until.max(outlook.expected_until).unwrap_or(settled);
    let until = |debt: &Pending| {
        let until = match debt {
            Pending::Root { .. } => outlook.root_until.unwrap_or(windows.rootless),
            Pending::Parent { .. } | Pending::Answer { .. } | Pending::Shape { .. } => spans_until,
            Pending::Caller { .. } => windows.last + windows.settle.saturating_mul(2),
            Pending::First => outlook.first_until.unwrap_or(settled),
            Pending::Spec { .. } => settled,
            Pending::Quiet => windows.last + windows.quiet,
        };
        until.min(windows.deadline)
    };
    let specs = specs.undecided.iter().map(|spec| Pending::Spec { name: spec.name.clone() });
    let mut debts = run
        .debts(register)
        .chain(specs)
        .chain((run.history().runs() == 0).then_some(Pending::First))
        .chain((now < windows.last + windows.quiet).then_some(Pending::Quiet));
    let named = debts.by_ref().take(MAX_NAMED_DEBTS);
    Forecast {
        debts: named.map(|debt| PendingDeadline { until: until(&debt), debt }).collect(),
        unnamed_debts: debts.count(),
        quiet_until: (windows.last + windows.quiet).min(windows.deadline),
        settle_until: settled.min(windows.deadline),
        deadline: windows.deadline,
    }
}
