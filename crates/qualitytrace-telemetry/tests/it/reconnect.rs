//! A connection that does not work is replaced, with the certificates as they are then.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use qualitytrace_telemetry::{
    Telemetry,
    config::{Config, Signal, Transport},
};
use qualitytrace_testing::{DEADLINE, eventually_blocking};
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use tokio::{
    io::{AsyncRead, AsyncWrite, copy_bidirectional},
    net::{TcpListener, TcpStream},
    runtime::Runtime,
};

use crate::{
    basics::{config, sink},
    outage::{spans, status},
    receiver::Receiver,
};

/// A proxy in front of a receiver.
struct Front {
    address: SocketAddr,
    _runtime: Runtime,
}

impl Front {
    /// The first `silent` connections are accepted and never served.
    fn start(target: SocketAddr, silent: usize, tls: Option<ServerConfig>) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = tls.map(|tls| tokio_rustls::TlsAcceptor::from(Arc::new(tls)));
        runtime.spawn(async move {
            let mut held = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                if held.len() < silent {
                    held.push(stream);
                    continue;
                }
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    match acceptor {
                        None => forward(stream, target).await,
                        Some(acceptor) => {
                            if let Ok(stream) = acceptor.accept(stream).await {
                                forward(stream, target).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, _runtime: runtime }
    }
}

async fn forward(mut stream: impl AsyncRead + AsyncWrite + Unpin, target: SocketAddr) {
    let mut onward = TcpStream::connect(target).await.unwrap();
    let _ = copy_bidirectional(&mut stream, &mut onward).await;
}

/// A sink of spans alone.
fn to(url: &str, transport: Transport) -> Config {
    let mut one = sink("one", url, transport);
    one.endpoints.retain(|signal, _| *signal == Signal::Traces);
    config(None, vec![one])
}

#[test]
fn a_connection_whose_peer_is_gone_is_replaced() {
    for transport in [Transport::Grpc, Transport::Http] {
        let receiver = Receiver::start();
        let front = Front::start(receiver.address, 2, None);
        let mut config = to(&format!("http://{}", front.address), transport);
        config.sinks[0].delivery.timeout = Duration::from_millis(500);
        let telemetry = Telemetry::start(config).unwrap();
        spans(&telemetry, 0..10);
        eventually_blocking(DEADLINE, "10 spans are counted as exported", || {
            status(&telemetry).ledger[&Signal::Traces].exported == 10
        });
        telemetry.shutdown(Duration::from_secs(5));
    }
}

/// An authority, and a server with a certificate of it.
fn authority() -> (String, ServerConfig) {
    let ca_key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca = params.self_signed(&ca_key).unwrap().pem();
    let issuer = rcgen::Issuer::new(params, ca_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate =
        rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    (ca, config)
}

/// Records spans for a receiver whose authority is not in the file, and waits until that fails.
fn mistrusted(
    folder: &Path,
    front: &Front,
    transport: Transport,
    pause: Duration,
) -> (Telemetry, Config, PathBuf) {
    let file = folder.join("ca.pem");
    fs::write(&file, authority().0).unwrap();
    let mut config = to(&format!("https://localhost:{}", front.address.port()), transport);
    config.sinks[0].tls.ca = Some(file.clone());
    config.sinks[0].delivery.retry_initial = pause;
    config.sinks[0].delivery.retry_max = pause;
    let telemetry = Telemetry::start(config.clone()).unwrap();
    spans(&telemetry, 0..10);
    eventually_blocking(DEADLINE, "a request fails", || status(&telemetry).health.failed_requests > 0);
    (telemetry, config, file)
}

#[test]
fn a_certificate_that_is_replaced_under_its_name_is_read_after_a_failure() {
    for transport in [Transport::Grpc, Transport::Http] {
        let (folder, receiver) = (tempfile::tempdir().unwrap(), Receiver::start());
        let (ca, tls) = authority();
        let front = Front::start(receiver.address, 0, Some(tls));
        let (telemetry, _, file) = mistrusted(folder.path(), &front, transport, Duration::from_millis(5));
        fs::write(file, ca).unwrap();
        eventually_blocking(DEADLINE, "10 spans arrive", || receiver.got().spans.len() == 10);
        telemetry.shutdown(Duration::from_secs(5));
    }
}

#[test]
fn a_reload_notices_a_certificate_that_is_replaced_under_its_name() {
    let (folder, receiver) = (tempfile::tempdir().unwrap(), Receiver::start());
    let (ca, tls) = authority();
    let front = Front::start(receiver.address, 0, Some(tls));
    // By itself it would try again after half an hour at the earliest.
    let pause = Duration::from_hours(1);
    let (telemetry, config, file) = mistrusted(folder.path(), &front, Transport::Grpc, pause);
    telemetry.reload(config.clone());
    assert!(status(&telemetry).health.failed_requests > 0, "an unchanged sink is left alone");
    fs::write(file, ca).unwrap();
    telemetry.reload(config);
    eventually_blocking(DEADLINE, "10 spans arrive", || receiver.got().spans.len() == 10);
    telemetry.shutdown(Duration::from_secs(5));
}
