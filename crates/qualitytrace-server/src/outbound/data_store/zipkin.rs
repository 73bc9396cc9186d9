//! Zipkin: its HTTP API v2.

use bytes::Bytes;
use qualitytrace_core::definition::source::HttpClient;

use super::answers::Answers;
use super::error::FetchError;
use super::http::{self, Http, Settings};
use super::received::Received;
use crate::base::budget::Lease;
use crate::outbound::trigger::{Endpoint, Gate, Reason, TriggerError};
use crate::receive::trace_files::zipkin;

/// Its name in messages.
pub(super) const NAME: &str = "Zipkin";
/// A path that every Zipkin has.
const SERVICES: &str = "/api/v2/services";

/// The client of a Zipkin.
#[derive(Debug)]
pub(super) struct Zipkin(Http);

impl Zipkin {
    /// Creates the client.
    pub(super) fn new(client: &HttpClient, gate: &Gate, answers: &Answers) -> Result<Self, TriggerError> {
        let settings = Settings {
            name: NAME,
            url: &client.url,
            setting: "the data store's url",
            headers: &client.headers,
            certificates: http::certificates(client.tls.as_ref(), gate)?,
        };
        Ok(Self(Http::new(&settings, gate, answers)?))
    }

    /// The peer, for messages.
    pub(super) fn endpoint(&self) -> &Endpoint {
        self.0.endpoint()
    }

    /// Fetches a trace.
    pub(super) async fn fetch(&self, received: &mut Received<'_>) -> Result<(), FetchError> {
        let answer = self.0.get(&format!("/api/v2/trace/{}", received.trace()), &[]).await?;
        if answer.is_missing() || !received.is_new(&answer.body) {
            return Ok(());
        }
        let read = |body: Bytes, lease: &mut Lease| zipkin::read(&body, lease);
        let ((request, refused), _lease) = self.0.decode(answer, read).await?;
        // A span that is left out would be judged as absent.
        match refused.problems.first() {
            Some(problem) => Err(self.0.foreign(&format!("{}: {}", problem.location, problem.reason))),
            None => received.add(request).await,
        }
    }

    /// Asks for something that every Zipkin has.
    pub(super) async fn probe(&self) -> Result<(), FetchError> {
        let answer = self.0.get(SERVICES, &[]).await?;
        let is_missing = answer.is_missing();
        match self.0.json::<Vec<String>>(answer).await {
            Ok(_) if !is_missing => Ok(()),
            Err(error) if error.failure.reason == Reason::TooLarge => Err(error),
            _ => Err(self.0.foreign(&format!("it does not have `{SERVICES}`"))),
        }
    }
}
