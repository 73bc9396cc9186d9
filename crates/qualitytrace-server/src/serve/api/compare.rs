//! Comparison of two runs or traces.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use qualitytrace_core::budget::BudgetError;
use qualitytrace_core::compare::{Row, Sides, Thresholds, compare, services};
use qualitytrace_core::definition::settings::parse_duration;
use qualitytrace_core::id::TraceId;
use qualitytrace_core::run::State as RunState;
use qualitytrace_core::trace::Trace;
use serde::Deserialize;

use super::App;
use super::answer::document;
use super::error::{ApiError, BAD_REQUEST, NOT_FOUND, UNPROCESSABLE};
use super::memory::Memory;
use super::query::Query;
use super::runs::{LoadedRun, no_run};
use super::tenant::Tenant;
use super::traces::decoded;
use crate::base::compute;
use crate::http::access::RequiredAccess;
use crate::http::routes::Routes;
use crate::http::routes::operation::{Content, of, operation};
use crate::wire::comparison::{Compared, Comparison, Document, OutcomeChange, Page, Verdicts};
use crate::wire::fold;
use crate::wire::request::RunRequest;
use crate::wire::series::Outcome;
use crate::wire::verdict::Verdict;

/// The default page size.
const TAKE: usize = 1_000;
/// The largest page size.
const MOST: usize = 100_000;
/// Memory of a span while it is compared: its row, its kind and its signatures.
const SPAN_BYTES: u64 = size_of::<Row>() as u64 + 200;

/// Returns the route.
pub(super) fn routes() -> Routes<App> {
    Routes::new().get(
        "/api/compare",
        RequiredAccess::Look,
        compared,
        operation(
            "Two runs or traces compared, each `test/ID/run/N` or `trace/ID`",
            [(200, Content::Json(of::<Comparison>)), BAD_REQUEST, NOT_FOUND, UNPROCESSABLE],
        )
        .asking(&["a", "b", "only", "percent", "least", "take", "skip"]),
    )
}

/// The parameters as sent.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Parameters {
    a: String,
    b: String,
    only: String,
    percent: String,
    least: String,
    take: String,
    skip: String,
}

/// What a side of a comparison is.
#[derive(Debug)]
enum Subject {
    Run(Run),
    Trace(TraceId),
}

#[derive(Debug)]
struct Run {
    test: String,
    number: u64,
}

/// A side of a comparison with its trace.
struct Side {
    subject: Subject,
    trace: Arc<Trace>,
}

/// Compares two runs or traces.
async fn compared(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Query(sent): Query<Parameters>,
) -> Result<Response, ApiError> {
    let (thresholds, page) = sent.read()?;
    let (a, b) = (Subject::read("a", &sent.a)?, Subject::read("b", &sent.b)?);
    let verdicts = match (&a, &b) {
        (Subject::Run(a), Subject::Run(b)) => {
            let (a, b) = (a.verdict(&app, &memory, &tenant).await?, b.verdict(&app, &memory, &tenant).await?);
            Some(Verdicts::of(OutcomeChange { a: a.0, b: b.0 }, a.1.as_ref(), b.1.as_ref()))
        }
        (Subject::Trace(_), _) | (_, Subject::Trace(_)) => None,
    };
    let a = Side { trace: a.trace(&app, &memory, &tenant).await?, subject: a };
    let b = Side { trace: b.trace(&app, &memory, &tenant).await?, subject: b };
    let spans = a.trace.spans().len() + b.trace.spans().len();
    memory.hold(spans as u64 * SPAN_BYTES).await?;
    compute::give_way().await;
    let found = {
        let budget = compute::budget();
        compare(&a.trace, &b.trace, thresholds, &budget)
            .and_then(|found| Ok((found, services(&a.trace, &b.trace, &budget)?)))
    };
    compute::wait_if_stopped().await;
    let (found, services) = found.map_err(too_large)?;
    let sides = Sides { a: a.shown(), b: b.shown() };
    let traces = Sides { a: Arc::clone(&a.trace), b: Arc::clone(&b.trace) };
    let mut shown = Document::new(traces, sides, found, thresholds, page).with_services(&services);
    shown.verdicts = verdicts;
    Ok(document(&memory, "application/json", shown))
}

