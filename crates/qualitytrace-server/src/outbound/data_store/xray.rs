//! AWS X-Ray: `BatchGetTraces`, signed with the keys of the data store or the credentials of the machine.

mod batch;
mod machine;
mod profile;
pub(super) mod segment;

use qualitytrace_core::definition::Text;
use qualitytrace_core::definition::source::AwsXray as Definition;
use qualitytrace_core::id::TraceId;
use reqsign_aws_v4::{Credential, RequestSigner, StaticCredentialProvider};
use reqsign_core::Signer;
use reqsign_core::hash::hex_sha256;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HOST};
use serde::Deserialize;
use serde_json::json;

use self::batch::{Batches, Next, Part, Waiting};
use self::machine::Machine;
use super::answers::Answers;
use super::credentials;
use super::error::FetchError;
use super::http::{Http, MAX_PAGES, Settings};
use super::received::Received;
use crate::base::budget::Lease;
use crate::outbound::trigger::{Certificates, Endpoint, Gate, Reason, TriggerError};

/// Its name in messages.
pub(super) const NAME: &str = "AWS X-Ray";
/// The name of the service in signatures.
const SERVICE: &str = "xray";
/// What is told of a trace that is not whole.
const TRUNCATED: &str = "X-Ray keeps 500 kB of a trace, and dropped the rest (`LimitExceeded`)";
/// The path of `BatchGetTraces`.
const PATH: &str = "/Traces";
/// The hash of the body, which is signed.
const BODY_HASH: &str = "x-amz-content-sha256";

