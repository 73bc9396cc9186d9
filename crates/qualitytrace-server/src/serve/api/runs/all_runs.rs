//! Runs across tests, by filters.

use axum::Json;
use axum::extract::State;
use qualitytrace_core::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::http::access::RequiredAccess;
use crate::http::routes::Routes;
use crate::http::routes::operation::{Content, of, operation};
use crate::serve::api::App;
use crate::serve::api::error::{ApiError, BAD_REQUEST};
use crate::serve::api::memory::Memory;
use crate::serve::api::query::Query;
use crate::serve::api::tenant::Tenant;
use crate::storage::store::{ListedRun, RunFilter, RunPosition, unscoped};
use crate::wire::series::Outcome;
use crate::wire::time::{from_rfc3339, rfc3339};

/// The default page size.
const TAKE: u64 = 20;
/// The largest page size.
const MOST: u64 = 200;

/// The word for runs that have not ended.
const RUNNING: &str = "running";

/// Returns the route.
pub(in crate::serve::api) fn routes() -> Routes<App> {
    Routes::new().get(
        "/api/runs",
        RequiredAccess::Look,
        list,
        operation(
            "Runs across tests, newest first, by filters",
            [(200, Content::Json(of::<Runs>)), BAD_REQUEST],
        )
        .asking(&["test", "outcome", "from", "to", "source", "branch", "take", "next"]),
    )
}

/// A page of runs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Runs {
    items: Vec<RunSummary>,
    /// The cursor of the next page; null after the last one.
    next: Option<String>,
}

/// A run without its trace and its results.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RunSummary {
    test: TestName,
    /// The number of the run within its test.
    run: u64,
    /// Null until it ends.
    outcome: Option<Outcome>,
    state: String,
    /// When it was requested.
    started: String,
    /// Nanoseconds from its request to its end; null until it ends.
    duration: Option<String>,
    /// The spans that the verdict is based on; null if unknown.
    spans: Option<u64>,
    /// Results of assertions that hold.
    passed: u64,
    /// Results of assertions that do not hold.
    failed: u64,
    trace_id: String,
    /// `source` of the metadata.
    source: Option<String>,
    /// `branch` of the metadata.
    branch: Option<String>,
    /// The metadata that the client sent; empty if the request was longer than 16 KiB.
    metadata: Map<String, Value>,
}

/// A test by its id and its present name.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TestName {
    id: String,
    name: String,
}

/// The filters as sent.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Parameters {
    test: String,
    outcome: String,
    from: String,
    to: String,
    source: String,
    branch: String,
    take: String,
    next: String,
}

/// Lists runs across tests that pass the filters.
async fn list(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Query(sent): Query<Parameters>,
) -> Result<Json<Runs>, ApiError> {
    let (filter, take) = sent.read(&tenant)?;
    memory.hold_texts(take * ListedRun::LARGEST).await?;
    let mut runs = app.store.runs_across(&filter, take + 1).await?;
    let has_more = runs.len() as u64 > take;
    runs.truncate(usize::try_from(take).unwrap_or(usize::MAX));
    let next = runs.last().filter(|_| has_more).map(|run| cursor(&run.position));
    Ok(Json(Runs { items: runs.into_iter().map(RunSummary::from).collect(), next }))
}

impl Parameters {
    /// Parses the filters and the page size.
    fn read(self, tenant: &Tenant) -> Result<(RunFilter, u64), ApiError> {
        let take = match self.take.as_str() {
            "" => TAKE,
            text => text.parse().map_err(|_| wrong("take", text, "a number"))?,
        };
        let given = |text: String| Some(text.replace('\0', "\u{1}")).filter(|text| !text.is_empty());
        let filter = RunFilter {
            tenant: tenant.as_str().to_owned(),
            test: given(self.test).map(|id| tenant.scoped(&id)),
            outcome: outcome(&self.outcome)?,
            from: time("from", &self.from)?,
            to: time("to", &self.to)?,
            source: given(self.source),
            branch: given(self.branch),
            behind: match self.next.as_str() {
                "" => None,
                text => {
                    let position = position(text, tenant);
                    Some(position.ok_or_else(|| wrong("next", text, "the `next` of an earlier page"))?)
                }
            },
        };
        Ok((filter, if take == 0 { TAKE } else { take.min(MOST) }))
    }
}

fn wrong(name: &str, text: &str, hint: &str) -> ApiError {
    ApiError::bad_request(format!("`{text}` is no value of `{name}`; write {hint}"))
}

fn time(name: &str, text: &str) -> Result<Option<Timestamp>, ApiError> {
    if text.is_empty() {
        return Ok(None);
    }
    let time = from_rfc3339(text).ok_or_else(|| wrong(name, text, "a time like 2026-01-31T12:00:00Z"))?;
    Ok(Some(time))
}

/// The outcome as it is stored: empty for runs that have not ended.
fn outcome(text: &str) -> Result<Option<&'static str>, ApiError> {
    match text {
        "" => Ok(None),
        RUNNING => Ok(Some("")),
        word => {
            let known = Outcome::OF_RUNS.into_iter().map(Outcome::as_str).find(|known| *known == word);
            let hint = || format!("{} or {RUNNING}", Outcome::OF_RUNS.map(Outcome::as_str).join(", "));
            known.map(Some).ok_or_else(|| wrong("outcome", word, &hint()))
        }
    }
}

fn cursor(RunPosition { created, test, number }: &RunPosition) -> String {
    format!("{}-{number}-{}", created.as_nanos(), unscoped(test))
}

fn position(text: &str, tenant: &Tenant) -> Option<RunPosition> {
    let (created, rest) = text.split_once('-')?;
    let (number, test) = rest.split_once('-')?;
    Some(RunPosition {
        created: Timestamp::from_nanos(created.parse().ok()?),
        test: tenant.scoped(test),
        number: number.parse().ok()?,
    })
}

impl From<ListedRun> for RunSummary {
    fn from(run: ListedRun) -> Self {
        let label = |name: &str| match run.metadata.get(name) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => None,
        };
        Self {
            run: run.position.number,
            outcome: Outcome::OF_RUNS.into_iter().find(|outcome| outcome.as_str() == run.outcome),
            started: rfc3339(run.position.created),
            duration: run.duration.map(|nanos| nanos.to_string()),
            spans: run.spans,
            passed: run.passed,
            failed: run.failed,
            trace_id: run.trace.to_string(),
            source: label("source"),
            branch: label("branch"),
            test: TestName { id: unscoped(&run.position.test).to_owned(), name: run.test_name },
            state: run.state,
            metadata: run.metadata,
        }
    }
}
