//! Why a trigger got no answer, and what to do about it.

use std::error::Error;
use std::fmt;
use std::io::ErrorKind;

/// A trigger that got no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The kind of reason.
    pub reason: Reason,
    /// What happened, in words, with the address.
    pub message: String,
    /// Whether the address means this very machine.
    pub targets_localhost: bool,
}

/// The kinds of reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The trigger's own settings make no request.
    Invalid,
    /// The host name is unknown.
    Dns,
    /// Nothing listens there.
    Refused,
    /// The connection could not be made for another reason.
    Unreachable,
    /// The certificate or the handshake was not accepted.
    Tls,
    /// No answer in time.
    Timeout,
    /// The connection ended in the middle of the answer.
    Cut,
    /// This kind of trigger cannot be sent by this server.
    Unsupported,
}

impl Reason {
    /// One word for reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Dns => "dns",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Cut => "cut",
            Self::Unsupported => "unsupported",
        }
    }

    /// Whether no connection came about.
    pub const fn is_connection(self) -> bool {
        match self {
            Self::Dns | Self::Refused | Self::Unreachable | Self::Tls | Self::Timeout => true,
            Self::Invalid | Self::Cut | Self::Unsupported => false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Failure {
    pub(super) fn invalid(message: String) -> Self {
        Self { reason: Reason::Invalid, message, targets_localhost: false }
    }

    pub(super) fn unsupported(kind: &str) -> Self {
        let message = format!("this server cannot send a trigger of type `{kind}` yet");
        Self { reason: Reason::Unsupported, message, targets_localhost: false }
    }

    /// What an HTTP client says about a request to `url`.
    pub(super) fn of_request(error: &reqwest::Error, url: &reqwest::Url) -> Self {
        let reason = classify(error);
        let host = url.host_str().unwrap_or_default();
        let place =
            url.port_or_known_default().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let targets_localhost = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
        let message = match reason {
            Reason::Dns => format!("the host `{host}` is unknown; check the name in the trigger's url"),
            Reason::Refused => format!(
                "nothing listens on {place}; start the system under test or correct the trigger's url"
            ),
            Reason::Unreachable => format!("{place} cannot be reached: {}", root_cause(error)),
            Reason::Tls => format!("the TLS handshake with {place} failed: {}", root_cause(error)),
            Reason::Timeout => format!("{place} did not answer in time"),
            Reason::Cut => format!("{place} closed the connection before the answer was complete"),
            Reason::Invalid | Reason::Unsupported => {
                format!("the request to {place} is not valid: {}", root_cause(error))
            }
        };
        Self { reason, message, targets_localhost }
    }
}

fn classify(error: &reqwest::Error) -> Reason {
    if error.is_timeout() {
        return Reason::Timeout;
    }
    if error.is_builder() {
        return Reason::Invalid;
    }
    if causes(error).any(<dyn Error>::is::<rustls::Error>) {
        return Reason::Tls;
    }
    // The resolver has no error type of its own to look for.
    if causes(error).any(|cause| cause.to_string().starts_with("dns error")) {
        return Reason::Dns;
    }
    let io = causes(error).find_map(|cause| cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind));
    match io {
        Some(ErrorKind::ConnectionRefused) => Reason::Refused,
        Some(ErrorKind::InvalidData) if error.is_connect() => Reason::Tls,
        _ if error.is_connect() => Reason::Unreachable,
        _ => Reason::Cut,
    }
}

fn causes<'a>(error: &'a reqwest::Error) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause: &&'a (dyn Error + 'static)| (**cause).source())
}

fn root_cause(error: &reqwest::Error) -> String {
    causes(error).last().map_or_else(|| error.to_string(), ToString::to_string)
}
