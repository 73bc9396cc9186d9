//! Handlers of suite runs: start, list, show, stop, delete.

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use qualitytrace_core::definition::{Kind, Test, TestSuite};
use qualitytrace_core::suite::{Plan, Values};

use super::App;
use super::answer::{Success, json, plain_json};
use super::audit::Unchanged;
use super::memory::Memory;
use super::path::Path;
use super::query::Query;
use super::resources::{stored_suite, stored_test};
use super::run_error::{
    BAD_REQUEST, MissingVariables, NOT_FOUND, RunApiError, TOO_MANY_REQUESTS, UNPROCESSABLE, body, number,
};
use super::runs::{
    LoadedRun, PageOf, RunInformation, lacked, missing_variables, read_events, stream_of_suite,
};
use super::tenant::Tenant;
use crate::base::clock;
use crate::http::access::RequiredAccess;
use crate::http::routes::Routes;
use crate::http::routes::operation::Content::{Counted, Events, Json, Nothing};
use crate::http::routes::operation::{Body, Operation, hidden, of, operation};
use crate::runner::{StepTest, SuiteOrder, SuiteRunId, SuiteState};
use crate::storage::store::{StoredEvent, StoredRun, StoredSuiteRun};
use crate::storage::variables::Variables;
use crate::wire::fold::{self, RunState};
use crate::wire::suite::{self, Event, SuiteProgress, SuiteRun};
use crate::wire::time::NEVER;

/// How long deletion waits for a suite run in progress to end.
const DELETION_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// The routes of suite runs, under their current name, which is described, and their former one.
pub(super) fn routes() -> Routes<App> {
    let former = routes_of("transactions", |_| hidden());
    routes_of("testsuites", Some).merge(former)
}

fn routes_of(word: &str, known: fn(Operation) -> Option<Operation>) -> Routes<App> {
    use RequiredAccess::{Change, Look, Stream};
    let runs = format!("/api/{word}/{{id}}/run");
    let run = format!("{runs}/{{number}}");
    let shows = (200, Json(of::<SuiteRun>));
    let listed = [(200, Counted(of::<Vec<SuiteRun>>)), BAD_REQUEST, NOT_FOUND];
    let started = [shows, BAD_REQUEST, NOT_FOUND, UNPROCESSABLE, TOO_MANY_REQUESTS];
    let removed = [(204, Nothing), BAD_REQUEST, NOT_FOUND];
    let stopped = [(200, Json(of::<Success>)), BAD_REQUEST, NOT_FOUND];
    let streamed = [(200, Events), BAD_REQUEST, NOT_FOUND];
    Routes::new()
        .get(
            &runs,
            Look,
            list,
            known(operation("Runs of a suite, newest first", listed).asking(&["take", "skip"])),
        )
        .post(
            &runs,
            Change,
            start,
            known(operation("Start a run of a suite", started).taking(Body::Json(of::<RunInformation>))),
        )
        .get(&run, Look, get_one, known(operation("A run of a suite", [shows, BAD_REQUEST, NOT_FOUND])))
        .delete(
            &run,
            Change,
            delete,
            known(operation("Remove a run of a suite with the runs of its steps", removed)),
        )
        .post(&format!("{run}/stop"), Change, stop, known(operation("End a run of a suite", stopped)))
        .get(
            &format!("{run}/events"),
            Look,
            events,
            known(operation("The events of a run of a suite", [(200, Json(of::<Vec<Event>>)), BAD_REQUEST])),
        )
        .get(
            &format!("{run}/events/stream"),
            Stream,
            stream_of_suite,
            known(operation("The events of a run of a suite, as a stream", streamed).asking(&["after"])),
        )
}

