//! Transports: send a request and return the response. What a response means is decided in [`answer`].

#[cfg_attr(
    not(all(feature = "grpc", feature = "http")),
    expect(dead_code, reason = "a transport that is left out reads no answers")
)]
pub(crate) mod answer;
#[cfg(feature = "grpc")]
mod grpc;
#[cfg(feature = "http")]
mod http;
#[cfg(any(feature = "grpc", feature = "http"))]
mod tls;
mod verify;

#[cfg(any(feature = "grpc", feature = "http"))]
use std::error::Error;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use bytes::Bytes;

pub(crate) use answer::Answer;

use crate::config::{Signal, Sink};

/// A connection to a sink's receiver; it connects on first use and reconnects when needed.
pub(crate) enum Transport {
    #[cfg(feature = "grpc")]
    Grpc(grpc::Grpc),
    #[cfg(feature = "http")]
    Http(http::Http),
}

impl Transport {
    /// Fails when the sink's certificates cannot be read, or when this build does not have the transport.
    pub(crate) fn new(sink: &Sink) -> Result<Self, String> {
        match sink.transport {
            #[cfg(feature = "grpc")]
            crate::config::Transport::Grpc => grpc::Grpc::new(sink).map(Self::Grpc),
            #[cfg(feature = "http")]
            crate::config::Transport::Http => http::Http::new(sink).map(Self::Http),
            #[cfg(not(all(feature = "grpc", feature = "http")))]
            absent => Err(absent.feature().missing()),
        }
    }

    /// Sends a request. Fails when there is no response, so that a new connection may help.
    #[cfg_attr(
        not(any(feature = "grpc", feature = "http")),
        expect(clippy::unused_async, reason = "without a transport there is nothing to wait for")
    )]
    pub(crate) async fn send(&self, signal: Signal, request: Bytes) -> Result<Answer, String> {
        match self {
            #[cfg(feature = "grpc")]
            Self::Grpc(grpc) => grpc.send(signal, request).await,
            #[cfg(feature = "http")]
            Self::Http(http) => http.send(signal, request).await,
            #[cfg(not(any(feature = "grpc", feature = "http")))]
            _ => Err(format!("no transport takes {} of {} bytes", signal.name(), request.len())),
        }
    }
}

/// A checksum of the contents of a sink's certificate files, for comparison within this process.
pub(crate) fn fingerprint(sink: &Sink) -> u64 {
    let files = [&sink.tls.ca, &sink.tls.certificate, &sink.tls.key];
    let contents = files.map(|file| file.as_ref().and_then(|file| std::fs::read(file).ok()));
    let mut hasher = DefaultHasher::new();
    contents.hash(&mut hasher);
    hasher.finish()
}

/// Why the certificates of a sink cannot be used.
#[cfg(any(feature = "grpc", feature = "http"))]
fn unusable(sink: &Sink) -> Option<String> {
    tls::client(&sink.tls, &[]).err()
}

/// Without a transport there are no certificates to use.
#[cfg(not(any(feature = "grpc", feature = "http")))]
fn unusable(_: &Sink) -> Option<String> {
    None
}

/// An error and its causes in one line.
#[cfg(any(feature = "grpc", feature = "http"))]
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

#[cfg(any(feature = "grpc", feature = "http"))]
fn user_agent() -> &'static str {
    concat!("OTel-OTLP-Exporter-Rust/", env!("CARGO_PKG_VERSION"), " ", env!("CARGO_PKG_NAME"))
}
