//! Settings with a closed set of values: the words that they accept, and the word of each value.

use super::{Compression, Level, Sampler, Sync, Target, Temporality};
use crate::propagation::Propagators;

impl Level {
    pub(crate) const WORDS: &str = "trace|debug|info|warn|error|disable";

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(match text.to_ascii_lowercase().as_str() {
            "trace" => Self::Trace,
            "debug" => Self::Debug,
            "info" => Self::Info,
            "warn" | "warning" => Self::Warn,
            "error" => Self::Error,
            "disable" | "disabled" | "none" => Self::Disable,
            _ => return None,
        })
    }

    /// Parses a severity of OpenTelemetry (`info`, `info2`, `fatal`), or `none`.
    pub(crate) fn parse_severity(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        let plain = text.strip_suffix(['2', '3', '4']).unwrap_or(&text);
        if plain == "fatal" { Some(Self::Error) } else { Self::parse(plain) }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
            Self::Disable => "disable",
        }
    }
}

impl Target {
    /// Parses `TARGET=LEVEL`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (target, level) = text.split_once('=')?;
        let target = Some(target.trim()).filter(|target| !target.is_empty())?;
        Some(Self::new(target, Level::parse(level.trim())?))
    }

    /// Formats several, as they may be written.
    pub(crate) fn written(targets: &[Self]) -> String {
        let targets = targets.iter().map(|target| format!("{}={}", target.target, target.level.name()));
        targets.collect::<Vec<_>>().join(", ")
    }
}

impl Propagators {
    pub(crate) const WORDS: &str = "tracecontext|b3|b3multi|jaeger|ottrace|xray|baggage|none";
}

impl Temporality {
    pub(crate) const WORDS: &str = "cumulative|delta|lowmemory";

    /// Parses a temporality; `low_memory` is the spelling of the declarative file.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(match text.to_ascii_lowercase().as_str() {
            "cumulative" => Self::Cumulative,
            "delta" => Self::Delta,
            "lowmemory" | "low_memory" => Self::LowMemory,
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cumulative => "cumulative",
            Self::Delta => "delta",
            Self::LowMemory => "lowmemory",
        }
    }
}

impl Compression {
    pub(crate) const WORDS: &str = "none|gzip|zstd";

    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::None, Self::Gzip, Self::Zstd].into_iter().find(|one| one.name() == text)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

impl Sync {
    pub(crate) const WORDS: &str = "never|interval|always";

    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::Never, Self::Interval, Self::Always].into_iter().find(|one| one.name() == text)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Interval => "interval",
            Self::Always => "always",
        }
    }
}

impl Sampler {
    /// Describes it for `config show`.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::AlwaysOn | Self::AlwaysOff | Self::Ratio(_) => format!("{}%", self.percent()),
            Self::ParentBased { root, .. } => {
                format!("{} of new traces, else as the caller decided", root.describe())
            }
        }
    }

    /// The share of new traces that it takes, as a percentage.
    pub(crate) fn percent(&self) -> f64 {
        match self {
            Self::AlwaysOn => 100.0,
            Self::AlwaysOff => 0.0,
            Self::Ratio(share) => (share * 1e8).round() / 1e6,
            Self::ParentBased { root, .. } => root.percent(),
        }
    }
}
