//! The payment service: charges cards over HTTP.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::post;
use axum::{Extension, Json, Router};
use opentelemetry::trace::{SpanKind, TraceContextExt};
use opentelemetry::{Context, KeyValue};
use serde::{Deserialize, Serialize};

use super::bug::Bug;
use super::http::{self, ShopError};
use super::instrument::Telemetry;

/// The test card that is declined.
const DECLINED_CARD: &str = "4000000000000002";
/// The usual latency of the card network.
const USUAL_WAIT: Duration = Duration::from_millis(20);
/// Its latency with the bug.
const SLOW_WAIT: Duration = Duration::from_millis(1500);

/// The request to charge a card.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChargeRequest {
    pub(super) order: String,
    pub(super) card: String,
    pub(super) amount_cents: i64,
}

/// The response to a charge.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Charge {
    pub(super) charge: String,
}

#[derive(Debug)]
struct Payment {
    telemetry: Arc<Telemetry>,
    bug: Option<Bug>,
}

#[derive(Debug, thiserror::Error)]
#[error("the card was declined")]
struct CardDeclinedError;

/// The service's routes.
pub(super) fn router(telemetry: Arc<Telemetry>, bug: Option<Bug>) -> Router {
    let payment = Payment { telemetry: Arc::clone(&telemetry), bug };
    Router::new()
        .route("/charges", post(charge))
        .route_layer(from_fn_with_state(telemetry, http::trace))
        .with_state(Arc::new(payment))
}

async fn charge(
    State(payment): State<Arc<Payment>>,
    Extension(context): Extension<Context>,
    Json(request): Json<ChargeRequest>,
) -> Result<(StatusCode, Json<Charge>), ShopError> {
    context.span().set_attributes([
        KeyValue::new("shop.order.id", request.order.clone()),
        KeyValue::new("shop.payment.amount_cents", request.amount_cents),
    ]);
    payment
        .authorize(&context, &request.card)
        .await
        .map_err(|declined| ShopError::new(StatusCode::PAYMENT_REQUIRED, declined.to_string()))?;
    let charge = format!("ch-{}", super::short_id());
    context.span().set_attribute(KeyValue::new("shop.payment.charge_id", charge.clone()));
    Ok((StatusCode::CREATED, Json(Charge { charge })))
}

impl Payment {
    async fn authorize(&self, context: &Context, card: &str) -> Result<(), CardDeclinedError> {
        let span = self.telemetry.start(context, SpanKind::Internal, "authorize card", Vec::new());
        let wait = match self.bug {
            Some(Bug::SlowPayment) => SLOW_WAIT,
            _ => USUAL_WAIT,
        };
        tokio::time::sleep(wait).await;
        let declined = card == DECLINED_CARD;
        span.set("shop.payment.authorized", !declined);
        if declined {
            span.fail("shop::Declined", &CardDeclinedError);
            return Err(CardDeclinedError);
        }
        Ok(())
    }
}
