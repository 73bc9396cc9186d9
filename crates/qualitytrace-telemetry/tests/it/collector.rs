//! The examples of the documentation against a real OpenTelemetry Collector, compared by id.
//!
//! `QUALITYTRACE_TEST_OTELCOL` names the collector's program. The collector of the tests has no extension that demands
//! a header, so a small proxy in front of it does: it terminates TLS, refuses requests without the header, and forwards
//! the rest.

use std::{
    collections::BTreeSet,
    fs,
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use qualitytrace_telemetry::{
    SpanExt as _, Telemetry,
    config::{Config, Defaults, File, Severity, Sources},
};
use qualitytrace_testing::{DEADLINE, eventually_blocking, port};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

use crate::basics::under;

struct Collector {
    child: Child,
    folder: tempfile::TempDir,
    grpc: u16,
    http: u16,
}

impl Collector {
    /// Returns `None`, and prints so, when there is no collector.
    fn start(tls: Option<&Certificates>) -> Option<Self> {
        let Ok(program) = std::env::var("QUALITYTRACE_TEST_OTELCOL") else {
            assert!(
                std::env::var("QUALITYTRACE_REQUIRE_PEERS").is_err(),
                "QUALITYTRACE_TEST_OTELCOL is not set"
            );
            println!("skipped: QUALITYTRACE_TEST_OTELCOL names no collector");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let (grpc, http) = (port(), port());
        let tls = tls.map_or_else(String::new, |tls| {
            let (cert, key, ca) = (tls.server.display(), tls.server_key.display(), tls.ca.display());
            format!("        tls: {{cert_file: '{cert}', key_file: '{key}', client_ca_file: '{ca}'}}\n")
        });
        let out = folder.path().join("out.json");
        let text = format!(
            "receivers:\n  otlp:\n    protocols:\n      grpc:\n        endpoint: 127.0.0.1:{grpc}\n{tls}      http:\n        endpoint: 127.0.0.1:{http}\n{tls}  otlp/custom:\n    protocols:\n      http:\n        endpoint: 127.0.0.1:{}\n        traces_url_path: /v1/otel\nexporters:\n  file:\n    path: '{}'\nservice:\n  telemetry:\n    metrics: {{level: none}}\n  pipelines:\n    traces: {{receivers: [otlp, otlp/custom], exporters: [file]}}\n    metrics: {{receivers: [otlp], exporters: [file]}}\n    logs: {{receivers: [otlp], exporters: [file]}}\n",
            port(),
            out.display(),
        );
        let path = folder.path().join("collector.yaml");
        // The port of the custom path is the third one; it is read back from the text below.
        fs::write(&path, &text).unwrap();
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let child = Command::new(program)
            .arg("--config")
            .arg(&path)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut collector = Self { child, folder, grpc, http };
        for port in [grpc, http, collector.custom()] {
            collector.wait_for(port);
        }
        Some(collector)
    }

    /// The port that receives spans at `/v1/otel`.
    fn custom(&self) -> u16 {
        let text = fs::read_to_string(self.folder.path().join("collector.yaml")).unwrap();
        let tail = text.split("otlp/custom:").nth(1).unwrap();
        tail.split("127.0.0.1:").nth(1).unwrap().lines().next().unwrap().parse().unwrap()
    }

    fn wait_for(&mut self, port: u16) {
        let what = format!("the collector listens on port {port}");
        eventually_blocking(DEADLINE, what, || {
            let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(self.child.try_wait().unwrap().is_none(), "the collector ended: {log}");
            TcpStream::connect(("127.0.0.1", port)).map_err(|_| log)
        });
    }

    /// Stops the collector, which then writes its file, and reads what it received.
    fn stop(mut self) -> Got {
        let _ = Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status();
        self.child.wait().unwrap();
        let text = fs::read_to_string(self.folder.path().join("out.json")).unwrap_or_default();
        let mut got = Got::default();
        for line in text.lines() {
            got.read(&serde_json::from_str(line).unwrap());
        }
        got
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug, Default)]
struct Got {
    spans: BTreeSet<(String, String)>,
    logs: BTreeSet<(String, String)>,
    metrics: BTreeSet<String>,
    services: BTreeSet<String>,
}

impl Got {
    fn read(&mut self, line: &serde_json::Value) {
        let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        for (resources, scopes, items) in [
            ("resourceSpans", "scopeSpans", "spans"),
            ("resourceLogs", "scopeLogs", "logRecords"),
            ("resourceMetrics", "scopeMetrics", "metrics"),
        ] {
            for resource in list(&line[resources]) {
                for attribute in list(&resource["resource"]["attributes"]) {
                    if attribute["key"] == "service.name" {
                        self.services.insert(text(&attribute["value"]["stringValue"]));
                    }
                }
                for item in list(&resource[scopes]).iter().flat_map(|scope| list(&scope[items])) {
                    let ids = (text(&item["traceId"]), text(&item["spanId"]));
                    match items {
                        "spans" => _ = self.spans.insert(ids),
                        "logRecords" => _ = self.logs.insert(ids),
                        _ => _ = self.metrics.insert(text(&item["name"])),
                    }
                }
            }
        }
    }
}

/// Certificates of an authority, a server and a client.
struct Certificates {
    ca: PathBuf,
    server: PathBuf,
    server_key: PathBuf,
    client: PathBuf,
    client_key: PathBuf,
}

fn certificates(folder: &Path) -> Certificates {
    certificates_of(&["localhost", "127.0.0.1"], folder)
}

/// The same, with other names in the certificates.
fn certificates_of(names: &[&str], folder: &Path) -> Certificates {
    let path = |name: &str| folder.join(name);
    let ca_key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca = params.self_signed(&ca_key).unwrap();
    let issuer = rcgen::Issuer::new(params, ca_key);
    fs::write(path("ca.pem"), ca.pem()).unwrap();
    for name in ["server", "client"] {
        let key = rcgen::KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let certificate = rcgen::CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
        fs::write(path(&format!("{name}.pem")), certificate.pem()).unwrap();
        fs::write(path(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }
    Certificates {
        ca: path("ca.pem"),
        server: path("server.pem"),
        server_key: path("server.key"),
        client: path("client.pem"),
        client_key: path("client.key"),
    }
}

/// A proxy that terminates TLS and demands a header.
struct Proxy {
    address: SocketAddr,
    _runtime: tokio::runtime::Runtime,
}

impl Proxy {
    fn start(certificates: &Certificates, target: u16, header: &'static str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let chain = vec![CertificateDer::from_pem_file(&certificates.server).unwrap()];
        let key = PrivateKeyDer::from_pem_file(&certificates.server_key).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let service = service_fn(move |request| forward(request, target, header));
                    let _ = auto::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self { address, _runtime: runtime }
    }
}

type Body = http_body_util::combinators::BoxBody<bytes::Bytes, hyper::Error>;

async fn forward(request: Request<Incoming>, target: u16, header: &str) -> Result<Response<Body>, String> {
    if request.headers().get("authorization").and_then(|value| value.to_str().ok()) != Some(header) {
        let body = Empty::new().map_err(|never| match never {}).boxed();
        return Ok(Response::builder().status(StatusCode::UNAUTHORIZED).body(body).unwrap());
    }
    let grpc = request
        .headers()
        .get("content-type")
        .is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"));
    let client: Client<HttpConnector, Incoming> =
        Client::builder(TokioExecutor::new()).http2_only(grpc).build(HttpConnector::new());
    let (mut head, body) = request.into_parts();
    head.version = if grpc { http::Version::HTTP_2 } else { http::Version::HTTP_11 };
    head.headers.remove("host");
    head.uri = format!("http://127.0.0.1:{target}{}", head.uri.path()).parse().unwrap();
    let response =
        client.request(Request::from_parts(head, body)).await.map_err(|error| error.to_string())?;
    Ok(response.map(http_body_util::BodyExt::boxed))
}

/// Reads an example as printed; flags point it at the collector of the test.
fn example(name: &str, flags: &[(&str, &str)]) -> Config {
    let path = format!("{}/../../examples/telemetry/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(&path).unwrap();
    let mut sources = Sources::new(Defaults::new("default-name")).with_file(File::new(path, text));
    sources.flags = flags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let (config, diagnostics) = sources.read();
    assert!(diagnostics.iter().all(|diagnostic| diagnostic.severity < Severity::Error), "{diagnostics:?}");
    config
}

/// Records spans, logs and a metric, delivers them, and returns the ids of the spans.
fn work(mut config: Config) -> BTreeSet<(String, String)> {
    let folder = tempfile::tempdir().unwrap();
    config.spool_path = Some(folder.path().to_owned());
    let telemetry = Telemetry::start(config).unwrap();
    telemetry.meter("test").u64_counter("things").build().add(1, &[]);
    let mut ids = BTreeSet::new();
    under(&telemetry, || {
        for n in 0..300 {
            let outer = tracing::info_span!("outer", n);
            let inner = tracing::info_span!(parent: &outer, "inner", n);
            inner.in_scope(|| tracing::info!(n, "hello"));
            for span in [&outer, &inner] {
                // With a sink of metrics alone no span is recorded.
                let Some(context) = span.telemetry_context() else {
                    continue;
                };
                ids.insert((context.trace_id.to_string(), context.span_id.to_string()));
            }
        }
    });
    let status = telemetry.shutdown(Duration::from_secs(30));
    assert!(status.holds(), "{}", status.render());
    for sink in &status.sinks {
        for balance in sink.ledger.values() {
            assert_eq!(balance.exported, balance.created, "{}", status.render());
        }
    }
    ids
}

#[test]
fn the_yaml_examples_reach_a_collector() {
    for (name, service) in
        [("quality-trace-config.yaml", "quality-trace"), ("tracetest-config.yaml", "tracetest")]
    {
        let Some(collector) = Collector::start(None) else {
            return;
        };
        let endpoint = format!("127.0.0.1:{}", collector.grpc);
        let ids =
            work(example(name, &[("telemetry.exporters.collector.exporter.collector.endpoint", &endpoint)]));
        let got = collector.stop();
        assert_eq!(got.spans, ids);
        assert!(got.metrics.contains("things"), "{:?}", got.metrics);
        assert_eq!(got.services, BTreeSet::from([service.to_owned()]));
    }
}

#[test]
fn the_metrics_example_reaches_a_collector_that_demands_a_client_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = certificates(folder.path());
    let Some(collector) = Collector::start(Some(&certificates)) else {
        return;
    };
    let endpoint = format!("https://localhost:{}/v1/metrics", collector.grpc);
    let (ca, client, key) = (
        certificates.ca.display().to_string(),
        certificates.client.display().to_string(),
        certificates.client_key.display().to_string(),
    );
    work(example(
        "metrics.toml",
        &[
            ("metrics.open-telemetry.endpoint", &endpoint),
            ("metrics.open-telemetry.tls.ca", &ca),
            ("metrics.open-telemetry.tls.certificate", &client),
            ("metrics.open-telemetry.tls.key", &key),
        ],
    ));
    assert!(collector.stop().metrics.contains("things"));
}

#[test]
fn the_tracer_examples_reach_a_collector_over_tls_with_the_header_it_demands() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = certificates(folder.path());
    let ca = certificates.ca.display().to_string();
    for (name, path) in [("tracer-grpc.toml", "otel"), ("tracer-http.toml", "v1/otel")] {
        let Some(collector) = Collector::start(None) else {
            return;
        };
        let http = name == "tracer-http.toml";
        let target = if http { collector.custom() } else { collector.grpc };
        let proxy = Proxy::start(&certificates, target, "<place_auth_here>");
        let endpoint = format!("https://localhost:{}/{path}", proxy.address.port());
        let mut flags =
            vec![("tracer.otel.endpoint", endpoint.as_str()), ("tracer.otel.tls.ca", ca.as_str())];
        if !http {
            // The gRPC example of the documentation has no header; this one is sent as metadata.
            flags.push(("tracer.otel.headers", "Authorization: <place_auth_here>"));
        }
        let ids = work(example(name, &flags));
        assert_eq!(collector.stop().spans, ids, "{name}");
    }
}

#[test]
fn logs_reach_a_collector_with_their_spans_over_http_and_zstd() {
    let Some(collector) = Collector::start(None) else {
        return;
    };
    let endpoint = format!("http://127.0.0.1:{}", collector.http);
    let flags = [
        ("tracer.otel.endpoint", endpoint.as_str()),
        ("tracer.otel.enable.log-exporter", "true"),
        ("tracer.otel.compression", "zstd"),
    ];
    let ids = work(example("tracer-http.toml", &flags));
    let got = collector.stop();
    assert_eq!(got.spans, ids);
    assert_eq!(got.logs.len(), 300);
    assert!(got.logs.is_subset(&ids), "each log names the span it was written in");
}

#[test]
fn a_certificate_is_checked_against_the_configured_name_over_both_transports() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = certificates_of(&["receiver.test"], folder.path());
    let proxy = Proxy::start(&certificates, 1, "right");
    let endpoint = format!("https://127.0.0.1:{}/v1/otel", proxy.address.port());
    let ca = certificates.ca.display().to_string();
    for example_file in ["tracer-http.toml", "tracer-grpc.toml"] {
        let answer = |name: Option<&str>| {
            let mut flags = vec![("tracer.otel.endpoint", endpoint.as_str()), ("tracer.otel.tls.ca", &ca)];
            flags.extend(name.map(|name| ("tracer.otel.tls.server-name", name)));
            let telemetry = Telemetry::start(example(example_file, &flags)).unwrap();
            let probes = telemetry.test();
            telemetry.shutdown(Duration::ZERO);
            probes[0].answer.clone()
        };
        let refused = |answer: &str| answer.contains("certificate");
        for name in [None, Some("another.test")] {
            let answer = answer(name);
            assert!(refused(&answer), "{example_file} {name:?}: {answer}");
        }
        let answer = answer(Some("receiver.test"));
        assert!(!refused(&answer) && answer.contains("401"), "{example_file}: {answer}");
    }
}

#[test]
fn a_wrong_header_or_certificate_is_a_status_and_not_a_failed_start() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = certificates(folder.path());
    let proxy = Proxy::start(&certificates, 1, "right");
    let endpoint = format!("https://localhost:{}/v1/otel", proxy.address.port());
    let ca = certificates.ca.display().to_string();
    let check = |flags: &[(&str, &str)], expected: &str| {
        let telemetry = Telemetry::start(example("tracer-http.toml", flags)).unwrap();
        let probes = telemetry.test();
        assert!(!probes[0].ok && probes[0].answer.contains(expected), "{probes:?}");
        telemetry.shutdown(Duration::ZERO);
    };
    check(&[("tracer.otel.endpoint", &endpoint), ("tracer.otel.tls.ca", &ca)], "401");
    check(&[("tracer.otel.endpoint", &endpoint)], "certificate");
    check(&[("tracer.otel.endpoint", &endpoint), ("tracer.otel.tls.ca", "/nowhere.pem")], "cannot be read");
    let skip = [("tracer.otel.endpoint", endpoint.as_str()), ("tracer.otel.tls.skip-verify", "true")];
    check(&skip, "401");
}
