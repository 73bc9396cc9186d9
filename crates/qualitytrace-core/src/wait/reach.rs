//! Reach: which processes a trace has reached, and whether each of them has delivered everything up to a time.
//!
//! A process can add to a trace only if it is in the trace, or was reached by a call of a process that is. When every
//! process of the trace has delivered past a time and no call is open, nothing that ended before is missing,
//! whatever is known of any other service or replica.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::evidence::{Grade, Silence};
use super::process::Identity;
use super::register::{Instance, Register, Service};
use crate::time::Timestamp;

/// The processes that a trace reached, with the evidence about them.
pub(super) struct Reach<'a> {
    register: &'a Register,
    answered_at: Timestamp,
    now: Timestamp,
    here: Vec<Sender<'a>>,
}

/// A process as the register knows it.
#[derive(Clone, Copy)]
pub(super) struct Sender<'a> {
    pub(super) name: &'a Arc<str>,
    service: Option<&'a Service>,
    /// `None` when the register does not know it.
    process: Option<&'a Instance>,
    is_here: bool,
}

/// Whether a set of processes has delivered everything up to a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Closure {
    /// The worst of their grades.
    pub(super) grade: Grade,
    /// When the last of those is decided whose lag is not over.
    pub(super) until: Option<Timestamp>,
    /// The service of a process that has not delivered everything, and why that is not known.
    pub(super) culprit: Option<(Arc<str>, Option<Silence>)>,
}

impl Closure {
    const PROVEN: Self = Self { grade: Grade::Proven, until: None, culprit: None };

    /// The closure over a service none of whose processes is known.
    pub(super) fn silent(service: &Arc<str>) -> Self {
        let silence = Silence::Silent;
        Self {
            grade: Grade::Unknown(silence),
            until: None,
            culprit: Some((Arc::clone(service), Some(silence))),
        }
    }

    /// Whether nothing is missing of these processes.
    pub(super) fn is_closed(&self) -> bool {
        self.grade.is_absent()
    }
}

impl<'a> Reach<'a> {
    pub(super) fn new(
        register: &'a Register,
        processes: impl Iterator<Item = (&'a Arc<str>, &'a Identity)>,
        answered_at: Timestamp,
        now: Timestamp,
    ) -> Self {
        let mut here = Vec::new();
        for (name, identity) in processes {
            let service = register.get(name);
            let known = service.into_iter().flat_map(|service| service.instances_of(identity));
            let before = here.len();
            here.extend(known.map(|process| Sender { name, service, process: Some(process), is_here: true }));
            if here.len() == before {
                here.push(Sender { name, service, process: None, is_here: true });
            }
        }
        Self { register, answered_at, now, here }
    }

    /// The processes in the trace.
    pub(super) fn here(&self) -> &[Sender<'a>] {
        &self.here
    }

    /// The processes of these services that may be serving, whether this trace shows them or not.
    pub(super) fn live(&self, services: &BTreeSet<Arc<str>>) -> Vec<Sender<'a>> {
        let mut live = Vec::new();
        for (name, service) in services.iter().filter_map(|name| self.register.get_named(name)) {
            live.extend(service.live(self.answered_at, self.now).map(|process| Sender {
                name,
                service: Some(service),
                process: Some(process),
                is_here: self.here.iter().any(|known| known.is(process)),
            }));
        }
        live
    }

    /// Whether a service of the trace was seen to cause work elsewhere without a span of the call: then the trace does not
    /// tell whom it reached.
    pub(super) fn has_bare_edges(&self) -> bool {
        self.here.iter().any(|sender| sender.service.is_some_and(|service| service.has_bare_edges))
    }

    /// Whether all these processes have delivered what they ended by `by`. With `only_heard`, the lag of a process counts
    /// only if the process was heard since the answer: it may be gone.
    pub(super) fn closed(&self, senders: &[Sender<'a>], by: Timestamp, only_heard: bool) -> Closure {
        let mut closure = Closure::PROVEN;
        for sender in senders {
            let grade = self.grade(sender, by, only_heard);
            if let Grade::Later(then) = grade {
                closure.until = closure.until.max(Some(then));
            }
            if rank(grade) < rank(closure.grade) {
                closure.grade = grade;
                closure.culprit = match grade {
                    Grade::Proven | Grade::Likely => None,
                    Grade::Later(_) => Some((Arc::clone(sender.name), None)),
                    Grade::Unknown(silence) => Some((Arc::clone(sender.name), Some(silence))),
                };
            }
        }
        if let (Grade::Later(_), Some(until)) = (closure.grade, closure.until) {
            closure.grade = Grade::Later(until);
        }
        closure
    }

    fn grade(&self, sender: &Sender<'a>, by: Timestamp, only_heard: bool) -> Grade {
        let (Some(service), Some(process)) = (sender.service, sender.process) else {
            return Grade::Unknown(Silence::Few);
        };
        let grade = self.register.grade(service, process, by, self.now);
        let is_heard = sender.is_here || process.last_arrival >= self.answered_at;
        match grade {
            Grade::Likely | Grade::Later(_) if only_heard && !is_heard => Grade::Unknown(Silence::Silent),
            grade => grade,
        }
    }
}

/// Whether all these processes have delivered a span that ended later.
pub(super) fn have_passed(senders: &[Sender<'_>], by: Timestamp) -> bool {
    let has_passed = |sender: &Sender<'_>| sender.process.is_some_and(|process| process.has_passed(by));
    !senders.is_empty() && senders.iter().all(has_passed)
}

impl Sender<'_> {
    fn is(&self, process: &Instance) -> bool {
        self.process.is_some_and(|known| std::ptr::eq(known, process))
    }
}

/// The better the evidence the higher.
fn rank(grade: Grade) -> u8 {
    match grade {
        Grade::Unknown(_) => 0,
        Grade::Later(_) => 1,
        Grade::Likely => 2,
        Grade::Proven => 3,
    }
}
