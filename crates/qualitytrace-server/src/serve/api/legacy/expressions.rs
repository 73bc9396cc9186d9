//! Resolution of single expressions.

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use qualitytrace_core::id::SpanId;
use qualitytrace_core::lang::{EvaluationScope, Generator, Variables, parse_selector, resolve, select};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base::clock;
use crate::base::compute;
use crate::serve::api::App;
use crate::serve::api::answer::plain_json;
use crate::serve::api::memory::Memory;
use crate::serve::api::run_error::{RunApiError, body};
use crate::serve::api::runs::{LoadedRun, variable_set};
use crate::serve::api::tenant::Tenant;

/// An expression and what it can refer to.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::serve::api) struct Expression {
    #[serde(default)]
    expression: String,
    #[serde(default)]
    context: Option<Context>,
}

/// The values of an expression, one for each selected span.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::serve::api) struct Resolved {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resolved_values: Vec<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Context {
    test_id: String,
    run_id: u64,
    span_id: String,
    selector: String,
    variable_set_id: String,
}

/// Resolves an expression: one value for each selected span.
pub(in crate::serve::api) async fn resolve_expression(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    sent: Bytes,
) -> Result<Response, RunApiError> {
    let Expression { expression, context } = body(&sent)?;
    let context = context.unwrap_or_default();
    let not_found = |_| RunApiError::bad_request("sql: no rows in result set");
    let (_, values) = variable_set(&app, &tenant, &context.variable_set_id).await.map_err(not_found)?;
    let found = if context.run_id > 0 && !context.test_id.is_empty() {
        let found = LoadedRun::load(&app, &memory, &tenant, &context.test_id, context.run_id).await;
        let no_rows = || RunApiError::bad_request("cannot read row: sql: no rows in result set");
        Some(found.map_err(|refusal| if refusal.is_missing() { no_rows() } else { refusal })?)
    } else {
        None
    };
    // An expression could take a secret apart, so it gets none.
    let of_run = found.as_ref().map(LoadedRun::variables).unwrap_or_default();
    let variables: Variables = of_run.iter().chain(&values.masked()).cloned().collect();
    let trace = found.as_ref().and_then(|found| found.trace.as_deref());
    compute::give_way().await;
    let budget = compute::budget();
    let positions: Vec<usize> = match trace {
        Some(trace) if !context.span_id.is_empty() => {
            let id: SpanId = context
                .span_id
                .parse()
                .map_err(|_| RunApiError::bad_request("hex encoded span-id must have length equals to 16"))?;
            let missing = || RunApiError::new(StatusCode::NOT_FOUND, format!("the trace has no span {id}"));
            vec![trace.position(id).ok_or_else(missing)?]
        }
        Some(trace) => {
            let parsed = parse_selector(&context.selector);
            if let Some(error) = parsed.error() {
                let message = format!(
                    "could not create selector from statement \"{}\": {}",
                    context.selector, error.message
                );
                return Err(RunApiError::bad_request(message));
            }
            select(&parsed.tree, trace, &budget)
                .map_err(|exceeded| RunApiError::bad_request(exceeded.to_string()))?
        }
        None => Vec::new(),
    };
    let value = |span: Option<usize>| {
        let surroundings = EvaluationScope {
            trace,
            span,
            selection: Some(&positions),
            variables: &variables,
            generator: Generator::in_utc(clock::now(), rand::random()),
            aliases: true,
            budget: &budget,
        };
        resolve(&expression, &surroundings).map_err(|error| RunApiError::bad_request(error.text))
    };
    let values: Vec<String> = if trace.is_some() {
        positions.iter().map(|at| value(Some(*at))).collect::<Result<_, _>>()?
    } else {
        vec![value(None)?]
    };
    Ok(plain_json(StatusCode::OK, &Resolved { resolved_values: values }))
}
