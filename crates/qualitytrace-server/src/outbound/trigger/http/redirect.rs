//! Redirects: following them without sending credentials to another host.

use qualitytrace_core::definition::trigger::Redirects;
use reqwest::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderName,
    LOCATION, PROXY_AUTHORIZATION, TRANSFER_ENCODING,
};
use reqwest::{Method, Response, StatusCode, Url};

use super::super::failure::{Reason, TriggerError};

/// One request of a trigger; each redirect makes another.
pub(super) struct Step {
    pub(super) url: Url,
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    pub(super) with_body: bool,
}

/// Headers that must not be sent to another host. Credentials of a test are marked as sensitive, whatever their header,
/// and are removed too.
const FOR_ONE_HOST: [HeaderName; 4] = [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION, HOST];
/// Headers that describe a body.
const OF_A_BODY: [HeaderName; 4] = [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_ENCODING, TRANSFER_ENCODING];

/// Returns the request for a redirect; `None` if this is the final response.
pub(super) fn next(
    step: &Step,
    response: &Response,
    redirects: Redirects,
    followed: u8,
) -> Result<Option<Step>, TriggerError> {
    let Redirects::Follow(most) = redirects else { return Ok(None) };
    let Some(url) = led_to(&step.url, response) else { return Ok(None) };
    let endpoint = super::endpoint(&step.url, super::URL);
    let refused =
        |cause: String| Err(TriggerError::told(Reason::Protocol, format!("{endpoint} leads to {cause}")));
    if followed >= most {
        return refused(format!("more than {most} other places in turn; raise the trigger's `redirects`"));
    }
    if !matches!(url.scheme(), "http" | "https") {
        return refused(format!(
            "`{url}`, which is not HTTP; write `redirects: none` to take the redirect for the answer"
        ));
    }
    let (method, with_body) = method(step, response.status());
    let mut headers = step.headers.clone();
    if !with_body {
        for name in OF_A_BODY {
            headers.remove(name);
        }
    }
    if !is_same_host(&step.url, &url) {
        let secret = headers.iter().filter(|(_, value)| value.is_sensitive()).map(|(name, _)| name.clone());
        for name in secret.chain(FOR_ONE_HOST).collect::<Vec<HeaderName>>() {
            headers.remove(name);
        }
    }
    Ok(Some(Step { url, method, headers, with_body }))
}

fn led_to(from: &Url, response: &Response) -> Option<Url> {
    let leads = matches!(
        response.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    let location = response.headers().get(LOCATION).filter(|_| leads)?;
    from.join(std::str::from_utf8(location.as_bytes()).ok()?).ok()
}

/// Returns the method of the next request, and whether it has the body: as browsers do it.
fn method(step: &Step, status: StatusCode) -> (Method, bool) {
    let becomes_get = match status {
        StatusCode::SEE_OTHER => step.method != Method::HEAD,
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => step.method == Method::POST,
        _ => false,
    };
    if becomes_get { (Method::GET, false) } else { (step.method.clone(), step.with_body) }
}

fn is_same_host(a: &Url, b: &Url) -> bool {
    a.host_str() == b.host_str() && a.port_or_known_default() == b.port_or_known_default()
}
