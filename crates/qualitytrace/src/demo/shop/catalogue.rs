//! The catalogue: a gRPC service of products and prices. `examples/shop/catalogue.proto` describes it.
//!
//! The messages are written by hand, so that building needs no protobuf compiler.

use std::future::ready;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::post;
use opentelemetry::trace::SpanKind;
use opentelemetry::{Context, KeyValue};
use prost::Message;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use super::http::{Headers, HeadersMut, ShopError};
use super::instrument::{Active, Telemetry};
use super::reflection;

/// The full name of the service.
pub(super) const SERVICE: &str = "shop.Catalogue";
const LIST_PRODUCTS: &str = "/shop.Catalogue/ListProducts";
const GET_PRODUCT: &str = "/shop.Catalogue/GetProduct";

const PRODUCTS: [(&str, &str, i64); 5] = [
    ("espresso-beans", "Espresso beans, 1 kg", 1890),
    ("filter-papers", "Filter papers, 100 pieces", 450),
    ("hand-grinder", "Hand grinder", 6900),
    ("milk-jug", "Milk jug, 350 ml", 1250),
    ("travel-mug", "Travel mug", 2400),
];

#[derive(Clone, PartialEq, Message)]
pub(super) struct ListProductsRequest {
    /// Ids to return; an empty list returns all.
    #[prost(string, repeated, tag = "1")]
    pub(super) ids: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ListProductsResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) products: Vec<Product>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GetProductRequest {
    #[prost(string, tag = "1")]
    pub(super) id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Product {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(int64, tag = "3")]
    pub(super) price_cents: i64,
}

/// The service's routes.
pub(super) fn router(telemetry: Arc<Telemetry>) -> anyhow::Result<Router> {
    let reflection = reflection::router()?;
    Ok(Router::new()
        .route(LIST_PRODUCTS, post(list_products))
        .route(GET_PRODUCT, post(get_product))
        .fallback(unknown_method)
        .with_state(telemetry)
        .merge(reflection))
}

async fn list_products(State(telemetry): State<Arc<Telemetry>>, request: Request) -> Response {
    answer(&telemetry, "ListProducts", request, |wanted: ListProductsRequest, span| {
        let products: Vec<_> =
            products().filter(|product| wanted.ids.is_empty() || wanted.ids.contains(&product.id)).collect();
        span.set("shop.products.count", i64::try_from(products.len()).unwrap_or(i64::MAX));
        Ok(ListProductsResponse { products })
    })
    .await
}

async fn get_product(State(telemetry): State<Arc<Telemetry>>, request: Request) -> Response {
    answer(&telemetry, "GetProduct", request, |wanted: GetProductRequest, span| {
        span.set("shop.product.id", wanted.id.clone());
        products()
            .find(|product| product.id == wanted.id)
            .ok_or_else(|| Status::not_found(format!("there is no product `{}`", wanted.id)))
    })
    .await
}

async fn unknown_method() -> Response {
    Status::unimplemented("the catalogue has no such method").into_http()
}

fn products() -> impl Iterator<Item = Product> {
    PRODUCTS.into_iter().map(|(id, name, price_cents)| Product {
        id: id.to_owned(),
        name: name.to_owned(),
        price_cents,
    })
}

/// Handles one call inside a server span.
async fn answer<Q, A>(
    telemetry: &Telemetry,
    method: &'static str,
    request: Request,
    decide: impl Fn(Q, &Active) -> Result<A, Status>,
) -> Response
where
    Q: Message + Default + 'static,
    A: Message + Default + 'static,
{
    let parent = telemetry.extract(&Headers(request.headers()));
    let span = telemetry.start(&parent, SpanKind::Server, format!("{SERVICE}/{method}"), attributes(method));
    let act = tower::service_fn(|request: tonic::Request<Q>| {
        let result = decide(request.into_inner(), &span);
        let code = result.as_ref().err().map_or(Code::Ok, Status::code);
        span.set("rpc.grpc.status_code", i64::from(i32::from(code)));
        ready(result.map(tonic::Response::new))
    });
    tonic::server::Grpc::new(ProstCodec::<A, Q>::default())
        .unary(act, request)
        .await
        .map(axum::body::Body::new)
}

fn attributes(method: &'static str) -> Vec<KeyValue> {
    vec![
        KeyValue::new("rpc.system", "grpc"),
        KeyValue::new("rpc.service", SERVICE),
        KeyValue::new("rpc.method", method),
    ]
}

/// A client of the catalogue.
#[derive(Debug, Clone)]
pub(super) struct Client {
    telemetry: Arc<Telemetry>,
    channel: Channel,
    address: SocketAddr,
}

impl Client {
    pub(super) fn new(telemetry: Arc<Telemetry>, address: SocketAddr) -> anyhow::Result<Self> {
        let channel = Endpoint::from_shared(format!("http://{address}"))
            .context("failed to set up the gRPC client of the shop")?
            .connect_lazy();
        Ok(Self { telemetry, channel, address })
    }

    /// The products with these ids; all of them for an empty list.
    pub(super) async fn list(&self, context: &Context, ids: Vec<String>) -> Result<Vec<Product>, ShopError> {
        let path = PathAndQuery::from_static(LIST_PRODUCTS);
        let answer: ListProductsResponse =
            self.call(context, "ListProducts", path, ListProductsRequest { ids }).await?;
        Ok(answer.products)
    }

    /// One product.
    pub(super) async fn get(&self, context: &Context, id: String) -> Result<Product, ShopError> {
        let path = PathAndQuery::from_static(GET_PRODUCT);
        self.call(context, "GetProduct", path, GetProductRequest { id }).await
    }

    async fn call<Q, A>(
        &self,
        context: &Context,
        method: &'static str,
        path: PathAndQuery,
        message: Q,
    ) -> Result<A, ShopError>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let span = self.telemetry.start(
            context,
            SpanKind::Client,
            format!("{SERVICE}/{method}"),
            attributes(method),
        );
        span.set("server.address", self.address.ip().to_string());
        span.set("server.port", i64::from(self.address.port()));
        let mut headers = HeaderMap::new();
        self.telemetry.inject(span.context(), &mut HeadersMut(&mut headers));
        let mut request = tonic::Request::new(message);
        *request.metadata_mut() = MetadataMap::from_headers(headers);

        let mut client = tonic::client::Grpc::new(self.channel.clone());
        let answer = match client.ready().await {
            Ok(()) => client.unary(request, path, ProstCodec::<Q, A>::default()).await,
            Err(error) => Err(Status::unavailable(error.to_string())),
        };
        let code = answer.as_ref().err().map_or(Code::Ok, Status::code);
        span.set("rpc.grpc.status_code", i64::from(i32::from(code)));
        answer.map(tonic::Response::into_inner).map_err(|status| {
            span.fail("tonic::Status", &status);
            let code = match status.code() {
                Code::NotFound => StatusCode::NOT_FOUND,
                _ => StatusCode::BAD_GATEWAY,
            };
            ShopError::new(code, status.message())
        })
    }
}
