//! Triggers: how a test starts an operation of the system under test.
//!
//! Each kind of trigger is one module, and so is each part that several kinds have: the type, its reader, its JSON, and
//! which of its texts hold expressions (`mapped`) or name files (`each_file`). Texts in triggers may hold `${...}`
//! expressions, which are resolved when the test runs.

mod auth;
mod credentials;
mod exec;
mod files;
mod graphql;
mod grpc;
mod header;
mod http;
mod integration;
mod kafka;
mod playwright;
mod read;
mod tls;
mod trace_id;
mod write;

use std::convert::Infallible;

pub use auth::{ApiKeyLocation, Auth, ClientAuthLocation, OAuth2};
pub use exec::{Command, Exec};
pub use files::FileUse;
pub use graphql::Graphql;
pub use grpc::Grpc;
pub use header::Header;
pub use http::{Body, Http, HttpVersion, Part, Redirects};
pub use integration::Integration;
pub use kafka::{Kafka, Mechanism, Sasl};
pub use playwright::PlaywrightEngine;
pub(super) use read::read;
pub use tls::Tls;
pub use trace_id::TraceId;
pub(super) use write::TriggerSpec;

use super::text::Text;

/// The trigger of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trigger {
    /// An HTTP request.
    Http(Http),
    /// A gRPC call.
    Grpc(Grpc),
    /// A message to a Kafka topic.
    Kafka(Kafka),
    /// No request: the trace exists already.
    TraceId(TraceId),
    /// A GraphQL request.
    Graphql(Graphql),
    /// A command on the server's machine.
    Exec(Exec),
    /// A browser script that the product runs itself.
    PlaywrightEngine(PlaywrightEngine),
    /// Another test tool, which passes the trace id.
    Integration(Integration),
}

impl Trigger {
    /// Returns the name that files use as the trigger's `type`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::Grpc(_) => "grpc",
            Self::Kafka(_) => "kafka",
            Self::TraceId(_) => "traceid",
            Self::Graphql(_) => "graphql",
            Self::Exec(_) => "exec",
            Self::PlaywrightEngine(_) => "playwrightengine",
            Self::Integration(tool) => tool.as_str(),
        }
    }

    /// Returns the trigger with every text that may hold expressions replaced by the result of `resolve`.
    ///
    /// Stops at the first text that cannot be resolved. Source texts (`.proto` files, schemas, scripts) stay as
    /// they are.
    pub fn resolved<E>(&self, mut resolve: impl FnMut(&str) -> Result<String, E>) -> Result<Self, E> {
        self.mapped(|text| Ok(Text { value: resolve(&text.value)?, origin: text.origin.clone() }))
    }

    /// Calls `look` for every text that may hold expressions.
    pub fn each_text(&self, mut look: impl FnMut(&Text)) {
        if let Self::Integration(_) = self {
            look(&Text::from(Integration::TRACE));
        }
        let Ok(_) = self.mapped(|text| {
            look(text);
            Ok::<Text, Infallible>(Text::default())
        });
    }

    /// Returns the trigger with every text that may hold expressions replaced by the result of `text`.
    fn mapped<E>(&self, mut text: impl FnMut(&Text) -> Result<Text, E>) -> Result<Self, E> {
        let text = &mut text;
        Ok(match self {
            Self::Http(http) => Self::Http(http.mapped(text)?),
            Self::Grpc(grpc) => Self::Grpc(grpc.mapped(text)?),
            Self::Kafka(kafka) => Self::Kafka(kafka.mapped(text)?),
            Self::TraceId(trace) => Self::TraceId(trace.mapped(text)?),
            Self::Graphql(graphql) => Self::Graphql(graphql.mapped(text)?),
            Self::Exec(exec) => Self::Exec(exec.mapped(text)?),
            Self::PlaywrightEngine(engine) => Self::PlaywrightEngine(engine.mapped(text)?),
            Self::Integration(tool) => Self::Integration(*tool),
        })
    }

    /// Calls `change` for every text that may be the path of a file, to replace it by the file's content.
    pub fn each_file<E>(
        &mut self,
        mut change: impl FnMut(FileUse, &mut Text) -> Result<(), E>,
    ) -> Result<(), E> {
        let change = &mut change;
        match self {
            Self::Http(http) => http.each_file(change),
            Self::Grpc(grpc) => grpc.each_file(change),
            Self::Kafka(kafka) => kafka.each_file(change),
            Self::Graphql(graphql) => graphql.each_file(change),
            Self::PlaywrightEngine(engine) => engine.each_file(change),
            Self::TraceId(_) | Self::Exec(_) | Self::Integration(_) => Ok(()),
        }
    }
}
