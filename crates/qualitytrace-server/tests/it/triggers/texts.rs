//! Error messages of HTTP triggers: they name the error and the next step.

use qualitytrace_server::outbound::trigger::{Reason, TriggerError};

use super::certificates::{Authority, quoted};
use super::web::Web;
use super::{send, trigger};

async fn failure(url: &str, keys: &str) -> TriggerError {
    send(&trigger(&format!("type: http\nhttpRequest:\n  url: {url}\n{keys}"), &[])).await.unwrap_err()
}

async fn check(url: &str, keys: &str, expected: &str) {
    let failure = failure(url, keys).await;
    assert_eq!((failure.reason, failure.message.as_str()), (Reason::Invalid, expected));
}

#[tokio::test]
async fn an_address_that_is_none_is_explained() {
    check("''", "", "the trigger has no `url`; give it a `url`").await;
    check(
        "ftp://localhost/x",
        "",
        "`ftp://localhost/x` is not a URL: `ftp://` is not spoken here, only `http://` and `https://`; correct the \
         trigger's `url`",
    )
    .await;
    check(
        "http://shop.test/",
        "  proxy: socks5://localhost:1",
        "`socks5://localhost:1` is not a URL: `socks5://` is not spoken here, only `http://` and `https://`; correct \
         the trigger's `proxy`",
    )
    .await;
}

#[tokio::test]
async fn a_plain_request_to_a_server_behind_tls_is_told_so() {
    let authority = Authority::new();
    let web = Web::tls(authority.server(None, &[b"http/1.1"])).await;
    let plain = failure(&format!("http://localhost:{}/echo", web.address.port()), "").await;
    assert!(plain.message.ends_with("; if it speaks TLS, write `https://` in the trigger's url"), "{plain}");
}

#[tokio::test]
async fn a_certificate_for_another_name_says_for_which() {
    let authority = Authority::new();
    let web = Web::tls(authority.server(None, &[])).await;
    let keys = format!("  tls: {{ca: {}}}", quoted(&authority.pem));
    let wrong = failure(&format!("https://[::ffff:127.0.0.1]:{}/echo", web.address.port()), &keys).await;
    assert_eq!(wrong.reason, Reason::Tls);
    assert!(
        wrong.message.ends_with(
            "its certificate is not valid for `::ffff:127.0.0.1`, only for `localhost`, `127.0.0.1`; ask it by a name that \
             is in its certificate, or have a certificate made for this one"
        ),
        "{wrong}"
    );
}

#[tokio::test]
async fn a_key_of_another_certificate_is_told_so() {
    let authority = Authority::new();
    let (mine, other) = (authority.sign("me"), authority.sign("you"));
    let (certificate, key) = (quoted(&mine.certificate), quoted(&other.key));
    check(
        "https://localhost:1/",
        &format!("  tls: {{certificate: {certificate}, key: {key}}}"),
        "the trigger's `tls.key` does not belong to its `tls.certificate`; give it the key that the certificate was \
         made for",
    )
    .await;
}
