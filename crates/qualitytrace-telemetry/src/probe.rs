//! Probes of a sink's receiver: one span, one data point and one log record.

use std::time::Instant;

use bytes::BytesMut;
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Metric, NumberDataPoint, metric::Data, number_data_point::Value as Number,
};
use opentelemetry_sdk::trace::{IdGenerator as _, RandomIdGenerator};
use prost::Message as _;

use crate::{
    attributes::{Attributes, Value},
    clock,
    config::{self, Level, Signal},
    encode::{self, View},
    item::{self, Item},
    record::Record,
    sinks::Handle,
    span::{Log, Span, Status},
    status::Probe,
    transport::{Answer, Transport},
};

const NAME: &str = "telemetry test";

pub(crate) async fn send(handle: &Handle) -> Vec<Probe> {
    let transport = Transport::new(&handle.sink);
    let mut probes = Vec::new();
    for (signal, endpoint) in &handle.sink.endpoints {
        let request = item::request(&handle.resource, "", &[probe(*signal, handle)]);
        let started = Instant::now();
        let answer = match &transport {
            Ok(transport) => transport.send(*signal, request).await,
            Err(reason) => Err(reason.clone()),
        };
        let answer = answer.unwrap_or_else(|reason| Answer::Retry { after: None, reason });
        let (ok, answer) = match answer {
            Answer::Accepted { rejected: 0, message } if message.is_empty() => (true, "accepted".to_owned()),
            Answer::Accepted { rejected: 0, message } => {
                (true, format!("accepted with a warning: {message}"))
            }
            Answer::Accepted { message, .. } => (false, format!("rejected: {message}")),
            Answer::Retry { reason, .. } => (false, format!("not now: {reason}")),
            Answer::Refused { reason } | Answer::Unauthorized { reason } | Answer::TooLarge { reason } => {
                (false, format!("refused: {reason}"))
            }
        };
        let millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        probes.push(Probe {
            sink: handle.sink.id.clone(),
            signal: *signal,
            endpoint: config::shown(endpoint),
            ok,
            answer,
            millis,
        });
    }
    probes
}

fn probe(signal: Signal, handle: &Handle) -> Item {
    let scope = encode::scope(env!("CARGO_PKG_NAME"), Some(env!("CARGO_PKG_VERSION")));
    let view = View::new(Level::Trace, Vec::new(), Vec::new());
    let ids = RandomIdGenerator::default();
    let time = clock::now();
    let mut attributes = Attributes::default();
    attributes.put("telemetry.test", &Value::Bool(true));
    let item = |record: &Record| view.item(&record.head, &record.bytes, &scope, &mut BytesMut::new());
    match signal {
        Signal::Traces => {
            let ids = (ids.new_trace_id(), ids.new_span_id());
            let mut span = Span::new(handle.sink.role, Level::Error, ids, NAME.into(), time);
            span.end = clock::now();
            span.attributes = attributes;
            span.status = Status::Ok;
            item(&span.record())
        }
        Signal::Logs => {
            let log = Log {
                level: Level::Info,
                time,
                name: NAME,
                target: env!("CARGO_PKG_NAME"),
                body: Some(NAME.to_owned()),
                attributes,
                context: None,
            };
            item(&log.record())
        }
        Signal::Metrics => {
            let point = NumberDataPoint {
                time_unix_nano: time,
                value: Some(Number::AsInt(1)),
                ..NumberDataPoint::default()
            };
            let metric = Metric {
                name: "telemetry.test".to_owned(),
                data: Some(Data::Gauge(Gauge { data_points: vec![point] })),
                ..Metric::default()
            };
            Item { signal, count: 1, time, scope, body: metric.encode_to_vec().into() }
        }
    }
}
