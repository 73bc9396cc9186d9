//! Listening sockets: binding with helpful errors, serving connections, and graceful shutdown.

mod preface;
mod progress;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::response::{IntoResponse, Response};
use http::header::{CONNECTION, CONTENT_TYPE};
use http::uri::Scheme;
use http::{HeaderValue, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tower::ServiceExt as _;

use preface::PrefaceTimeout;
use progress::Answers;
use qualitytrace_telemetry::Suppressed;

use crate::base::limits::Limits;
use crate::base::request::{ConnectInfo, REQUEST_ID};
use crate::base::semaphore::ResizableSemaphore;
use crate::config::Live;
use crate::http::tls::Tls;

/// Flow-control window of one HTTP/2 stream, in bytes.
const STREAM_WINDOW: u32 = 1024 * 1024;
/// Flow-control window of one HTTP/2 connection, in bytes.
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;
/// Largest HTTP/2 frame, in bytes: large exports come in few frames.
const FRAME_BYTES: u32 = 1024 * 1024;
/// Concurrent requests on one HTTP/2 connection.
const STREAMS: u32 = 256;
/// Hyper's default; setting another number costs memory for each request.
const USUAL_HEADERS: usize = 100;
/// The smallest buffer that hyper accepts.
const SMALLEST_BUFFER: usize = 8 * 1024;
/// How long requests under way may take to end at a shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause before the next accept when the machine has no more sockets.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Why an address could not be bound.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process listens on the port.
    #[error(
        "{what} cannot listen on {address}: the port is in use; stop the other process or choose another with {option}"
    )]
    InUse {
        /// The listener.
        what: &'static str,
        /// Its address.
        address: SocketAddr,
        /// The option that changes the address.
        option: &'static str,
    },
    /// Two listeners of this server have the same address.
    #[error("{what} cannot listen on {address}: {other} listens there; choose another address with {option}")]
    Taken {
        /// The listener.
        what: &'static str,
        /// Its address.
        address: SocketAddr,
        /// The listener that has the address already.
        other: &'static str,
        /// The option that changes the address.
        option: &'static str,
    },
    /// The system refuses the address.
    #[error("{what} cannot listen on {address}; choose another address with {option}")]
    Refused {
        /// The listener.
        what: &'static str,
        /// Its address.
        address: SocketAddr,
        /// The option that changes the address.
        option: &'static str,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
}

/// A request to bind a listener.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BindRequest {
    /// The name of the listener, for messages.
    pub(crate) what: &'static str,
    /// The address to bind.
    pub(crate) address: SocketAddr,
    /// The option that changes the address.
    pub(crate) option: &'static str,
}

impl BindRequest {
    /// Binds the address.
    pub(crate) async fn bind(self) -> Result<TcpListener, Error> {
        let Self { what, address, option } = self;
        TcpListener::bind(address).await.map_err(|source| match source.kind() {
            std::io::ErrorKind::AddrInUse => Error::InUse { what, address, option },
            _ => Error::Refused { what, address, option, source },
        })
    }

    /// Fails if another listener has the same address.
    pub(crate) fn apart(self, other: &Self) -> Result<(), Error> {
        let (own, taken) = (self.address, other.address);
        let reaches = own.ip() == taken.ip()
            || own.is_ipv4() == taken.is_ipv4() && (own.ip().is_unspecified() || taken.ip().is_unspecified());
        // Port 0 lets the system choose a free one.
        if own.port() == 0 || own.port() != taken.port() || !reaches {
            return Ok(());
        }
        Err(Error::Taken { what: self.what, address: own, other: other.what, option: self.option })
    }
}

/// TLS and limits of a listener.
#[derive(Debug, Clone)]
pub(crate) struct ListenerSettings {
    /// TLS, if it is enabled.
    pub(crate) tls: Option<Tls>,
    /// The current limits: each connection has those of its beginning.
    pub(crate) config: Live,
}

/// Spawns the tasks of a connection with recording suppressed: a connection may carry our own telemetry, which would
/// then cause more of it.
#[derive(Debug, Clone, Copy)]
struct Unrecorded;

impl<F> hyper::rt::Executor<F> for Unrecorded
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, future: F) {
        tokio::spawn(Suppressed::new(future));
    }
}

