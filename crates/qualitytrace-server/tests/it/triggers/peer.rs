//! A gRPC server with reflection, streams, rich statuses and TLS.

use std::net::SocketAddr;
use std::pin::Pin;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::post;
use futures_util::{Stream, StreamExt as _};
use prost::Message as _;
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::service::Routes;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use super::certificates::Authority;

pub(super) const PROTO: &str = include_str!("peer.proto");
pub(super) const MONEY: &str = include_str!("money.proto");

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Ask {
    #[prost(string, tag = "1")]
    text: String,
    #[prost(int32, tag = "2")]
    count: i32,
    #[prost(message, optional, tag = "3")]
    at: Option<prost_types::Timestamp>,
    #[prost(message, optional, tag = "4")]
    price: Option<Money>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Money {
    #[prost(int64, tag = "1")]
    cents: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Told {
    #[prost(string, tag = "1")]
    text: String,
    #[prost(int64, tag = "2")]
    total: i64,
    #[prost(string, repeated, tag = "3")]
    seen: Vec<String>,
    #[prost(bool, tag = "4")]
    odd: bool,
}

/// The versions of reflection that a peer offers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reflection {
    Both,
    OnlyOld,
    None,
}

/// Serves until the test ends.
pub(super) async fn serve(reflection: Reflection) -> SocketAddr {
    start(reflection, Server::builder()).await
}

/// Like [`serve`], with TLS and a self-signed certificate.
pub(super) async fn serve_tls() -> SocketAddr {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let signed = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let identity = Identity::from_pem(signed.cert.pem(), signed.signing_key.serialize_pem());
    let server = Server::builder().tls_config(ServerTlsConfig::new().identity(identity)).unwrap();
    start(Reflection::Both, server).await
}

/// Like [`serve`], with a certificate of this authority, requiring client certificates of the other one.
pub(super) async fn serve_mutual(ours: &Authority, clients: &Authority) -> SocketAddr {
    let me = ours.sign("localhost");
    let tls = ServerTlsConfig::new()
        .identity(Identity::from_pem(me.certificate, me.key))
        .client_ca_root(Certificate::from_pem(&clients.pem));
    start(Reflection::Both, Server::builder().tls_config(tls).unwrap()).await
}

async fn start(reflection: Reflection, mut server: Server) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut router = Router::new()
        .route("/peer.Echo/Say", post(say))
        .route("/peer.Echo/Count", post(count))
        .route("/peer.Echo/Gather", post(gather))
        .route("/peer.Echo/Chat", post(chat));
    let set = descriptors();
    let builder =
        || tonic_reflection::server::Builder::configure().register_encoded_file_descriptor_set(&set);
    if reflection == Reflection::Both {
        router = router.merge(routes(Routes::new(builder().build_v1().unwrap())));
    }
    if reflection != Reflection::None {
        router = router.merge(routes(Routes::new(builder().build_v1alpha().unwrap())));
    }
    tokio::spawn(
        server.add_routes(Routes::from(router)).serve_with_incoming(TcpListenerStream::new(listener)),
    );
    address
}

fn routes(routes: Routes) -> Router {
    routes.into_axum_router().reset_fallback()
}

/// Returns the compiled protocol of the peer.
pub(super) fn descriptors() -> Vec<u8> {
    let mut resolver = ChainFileResolver::new();
    resolver.add(Texts);
    resolver.add(GoogleFileResolver::new());
    let mut compiler = protox::Compiler::with_file_resolver(resolver);
    compiler.include_imports(true).open_file("peer.proto").unwrap();
    compiler.encode_file_descriptor_set()
}

struct Texts;

impl FileResolver for Texts {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        match name {
            "peer.proto" => File::from_source(name, PROTO),
            "shared/money.proto" => File::from_source(name, MONEY),
            _ => Err(protox::Error::file_not_found(name)),
        }
    }
}

fn grpc() -> tonic::server::Grpc<ProstCodec<Told, Ask>> {
    tonic::server::Grpc::new(ProstCodec::default())
}

async fn say(request: Request) -> Response {
    let act = tower::service_fn(async |request: tonic::Request<Ask>| {
        let seen = ["traceparent", "x-user", "authorization", "grpc-timeout"]
            .into_iter()
            .filter_map(|key| Some(format!("{key}: {}", request.metadata().get(key)?.to_str().unwrap())))
            .collect();
        let ask = request.into_inner();
        match ask.text.as_str() {
            "missing" => Err(rich_status()),
            "expired" => Err(Status::deadline_exceeded("the shop was too slow")),
            "hang" => std::future::pending().await,
            "much" => Ok(told(Told { text: "x".repeat(1 << 20), ..Told::default() })),
            text => {
                let total = ask.price.map_or(0, |price| price.cents) + ask.at.map_or(0, |at| at.seconds);
                Ok(told(Told { text: format!("hello {text}"), total, seen, odd: false }))
            }
        }
    });
    grpc().unary(act, request).await.map(axum::body::Body::new)
}

fn told(told: Told) -> tonic::Response<Told> {
    let mut response = tonic::Response::new(told);
    response.metadata_mut().insert("x-peer", "yes".parse().unwrap());
    response
}

fn rich_status() -> Status {
    let field = [&[0x0a, 4][..], b"text", &[0x12, 7], b"unknown"].concat();
    let bad_request = [&[0x0a, u8::try_from(field.len()).unwrap()][..], &field].concat();
    let detail = prost_types::Any {
        type_url: "type.googleapis.com/google.rpc.BadRequest".to_owned(),
        value: bad_request,
    };
    let detail = detail.encode_to_vec();
    let mut status = vec![0x1a];
    prost::encoding::encode_varint(detail.len() as u64, &mut status);
    status.extend(detail);
    Status::with_details(Code::NotFound, "there is no such text", status.into())
}

type Answers = Pin<Box<dyn Stream<Item = Result<Told, Status>> + Send>>;

async fn count(request: Request) -> Response {
    let act = tower::service_fn(async |request: tonic::Request<Ask>| {
        let ask = request.into_inner();
        let ends_badly = ask.text == "fail";
        let counted = (1..=ask.count).map(|total| Ok(Told { total: total.into(), ..Told::default() }));
        let end = ends_badly.then(|| Err(Status::data_loss("the rest is lost")));
        Ok::<_, Status>(tonic::Response::new(tokio_stream::iter(counted.chain(end))))
    });
    grpc().server_streaming(act, request).await.map(axum::body::Body::new)
}

async fn gather(request: Request) -> Response {
    let act = tower::service_fn(async |request: tonic::Request<tonic::Streaming<Ask>>| {
        let texts: Vec<String> = request.into_inner().map(|ask| ask.unwrap().text).collect().await;
        Ok::<_, Status>(told(Told { text: texts.join(" "), ..Told::default() }))
    });
    grpc().client_streaming(act, request).await.map(axum::body::Body::new)
}

async fn chat(request: Request) -> Response {
    let act = tower::service_fn(async |request: tonic::Request<tonic::Streaming<Ask>>| {
        let answers =
            request.into_inner().map(|ask| ask.map(|ask| Told { text: ask.text, ..Told::default() }));
        Ok::<_, Status>(tonic::Response::new(Box::pin(answers) as Answers))
    });
    grpc().streaming(act, request).await.map(axum::body::Body::new)
}
