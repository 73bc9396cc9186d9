//! A client connection: sends a body, waits for the response.

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::{Request, StatusCode, header::CONTENT_ENCODING};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::answer::Answer;

/// The length of a gRPC message prefix.
const GRPC_PREFIX: usize = 5;

/// The address and protocol of requests.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) addr: String,
    pub(crate) grpc: bool,
    pub(crate) gzip: bool,
}

/// A connection, or one of many handles to it: gRPC shares one connection among several senders.
pub(crate) enum Link {
    Grpc(h2::client::SendRequest<Bytes>),
    Http(hyper::client::conn::http1::SendRequest<Full<Bytes>>),
}

impl Link {
    /// Connects; a task drives the connection until it closes.
    pub(crate) async fn connect(route: &Route) -> Result<Self> {
        let socket = TcpStream::connect(&route.addr)
            .await
            .with_context(|| format!("failed to connect to {}", route.addr))?;
        socket.set_nodelay(true)?;
        if route.grpc {
            let (send, connection) = h2::client::handshake(socket).await?;
            // Its end shows as an error of the next send.
            tokio::spawn(connection);
            Ok(Self::Grpc(send))
        } else {
            let (send, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await?;
            tokio::spawn(connection);
            Ok(Self::Http(send))
        }
    }

    /// A second handle to the same connection, where the protocol allows it.
    pub(crate) fn share(&self) -> Option<Self> {
        match self {
            Self::Grpc(send) => Some(Self::Grpc(send.clone())),
            Self::Http(_) => None,
        }
    }

    /// Sends one request and waits for its response.
    pub(crate) async fn send(&mut self, route: &Route, body: Bytes) -> Result<Answer> {
        match self {
            Self::Grpc(send) => grpc(send, route, body).await,
            Self::Http(send) => http(send, route, body).await,
        }
    }
}

async fn grpc(send: &mut h2::client::SendRequest<Bytes>, route: &Route, body: Bytes) -> Result<Answer> {
    let path = "opentelemetry.proto.collector.trace.v1.TraceService/Export";
    let mut request = Request::post(format!("http://{}/{path}", route.addr))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    if route.gzip {
        request = request.header("grpc-encoding", "gzip");
    }
    let mut ready = send.clone().ready().await.context("the connection takes no more requests")?;
    let (response, mut stream) = ready.send_request(request.body(())?, false)?;
    stream.send_data(body, true)?;
    let response = response.await?;
    if response.status() != StatusCode::OK {
        return Ok(Answer::Refused { code: format!("http {}", response.status().as_u16()) });
    }
    let in_headers = response.headers().get("grpc-status").cloned();
    let mut body = response.into_body();
    let mut message = Vec::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk?;
        body.flow_control().release_capacity(chunk.len())?;
        message.extend_from_slice(&chunk);
    }
    let status = match in_headers {
        Some(status) => Some(status),
        None => body.trailers().await?.and_then(|trailers| trailers.get("grpc-status").cloned()),
    };
    let status = status.context("the answer has no grpc-status")?;
    Ok(Answer::from_grpc(status.to_str()?, message.get(GRPC_PREFIX..).unwrap_or_default()))
}

async fn http(
    send: &mut hyper::client::conn::http1::SendRequest<Full<Bytes>>,
    route: &Route,
    body: Bytes,
) -> Result<Answer> {
    let mut request = Request::post("/v1/traces")
        .header("host", &route.addr)
        .header("content-type", "application/x-protobuf");
    if route.gzip {
        request = request.header(CONTENT_ENCODING, "gzip");
    }
    send.ready().await.context("the connection takes no more requests")?;
    let response = send.send_request(request.body(Full::new(body))?).await?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    Ok(Answer::from_http(status, &body))
}
