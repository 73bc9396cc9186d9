//! Runs against a real system under test that sends its spans on command.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::routing::get;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;
use qualitytrace_core::definition::{Format, Kind};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::wait::Policy;
use qualitytrace_server::base::clock;
use qualitytrace_server::base::limits::Limits;
use qualitytrace_server::observability::Recorder;
use qualitytrace_server::receive::ingest::Ingest;
use qualitytrace_server::receive::otlp::wire as otlp_wire;
use qualitytrace_server::receive::source::Source;
use qualitytrace_server::runner::{RunId, Runner};
use qualitytrace_server::storage::store::{Mode, NewDefinition, Store, StoredTest};
use qualitytrace_server::storage::variables::Variables;
use qualitytrace_server::wire::fold::RunState;
use qualitytrace_server::wire::{Event, Outcome, RunEventKind};
use qualitytrace_telemetry::Telemetry;
use qualitytrace_testing::{DEADLINE, eventually, within};
use tokio::sync::mpsc;

use crate::requests;

/// Short windows: these tests check events, not durations.
const POLICY: Policy = Policy {
    quiet: Duration::from_millis(30),
    settle: Duration::from_millis(120),
    timeout: Duration::from_millis(600),
    within: None,
};

/// A runner, and a system under test that reports the context of each request.
struct Bench {
    store: Store,
    ingest: Arc<Ingest>,
    runner: Arc<Runner>,
    url: String,
    requests: mpsc::UnboundedReceiver<(String, String)>,
}

impl Bench {
    async fn start() -> Self {
        Self::start_within(Limits::default()).await
    }

    async fn start_within(limits: Limits) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let store = Store::open("sqlite::memory:").await.unwrap();
        let (ingest, _) = Ingest::start(store.clone(), limits).await.unwrap();
        let telemetry = Telemetry::start(qualitytrace_telemetry::config::Config::new("test")).unwrap();
        let watch = Recorder::new(telemetry, Limits::default());
        let source = Source::new(store.clone(), Arc::clone(&ingest));
        let runner = Runner::begin(store.clone(), source, POLICY, Limits::default(), watch).await.unwrap();
        let (seen, requests) = mpsc::unbounded_channel();
        let router = axum::Router::new()
            .route("/answer", get(answer))
            .route("/hang", get(std::future::pending::<&'static str>))
            .with_state(seen);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { store, ingest, runner, url, requests }
    }

    async fn run(&self, trigger: &str, specs: &str) -> RunId {
        let definition =
            format!("{{\"spec\":{{\"id\":\"t\",\"name\":\"T\",\"trigger\":{trigger},\"specs\":{specs}}}}}");
        let test = stored(&self.store, &definition).await;
        self.runner.start(&test, Variables::default()).await.unwrap()
    }

    fn http(&self, path: &str) -> String {
        format!(r#"{{"type":"http","httpRequest":{{"method":"GET","url":"{}{path}"}}}}"#, self.url)
    }

    /// Returns the trace and span that the system under test received.
    async fn context(&mut self) -> (String, String) {
        within(DEADLINE, "the system is asked", self.requests.recv()).await.unwrap()
    }

    async fn send(&self, spans: Vec<Span>) {
        let attributes = vec![requests::pair("service.name", requests::text("subject"))];
        let request = ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(Resource { attributes, ..Resource::default() }),
                scope_spans: vec![ScopeSpans { spans, ..ScopeSpans::default() }],
                ..ResourceSpans::default()
            }],
        };
        let mut lease = self.ingest.budget().lease().unwrap();
        let split = otlp_wire::split_traces(&request.encode_to_vec().into(), &mut lease).unwrap();
        self.ingest.spans(split, lease).await.unwrap();
    }

    /// Waits until late spans change this outcome, and returns the new one.
    async fn corrected(&self, run: &RunId, was: Outcome) -> Outcome {
        let events = self.until(run, |what| matches!(what, RunEventKind::Late { .. })).await;
        let Some(RunEventKind::Late { before, verdict, .. }) = events.last() else {
            panic!("{:?}", events.last())
        };
        assert_eq!(*before, was);
        verdict.outcome
    }

    /// Waits until the run has an event that matches `wanted`, and returns all events so far.
    async fn until(&self, run: &RunId, wanted: impl Fn(&RunEventKind) -> bool) -> Vec<RunEventKind> {
        let mut changes = self.runner.follow(run.clone());
        loop {
            changes.mark_unchanged();
            let stored = self.store.events(&run.test, run.number, 0).await.unwrap();
            let events: Vec<RunEventKind> = stored
                .iter()
                .map(|event| {
                    let mut body: serde_json::Value = serde_json::from_str(&event.body).unwrap();
                    body["seq"] = event.seq.into();
                    body["at"] = event.at.as_nanos().into();
                    serde_json::from_value::<Event>(body).unwrap().what
                })
                .collect();
            if events.iter().any(&wanted) {
                return events;
            }
            within(DEADLINE, format!("another event than {events:?}"), changes.changed()).await.unwrap();
        }
    }

    async fn state(&self, run: &RunId, state: &str) {
        let mut changes = self.runner.follow(run.clone());
        loop {
            changes.mark_unchanged();
            if self.store.run(&run.test, run.number).await.unwrap().unwrap().state == state {
                return;
            }
            within(DEADLINE, format!("the run becomes {state}"), changes.changed()).await.unwrap();
        }
    }
}

