//! Triggers against real servers and real commands.

pub(crate) mod certificates;
mod cluster;
mod exec;
mod gate;
mod graphql;
mod grpc;
mod http;
mod kafka;
mod late;
mod methods;
mod peer;
mod proxy;
mod results;
mod texts;
mod trying;
mod web;

use qualitytrace_core::budget::Budget;
use qualitytrace_core::definition::{self, Format, Kind, Resource, Test, Trigger};
use qualitytrace_core::lang::{Generator, resolve_text};
use qualitytrace_core::run::Reply;
use qualitytrace_server::base::clock;
use qualitytrace_server::base::limits::Limits;
use qualitytrace_server::outbound::trigger::{Context, TriggerError, Triggers};

const TRACE: &str = "5b8efff798038103d269b633813fc60c";
const SPAN: &str = "eee19b7ec3c1b174";

/// Reads a trigger, with these variables resolved.
fn trigger(yaml: &str, variables: &[(&str, &str)]) -> Trigger {
    let indented = yaml.replace('\n', "\n    ");
    let source = format!("type: Test\nspec:\n  name: T\n  trigger:\n    {indented}\n");
    let test = test(&source, Format::Yaml);
    // The stored form is equal to the written one.
    let stored = definition::to_json(&Resource::Test(test.clone())).to_string();
    assert_eq!(self::test(&stored, Format::Json).trigger, test.trigger, "{stored}");
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let mut generator = Generator::in_utc(clock::now(), rand::random());
    test.trigger
        .unwrap()
        .resolved(|text| resolve_text(text, &variables, &mut generator, &Budget::default()))
        .unwrap()
}

fn test(source: &str, format: Format) -> Test {
    let reading = definition::read_as(source, format, Kind::Test);
    assert_eq!(reading.diagnostics, [], "{source}");
    match reading.documents.into_iter().next().map(|document| document.resource) {
        Some(Resource::Test(test)) => test,
        other => panic!("{other:?}"),
    }
}

async fn send(trigger: &Trigger) -> Result<Reply, TriggerError> {
    send_within(trigger, &Limits::default()).await
}

async fn send_within(trigger: &Trigger, limits: &Limits) -> Result<Reply, TriggerError> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Triggers::new(limits).send(trigger, &context()).await
}

fn context() -> Context {
    Context { trace: TRACE.parse().unwrap(), span: SPAN.parse().unwrap(), baggage: String::new() }
}
