//! Failures of outbound requests, of triggers and to data stores, with advice in their messages.

use std::error::Error;
use std::fmt;
use std::io::ErrorKind;

use rustls::CertificateError;

use crate::base::limits::deny::DenyListError;
use crate::base::redact::Redactor;

/// Why a trigger, or a request to a data store, got no response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerError {
    /// The class of the failure.
    pub reason: Reason,
    /// The message, with the address.
    pub message: String,
    /// Whether the address is on this machine.
    pub targets_localhost: bool,
    /// Whether this server runs in a container, where localhost is the container.
    pub running_on_container: bool,
}

/// The classes of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The settings of the trigger do not make a valid request.
    Invalid,
    /// The host name cannot be resolved.
    Dns,
    /// The connection was refused.
    Refused,
    /// The connection failed for another reason, or timed out.
    Unreachable,
    /// The certificate was not accepted, or the handshake failed.
    Tls,
    /// The connection was made, but no complete response came in time.
    Timeout,
    /// The connection ended within the response.
    Cut,
    /// The response exceeds the limit.
    TooLarge,
    /// The response is in another protocol.
    Protocol,
    /// User, password, token or certificate were not accepted.
    Credentials,
    /// The topic or the like that the trigger names does not exist.
    Missing,
    /// The address is not allowed for triggers.
    Denied,
    /// This server does not send this type of trigger.
    Unsupported,
}

impl Reason {
    /// Returns its name in reports.
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
            Self::Protocol => "protocol",
            Self::Credentials => "credentials",
            Self::Missing => "missing",
            Self::Denied => "denied",
            Self::Unsupported => "unsupported",
        }
    }

    /// Whether no connection was established.
    pub const fn is_connection(self) -> bool {
        match self {
            Self::Dns | Self::Refused | Self::Unreachable | Self::Tls => true,
            Self::Invalid
            | Self::Timeout
            | Self::Cut
            | Self::TooLarge
            | Self::Protocol
            | Self::Credentials
            | Self::Missing
            | Self::Denied
            | Self::Unsupported => false,
        }
    }
}

impl fmt::Display for TriggerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The peer of a request, and the setting that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) role: Role,
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
    pub(crate) setting: &'static str,
}

/// The role of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The system under test.
    System,
    /// The OAuth token server.
    TokenServer,
    /// The proxy in between.
    Proxy,
    /// The data store of this name.
    DataStore(&'static str),
}

impl Role {
    const fn name(self) -> &'static str {
        match self {
            Self::System => "the system under test",
            Self::TokenServer => "the token server",
            Self::Proxy => "the proxy",
            Self::DataStore(name) => name,
        }
    }

    /// What holds the settings of the request.
    const fn owner(self) -> &'static str {
        match self {
            Self::System | Self::TokenServer | Self::Proxy => "the trigger",
            Self::DataStore(_) => "the data store",
        }
    }
}

impl Endpoint {
    /// Formats the address, with the role unless it is the system under test.
    pub(crate) fn named(&self) -> String {
        match self.role {
            Role::System => self.to_string(),
            Role::DataStore(name) => format!("{name} at {self}"),
            Role::TokenServer | Role::Proxy => format!("{} {self}", self.role.name()),
        }
    }

    /// Whether it is on this machine.
    pub(super) fn is_localhost(&self) -> bool {
        matches!(self.host.as_str(), "localhost" | "127.0.0.1" | "[::1]" | "::1")
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => f.write_str(&self.host),
        }
    }
}