async fn answer(
    State(seen): State<mpsc::UnboundedSender<(String, String)>>,
    headers: http::HeaderMap,
) -> &'static str {
    let parent = headers["traceparent"].to_str().unwrap();
    let parts: Vec<&str> = parent.split('-').collect();
    seen.send((parts[1].to_owned(), parts[2].to_owned())).unwrap();
    r#"{"id": 7}"#
}

fn span(trace: &str, id: u64, parent: &str, name: &str, kind: SpanKind) -> Span {
    let bytes = |hex: &str| {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    };
    let now = clock::now().as_nanos();
    Span {
        trace_id: bytes(trace),
        span_id: id.to_be_bytes().to_vec(),
        parent_span_id: bytes(parent),
        name: name.to_owned(),
        kind: kind as i32,
        start_time_unix_nano: now,
        end_time_unix_nano: now + 1_000_000,
        ..Span::default()
    }
}

fn id(number: u64) -> String {
    format!("{number:016x}")
}

fn is_judged(what: &RunEventKind) -> bool {
    matches!(what, RunEventKind::Judged { .. })
}

fn outcome(events: &[RunEventKind]) -> Outcome {
    let verdict = events
        .iter()
        .find_map(|what| if let RunEventKind::Judged { verdict } = what { Some(verdict) } else { None });
    verdict.unwrap().outcome
}

const LEAF: &str =
    r#"[{"selector":"span[name=\"leaf\"]","assertions":["attr:tracetest.selected_spans.count = 1"]}]"#;
const REPLY: &str = r#"[{"selector":"span[name=\"Tracetest trigger\"]","assertions":["attr:tracetest.response.body | json_path '$.id' = 7","attr:tracetest.response.status = 200"]}]"#;

#[tokio::test]
async fn a_trace_in_pieces_is_judged_when_it_is_complete() {
    let mut bench = Bench::start().await;
    let run = bench.run(&bench.http("/answer"), LEAF).await;
    let (trace, parent) = bench.context().await;
    bench.send(vec![span(&trace, 2, &id(1), "leaf", SpanKind::Internal)]).await;
    bench.until(&run, |what| matches!(what, RunEventKind::Arrived { .. })).await;
    bench.send(vec![span(&trace, 1, &parent, "root", SpanKind::Server)]).await;
    let events = bench.until(&run, is_judged).await;
    assert_eq!(outcome(&events), Outcome::Passed);
    bench.state(&run, "FINISHED").await;
}

#[tokio::test]
async fn the_answer_can_be_judged_without_a_trace() {
    let bench = Bench::start().await;
    let trigger = bench.http("/answer");
    let definition = format!(
        "{{\"spec\":{{\"id\":\"t\",\"name\":\"T\",\"skipTraceCollection\":true,\"trigger\":{trigger},\"specs\":{REPLY}}}}}"
    );
    let test = stored(&bench.store, &definition).await;
    let run = bench.runner.start(&test, Variables::default()).await.unwrap();
    let events = bench.until(&run, is_judged).await;
    assert_eq!(outcome(&events), Outcome::Passed);
    assert!(events.contains(&RunEventKind::WaitSkipped { debts: Vec::new(), expected: Vec::new() }));
}

