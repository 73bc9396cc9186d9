//! Where the credentials of a cloud come from: the environment of the server, its files and the cloud's own services.
//!
//! The addresses are those of the environment and of the cloud, and a definition cannot change them. `trigger.deny`,
//! which limits what a definition can reach, does not apply to them.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use reqsign_core::{Context, Error, FileRead, HttpSend, OsEnv};

use super::http::USER_AGENT;
use crate::base::files::{self, CREDENTIAL_BYTES};
use crate::outbound::trigger::{Certificates, Gate, Resolver, TriggerError};

/// How long a connection may take: on another machine than one of the cloud, nothing answers.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a request for credentials may take.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The longest answer.
const MAX_BYTES: usize = 1 << 20;

/// Returns what the search for credentials may use.
pub(super) fn context() -> Result<Context, TriggerError> {
    Ok(Context::new().with_env(OsEnv).with_file_read(Files).with_http_send(Services(client()?)))
}

/// Creates a client for requests for credentials.
pub(super) fn client() -> Result<reqwest::Client, TriggerError> {
    let wrong = |error: &dyn std::error::Error| {
        TriggerError::invalid(format!("no client can be made for credentials: {error}"))
    };
    let tls = Certificates { verify: true, ..Certificates::default() }
        .client_config(&[b"http/1.1"])
        .map_err(|error| wrong(&error))?;
    Resolver { gate: Gate::default(), instead: None }
        .client()
        .user_agent(USER_AGENT)
        .no_proxy()
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(TIMEOUT)
        .tls_backend_preconfigured(tls)
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| wrong(&error))
}

/// Reads an answer of a service that gives credentials.
pub(super) async fn read(response: reqwest::Response) -> Result<Bytes, String> {
    let mut body = BytesMut::new();
    let mut stream = response.bytes_stream();
    while let Some(data) = stream.next().await {
        let data = data.map_err(|error| error.to_string())?;
        if body.len() + data.len() > MAX_BYTES {
            return Err("the answer is too long".to_owned());
        }
        body.extend_from_slice(&data);
    }
    Ok(body.freeze())
}

/// Files with credentials.
#[derive(Debug)]
struct Files;

impl FileRead for Files {
    async fn file_read(&self, path: &str) -> reqsign_core::Result<Vec<u8>> {
        let wrong = |cause: String| Error::config_invalid(format!("`{path}` cannot be read: {cause}"));
        let read = files::read_aside(path.into(), CREDENTIAL_BYTES).await;
        read.map_err(|error| wrong(error.to_string()))
    }
}

/// Services that give credentials: of the machine, of its container, of a login.
#[derive(Debug)]
struct Services(reqwest::Client);

impl HttpSend for Services {
    async fn http_send(&self, request: http::Request<Bytes>) -> reqsign_core::Result<http::Response<Bytes>> {
        let failed = |error: reqwest::Error| Error::unexpected("no answer").with_source(error);
        let request = reqwest::Request::try_from(request).map_err(failed)?;
        let response = self.0.execute(request).await.map_err(failed)?;
        let mut answer = http::Response::builder().status(response.status());
        if let Some(headers) = answer.headers_mut() {
            headers.clone_from(response.headers());
        }
        let body = read(response).await.map_err(Error::unexpected)?;
        answer.body(body).map_err(|error| Error::unexpected("no answer").with_source(error))
    }
}
