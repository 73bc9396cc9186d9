//! Fuzzes what data stores answer with any bytes: no panic, and what is read can be stored. The first byte chooses the
//! store.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use prost::Message as _;
use qualitytrace_fuzz::on_a_small_stack;
use qualitytrace_server::outbound::data_store::StoreAnswer;
use qualitytrace_server::receive::ingest::Budget;
use qualitytrace_server::receive::otlp::wire::split_traces;

const STORES: [(StoreAnswer, &str); 9] = [
    (StoreAnswer::Tempo, "application/json"),
    (StoreAnswer::Tempo, "application/protobuf"),
    (StoreAnswer::OpenSearch, "application/json"),
    (StoreAnswer::ElasticApm, "application/json"),
    (StoreAnswer::SignalFx, "application/json"),
    (StoreAnswer::ClickHouse, "application/json"),
    (StoreAnswer::Azure, "application/json"),
    (StoreAnswer::SumoLogic, "application/json"),
    (StoreAnswer::XRay, "application/json"),
];

fuzz_target!(|input: &[u8]| {
    on_a_small_stack(|| {
        let Some((first, answer)) = input.split_first() else { return };
        let (store, content_type) = STORES[usize::from(*first) % STORES.len()];
        let Ok(spans) = store.read(content_type, Bytes::copy_from_slice(answer)) else { return };
        let mut lease = Budget::new(1 << 30).lease().expect("there is room");
        // Spans without a trace are refused one by one; the rest is stored.
        let _ = split_traces(&spans.encode_to_vec().into(), &mut lease);
    });
});