/// The client of X-Ray in one region.
#[derive(Debug)]
pub(super) struct XRay {
    http: Http,
    signer: Signer<Credential>,
    uses_machine: bool,
    batches: Batches,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Page {
    /// Traces that are not there yet are missing, or among `UnprocessedTraceIds`.
    #[serde(default)]
    traces: Vec<Trace>,
    next_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Trace {
    id: String,
    #[serde(default)]
    segments: Vec<Document>,
    /// Whether the service has dropped segments, because the trace became too large.
    #[serde(default)]
    limit_exceeded: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Document {
    document: String,
}

impl XRay {
    /// Creates the client.
    pub(super) fn new(xray: &Definition, gate: &Gate, answers: &Answers) -> Result<Self, TriggerError> {
        let region = region(xray)?;
        let usual = address(&region);
        let is_usual = xray.url.trim().is_empty();
        let none: [(String, Text); 0] = [];
        let settings = Settings {
            name: NAME,
            url: if is_usual { &usual } else { &xray.url },
            setting: if is_usual { "the data store's region" } else { "the data store's url" },
            headers: &none,
            certificates: Certificates { verify: true, ..Certificates::default() },
        };
        let signer = RequestSigner::new(SERVICE, &region);
        let signer = if xray.use_default_auth {
            Signer::new(credentials::context()?, Machine::new(region), signer)
        } else {
            Signer::new(credentials::context()?, keys(xray)?, signer)
        };
        let http = Http::new(&settings, gate, answers)?;
        Ok(Self { http, signer, uses_machine: xray.use_default_auth, batches: Batches::new() })
    }

    /// The peer, for messages.
    pub(super) fn endpoint(&self) -> &Endpoint {
        self.http.endpoint()
    }

    /// Fetches a trace, with those that other runs wait for.
    pub(super) async fn fetch(&self, received: &mut Received<'_>) -> Result<(), FetchError> {
        let id = id(received.trace());
        loop {
            let mut place = self.batches.wait(&id);
            loop {
                match place.next().await {
                    Next::Send(_turn, others) => {
                        let (asked, own) = self.fetch_pages(&id, received, &others).await;
                        for other in &others {
                            let end = asked
                                .as_ref()
                                .map_or_else(|error| Part::Failed(error.clone()), |()| Part::Done);
                            other.give(end).await;
                        }
                        return asked.and(own);
                    }
                    Next::Get(Part::Documents(documents)) => self.add(received, documents).await?,
                    Next::Get(Part::Done) => return Ok(()),
                    Next::Get(Part::Failed(error)) => return Err(error),
                    Next::Again => break,
                }
            }
        }
    }

    /// Asks for all pages. Returns what the service said, and what came of our own trace.
    async fn fetch_pages(
        &self,
        id: &str,
        received: &mut Received<'_>,
        others: &[Waiting],
    ) -> (Result<(), FetchError>, Result<(), FetchError>) {
        let ids: Vec<&str> =
            std::iter::once(id).chain(others.iter().map(|other| other.id.as_str())).collect();
        let (mut token, mut own) = (None, Ok(()));
        for _ in 0..MAX_PAGES {
            let (page, _lease) = match self.ask(&ids, token.as_deref()).await {
                Ok(page) => page,
                Err(error) => return (Err(error), own),
            };
            for trace in page.traces {
                let documents = trace.segments.into_iter().map(|segment| segment.document).collect();
                let whole = if trace.limit_exceeded { Err(self.http.partial(TRUNCATED)) } else { Ok(()) };
                if trace.id == id {
                    own = own.and(self.add(received, documents).await).and(whole);
                } else if let Some(other) = others.iter().find(|other| other.id == trace.id) {
                    other.give(whole.map_or_else(Part::Failed, |()| Part::Documents(documents))).await;
                }
            }
            token = page.next_token.filter(|token| !token.is_empty());
            if token.is_none() {
                return (Ok(()), own);
            }
        }
        (Err(self.http.endless()), own)
    }

    async fn add(&self, received: &mut Received<'_>, documents: Vec<String>) -> Result<(), FetchError> {
        for document in documents {
            if received.is_new(document.as_bytes()) {
                let mut lease = self.http.lease()?;
                let read = segment::read(&document, &mut lease);
                received.add(read.map_err(|error| self.http.undecoded(error))?).await?;
            }
        }
        Ok(())
    }

    /// Asks for a trace that does not exist.
    pub(super) async fn probe(&self) -> Result<(), FetchError> {
        let seconds = crate::base::clock::now().as_nanos() / 1_000_000_000;
        self.ask(&[&format!("1-{seconds:08x}-{:024x}", 1)], None).await.map(|_| ())
    }

    async fn ask(&self, ids: &[&str], token: Option<&str>) -> Result<(Page, Lease), FetchError> {
        let mut body = json!({ "TraceIds": ids });
        if let Some(token) = token {
            body["NextToken"] = token.into();
        }
        let body = body.to_string();
        let request = http::Request::builder()
            .method(Method::POST)
            .uri(self.http.url(PATH).as_str())
            .header(CONTENT_TYPE, "application/json")
            .header(BODY_HASH, hex_sha256(body.as_bytes()))
            .body(());
        let request =
            request.map_err(|error| TriggerError::invalid(format!("{NAME} cannot be asked: {error}")))?;
        let (mut parts, ()) = request.into_parts();
        self.signer.sign(&mut parts, None).await.map_err(|error| self.unsigned(&error))?;
        // The HTTP client writes it again, from the same address.
        parts.headers.remove(HOST);
        let request = self.http.request(Method::POST, PATH).headers(parts.headers).body(body);
        let answer = self.http.send(request).await?;
        if answer.is_missing() {
            return Err(self.http.foreign("404 Not Found"));
        }
        self.http.json(answer).await
    }

    fn unsigned(&self, error: &reqsign_core::Error) -> FetchError {
        let message = if self.uses_machine {
            format!(
                "the server has no AWS credentials for {NAME}: {error}; give it some, or write `accessKeyId` and \
                 `secretAccessKey` in the data store"
            )
        } else {
            format!("no request to {NAME} can be signed: {error}; correct the data store's keys")
        };
        let failure = TriggerError::told(Reason::Credentials, message);
        if error.is_retryable() { FetchError::passing(failure) } else { failure.into() }
    }
}

/// Returns the region of the definition, or of the environment where that has the credentials too.
fn region(xray: &Definition) -> Result<String, TriggerError> {
    let mut named = vec![Some(xray.region.clone())];
    if xray.use_default_auth {
        named.extend(["AWS_REGION", "AWS_DEFAULT_REGION"].map(|name| std::env::var(name).ok()));
    }
    let region = named.into_iter().flatten().map(|name| name.trim().to_owned()).find(|name| !name.is_empty());
    let region = region.filter(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'));
    region.ok_or_else(|| {
        TriggerError::invalid("the data store's `region` is no region of AWS; write one such as eu-central-1")
    })
}

/// Returns the address of the service. China has its own domain.
fn address(region: &str) -> String {
    let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    format!("https://xray.{region}.{domain}")
}

fn keys(xray: &Definition) -> Result<StaticCredentialProvider, TriggerError> {
    let (id, secret) = (xray.access_key_id.trim(), xray.secret_access_key.trim());
    if id.is_empty() || secret.is_empty() {
        let message = "the data store has no `accessKeyId` and `secretAccessKey`; write them, or `useDefaultAuth: true` \
                       for the credentials of the server's machine";
        return Err(TriggerError::told(Reason::Credentials, message.to_owned()));
    }
    let keys = StaticCredentialProvider::new(id, secret);
    Ok(match xray.session_token.trim() {
        "" => keys,
        token => keys.with_session_token(token),
    })
}

/// Returns a trace id as X-Ray writes it: `1-`, 8 digits of a time, `-`, 24 digits.
fn id(trace: TraceId) -> String {
    let digits = trace.to_string();
    format!("1-{}-{}", &digits[..8], &digits[8..])
}
