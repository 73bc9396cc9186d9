//! The check of certificates before anything is sent.

use super::unusable;
use crate::config::{Config, Diagnostic, Origin, Report, Severity};

impl Config {
    /// Reports what keeps sinks from connecting although every setting is valid: certificates that cannot be read or
    /// used. The server starts all the same, and tries again with each request.
    pub fn verify(&self) -> Vec<Diagnostic> {
        let mut report = Report::default();
        for sink in &self.sinks {
            let named = [&sink.tls.ca, &sink.tls.certificate, &sink.tls.key].into_iter().any(Option::is_some);
            let Some(why) = unusable(sink).filter(|_| named) else { continue };
            let names = ["tls.ca", "tls.certificate", "tls.key"];
            let file = |name: &&str| {
                let file = match *name {
                    "tls.ca" => &sink.tls.ca,
                    "tls.key" => &sink.tls.key,
                    _ => &sink.tls.certificate,
                };
                file.as_ref().is_some_and(|file| why.contains(&format!("`{}`", file.display())))
            };
            let name = names.iter().find(|name| file(name)).unwrap_or(&"tls.ca");
            let origin = sink.origins.get(*name).cloned().unwrap_or(Origin::Default);
            let message = format!("`{name}` of `{}` cannot be used: {why}", sink.id);
            report.push(Severity::Warning, &origin, name, message, None);
        }
        report.diagnostics
    }
}
