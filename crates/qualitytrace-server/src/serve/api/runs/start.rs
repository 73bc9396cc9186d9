//! Starting a run.

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use qualitytrace_core::definition::secrets::MASK;
use qualitytrace_core::definition::{Kind, Resource, Test, TestRunner};
use qualitytrace_core::gates::Gate;
use qualitytrace_core::lang::{self, Severity};
use qualitytrace_core::series::Attempts;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::base::clock;
use crate::runner::{Order, settings};
use crate::serve::api::App;
use crate::serve::api::answer::plain_json;
use crate::serve::api::path::Path;
use crate::serve::api::resources::stored_resource;
use crate::serve::api::resources::stored_test;
use crate::serve::api::run_error::{MissingVariable, MissingVariables, RunApiError, body};
use crate::serve::api::tenant::Tenant;
use crate::storage::store::{StoredRun, unscoped};
use crate::storage::variables::Variables;
use crate::wire::fold::{self, RunState};
use crate::wire::request::{RunRequest, RunSettings};

/// The settings of a run of a test or of a suite that a client may send.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(in crate::serve::api) struct RunInformation {
    metadata: Option<Map<String, Value>>,
    variable_set_id: Option<String>,
    #[serde(rename = "runGroupId")]
    _run_group_id: Option<String>,
    variables: Option<Vec<Variable>>,
    #[schemars(with = "Option<Vec<Gate>>")]
    required_gates: Option<Vec<String>>,
    retries: Option<u32>,
    repeat: Option<u32>,
    settings: Option<RunSettings>,
}

/// The value of a variable.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::serve::api) struct Variable {
    #[serde(default)]
    key: String,
    #[serde(default)]
    value: String,
    #[serde(default, rename = "type")]
    kind: Option<String>,
}

impl RunInformation {
    /// How often to run a test whose own definition says `own`.
    pub(in crate::serve::api) fn attempts(&self, own: Attempts) -> Result<Attempts, RunApiError> {
        let attempts = Attempts {
            retries: self.retries.unwrap_or(own.retries),
            repeat: self.repeat.unwrap_or(own.repeat).max(1),
        };
        attempts.check().map(|()| attempts).map_err(|excess| RunApiError::bad_request(excess.to_string()))
    }

    /// Refuses more attempts than a server makes of one test.
    pub(in crate::serve::api) fn within_limits(self) -> Result<Self, RunApiError> {
        for (name, number) in [("retries", self.retries), ("repeat", self.repeat)] {
            if let Some(number) = number.filter(|number| *number > Attempts::MOST) {
                return Err(RunApiError::bad_request(format!(
                    "`{name}` takes a number up to {}, not {number}",
                    Attempts::MOST
                )));
            }
        }
        Ok(self)
    }

    /// Returns the variables of the run, and the rest of its request.
    pub(in crate::serve::api) async fn request(
        self,
        app: &App,
        tenant: &Tenant,
    ) -> Result<(Variables, RunRequest), RunApiError> {
        let id = self.variable_set_id.as_deref().unwrap_or_default();
        let given = self.variables.unwrap_or_default();
        let own: Vec<String> =
            given.iter().filter(|own| own.value != MASK).map(|own| own.key.clone()).collect();
        let (variable_set, variables) = given_variables(app, tenant, id, given).await?;
        let names = variables.iter().map(|(key, _)| key);
        let request = RunRequest {
            metadata: self.metadata.unwrap_or_default(),
            variable_set,
            required_gates: match self.required_gates {
                Some(gates) => gates,
                None => default_gates(app, tenant).await?,
            },
            variables: names.clone().cloned().collect(),
            from_set: names.filter(|name| !own.contains(name)).cloned().collect(),
            settings: self.settings.unwrap_or_default(),
            ..RunRequest::default()
        };
        for (kind, spec) in request.settings.given() {
            check_setting(kind, spec)?;
        }
        if let Some(unknown) = request.required_gates.iter().find(|gate| Gate::named(gate).is_none()) {
            return Err(RunApiError::bad_request(format!(
                "`{unknown}` is not a gate; use analyzer-score, analyzer-rules or test-specs"
            )));
        }
        Ok((variables, request))
    }
}

/// Refuses a setting in the request that could not be stored either.
fn check_setting(kind: Kind, spec: &Map<String, Value>) -> Result<(), RunApiError> {
    let reading = settings::read(kind, &Value::Object(spec.clone()).to_string());
    match reading.diagnostics.iter().find(|found| found.severity == Severity::Error) {
        Some(wrong) => Err(RunApiError::bad_request(format!(
            "`settings`: the {} is wrong: {}",
            kind.as_str(),
            wrong.message
        ))),
        None => Ok(()),
    }
}