impl TriggerError {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::told(Reason::Invalid, message.into())
    }

    pub(super) fn unsupported(message: impl Into<String>) -> Self {
        Self::told(Reason::Unsupported, message.into())
    }

    pub(crate) fn told(reason: Reason, message: String) -> Self {
        Self { reason, message, targets_localhost: false, running_on_container: false }
    }

    /// Describes a failure of a request to `endpoint`.
    pub(crate) fn at(endpoint: &Endpoint, reason: Reason, cause: &str) -> Self {
        let Endpoint { role, host, setting, .. } = endpoint;
        let (named, owner) = (endpoint.named(), role.owner());
        let message = match reason {
            Reason::Dns => format!("the host `{host}` is unknown; check the name in {setting}"),
            Reason::Refused => {
                format!("nothing listens on {endpoint}; start {} or correct {setting}", role.name())
            }
            Reason::Unreachable => format!("{named} cannot be reached: {cause}"),
            Reason::Tls => format!("the TLS handshake with {named} failed: {cause}"),
            Reason::Timeout => format!("{named} did not answer in time; {cause}"),
            Reason::Cut => format!("{named} closed the connection before the answer was complete: {cause}"),
            Reason::TooLarge => format!("the answer of {named} is too large: {cause}"),
            Reason::Protocol => format!("{named} answers in another protocol: {cause}"),
            Reason::Credentials => {
                format!("{named} does not accept the credentials: {cause}; correct them in {owner}")
            }
            Reason::Missing => format!("{named} does not have what {owner} names: {cause}"),
            Reason::Denied => cause.to_owned(),
            Reason::Invalid | Reason::Unsupported => {
                format!("the request to {named} is not valid: {cause}")
            }
        };
        Self { targets_localhost: endpoint.is_localhost(), ..Self::told(reason, message) }
    }

    /// Describes why a host could not be resolved.
    pub(super) fn of_lookup(endpoint: &Endpoint, error: &std::io::Error) -> Self {
        let denied = error.get_ref().and_then(|cause| cause.downcast_ref::<DenyListError>());
        denied.map_or_else(
            || Self::at(endpoint, Reason::Dns, &error.to_string()),
            |denied| Self::at(endpoint, Reason::Denied, &denied.to_string()),
        )
    }

    /// Classifies and describes an error of the HTTP client.
    pub(crate) fn of_request(error: &reqwest::Error, endpoint: &Endpoint) -> Self {
        let reason = classify(error);
        if let Some(denied) = denied(error) {
            return Self::at(endpoint, Reason::Denied, &denied.to_string());
        }
        let cause = match reason {
            Reason::Tls => tls_cause(error, endpoint.role),
            Reason::Protocol if speaks_first(error) => "it sends before it is asked, unlike HTTP".to_owned(),
            _ => root_cause(error),
        };
        Self::at(endpoint, reason, &cause)
    }

    /// Appends text to the message.
    pub(crate) fn and(mut self, addition: &str) -> Self {
        self.message.push_str(addition);
        self
    }

    /// Redacts secrets in the message.
    pub(crate) fn hiding(self, redactor: &Redactor) -> Self {
        Self { message: redactor.text(&self.message).into_owned(), ..self }
    }

    /// Adds that the server runs in a container.
    pub(super) fn within_container(mut self) -> Self {
        self.running_on_container = true;
        // A failed TLS handshake shows that the peer was reached.
        if self.targets_localhost && self.reason.is_connection() && self.reason != Reason::Tls {
            self.message.push_str(
                "; this server runs in a container, where localhost is the container itself: name the other \
                 container or `host.docker.internal`",
            );
        }
        self
    }
}

fn classify(error: &reqwest::Error) -> Reason {
    if denied(error).is_some() {
        return Reason::Denied;
    }
    if error.is_timeout() {
        return Reason::Timeout;
    }
    if error.is_builder() {
        return Reason::Invalid;
    }
    if tls_error(error).is_some() {
        return Reason::Tls;
    }
    // The resolver has no error type of its own to look for.
    if causes(error).any(|cause| cause.to_string().starts_with("dns error")) {
        return Reason::Dns;
    }
    if causes(error).filter_map(|cause| cause.downcast_ref::<hyper::Error>()).any(hyper::Error::is_parse) {
        return Reason::Protocol;
    }
    if causes(error).filter_map(|cause| cause.downcast_ref::<h2::Error>()).any(|error| !error.is_io()) {
        return Reason::Protocol;
    }
    if speaks_first(error) {
        return Reason::Protocol;
    }
    let io = causes(error).find_map(|cause| cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind));
    match io {
        Some(ErrorKind::ConnectionRefused) => Reason::Refused,
        Some(ErrorKind::InvalidData) if error.is_connect() => Reason::Tls,
        _ if error.is_connect() => Reason::Unreachable,
        _ => Reason::Cut,
    }
}

/// Whether bytes came before the request was sent: an HTTP/2 server greets its client. Hyper has no method that tells.
fn speaks_first(error: &reqwest::Error) -> bool {
    causes(error).any(|cause| cause.to_string() == "received unexpected message from connection")
}

