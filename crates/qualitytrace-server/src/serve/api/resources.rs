//! Handlers of resources, generic over their kinds.

mod augmented;
mod edit;
mod listing;
mod reading;
mod source;

use std::borrow::Cow;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode};
use qualitytrace_core::definition::source::DataStore;
use qualitytrace_core::definition::{self, Format, Kind, Resource, Stored, secrets};
use qualitytrace_core::time::Timestamp;
use serde_json::{Value, json};

use super::App;
use super::error::{self, ApiError, Error};
use super::memory::Memory;
use super::negotiation::Media;
use super::path::Path;
use super::precondition::{conflict, expected, with_version};
use super::query::Query;
use super::run_error::{BAD_REQUEST, NOT_FOUND};
use super::tenant::Tenant;
use crate::base::clock;
use crate::http::access::RequiredAccess;
use crate::http::client::Client;
use crate::http::routes::Routes;
use crate::http::routes::operation::Content::{Negotiated, Nothing};
use crate::http::routes::operation::{self, Answer, Content, Operation, of, operation};
use crate::storage::store::{
    CURRENT, Expected, Mode, NO_ID, NewDefinition, Put, StoredResource, is_id, unscoped,
};
use crate::wire::time::rfc3339;
use reading::{Body, Strictness};

pub(super) use augmented::{FullSteps, steps as augmented_steps, summary};
pub(super) use listing::{Parameters, sorts};
pub(super) use reading::{placed, stored_resource, stored_suite, stored_test};

/// The header with warnings about a stored definition.
const WARNING: &str = "x-qualitytrace-warning";
/// The most warnings in one response.
const WARNINGS: usize = 20;

/// Suites were called transactions before. The other two are in the original's API description, and so in clients
/// generated from it.
const OTHER_WORDS: [(Kind, &str); 3] =
    [(Kind::TestSuite, "transactions"), (Kind::VariableSet, "variableSets"), (Kind::Analyzer, "linters")];

/// The routes of every kind.
pub(super) fn routes() -> Routes<App> {
    let kinds = Kind::ALL.into_iter().map(|kind| (kind, collection(kind)));
    let all = kinds.chain(OTHER_WORDS);
    let routes = all.fold(Routes::new(), |routes, (kind, word)| routes.merge(routes_of(kind, word)));
    routes.post(
        "/api/tests/{id}/source/edit",
        RequiredAccess::Look,
        edit::edit,
        operation(
            "Change the text of a test and keep its comments; nothing is stored",
            [
                (200, Content::Json(of::<edit::EditedSource>)),
                error::BAD_REQUEST,
                error::NOT_FOUND,
                error::CONFLICT,
                error::UNPROCESSABLE,
            ],
        )
        .taking(operation::Body::Json(of::<edit::SourceEdit>)),
    )
}

/// The routes of one kind, described under its own name only.
fn routes_of(kind: Kind, word: &str) -> Routes<App> {
    use RequiredAccess::{Change, Look};
    let (all, one) = (format!("/api/{word}"), format!("/api/{word}/{{id}}"));
    let described = |what: &str, answers: &[Answer]| operation(format!("{what} {}", kind.as_str()), answers);
    let known = |operation: Operation| (word == collection(kind)).then_some(operation);
    let changing =
        |operation: Operation| known(operation.taking(operation::Body::Resource(kind)).asking(&["strict"]));
    let shows = Content::Resource(kind);
    let (wrong, missing) = ((400, Negotiated(of::<Error>)), (404, Nothing));
    let outdated = (409, Negotiated(of::<Error>));
    let gone = if kind.is_singleton() { (405, Negotiated(of::<Error>)) } else { (204, Nothing) };
    let listed = described("List:", &[(200, Content::Resources(kind)), wrong]).listing(kind);
    let source = described("Source text:", &[(200, Content::Source), BAD_REQUEST, NOT_FOUND]);
    Routes::new()
        .get(
            &all,
            Look,
            move |app, memory, tenant, query, headers| list(kind, app, memory, tenant, query, headers),
            known(listed.augmentable(kind)),
        )
        .post(
            &all,
            Change,
            move |app, tenant, query, headers, body| create(kind, app, tenant, query, headers, body),
            changing(described("Create:", &[(201, shows), wrong])),
        )
        .put(
            &all,
            Change,
            move |app, tenant, query, headers, body| upsert(kind, app, tenant, query, headers, body),
            changing(
                described("Create or change:", &[(200, shows), (201, shows), wrong, outdated]).conditional(),
            ),
        )
        .get(
            &one,
            Look,
            move |app, memory, tenant, path, headers| get_one(kind, app, memory, tenant, path, headers),
            known(described("Read:", &[(200, shows), wrong, missing]).augmentable(kind)),
        )
        .put(
            &one,
            Change,
            move |app, tenant, path, query, headers, body| {
                update(kind, app, tenant, path, query, headers, body)
            },
            changing(described("Change:", &[(200, shows), wrong, missing, outdated]).conditional()),
        )
        .delete(
            &one,
            Change,
            move |app, tenant, path, headers| delete(kind, app, tenant, path, headers),
            known(described("Remove:", &[gone, wrong, missing])),
        )
        .get(
            &format!("{one}/source"),
            Look,
            move |app, tenant, path, query| source::source(kind, app, tenant, path, query),
            known(source.asking(&["version"]).augmentable(kind)),
        )
}

