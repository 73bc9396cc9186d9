//! Writing tests and suites.

use serde_json::Value;

use super::trigger::trigger;
use super::{Object, Stored, texts};
use crate::definition::{Output, Spec, Test, TestSuite};

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
}

pub(super) fn suite(out: &mut Object, suite: &TestSuite, stored: &Stored) {
    out.maybe("createdAt", stored.created_at.clone());
    out.put("name", suite.name.clone());
    out.put("description", suite.description.clone());
    out.maybe("version", stored.version);
    out.put("steps", texts(&suite.steps));
    out.list("fullSteps", stored.full_steps.clone().unwrap_or_default());
    out.maybe("summary", stored.summary.clone());
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
