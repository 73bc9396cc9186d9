//! TLS settings and compression of connections to data stores, with real handshakes.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use qualitytrace_server::base::files::AllowedFiles;
use qualitytrace_server::base::limits::Limits;
use qualitytrace_server::config::{Config, Safety};
use qualitytrace_server::storage::provision::Provisioning;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedProtocolVersion};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;

use super::Bench;
use super::stand_in::{Answer, StandIn};
use crate::triggers::certificates::Authority;

/// A Zipkin without services, which speaks one version of TLS and is called `store.test`.
async fn zipkin(authority: &Authority, version: &'static SupportedProtocolVersion) -> SocketAddr {
    let identity = authority.sign("store.test");
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_protocol_versions(&[version]).with_no_client_auth();
    let acceptor = TlsAcceptor::from(Arc::new(config.with_single_cert(vec![certificate], key).unwrap()));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // A client that does not like the certificate or the version ends the handshake.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n")
                && stream.read_buf(&mut request).await.is_ok_and(|read| read > 0)
            {}
            let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n[]";
            let _ = stream.write_all(answer).await;
            let _ = stream.shutdown().await;
        }
    });
    address
}

/// Tests the connection. `told` is a part of the cause; without one, the connection works.
async fn check(bench: &Bench, address: SocketAddr, tls: &Value, told: Option<&str>) {
    let client = json!({ "url": format!("https://{address}"), "tls": tls });
    let connection = bench.connection(&json!({ "name": "Z", "type": "zipkin", "zipkin": client })).await;
    match told {
        None => assert_eq!(connection["fetchTraces"]["status"], "passed", "{tls}: {connection}"),
        Some(told) => {
            assert_eq!(connection["connectivity"]["status"], "failed", "{tls}: {connection}");
            let error = connection["connectivity"]["error"].as_str().unwrap();
            assert!(error.contains(told), "{tls}: {error}");
        }
    }
}

#[tokio::test]
async fn tls_settings_of_a_store_decide_about_the_handshake() {
    let bench = Bench::start().await;
    let authority = Authority::new();
    let (new, old) = (zipkin(&authority, &TLS13).await, zipkin(&authority, &TLS12).await);
    let trusted = |more: Value| {
        let mut settings = json!({ "cAFile": authority.pem });
        settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "settings": settings })
    };
    let named = |name: &str| json!({ "serverName": name, "settings": { "cAFile": authority.pem } });
    for (address, tls, told) in [
        (new, json!({}), Some("certificate")),
        (new, json!({ "insecureSkipVerify": true }), None),
        (new, trusted(json!({})), None),
        (old, trusted(json!({})), None),
        (new, named("store.test"), None),
        (new, named("another.test"), Some("certificate")),
        (new, trusted(json!({ "minVersion": "1.3" })), None),
        (old, trusted(json!({ "minVersion": "1.3" })), Some("TLS")),
        (old, trusted(json!({ "minVersion": "1.0", "maxVersion": "1.2" })), None),
        (new, trusted(json!({ "maxVersion": "1.2" })), Some("TLS")),
        (new, trusted(json!({ "maxVersion": "1.1" })), Some("`tls.settings.maxVersion` is 1.1")),
        (new, trusted(json!({ "minVersion": "tls13" })), Some("`tls13`")),
        (new, json!({ "settings": { "cAFile": "/no/such/file" } }), Some("`tls.settings.cAFile`")),
    ] {
        check(&bench, address, &tls, told).await;
    }
    // The same settings hold over gRPC.
    let tls = trusted(json!({ "minVersion": "1.3" }));
    let store =
        json!({ "name": "J", "type": "jaeger", "jaeger": { "endpoint": old.to_string(), "tls": tls } });
    let connection = bench.connection(&store).await;
    let error = connection["connectivity"]["error"].as_str().unwrap_or_default();
    assert!(error.contains("Jaeger") && error.contains("TLS"), "{connection}");
    bench.server.shutdown().await;
}

/// A server whose data stores may name the files in this folder.
async fn bench_with_files(folder: &Path) -> Bench {
    let data_store_files = AllowedFiles::Below(folder.to_owned());
    Bench::start_as(Config { safety: Safety { data_store_files, ..Safety::default() }, ..Config::default() })
        .await
}