/// Starts a run of the latest version of a suite.
async fn start(
    State(app): State<App>,
    tenant: Tenant,
    Path(id): Path<String>,
    sent: Bytes,
) -> Result<Response, RunApiError> {
    let information = body::<RunInformation>(&sent)?.within_limits()?;
    let stored = app.store.definition(Kind::TestSuite, &tenant.scoped(&id), None).await?;
    let stored = stored.ok_or_else(RunApiError::missing)?;
    let suite = stored_suite(&stored)?;
    if let Some(file) = suite.data.as_ref().and_then(|data| data.file()) {
        return Err(RunApiError::bad_request(format!(
            "the suite's table is in the file {}, which only the command line reads; put its text under `data.csv`",
            file.value
        )));
    }
    let plan = Plan::of(&suite);
    let read = tests(&app, &tenant, &suite).await?;
    let tests: BTreeMap<String, StepTest> = read
        .iter()
        .map(|(id, (stored, test))| {
            let attempts = information.attempts(test.attempts)?;
            Ok((id.clone(), StepTest { stored: stored.clone(), name: test.name.clone(), attempts }))
        })
        .collect::<Result<_, RunApiError>>()?;
    let (variables, request) = information.request(&app, &tenant).await?;
    let missing = missing(&app, &plan, &read, &variables).await?;
    if !missing.is_empty() {
        return Err(RunApiError::lacking(missing));
    }
    let (shown_id, version) = (id, stored.version);
    let order = SuiteOrder { id: stored.id, shown_id, version, plan, tests, variables, request };
    let SuiteRunId { suite, number } = app.runner.start_suite(order).await?;
    let run = app.store.suite_run(&suite, number).await?.ok_or_else(RunApiError::missing)?;
    let as_created =
        StoredSuiteRun { state: SuiteState::Created.as_str().to_owned(), passed: 0, failed: 0, ..run };
    let shown = suite::suite_run(&as_created, &SuiteProgress::default(), Vec::new());
    Ok(plain_json(StatusCode::OK, &SuiteRun { completed_at: NEVER.to_owned(), ..shown }))
}

/// The tests of a suite, each in its latest version.
type Tests = BTreeMap<String, (crate::storage::store::StoredTest, Test)>;

async fn tests(app: &App, tenant: &Tenant, suite: &TestSuite) -> Result<Tests, RunApiError> {
    let mut tests = Tests::new();
    for step in suite.all_steps() {
        let id = &step.test.value;
        if tests.contains_key(id) {
            continue;
        }
        let stored = app.store.test(&tenant.scoped(id), None).await?.ok_or_else(|| {
            RunApiError::bad_request(format!(
                "step `{}` names the test `{id}`, which is not there; store it, or remove the step",
                step.title()
            ))
        })?;
        let test = stored_test(&stored)?;
        tests.insert(id.clone(), (stored, test));
    }
    Ok(tests)
}

/// Lists the variables that steps lack: neither given, nor in their row, nor an output of an earlier step.
async fn missing(
    app: &App,
    plan: &Plan,
    tests: &Tests,
    variables: &Variables,
) -> Result<Vec<MissingVariables>, RunApiError> {
    let outputs: Vec<Values> = plan
        .steps
        .iter()
        .map(|step| {
            let outputs = tests.get(&step.test).map_or(&[][..], |(_, test)| &test.outputs);
            outputs.iter().map(|output| (output.name.value.clone(), String::new())).collect()
        })
        .collect();
    let given: Values = variables.iter().cloned().collect();
    let mut found = Vec::new();
    // All rows have the same names.
    for (at, step) in plan.steps.iter().enumerate().filter(|(_, step)| step.row.unwrap_or(0) == 0) {
        let Some((stored, test)) = tests.get(&step.test) else { continue };
        let missing = missing_variables(test, &plan.variables(at, &given, &outputs).into());
        if !missing.is_empty() {
            found.push(lacked(app, &stored.id, &missing).await?);
        }
    }
    Ok(found)
}

/// Lists runs of a suite, newest first, without the traces of their steps.
async fn list(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Path(id): Path<String>,
    Query(page): Query<PageOf>,
) -> Result<Response, RunApiError> {
    let (take, skip) = page.numbers()?;
    let id = tenant.scoped(&id);
    memory.hold_texts(app.store.suite_page_size(&id, take, skip).await?).await?;
    let (count, runs) = app.store.suite_runs(&id, take, skip).await?;
    let (first, last) = (runs.last().map_or(0, |run| run.number), runs.first().map_or(0, |run| run.number));
    let mut events = app.store.suite_events_between(&id, first, last).await?;
    let mut steps = app.store.step_runs(&id, first, last).await?;
    let now = clock::now();
    let shown = runs.iter().map(|stored| {
        let facts = facts(&events.remove(&stored.number).unwrap_or_default());
        let steps = in_order(&tenant, &facts, steps.remove(&stored.number).unwrap_or_default());
        let steps = steps
            .iter()
            .map(|(stored, events)| fold::listed(stored, &RunState::of(&read_events(events)), now));
        suite::suite_run(stored, &facts, steps.collect())
    });
    let mut response = plain_json(StatusCode::OK, &shown.collect::<Vec<_>>());
    response.headers_mut().insert("x-total-count", HeaderValue::from(count));
    Ok(response)
}

