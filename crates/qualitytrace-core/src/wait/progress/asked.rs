//! Spans that specs ask for and that are not here.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::super::absence::{Absence, AffectedServices};
use super::super::call::CallOutcome;
use super::super::evidence::Grade;
use super::super::reach::{Closure, Sender};
use super::super::shape::Node;
use super::super::{OpenSpec, Windows};
use super::outlook::{Facts, Outlook};
use super::{Arrival, Progress};
use crate::time::Timestamp;
use crate::trace::SpanKind;

impl Progress {
    /// Applies the evidence to the spans that undecided specs ask for. Returns whether one of these specs fails
    /// for good, because no process of this trace will send more of them.
    pub(in crate::wait) fn asked_for(
        &self,
        outlook: &mut Outlook,
        undecided: &[OpenSpec],
        facts: Facts<'_>,
    ) -> bool {
        if !self.has_root() || self.missing_parents() > 0 {
            return false;
        }
        let mut fails = false;
        for spec in undecided {
            let is_absent = self.is_asked_in_vain(outlook, spec, facts);
            let is_open = if spec.services.is_empty() {
                spec.within.is_none() || outlook.absences.iter().any(Absence::is_open)
            } else {
                spec.services.iter().any(|service| outlook.misses(service))
            };
            fails |= is_absent && !is_open;
        }
        fails
    }

    /// Whether the spans that a spec asks for are known to be absent, as far as the processes of this trace could have made
    /// them.
    fn is_asked_in_vain(&self, outlook: &mut Outlook, spec: &OpenSpec, facts: Facts<'_>) -> bool {
        let is_first = self.history.runs() == 0;
        let known = self.due(spec, facts).filter(|_| !is_first);
        outlook.unannounced |= known.is_none();
        let services: BTreeSet<Arc<str>> = spec.services.iter().cloned().collect();
        let within = spec.within.map(|within| facts.base + within);
        let by = match (known, within) {
            (Some(due), Some(within)) => due.min(within),
            (Some(by), None) | (None, Some(by)) => by,
            (None, None) if spec.lacks_spans && self.may_work_on(&services, facts) => {
                let reason = unannounced(&services);
                outlook.miss(Absence::new(AffectedServices::StillWorking(Arc::new(services)), reason));
                return false;
            }
            // Any service may still send what it selects: it is judged as it stands.
            (None, None) if services.is_empty() => return false,
            (None, None) => facts.base + facts.windows.settle,
        };
        let mut closure = self.closed(&services, by, facts);
        if !closure.is_closed() && known.is_some() && !services.is_empty() {
            // Earlier runs had it, so it is known which processes would have made it.
            let makers = facts.reach.live(&services);
            let own = facts.reach.closed(&makers, by, true);
            if !makers.is_empty() && own.is_closed() {
                closure = own;
            }
        }
        if closure.is_closed() {
            outlook.concluded(&closure);
            return known.is_some() || within.is_some();
        }
        let mut until = closure.until.map_or_else(|| facts.settled(), |until| facts.worth_waiting(until, by));
        if let Some(window) = known.and_then(|_| self.window_below(spec, facts)) {
            until = until.min(facts.windows.last + window);
            if facts.now >= until {
                outlook.rests_on_likely = true;
                return true;
            }
        }
        outlook.expect(until);
        if until > facts.now {
            outlook.decided_at = Some(outlook.decided_at.map_or(until, |at| at.min(until)));
        }
        outlook
            .miss(Absence::new(AffectedServices::StillWorking(Arc::new(services)), facts.excuse(&closure)));
        false
    }

    /// Whether one of these services, or any if there are none, got this request and may still work on it: unless other
    /// traces have shown what comes after each entry of this one.
    fn may_work_on(&self, services: &BTreeSet<Arc<str>>, facts: Facts<'_>) -> bool {
        let is_reached =
            services.is_empty() || self.services_of_trace().any(|service| services.contains(&service));
        is_reached && !self.entries_are_known(facts.windows.timeout(), facts)
    }