#[tokio::test]
async fn a_data_store_names_no_files_unless_a_folder_is_set() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let address = zipkin(&authority, &TLS13).await;
    let inside = folder.path().join("allowed");
    std::fs::create_dir(&inside).unwrap();
    for path in ["allowed/ca.pem", "outside.pem"] {
        std::fs::write(folder.path().join(path), &authority.pem).unwrap();
    }
    let tls = |file: &str| json!({ "settings": { "cAFile": file } });
    let (allowed, outside) = (inside.join("ca.pem"), folder.path().join("outside.pem"));
    let (allowed, outside) = (allowed.to_str().unwrap(), outside.to_str().unwrap());
    let bench = Bench::start().await;
    // The last one has no end, and says that it is empty.
    for file in [allowed, "/no/such/file", "/dev/zero", "/proc/self/pagemap"] {
        check(&bench, address, &tls(file), Some("`dataStores.files`")).await;
    }
    bench.server.shutdown().await;
    let bench = bench_with_files(&inside).await;
    check(&bench, address, &tls(allowed), None).await;
    check(&bench, address, &tls("ca.pem"), None).await;
    for file in [outside, "../outside.pem", "/proc/self/pagemap", "none.pem"] {
        check(&bench, address, &tls(file), Some("`dataStores.files`")).await;
    }
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_provisioned_data_store_names_the_files_of_its_operator() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let address = zipkin(&authority, &TLS13).await;
    let (own, other) = (folder.path().join("own.pem"), folder.path().join("other.pem"));
    for path in [&own, &other] {
        std::fs::write(path, &authority.pem).unwrap();
    }
    let tls = |file: &Path| json!({ "settings": { "cAFile": file } });
    let client = json!({ "url": format!("https://{address}"), "tls": tls(&own) });
    let spec = json!({ "name": "Z", "type": "zipkin", "zipkin": client });
    let file = folder.path().join("provisioning.yaml");
    std::fs::write(&file, json!({ "type": "DataStore", "spec": spec }).to_string()).unwrap();
    let provisioning = Provisioning { file: Some(file), ..Provisioning::default() };
    let bench = Bench::start_as(Config { provisioning, ..Config::default() }).await;
    check(&bench, address, &tls(&own), None).await;
    check(&bench, address, &tls(&other), Some("`dataStores.files`")).await;
    // The stored one connects: it answers, and has no trace.
    bench.give_up_after("1s").await;
    let run = bench.run(&json!([])).await;
    let error = run["lastErrorState"].as_str().unwrap_or_default();
    assert!(error.contains("does not have trace"), "{run}");
    bench.server.shutdown().await;
}

#[tokio::test]
async fn the_name_of_a_certificate_is_not_connected_to() {
    let denied = qualitytrace_server::base::limits::deny::Deny::new(["store.internal".parse().unwrap()]);
    let bench = Bench::start_within(Limits { deny: denied, ..Limits::default() }).await;
    let other = StandIn::start(&bench.caused, |_, _| Answer::json(json!([]))).await;
    let store = |url: &str, name: &str| {
        let client = json!({ "url": url, "tls": { "serverName": name } });
        json!({ "name": "Z", "type": "zipkin", "zipkin": client })
    };
    // Nothing listens there, but on the same port of the address that is written as the name.
    let closed = other.url.replace("127.0.0.1", "127.0.0.2");
    for (name, told) in [
        ("127.0.0.1", "is an address"),
        ("0x7f.1", "is an address"),
        ("[::1]", "is an address"),
        ("::1", "is no host name"),
        ("store.internal", "trigger.deny"),
    ] {
        bench.store(&store(&closed, name)).await;
        let run = bench.run(&json!([])).await;
        let error = run["lastErrorState"].as_str().unwrap_or_default();
        assert!(error.contains(told), "{name}: {run}");
    }
    assert!(other.asked().is_empty(), "{:?}", other.asked());
    // The name of a certificate may be the address of the store.
    let connection = bench.connection(&store(&other.url, "127.0.0.1")).await;
    assert_eq!(connection["fetchTraces"]["status"], "passed", "{connection}");
    bench.server.shutdown().await;
}

#[tokio::test]
async fn calls_are_compressed_as_the_store_says() {
    let bench = Bench::start().await;
    let jaeger = StandIn::start(&bench.caused, |_, _| {
        let headers = vec![("content-type", "application/grpc".to_owned()), ("grpc-status", "5".to_owned())];
        Answer { headers, ..Answer::status(200) }
    })
    .await;
    let store = |compression: &str| {
        let endpoint = jaeger.url.trim_start_matches("http://");
        let client = json!({ "endpoint": endpoint, "compression": compression, "tls": { "insecure": true } });
        json!({ "name": "J", "type": "jaeger", "jaeger": client })
    };
    for (compression, sent) in [("gzip", "gzip"), ("zstd", "zstd"), ("none", ""), ("", "")] {
        let connection = bench.connection(&store(compression)).await;
        assert_eq!(connection["fetchTraces"]["status"], "passed", "{connection}");
        let asked = jaeger.asked().pop().unwrap();
        assert_eq!(asked.header("grpc-encoding"), sent, "{asked:?}");
        // The first byte of a message says whether it is compressed.
        assert_eq!(asked.body.starts_with('\u{1}'), !sent.is_empty(), "{asked:?}");
    }
    let connection = bench.connection(&store("snappy")).await;
    let error = connection["connectivity"]["error"].as_str().unwrap();
    assert!(error.contains("`snappy`") && error.contains("gzip, zstd or none"), "{error}");
    bench.server.shutdown().await;
}
