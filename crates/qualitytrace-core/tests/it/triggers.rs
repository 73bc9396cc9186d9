//! Triggers in files: errors, round trips, and the files that they refer to.

use std::convert::Infallible;

use qualitytrace_core::definition::trigger::FileUse;
use qualitytrace_core::definition::{Format, Resource, Test, Text, read, to_json, to_yaml};

fn source(kind: &str, block: &str, keys: &str) -> String {
    let keys = keys.replace('\n', "\n      ");
    format!("type: Test\nspec:\n  name: T\n  trigger:\n    type: {kind}\n    {block}:\n      {keys}\n")
}

/// Checks the diagnostics of a trigger, each with the text that it points at.
fn check(kind: &str, block: &str, keys: &str, expected: &[&str]) {
    let source = source(kind, block, keys);
    let told: Vec<String> = read(&source, Format::Yaml)
        .diagnostics
        .iter()
        .map(|found| {
            let help = found.help.as_deref().map(|help| format!(" ({help})")).unwrap_or_default();
            format!("{}: {}{help} @ {:?}", found.code, found.message, &source[found.span.clone()])
        })
        .collect();
    assert_eq!(told, expected);
}

fn test(source: &str, format: Format) -> Test {
    let reading = read(source, format);
    assert_eq!(reading.diagnostics, [], "{source}");
    reading.documents.into_iter().next().and_then(|document| document.resource.into_test()).expect("a test")
}

/// Checks that the trigger is the same after it was written, as JSON and as YAML.
fn survives(kind: &str, block: &str, keys: &str) {
    let first = test(&source(kind, block, keys), Format::Yaml);
    let json = to_json(&Resource::Test(first.clone()));
    assert_eq!(test(&json.to_string(), Format::Json), first, "{json}");
    let yaml = to_yaml(&json);
    assert_eq!(test(&yaml, Format::Yaml), first, "{yaml}");
}