fn builder(limits: &Limits) -> auto::Builder<Unrecorded> {
    let mut builder = auto::Builder::new(Unrecorded);
    let buffer = usize::try_from(limits.header_bytes).unwrap_or(usize::MAX).max(SMALLEST_BUFFER);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.header_timeout).max_buf_size(buffer);
    if limits.headers != USUAL_HEADERS {
        builder.http1().max_headers(limits.headers);
    }
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME_BYTES)
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(limits.header_timeout)
        .keep_alive_timeout(limits.header_timeout);
    builder
}

/// Serves HTTP/1.1 and HTTP/2 on a listener until `stop` turns true; then lets requests under way end.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    terms: ListenerSettings,
    mut stop: watch::Receiver<bool>,
) {
    let graceful = GracefulShutdown::new();
    let connections = ResizableSemaphore::new(terms.config.get().limits.connections);
    loop {
        let config = terms.config.get();
        connections.resize(config.limits.connections);
        let accepted = tokio::select! {
            accepted = accept(&listener, &connections) => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let (stream, peer, permit) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Responses are small and awaited: they must not be delayed by Nagle's algorithm.
        let _ = stream.set_nodelay(true);
        let limits = &config.limits;
        let tls = terms.tls.as_ref().map(Tls::acceptor);
        let connection = Connection {
            builder: builder(limits),
            router: router.clone(),
            watcher: graceful.watcher(),
            scheme: if tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP },
            connect_info: ConnectInfo {
                peer: peer.ip(),
                local: stream.local_addr().ok().map(|local| local.ip()),
            },
        };
        let Limits { header_timeout, progress_timeout, request_timeout, .. } = *limits;
        let times = (request_timeout, progress_timeout);
        tokio::spawn(Suppressed::new(async move {
            // Errors of a connection are not reported; the task ends with it.
            match tls {
                None => {
                    connection
                        .serve(PrefaceTimeout::new(stream, header_timeout, progress_timeout), times)
                        .await;
                }
                Some(tls) => {
                    if let Ok(Ok(stream)) = tokio::time::timeout(header_timeout, tls.accept(stream)).await {
                        connection
                            .serve(PrefaceTimeout::new(stream, header_timeout, progress_timeout), times)
                            .await;
                    }
                }
            }
            drop(permit);
        }));
    }
    drop(listener);
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, graceful.shutdown()).await;
}

/// Accepts the next connection, after a permit for it is free.
async fn accept(
    listener: &TcpListener,
    connections: &ResizableSemaphore,
) -> std::io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let permit = connections.take().await.ok_or(std::io::ErrorKind::Interrupted)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, permit))
}

/// The state of one connection.
struct Connection {
    builder: auto::Builder<Unrecorded>,
    router: Router,
    watcher: Watcher,
    /// The scheme of requests that carry none.
    scheme: Scheme,
    connect_info: ConnectInfo,
}

impl Connection {
    async fn serve(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        (limit, progress): (Duration, Duration),
    ) {
        let router = self.router;
        let answers = Answers::new();
        let watched = answers.clone();
        let service = service_fn(move |mut request: http::Request<Incoming>| {
            request.extensions_mut().insert(self.scheme.clone());
            request.extensions_mut().insert(self.connect_info);
            let id = request.headers().get(&REQUEST_ID).cloned();
            let answer = router.clone().oneshot(request);
            let watched = watched.clone();
            async move {
                let answer = tokio::time::timeout(limit, answer).await;
                let answer =
                    answer.unwrap_or_else(|_| Ok(too_slow(id))).unwrap_or_else(|never| match never {});
                Ok::<_, Infallible>(answer.map(|body| watched.watch(body)))
            }
        });
        let connection =
            self.builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
        tokio::select! {
            _ = self.watcher.watch(connection) => {}
            () = answers.stalled(progress) => {}
        }
    }
}

/// Builds the response to a request that exceeds the request timeout.
fn too_slow(id: Option<HeaderValue>) -> Response {
    let message = "the request took too long (limits.requestTimeout); try again";
    let body = serde_json::json!({ "code": StatusCode::REQUEST_TIMEOUT.as_u16(), "error": message });
    let headers = [(CONTENT_TYPE, "application/json"), (CONNECTION, "close")];
    let mut response = (StatusCode::REQUEST_TIMEOUT, headers, body.to_string()).into_response();
    if let Some(id) = id {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}
