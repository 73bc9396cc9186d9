//! Signature Version 4 of AWS as its specification describes it, to check what a client signed.

use http::HeaderMap;
use ring::{digest, hmac};

/// What a signature covers.
pub(super) struct Signed<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) query: &'a str,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: &'a str,
}

/// The parts of an `Authorization` header.
struct Authorization<'a> {
    scope: &'a str,
    key: &'a str,
    headers: &'a str,
    signature: &'a str,
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn authorization(header: &str) -> Option<Authorization<'_>> {
    let parts = header.strip_prefix("AWS4-HMAC-SHA256 ")?;
    let part = |name: &str| parts.split(',').find_map(|part| part.trim().strip_prefix(name));
    let (key, scope) = part("Credential=")?.split_once('/')?;
    Some(Authorization { scope, key, headers: part("SignedHeaders=")?, signature: part("Signature=")? })
}

fn sha256(text: &str) -> String {
    const_hex::encode(digest::digest(&digest::SHA256, text.as_bytes()))
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

impl Signed<'_> {
    /// Checks the signature. Returns why it is not that of this key, region and service.
    pub(super) fn verify(
        &self,
        key: &str,
        secret: &str,
        region: &str,
        service: &str,
    ) -> Result<(), &'static str> {
        let Some(given) = authorization(header(self.headers, "authorization")) else {
            return Err("Missing Authentication Token");
        };
        let time = header(self.headers, "x-amz-date");
        let date = time.split('T').next().unwrap_or_default();
        if given.key != key {
            return Err("The security token included in the request is invalid.");
        }
        if given.scope != format!("{date}/{region}/{service}/aws4_request") {
            return Err("Credential should be scoped to a valid region.");
        }
        if !given.headers.split(';').any(|name| name == "host") {
            return Err("'Host' must be a 'SignedHeader' in the AWS Authorization.");
        }
        let mut signed = String::new();
        for name in given.headers.split(';') {
            signed.extend([name, ":", header(self.headers, name).trim(), "\n"]);
        }
        let Self { method, path, query, .. } = self;
        let mut pairs: Vec<&str> = query.split('&').collect();
        pairs.sort_unstable();
        let (query, body) = (pairs.join("&"), sha256(self.body));
        let request = format!("{method}\n{path}\n{query}\n{signed}\n{}\n{body}", given.headers);
        let text = format!("AWS4-HMAC-SHA256\n{time}\n{}\n{}", given.scope, sha256(&request));
        let first = format!("AWS4{secret}").into_bytes();
        let parts = [date, region, service, "aws4_request", &text];
        let signature = const_hex::encode(parts.iter().fold(first, |key, part| mac(&key, part)));
        if signature == given.signature {
            Ok(())
        } else {
            Err("The request signature we calculated does not match the signature you provided.")
        }
    }
}

/// The example in the documentation of AWS.
#[test]
fn the_documented_signature_is_accepted() {
    let mut headers = HeaderMap::new();
    let authorization = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, \
        SignedHeaders=content-type;host;x-amz-date, \
        Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7";
    for (name, value) in [
        ("content-type", "application/x-www-form-urlencoded; charset=utf-8"),
        ("host", "iam.amazonaws.com"),
        ("x-amz-date", "20150830T123600Z"),
        ("authorization", authorization),
    ] {
        headers.insert(name, value.parse().unwrap());
    }
    let query = "Action=ListUsers&Version=2010-05-08";
    let signed = Signed { method: "GET", path: "/", query, headers: &headers, body: "" };
    let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    assert_eq!(signed.verify("AKIDEXAMPLE", secret, "us-east-1", "iam"), Ok(()));
    assert!(signed.verify("AKIDEXAMPLE", "another", "us-east-1", "iam").is_err());
}
