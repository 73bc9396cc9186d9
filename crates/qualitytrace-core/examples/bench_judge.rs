//! Benchmark of judging: traces of 1,000 to 100,000 spans against 50 specs, one JSON line for each; then of help while
//! writing on the same traces: the slowest description of a span, and a completion of an attribute.
//!
//! `cargo run --release -p qualitytrace-core --example bench_judge`

#![expect(clippy::print_stdout, reason = "a program that prints what it measured")]
#![expect(clippy::disallowed_methods, reason = "a measurement needs a clock")]

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use qualitytrace_core::assist::{Context, complete, describe};
use qualitytrace_core::budget::Budget;
use qualitytrace_core::definition::{Spec, Text};
use qualitytrace_core::id::{SpanId, TraceId};
use qualitytrace_core::judge::{Compiled, Options};
use qualitytrace_core::lang::{Form, Generator, Variables};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Attributes, Dropped, Resource, Scope, Span, SpanKind, Trace};
use qualitytrace_core::value::Value;

const ROUNDS: usize = 7;

fn main() {
    let specs = specs();
    let compiled = Compiled::new(&specs, &[]);
    for count in [1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000] {
        let trace = trace(count);
        let options = Options::new(Generator::in_utc(Timestamp::from_nanos(1_700_000_000_000_000_000), 1));
        let variables = Variables::new();
        let (mut best, mut least) = (f64::INFINITY, f64::INFINITY);
        let mut results = 0;
        for _ in 0..ROUNDS {
            let (start, busy) = (Instant::now(), processor_seconds());
            let verdict = compiled.judge(&trace, &variables, &options);
            best = best.min(start.elapsed().as_secs_f64());
            least = least.min(processor_seconds() - busy);
            let assertions = verdict.specs.iter().flat_map(|spec| &spec.assertions);
            results = assertions.map(|assertion| assertion.results.len()).sum();
        }
        println!(
            "{{\"spans\":{count},\"specs\":{},\"results\":{results},\"seconds\":{best:.6},\"processor_seconds\":{least:.6},\"nanoseconds_per_span\":{:.0}}}",
            specs.len(),
            best * 1e9 / f64::from(u32::try_from(count).expect("small")),
        );
        help(&trace);
    }
}

fn help(trace: &Trace) {
    let spans = trace.spans().len();
    let mut slowest: f64 = 0.0;
    for at in (0..spans).step_by((spans / 20).max(1)) {
        let start = Instant::now();
        describe(trace, at, None, &Budget::default()).expect("the budget suffices");
        slowest = slowest.max(start.elapsed().as_secs_f64());
    }
    let budget = Budget::default();
    let context = Context { trace: Some(trace), variables: &[], budget: &budget };
    let start = Instant::now();
    let items = complete("span[http.", 10, Form::Selector, &context).len();
    let completed = start.elapsed().as_secs_f64();
    println!(
        "{{\"spans\":{spans},\"describe_seconds\":{slowest:.6},\"complete_seconds\":{completed:.6},\"items\":{items}}}"
    );
}

/// Returns the CPU time of this thread, where the system reports it: on a busy machine it says more than the
/// clock.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let micros: u32 = text
        .split(' ')
        .next()
        .and_then(|nanos| nanos.parse::<u64>().ok())
        .and_then(|nanos| u32::try_from(nanos / 1_000).ok())
        .unwrap_or(0);
    f64::from(micros) / 1e6
}