/// The collection in the path.
pub(super) const fn collection(kind: Kind) -> &'static str {
    match kind {
        Kind::Test => "tests",
        Kind::TestSuite => "testsuites",
        Kind::VariableSet => "variablesets",
        Kind::DataStore => "datastores",
        Kind::PollingProfile => "pollingprofiles",
        Kind::Analyzer => "analyzers",
        Kind::TestRunner => "testrunners",
        Kind::Config => "configs",
        Kind::Demo => "demos",
    }
}

async fn list(
    kind: Kind,
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
) -> Response {
    let media = Media::of_answer(&headers);
    let page = async {
        let listing = parameters.listing(kind, &tenant)?;
        if kind.is_singleton() {
            let (resource, stored, _) = current(&app, kind, &tenant).await?;
            return Ok::<_, ApiError>((1, vec![shown(&resource, &stored)]));
        }
        let page = app.store.list(&[kind], &listing).await?;
        memory.hold_texts(page.bytes).await?;
        let items = app.store.load(&page).await?.into_iter().map(|(_, stored)| stored).collect();
        let items = augmented::shown(&app, &memory, kind, items, augmented::is_wanted(&headers)).await?;
        Ok((page.count, items))
    };
    match page.await {
        Ok((count, items)) => media.list(count, &items),
        Err(problem) => problem.in_form(media),
    }
}

async fn get_one(
    kind: Kind,
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    let media = Media::of_answer(&headers);
    let found = async {
        if kind.is_singleton() {
            // A singleton is found by any id.
            let (resource, stored, version) = current(&app, kind, &tenant).await?;
            return Ok::<_, ApiError>(Some((shown(&resource, &stored), version)));
        }
        let Some(stored) = app.store.resource(kind, &tenant.scoped(&id)).await? else {
            return Ok(None);
        };
        let version = stored.version;
        let is_wanted = augmented::is_wanted(&headers);
        let shown = augmented::shown(&app, &memory, kind, vec![stored], is_wanted).await?;
        Ok(shown.into_iter().next().map(|shown| (shown, version)))
    };
    match found.await {
        Ok(Some((body, version))) => with_version(media.answer(StatusCode::OK, &body), version),
        Ok(None) => media.empty(StatusCode::NOT_FOUND),
        Err(problem) => problem.in_form(media),
    }
}

async fn delete(
    kind: Kind,
    State(app): State<App>,
    tenant: Tenant,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    let media = Media::of_answer(&headers);
    if kind.is_singleton() {
        let problem = ApiError {
            status: StatusCode::METHOD_NOT_ALLOWED,
            message: format!("resource {} does not support the action", kind.as_str()),
        };
        return problem.in_form(media);
    }
    let id = tenant.scoped(&id);
    // Before it is deleted: runs of a test that is created under this id meanwhile go on.
    let runs = if kind == Kind::Test { app.runner.runs_of(&id) } else { Vec::new() };
    match app.store.delete(kind, &id).await {
        Ok(true) => {
            app.runner.stop_deleted(&runs);
            app.runner.removed();
            media.empty(StatusCode::NO_CONTENT)
        }
        Ok(false) => media.empty(StatusCode::NOT_FOUND),
        Err(error) => ApiError::from(error).in_form(media),
    }
}

async fn create(
    kind: Kind,
    State(app): State<App>,
    tenant: Tenant,
    Query(strictness): Query<Strictness>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    store(kind, &app, &tenant, Mode::Create, None, strictness, &headers, &body).await
}

