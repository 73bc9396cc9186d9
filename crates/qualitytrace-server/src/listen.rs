//! Sockets: binding them with a helpful word when it fails, serving them, and letting go in good order.

mod patience;
mod progress;
mod tls;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
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

use patience::Patient;
use progress::Answers;
use qualitytrace_telemetry::Suppressed;
pub(crate) use tls::Tls;
pub use tls::{Certificate, Error as TlsError};

use crate::config::Live;
use crate::limits::Limits;
use crate::places::Places;
use crate::watch::REQUEST_ID;

/// Bytes that may be on the way on one HTTP/2 stream before we have read them.
const STREAM_WINDOW: u32 = 1024 * 1024;
/// The same for one connection.
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;
/// Bytes that one HTTP/2 frame may hold: large exports come in few pieces.
const FRAME_BYTES: u32 = 1024 * 1024;
/// Requests at a time on one HTTP/2 connection.
const STREAMS: u32 = 256;
/// What hyper takes without asking; another number costs memory for each request.
const USUAL_HEADERS: usize = 100;
/// Hyper takes no smaller buffer.
const SMALLEST_BUFFER: usize = 8 * 1024;
/// How long requests under way may take to end when the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait before accepting again when the machine has no more sockets.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// An address could not be bound.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process has it.
    #[error(
        "{what} cannot listen on {address}: the port is in use; stop the other process or choose another with {option}"
    )]
    InUse {
        /// What was to listen.
        what: &'static str,
        /// Where.
        address: SocketAddr,
        /// The option that moves it.
        option: &'static str,
    },
    /// It was given to two.
    #[error("{what} cannot listen on {address}: {other} listens there; choose another address with {option}")]
    Taken {
        /// What was to listen.
        what: &'static str,
        /// Where.
        address: SocketAddr,
        /// Who has it.
        other: &'static str,
        /// The option that moves it.
        option: &'static str,
    },
    /// The system refuses.
    #[error("{what} cannot listen on {address}; choose another address with {option}")]
    Refused {
        /// What was to listen.
        what: &'static str,
        /// Where.
        address: SocketAddr,
        /// The option that moves it.
        option: &'static str,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
}

/// What is to listen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish {
    /// What it is called.
    pub(crate) what: &'static str,
    /// Where it is to listen.
    pub(crate) address: SocketAddr,
    /// The option that moves it.
    pub(crate) option: &'static str,
}

impl Wish {
    /// Binds the address.
    pub(crate) async fn bind(self) -> Result<TcpListener, Error> {
        let Self { what, address, option } = self;
        TcpListener::bind(address).await.map_err(|source| match source.kind() {
            std::io::ErrorKind::AddrInUse => Error::InUse { what, address, option },
            _ => Error::Refused { what, address, option, source },
        })
    }

    /// Refuses an address that another one takes.
    pub(crate) fn apart(self, other: &Self) -> Result<(), Error> {
        let (own, taken) = (self.address, other.address);
        let reaches = own.ip() == taken.ip()
            || own.is_ipv4() == taken.is_ipv4() && (own.ip().is_unspecified() || taken.ip().is_unspecified());
        // Port 0 is any that is free.
        if own.port() == 0 || own.port() != taken.port() || !reaches {
            return Ok(());
        }
        Err(Error::Taken { what: self.what, address: own, other: other.what, option: self.option })
    }
}

/// The two ends of the connection that a request came over, among its extensions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    /// The client, or the proxy before it.
    pub(crate) peer: IpAddr,
    /// Ourselves, as the client knows us.
    pub(crate) local: Option<IpAddr>,
}

/// What a socket takes, and how it is secured.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    /// TLS, if it is spoken.
    pub(crate) tls: Option<Tls>,
    /// The limits of the moment: each connection has those of its beginning.
    pub(crate) config: Live,
}

/// Runs the parts of a connection. What they say about themselves is not recorded: a connection may carry our own
/// telemetry, which would then cause more of it.
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

/// Serves HTTP/1.1 and HTTP/2 on a socket until `stop` turns true; then lets requests under way end.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    terms: Terms,
    mut stop: watch::Receiver<bool>,
) {
    let graceful = GracefulShutdown::new();
    let places = Places::new(terms.config.get().limits.connections);
    loop {
        let config = terms.config.get();
        places.resize(config.limits.connections);
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let (stream, peer, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Answers are small and awaited: they must not wait for a fuller packet.
        let _ = stream.set_nodelay(true);
        let limits = &config.limits;
        let tls = terms.tls.as_ref().map(Tls::acceptor);
        let connection = Connection {
            builder: builder(limits),
            router: router.clone(),
            watcher: graceful.watcher(),
            scheme: if tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP },
            ends: Ends { peer: peer.ip(), local: stream.local_addr().ok().map(|local| local.ip()) },
        };
        let Limits { header_timeout, progress_timeout, request_timeout, .. } = *limits;
        let times = (request_timeout, progress_timeout);
        tokio::spawn(Suppressed::new(async move {
            // A broken connection is the client's affair; the task ends with it.
            match tls {
                None => {
                    connection.serve(Patient::new(stream, header_timeout, progress_timeout), times).await;
                }
                Some(tls) => {
                    if let Ok(Ok(stream)) = tokio::time::timeout(header_timeout, tls.accept(stream)).await {
                        connection.serve(Patient::new(stream, header_timeout, progress_timeout), times).await;
                    }
                }
            }
            drop(place);
        }));
    }
    drop(listener);
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, graceful.shutdown()).await;
}

/// The next connection, once there is a place for it.
async fn accept(
    listener: &TcpListener,
    places: &Places,
) -> std::io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let place = places.take().await.ok_or(std::io::ErrorKind::Interrupted)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, place))
}

/// What one connection needs.
struct Connection {
    builder: auto::Builder<Unrecorded>,
    router: Router,
    watcher: Watcher,
    /// What is spoken, for requests that do not say so themselves.
    scheme: Scheme,
    ends: Ends,
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
            request.extensions_mut().insert(self.ends);
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

/// What is said to a client that takes too long to send its request.
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
