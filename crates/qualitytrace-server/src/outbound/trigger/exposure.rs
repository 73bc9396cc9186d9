//! Warnings about secrets that a trigger sends to a server whose certificate is not verified.
//!
//! Files of Tracetest do not ask for verification and are sent without it; the warning tells users if a secret is sent
//! that way.

use qualitytrace_core::definition::Trigger;
use qualitytrace_core::definition::trigger::{Auth, Header};

use super::connect::Gate;

/// Headers that always carry credentials.
const CREDENTIALS: [&str; 3] = ["authorization", "proxy-authorization", "cookie"];

/// Returns a warning if a trigger sends a secret over TLS without verifying the receiver's certificate. `has_secret`
/// says whether one of its texts holds the value of a secret variable.
pub(super) fn warning(trigger: &Trigger, has_secret: bool, gate: &Gate) -> Option<String> {
    let (receiver, has_credentials, wanted) = match trigger {
        Trigger::Http(request) => (
            over_tls(&request.url.value).or_else(|| token_server(request.auth.as_ref())),
            request.auth.is_some() || carries(&request.headers),
            request.ssl_verification,
        ),
        Trigger::Graphql(request) => (
            over_tls(&request.url.value).or_else(|| token_server(request.auth.as_ref())),
            request.auth.is_some() || carries(&request.headers),
            request.ssl_verification,
        ),
        Trigger::Grpc(call) => {
            let address = call.address.value.trim();
            let over_tls = call.tls.is_some().then_some(address).or_else(|| over_tls(address));
            let receiver = over_tls.or_else(|| token_server(call.auth.as_ref()));
            (receiver, call.auth.is_some() || carries(&call.metadata), call.ssl_verification)
        }
        Trigger::Kafka(message) => {
            let broker = message.broker_urls.first().filter(|_| message.tls.is_some());
            let receiver = broker.map(|broker| broker.value.trim());
            let has_credentials = message.authentication.is_some() || carries(&message.headers);
            (receiver, has_credentials, message.ssl_verification)
        }
        Trigger::TraceId(_) | Trigger::Integration(_) | Trigger::Exec(_) | Trigger::PlaywrightEngine(_) => {
            return None;
        }
    };
    if gate.verifies(wanted) || !(has_credentials || has_secret) {
        return None;
    }
    let receiver = host(receiver?);
    Some(format!(
        "a secret is sent to `{receiver}` over TLS without verifying its certificate; set the trigger's \
         `sslVerification: true`, or the server's `trigger.verifyCertificates`"
    ))
}

/// Returns the address if its scheme uses TLS.
fn over_tls(address: &str) -> Option<&str> {
    let (scheme, _) = address.trim().split_once("://")?;
    ["https", "grpcs"].iter().any(|secure| scheme.eq_ignore_ascii_case(secure)).then_some(address)
}

fn token_server(auth: Option<&Auth>) -> Option<&str> {
    match auth {
        Some(Auth::OAuth2(oauth2)) => over_tls(&oauth2.token_url.value),
        _ => None,
    }
}

fn carries(headers: &[Header]) -> bool {
    headers
        .iter()
        .any(|header| CREDENTIALS.iter().any(|name| header.key.value.trim().eq_ignore_ascii_case(name)))
}

/// Returns host and port of an address, without user info and path.
fn host(address: &str) -> &str {
    let rest = address.trim();
    let rest = rest.split_once("://").map_or(rest, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

#[cfg(test)]
mod tests {
    use qualitytrace_core::definition::trigger::Http;

    use super::*;
    use crate::base::limits::Limits;

    fn check(url: &str, auth: bool, verified: bool, has_secret: bool, receiver: Option<&str>) {
        let auth = auth.then(|| Auth::Bearer { token: "t".into() });
        let request = Http { url: url.into(), auth, ssl_verification: verified, ..Http::default() };
        let trigger = Trigger::Http(request);
        let said = warning(&trigger, has_secret, &Gate::default());
        let named = said.as_deref().and_then(|said| said.split('`').nth(1));
        assert_eq!(named, receiver, "{url}");
        let demanding = Gate::of(&Limits { verify_certificates: true, ..Limits::default() });
        assert_eq!(warning(&trigger, has_secret, &demanding), None);
    }

    #[test]
    fn a_secret_sent_without_verification_is_warned_of() {
        check("https://shop.test/x", true, false, false, Some("shop.test"));
        check(" HTTPS://me:pw@shop.test:8443?a=b", false, false, true, Some("shop.test:8443"));
        check("https://shop.test/x", false, false, false, None);
        check("https://shop.test/x", true, true, true, None);
        check("http://shop.test/x", true, false, true, None);
        check("shop.test/x", true, false, true, None);
        check("httpsx://shop.test/x", true, false, true, None);
    }
}
