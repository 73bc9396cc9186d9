//! `config check` reports what keeps a server from starting, with the server's own errors, and changes nothing.

use crate::config::TestFolder;

/// A certificate with its key, and another key.
fn folder() -> TestFolder {
    let made = |name: &str| rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let (own, other) = (made("localhost"), made("other"));
    TestFolder::with(&[
        ("cert.pem", &own.cert.pem()),
        ("key.pem", &own.signing_key.serialize_pem()),
        ("other.pem", &other.signing_key.serialize_pem()),
        ("bogus.yaml", "type: Bogus\nspec: {name: x}\n"),
        ("good.yaml", "# nothing yet\n"),
        ("short.key", "abc"),
    ])
}

const FREE: [&str; 3] = ["--server.httpPort=0", "--otlp-grpc-addr=off", "--otlp-http-addr=off"];

#[test]
fn what_serve_refuses_is_refused_by_config_check() {
    let folder = folder();
    for (arguments, expected) in [
        (&["--server.tls.certFile", "nope.pem"][..], "the certificate in nope.pem cannot be used"),
        (&["--otlpServer.tls.certFile", "cert.pem"], "the key in cert.pem cannot be used"),
        (
            &["--server.tls.certFile", "cert.pem", "--server.tls.keyFile", "other.pem"],
            "the certificate in cert.pem does not go with its key",
        ),
        (&["--secrets.key", "abc"], "secrets.key holds no key"),
        (&["--secrets.keyFile", "short.key"], "the key file short.key holds no key"),
        (&["--provisioning-file", "nope.yaml"], "failed to read the provisioning file nope.yaml"),
        (&["--provisioning", "!!!"], "`provisioning` is not base64 of a text"),
        (&["--provisioning-file", "bogus.yaml"], "document 1, line 1, column 7, `type`: "),
        (&["--database-url", "mysql://u:geheim@h/n"], "`mysql://u@h/n` is not a database URL"),
        (&["--database-url", "postgres://h:geheim/n"], "the database postgres://h"),
        (&["--data-dir", "/proc/nope"], "failed to make the folder /proc/nope"),
        (&["--data-dir", "cert.pem/below"], "failed to make the folder cert.pem/below"),
        (
            &["--server.httpPort=19317", "--otlp-grpc-addr=19317"],
            "OTLP over gRPC cannot listen on 127.0.0.1:19317: the server listens there",
        ),
        (
            &["--otlp-grpc-addr=0.0.0.0:19317", "--otlp-http-addr=19317"],
            "OTLP over HTTP cannot listen on 127.0.0.1:19317: OTLP over gRPC listens there",
        ),
    ] {
        let free: Vec<&str> = FREE
            .into_iter()
            .filter(|flag| !arguments.iter().any(|own| own.split('=').next() == flag.split('=').next()))
            .collect();
        let arguments = [&free[..], arguments].concat();
        let said = folder.run(&[&["config", "check"], &arguments[..]].concat());
        assert_eq!(said.code, Some(1), "{arguments:?}: {}{}", said.out, said.err);
        assert!(said.err.contains(expected) && !said.err.contains("geheim"), "{arguments:?}: {}", said.err);
        let served = folder.run(&[&["serve"], &arguments[..]].concat());
        assert_eq!(served.code, Some(1), "{arguments:?}: {}", served.err);
        // The server stops at the first of them; its log may come before that.
        let first = served.err.find("error: ").map(|at| &served.err[at..]);
        assert!(first.is_some_and(|first| said.err.starts_with(first)), "{}, not {}", served.err, said.err);
    }
}

#[test]
fn a_database_in_a_folder_that_is_not_there_is_refused() {
    let said = TestFolder::with(&[]).run(&["config", "check", "--database-url", "sqlite://nope/x.db"]);
    assert!(said.code == Some(1) && said.err.contains("failed to find the folder nope"), "{}", said.err);
    let said = TestFolder::with(&[]).run(&["config", "check", "--database-url", "sqlite://x.db"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
}

#[test]
fn a_check_opens_binds_and_writes_nothing() {
    let folder = folder();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let tls = ["--server.tls.certFile", "cert.pem", "--server.tls.keyFile", "key.pem"];
    let more = ["--provisioning-file", "good.yaml", "--data-dir", "made/later", "--server.httpPort", &port];
    let said = folder.run(&[&["config", "check"][..], &tls, &more].concat());
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    assert!(!folder.folder.path().join("made").exists() && !folder.folder.path().join("home").exists());
}
