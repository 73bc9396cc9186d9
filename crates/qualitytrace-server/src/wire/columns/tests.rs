//! A follower that reads a table while it grows has what the core's tree says.

use std::sync::Arc;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1 as otlp;
use proptest::prelude::*;
use prost::Message as _;
use qualitytrace_core::id::TraceId;
use qualitytrace_core::trace::{Attributes, Dropped, Resource, Scope, Span, Trace};

use super::*;
use crate::receive::columns::Columns as Table;
use crate::receive::otlp::convert;

/// The rows that a follower knows: id and parent of each.
#[derive(Debug, Default)]
struct Follower {
    rows: Vec<(String, i64)>,
    revision: Option<Timestamp>,
}

impl Follower {
    fn read(&mut self, table: &Table) {
        let asked = ColumnsQuery { from: self.rows.len(), revision: self.revision, judged: None };
        let read = Columns::of(table, asked, &Redactor::default());
        assert!(read.from <= self.rows.len(), "no row is skipped");
        self.rows.truncate(read.from);
        let ids = read.ids.as_bytes().chunks(16).map(|id| String::from_utf8_lossy(id).into_owned());
        self.rows.extend(ids.zip(read.parent));
        for (row, parent) in read.adopted {
            self.rows[row].1 = i64::try_from(parent).unwrap();
        }
        assert_eq!(self.rows.len(), read.total);
        self.revision = Some(Timestamp::from_nanos(read.revision.parse().unwrap()));
    }
}

fn trigger() -> Span {
    Span {
        id: SpanId::from_slice(&[1; 8]),
        parent: None,
        name: "trigger".into(),
        kind: SpanKind::Unspecified,
        start: Timestamp::from_nanos(1),
        end: None,
        status: None,
        attributes: Attributes::default(),
        events: Vec::new(),
        links: Vec::new(),
        resource: Arc::new(Resource::default()),
        scope: Arc::new(Scope::default()),
        trace_state: "".into(),
        flags: 0,
        dropped: Dropped::default(),
    }
}

prop_compose! {
    fn delivery()(
        spans in prop::collection::vec((0..7_u8, 0..7_u8, 0..5_i32, 1..9_u64), 0..4), service in 0..3_u8,
    ) -> ExportTraceServiceRequest {
        let span = |(id, parent, kind, start): (u8, u8, i32, u64)| otlp::Span {
            trace_id: vec![1; 16],
            span_id: vec![id; 8],
            parent_span_id: vec![parent; 8],
            kind,
            start_time_unix_nano: start,
            ..otlp::Span::default()
        };
        let scope_spans = vec![otlp::ScopeSpans { spans: spans.into_iter().map(span).collect(), ..Default::default() }];
        let attributes = vec![opentelemetry_proto::tonic::common::v1::KeyValue {
            key: "service.name".to_owned(),
            value: Some(opentelemetry_proto::tonic::common::v1::AnyValue {
                value: Some(opentelemetry_proto::tonic::common::v1::any_value::Value::StringValue(service.to_string())),
            }),
            ..Default::default()
        }];
        let resource = Some(opentelemetry_proto::tonic::resource::v1::Resource { attributes, ..Default::default() });
        ExportTraceServiceRequest { resource_spans: vec![otlp::ResourceSpans { resource, scope_spans, ..Default::default() }] }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn a_follower_knows_the_tree_of_the_core(
        deliveries in prop::collection::vec((delivery(), any::<bool>(), any::<bool>()), 1..8), has_trigger: bool,
    ) {
        let id = TraceId::from_bytes([1; 16]).unwrap();
        let root = has_trigger.then(trigger);
        let head = root.as_ref().map(crate::receive::columns::head);
        let mut table = Table::new(id, head.as_ref());
        let (mut eager, mut lazy) = (Follower::default(), Follower::default());
        for (at, (request, ends, reads)) in deliveries.iter().enumerate() {
            table.deliver(Timestamp::from_nanos(at as u64 + 1), &request.encode_to_vec()).unwrap();
            if *ends {
                table.finish();
                eager.read(&table);
                if *reads {
                    lazy.read(&table);
                }
            }
        }
        table.finish();
        eager.read(&table);
        lazy.read(&table);

        let spans = deliveries.iter().flat_map(|(request, ..)| convert::spans(request.clone())).map(|(_, span)| span);
        let trace = Trace::assemble(id, spans);
        let trace = match root {
            Some(root) => trace.with_trigger(root),
            None => trace,
        };
        let mut expected: Vec<(usize, String, i64)> = (0..trace.spans().len())
            .map(|at| {
                let shown = trace.span(at).id.map_or_else(|| "0".repeat(16), |id| id.to_string());
                let parent = trace.parent(at).map_or(-1, |parent| i64::try_from(trace.row(parent)).unwrap());
                (trace.row(at), shown, parent)
            })
            .collect();
        expected.sort_unstable();
        // Copies of the trigger's span are no rows of their own.
        let expected: Vec<(String, i64)> = expected.into_iter().map(|(_, id, parent)| (id, parent)).collect();
        prop_assert_eq!(&eager.rows, &expected);
        prop_assert_eq!(&lazy.rows, &expected);
    }
}
