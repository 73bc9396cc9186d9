//! Metrics of the crate itself: `otel.sdk.*`, the ledger and the process.

#[cfg(target_os = "linux")]
mod process;

use std::sync::{Arc, Weak, atomic::Ordering::Relaxed};

use opentelemetry::{KeyValue, metrics::Meter};

use crate::{
    config::{Signal, Transport},
    layer::Shared,
    ledger::Balance,
    sinks::Handle,
};

/// Registers the instruments. They hold only weak references to the sinks.
pub(crate) fn observe(meter: &Meter, shared: &Arc<Shared>) {
    spans(meter, shared);
    for signal in Signal::ALL {
        exporter(meter, shared, signal);
    }
    ledger(meter, shared);
    // Elsewhere there is no `/proc`, and nothing is reported.
    #[cfg(target_os = "linux")]
    process::observe(meter);
}

fn spans(meter: &Meter, shared: &Arc<Shared>) {
    let weak = Arc::downgrade(shared);
    meter
        .u64_observable_counter("otel.sdk.span.started")
        .with_unit("{span}")
        .with_description("Spans that were begun")
        .with_callback(move |observer| {
            if let Some(shared) = weak.upgrade() {
                observer.observe(shared.started.load(Relaxed), &[]);
            }
        })
        .build();
    let weak = Arc::downgrade(shared);
    meter
        .i64_observable_up_down_counter("otel.sdk.span.live")
        .with_unit("{span}")
        .with_description("Spans that have begun and not ended")
        .with_callback(move |observer| {
            if let Some(shared) = weak.upgrade() {
                observer.observe(i64::try_from(shared.live.load(Relaxed)).unwrap_or(0), &[]);
            }
        })
        .build();
}

/// The OpenTelemetry component attributes of a sink.
fn component(handle: &Handle) -> [KeyValue; 2] {
    let kind = match handle.sink.transport {
        Transport::Grpc => "otlp_grpc_exporter",
        Transport::Http => "otlp_http_exporter",
    };
    [KeyValue::new("otel.component.type", kind), KeyValue::new("otel.component.name", handle.sink.id.clone())]
}

/// Calls `each` with every sink that carries the signal.
fn each(weak: &Weak<Shared>, signal: Signal, mut each: impl FnMut(&Handle, Balance)) {
    if let Some(shared) = weak.upgrade() {
        for handle in shared.sinks.get().sinks.iter().filter(|handle| handle.carries(signal)) {
            each(handle, handle.queue.ledger.balance(signal));
        }
    }
}

fn exporter(meter: &Meter, shared: &Arc<Shared>, signal: Signal) {
    let (noun, unit) = match signal {
        Signal::Traces => ("span", "{span}"),
        Signal::Metrics => ("metric_data_point", "{data_point}"),
        Signal::Logs => ("log", "{log_record}"),
    };
    let weak = Arc::downgrade(shared);
    meter
        .u64_observable_counter(format!("otel.sdk.exporter.{noun}.exported"))
        .with_unit(unit)
        .with_description("Items whose export is finished; error.type is set for those that failed")
        .with_callback(move |observer| {
            each(&weak, signal, |handle, balance| {
                let component = component(handle);
                observer.observe(balance.exported, &component);
                let failures = balance.dropped.by_reason().map(|(loss, n)| (loss.name(), n));
                for (name, n) in
                    failures.into_iter().chain([("rejected", balance.rejected)]).filter(|(_, n)| *n > 0)
                {
                    let mut attributes = component.to_vec();
                    attributes.push(KeyValue::new("error.type", name));
                    observer.observe(n, &attributes);
                }
            });
        })
        .build();
    let weak = Arc::downgrade(shared);
    meter
        .i64_observable_up_down_counter(format!("otel.sdk.exporter.{noun}.inflight"))
        .with_unit(unit)
        .with_description("Items in requests without an answer")
        .with_callback(move |observer| {
            each(&weak, signal, |handle, balance| {
                observer.observe(i64::try_from(balance.in_flight).unwrap_or(0), &component(handle));
            });
        })
        .build();
    if signal == Signal::Metrics {
        return;
    }
    let weak = Arc::downgrade(shared);
    meter
        .i64_observable_up_down_counter(format!("otel.sdk.processor.{noun}.queue.size"))
        .with_unit(unit)
        .with_description("Items that wait in memory or on disk")
        .with_callback(move |observer| {
            each(&weak, signal, |handle, balance| {
                observer.observe(i64::try_from(balance.queued).unwrap_or(0), &component(handle));
            });
        })
        .build();
    let weak = Arc::downgrade(shared);
    meter
        .i64_observable_up_down_counter(format!("otel.sdk.processor.{noun}.queue.capacity"))
        .with_unit(unit)
        .with_description("Items that the memory queue holds at most")
        .with_callback(move |observer| {
            each(&weak, signal, |handle, _| {
                let capacity = handle.sink.limits.queue_items;
                observer.observe(i64::try_from(capacity).unwrap_or(i64::MAX), &component(handle));
            });
        })
        .build();
}

