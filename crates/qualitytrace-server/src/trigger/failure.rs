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
    /// Whether this server runs in a container, where that machine is the container.
    pub running_on_container: bool,
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
    /// The answer is larger than what is taken.
    TooLarge,
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
            Self::TooLarge => "too-large",
            Self::Unsupported => "unsupported",
        }
    }

    /// Whether no connection came about.
    pub const fn is_connection(self) -> bool {
        match self {
            Self::Dns | Self::Refused | Self::Unreachable | Self::Tls | Self::Timeout => true,
            Self::Invalid | Self::Cut | Self::TooLarge | Self::Unsupported => false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Whom a trigger speaks to, and which of its settings says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) host: String,
    pub(super) port: Option<u16>,
    pub(super) setting: &'static str,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => f.write_str(&self.host),
        }
    }
}

impl Failure {
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::told(Reason::Invalid, message.into())
    }

    pub(super) fn unsupported(message: impl Into<String>) -> Self {
        Self::told(Reason::Unsupported, message.into())
    }

    pub(super) fn told(reason: Reason, message: String) -> Self {
        Self { reason, message, targets_localhost: false, running_on_container: false }
    }

    /// What happened on the way to `place` and back.
    pub(super) fn at(place: &Place, reason: Reason, cause: &str) -> Self {
        let Place { host, setting, .. } = place;
        let message = match reason {
            Reason::Dns => format!("the host `{host}` is unknown; check the name in the trigger's {setting}"),
            Reason::Refused => format!(
                "nothing listens on {place}; start the system under test or correct the trigger's {setting}"
            ),
            Reason::Unreachable => format!("{place} cannot be reached: {cause}"),
            Reason::Tls => format!("the TLS handshake with {place} failed: {cause}"),
            Reason::Timeout => format!("{place} did not answer in time; raise the trigger's `timeout`"),
            Reason::Cut => format!("{place} closed the connection before the answer was complete: {cause}"),
            Reason::TooLarge => format!("the answer of {place} is too large: {cause}"),
            Reason::Invalid | Reason::Unsupported => {
                format!("the request to {place} is not valid: {cause}")
            }
        };
        let targets_localhost = matches!(host.as_str(), "localhost" | "127.0.0.1" | "[::1]" | "::1");
        Self { targets_localhost, ..Self::told(reason, message) }
    }

    /// What an HTTP client says about a request to `url`.
    pub(super) fn of_request(error: &reqwest::Error, url: &reqwest::Url) -> Self {
        let host = url.host_str().unwrap_or_default().to_owned();
        let place = Place { host, port: url.port_or_known_default(), setting: "url" };
        Self::at(&place, classify(error), &root_cause(error))
    }

    /// The same, seen from a server that runs in a container.
    pub(super) fn within_container(mut self) -> Self {
        self.running_on_container = true;
        if self.targets_localhost && self.reason.is_connection() {
            self.message.push_str(
                "; this server runs in a container, where localhost is the container itself: name the other \
                 container or `host.docker.internal`",
            );
        }
        self
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

pub(super) fn causes<'a>(error: &'a dyn Error) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause: &&'a (dyn Error + 'static)| (**cause).source())
}

pub(super) fn root_cause(error: &dyn Error) -> String {
    causes(error).last().map_or_else(|| error.to_string(), ToString::to_string)
}
