//! Kafka triggers: one message to a topic.
//!
//! It takes up to four kinds of requests: two to log in, one for the leader of the partition, one to produce the
//! message. All connections pass the gate, also the one to a leader whose address a broker advertises.

mod broker;

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    ApiKey, MetadataRequest, MetadataResponse, ProduceRequest, ProduceResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records::{
    Compression, NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, Record,
    RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};
use qualitytrace_core::definition::trigger::Kafka;
use qualitytrace_core::run::Reply;

use super::connect::{Gate, Security};
use super::failure::{Endpoint, Reason, Role, TriggerError};
use super::progress;
use super::propagation::Context;
use crate::base::clock;
use broker::Broker;

/// Default timeout of the whole trigger.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Attempts for a topic that is being created, or that changes its leader.
const ATTEMPTS: usize = 6;
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(250);
/// The version of each request: the oldest that all brokers since Kafka 1.0 support and that has all needed fields.
const METADATA: i16 = 4;
const PRODUCE: i16 = 3;
/// The default port of brokers.
const PORT: u16 = 9092;
const SETTING: &str = "the trigger's `brokerUrls`";

/// Sends the message of a trigger and waits until the broker acknowledges it.
pub(super) async fn send(message: &Kafka, context: &Context, gate: &Gate) -> Result<Reply, TriggerError> {
    let brokers: Vec<Endpoint> =
        message.broker_urls.iter().map(|url| endpoint(&url.value)).collect::<Result<_, _>>()?;
    let Some(first) = brokers.first() else {
        return Err(TriggerError::invalid(
            "the trigger names no broker; write host:port under its `brokerUrls`",
        ));
    };
    if message.topic.is_empty() {
        return Err(TriggerError::invalid(
            "the trigger names no topic; write its name as the trigger's `topic`",
        ));
    }
    let timeout = message.timeout.as_ref().map_or(TIMEOUT, |timeout| timeout.duration);
    let sent = progress::within(timeout, first, deliver(message, context, &brokers, timeout, gate)).await;
    sent.map_err(|failure| match failure.reason {
        Reason::Timeout => failure.and(", or check that it is a Kafka broker"),
        _ => failure,
    })
}

async fn deliver(
    message: &Kafka,
    context: &Context,
    brokers: &[Endpoint],
    timeout: Duration,
    gate: &Gate,
) -> Result<Reply, TriggerError> {
    let security = if message.tls.is_some() || message.ssl_verification {
        Security::Tls(gate.certificates(message.tls.as_ref(), message.ssl_verification))
    } else {
        Security::Plain
    };
    let mut broker = any_of(brokers, message, &security, timeout, gate).await?;
    let records = records(message, context)?;
    let mut last = None;
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        let cluster = metadata(&mut broker, &message.topic.value).await?;
        let (partition, leader) = match target(&cluster, message, &broker.endpoint) {
            Ok(target) => target,
            Err(ProduceError::Passing(failure)) => {
                last = Some(failure);
                continue;
            }
            Err(ProduceError::Final(failure)) => return Err(failure),
        };
        if leader != broker.endpoint {
            let named_by = broker.endpoint;
            broker = Broker::connect(&leader, &security, message.authentication.as_ref(), gate)
                .await
                .map_err(|failure| advertised(&failure, &named_by))?;
        }
        match produce(&mut broker, message, partition, records.clone()).await? {
            Ok(offset) => return Ok(Reply::Kafka { partition, offset }),
            Err(ProduceError::Passing(failure)) => last = Some(failure),
            Err(ProduceError::Final(failure)) => return Err(failure),
        }
    }
    Err(last.unwrap_or_else(|| broker.odd("it never says what became of the message")))
}

/// Connects to the first broker that can be reached; fails with the failure of the last. Each broker gets an equal
/// share of the timeout, and the last one what is left.
async fn any_of(
    brokers: &[Endpoint],
    message: &Kafka,
    security: &Security,
    timeout: Duration,
    gate: &Gate,
) -> Result<Broker, TriggerError> {
    let Some((last, others)) = brokers.split_last() else {
        return Err(TriggerError::invalid("the trigger names no broker"));
    };
    let connect = |endpoint| Broker::connect(endpoint, security, message.authentication.as_ref(), gate);
    let share = timeout / u32::try_from(brokers.len()).unwrap_or(u32::MAX);
    for endpoint in others {
        if let Ok(broker) = progress::within(share, endpoint, connect(endpoint)).await {
            return Ok(broker);
        }
    }
    connect(last).await
}

