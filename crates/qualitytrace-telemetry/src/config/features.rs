//! Cargo features of this build, and diagnostics for configurations that need a missing one.

use std::io;

use super::{Config, Origin, Report, Sink, Transport};

/// A cargo feature that a configuration may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feature {
    Grpc,
    Http,
    Spool,
}

impl Feature {
    fn name(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Http => "http",
            Self::Spool => "spool",
        }
    }

    /// Whether this build has it.
    fn is_there(self) -> bool {
        match self {
            Self::Grpc => cfg!(feature = "grpc"),
            Self::Http => cfg!(feature = "http"),
            Self::Spool => cfg!(feature = "spool"),
        }
    }

    /// Says how to enable it.
    pub(crate) fn missing(self) -> String {
        let what = match self {
            Self::Grpc => "no OTLP over gRPC",
            Self::Http => "no OTLP over HTTP",
            Self::Spool => "no disk queues",
        };
        format!("this build has {what}: enable the feature `{}` of qualitytrace-telemetry", self.name())
    }
}

impl Transport {
    pub(crate) fn feature(self) -> Feature {
        match self {
            Self::Grpc => Feature::Grpc,
            Self::Http => Feature::Http,
        }
    }
}

/// The features that a sink needs, with the settings that need them.
fn needed(sink: &Sink, config: &Config) -> impl Iterator<Item = (Feature, &'static str)> {
    let spools = config.spool_path.is_some() && !sink.lossy && sink.limits.spool;
    let spool = spools.then_some((Feature::Spool, "spool.enable"));
    [(sink.transport.feature(), "transport")].into_iter().chain(spool)
}

/// Reports the sinks that need a feature which this build does not have.
pub(crate) fn check(config: &Config, report: &mut Report) {
    check_with(config, Feature::is_there, report);
}

fn check_with(config: &Config, is_there: impl Fn(Feature) -> bool, report: &mut Report) {
    for sink in &config.sinks {
        for (feature, setting) in needed(sink, config).filter(|(feature, _)| !is_there(*feature)) {
            let origin = sink.origins.get(setting).cloned().unwrap_or(Origin::Default);
            let message = format!("`{setting}` of `{}` cannot work: {}", sink.id, feature.missing());
            let help = (feature == Feature::Spool).then(|| "or set it to `false`".to_owned());
            report.error(&origin, setting, message, help);
        }
    }
}

/// Fails for a configuration that needs a feature which this build does not have.
pub(crate) fn require(config: &Config) -> io::Result<()> {
    let mut report = Report::default();
    check(config, &mut report);
    let lines: Vec<&str> = report.diagnostics.iter().map(|diagnostic| diagnostic.message.as_str()).collect();
    if lines.is_empty() { Ok(()) } else { Err(io::Error::new(io::ErrorKind::Unsupported, lines.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_that_is_left_out_is_named_where_it_is_needed() {
        let mut config = Config::new("test");
        config.sinks = vec![Sink::new("a", Transport::Grpc), Sink::new("b", Transport::Http)];
        config.spool_path = Some("/spool".into());
        config.sinks[1].lossy = true;
        let said = |is_there: fn(Feature) -> bool| {
            let mut report = Report::default();
            check_with(&config, is_there, &mut report);
            report.diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            said(|_| false),
            [
                "default: error: `transport` of `a` cannot work: this build has no OTLP over gRPC: enable the feature `grpc` of qualitytrace-telemetry",
                "default: error: `spool.enable` of `a` cannot work: this build has no disk queues: enable the feature `spool` of qualitytrace-telemetry; or set it to `false`",
                "default: error: `transport` of `b` cannot work: this build has no OTLP over HTTP: enable the feature `http` of qualitytrace-telemetry",
            ]
        );
        assert!(said(|_| true).is_empty());
    }

    #[cfg(not(feature = "grpc"))]
    #[test]
    fn a_telemetry_that_needs_a_missing_feature_does_not_start() {
        let mut config = Config::new("test");
        config.sinks.push(Sink::new("a", Transport::Grpc));
        let refused = crate::Telemetry::start(config).map(|_| ()).map_err(|error| error.to_string());
        assert!(refused.is_err_and(|error| error.contains("enable the feature `grpc`")));
    }
}