/// Starts a run of the latest version of a test.
pub(in crate::serve::api) async fn start(
    State(app): State<App>,
    tenant: Tenant,
    Path(id): Path<String>,
    sent: Bytes,
) -> Result<Response, RunApiError> {
    let information = body::<RunInformation>(&sent)?.within_limits()?;
    let stored = app.store.test(&tenant.scoped(&id), None).await?.ok_or_else(RunApiError::missing)?;
    let test = stored_test(&stored)?;
    let attempts = information.attempts(test.attempts)?;
    let (variables, request) = information.request(&app, &tenant).await?;
    let missing = missing_variables(&test, &variables);
    if !missing.is_empty() {
        let missing = lacked(&app, &stored.id, &missing).await?;
        return Err(RunApiError::lacking(vec![missing]));
    }
    let started =
        app.runner.start_series(Order { test: stored, attempts, variables, request, step_of: None }).await?;
    let run = app.store.run(&started.test, started.number).await?.ok_or_else(RunApiError::missing)?;
    let as_created = StoredRun { state: "CREATED".to_owned(), ..run };
    Ok(plain_json(StatusCode::OK, &fold::listed(&as_created, &RunState::default(), clock::now())))
}

/// Returns the variables of a request: those of a variable set, and those given beside it, which take precedence. Also
/// returns what is shown of the variable set. A client that sends a mask has read it where a secret is shown: it stands
/// for the secret of the set, and for nothing if there is none.
pub(in crate::serve::api) async fn given_variables(
    app: &App,
    tenant: &Tenant,
    set: &str,
    given: Vec<Variable>,
) -> Result<(Option<Value>, Variables), RunApiError> {
    let (shown, mut variables) = variable_set(app, tenant, set).await?;
    for Variable { key, value, kind } in given {
        if value == MASK && !variables.is_secret(&key) {
            return Err(RunApiError::bad_request(format!(
                "the variable `{key}` is masked; send its value, or name the variable set that has it as `variableSetId`"
            )));
        }
        variables.set(&key, &value, kind.as_deref() == Some("secret"));
    }
    Ok((shown, variables))
}

/// Loads a variable set: what is shown of it, and its values, secrets included.
pub(in crate::serve::api) async fn variable_set(
    app: &App,
    tenant: &Tenant,
    id: &str,
) -> Result<(Option<Value>, Variables), RunApiError> {
    let mut variables = Variables::default();
    if id.is_empty() {
        return Ok((None, variables));
    }
    let missing = || {
        let message = format!("there is no variable set `{id}`; store it, or leave out `variableSetId`");
        RunApiError::new(StatusCode::NOT_FOUND, message)
    };
    let stored = app.store.resource(Kind::VariableSet, &tenant.scoped(id)).await?.ok_or_else(missing)?;
    let Resource::VariableSet(set) = stored_resource(Kind::VariableSet, &stored)? else {
        return Err(missing());
    };
    let shown = json!({ "id": id, "name": set.name, "description": set.description });
    for variable in &set.values {
        variables.set(&variable.key, &variable.value.value, variable.is_secret);
    }
    Ok((Some(shown), variables))
}

/// The gates that runs must pass by default.
async fn default_gates(app: &App, tenant: &Tenant) -> Result<Vec<String>, RunApiError> {
    let stored = app.store.resource(Kind::TestRunner, &tenant.scoped("current")).await?;
    let runner = match stored.map(|stored| stored_resource(Kind::TestRunner, &stored)).transpose()? {
        Some(Resource::TestRunner(runner)) => runner,
        _ => TestRunner::default(),
    };
    Ok(runner.required_gates.iter().map(|gate| gate.as_str().to_owned()).collect())
}

/// The variables that the trigger, the specs and the outputs need and that are not given.
pub(in crate::serve::api) fn missing_variables(test: &Test, variables: &Variables) -> Vec<String> {
    let mut used = Vec::new();
    if let Some(trigger) = &test.trigger {
        // Nothing is resolved here: only the walk over every text that may hold expressions is needed.
        let _ = trigger.resolved(|text| {
            used.extend(lang::variables_used(text));
            Ok::<_, std::convert::Infallible>(String::new())
        });
    }
    for spec in &test.specs {
        used.extend(lang::variables_in_selector(&lang::parse_selector(&spec.selector.value)));
        let assertions = spec.assertions.iter().map(|assertion| lang::parse_assertion(&assertion.value));
        used.extend(assertions.flat_map(|assertion| lang::variables_in_assertion(&assertion)));
    }
    for output in &test.outputs {
        used.extend(lang::variables_in_selector(&lang::parse_selector(&output.selector.value)));
        used.extend(lang::variables_in_expression(&lang::parse_expression(&output.value.value)));
    }
    let is_given = |name: &String| {
        variables.get(name).is_some() || test.outputs.iter().any(|output| output.name.value == *name)
    };
    used.retain(|name| !is_given(name));
    used.sort_unstable();
    used.dedup();
    used
}

/// Lists missing variables, each with its value in the latest run, if it had one that is no secret.
pub(in crate::serve::api) async fn lacked(
    app: &App,
    test: &str,
    missing: &[String],
) -> Result<MissingVariables, RunApiError> {
    let latest = app.store.runs(test, 1, 0).await?.1;
    let earlier = latest.first().map(|run| Variables::shown(&run.variables)).unwrap_or_default();
    let variables = missing.iter().map(|name| MissingVariable {
        key: name.clone(),
        default_value: earlier.get(name).filter(|_| !earlier.is_secret(name)).map(ToOwned::to_owned),
        kind: earlier.is_secret(name).then_some("secret"),
    });
    Ok(MissingVariables { test_id: unscoped(test).to_owned(), variables: variables.collect() })
}
