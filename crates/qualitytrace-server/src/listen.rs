//! Sockets: binding them with a helpful word when it fails, serving them, and letting go in good order.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Bytes that may be on the way on one HTTP/2 stream before we have read them.
const STREAM_WINDOW: u32 = 1024 * 1024;
/// The same for one connection.
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;
/// Bytes that one HTTP/2 frame may hold: large exports come in few pieces.
const FRAME_BYTES: u32 = 1024 * 1024;
/// Requests at a time on one HTTP/2 connection.
const STREAMS: u32 = 256;
/// How long a client may take to send the head of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
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

/// Binds an address.
pub async fn bind(
    what: &'static str,
    address: SocketAddr,
    option: &'static str,
) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|source| match source.kind() {
        std::io::ErrorKind::AddrInUse => Error::InUse { what, address, option },
        _ => Error::Refused { what, address, option, source },
    })
}

/// Serves HTTP/1.1 and HTTP/2 on a socket until `stop` turns true; then lets requests under way end.
pub async fn serve(listener: TcpListener, router: Router, mut stop: watch::Receiver<bool>) {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME_BYTES)
        .max_concurrent_streams(STREAMS);
    let connections = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Answers are small and awaited: they must not wait for a fuller packet.
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(router.clone());
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
        let connection = connections.watch(connection);
        // A broken connection is the client's affair; the task ends with it.
        tokio::spawn(async move { drop(connection.await) });
    }
    drop(listener);
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, connections.shutdown()).await;
}