/// Returns fifty specs of the kinds found in real files: names, types, attributes, descendants, positions.
fn specs() -> Vec<Spec> {
    let spec = |selector: String, assertion: &str| Spec {
        name: None,
        selector: Text::from(selector.as_str()),
        within: None,
        assertions: vec![Text::from(assertion)],
    };
    let mut specs = Vec::new();
    for at in 0..10 {
        specs.push(spec(
            format!("span[tracetest.span.type=\"http\" name=\"GET /items/{at}\" http.method=\"GET\"]"),
            "attr:http.status_code = 200",
        ));
        specs.push(spec(
            format!("span[tracetest.span.type=\"database\" db.system=\"postgresql\" db.name=\"shop\" db.sql.table=\"table{at}\"]"),
            "attr:tracetest.span.duration < 100ms",
        ));
        specs.push(spec(
            format!("span[service.name=\"service-{at}\" kind=\"server\"]"),
            "attr:tracetest.selected_spans.count >= 1",
        ));
        specs.push(spec(
            format!("span[name=\"GET /items/{at}\"] span[tracetest.span.type=\"database\"]"),
            "attr:db.statement contains \"select\"",
        ));
        specs.push(spec(
            format!("span[name contains \"table{at}\"]:first"),
            "attr:tracetest.span.duration <= 1s",
        ));
    }
    specs
}

fn trace(count: u64) -> Trace {
    let resources: Vec<Arc<Resource>> = (0..10)
        .map(|at| {
            let mut attributes = Attributes::default();
            attributes.set("service.name", format!("service-{at}"));
            attributes.set("service.version", "1.2.3");
            attributes.set("host.name", "host");
            attributes.set("telemetry.sdk.language", "rust");
            Arc::new(Resource { attributes, ..Resource::default() })
        })
        .collect();
    let scope = Arc::new(Scope::default());
    let names = Names::default();
    let spans = (1..=count).map(|at| span(at, &resources, &scope, &names));
    Trace::assemble(TraceId::from_bytes([7; 16]).expect("not zero"), spans)
}

/// Interned names, as a decoder returns them.
#[derive(Default)]
struct Names(RefCell<HashSet<Arc<str>>>);

impl Names {
    fn one(&self, name: &str) -> Arc<str> {
        let mut known = self.0.borrow_mut();
        known.get(name).cloned().unwrap_or_else(|| {
            known.insert(name.into());
            known.get(name).cloned().expect("just inserted")
        })
    }
}

/// Makes requests with two children each, every request below one of those before it.
fn span(at: u64, resources: &[Arc<Resource>], scope: &Arc<Scope>, names: &Names) -> Span {
    let turn = at % 100;
    let service = usize::try_from(turn % 10).expect("small");
    let mut attributes = Attributes::default();
    let mut set = |name: &str, value: Value| attributes.set(names.one(name), value);
    set("thread.id", Value::Int(7));
    set("thread.name", "main".into());
    set("code.function", "handle".into());
    set("net.peer.name", "10.0.0.1".into());
    set("net.peer.port", Value::Int(5432));
    let (name, kind) = match at % 3 {
        0 => {
            set("http.method", "GET".into());
            set("http.status_code", Value::Int(200));
            set("http.route", "/items/{id}".into());
            set("http.target", format!("/items/{turn}").into());
            (format!("GET /items/{turn}"), SpanKind::Server)
        }
        1 => {
            set("db.system", "postgresql".into());
            set("db.name", "shop".into());
            set("db.statement", "select * from table where id = $1".into());
            set("db.sql.table", format!("table{turn}").into());
            (format!("select shop.table{turn}"), SpanKind::Client)
        }
        _ => (format!("work {turn}"), SpanKind::Internal),
    };
    let id = |n: u64| SpanId::from_bytes(n.to_be_bytes());
    Span {
        id: id(at),
        parent: id(if at.is_multiple_of(3) { at / 9 * 3 } else { at / 3 * 3 }),
        name: names.one(&name),
        kind,
        start: Timestamp::from_nanos(1_700_000_000_000_000_000 + at * 1_000),
        end: Some(Timestamp::from_nanos(1_700_000_000_000_000_000 + at * 1_000 + 25_000_000)),
        status: None,
        attributes,
        events: vec![],
        links: vec![],
        resource: Arc::clone(&resources[service]),
        scope: Arc::clone(scope),
        trace_state: "".into(),
        flags: 1,
        dropped: Dropped::default(),
    }
}