fn too_large(exceeded: BudgetError) -> ApiError {
    let message = format!("the traces cannot be compared: {exceeded}");
    ApiError { status: StatusCode::UNPROCESSABLE_ENTITY, message }
}

fn wrong(name: &str, text: &str, hint: &str) -> ApiError {
    ApiError::bad_request(format!("`{text}` is no value of `{name}`; write {hint}"))
}

impl Parameters {
    fn read(&self) -> Result<(Thresholds, Page), ApiError> {
        let number = |name: &str, text: &str, default: usize| match text {
            "" => Ok(default),
            text => text.parse().map_err(|_| wrong(name, text, "a number")),
        };
        let default = Thresholds::default();
        let thresholds = Thresholds {
            percent: match self.percent.as_str() {
                "" => default.percent,
                text => text.parse().map_err(|_| wrong("percent", text, "a whole number like 20"))?,
            },
            least: match self.least.as_str() {
                "" => default.least,
                "0" => Duration::ZERO,
                text => {
                    let hint = "a duration like 500us or 1ms";
                    parse_duration(text).ok_or_else(|| wrong("least", text, hint))?
                }
            },
        };
        let take = number("take", &self.take, TAKE)?;
        let page = Page {
            only_differences: match self.only.as_str() {
                "" => false,
                "differences" => true,
                text => return Err(wrong("only", text, "differences, or leave it out")),
            },
            skip: number("skip", &self.skip, 0)?,
            take: if take == 0 { TAKE } else { take.min(MOST) },
        };
        Ok((thresholds, page))
    }
}

impl Subject {
    fn read(name: &str, text: &str) -> Result<Self, ApiError> {
        let run = |text: &str| {
            let (test, number) = text.strip_prefix("test/")?.rsplit_once("/run/")?;
            Some(Self::Run(Run { test: test.to_owned(), number: number.parse().ok()? }))
        };
        let trace = |text: &str| Some(Self::Trace(text.strip_prefix("trace/")?.parse().ok()?));
        run(text)
            .or_else(|| trace(text))
            .ok_or_else(|| wrong(name, text, "test/ID/run/N or trace/ID, with 32 hexadecimal digits as ID"))
    }

    /// Loads its trace, with its secrets redacted.
    async fn trace(&self, app: &App, memory: &Memory, tenant: &Tenant) -> Result<Arc<Trace>, ApiError> {
        let loaded = match self {
            Self::Run(Run { test, number }) => {
                decoded::of_run(app, memory, tenant, test, &number.to_string()).await?
            }
            Self::Trace(id) => decoded::of_trace(app, memory, *id).await?,
        };
        Ok(loaded.trace)
    }
}

impl Run {
    /// Loads its outcome and its verdict. Of an imported run only its results are known.
    async fn verdict(
        &self,
        app: &App,
        memory: &Memory,
        tenant: &Tenant,
    ) -> Result<(Option<Outcome>, Option<Verdict>), ApiError> {
        let Self { test, number } = self;
        let loaded = LoadedRun::load_untraced(app, memory, tenant, test, *number).await;
        let loaded =
            loaded.map_err(|error| if error.is_missing() { no_run(test, *number) } else { error.into() })?;
        let specs = loaded.facts.verdict.as_ref().map(|verdict| verdict.outcome);
        let gates = fold::gates(&RunRequest::of(&loaded.stored).required_gates, &loaded.facts);
        let state = RunState::named(&loaded.stored.state).filter(|state| state.is_final());
        let outcome = state
            .filter(|_| loaded.facts.imported.is_none())
            .map(|state| Outcome::from(fold::ended(state, &gates, specs)));
        Ok((outcome, loaded.facts.verdict))
    }
}

impl Side {
    fn shown(&self) -> Compared {
        let (test, run) = match &self.subject {
            Subject::Run(Run { test, number }) => (Some(test.clone()), Some(*number)),
            Subject::Trace(_) => (None, None),
        };
        Compared { trace_id: self.trace.id().to_string(), test, run, spans: self.trace.spans().len() }
    }
}
