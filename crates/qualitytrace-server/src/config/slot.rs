//! Typed slots of settings: accepted values, parsing and display.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use qualitytrace_config::Value;
use qualitytrace_config::value::{boolean, bytes, duration, shown_bytes, shown_duration};

use crate::base::limits::deny::Deny;
use crate::http::access::Token;
use crate::http::access::host::AllowedHost;

/// A typed reference to a field of the configuration.
#[derive(Debug)]
pub(super) enum Slot<'d> {
    /// A size in bytes, with an optional unit.
    Size(&'d mut u64),
    /// A number above 0.
    Count(&'d mut u64),
    /// The same as `usize`.
    Slots(&'d mut usize),
    /// A duration; 0 is allowed.
    Time(&'d mut Duration),
    /// A boolean.
    Switch(&'d mut bool),
    /// A port; 0 lets the system choose a free one.
    Port(&'d mut u16),
    /// An IP address of this machine.
    Host(&'d mut IpAddr),
    /// A port or an address to listen on, or `off`.
    Listen(&'d mut Listen),
    /// Any text.
    Text(&'d mut String),
    /// Text that is never shown.
    Secret(&'d mut Option<String>),
    /// A URL whose password is never shown.
    Url(&'d mut Option<String>),
    /// Parameters of a connection; passwords among them are never shown.
    Parameters(&'d mut String),
    /// A file or folder; a relative one is resolved against the file that names it.
    File(&'d mut Option<PathBuf>),
    /// A list of texts.
    List(&'d mut Vec<String>),
    /// Tokens with their scopes; the tokens are never shown.
    Tokens(&'d mut Vec<Token>),
    /// Hosts that triggers must not connect to.
    Deny(&'d mut Deny),
    /// Host names that requests may use.
    Hosts(&'d mut Vec<AllowedHost>),
}

/// An additional listener, besides the main port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listen {
    /// A port on the server's host.
    Port(u16),
    /// An address of its own.
    On(SocketAddr),
    /// No listener.
    Off,
}

impl Listen {
    /// Returns the address; a bare port is taken on this host.
    pub fn address(self, host: IpAddr) -> Option<SocketAddr> {
        match self {
            Self::Port(port) => Some(SocketAddr::new(host, port)),
            Self::On(address) => Some(address),
            Self::Off => None,
        }
    }

    /// Parses `4317`, `:4317`, `127.0.0.1:4317`, `localhost:4317` or `off`.
    pub fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("off") {
            return Some(Self::Off);
        }
        if let Ok(port) = text.trim_start_matches(':').parse() {
            return Some(Self::Port(port));
        }
        let (host, port) = text.rsplit_once(':')?;
        Some(Self::On(SocketAddr::new(ip(host)?, port.parse().ok()?)))
    }
}

impl Slot<'_> {
    /// Describes the accepted values, for messages.
    pub(super) fn expected(&self) -> &'static str {
        match self {
            Self::Size(_) => "a size such as `64MiB`",
            Self::Count(_) | Self::Slots(_) => "a whole number above 0",
            Self::Time(_) => "a duration such as `30s` or `24h`",
            Self::Switch(_) => "true|false",
            Self::Port(_) => "a port number",
            Self::Host(_) => "an IP address of this machine, `0.0.0.0` for all",
            Self::Listen(_) => "a port, an ADDRESS:PORT, or `off`",
            Self::Text(_) | Self::Parameters(_) | Self::Secret(_) => "a single value",
            Self::Url(_) => "a database URL",
            Self::File(_) => "a file name",
            Self::List(_) => "a list",
            Self::Tokens(_) => {
                "a list of `full:`, `read:` or `ingest:` and a token of at least 16 letters or its `sha256:HEX`"
            }
            Self::Deny(_) => "a list of networks like `10.0.0.0/8`, addresses, host names and `*.DOMAIN`",
            Self::Hosts(_) => "a list of host names, addresses and `*.DOMAIN`, each with `:PORT` or without",
        }
    }

    /// Returns the placeholder for a value in help texts.
    pub(super) fn placeholder(&self) -> &'static str {
        match self {
            Self::Size(_) => "SIZE",
            Self::Count(_) | Self::Slots(_) => "N",
            Self::Time(_) => "DURATION",
            Self::Switch(_) => "true|false",
            Self::Port(_) => "PORT",
            Self::Host(_) => "ADDR",
            Self::Listen(_) => "ADDR|off",
            Self::Text(_) | Self::Parameters(_) | Self::Secret(_) => "TEXT",
            Self::Url(_) => "URL",
            Self::File(_) => "FILE",
            Self::List(_) => "A,B,...",
            Self::Tokens(_) => "SCOPE:TOKEN,...",
            Self::Deny(_) | Self::Hosts(_) => "HOST,...",
        }
    }

    /// Parses and sets a value; `None` if it is invalid.
    pub(super) fn set(self, value: &Value, base: Option<&Path>) -> Option<()> {
        let text = match value {
            Value::Text(text) => text.trim(),
            Value::List(items) => {
                return self.set_all(items.iter().map(String::as_str));
            }
            Value::Nothing => return None,
        };
        match self {
            Self::Size(target) => *target = bytes(text)?,
            Self::Count(target) => *target = text.parse().ok().filter(|count| *count > 0)?,
            Self::Slots(target) => *target = text.parse().ok().filter(|count| *count > 0)?,
            Self::Time(target) => *target = time(text)?,
            Self::Switch(target) => *target = boolean(text)?,
            Self::Port(target) => *target = text.parse().ok()?,
            Self::Host(target) => *target = ip(text)?,
            Self::Listen(target) => *target = Listen::parse(text)?,
            Self::Text(target) | Self::Parameters(target) => text.clone_into(target),
            Self::Secret(target) | Self::Url(target) => *target = Some(text.to_owned()),
            Self::File(target) => {
                *target = Some(base.map_or_else(|| PathBuf::from(text), |base| base.join(text)));
            }
            Self::List(_) | Self::Tokens(_) | Self::Deny(_) | Self::Hosts(_) => {
                return self.set_all(text.split([',', ' ']).map(str::trim).filter(|part| !part.is_empty()));
            }
        }
        Some(())
    }

    /// Sets several values; `None` if one of them is invalid, or if the slot holds a single value.
    fn set_all<'t>(self, items: impl Iterator<Item = &'t str>) -> Option<()> {
        match self {
            Self::List(target) => *target = items.map(str::to_owned).collect(),
            Self::Tokens(target) => *target = items.map(|item| item.parse().ok()).collect::<Option<_>>()?,
            Self::Hosts(target) => *target = items.map(|item| item.parse().ok()).collect::<Option<_>>()?,
            Self::Deny(target) => {
                *target = Deny::new(items.map(|item| item.parse().ok()).collect::<Option<Vec<_>>>()?);
            }
            _ => return None,
        }
        Some(())
    }

    /// Returns the value for display, with secrets redacted.
    pub(super) fn shown(&self) -> serde_json::Value {
        match self {
            Self::Size(size) => shown_bytes(**size).into(),
            Self::Count(count) => (**count).into(),
            Self::Slots(count) => (**count).into(),
            Self::Time(time) => shown_duration(**time).into(),
            Self::Switch(on) => (**on).into(),
            Self::Port(port) => (**port).into(),
            Self::Host(host) => host.to_string().into(),
            Self::Listen(Listen::Port(port)) => (*port).into(),
            Self::Listen(Listen::On(address)) => address.to_string().into(),
            Self::Listen(Listen::Off) => "off".into(),
            Self::Text(text) => text.as_str().into(),
            Self::Secret(secret) => secret.as_ref().map_or("", |_| "***").into(),
            Self::Url(url) => {
                url.as_deref().map(crate::storage::store::without_password).unwrap_or_default().into()
            }
            Self::Parameters(text) => crate::storage::store::parameters_without_password(text).into(),
            Self::File(file) => {
                file.as_ref().map(|file| file.display().to_string()).unwrap_or_default().into()
            }
            Self::List(items) => (**items).clone().into(),
            Self::Tokens(tokens) => tokens.iter().map(ToString::to_string).collect(),
            Self::Deny(deny) => deny.written().collect(),
            Self::Hosts(hosts) => hosts.iter().map(ToString::to_string).collect(),
        }
    }

    /// Whether messages must not repeat the given value.
    pub(super) fn is_secret(&self) -> bool {
        matches!(self, Self::Secret(_) | Self::Url(_) | Self::Parameters(_) | Self::Tokens(_))
    }
}

fn ip(text: &str) -> Option<IpAddr> {
    if text.eq_ignore_ascii_case("localhost") {
        return Some(Ipv4Addr::LOCALHOST.into());
    }
    text.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn time(text: &str) -> Option<Duration> {
    let is_zero = matches!(text, "0" | "0s" | "0ms" | "0m" | "0h");
    if is_zero { Some(Duration::ZERO) } else { duration(text) }
}

/// Formats a displayed value in one line.
pub(super) fn text(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(", "),
        serde_json::Value::Null => "(not used)".to_owned(),
        serde_json::Value::Bool(_) | serde_json::Value::Number(_) | serde_json::Value::Object(_) => {
            value.to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        assert_eq!(Listen::parse("4317"), Some(Listen::Port(4317)));
        assert_eq!(Listen::parse(":4317"), Some(Listen::Port(4317)));
        assert_eq!(Listen::parse("off"), Some(Listen::Off));
        assert_eq!(Listen::parse("[::1]:4317"), Some(Listen::On("[::1]:4317".parse().unwrap())));
        assert_eq!(Listen::parse("localhost:1"), Some(Listen::On("127.0.0.1:1".parse().unwrap())));
        assert_eq!(Listen::parse("collector:4317"), None);
    }

    #[test]
    fn what_is_shown_can_be_written() {
        for size in [1, 1_000, 10_240, 64 << 20, 16 << 30, 3 << 40] {
            assert_eq!(bytes(&shown_bytes(size)), Some(size));
        }
        for millis in [0, 1, 999, 1_500, 60_000, 86_400_000] {
            let duration = Duration::from_millis(millis);
            assert_eq!(time(&shown_duration(duration)), Some(duration));
        }
    }
}
