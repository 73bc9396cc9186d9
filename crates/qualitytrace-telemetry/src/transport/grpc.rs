//! OTLP over gRPC. Requests are already encoded, so the codec passes bytes through.

use std::{collections::BTreeMap, error::Error as _, io, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Uri, uri::PathAndQuery};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::{
    Request, Status,
    codec::CompressionEncoding,
    metadata::{AsciiMetadataKey, AsciiMetadataValue},
    transport::{Channel, Endpoint},
};

use super::{Answer, answer, chain, tls, user_agent};
use crate::{
    codec::Verbatim,
    config::{self, Compression, Signal, Sink},
};

pub(crate) struct Grpc {
    channels: BTreeMap<Signal, Channel>,
    headers: Vec<(AsciiMetadataKey, AsciiMetadataValue)>,
    compression: Option<CompressionEncoding>,
    timeout: Duration,
}

impl Grpc {
    pub(crate) fn new(sink: &Sink) -> Result<Self, String> {
        let mut by_url: BTreeMap<&str, Channel> = BTreeMap::new();
        let mut channels = BTreeMap::new();
        for (signal, url) in &sink.endpoints {
            let channel = match by_url.get(url.as_str()) {
                Some(channel) => channel.clone(),
                None => by_url.entry(url).or_insert(channel(sink, url)?).clone(),
            };
            channels.insert(*signal, channel);
        }
        let headers = sink
            .headers
            .iter()
            .map(|header| {
                let name = AsciiMetadataKey::from_bytes(header.name.as_bytes());
                let mut value =
                    AsciiMetadataValue::try_from(&header.value).map_err(|_| header.name.clone())?;
                value.set_sensitive(true);
                Ok((name.map_err(|_| header.name.clone())?, value))
            })
            .collect::<Result<_, String>>()
            .map_err(|name| format!("the header `{name}` cannot travel as gRPC metadata"))?;
        let compression = match sink.compression {
            Compression::None => None,
            Compression::Gzip => Some(CompressionEncoding::Gzip),
            Compression::Zstd => Some(CompressionEncoding::Zstd),
        };
        Ok(Self { channels, headers, compression, timeout: sink.delivery.timeout })
    }

    pub(crate) async fn send(&self, signal: Signal, request: Bytes) -> Result<Answer, String> {
        let Some(channel) = self.channels.get(&signal) else {
            return Ok(Answer::Refused { reason: format!("this sink sends no {}", signal.name()) });
        };
        match tokio::time::timeout(self.timeout, self.call(channel.clone(), signal, request)).await {
            Ok(Ok(body)) => Ok(answer::success(&body)),
            // A source means that there was no response; the status was made on our side.
            Ok(Err(status)) => match status.source() {
                Some(source) => Err(chain(source)),
                None => Ok(answer::grpc(status.code() as i32, status.message(), status.details())),
            },
            Err(_) => Err(format!("no answer within {:?}", self.timeout)),
        }
    }

    async fn call(&self, channel: Channel, signal: Signal, body: Bytes) -> Result<Bytes, Status> {
        let mut client = tonic::client::Grpc::new(channel);
        if let Some(compression) = self.compression {
            client = client.send_compressed(compression).accept_compressed(compression);
        }
        // A service that is not ready is a failure to connect.
        client.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
        let mut request = Request::new(body);
        for (name, value) in &self.headers {
            request.metadata_mut().insert(name.clone(), value.clone());
        }
        let path = PathAndQuery::from_static(match signal {
            Signal::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Signal::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
            Signal::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
        });
        client.unary(request, path, Verbatim).await.map(tonic::Response::into_inner)
    }
}

fn channel(sink: &Sink, url: &str) -> Result<Channel, String> {
    let shown = config::shown(url);
    let uri: Uri = url.parse().map_err(|error| format!("`{shown}` is not a URL: {error}"))?;
    let secure = uri.scheme_str() == Some("https");
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let connector = if secure {
        let config = tls::client(&sink.tls, &[b"h2"])?;
        let name = sink.tls.server_name.clone().unwrap_or_else(|| host.clone());
        let name = ServerName::try_from(name)
            .map_err(|error| format!("the host of `{shown}` is no name: {error}"))?;
        Some((TlsConnector::from(Arc::new(config)), name))
    } else {
        None
    };
    // The connector below does TLS itself, so tonic gets a plain address.
    let plain = url.replacen("https://", "http://", 1);
    let endpoint = Endpoint::from_shared(plain)
        .and_then(|endpoint| endpoint.user_agent(user_agent()))
        .map_err(|error| chain(&error))?
        .origin(uri)
        .connect_timeout(sink.delivery.timeout);
    Ok(endpoint.connect_with_connector_lazy(tower::service_fn(move |_| {
        let host = host.clone();
        let connector = connector.clone();
        async move {
            let tcp = TcpStream::connect((host.as_str(), port)).await?;
            tcp.set_nodelay(true)?;
            let stream = match connector {
                Some((connector, name)) => Stream::Tls(Box::new(connector.connect(name, tcp).await?)),
                None => Stream::Plain(tcp),
            };
            Ok::<_, io::Error>(TokioIo::new(stream))
        }
    })))
}

/// A plain or a TLS connection.
enum Stream {
    Plain(TcpStream),
    Tls(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

mod io_impl {
    use std::{
        io,
        pin::Pin,
        task::{Context, Poll},
    };

    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    use super::Stream;

    impl AsyncRead for Stream {
        fn poll_read(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            match self.get_mut() {
                Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
                Self::Tls(stream) => Pin::new(stream.as_mut()).poll_read(cx, buf),
            }
        }
    }

    impl AsyncWrite for Stream {
        fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            match self.get_mut() {
                Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
                Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write(cx, buf),
            }
        }

        fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            match self.get_mut() {
                Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
                Self::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
            }
        }

        fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            match self.get_mut() {
                Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
                Self::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
            }
        }
    }
}
