//! JSON shapes of tests and suites.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::settings::ProfileSpec;
use crate::definition::period;
use crate::definition::shape::{Pairs, is_blank, texts};
use crate::definition::stored::{Stored, Summary};
use crate::definition::trigger::TriggerSpec;
use crate::definition::{Output, Spec, Step, Test, TestSuite};

/// A test.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TestSpec<'a> {
    #[serde(skip_serializing_if = "is_blank")]
    id: &'a str,
    /// Only with the augmented header.
    #[serde(skip_serializing_if = "is_blank")]
    created_at: Option<&'a str>,
    #[serde(skip_serializing_if = "is_blank")]
    name: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    description: &'a str,
    /// Only with the augmented header.
    #[serde(skip_serializing_if = "is_blank")]
    version: Option<u32>,
    trigger: TriggerSpec<'a>,
    #[serde(skip_serializing_if = "is_blank")]
    specs: Vec<SpanSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    outputs: Vec<OutputSpec<'a>>,
    /// Only with the augmented header.
    #[serde(skip_serializing_if = "is_blank")]
    summary: Option<&'a Summary>,
    #[serde(skip_serializing_if = "is_blank")]
    skip_trace_collection: bool,
    #[serde(skip_serializing_if = "is_blank")]
    polling_profile: Option<ProfileSpec<'a>>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    uninstrumented: &'a [String],
    #[serde(skip_serializing_if = "is_blank")]
    retries: u32,
    #[serde(skip_serializing_if = "is_blank")]
    repeat: Option<u32>,
}

impl<'a> TestSpec<'a> {
    pub(super) fn of(id: &'a str, test: &'a Test, stored: &'a Stored) -> Self {
        Self {
            id,
            created_at: stored.created_at.as_deref(),
            name: &test.name,
            description: &test.description,
            version: stored.version,
            trigger: TriggerSpec::of(test.trigger.as_ref()),
            specs: test.specs.iter().map(SpanSpec::of).collect(),
            outputs: test.outputs.iter().map(OutputSpec::of).collect(),
            summary: stored.summary.as_ref(),
            skip_trace_collection: test.skip_trace_collection,
            polling_profile: test.polling_profile.as_ref().map(ProfileSpec::of),
            uninstrumented: &test.uninstrumented,
            retries: test.attempts.retries,
            repeat: Some(test.attempts.repeat).filter(|repeat| *repeat > 1),
        }
    }
}

/// A suite of tests.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TestSuiteSpec<'a> {
    #[serde(skip_serializing_if = "is_blank")]
    id: &'a str,
    /// Only with the augmented header.
    #[serde(skip_serializing_if = "is_blank")]
    created_at: Option<&'a str>,
    name: &'a str,
    description: &'a str,
    /// Only with the augmented header.
    #[serde(skip_serializing_if = "is_blank")]
    version: Option<u32>,
    #[serde(skip_serializing_if = "is_blank")]
    setup: Vec<StepSpec<'a>>,
    /// Null if there are none, as older clients expect.
    steps: Option<Vec<StepSpec<'a>>>,
    #[serde(skip_serializing_if = "is_blank")]
    teardown: Vec<StepSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    data: Option<TableSpec<'a>>,
    /// Only with the augmented header.
    #[serde(skip_serializing_if = "is_blank")]
    #[schemars(with = "Vec<TestSpec<'_>>")]
    full_steps: &'a [Value],
    /// Only with the augmented header.
    #[serde(skip_serializing_if = "is_blank")]
    summary: Option<&'a Summary>,
}

impl<'a> TestSuiteSpec<'a> {
    pub(super) fn of(id: &'a str, suite: &'a TestSuite, stored: &'a Stored) -> Self {
        let steps = |steps: &'a [Step]| steps.iter().map(StepSpec::of).collect::<Vec<_>>();
        Self {
            id,
            created_at: stored.created_at.as_deref(),
            name: &suite.name,
            description: &suite.description,
            version: stored.version,
            setup: steps(&suite.setup),
            steps: Some(steps(&suite.steps)).filter(|steps| !steps.is_empty()),
            teardown: steps(&suite.teardown),
            data: suite.data.as_ref().map(|data| TableSpec {
                rows: data.rows.iter().map(|row| Pairs::of(row)).collect(),
                csv: data.csv.as_ref().map_or("", |csv| &csv.value),
            }),
            full_steps: stored.full_steps.as_deref().unwrap_or_default(),
            summary: stored.summary.as_ref(),
        }
    }
}

/// A step: the test alone, as older clients expect, or an object if it has further keys.
#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
enum StepSpec<'a> {
    Test(&'a str),
    #[serde(rename_all = "camelCase")]
    More {
        test: &'a str,
        #[serde(skip_serializing_if = "is_blank")]
        name: &'a str,
        #[serde(skip_serializing_if = "is_blank")]
        depends_on: Option<Vec<&'a str>>,
        #[serde(skip_serializing_if = "is_blank")]
        timeout: Option<&'a str>,
    },
}

impl<'a> StepSpec<'a> {
    fn of(step: &'a Step) -> Self {
        if *step == (Step { test: step.test.clone(), ..Step::default() }) {
            return Self::Test(&step.test.value);
        }
        Self::More {
            test: &step.test.value,
            name: step.name.as_ref().map_or("", |name| &name.value),
            depends_on: step.depends_on.as_deref().map(texts),
            timeout: period::text(step.timeout.as_ref()),
        }
    }
}

/// The values that a suite is run with, one row after the other.
#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TableSpec<'a> {
    #[serde(skip_serializing_if = "is_blank")]
    rows: Vec<Pairs<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    csv: &'a str,
}

/// Assertions about the spans that a selector selects.
#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SpanSpec<'a> {
    selector: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    name: &'a str,
    assertions: Vec<&'a str>,
}

impl<'a> SpanSpec<'a> {
    fn of(spec: &'a Spec) -> Self {
        Self {
            selector: &spec.selector.value,
            name: spec.name.as_deref().unwrap_or_default(),
            assertions: texts(&spec.assertions),
        }
    }
}

/// An output of a run.
#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OutputSpec<'a> {
    name: &'a str,
    selector: &'a str,
    value: &'a str,
}

impl<'a> OutputSpec<'a> {
    fn of(output: &'a Output) -> Self {
        Self { name: &output.name.value, selector: &output.selector.value, value: &output.value.value }
    }
}
