//! The resolved configuration for display: every sink and setting with its value and its origin.

use std::fmt::Write as _;

use super::{
    Config, Origin, Role, Signal, Sink, Target, Transport,
    table::{PROCESS_SETTINGS, Setting},
};

/// One setting for display.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Line {
    /// Its key, with the name of the sink before it.
    pub key: String,
    /// Its value; secrets are masked.
    pub value: String,
    /// Where it came from.
    pub origin: Origin,
}

impl Config {
    /// Every setting with its origin, the process-wide ones first. Header values never show.
    pub fn lines(&self) -> Vec<Line> {
        let line = |key: &str, value: String| {
            let origin = self.origins.get(key).cloned().unwrap_or(Origin::Default);
            Line { key: key.to_owned(), value, origin }
        };
        // A slot borrows its field mutably, to be set as well.
        let mut config = self.clone();
        let shown = |setting: &Setting| Some(line(setting.name, setting.of_process(&mut config)?.shown()));
        let mut lines: Vec<Line> = PROCESS_SETTINGS.iter().filter_map(shown).collect();
        if !self.metrics.views.is_empty() {
            lines.push(line("telemetry.views", self.metrics.views.len().to_string()));
        }
        for sink in &self.sinks {
            let own = sink.lines().into_iter();
            lines.extend(own.map(|(_, line)| Line { key: format!("{}.{}", sink.id, line.key), ..line }));
        }
        lines
    }

    /// Renders the sinks with the origin of each setting. Header values never show.
    pub fn render(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "service {}", self.service_name);
        if !self.enabled {
            out.push_str("disabled by OTEL_SDK_DISABLED: nothing is recorded or sent\n");
        }
        let _ = writeln!(out, "propagators {}", self.propagators);
        match &self.spool_path {
            Some(path) => {
                let _ = writeln!(out, "spool {}", path.display());
            }
            None => out.push_str("spool none: lossless sinks keep items in memory only\n"),
        }
        if self.sinks.is_empty() {
            out.push_str("no sinks\n");
        }
        for sink in &self.sinks {
            sink.render(&mut out);
        }
        out
    }
}

impl Sink {
    fn render(&self, out: &mut String) {
        let role = match self.role {
            Role::Server => "",
            Role::Application => " (trigger spans only)",
        };
        let _ = writeln!(out, "\nsink {}{role}", self.id);
        for (name, line) in self.lines() {
            let _ = writeln!(out, "  {name:<14} {:<44} {}", line.value, line.origin);
        }
    }

    /// The settings of this sink, each with its display name and its key.
    fn lines(&self) -> Vec<(&'static str, Line)> {
        let mut lines = Vec::new();
        let mut line = |name: &'static str, setting: &str, value: String| {
            let origin = self.origins.get(setting).cloned().unwrap_or(Origin::Default);
            lines.push((name, Line { key: setting.to_owned(), value, origin }));
        };
        let transport = match self.transport {
            Transport::Grpc => "grpc",
            Transport::Http => "http",
        };
        line("transport", "transport", transport.to_owned());
        for (signal, url) in &self.endpoints {
            let own = format!("endpoint.{}", signal.name());
            let setting = if self.origins.contains_key(&own) { own.as_str() } else { "endpoint" };
            line(signal.name(), setting, super::endpoint::shown(url));
        }
        if !self.headers.is_empty() {
            let names: Vec<String> =
                self.headers.iter().map(|header| format!("{}: ***", header.name)).collect();
            line("headers", "headers", names.join(", "));
        }
        if let Some(name) = &self.service_name {
            line("service-name", "service-name", name.clone());
        }
        line("sampling", "sampling", self.sampler.describe());
        line("level", "level", self.level.name().to_owned());
        if !self.targets.is_empty() {
            line("targets", "targets", Target::written(&self.targets));
        }
        line("lossy", "lossy", self.lossy.to_string());
        line("throttle", "throttle", format!("{:?}", self.delivery.throttle));
        line("interval", "interval", format!("{:?}", self.interval));
        if self.endpoints.contains_key(&Signal::Metrics) {
            line("temporality", "temporality", self.temporality.name().to_owned());
        }
        line("timeout", "timeout", format!("{:?}", self.delivery.timeout));
        line("compression", "compression", self.compression.name().to_owned());
        for (name, setting) in [("tls ca", "tls.ca"), ("tls cert", "tls.certificate")] {
            let file = if setting == "tls.ca" { &self.tls.ca } else { &self.tls.certificate };
            if let Some(file) = file {
                line(name, setting, file.display().to_string());
            }
        }
        if self.tls.skip_verify {
            line("tls", "tls.skip-verify", "any certificate is accepted".to_owned());
        }
        let batch = format!("{} items, {} bytes", self.delivery.batch_items, self.delivery.batch_bytes);
        line("batch", "batch.items", batch);
        let spool = format!("{} bytes, {:?}", self.limits.spool_bytes, self.limits.spool_age);
        if !self.lossy && self.limits.spool {
            line("spool", "spool.bytes", spool);
        }
        line("redact", "redact", self.redact.join(", "));
        lines
    }
}
