//! The result of a trigger, from the response or the failure.

use super::RunState;
use crate::wire::event::{Header, Reply};
use crate::wire::run::Pair;
use crate::wire::run::trigger::{
    Answer, ExecAnswer, KafkaAnswer, TraceIdAnswer, TriggerError, TriggerOutcome, TriggerResult,
};

/// Builds the result of the trigger.
pub fn outcome(facts: &RunState) -> TriggerOutcome {
    let kind = facts.trigger.as_ref().and_then(|trigger| trigger["type"].as_str()).unwrap_or_default();
    let mut blocks = TriggerResult::default();
    match &facts.reply {
        Some(Reply::Http { status_code, status, headers, body, truncated, binary }) => {
            let answer = answer((*status_code).into(), status, body, *truncated);
            let answer = Answer { headers: pairs(headers), binary: *binary, ..answer };
            if kind == "graphql" {
                blocks.graphql = answer;
            } else {
                blocks.http = answer;
            }
        }
        Some(Reply::Grpc { status_code, status, message, details, metadata, body, messages, truncated }) => {
            blocks.grpc = Answer {
                metadata: pairs(metadata),
                message: message.clone(),
                details: details.clone(),
                messages: messages.clone().unwrap_or_default(),
                ..answer(*status_code, status, body, *truncated)
            };
        }
        Some(Reply::Kafka { partition, offset }) => {
            blocks.kafka = KafkaAnswer { partition: partition.to_string(), offset: offset.to_string() };
        }
        Some(Reply::Exec { exit_code, stdout, stderr, truncated }) => {
            let (stdout, stderr) = (stdout.clone(), stderr.clone());
            blocks.exec = Some(ExecAnswer { exit_code: *exit_code, stdout, stderr, truncated: *truncated });
        }
        Some(Reply::TraceId { id }) => blocks.traceid = TraceIdAnswer { id: id.clone() },
        None => {}
    }
    if let Some(failure) = &facts.failure {
        blocks.error = TriggerError {
            connection_error: failure.connection,
            running_on_container: failure.running_on_container,
            targets_localhost: failure.targets_localhost,
            message: failure.message.clone(),
        };
    }
    let is_known = facts.reply.is_some() || facts.failure.is_some();
    TriggerOutcome { kind: if is_known { kind.to_owned() } else { String::new() }, trigger_result: blocks }
}

fn answer(status_code: i32, status: &str, body: &str, truncated: bool) -> Answer {
    Answer {
        status: Some(status.to_owned()),
        status_code: Some(status_code),
        body: body.to_owned(),
        truncated,
        ..Answer::default()
    }
}

fn pairs(headers: &[Header]) -> Vec<Pair> {
    headers.iter().map(|header| Pair { key: header.key.clone(), value: header.value.clone() }).collect()
}