#[test]
fn what_is_wrong_with_an_http_trigger_is_told_at_its_place() {
    let http = |keys: &str, expected: &str| check("http", "httpRequest", keys, &[expected]);
    http(
        "body: x\nform: [{key: a, value: b}]",
        r#"conflicting-keys: a request has one body, but both `body` and `form` are given (keep one of `body`, `bodyFile`, `form` and `multipart`) @ "[{key: a, value: b}]""#,
    );
    http("multipart: [{value: b}]", r#"no-name: a part of a multipart body needs a `name` @ "{value: b}""#);
    http(
        "multipart: [{name: a, value: b, file: c}]",
        r#"conflicting-keys: a part has either a `value` or a `file`, but both are given @ "{name: a, value: b, file: c}""#,
    );
    http(
        "multipart: [{name: a, fiel: c}]",
        r#"unknown-key: `fiel` is not a key of a part of a multipart body (did you mean `file`?) @ "fiel""#,
    );
    http(
        "redirects: often",
        r#"wrong-redirects: `redirects` takes `follow`, `none` or a number up to 255, not `often` @ "often""#,
    );
    http("httpVersion: 3", r#"unknown-http-version: `httpVersion` takes `1.1` or `2`, not `3` @ "3""#);
    http("tls: true", r#"wrong-type: `tls` takes a mapping, but this is a truth value @ "true""#);
    http(
        "tls: {certificate: ./c.pem}",
        r#"incomplete-tls: `tls` has a `certificate` but no `key` (a client's certificate needs its private key) @ "{certificate: ./c.pem}""#,
    );
    http(
        "tls: {ca: ./ca.pem}\nsslVerification: false",
        r#"conflicting-keys: `tls.ca` names trusted authorities, but `sslVerification: false` accepts any certificate (remove one of the two) @ "false""#,
    );
    http(
        "auth: {type: oauth, oauth2: {tokenUrl: a, clientId: b}}",
        r#"unknown-auth: `oauth` is not a type of `auth` (did you mean `oauth2`?) @ "oauth""#,
    );
    http(
        "auth: {type: oauth2, oauth2: {tokenUrl: a}}",
        r#"no-auth-block: `oauth2` needs a `clientId` @ "{tokenUrl: a}""#,
    );
    http(
        "auth: {type: oauth2, oauth2: {tokenUrl: a, clientId: b, in: query}}",
        r#"unknown-auth: the client's credentials go into the `header` or the `body`, not into `query` @ "query""#,
    );
    http(
        "timeout: soon",
        r#"wrong-duration: `timeout` takes a duration, not `soon` (write a number and a unit, like `500ms`, `5s` or `1m30s`) @ "soon""#,
    );
}

#[test]
fn what_is_wrong_with_a_kafka_trigger_is_told_at_its_place() {
    check(
        "kafka",
        "kafka",
        "authentication: {type: scram-sha-256}",
        &[
            r#"unknown-auth: `scram-sha-256` is not a way to log in to Kafka (did you mean `scramSha256`?) @ "scram-sha-256""#,
        ],
    );
    check(
        "kafka",
        "kafka",
        "authentication: {type: scramSha256, plain: {username: a}}",
        &[
            r#"no-auth-block: `authentication` is of type `scramSha256` but has no `scramSha256` @ "{type: scramSha256, plain: {username: a}}""#,
        ],
    );
}

#[test]
fn every_key_survives_being_stored() {
    let http = |keys: &str| survives("http", "httpRequest", keys);
    http(
        "url: u\nbody: x\nredirects: none\nhttpVersion: 1.1\nproxy: none\ntimeout: 5s\nsslVerification: true",
    );
    http(
        "url: u\nbodyFile: ./x\nredirects: 3\nhttpVersion: 2\nproxy: http://p\ntls: {ca: ./c, certificate: ./d, key: ./e}",
    );
    http("url: u\nredirects: follow\nform: [{key: a, value: b}, {key: a, value: c}]");
    http("url: u\nmultipart: [{name: a, value: b}, {name: c, file: ./d, filename: e, contentType: f/g}]");
    http(
        "auth: {type: oauth2, oauth2: {tokenUrl: t, clientId: c, clientSecret: s, scopes: [a, b], audience: x, in: body}}",
    );
    let grpc = |keys: &str| survives("grpc", "grpc", keys);
    grpc("tls: true");
    grpc("tls: {ca: ./ca}\ntimeout: 1s\nimports: {a.proto: ./a}\ndescriptorSet: ./set");
    let kafka = |keys: &str| survives("kafka", "kafka", keys);
    kafka(
        "topic: t\ntls: true\ntimeout: 1m\nauthentication: {type: plain, plain: {username: a, password: b}}",
    );
    kafka("authentication: {type: scramSha512, scramSha512: {username: a, password: b}}\ntls: {ca: x}");
    survives(
        "graphql",
        "graphql",
        "url: u\nintrospection: true\ntls: {ca: x}\nproxy: p\ntimeout: 1s\nschema: s",
    );
}

/// Checks which texts of a trigger are paths; returns the test with file contents in their place.
fn files(kind: &str, block: &str, keys: &str, expected: &[&str]) -> Test {
    let mut test = test(&source(kind, block, keys), Format::Yaml);
    let mut seen = Vec::new();
    let Ok(()) = test.trigger.as_mut().expect("a trigger").each_file(|file, text: &mut Text| {
        if let Some(path) = file.path(text) {
            let must = if file.must_exist(path) { "!" } else { "?" };
            seen.push(format!("{path}{must}"));
            let path = path.to_owned();
            text.value = file.content(&path, b"new".to_vec()).expect("text");
        }
        Ok::<(), Infallible>(())
    });
    assert_eq!(seen, expected);
    test
}

#[test]
fn files_are_told_from_texts() {
    let http = |keys: &str, expected: &[&str]| files("http", "httpRequest", keys, expected);
    http("body: ./body.json", &["./body.json!"]);
    http("body: /orders", &["/orders?"]);
    http("body: orders.json", &[]);
    http("body: '{\"a\": \"./b\"}'", &[]);
    http("body: ./${var:NAME}.json", &[]);
    let read = http("bodyFile: my photo.png", &["my photo.png!"]);
    let read = to_json(&Resource::Test(read))["spec"]["trigger"]["httpRequest"]["bodyFile"].clone();
    let data = "data:application/octet-stream;name=my%20photo.png;base64,bmV3";
    assert_eq!(read, data);
    assert_eq!(
        (FileUse::bytes(data), FileUse::name(data)),
        (Some(b"new".to_vec()), "my photo.png".to_owned())
    );
    http("bodyFile: 'data:;base64,bmV3'", &[]);
    http("multipart: [{name: a, file: ../x/p.png}, {name: b, value: ./c}]", &["../x/p.png!"]);
    http("tls: {ca: ca.pem, certificate: ./c, key: '${var:KEY}'}", &["ca.pem!", "./c!"]);
    http("tls: {ca: '-----BEGIN CERTIFICATE-----'}", &[]);
    files(
        "grpc",
        "grpc",
        "protobufFile: ./a.proto\nimports: {b.proto: b.proto}\ndescriptorSet: ./set.pb",
        &["./a.proto!", "b.proto?", "./set.pb!"],
    );
    files("grpc", "grpc", "protobufFile: '// a text'", &[]);
    files("grpc", "grpc", "protobufFile: |\n  ./not\n  a path", &[]);
    files(
        "graphql",
        "graphql",
        "body: {query: ./q.graphql}\nschema: ./s.graphql",
        &["./q.graphql!", "./s.graphql!"],
    );
    files("kafka", "kafka", "tls: {ca: ./ca.pem}", &["./ca.pem!"]);
    assert_eq!(FileUse::bytes("data:image/png;base64,bmV3"), Some(b"new".to_vec()));
    assert_eq!(FileUse::bytes("./photo.png"), None);
}
