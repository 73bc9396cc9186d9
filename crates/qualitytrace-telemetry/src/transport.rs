//! Bytes to a receiver and its answer back. Decides nothing: what an answer means is in [`answer`].

pub(crate) mod answer;
mod grpc;
mod http;
mod tls;

use std::error::Error;

use bytes::Bytes;

pub(crate) use answer::Answer;

use crate::config::{self, Signal, Sink};

/// A connection to a sink's receiver; it connects when it is first used and again when it must.
pub(crate) enum Transport {
    Grpc(grpc::Grpc),
    Http(http::Http),
}

impl Transport {
    /// Fails when the sink's certificates cannot be read.
    pub(crate) fn new(sink: &Sink) -> Result<Self, String> {
        match sink.transport {
            config::Transport::Grpc => grpc::Grpc::new(sink).map(Self::Grpc),
            config::Transport::Http => http::Http::new(sink).map(Self::Http),
        }
    }

    pub(crate) async fn send(&self, signal: Signal, request: Bytes) -> Answer {
        match self {
            Self::Grpc(grpc) => grpc.send(signal, request).await,
            Self::Http(http) => http.send(signal, request).await,
        }
    }
}

/// Why the certificates of a sink cannot be used.
pub(crate) fn unusable(sink: &Sink) -> Option<String> {
    tls::client(&sink.tls, &[]).err()
}

/// An error and its causes in one line.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}

fn user_agent() -> &'static str {
    concat!("OTel-OTLP-Exporter-Rust/", env!("CARGO_PKG_VERSION"), " ", env!("CARGO_PKG_NAME"))
}
