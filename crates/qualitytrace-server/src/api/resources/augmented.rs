//! Tests and suites with what only the server knows: when they were made, how often they changed, how their runs went.

use http::HeaderMap;
use qualitytrace_core::definition::{self, Kind, Resource, Stored};
use serde_json::{Value, json};

use super::{plain, stored_resource};
use crate::api::App;
use crate::api::answer::Problem;
use crate::api::tenant::unscoped;
use crate::store::{RunSummary, StoredResource};
use crate::wire::time::{NEVER, rfc3339};

const HEADERS: [&str; 2] = ["x-tracetest-augmented", "x-qualitytrace-augmented"];

/// Whether the client asks for it.
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    HEADERS.iter().any(|name| headers.get(*name).is_some_and(|value| value == "true"))
}

/// Resources as the API shows them.
pub(super) async fn shown(
    app: &App,
    kind: Kind,
    resources: Vec<StoredResource>,
    augmented: bool,
) -> Result<Vec<Value>, Problem> {
    if !augmented || !matches!(kind, Kind::Test | Kind::TestSuite) {
        return resources.iter().map(|stored| plain(kind, stored)).collect();
    }
    let ids: Vec<&str> = resources.iter().map(|stored| stored.id.as_str()).collect();
    let summaries = match kind {
        Kind::Test => app.store.run_summaries(&ids).await?,
        _ => vec![RunSummary::default(); ids.len()],
    };
    let mut shown = Vec::with_capacity(resources.len());
    for (stored, summary) in resources.iter().zip(summaries) {
        let resource = stored_resource(kind, stored)?;
        let full_steps = match &resource {
            Resource::TestSuite(suite) => {
                let scope = stored.id.strip_suffix(unscoped(&stored.id)).unwrap_or_default();
                Some(full_steps(app, scope, suite).await?)
            }
            _ => None,
        };
        let known = Stored {
            id: Some(unscoped(&stored.id).to_owned()),
            created_at: Some(rfc3339(stored.created)),
            version: u32::try_from(stored.version).ok(),
            full_steps,
            summary: Some(summary_json(summary)),
        };
        shown.push(definition::to_json_stored(&resource, &known));
    }
    Ok(shown)
}

/// The tests of a suite in full, in order; those that are not there are left out.
pub(in crate::api) async fn full_steps(
    app: &App,
    scope: &str,
    suite: &definition::TestSuite,
) -> Result<Vec<Value>, Problem> {
    let mut steps = Vec::with_capacity(suite.steps.len());
    for step in &suite.steps {
        let id = format!("{scope}{}", step.value);
        let Some(stored) = app.store.resource(Kind::Test, &id).await? else {
            continue;
        };
        let summary = app.store.run_summaries(&[&id]).await?;
        let known = Stored {
            id: Some(step.value.clone()),
            created_at: Some(rfc3339(stored.created)),
            version: u32::try_from(stored.version).ok(),
            full_steps: None,
            summary: summary.first().copied().map(summary_json),
        };
        steps.push(definition::to_spec_json(&stored_resource(Kind::Test, &stored)?, &known));
    }
    Ok(steps)
}

pub(in crate::api) fn summary_json(summary: RunSummary) -> Value {
    json!({
        "runs": summary.runs,
        "lastRun": {
            "time": summary.last.map_or_else(|| NEVER.to_owned(), rfc3339),
            "passes": summary.passed,
            "fails": summary.failed,
            "analyzerScore": 0,
        },
    })
}