async fn upsert(
    kind: Kind,
    State(app): State<App>,
    tenant: Tenant,
    Query(strictness): Query<Strictness>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    store(kind, &app, &tenant, Mode::Upsert, None, strictness, &headers, &body).await
}

async fn update(
    kind: Kind,
    State(app): State<App>,
    tenant: Tenant,
    Path(id): Path<String>,
    Query(strictness): Query<Strictness>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    store(kind, &app, &tenant, Mode::Update, Some(&id), strictness, &headers, &body).await
}

#[expect(clippy::too_many_arguments, reason = "the parts of one request, each of another type")]
async fn store(
    kind: Kind,
    app: &App,
    tenant: &Tenant,
    mode: Mode,
    in_path: Option<&str>,
    strictness: Strictness,
    headers: &HeaderMap,
    body: &[u8],
) -> Response {
    let media = Media::of_answer(headers);
    let outcome = async {
        let expected = if mode == Mode::Create { Expected::Anything } else { expected(headers)? };
        let body = Body::read(kind, Media::of_body(headers), body, in_path, strictness)?;
        let answer = put(app, kind, tenant, mode, &expected, &body).await?;
        Ok::<_, ApiError>((answer, body.warnings))
    };
    match outcome.await {
        Ok((Some((status, body, version)), warnings)) => {
            with_warnings(with_version(media.answer(status, &body), version), &warnings)
        }
        Ok((None, _)) => media.empty(StatusCode::NOT_FOUND),
        Err(problem) => problem.in_form(media),
    }
}

/// Stores a parsed body. `None` when the resource had to exist and does not.
async fn put(
    app: &App,
    kind: Kind,
    tenant: &Tenant,
    mode: Mode,
    expected: &Expected,
    body: &Body<'_>,
) -> Result<Option<(StatusCode, Value, u64)>, ApiError> {
    let id = if kind.is_singleton() { CURRENT } else { &body.id };
    if !is_id(id) {
        return Err(ApiError::bad_request(NO_ID));
    }
    let resource = with_creation(app, tenant, &body.resource).await?;
    let new = NewDefinition {
        id: tenant.scoped(id),
        tenant: tenant.as_str(),
        ..NewDefinition::of(&resource, id, body.format, body.text)
    };
    let texts = [("name", &new.name), ("description", &new.description), ("type", &new.sort_kind)];
    if let Some((key, _)) = texts.into_iter().find(|(_, text)| text.contains('\0')) {
        let message = format!(
            "an error occurred while validating the resource: {id}. error: `{key}` holds the character U+0000; remove it"
        );
        return Err(ApiError::bad_request(message));
    }
    // A singleton always exists.
    let stored_as = if kind.is_singleton() { Mode::Upsert } else { mode };
    let put = app.store.put_expecting(&new, stored_as, expected, clock::now()).await?;
    // Clients expect these two keys for a suite that was sent again unchanged.
    let is_told_more = kind == Kind::TestSuite && matches!(put, Put::Same(_));
    let (status, stored) = match put {
        Put::Created(stored) => (StatusCode::CREATED, stored),
        Put::Updated(stored) | Put::Same(stored) => (StatusCode::OK, stored),
        Put::Missing => return Ok(None),
        Put::Exists => return Err(exists(kind)),
        Put::Conflict { version } => return Err(conflict(kind, id, version, expected)),
        Put::Masked(unknown) => {
            let message = format!("an error occurred while validating the resource: {id}. error: {unknown}");
            return Err(ApiError::bad_request(message));
        }
    };
    Client::note_changed(id);
    let status = match mode {
        _ if !kind.is_singleton() => status,
        Mode::Create => StatusCode::CREATED,
        Mode::Upsert if !body.has_id => StatusCode::CREATED,
        Mode::Update | Mode::Upsert => StatusCode::OK,
    };
    let known = Stored {
        id: Some(id.to_owned()),
        created_at: (shows_creation(kind) || is_told_more).then(|| rfc3339(stored.created)),
        version: u32::try_from(stored.version).ok().filter(|_| is_told_more),
        ..Stored::default()
    };
    let mut answer = shown(&resource, &known);
    repeat_blank(kind, &body.spec, &mut answer["spec"]);
    Ok(Some((status, answer, stored.version)))
}

/// A data store keeps the creation time that a user once gave it.
async fn with_creation<'r>(
    app: &App,
    tenant: &Tenant,
    resource: &'r Resource,
) -> Result<Cow<'r, Resource>, ApiError> {
    let Resource::DataStore(store @ DataStore { created_at: None, .. }) = resource else {
        return Ok(Cow::Borrowed(resource));
    };
    let created_at = match current(app, Kind::DataStore, tenant).await? {
        (Resource::DataStore(earlier), ..) => earlier.created_at,
        _ => None,
    };
    Ok(Cow::Owned(Resource::DataStore(DataStore { created_at, ..store.clone() })))
}

