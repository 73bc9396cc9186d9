//! Writing tests and suites.

use serde_json::Value;

use super::trigger::{pairs, period, trigger};
use super::{Object, Stored, texts};
use crate::definition::{Output, Spec, Step, Test, TestSuite};

pub(super) fn test(out: &mut Object, test: &Test, stored: &Stored) {
    out.maybe("createdAt", stored.created_at.clone());
    out.filled("name", &test.name);
    out.filled("description", &test.description);
    out.maybe("version", stored.version);
    out.put("trigger", trigger(test.trigger.as_ref()));
    out.list("specs", test.specs.iter().map(spec).collect());
    out.list("outputs", test.outputs.iter().map(output).collect());
    out.maybe("summary", stored.summary.clone());
    out.flag("skipTraceCollection", test.skip_trace_collection);
    out.maybe("pollingProfile", test.polling_profile.as_ref().map(|id| id.value.clone()));
    out.maybe("retries", Some(test.attempts.retries).filter(|retries| *retries > 0));
    out.maybe("repeat", Some(test.attempts.repeat).filter(|repeat| *repeat > 1));
}

pub(super) fn suite(out: &mut Object, suite: &TestSuite, stored: &Stored) {
    out.maybe("createdAt", stored.created_at.clone());
    out.put("name", suite.name.clone());
    out.put("description", suite.description.clone());
    out.maybe("version", stored.version);
    out.list("setup", suite.setup.iter().map(step).collect());
    out.put("steps", suite.steps.iter().map(step).collect::<Vec<_>>());
    out.list("teardown", suite.teardown.iter().map(step).collect());
    if let Some(data) = &suite.data {
        let mut table = Object::default();
        table.list("rows", data.rows.iter().map(|row| pairs(row).into()).collect());
        table.filled("csv", data.csv.as_ref().map_or("", |csv| &csv.value));
        out.put("data", table);
    }
    out.list("fullSteps", stored.full_steps.clone().unwrap_or_default());
    out.maybe("summary", stored.summary.clone());
}

/// A step: the test alone, as clients have always known it, unless there is more to say.
fn step(step: &Step) -> Value {
    if *step == (Step { test: step.test.clone(), ..Step::default() }) {
        return step.test.value.clone().into();
    }
    let mut out = Object::default();
    out.put("test", step.test.value.clone());
    out.filled("name", step.name.as_ref().map_or("", |name| &name.value));
    out.maybe("dependsOn", step.depends_on.as_deref().map(texts));
    out.maybe("timeout", period(step.timeout.as_ref()));
    out.into()
}

fn spec(spec: &Spec) -> Value {
    let mut out = Object::default();
    out.put("selector", spec.selector.value.clone());
    out.filled("name", spec.name.as_deref().unwrap_or_default());
    out.put("assertions", texts(&spec.assertions));
    out.into()
}

fn output(output: &Output) -> Value {
    let mut out = Object::default();
    out.put("name", output.name.value.clone());
    out.put("selector", output.selector.value.clone());
    out.put("value", output.value.value.clone());
    out.into()
}