async fn get_one(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Path((id, run)): Path<(String, String)>,
) -> Result<Response, RunApiError> {
    Ok(json(&memory, StatusCode::OK, shown(&app, &memory, &tenant, &id, number(&run)?).await?))
}

/// Loads a suite run with the runs of its steps in full.
pub(super) async fn shown(
    app: &App,
    memory: &Memory,
    tenant: &Tenant,
    id: &str,
    number: u64,
) -> Result<SuiteRun, RunApiError> {
    let id = tenant.scoped(id);
    let (own, steps) =
        tokio::try_join!(app.store.suite_run_size(&id, number), app.store.step_runs_size(&id, number))?;
    memory.hold_texts(own + steps).await?;
    let stored = app.store.suite_run(&id, number).await?.ok_or_else(RunApiError::missing)?;
    let facts = facts(&app.store.suite_events(&id, number, 0).await?);
    let runs = app.store.step_runs(&id, number, number).await?.remove(&number).unwrap_or_default();
    let mut steps = Vec::new();
    for (stored, events) in in_order(tenant, &facts, runs) {
        steps.push(LoadedRun::of(app, memory, stored, &events).await?.shown());
    }
    Ok(suite::suite_run(&stored, &facts, steps))
}

fn facts(events: &[StoredEvent]) -> SuiteProgress {
    SuiteProgress::of(&events.iter().filter_map(Event::read).collect::<Vec<_>>())
}

/// The latest run of each step, in the order of the steps.
fn in_order(
    tenant: &Tenant,
    facts: &SuiteProgress,
    runs: Vec<(StoredRun, Vec<StoredEvent>)>,
) -> Vec<(StoredRun, Vec<StoredEvent>)> {
    let mut by_id: BTreeMap<(String, u64), _> =
        runs.into_iter().map(|(run, events)| ((run.test.clone(), run.number), (run, events))).collect();
    let of_step = |(step, number): (&usize, &u64)| {
        by_id.remove(&(tenant.scoped(&facts.steps.get(*step)?.test), *number))
    };
    facts.runs.iter().filter_map(of_step).collect()
}

/// Deletes a suite run and everything that belongs to it: the runs of its steps, their events and traces.
async fn delete(
    State(app): State<App>,
    tenant: Tenant,
    Path((id, run)): Path<(String, String)>,
) -> Result<Response, RunApiError> {
    let run = SuiteRunId { suite: tenant.scoped(&id), number: number(&run)? };
    // Otherwise runs that it starts later would be left behind.
    if app.runner.stop_suite(&run).await? {
        let _ = tokio::time::timeout(DELETION_TIMEOUT, until_over(&app, &run)).await;
    }
    if !app.store.delete_suite_run(&run.suite, run.number).await? {
        return Err(RunApiError::missing());
    }
    app.runner.removed();
    Ok((StatusCode::NO_CONTENT, [(CONTENT_TYPE, "application/json; charset=UTF-8")]).into_response())
}

async fn until_over(app: &App, run: &SuiteRunId) {
    let mut changes = app.runner.follow_suite(run.clone());
    loop {
        changes.mark_unchanged();
        match app.store.suite_run(&run.suite, run.number).await {
            Ok(Some(stored)) if !SuiteState::is_final(&stored.state) => {}
            _ => return,
        }
        // The runner outlives every request.
        let _ = changes.changed().await;
    }
}

/// Stops a suite run: its steps in progress are stopped, teardown still runs. One that has ended is left as it is.
async fn stop(
    State(app): State<App>,
    tenant: Tenant,
    Path((id, run)): Path<(String, String)>,
) -> Result<Response, RunApiError> {
    let run = SuiteRunId { suite: tenant.scoped(&id), number: number(&run)? };
    let mut response = plain_json(StatusCode::OK, &Success::default());
    if !app.runner.stop_suite(&run).await? {
        app.store.suite_run(&run.suite, run.number).await?.ok_or_else(RunApiError::missing)?;
        response.extensions_mut().insert(Unchanged);
    }
    Ok(response)
}

/// Returns the events of a suite run.
async fn events(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Path((id, run)): Path<(String, String)>,
) -> Result<Response, RunApiError> {
    let (id, number) = (tenant.scoped(&id), number(&run)?);
    memory.hold_texts(app.store.suite_run_size(&id, number).await?).await?;
    let events = app.store.suite_events(&id, number, 0).await?;
    Ok(plain_json(StatusCode::OK, &events.iter().filter_map(Event::read).collect::<Vec<_>>()))
}
