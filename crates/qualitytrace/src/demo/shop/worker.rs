//! The worker: packs orders from the queue, after the buyer already has a response.
//!
//! It also serves the status of each order over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use axum::{Extension, Json, Router};
use opentelemetry::trace::{SpanKind, TraceContextExt};
use opentelemetry::{Context, KeyValue};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::Stop;
use super::bug::Bug;
use super::database::{Database, Statement};
use super::http::{self, ShopError};
use super::instrument::Telemetry;
use super::queue::{Consumer, Message};

/// The queue that the worker reads.
pub(super) const QUEUE: &str = "orders";
/// The messaging system in attributes of queue spans.
pub(super) const SYSTEM: &str = "shopmq";
/// Concurrency limit; further orders wait in the queue.
const HANDS: usize = 16;
/// How long packing takes.
const PACKING_TIME: Duration = Duration::from_millis(150);

const SCHEMA: &str =
    "CREATE TABLE orders (id TEXT PRIMARY KEY, status TEXT NOT NULL, total_cents INTEGER NOT NULL)";
const INSERT_ORDER: Statement = Statement {
    operation: "INSERT",
    table: "orders",
    text: "INSERT INTO orders (id, status, total_cents) VALUES (?1, 'received', ?2)",
};
const UPDATE_ORDER: Statement = Statement {
    operation: "UPDATE",
    table: "orders",
    text: "UPDATE orders SET status = 'packed' WHERE id = ?1",
};
const SELECT_ORDER: Statement = Statement {
    operation: "SELECT",
    table: "orders",
    text: "SELECT status, total_cents FROM orders WHERE id = ?1",
};

/// An order, in the queue and in responses.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Order {
    pub(super) id: String,
    pub(super) status: String,
    pub(super) total_cents: i64,
}

/// The service: its HTTP side is [`Worker::router`], its queue side [`Worker::consume`].
#[derive(Debug)]
pub(super) struct Worker {
    telemetry: Arc<Telemetry>,
    database: Database,
    bug: Option<Bug>,
}

impl Worker {
    pub(super) async fn new(telemetry: Arc<Telemetry>, bug: Option<Bug>) -> anyhow::Result<Arc<Self>> {
        let database = Database::open(Arc::clone(&telemetry), "orders", SCHEMA).await?;
        Ok(Arc::new(Self { telemetry, database, bug }))
    }

    /// The service's routes.
    pub(super) fn router(self: &Arc<Self>) -> Router {
        Router::new()
            .route("/orders/{id}", get(show))
            .route_layer(from_fn_with_state(Arc::clone(&self.telemetry), http::trace))
            .with_state(Arc::clone(self))
    }

    /// Processes messages until told to stop; those that were begun are finished.
    pub(super) async fn consume(self: Arc<Self>, broker: SocketAddr, mut stop: Stop) -> anyhow::Result<()> {
        let mut consumer = Consumer::attach(broker, QUEUE).await?;
        let mut hands = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = stop.wait() => break,
                Some(ended) = hands.join_next() => ended.context("the worker panicked over an order")?,
                ready = consumer.ready(), if hands.len() < HANDS => {
                    ready?;
                    let Some(message) = consumer.next().await? else { break };
                    let worker = Arc::clone(&self);
                    hands.spawn(async move { worker.process(&message).await });
                }
            }
        }
        while let Some(ended) = hands.join_next().await {
            ended.context("the worker panicked over an order")?;
        }
        Ok(())
    }

    /// Processes a message in a span of the sender's trace, which also links to the sending span, as the conventions
    /// ask.
    async fn process(&self, message: &Message) {
        let sender = self.telemetry.extract(&message.attributes);
        let span = self.telemetry.start(
            &sender,
            SpanKind::Consumer,
            format!("process {QUEUE}"),
            vec![
                KeyValue::new("messaging.system", SYSTEM),
                KeyValue::new("messaging.destination.name", QUEUE),
                KeyValue::new("messaging.operation.name", "process"),
                KeyValue::new("messaging.operation.type", "process"),
                KeyValue::new("messaging.message.id", message.id.clone()),
            ],
        );
        span.link(sender.span().span_context().clone());
        let result = async {
            let order: Order =
                serde_json::from_value(message.body.clone()).context("the message holds no order")?;
            if self.bug != Some(Bug::MissingAttribute) {
                span.set("shop.order.id", order.id.clone());
            }
            self.pack(span.context(), &order).await
        };
        if let Err(error) = result.await {
            span.fail("anyhow::Error", error.as_ref());
        }
    }

    async fn pack(&self, context: &Context, order: &Order) -> anyhow::Result<()> {
        let pool = &self.database.pool;
        let insert = sqlx::query(INSERT_ORDER.text).bind(&order.id).bind(order.total_cents).execute(pool);
        self.database.traced(context, INSERT_ORDER, insert).await.context("failed to note the order")?;
        {
            let _span = self.telemetry.start(context, SpanKind::Internal, "pack order", Vec::new());
            tokio::time::sleep(PACKING_TIME).await;
        }
        let update = sqlx::query(UPDATE_ORDER.text).bind(&order.id).execute(pool);
        self.database.traced(context, UPDATE_ORDER, update).await.context("failed to note the packing")?;
        Ok(())
    }
}

async fn show(
    State(worker): State<Arc<Worker>>,
    Extension(context): Extension<Context>,
    Path(id): Path<String>,
) -> Result<Json<Order>, ShopError> {
    let query = sqlx::query_as(SELECT_ORDER.text).bind(&id).fetch_optional(&worker.database.pool);
    let found: Option<(String, i64)> = worker.database.traced(&context, SELECT_ORDER, query).await?;
    let (status, total_cents) =
        found.ok_or_else(|| ShopError::new(StatusCode::NOT_FOUND, format!("there is no order `{id}`")))?;
    Ok(Json(Order { id, status, total_cents }))
}
