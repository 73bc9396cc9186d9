//! Triggers: send a request to the system under test, one file per protocol.
//!
//! A trigger that got any response has succeeded: specs decide whether the response is good.

mod connect;
mod cut;
mod exec;
mod exposure;
mod failure;
mod graphql;
mod grpc;
mod http;
mod kafka;
mod methods;
mod playwright;
mod progress;
mod propagation;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use qualitytrace_core::definition::Trigger;
use qualitytrace_core::run::Reply;

pub(crate) use connect::{Certificates, Gate, Resolver, Security};
pub(crate) use exec::run_line;
pub(crate) use failure::{Endpoint, Role};
pub use failure::{Reason, TriggerError};
pub use grpc::check_protocol;
pub(crate) use grpc::{append as append_metadata, client as grpc_client, transport_failure};
pub use methods::{Argument, Method, Methods, Offered, Operation, Service};
pub use propagation::Context;

use crate::config::Live;

/// Sends triggers; keeps connections open between them.
#[derive(Debug, Clone)]
pub struct Triggers {
    /// The HTTP sender for the current gate.
    http: Arc<Mutex<http::Sender>>,
    config: Live,
    in_container: bool,
}

impl Triggers {
    /// Creates a sender with this configuration.
    pub fn new(config: impl Into<Live>) -> Self {
        let config = config.into();
        let gate = Gate::of(&config.get().limits);
        let http = Arc::new(Mutex::new(http::Sender::new(gate)));
        Self { http, config, in_container: in_container() }
    }

    /// Returns the HTTP sender. A new one is made when the gate has changed, because open connections may no longer be
    /// allowed.
    fn http(&self, gate: &Gate) -> http::Sender {
        let mut http = self.http.lock().unwrap_or_else(PoisonError::into_inner);
        if http.gate() != gate {
            *http = http::Sender::new(gate.clone());
        }
        http.clone()
    }

    /// Returns a warning if a trigger sends a secret to a server whose certificate is not verified. `has_secret` says
    /// whether one of its texts holds the value of a secret variable.
    pub fn warning(&self, trigger: &Trigger, has_secret: bool) -> Option<String> {
        exposure::warning(trigger, has_secret, &Gate::of(&self.config.get().limits))
    }

    /// Lists what the server of a trigger offers, by the description in the trigger or by asking the server.
    pub async fn methods(&self, trigger: &Trigger) -> Result<Methods, TriggerError> {
        let config = self.config.get();
        let limits = &config.limits;
        let http = &self.http(&Gate::of(limits));
        let found = match trigger {
            Trigger::Grpc(call) => grpc::methods(call, http, limits.reply_bytes).await,
            Trigger::Graphql(query) => graphql::methods(query, http, limits.reply_bytes).await,
            Trigger::Http(_)
            | Trigger::Kafka(_)
            | Trigger::TraceId(_)
            | Trigger::Exec(_)
            | Trigger::PlaywrightEngine(_)
            | Trigger::Integration(_) => Err(TriggerError::unsupported(format!(
                "a trigger of type `{}` has no methods to list; send one of type `grpc` or `graphql`",
                trigger.kind()
            ))),
        };
        found.map_err(|failure| self.located(failure))
    }

    /// Adds that this process runs in a container, if it does.
    fn located(&self, failure: TriggerError) -> TriggerError {
        if self.in_container { failure.within_container() } else { failure }
    }

    /// Sends a trigger whose texts are resolved and waits for the response.
    pub async fn send(&self, trigger: &Trigger, context: &Context) -> Result<Reply, TriggerError> {
        let config = self.config.get();
        let limits = &config.limits;
        let gate = Gate::of(limits);
        let http = &self.http(&gate);
        // The script of a browser may open any address; only the first one can be checked.
        if let Trigger::PlaywrightEngine(script) = trigger {
            http.admits_elsewhere(&script.target.value).await?;
        }
        let sent = match trigger {
            Trigger::Http(request) => http.send(request, Some(context), limits.reply_bytes).await,
            Trigger::Grpc(call) => grpc::send(call, context, http, limits.reply_bytes).await,
            Trigger::TraceId(_) | Trigger::Integration(_) => {
                Ok(Reply::TraceId { id: context.trace.to_string() })
            }
            Trigger::Graphql(query) => graphql::send(query, context, http, limits.reply_bytes).await,
            Trigger::Exec(_) | Trigger::PlaywrightEngine(_) if !limits.commands => {
                Err(TriggerError::unsupported(format!(
                    "this server may not run commands; start it with `--runs.commands` to allow triggers of type `{}`",
                    trigger.kind()
                )))
            }
            Trigger::Exec(_) | Trigger::PlaywrightEngine(_) if config.is_exposed() => {
                Err(TriggerError::unsupported(format!(
                    "this server runs no commands while other machines reach it without a token; set `auth.tokens` to \
                     allow triggers of type `{}`",
                    trigger.kind()
                )))
            }
            Trigger::Exec(command) => {
                exec::send(command, context, config.otlp_endpoint(), limits.reply_bytes).await
            }
            Trigger::PlaywrightEngine(script) => playwright::send(script, context, limits.reply_bytes).await,
            Trigger::Kafka(message) => kafka::send(message, context, &gate).await,
        };
        let sent = sent.map(|reply| cut::cut(reply, limits.reply_bytes));
        sent.map_err(|failure| self.located(failure))
    }
}

/// Returns a warning if a trigger sends credentials to a server whose certificate is not verified, assuming that the
/// server's configuration does not require verification.
pub fn unverified_secret(trigger: &Trigger) -> Option<String> {
    exposure::warning(trigger, false, &Gate::default())
}

/// Whether this process runs in a container.
fn in_container() -> bool {
    Path::new("/.dockerenv").exists() || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
}
