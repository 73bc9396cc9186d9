//! The gateway: the only public service of the shop.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use opentelemetry::trace::{SpanKind, TraceContextExt};
use opentelemetry::{Context, KeyValue};
use serde::{Deserialize, Serialize};

use super::bug::Bug;
use super::cart::{Cart, NewItems};
use super::catalogue::{self, Product};
use super::http::{self, Call, ShopError};
use super::instrument::Telemetry;
use super::payment::{Charge, ChargeRequest};
use super::queue::{self, Message};
use super::worker::{self, Order};

/// The longest name in a path.
const MAX_NAME: usize = 64;
/// A body for calls that have none.
const NOTHING: Option<&()> = None;

/// The addresses of the other services.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peers {
    pub(super) catalogue: SocketAddr,
    pub(super) cart: SocketAddr,
    pub(super) payment: SocketAddr,
    pub(super) worker: SocketAddr,
    pub(super) broker: SocketAddr,
}

#[derive(Debug)]
struct Gateway {
    telemetry: Arc<Telemetry>,
    catalogue: catalogue::Client,
    cart: http::Client,
    payment: http::Client,
    worker: http::Client,
    broker: SocketAddr,
    bug: Option<Bug>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ProductView {
    id: String,
    name: String,
    price_cents: i64,
}

#[derive(Debug, Deserialize)]
struct Checkout {
    user: String,
    card: String,
}

/// The service's routes.
pub(super) fn router(telemetry: Arc<Telemetry>, peers: Peers, bug: Option<Bug>) -> anyhow::Result<Router> {
    let gateway = Gateway {
        catalogue: catalogue::Client::new(Arc::clone(&telemetry), peers.catalogue)?,
        cart: http::Client::new(Arc::clone(&telemetry), peers.cart)?,
        payment: http::Client::new(Arc::clone(&telemetry), peers.payment)?,
        worker: http::Client::new(Arc::clone(&telemetry), peers.worker)?,
        broker: peers.broker,
        telemetry: Arc::clone(&telemetry),
        bug,
    };
    Ok(Router::new()
        .route("/products", get(list_products))
        .route("/products/{id}", get(show_product))
        .route("/cart/{user}", get(show_cart))
        .route("/cart/{user}/items", post(add_to_cart))
        .route("/checkout", post(checkout))
        .route("/orders/{id}", get(show_order))
        .route_layer(from_fn_with_state(telemetry, http::trace))
        // Below the layer: health checks would only be noise among the traces.
        .route("/health", get(async || "ok\n"))
        .with_state(Arc::new(gateway)))
}

async fn list_products(
    State(gateway): State<Arc<Gateway>>,
    Extension(context): Extension<Context>,
) -> Result<Json<Vec<ProductView>>, ShopError> {
    let products = gateway.catalogue.list(&context, Vec::new()).await?;
    Ok(Json(products.into_iter().map(ProductView::from).collect()))
}

async fn show_product(
    State(gateway): State<Arc<Gateway>>,
    Extension(context): Extension<Context>,
    Path(id): Path<String>,
) -> Result<Json<ProductView>, ShopError> {
    let product = gateway.catalogue.get(&context, id).await?;
    Ok(Json(product.into()))
}

async fn show_cart(
    State(gateway): State<Arc<Gateway>>,
    Extension(context): Extension<Context>,
    Path(user): Path<String>,
) -> Result<Json<Cart>, ShopError> {
    Ok(Json(gateway.load_cart(&context, &user).await?))
}

async fn add_to_cart(
    State(gateway): State<Arc<Gateway>>,
    Extension(context): Extension<Context>,
    Path(user): Path<String>,
    Json(new): Json<NewItems>,
) -> Result<Json<Cart>, ShopError> {
    check_name(&user)?;
    let ids: Vec<_> = new.items.iter().map(|item| item.product.clone()).collect();
    let known = gateway.catalogue.list(&context, ids).await?;
    if let Some(item) = new.items.iter().find(|item| known.iter().all(|product| product.id != item.product)) {
        let message = format!("there is no product `{}`", item.product);
        return Err(ShopError::new(StatusCode::NOT_FOUND, message));
    }
    let call =
        Call { method: Method::POST, template: "/carts/{user}/items", path: &format!("/carts/{user}/items") };
    Ok(Json(gateway.cart.send(&context, call, Some(&new)).await?))
}

/// Checks out a cart: prices it, charges the card, empties the cart, and queues the order for the worker.
async fn checkout(
    State(gateway): State<Arc<Gateway>>,
    Extension(context): Extension<Context>,
    Json(request): Json<Checkout>,
) -> Result<Json<Order>, ShopError> {
    let cart = gateway.load_cart(&context, &request.user).await?;
    if cart.items.is_empty() {
        return Err(ShopError::new(StatusCode::CONFLICT, "the cart is empty"));
    }
    let ids = cart.items.iter().map(|item| item.product.clone()).collect();
    let products = gateway.catalogue.list(&context, ids).await?;
    let order = Order {
        id: format!("ord-{}", super::short_id()),
        status: "confirmed".to_owned(),
        total_cents: gateway.total(&cart, &products),
    };
    context.span().set_attributes([
        KeyValue::new("shop.order.id", order.id.clone()),
        KeyValue::new("shop.order.total_cents", order.total_cents),
    ]);
    match gateway.charge(&context, &order, request.card).await {
        Ok(_) => {}
        Err(_) if gateway.bug == Some(Bug::SwallowedError) => {}
        Err(problem) => return Err(problem),
    }
    let empty =
        Call { method: Method::DELETE, template: "/carts/{user}", path: &format!("/carts/{}", request.user) };
    let _: Cart = gateway.cart.send(&context, empty, NOTHING).await?;
    gateway.announce(&context, &order).await?;
    Ok(Json(order))
}

async fn show_order(
    State(gateway): State<Arc<Gateway>>,
    Extension(context): Extension<Context>,
    Path(id): Path<String>,
) -> Result<Json<Order>, ShopError> {
    check_name(&id)?;
    let call = Call { method: Method::GET, template: "/orders/{id}", path: &format!("/orders/{id}") };
    Ok(Json(gateway.worker.send(&context, call, NOTHING).await?))
}

impl Gateway {
    async fn load_cart(&self, context: &Context, user: &str) -> Result<Cart, ShopError> {
        check_name(user)?;
        let call = Call { method: Method::GET, template: "/carts/{user}", path: &format!("/carts/{user}") };
        self.cart.send(context, call, NOTHING).await
    }