/// Adds which broker advertised an address that the user did not write.
fn advertised(failure: &TriggerError, named_by: &Endpoint) -> TriggerError {
    let message = format!(
        "{}; the broker at {named_by} names this address: check its `advertised.listeners`",
        failure.message
    );
    TriggerError { message, ..failure.clone() }
}

/// Why a broker does not accept a message.
enum ProduceError {
    /// It may be accepted soon.
    Passing(TriggerError),
    /// It will never be accepted.
    Final(TriggerError),
}

async fn metadata(broker: &mut Broker, topic: &str) -> Result<MetadataResponse, TriggerError> {
    let topic = MetadataRequestTopic::default().with_name(Some(name(topic)));
    let request =
        MetadataRequest::default().with_topics(Some(vec![topic])).with_allow_auto_topic_creation(true);
    broker.ask(ApiKey::Metadata, METADATA, &request).await
}

/// Returns the partition for the message, and its leader.
fn target(
    cluster: &MetadataResponse,
    message: &Kafka,
    asked: &Endpoint,
) -> Result<(i32, Endpoint), ProduceError> {
    let topic = cluster.topics.first().cloned().unwrap_or_else(MetadataResponseTopic::default);
    refused(topic.error_code, message, asked)?;
    let count = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
    if count == 0 {
        return refused(ResponseError::UnknownTopicOrPartition.code(), message, asked)
            .map(|()| (0, asked.clone()));
    }
    let index = partition(message.message_key.value.as_bytes(), count);
    let chosen = topic.partitions.iter().find(|known| known.partition_index == index);
    let leader =
        chosen.and_then(|chosen| cluster.brokers.iter().find(|known| known.node_id == chosen.leader_id));
    let Some(leader) = leader else {
        refused(ResponseError::LeaderNotAvailable.code(), message, asked)?;
        return Ok((index, asked.clone()));
    };
    let port = u16::try_from(leader.port).ok();
    Ok((index, Endpoint { role: Role::System, host: leader.host.to_string(), port, setting: SETTING }))
}

async fn produce(
    broker: &mut Broker,
    message: &Kafka,
    partition: i32,
    records: Bytes,
) -> Result<Result<i64, ProduceError>, TriggerError> {
    let data = PartitionProduceData::default().with_index(partition).with_records(Some(records));
    let topic =
        TopicProduceData::default().with_name(name(&message.topic.value)).with_partition_data(vec![data]);
    let request = ProduceRequest::default()
        // All in-sync replicas must acknowledge.
        .with_acks(-1)
        .with_timeout_ms(10_000)
        .with_topic_data(vec![topic]);
    let response: ProduceResponse = broker.ask(ApiKey::Produce, PRODUCE, &request).await?;
    let answer = response.responses.first().and_then(|topic| topic.partition_responses.first());
    let Some(answer) = answer else {
        return Err(broker.odd("it does not say what became of the message"));
    };
    let refused = refused(answer.error_code, message, &broker.endpoint).map_err(|refusal| match refusal {
        // The record is in the log of the leader. Sent again, it would be there twice.
        ProduceError::Passing(failure) if is_appended(answer.error_code) => {
            ProduceError::Final(failure.and("; the message may have been stored, so it is not sent again"))
        }
        refusal => refusal,
    });
    Ok(refused.map(|()| answer.base_offset))
}

/// Whether a broker refuses a message that it has in its log: too few replicas have it, or none said so in time.
fn is_appended(code: i16) -> bool {
    [ResponseError::RequestTimedOut, ResponseError::NotEnoughReplicasAfterAppend]
        .iter()
        .any(|error| error.code() == code)
}