fn ledger(meter: &Meter, shared: &Arc<Shared>) {
    let weak = Arc::downgrade(shared);
    meter
        .u64_observable_counter("telemetry.items")
        .with_unit("{item}")
        .with_description("Items per sink and signal by what became of them")
        .with_callback(move |observer| {
            for signal in Signal::ALL {
                each(&weak, signal, |handle, balance| {
                    let mut states = vec![
                        ("created", balance.created),
                        ("recovered", balance.recovered),
                        ("sampled_out", balance.sampled_out),
                        ("exported", balance.exported),
                        ("rejected", balance.rejected),
                    ];
                    states.extend(balance.dropped.by_reason().map(|(loss, n)| (loss.name(), n)));
                    for (state, n) in states {
                        observer.observe(n, &labels(handle, signal, state));
                    }
                });
            }
        })
        .build();
    let weak = Arc::downgrade(shared);
    meter
        .u64_observable_gauge("telemetry.items.waiting")
        .with_unit("{item}")
        .with_description("Items per sink and signal that are queued or in flight")
        .with_callback(move |observer| {
            for signal in Signal::ALL {
                each(&weak, signal, |handle, balance| {
                    observer.observe(balance.queued, &labels(handle, signal, "queued"));
                    observer.observe(balance.in_flight, &labels(handle, signal, "in_flight"));
                });
            }
        })
        .build();
    let weak = Arc::downgrade(shared);
    meter
        .u64_observable_gauge("telemetry.spool.size")
        .with_unit("By")
        .with_description("Bytes in the spool of a sink")
        .with_callback(move |observer| {
            let Some(shared) = weak.upgrade() else { return };
            for handle in &shared.sinks.get().sinks {
                if let Some(spool) = handle.queue.spool_status() {
                    observer.observe(spool.bytes, &[KeyValue::new("sink", handle.sink.id.clone())]);
                }
            }
        })
        .build();
}

fn labels(handle: &Handle, signal: Signal, state: &'static str) -> [KeyValue; 3] {
    [
        KeyValue::new("sink", handle.sink.id.clone()),
        KeyValue::new("signal", signal.name()),
        KeyValue::new("state", state),
    ]
}

/// Metrics of the embedding server's tokio runtime.
pub(crate) fn runtime(meter: &Meter, handle: &tokio::runtime::Handle) {
    let metrics = handle.metrics();
    let number = |n: usize| u64::try_from(n).unwrap_or(0);
    let of = metrics.clone();
    meter
        .u64_observable_gauge("tokio.workers")
        .with_description("Worker threads of the runtime")
        .with_callback(move |observer| observer.observe(number(of.num_workers()), &[]))
        .build();
    let of = metrics.clone();
    meter
        .u64_observable_gauge("tokio.tasks.alive")
        .with_description("Tasks that are not finished")
        .with_callback(move |observer| observer.observe(number(of.num_alive_tasks()), &[]))
        .build();
    meter
        .u64_observable_gauge("tokio.queue.depth")
        .with_description("Tasks in the runtime's global queue")
        .with_callback(move |observer| observer.observe(number(metrics.global_queue_depth()), &[]))
        .build();
}
