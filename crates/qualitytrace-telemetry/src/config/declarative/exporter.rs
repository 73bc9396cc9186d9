//! Exporters and samplers of the declarative file.

use std::path::PathBuf;

use qualitytrace_config::{Located, Severity};

use super::Declarative;
use crate::config::{Compression, Sampler, Signal, Sink, Temporality, Transport, endpoint, value};

impl Declarative<'_> {
    pub(super) fn exporter(&mut self, node: &Located, signal: Signal, id: String) -> Option<Sink> {
        let (body, transport) = match self.one_of(node, "exporter", &["otlp_http", "otlp_grpc", "console"])? {
            ("otlp_http", body) => (body, Transport::Http),
            ("otlp_grpc", body) => (body, Transport::Grpc),
            (_, console) => {
                let message = "`console` has no effect here: the server writes its log itself".to_owned();
                self.report.push(Severity::Warning, &console.origin, "exporter.console", message, None);
                return None;
            }
        };
        self.map(
            body,
            "otlp",
            &[
                "endpoint",
                "tls",
                "headers",
                "headers_list",
                "compression",
                "timeout",
                "encoding",
                "temporality_preference",
                "default_histogram_aggregation",
            ],
        );
        if signal != Signal::Metrics {
            for key in ["temporality_preference", "default_histogram_aggregation"] {
                self.without_effect(body, key, &format!("otlp.{key}"));
            }
        }
        let mut sink = Sink::new(id, transport);
        sink.origins.insert("transport".to_owned(), node.origin.clone());
        if let Some((encoding, origin)) = self.parsed(body, "encoding", "protobuf|json", |text| {
            ["protobuf", "json"].into_iter().find(|known| *known == text)
        }) && encoding == "json"
        {
            let message = "`json` is sent as `protobuf`, which every receiver takes".to_owned();
            self.report.note(&origin, "encoding", message);
        }
        let insecure =
            body.get("tls").and_then(|tls| self.parsed(tls, "insecure", "true|false", value::boolean));
        let insecure = insecure.is_some_and(|(insecure, _)| insecure);
        let address = self.scalar(body, "endpoint");
        let resolved = match &address {
            // By the schema, gRPC without a scheme is secure unless the file says otherwise.
            Some((text, _)) if transport == Transport::Grpc && !insecure && !text.contains("://") => {
                endpoint::verbatim(transport, &format!("https://{text}"))
            }
            Some((text, _)) => endpoint::verbatim(transport, text),
            None => endpoint::resolve(transport, endpoint::default(transport), signal),
        };
        match (resolved, address) {
            (Ok(resolved), address) => {
                sink.endpoints.insert(signal, resolved.url);
                sink.origins.extend(address.map(|(_, origin)| ("endpoint".to_owned(), origin)));
            }
            (Err(why), Some((text, origin))) => {
                let message = format!("`endpoint` cannot be `{}`: {why}", endpoint::shown(&text));
                self.report.error(&origin, "endpoint", message, None);
                return None;
            }
            (Err(_), None) => return None,
        }
        if let Some((compression, origin)) =
            self.parsed(body, "compression", Compression::WORDS, Compression::parse)
        {
            sink.compression = compression;
            sink.origins.insert("compression".to_owned(), origin);
        }
        let allowed = "cumulative|delta|low_memory";
        let found = self.parsed(body, "temporality_preference", allowed, Temporality::parse);
        if let Some((temporality, origin)) = found.filter(|_| signal == Signal::Metrics) {
            sink.temporality = temporality;
            sink.origins.insert("temporality".to_owned(), origin);
        }
        if let Some((timeout, origin)) = self.timeout(body, "timeout") {
            sink.delivery.timeout = timeout;
            sink.origins.insert("timeout".to_owned(), origin);
        }
        self.headers(body, &mut sink);
        if let Some(tls) = body.get("tls") {
            self.map(tls, "tls", &["ca_file", "key_file", "cert_file", "insecure"]);
            let files = [
                ("ca_file", "tls.ca", &mut sink.tls.ca),
                ("key_file", "tls.key", &mut sink.tls.key),
                ("cert_file", "tls.certificate", &mut sink.tls.certificate),
            ];
            for (key, setting, target) in files {
                if let Some((path, origin)) = self.scalar(tls, key) {
                    *target = Some(PathBuf::from(path));
                    sink.origins.insert(setting.to_owned(), origin);
                }
            }
            if let Some((name, message)) = sink.tls.incomplete() {
                self.report.error(&tls.origin, name, message, None);
            }
        }
        Some(sink)
    }

    fn headers(&mut self, body: &Located, sink: &mut Sink) {
        if let Some((list, origin)) = self.scalar(body, "headers_list") {
            for pair in list.split(',').filter(|pair| !pair.trim().is_empty()) {
                match value::header_pair(pair) {
                    Ok(header) => sink.headers.push(header),
                    Err(why) => {
                        let message = format!("an entry of `headers_list` cannot be sent: {why}");
                        self.report.error(&origin, "headers_list", message, None);
                    }
                }
            }
            sink.origins.insert("headers".to_owned(), origin);
        }
        let Some(node) = body.get("headers") else { return };
        for item in self.list(node, "headers") {
            self.map(item, "headers", &["name", "value"]);
            let Some(((name, _), (text, _))) = self.scalar(item, "name").zip(self.scalar(item, "value"))
            else {
                let message = "a header needs `name` and `value`".to_owned();
                self.report.error(&item.origin, "headers", message, None);
                continue;
            };
            match value::header(&name, &text) {
                Ok(header) => {
                    sink.headers.retain(|other| other.name != header.name);
                    sink.headers.push(header);
                }
                Err(why) => {
                    let message = format!("the header `{name}` cannot be sent: {why}");
                    self.report.error(&item.origin, "headers", message, None);
                }
            }
        }
        sink.origins.insert("headers".to_owned(), node.origin.clone());
    }

    pub(super) fn sampler(&mut self, node: &Located, depth: usize) -> Option<Sampler> {
        let known = ["always_on", "always_off", "parent_based", "trace_id_ratio_based"];
        let (name, body) = self.one_of(node, "sampler", &known)?;
        match name {
            "always_on" | "always_off" => {
                self.map(body, name, &[]);
                Some(if name == "always_on" { Sampler::AlwaysOn } else { Sampler::AlwaysOff })
            }
            "trace_id_ratio_based" => {
                self.map(body, name, &["ratio"]);
                let parse = |text: &str| text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
                let share = self.parsed(body, "ratio", "a number between 0 and 1", parse);
                Some(value::ratio(share.map_or(1.0, |(share, _)| share)))
            }
            "parent_based" if depth < 8 => {
                let slots = [
                    "root",
                    "remote_parent_sampled",
                    "remote_parent_not_sampled",
                    "local_parent_sampled",
                    "local_parent_not_sampled",
                ];
                self.map(body, "parent_based", &slots);
                let mut slot = |name: &str, default: Sampler| {
                    Box::new(body.get(name).and_then(|node| self.sampler(node, depth + 1)).unwrap_or(default))
                };
                Some(Sampler::ParentBased {
                    root: slot("root", Sampler::AlwaysOn),
                    remote_sampled: slot("remote_parent_sampled", Sampler::AlwaysOn),
                    remote_not_sampled: slot("remote_parent_not_sampled", Sampler::AlwaysOff),
                })
            }
            _ => None,
        }
    }
}
