//! Filters of sinks by target.

use std::{collections::BTreeSet, time::Duration};

use qualitytrace_telemetry::{
    Recorded, Suppressed, Telemetry,
    config::{Level, Severity, Target, Transport},
};

use crate::{
    basics::{config, sink, under},
    config::read,
    receiver::{Got, Receiver},
};

fn target(target: &str, level: Level) -> Target {
    Target::new(target, level)
}

/// Nested spans of the application, of a transport crate, and of a noisy crate.
fn work() {
    tracing::info_span!(target: "app", "app").in_scope(|| {
        tracing::info_span!(target: "h2::codec", "h2").in_scope(|| {
            tracing::info_span!(target: "noisy::inner", "noisy").in_scope(|| {
                tracing::info_span!(target: "app::handler", "handler").in_scope(|| {
                    tracing::info!(target: "app::handler", "done");
                    tracing::error!(target: "hyper::proto", "lost");
                    tracing::info!(target: "noisy", "noise");
                    tracing::debug!(target: "app::detail", "detail");
                });
            });
        });
    });
}

fn names(got: &Got) -> BTreeSet<String> {
    let logs = got.logs.iter().map(|log| format!("{:?}", log.body));
    let known = ["done", "lost", "noise", "detail"];
    let logs = logs.flat_map(|body| known.into_iter().filter(move |name| body.contains(name)));
    let events = got.spans.iter().flat_map(|span| &span.events).map(|event| format!("event {}", event.name));
    let spans = got.spans.iter().map(|span| span.name.clone());
    spans.chain(logs.map(str::to_owned)).chain(events).collect()
}

/// Whether every parent of a span is among the spans.
fn is_whole(got: &Got) -> bool {
    let ids: BTreeSet<&[u8]> = got.spans.iter().map(|span| span.span_id.as_slice()).collect();
    got.spans
        .iter()
        .all(|span| span.parent_span_id.is_empty() || ids.contains(span.parent_span_id.as_slice()))
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn crates_that_carry_bytes_are_off_at_every_level() {
    let receiver = Receiver::start();
    let mut one = sink("one", &receiver.url(), Transport::Grpc);
    one.level = Level::Trace;
    let telemetry = Telemetry::start(config(None, vec![one])).unwrap();
    under(&telemetry, work);
    telemetry.shutdown(Duration::from_secs(10));
    let got = receiver.stop();
    let expected =
        ["app", "noisy", "handler", "done", "noise", "detail", "event done", "event noise", "event detail"];
    assert_eq!(names(&got), set(&expected));
    assert!(is_whole(&got), "{:?}", got.spans);
}

#[test]
fn each_sink_decides_by_targets_for_itself() {
    let receivers = [(); 3].map(|()| Receiver::start());
    let mut sinks = ["curious", "quiet", "plain"]
        .into_iter()
        .zip(&receivers)
        .map(|(id, receiver)| sink(id, &receiver.url(), Transport::Http))
        .collect::<Vec<_>>();
    sinks[0].targets = vec![target("h2", Level::Trace), target("app::detail", Level::Debug)];
    sinks[1].targets = vec![target("noisy", Level::Disable)];
    let telemetry = Telemetry::start(config(None, sinks.clone())).unwrap();
    under(&telemetry, work);
    let status = telemetry.shutdown(Duration::from_secs(10));
    assert!(status.holds(), "{}", status.render());
    let [curious, quiet, plain] = receivers.map(Receiver::stop);
    let all = ["app", "noisy", "handler", "done", "noise", "event done", "event noise"];
    assert_eq!(names(&curious), &set(&all) | &set(&["h2", "detail", "event detail"]));
    assert_eq!(names(&quiet), set(&["app", "handler", "done", "event done"]));
    assert_eq!(names(&plain), set(&all));
    for got in [&curious, &quiet, &plain] {
        assert!(is_whole(got), "no span points to one that the sink does not have: {:?}", got.spans);
    }
}

#[test]
fn a_single_sink_keeps_the_order_of_what_it_names() {
    let receiver = Receiver::start();
    let mut one = sink("one", &receiver.url(), Transport::Http);
    one.targets = vec![target("h2", Level::Trace)];
    let telemetry = Telemetry::start(config(None, vec![one])).unwrap();
    under(&telemetry, work);
    telemetry.shutdown(Duration::from_secs(10));
    let got = receiver.stop();
    let span = |name: &str| got.spans.iter().find(|span| span.name == name).unwrap();
    assert_eq!(span("noisy").parent_span_id, span("h2").span_id);
    assert_eq!(span("h2").parent_span_id, span("app").span_id);
}

#[test]
fn targets_are_read_from_every_dialect() {
    let toml =
        "[tracer.a]\ntype = \"otel\"\ntransport = \"grpc\"\ntargets = [\"h2=debug\", \"app::x = warn\"]\n";
    let (config, diagnostics) = read(
        &[("t.toml", toml)],
        &[],
        &[("tracer.b.type", "otel"), ("tracer.b.transport", "grpc"), ("tracer.b.targets", "h2=off")],
    );
    assert_eq!(config.sinks[0].targets, [target("h2", Level::Debug), target("app::x", Level::Warn)]);
    assert!(config.render().contains("h2=debug, app::x=warn"), "{}", config.render());
    let said: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!(diagnostics.len(), 1, "{said:?}");
    assert_eq!(diagnostics[0].severity, Severity::Error);
    assert!(said[0].contains("`tracer.b.targets` cannot be `h2=off`"), "{said:?}");
}

#[test]
fn the_handler_on_a_connection_that_is_not_recorded_is() {
    let receiver = Receiver::start();
    let telemetry =
        Telemetry::start(config(None, vec![sink("one", &receiver.url(), Transport::Http)])).unwrap();
    under(&telemetry, || {
        let connection = Suppressed::new(async {
            drop(tracing::info_span!("connection"));
            Recorded::new(async { drop(tracing::info_span!("handler")) }).await;
            drop(tracing::info_span!("connection"));
        });
        futures_util::FutureExt::now_or_never(connection).unwrap();
    });
    telemetry.shutdown(Duration::from_secs(10));
    let names: Vec<String> = receiver.stop().spans.into_iter().map(|span| span.name).collect();
    assert_eq!(names, ["handler"]);
}