/// Maps the error code of a broker to a refusal.
fn refused(code: i16, message: &Kafka, endpoint: &Endpoint) -> Result<(), ProduceError> {
    let Some(error) = ResponseError::try_from_code(code) else { return Ok(()) };
    let topic = &message.topic.value;
    let at = |reason: Reason, cause: String| TriggerError::at(endpoint, reason, &cause);
    Err(match error {
        ResponseError::UnknownTopicOrPartition => ProduceError::Passing(at(
            Reason::Missing,
            format!(
                "there is no topic `{topic}`, and it makes none by itself; create it or correct the `topic`"
            ),
        )),
        ResponseError::LeaderNotAvailable | ResponseError::NotLeaderOrFollower => ProduceError::Passing(at(
            Reason::Missing,
            format!("the topic `{topic}` has no leader at the moment"),
        )),
        ResponseError::TopicAuthorizationFailed | ResponseError::ClusterAuthorizationFailed => {
            ProduceError::Final(at(
                Reason::Credentials,
                format!("the user may not write to the topic `{topic}`"),
            ))
        }
        ResponseError::InvalidTopicException
        | ResponseError::MessageTooLarge
        | ResponseError::RecordListTooLarge
        | ResponseError::InvalidRecord => {
            ProduceError::Final(at(Reason::Invalid, format!("the broker refuses it for `{topic}`: {error}")))
        }
        other if other.is_retriable() => {
            ProduceError::Passing(at(Reason::Unreachable, format!("the broker answers: {other}")))
        }
        other => ProduceError::Final(at(Reason::Protocol, format!("the broker answers: {other}"))),
    })
}

/// Returns the partition for a key as Tracetest does, by FNV-1a: a key stays in the same partition.
fn partition(key: &[u8], count: i32) -> i32 {
    let hash =
        key.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    (hash.cast_signed() % count).abs()
}

/// Encodes the message as a batch of one record.
fn records(message: &Kafka, context: &Context) -> Result<Bytes, TriggerError> {
    let mut headers: IndexMap<StrBytes, Option<Bytes>> = IndexMap::new();
    for header in message.headers.iter().filter(|header| !header.key.is_empty()) {
        let value = Bytes::from(header.value.value.clone());
        headers.insert(StrBytes::from_string(header.key.value.clone()), Some(value));
    }
    for (name, value) in context.headers() {
        headers.insert(StrBytes::from_static_str(name), Some(value.into()));
    }
    let record = Record {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
        producer_id: NO_PRODUCER_ID,
        producer_epoch: NO_PRODUCER_EPOCH,
        timestamp_type: TimestampType::Creation,
        offset: 0,
        sequence: NO_SEQUENCE,
        timestamp: i64::try_from(clock::now().as_nanos() / 1_000_000).unwrap_or(i64::MAX),
        key: Some(message.message_key.value.clone().into()),
        value: Some(message.message_value.value.clone().into()),
        headers,
    };
    let mut bytes = bytes::BytesMut::new();
    let options = RecordEncodeOptions { version: 2, compression: Compression::None };
    RecordBatchEncoder::encode(&mut bytes, [&record], &options).map_err(|error| {
        TriggerError::invalid(format!("the message cannot be put into a record: {error}"))
    })?;
    Ok(bytes.freeze())
}

fn name(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}

/// Parses host and port of a broker; a scheme is ignored.
fn endpoint(text: &str) -> Result<Endpoint, TriggerError> {
    let wrong = || {
        TriggerError::invalid(format!("`{text}` is no broker; write the trigger's `brokerUrls` as host:port"))
    };
    let address = text.trim();
    let address = address.split_once("://").map_or(address, |(_, address)| address);
    let authority: http::uri::Authority = address.trim_end_matches('/').parse().map_err(|_| wrong())?;
    if authority.host().is_empty() {
        return Err(wrong());
    }
    let port = authority.port_u16().or(Some(PORT));
    Ok(Endpoint { role: Role::System, host: authority.host().to_owned(), port, setting: SETTING })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_goes_where_the_original_sends_it() {
        // As chosen by `sarama.NewHashPartitioner`.
        assert_eq!(partition(b"", 4), 3);
        assert_eq!(partition(b"a", 4), 0);
        assert_eq!(partition(b"key", 1), 0);
    }

    #[test]
    fn a_message_that_may_be_stored_is_not_sent_again() {
        // Timed out, too few replicas after it was appended; before it was appended, no leader.
        assert_eq!([7, 20, 19, 6].map(is_appended), [true, true, false, false]);
    }

    #[test]
    fn a_broker_is_host_and_port() {
        let check = |text: &str, host: &str, port: u16| {
            let endpoint = endpoint(text).unwrap();
            assert_eq!((endpoint.host.as_str(), endpoint.port), (host, Some(port)));
        };
        check("kafka", "kafka", 9092);
        check(" kafka:29092 ", "kafka", 29092);
        check("PLAINTEXT://kafka:29092/", "kafka", 29092);
        check("[::1]:9093", "[::1]", 9093);
        assert_eq!(endpoint("a b").unwrap_err().reason, Reason::Invalid);
    }
}