/// Where there is no list, the response repeats what was sent: an empty one, or null.
fn repeat_blank(kind: Kind, sent: &Value, shown: &mut Value) {
    let key = match kind {
        Kind::TestSuite => "steps",
        Kind::Analyzer => "plugins",
        Kind::TestRunner => "requiredGates",
        _ => return,
    };
    if shown[key].as_array().is_none_or(Vec::is_empty) {
        shown[key] = if sent[key].is_array() { json!([]) } else { Value::Null };
    }
}

/// Stores a new resource from JSON.
pub(super) async fn create_from_json(
    app: &App,
    tenant: &Tenant,
    kind: Kind,
    text: &str,
) -> Result<Value, ApiError> {
    let body = Body::read(kind, Media::JSON, text.as_bytes(), None, Strictness::default())?;
    let stored = put(app, kind, tenant, Mode::Create, &Expected::Anything, &body).await?;
    Ok(stored.map(|(_, shown, _)| shown).unwrap_or_default())
}

/// Returns the `spec` of each resource, augmented with what only the server knows.
pub(super) async fn augmented_specs(
    app: &App,
    memory: &Memory,
    kind: Kind,
    stored: Vec<StoredResource>,
) -> Result<Vec<Value>, ApiError> {
    let shown = augmented::shown(app, memory, kind, stored, true).await?;
    Ok(shown.into_iter().map(|mut shown| shown["spec"].take()).collect())
}

fn exists(kind: Kind) -> ApiError {
    let message = match kind {
        Kind::Test => "validation error: test with same ID already exists".to_owned(),
        _ => format!("validation error: {} with same ID already exists", kind.as_str()),
    };
    ApiError::bad_request(message)
}

/// Whether the creation time is part of every response.
const fn shows_creation(kind: Kind) -> bool {
    matches!(kind, Kind::VariableSet | Kind::DataStore)
}

/// Loads a singleton, the stored one or the default, and its version, which is 0 for the default.
pub(super) async fn current(
    app: &App,
    kind: Kind,
    tenant: &Tenant,
) -> Result<(Resource, Stored, u64), ApiError> {
    let stored = app.store.resource(kind, &tenant.scoped(CURRENT)).await?;
    let created = stored.as_ref().map_or(app.started, |stored| stored.created);
    let resource = match &stored {
        Some(stored) => stored_resource(kind, stored)?,
        None => definition::default_of(kind),
    };
    let version = stored.map_or(0, |stored| stored.version);
    Ok((resource, known_of_current(kind, created), version))
}

fn known_of_current(kind: Kind, created: Timestamp) -> Stored {
    Stored {
        id: Some(CURRENT.to_owned()),
        created_at: shows_creation(kind).then(|| rfc3339(created)),
        ..Stored::default()
    }
}

/// The resource with its secrets redacted.
fn shown(resource: &Resource, stored: &Stored) -> Value {
    let shown = definition::to_json_stored(resource, stored);
    let text = shown.to_string();
    match secrets::masked(&text, Format::Json, resource.kind()) {
        Cow::Owned(masked) => serde_json::from_str(&masked).unwrap_or_default(),
        Cow::Borrowed(_) => shown,
    }
}

/// The resource as the API shows it, not augmented.
fn plain(kind: Kind, stored: &StoredResource) -> Result<Value, ApiError> {
    if shows_creation(kind) {
        let known = Stored {
            id: Some(unscoped(&stored.id).to_owned()),
            created_at: Some(rfc3339(stored.created)),
            ..Stored::default()
        };
        return Ok(shown(&stored_resource(kind, stored)?, &known));
    }
    let spec: Value = serde_json::from_str(&stored.spec).unwrap_or_default();
    Ok(json!({ "type": kind.as_str(), "spec": spec }))
}

fn with_warnings(mut response: Response, warnings: &[String]) -> Response {
    for warning in warnings.iter().take(WARNINGS) {
        let ascii: String =
            warning.chars().map(|letter| if letter.is_ascii_graphic() { letter } else { ' ' }).collect();
        if let Ok(value) = HeaderValue::from_str(&ascii) {
            response.headers_mut().append(WARNING, value);
        }
    }
    response
}
