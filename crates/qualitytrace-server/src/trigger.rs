//! Setting the system under test in motion, one file per protocol.
//!
//! A trigger that got any answer has succeeded: whether the answer is good is for the specs to say.

mod connect;
pub mod deny;
mod exec;
mod failure;
mod graphql;
mod grpc;
mod http;
mod kafka;
mod playwright;
mod progress;
mod propagation;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use qualitytrace_core::definition::Trigger;
use qualitytrace_core::run::Reply;

pub(crate) use connect::addresses;
pub use failure::{Failure, Reason};
pub use propagation::Context;

use deny::Deny;

use crate::config::Live;

/// Sends triggers; keeps connections open between them.
#[derive(Debug, Clone)]
pub struct Triggers {
    /// For the addresses that triggers must not speak to at the moment.
    http: Arc<Mutex<http::Sender>>,
    config: Live,
    in_container: bool,
}

impl Triggers {
    /// Ready to send.
    pub fn new(config: impl Into<Live>) -> Self {
        let config = config.into();
        let deny = config.get().limits.deny.clone();
        let http = Arc::new(Mutex::new(http::Sender::new(deny)));
        Self { http, config, in_container: in_container() }
    }

    /// What sends over HTTP; a new one where other addresses are listed by now, since connections may be open to them.
    fn http(&self, deny: &Deny) -> http::Sender {
        let mut http = self.http.lock().unwrap_or_else(PoisonError::into_inner);
        if http.deny() != deny {
            *http = http::Sender::new(deny.clone());
        }
        http.clone()
    }

    /// Sends a trigger whose texts are resolved and waits for its answer.
    pub async fn send(&self, trigger: &Trigger, context: &Context) -> Result<Reply, Failure> {
        let config = self.config.get();
        let limits = &config.limits;
        let http = &self.http(&limits.deny);
        // A browser goes where its script tells it; where it begins can be looked at.
        if let Trigger::PlaywrightEngine(script) = trigger
            && let Some(refused) = http.refuses(&script.target.value)
        {
            return Err(refused);
        }
        let sent = match trigger {
            Trigger::Http(request) => http.send(request, Some(context), limits.reply_bytes).await,
            Trigger::Grpc(call) => grpc::send(call, context, http, limits.reply_bytes).await,
            Trigger::TraceId(_) | Trigger::Integration(_) => {
                Ok(Reply::TraceId { id: context.trace.to_string() })
            }
            Trigger::Graphql(query) => graphql::send(query, context, http, limits.reply_bytes).await,
            Trigger::Exec(_) | Trigger::PlaywrightEngine(_) if !limits.commands => {
                Err(Failure::unsupported(format!(
                    "this server may not run commands; start it with `--runs.commands` to allow triggers of type `{}`",
                    trigger.kind()
                )))
            }
            Trigger::Exec(command) => {
                exec::send(command, context, config.otlp_endpoint(), limits.reply_bytes).await
            }
            Trigger::PlaywrightEngine(script) => playwright::send(script, context, limits.reply_bytes).await,
            Trigger::Kafka(message) => kafka::send(message, context, &limits.deny).await,
        };
        sent.map_err(|failure| if self.in_container { failure.within_container() } else { failure })
    }
}

/// Whether this process runs in a container.
fn in_container() -> bool {
    Path::new("/.dockerenv").exists() || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
}