    fn total(&self, cart: &Cart, products: &[Product]) -> i64 {
        let price = |id: &str| products.iter().find(|product| product.id == id).map_or(0, |p| p.price_cents);
        cart.items
            .iter()
            .map(|item| match self.bug {
                Some(Bug::WrongTotal) => price(&item.product),
                _ => price(&item.product).saturating_mul(i64::from(item.quantity)),
            })
            .fold(0, i64::saturating_add)
    }

    async fn charge(&self, context: &Context, order: &Order, card: String) -> Result<Charge, ShopError> {
        let request = ChargeRequest { order: order.id.clone(), card, amount_cents: order.total_cents };
        let call = || Call { method: Method::POST, template: "/charges", path: "/charges" };
        let charge = self.payment.send(context, call(), Some(&request)).await?;
        if self.bug == Some(Bug::DuplicateCharge) {
            return self.payment.send(context, call(), Some(&request)).await;
        }
        Ok(charge)
    }

    /// Queues the order for the worker, which processes it after the response.
    async fn announce(&self, context: &Context, order: &Order) -> Result<(), ShopError> {
        let queue = match self.bug {
            Some(Bug::LostAsyncStep) => "order",
            _ => worker::QUEUE,
        };
        let id = super::short_id();
        let span = self.telemetry.start(
            context,
            SpanKind::Producer,
            format!("send {queue}"),
            vec![
                KeyValue::new("messaging.system", worker::SYSTEM),
                KeyValue::new("messaging.destination.name", queue),
                KeyValue::new("messaging.operation.name", "send"),
                KeyValue::new("messaging.operation.type", "send"),
                KeyValue::new("messaging.message.id", id.clone()),
                KeyValue::new("server.address", self.broker.ip().to_string()),
                KeyValue::new("server.port", i64::from(self.broker.port())),
            ],
        );
        let mut attributes = HashMap::new();
        self.telemetry.inject(span.context(), &mut attributes);
        let body = serde_json::json!(order);
        let message = Message { id, attributes, body };
        queue::publish(self.broker, queue, message).await.map_err(|error| {
            span.fail("anyhow::Error", error.as_ref());
            ShopError::new(StatusCode::BAD_GATEWAY, format!("{error:#}"))
        })
    }
}

impl From<Product> for ProductView {
    fn from(product: Product) -> Self {
        Self { id: product.id, name: product.name, price_cents: product.price_cents }
    }
}

/// Rejects names that could change the path of the call that they are put into.
fn check_name(name: &str) -> Result<(), ShopError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(fits) {
        let message = "a name has up to 64 letters, digits and dashes";
        return Err(ShopError::new(StatusCode::BAD_REQUEST, message));
    }
    Ok(())
}
