//! Filters spans and events of a sink by target. Pure.
//!
//! A directive names a target, most often a module path, and the least severe level that is taken of it and of what is
//! below it. The longest matching directive applies. Transport crates are off unless a directive names them: otherwise
//! the requests that carry telemetry would be recorded, sent, and recorded again.

use crate::config::{Level, Target};

/// Transport crates.
const TRANSPORT: [&str; 16] = [
    "h2",
    "hyper",
    "hyper_util",
    "mio",
    "opentelemetry",
    "opentelemetry_otlp",
    "opentelemetry_sdk",
    "reqwest",
    "rustls",
    "tokio",
    "tokio_tungstenite",
    "tokio_util",
    "tonic",
    "tower",
    "tungstenite",
    "want",
];

/// Whether a target belongs to a transport crate.
pub(crate) fn is_transport(target: &str) -> bool {
    let name = target.split_once("::").map_or(target, |(name, _)| name);
    TRANSPORT.binary_search(&name).is_ok()
}

/// The directive that applies to a target.
pub(crate) fn directive<'a>(targets: &'a [Target], target: &str) -> Option<&'a Target> {
    let is_below = |directive: &&Target| {
        target
            .strip_prefix(directive.target.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    targets.iter().filter(is_below).max_by_key(|directive| directive.target.len())
}

/// Whether a span or event of this target and level is taken.
pub(crate) fn takes(default: Level, targets: &[Target], target: &str, level: Level) -> bool {
    takes_level(default, targets, target, level as u8)
}

/// Like [`takes`], for a level as a number.
pub(crate) fn takes_level(default: Level, targets: &[Target], target: &str, level: u8) -> bool {
    let least = match directive(targets, target) {
        Some(directive) => directive.level,
        None if is_transport(target) => Level::Disable,
        None => default,
    };
    level >= least as u8
}

#[cfg(test)]
mod tests {
    use super::{Level, TRANSPORT, Target, takes};

    #[test]
    fn the_longest_directive_counts_and_transport_is_off() {
        let targets = [("shop", Level::Warn), ("shop::cart", Level::Debug), ("h2", Level::Info)]
            .map(|(target, level)| Target { target: target.to_owned(), level });
        for (target, level, taken) in [
            ("other", Level::Info, true),
            ("other", Level::Debug, false),
            ("shop", Level::Info, false),
            ("shop::list", Level::Warn, true),
            ("shop::cart::item", Level::Debug, true),
            ("shop::cart::item", Level::Trace, false),
            ("shopping", Level::Info, true),
            ("h2::codec", Level::Info, true),
            ("hyper::proto", Level::Error, false),
        ] {
            assert_eq!(takes(Level::Info, &targets, target, level), taken, "{target} {level:?}");
        }
        assert!(TRANSPORT.is_sorted());
    }
}