#[tokio::test]
async fn no_trace_is_no_verdict() {
    let bench = Bench::start().await;
    let run = bench.run(&bench.http("/answer"), LEAF).await;
    let events = bench.until(&run, |what| matches!(what, RunEventKind::NoTrace { .. })).await;
    let message = events
        .iter()
        .find_map(|what| if let RunEventKind::NoTrace { message } = what { Some(message) } else { None });
    assert!(message.unwrap().contains("nothing at all has arrived since this server started"), "{message:?}");
    bench.state(&run, "TRACE_FAILED").await;
}

#[tokio::test]
async fn a_missing_parent_makes_the_run_inconclusive_and_is_named() {
    let mut bench = Bench::start().await;
    let specs =
        r#"[{"selector":"span[name=\"worker\"]","assertions":["attr:tracetest.selected_spans.count = 1"]}]"#;
    let run = bench.run(&bench.http("/answer"), specs).await;
    let (trace, parent) = bench.context().await;
    let root = span(&trace, 1, &parent, "root", SpanKind::Server);
    bench.send(vec![root, span(&trace, 3, &id(9), "worker", SpanKind::Internal)]).await;
    let events = bench.until(&run, is_judged).await;
    assert_eq!(outcome(&events), Outcome::Inconclusive);
    let text = format!("{events:?}");
    let advice =
        format!("the parent {} of span `worker` (subject) has not arrived: subject should send it", id(9));
    assert!(text.contains(&advice), "{text}");
}

#[tokio::test]
async fn a_late_span_corrects_the_verdict() {
    let mut bench = Bench::start().await;
    let run = bench.run(&bench.http("/answer"), LEAF).await;
    let (trace, parent) = bench.context().await;
    bench.send(vec![span(&trace, 1, &parent, "root", SpanKind::Server)]).await;
    let events = bench.until(&run, is_judged).await;
    assert_eq!(outcome(&events), Outcome::Inconclusive);
    bench.state(&run, "FINISHED").await;
    bench.send(vec![span(&trace, 2, &id(1), "leaf", SpanKind::Internal)]).await;
    let events = bench.until(&run, |what| matches!(what, RunEventKind::Late { .. })).await;
    let Some(RunEventKind::Late { spans: 1, before: Outcome::Inconclusive, verdict }) = events.last() else {
        panic!("{:?}", events.last())
    };
    assert_eq!(verdict.outcome, Outcome::Passed);
}

