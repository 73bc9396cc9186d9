//! The cart service: HTTP in front of a SQLite database.

use std::sync::Arc;

use anyhow::Context as _;
use axum::extract::{Path, State};
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use opentelemetry::Context;
use serde::{Deserialize, Serialize};

use super::bug::Bug;
use super::database::{Database, Statement};
use super::http::{self, ShopError};
use super::instrument::Telemetry;

/// Grace and Henry have items in their carts from the start.
const SCHEMA: &str = "
    CREATE TABLE cart_items (
        user_name TEXT NOT NULL,
        product TEXT NOT NULL,
        quantity INTEGER NOT NULL,
        PRIMARY KEY (user_name, product)
    );
    INSERT INTO cart_items VALUES
        ('grace', 'espresso-beans', 2),
        ('grace', 'filter-papers', 1),
        ('grace', 'hand-grinder', 1),
        ('grace', 'milk-jug', 3),
        ('henry', 'travel-mug', 2);
";

const SELECT_ITEMS: Statement = Statement {
    operation: "SELECT",
    table: "cart_items",
    text: "SELECT product, quantity FROM cart_items WHERE user_name = ?1 ORDER BY product",
};
const SELECT_PRODUCTS: Statement = Statement {
    operation: "SELECT",
    table: "cart_items",
    text: "SELECT product FROM cart_items WHERE user_name = ?1 ORDER BY product",
};
const SELECT_QUANTITY: Statement = Statement {
    operation: "SELECT",
    table: "cart_items",
    text: "SELECT quantity FROM cart_items WHERE user_name = ?1 AND product = ?2",
};
const INSERT_ITEMS: Statement = Statement {
    operation: "INSERT",
    table: "cart_items",
    text: "INSERT INTO cart_items (user_name, product, quantity) \
           SELECT ?1, value ->> 'product', value ->> 'quantity' FROM json_each(?2) WHERE true \
           ON CONFLICT (user_name, product) DO UPDATE SET quantity = quantity + excluded.quantity",
};
const DELETE_ITEMS: Statement = Statement {
    operation: "DELETE",
    table: "cart_items",
    text: "DELETE FROM cart_items WHERE user_name = ?1",
};

/// A quantity of one product.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Item {
    pub(super) product: String,
    pub(super) quantity: u32,
}

/// The cart of a user.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Cart {
    pub(super) user: String,
    pub(super) items: Vec<Item>,
}

/// Items to put into a cart.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct NewItems {
    pub(super) items: Vec<Item>,
}

#[derive(Debug)]
struct Carts {
    database: Database,
    bug: Option<Bug>,
}

/// The service's routes over a fresh database.
pub(super) async fn router(telemetry: Arc<Telemetry>, bug: Option<Bug>) -> anyhow::Result<Router> {
    let database = Database::open(Arc::clone(&telemetry), "carts", SCHEMA).await?;
    Ok(Router::new()
        .route("/carts/{user}", get(show).delete(clear))
        .route("/carts/{user}/items", post(add))
        .route_layer(from_fn_with_state(telemetry, http::trace))
        .with_state(Arc::new(Carts { database, bug })))
}

async fn show(
    State(carts): State<Arc<Carts>>,
    Extension(context): Extension<Context>,
    Path(user): Path<String>,
) -> Result<Json<Cart>, ShopError> {
    let items = carts.items(&context, &user).await?;
    Ok(Json(Cart { user, items }))
}

async fn add(
    State(carts): State<Arc<Carts>>,
    Extension(context): Extension<Context>,
    Path(user): Path<String>,
    Json(new): Json<NewItems>,
) -> Result<Json<Cart>, ShopError> {
    // Each guest gets a unique name, so that guests do not share a cart.
    let user = match user.as_str() {
        "guest" => format!("guest-{}", super::short_id()),
        _ => user,
    };
    let items = serde_json::to_string(&new.items)
        .context("failed to encode the items")
        .map_err(|error| ShopError::new(axum::http::StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    let insert = sqlx::query(INSERT_ITEMS.text).bind(&user).bind(items);
    carts.run(&context, INSERT_ITEMS, insert).await?;
    let items = carts.items(&context, &user).await?;
    Ok(Json(Cart { user, items }))
}

async fn clear(
    State(carts): State<Arc<Carts>>,
    Extension(context): Extension<Context>,
    Path(user): Path<String>,
) -> Result<Json<Cart>, ShopError> {
    carts.run(&context, DELETE_ITEMS, sqlx::query(DELETE_ITEMS.text).bind(&user)).await?;
    Ok(Json(Cart { user, items: Vec::new() }))
}

type Query<'q> = sqlx::query::Query<'q, sqlx::Sqlite, sqlx::sqlite::SqliteArguments>;

impl Carts {
    async fn items(&self, context: &Context, user: &str) -> Result<Vec<Item>, sqlx::Error> {
        if self.bug == Some(Bug::NPlusOneQueries) {
            return self.items_one_by_one(context, user).await;
        }
        let rows: Vec<(String, u32)> = self
            .database
            .traced(
                context,
                SELECT_ITEMS,
                sqlx::query_as(SELECT_ITEMS.text).bind(user).fetch_all(&self.database.pool),
            )
            .await?;
        Ok(rows.into_iter().map(|(product, quantity)| Item { product, quantity }).collect())
    }

    async fn items_one_by_one(&self, context: &Context, user: &str) -> Result<Vec<Item>, sqlx::Error> {
        let pool = &self.database.pool;
        let query = sqlx::query_scalar(SELECT_PRODUCTS.text).bind(user).fetch_all(pool);
        let products: Vec<String> = self.database.traced(context, SELECT_PRODUCTS, query).await?;
        let mut items = Vec::with_capacity(products.len());
        for product in products {
            let query = sqlx::query_scalar(SELECT_QUANTITY.text).bind(user).bind(&product).fetch_one(pool);
            let quantity = self.database.traced(context, SELECT_QUANTITY, query).await?;
            items.push(Item { product, quantity });
        }
        Ok(items)
    }

    async fn run(
        &self,
        context: &Context,
        statement: Statement,
        query: Query<'_>,
    ) -> Result<(), sqlx::Error> {
        self.database.traced(context, statement, query.execute(&self.database.pool)).await?;
        Ok(())
    }
}
