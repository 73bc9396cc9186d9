//! The tests of a system: each is one spec, judged by the real judge.

use std::time::Duration;

use qualitytrace_core::definition::Spec;
use qualitytrace_core::id::TraceId;
use qualitytrace_core::judge::{self, Compiled, Options, Remedy};
use qualitytrace_core::lang::{Generator, Variables};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Span, Trace};
use qualitytrace_core::wait::{Absence, OpenSpec, SpecStatus};

use super::super::random::Random;
use super::super::system::START;
use super::system::System;

/// The attribute of a step whose value tests ask for, and its values.
pub(super) const RESULT: &str = "check.result";
pub(super) const RIGHT: &str = "right";
pub(super) const WRONG: &str = "wrong";

const NO_ERROR: &str = "none attr:tracetest.span.status_code = \"STATUS_CODE_ERROR\"";

/// What a test claims.
pub(super) struct Claim {
    pub(super) selector: String,
    pub(super) assertion: String,
    /// Whether it asks for work after the answer.
    pub(super) is_about_tail: bool,
    /// Within which time it wants what it asks for.
    pub(super) within: Option<Duration>,
    compiled: Compiled,
    options: Options,
}

impl Claim {
    /// The tests of a system.
    pub(super) fn all(random: &mut Random, system: &System) -> Vec<Self> {
        let services = &system.services;
        let texts = |service: usize| &services[service].texts;
        let odd = system.odd;
        let name = &texts(odd).service;
        let kind = if services[odd].is_queue { "consumer" } else { "server" };
        let other = 1 + random.index(services.len() - 1);
        let entries = services.len() - usize::from(system.is_blind);
        let has_queue = services.iter().any(|service| service.is_queue);
        let consumers = if has_queue { ", span[kind=\"consumer\"]" } else { "" };
        // A call without a reply has an error in every run.
        let anyone = if system.world.has_dead_peer { "span[kind!=\"client\"]" } else { "span[]" };
        let count = |count: usize| format!("attr:tracetest.selected_spans.count = {count}");
        let mut claims = vec![
            (format!("span[service.name=\"{name}\" kind=\"{kind}\"]"), count(1)),
            (format!("span[service.name=\"{name}\"]"), NO_ERROR.to_owned()),
            (anyone.to_owned(), NO_ERROR.to_owned()),
            (format!("span[name=\"{}\"]", texts(other).step), format!("attr:{RESULT} = \"{RIGHT}\"")),
            (format!("span[kind=\"server\"]{consumers}"), count(entries)),
        ];
        let asked = claims.len();
        let tails: Vec<usize> = (0..services.len()).filter(|at| services[*at].has_tail).collect();
        let tail = if system.world.job.is_some() {
            Some(odd)
        } else {
            (!tails.is_empty()).then(|| tails[random.index(tails.len())])
        };
        if let Some(tail) = tail.map(texts) {
            let selector = format!("span[service.name=\"{}\" name=\"{}\"]", tail.service, tail.tail);
            claims.push((selector, count(1)));
        }
        let within = system.world.within.map(Duration::from_nanos);
        let claims = claims.into_iter().enumerate();
        claims.map(|(at, (selector, text))| Self::new(selector, text, at >= asked, within)).collect()
    }

    fn new(selector: String, assertion: String, is_about_tail: bool, within: Option<Duration>) -> Self {
        let spec = Spec {
            name: None,
            selector: selector.as_str().into(),
            assertions: vec![assertion.as_str().into()],
            within: None,
        };
        let compiled = Compiled::new(&[spec], &[]);
        let spec = &compiled.specs[0];
        assert!(
            spec.selector.error().is_none() && spec.assertions[0].parsed.error().is_none(),
            "{selector}: {assertion}"
        );
        let generator = Generator::in_utc(Timestamp::from_nanos(START), 1);
        // Near misses change no verdict.
        let options = Options { near_misses: 0, ..Options::new(generator) };
        Self { selector, assertion, is_about_tail, within, compiled, options }
    }

    /// The standing of the spec, as the runner passes it to the wait.
    pub(super) fn standing(&self, trace: &Trace) -> SpecStatus {
        let judge::TestStatus { assertions, outputs_stand } =
            self.compiled.standing(trace, &Variables::new(), &self.options);
        let fails = assertions.iter().any(|standing| standing.is_final && !standing.passes);
        let stands = outputs_stand && assertions.iter().all(|standing| standing.is_final);
        let wants_more = assertions.iter().any(|standing| standing.remedy != Remedy::None);
        let undecided = wants_more.then(|| OpenSpec {
            name: self.selector.clone(),
            services: self.compiled.services(&self.compiled.specs[0]),
            lacks_spans: assertions.iter().any(|standing| standing.remedy == Remedy::MoreSpans),
            within: self.within,
        });
        SpecStatus { undecided: undecided.into_iter().collect(), is_final: fails || stands }
    }

    /// Judges a trace in which these spans may be missing.
    pub(super) fn judge(&self, trace: &Trace, absences: Vec<Absence>) -> Judged {
        let options = Options { absences, ..self.options.clone() };
        let verdict = self.compiled.judge(trace, &Variables::new(), &options);
        let spec = &verdict.specs[0];
        let outcome = match verdict.outcome {
            judge::Outcome::Passed => Outcome::Passed,
            judge::Outcome::Failed(_) => Outcome::Failed,
            judge::Outcome::Inconclusive { .. } => Outcome::Inconclusive,
        };
        let is_final = spec.assertions.iter().any(|assertion| assertion.is_final);
        Judged { outcome, is_final, selects_nothing: spec.selected.is_empty() }
    }
}

/// The verdict of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) outcome: Outcome,
    /// Whether no further span can change it.
    pub(super) is_final: bool,
    pub(super) selects_nothing: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    Failed,
    Inconclusive,
}

/// The tree of these spans below the trigger.
pub(super) fn tree<'a>(spans: impl Iterator<Item = &'a Span>, trigger: &Span) -> Trace {
    let id = TraceId::from_bytes([7; 16]).expect("not zero");
    Trace::assemble(id, spans.cloned()).with_trigger(trigger.clone())
}