/// Two seconds after its verdict a run is no longer in memory.
#[tokio::test]
async fn late_spans_correct_runs_that_are_parked() {
    const NOT_TWO: &str =
        r#"[{"selector":"span[name=\"leaf\"]","assertions":["attr:tracetest.selected_spans.count != 2"]}]"#;
    let mut bench = Bench::start().await;
    let run = bench.run(&bench.http("/answer"), NOT_TWO).await;
    let (trace, parent) = bench.context().await;
    let root = span(&trace, 1, &parent, "root", SpanKind::Server);
    bench.send(vec![root, span(&trace, 2, &id(1), "leaf", SpanKind::Internal)]).await;
    assert_eq!(outcome(&bench.until(&run, is_judged).await), Outcome::Passed);
    let attached = bench.run(&format!(r#"{{"type":"traceid","traceid":{{"id":"{trace}"}}}}"#), NOT_TWO).await;
    assert_eq!(outcome(&bench.until(&attached, is_judged).await), Outcome::Passed);
    eventually(DEADLINE, "both runs are parked", async || bench.runner.watched() == (0, 2)).await;
    bench.send(vec![span(&trace, 3, &id(1), "leaf", SpanKind::Internal)]).await;
    for run in [&run, &attached] {
        assert_eq!(bench.corrected(run, Outcome::Passed).await, Outcome::Failed);
    }
    // A span that changes nothing is not counted again with the next one.
    bench.send(vec![span(&trace, 4, &id(1), "other", SpanKind::Internal)]).await;
    eventually(DEADLINE, "both runs are parked again", async || bench.runner.watched() == (0, 2)).await;
    bench.send(vec![span(&trace, 5, &id(1), "leaf", SpanKind::Internal)]).await;
    for run in [&run, &attached] {
        let is_second = |what: &RunEventKind| matches!(what, RunEventKind::Late { before: Outcome::Failed, verdict, .. } if verdict.outcome == Outcome::Passed);
        bench.until(run, is_second).await;
    }
}

impl Bench {
    /// Starts a rerun of a run.
    async fn again(&self, run: &RunId) -> RunId {
        let earlier = self.store.run(&run.test, run.number).await.unwrap().unwrap();
        let events = self.store.events(&run.test, run.number, 0).await.unwrap();
        let events: Vec<Event> = events.iter().filter_map(Event::read).collect();
        let facts = RunState::of(&events);
        let source = Source::new(self.store.clone(), Arc::clone(&self.ingest));
        let trace =
            source.load(earlier.trace).await.unwrap().with_trigger(facts.root(earlier.trace).unwrap());
        let test = self.store.test(&run.test, None).await.unwrap().unwrap();
        self.runner.rerun(&earlier, &events, Some(&trace), &test).await.unwrap()
    }
}

#[tokio::test]
async fn what_was_missing_is_missing_when_the_trace_is_judged_again() {
    let mut bench = Bench::start().await;
    let run = bench.run(&bench.http("/answer"), LEAF).await;
    let (trace, parent) = bench.context().await;
    let root = span(&trace, 1, &parent, "root", SpanKind::Server);
    bench.send(vec![root, span(&trace, 2, &id(9), "leaf", SpanKind::Internal)]).await;
    assert_eq!(outcome(&bench.until(&run, is_judged).await), Outcome::Inconclusive);
    bench.state(&run, "FINISHED").await;
    let again = bench.again(&run).await;
    assert_eq!(outcome(&bench.until(&again, is_judged).await), Outcome::Inconclusive);
    // Late spans correct both.
    bench.send(vec![span(&trace, 9, &id(1), "between", SpanKind::Internal)]).await;
    for run in [&run, &again] {
        assert_eq!(bench.corrected(run, Outcome::Inconclusive).await, Outcome::Passed);
    }
}

#[tokio::test]
async fn a_rerun_of_many_reruns_knows_its_trigger_and_its_answer() {
    let mut bench = Bench::start().await;
    let mut run = bench.run(&bench.http("/answer"), REPLY).await;
    let (trace, parent) = bench.context().await;
    bench.send(vec![span(&trace, 1, &parent, "root", SpanKind::Server)]).await;
    bench.state(&run, "FINISHED").await;
    let mut sizes = Vec::new();
    // Far more than the levels of JSON that a reader accepts.
    for _ in 0..150 {
        run = bench.again(&run).await;
        let events = bench.store.events(&run.test, run.number, 0).await.unwrap();
        let known: Vec<Event> = events.iter().filter_map(Event::read).collect();
        assert_eq!(known.len(), events.len(), "{}", run.number);
        let state = RunState::of(&known);
        assert!(state.trigger.is_some() && state.reply.is_some(), "{}", run.number);
        assert_eq!(state.verdict.unwrap().outcome, Outcome::Passed);
        sizes.push(events[0].body.len());
    }
    assert!(sizes[149] < sizes[0] + 100, "they grow: {sizes:?}");
}

#[tokio::test]
async fn the_analyzer_looks_at_late_spans_too() {
    let mut bench = Bench::start().await;
    let run = bench.run(&bench.http("/answer"), "[]").await;
    let (trace, parent) = bench.context().await;
    bench.send(vec![span(&trace, 1, &parent, "root", SpanKind::Server)]).await;
    let events = bench.until(&run, is_judged).await;
    bench.state(&run, "FINISHED").await;
    let scores = |events: &[RunEventKind]| -> Vec<u32> {
        let score = |what: &RunEventKind| match what {
            RunEventKind::Analyzed { analysis, .. } => Some(analysis.score),
            _ => None,
        };
        events.iter().filter_map(score).collect()
    };
    let first = scores(&events);
    let leak = Span {
        attributes: vec![requests::pair("http.request.header.authorization", requests::text("Bearer x"))],
        ..span(&trace, 2, &id(1), "leaf", SpanKind::Client)
    };
    bench.send(vec![leak]).await;
    let events = bench
        .until(
            &run,
            |what| matches!(what, RunEventKind::Analyzed { analysis, .. } if !first.contains(&analysis.score)),
        )
        .await;
    assert!(scores(&events).last() < first.last(), "{:?}", scores(&events));
}

#[tokio::test]
async fn spans_that_were_refused_leave_a_run_inconclusive() {
    let mut bench = Bench::start_within(Limits { spans_per_trace: 2, ..Limits::default() }).await;
    let none =
        r#"[{"selector":"span[name=\"leaf\"]","assertions":["attr:tracetest.selected_spans.count = 0"]}]"#;
    let run = bench.run(&bench.http("/answer"), none).await;
    let (trace, parent) = bench.context().await;
    let root = span(&trace, 1, &parent, "root", SpanKind::Server);
    bench.send(vec![root, span(&trace, 2, &id(1), "stem", SpanKind::Internal)]).await;
    bench.send(vec![span(&trace, 3, &id(2), "leaf", SpanKind::Internal)]).await;
    let events = bench.until(&run, is_judged).await;
    assert_eq!(outcome(&events), Outcome::Inconclusive);
    assert!(format!("{events:?}").contains("1 spans of the trace were refused"), "{events:?}");
}

#[tokio::test]
async fn stop_ends_a_hanging_trigger() {
    let bench = Bench::start().await;
    let run = bench.run(&bench.http("/hang"), LEAF).await;
    bench.until(&run, |what| matches!(what, RunEventKind::Triggering { .. })).await;
    bench.runner.stop(&run).await.unwrap();
    bench.until(&run, |what| *what == RunEventKind::Stopped).await;
    bench.state(&run, "STOPPED").await;
}

#[tokio::test]
async fn a_skipped_wait_gives_a_verdict_on_the_spans_that_are_here() {
    let mut bench = Bench::start().await;
    let run = bench.run(&bench.http("/answer"), LEAF).await;
    let (trace, parent) = bench.context().await;
    bench.send(vec![span(&trace, 2, &id(1), "leaf", SpanKind::Internal)]).await;
    bench.until(&run, |what| matches!(what, RunEventKind::Arrived { .. })).await;
    bench.runner.skip_waiting(&run).await.unwrap();
    // The leaf is there, but its missing parent may have other children.
    let events = bench.until(&run, is_judged).await;
    assert_eq!(outcome(&events), Outcome::Inconclusive);
    let told = format!("{events:?}");
    assert!(
        told.contains(&format!("the parent {} of span `leaf` (subject) has not arrived", id(1))),
        "{told}"
    );
    // When the rest arrives, the verdict is corrected.
    let root = span(&trace, 1, &parent, "root", SpanKind::Server);
    bench.state(&run, "FINISHED").await;
    bench.send(vec![root]).await;
    assert_eq!(bench.corrected(&run, Outcome::Inconclusive).await, Outcome::Passed);
}

#[tokio::test]
async fn a_test_waits_by_its_own_polling_profile() {
    let mut bench = Bench::start().await;
    let trigger = bench.http("/answer");
    let with = |profile: &str| {
        format!(
            r#"{{"spec":{{"id":"t","name":"T","pollingProfile":{profile},"trigger":{trigger},"specs":{LEAF}}}}}"#
        )
    };
    let settle = r#"{"strategy":"periodic","periodic":{"retryDelay":"1s","timeout":"5s","settle":"200ms"}}"#;
    let test = stored(&bench.store, &with(settle)).await;
    let run = bench.runner.start(&test, Variables::default()).await.unwrap();
    let (trace, parent) = bench.context().await;
    bench.send(vec![span(&trace, 1, &parent, "root", SpanKind::Server)]).await;
    let events = bench.until(&run, is_judged).await;
    let ended = events.iter().find(|what| matches!(what, RunEventKind::WaitEnded { .. }));
    let Some(RunEventKind::WaitEnded { settle: 195, first: true, undecided, .. }) = ended else {
        panic!("{ended:?}")
    };
    assert_eq!(undecided.len(), 1, "{undecided:?}");

    let test = stored(&bench.store, &with(r#"{"strategy":"no-polling"}"#)).await;
    let run = bench.runner.start(&test, Variables::default()).await.unwrap();
    let events = bench.until(&run, is_judged).await;
    assert!(
        events.contains(&RunEventKind::WaitSkipped { debts: Vec::new(), expected: Vec::new() }),
        "{events:?}"
    );
}

#[tokio::test]
async fn a_first_run_waits_for_the_spans_of_its_outputs() {
    let ended = |events: &[RunEventKind]| {
        let reason = |what: &RunEventKind| match what {
            RunEventKind::WaitEnded { reason, .. } => Some(reason.clone()),
            _ => None,
        };
        events.iter().find_map(reason).unwrap()
    };
    for (selector, reason) in [
        ("leaf", "nothing more came for a settle window"),
        ("root", "no further span can change the verdict"),
    ] {
        let mut bench = Bench::start().await;
        let trigger = bench.http("/answer");
        let output = format!(r#"{{"name":"N","selector":"span[name=\"{selector}\"]","value":"attr:name"}}"#);
        let definition = format!(
            r#"{{"spec":{{"id":"t","name":"T","trigger":{trigger},"specs":{REPLY},"outputs":[{output}]}}}}"#
        );
        let test = stored(&bench.store, &definition).await;
        let run = bench.runner.start(&test, Variables::default()).await.unwrap();
        let (trace, parent) = bench.context().await;
        bench.send(vec![span(&trace, 1, &parent, "root", SpanKind::Server)]).await;
        assert_eq!(ended(&bench.until(&run, is_judged).await), reason, "{selector}");
    }
}

#[tokio::test]
async fn spans_that_came_before_a_traceid_run_count() {
    let bench = Bench::start().await;
    let trace = "0102030405060708090a0b0c0d0e0f10";
    let root = span(trace, 1, "", "root", SpanKind::Server);
    bench.send(vec![root, span(trace, 2, &id(1), "leaf", SpanKind::Internal)]).await;
    let run = bench.run(&format!(r#"{{"type":"traceid","traceid":{{"id":"{trace}"}}}}"#), LEAF).await;
    assert_eq!(outcome(&bench.until(&run, is_judged).await), Outcome::Passed);
    let stored = bench.store.run(&run.test, run.number).await.unwrap().unwrap();
    assert_eq!(stored.trace.to_string(), trace);
    assert!(stored.created > Timestamp::default());
}

#[tokio::test]
async fn another_tool_names_the_trace_that_it_made() {
    let bench = Bench::start().await;
    let trace = "0102030405060708090a0b0c0d0e0f11";
    let root = span(trace, 1, "", "root", SpanKind::Server);
    bench.send(vec![root, span(trace, 2, &id(1), "leaf", SpanKind::Internal)]).await;
    let definition =
        format!(r#"{{"spec":{{"id":"t","name":"T","trigger":{{"type":"k6"}},"specs":{LEAF}}}}}"#);
    let test = stored(&bench.store, &definition).await;
    let variables = vec![("TRACE_ID".to_owned(), trace.to_owned())];
    let run = bench.runner.start(&test, variables.into()).await.unwrap();
    assert_eq!(outcome(&bench.until(&run, is_judged).await), Outcome::Passed);

    let run = bench.runner.start(&test, Variables::default()).await.unwrap();
    let events = bench.until(&run, |what| matches!(what, RunEventKind::NotResolved { .. })).await;
    let Some(RunEventKind::NotResolved { message }) = events.last() else { panic!("{:?}", events.last()) };
    assert_eq!(
        message,
        "a test of type `k6` judges the trace that k6 names; start it with the variable TRACE_ID"
    );
}

#[tokio::test]
async fn a_closed_port_is_named_with_the_way_out() {
    let bench = Bench::start().await;
    let closed = format!("127.0.0.1:{}", qualitytrace_testing::port());
    let trigger = format!(r#"{{"type":"http","httpRequest":{{"method":"GET","url":"http://{closed}/"}}}}"#);
    let run = bench.run(&trigger, LEAF).await;
    let events = bench.until(&run, |what| matches!(what, RunEventKind::TriggerFailed { .. })).await;
    let Some(RunEventKind::TriggerFailed {
        reason, message, connection: true, targets_localhost: true, ..
    }) = events.last()
    else {
        panic!("{:?}", events.last())
    };
    assert_eq!(reason, "refused");
    // In a container, more text follows.
    let start =
        format!("nothing listens on {closed}; start the system under test or correct the trigger's url");
    assert!(message.starts_with(&start), "{message}");
}

async fn stored(store: &Store, definition: &str) -> StoredTest {
    let new = NewDefinition {
        kind: Kind::Test,
        id: "t".to_owned(),
        tenant: "",
        name: "T".to_owned(),
        description: String::new(),
        sort_kind: String::new(),
        format: Format::Json,
        text: definition,
        spec: definition.to_owned(),
    };
    store.put(&new, Mode::Upsert, clock::now()).await.unwrap();
    store.test("t", None).await.unwrap().unwrap()
}