/// Returns the message of the TLS error in a chain. HTTP/2 keeps only the text, so an alert is recognized by that.
fn tls_error(error: &(dyn Error + 'static)) -> Option<String> {
    std::iter::once(error).chain(causes(error)).find_map(|cause| {
        let words = cause.to_string();
        (cause.is::<rustls::Error>() || words.starts_with("received fatal alert: ")).then_some(words)
    })
}

/// Describes a TLS error, with advice for known ones.
pub(super) fn tls_cause(error: &(dyn Error + 'static), role: Role) -> String {
    let Some(words) = tls_error(error) else { return root_cause(error) };
    if let Some(told) = causes(error).find_map(wrong_name) {
        return told;
    }
    let says = |names: &[&str]| names.iter().any(|name| words.contains(name));
    if let Role::DataStore(_) = role {
        return words.clone() + store_help(says);
    }
    let help = if says(&["UnknownIssuer"]) {
        "; name its authority in the trigger's `tls.ca`, or set `sslVerification: false`"
    } else if says(&["CertificateRequired", "HandshakeFailure"]) {
        "; if it asks for a client certificate, give the trigger `tls.certificate` and `tls.key`"
    } else if says(&[
        "alert: UnknownCA",
        "alert: BadCertificate",
        "alert: CertificateUnknown",
        "alert: DecryptError",
    ]) {
        "; it does not accept the trigger's `tls.certificate`"
    } else if says(&["corrupt message"]) {
        "; it does not seem to use TLS: connect without it"
    } else {
        ""
    };
    words + help
}

/// Advice on a TLS error of a data store, whose settings have other names.
fn store_help(says: impl Fn(&[&str]) -> bool) -> &'static str {
    if says(&["UnknownIssuer"]) {
        "; give the data store the certificate of its authority (`tls.settings.cAFile`, or `certificate` of an index), or \
         set `insecureSkipVerify: true`"
    } else if says(&["CertificateRequired", "HandshakeFailure", "alert: "]) {
        "; if it asks for a client certificate, give the data store `tls.settings.certFile` and `keyFile`"
    } else if says(&["corrupt message"]) {
        "; it does not seem to use TLS: write `tls: {insecure: true}`, or `http://` in the address"
    } else {
        ""
    }
}

/// Describes a certificate that was issued for other names.
fn wrong_name(cause: &(dyn Error + 'static)) -> Option<String> {
    let rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext { expected, presented }) =
        cause.downcast_ref()?
    else {
        return None;
    };
    // Their format is `DnsName("shop.test")` and `IpAddress(10.0.0.1)`.
    let names = presented.iter().filter_map(|name| name.split_once('(')?.1.strip_suffix(')'));
    let names: Vec<String> = names.map(|name| format!("`{}`", name.trim_matches('"'))).collect();
    let valid = if names.is_empty() { "any name".to_owned() } else { names.join(", ") };
    let only = if names.is_empty() { "nor for " } else { "only for " };
    Some(format!(
        "its certificate is not valid for `{}`, {only}{valid}; ask it by a name that is in its certificate, or have \
         a certificate made for this one",
        expected.to_str()
    ))
}

/// Returns the error of the deny list, if it is the cause.
fn denied(error: &reqwest::Error) -> Option<&DenyListError> {
    causes(error).find_map(|cause| {
        let io = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        cause.downcast_ref::<DenyListError>().or_else(|| io?.downcast_ref::<DenyListError>())
    })
}

/// Iterates over the causes of an error, outermost first.
pub(crate) fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    fn below<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
        // `source` of an IO error skips the error that it wraps, and HTTP/2 errors do not expose theirs as a source.
        if let Some(inner) = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
            return Some(inner);
        }
        if let Some(inner) = error.downcast_ref::<h2::Error>().and_then(h2::Error::get_io) {
            return Some(inner);
        }
        error.source()
    }
    std::iter::successors(below(error), |cause| below(*cause))
}

pub(crate) fn root_cause(error: &(dyn Error + 'static)) -> String {
    causes(error).last().map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, reason: Reason, is_told: bool) {
        let (host, setting) = (host.to_owned(), "the trigger's url");
        let endpoint = Endpoint { role: Role::System, host, port: Some(80), setting };
        let failure = TriggerError::at(&endpoint, reason, "x");
        assert!(!failure.running_on_container);
        let failure = failure.within_container();
        assert!(failure.running_on_container);
        assert_eq!(failure.message.ends_with("or `host.docker.internal`"), is_told, "{failure}");
    }

    #[test]
    fn localhost_in_a_container_is_explained_when_the_connection_fails() {
        check("localhost", Reason::Refused, true);
        check("127.0.0.1", Reason::Timeout, false);
        check("[::1]", Reason::Unreachable, true);
        check("localhost", Reason::Tls, false);
        check("localhost", Reason::Cut, false);
        check("shop", Reason::Refused, false);
    }
}