    /// Whether every process that this trace reached has delivered what it ended by `by`. Where reach is not known from the
    /// spans, the processes of the named services count too.
    fn closed(&self, services: &BTreeSet<Arc<str>>, by: Timestamp, facts: Facts<'_>) -> Closure {
        let mut makers: Vec<Sender<'_>> = facts.reach.here().to_vec();
        if facts.reach.has_bare_edges() {
            let named = if services.is_empty() { &self.heard(facts.register) } else { services };
            makers.extend(facts.reach.live(named));
        }
        facts.reach.closed(&makers, by, true)
    }

    /// Whether every process that this trace reached has delivered a span that ended later than this after the others.
    pub(in crate::wait) fn is_proven_to_end_within(&self, within: Duration, facts: Facts<'_>) -> bool {
        self.closed(&BTreeSet::new(), facts.base + within, facts).grade == Grade::Proven
    }

    /// By when the spans that a spec asks for would have ended: as late as the kinds of which earlier runs had more, or the
    /// first missing kind above them, without which there are none: unless services are reached without a span of the call.
    fn due(&self, spec: &OpenSpec, facts: Facts<'_>) -> Option<Timestamp> {
        let is_bare = facts.reach.has_bare_edges();
        let first = |node| if is_bare { node } else { self.first_missing(node) };
        self.lacking_kinds(spec).map(|node| self.history.due(first(node), facts.base)).max()
    }

    /// The kinds that a spec may ask for and of which earlier runs had more.
    fn lacking_kinds(&self, spec: &OpenSpec) -> impl Iterator<Item = Node> {
        self.history.shape().nodes().filter(|node| {
            let service = self.shape.text(self.shape.key(*node).service);
            let is_its = spec.services.is_empty() || spec.services.contains(service);
            is_its && self.count(*node) < self.history.most(*node)
        })
    }

    /// How long to wait for what a spec lacks where all that stands above it is here: it was delivered with what used to end
    /// later, or right after, and calls that no one got have nothing below them.
    fn window_below(&self, spec: &OpenSpec, facts: Facts<'_>) -> Option<Duration> {
        if facts.reach.has_bare_edges() {
            return None;
        }
        let Windows { quiet, settle, .. } = *facts.windows;
        let mut longest = None;
        for node in self.lacking_kinds(spec) {
            let first = self.first_missing(node);
            let above = self.shape.key(first).parent.filter(|_| self.answers_calls(first));
            let is_call = above.is_some_and(|above| self.shape.key(above).kind == SpanKind::Client);
            let window = match above {
                Some(above) if self.is_refused(above) => quiet,
                _ if is_call || self.is_before_parent(first) => settle,
                _ => return None,
            };
            longest = longest.max(Some(window));
        }
        longest
    }

    /// Whether no call of this kind got to anyone.
    fn is_refused(&self, kind: Node) -> bool {
        let mut calls = self.arrivals.iter().filter(|arrival| arrival.node == Some(kind)).peekable();
        let is_refused =
            |call: &Arrival| call.call.as_ref().is_some_and(|call| call.outcome == CallOutcome::Refused);
        calls.peek().is_some() && calls.all(is_refused)
    }

    /// The topmost of the kinds above this one, and of itself, of which there is no span.
    fn first_missing(&self, node: Node) -> Node {
        let above = |node: &Node| self.shape.key(*node).parent.filter(|parent| self.count(*parent) == 0);
        std::iter::successors(Some(node), above).last().unwrap_or(node)
    }
}

/// What is said of spans that no run had and that nothing announces.
fn unannounced(services: &BTreeSet<Arc<str>>) -> String {
    let names: Vec<&str> =
        services.iter().map(|service| &**service).filter(|name| !name.is_empty()).collect();
    let who = match names[..] {
        [] => "the services of this trace".to_owned(),
        [service] => service.to_owned(),
        [..] => names.join(" or "),
    };
    format!(
        "no run of this test has had such a span, and {who} may still work on this request: say `within: 30s` on the spec if \
         that is how long it may take, or run once more"
    )
}
