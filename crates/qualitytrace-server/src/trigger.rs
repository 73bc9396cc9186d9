//! Setting the system under test in motion, one file per protocol.
//!
//! A trigger that got any answer has succeeded: whether the answer is good is for the specs to say.

mod failure;
mod http;
mod propagation;

use qualitytrace_core::definition::Trigger;
use qualitytrace_core::run::Reply;

pub use failure::{Failure, Reason};
pub use propagation::Context;

use crate::limits::Limits;

/// Sends triggers; keeps connections open between them.
#[derive(Debug, Clone)]
pub struct Triggers {
    http: http::Clients,
    reply_bytes: u64,
}

impl Triggers {
    /// Ready to send.
    pub fn new(limits: &Limits) -> Self {
        Self { http: http::Clients::new(), reply_bytes: limits.reply_bytes }
    }

    /// Sends a trigger whose texts are resolved and waits for its answer.
    pub async fn send(&self, trigger: &Trigger, context: &Context) -> Result<Reply, Failure> {
        match trigger {
            Trigger::Http(request) => self.http.send(request, context, self.reply_bytes).await,
            Trigger::TraceId(trigger) => Ok(Reply::TraceId { id: trigger.id.value.clone() }),
            Trigger::Grpc(_)
            | Trigger::Kafka(_)
            | Trigger::Graphql(_)
            | Trigger::PlaywrightEngine(_)
            | Trigger::Integration(_) => Err(Failure::unsupported(trigger.kind())),
        }
    }
}
