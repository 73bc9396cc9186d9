//! The connection test of trace data stores, and OTLP arrivals.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use http::uri::Authority;
use qualitytrace_core::definition::secrets::{secrets, unmasked};
use qualitytrace_core::definition::source::{Source, Tempo};
use qualitytrace_core::definition::{self, Format, Kind, Resource};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::api::App;
use crate::api::answer::plain_json;
use crate::api::legacy_error::{LegacyApiError, body};
use crate::api::tenant::Tenant;
use crate::store::without_password;
use crate::trigger::Gate;
use crate::wire::legacy::connection::{Connection, Step};
use crate::wire::time::{NEVER, rfc3339};

/// The connect timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Tests the connection to a data store. Redaction masks in it stand for the secrets of the stored one.
pub(in crate::api) async fn test(
    State(app): State<App>,
    tenant: Tenant,
    sent: Bytes,
) -> Result<Response, LegacyApiError> {
    let spec: Value = body(&sent)?;
    for key in ["name", "type"] {
        if spec[key].as_str().is_none_or(str::is_empty) {
            return Err(LegacyApiError::unprocessable(format!("required field '{key}' is zero value.")));
        }
    }
    let stored = app.store.resource(Kind::DataStore, &tenant.scoped("current")).await?;
    let stored = stored.map(|stored| format!("{{\"spec\":{}}}", stored.spec)).unwrap_or_default();
    let stored = secrets(&stored, Format::Json, Kind::DataStore);
    let text = json!({ "spec": spec }).to_string();
    let text = unmasked(&text, Format::Json, Kind::DataStore, &stored)
        .map_err(|unknown| LegacyApiError::bad_request(unknown.to_string()))?;
    let reading = definition::read_as(&text, Format::Json, Kind::DataStore);
    if let Some(error) = reading.diagnostics.iter().find(|found| found.is_error()) {
        return Err(LegacyApiError::bad_request(error.message.clone()));
    }
    if let Some(unknown) = reading.diagnostics.iter().find(|found| found.code == "unknown-key") {
        let key = text.get(unknown.span.clone()).unwrap_or_default().trim_matches('"');
        return Err(LegacyApiError::unknown_field(key));
    }
    let source = reading.documents.into_iter().find_map(|document| match document.resource {
        Resource::DataStore(store) => Some(store.source),
        _ => None,
    });
    let source = source.ok_or_else(|| LegacyApiError::bad_request("the body is not a data store"))?;
    Ok(plain_json(StatusCode::OK, &outcome(&source, &Gate::of(&app.config.get().limits)).await))
}

async fn outcome(source: &Source, gate: &Gate) -> Connection {
    let mut out = Connection::default();
    let Some((name, addresses, ports)) = endpoints(source).filter(|_| !source.is_received()) else {
        return out;
    };
    let places: Vec<(String, u16)> = addresses.iter().map(|address| place(address)).collect();
    let unusual = places.iter().find(|(_, port)| !ports.contains(port));
    out.port_check = match unusual {
        Some((_, port)) => {
            let usual: Vec<String> = ports.iter().map(ToString::to_string).collect();
            let message = format!(
                "{name} usually answers on port {}, not on \"{port}\"; check the address",
                usual.join(" or ")
            );
            Step { passed: true, status: "warning", message, ..Step::default() }
        }
        None => passed("the port is the usual one".to_owned()),
    };
    for (address, (host, port)) in addresses.iter().zip(&places) {
        let error = match timeout(CONNECT_TIMEOUT, gate.tcp(host, *port)).await {
            Ok(Ok(_)) => continue,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        let address = without_password(address);
        let message = format!("\"{address}\" cannot be reached; start {name} or correct the address");
        out.connectivity = Step { passed: false, status: "failed", message, error };
        return out;
    }
    out.connectivity = passed(format!("{name} can be reached"));
    out
}

fn passed(message: String) -> Step {
    Step { passed: true, status: "passed", message, ..Step::default() }
}

/// The name, the addresses and the usual ports of a data store; `None` when spans are sent to us.
fn endpoints(source: &Source) -> Option<(&'static str, Vec<String>, &'static [u16])> {
    let list = |addresses: &Option<Vec<String>>| addresses.clone().unwrap_or_default();
    Some(match source {
        Source::Jaeger(client) => ("Jaeger", vec![client.endpoint.clone()], &[16685]),
        Source::Tempo(Tempo::Grpc(client)) => ("Tempo", vec![client.endpoint.clone()], &[9095]),
        Source::Tempo(Tempo::Http(client)) => ("Tempo", vec![client.url.clone()], &[80, 443, 3100, 3200]),
        Source::OpenSearch(index) => ("OpenSearch", list(&index.addresses), &[9200, 9250]),
        Source::ElasticApm(index) => ("Elastic APM", list(&index.addresses), &[9200]),
        Source::SignalFx(signalfx) => {
            ("SignalFx", vec![format!("https://api.{}.signalfx.com", signalfx.realm)], &[443])
        }
        Source::AwsXray(xray) => {
            ("AWS X-Ray", vec![format!("https://xray.{}.amazonaws.com", xray.region)], &[443])
        }
        Source::AzureAppInsights(_) => {
            ("Azure", vec!["https://api.loganalytics.azure.com".to_owned()], &[443])
        }
        Source::SumoLogic(sumo) => ("Sumo Logic", vec![sumo.url.clone()], &[443]),
        Source::Tempo(Tempo::Unset) | Source::Received(_) => return None,
    })
}

/// The host and port of an address.
fn place(address: &str) -> (String, u16) {
    let (default, rest) = match address.split_once("://") {
        Some(("https", rest)) => (443, rest),
        Some((_, rest)) => (80, rest),
        None => (443, address),
    };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    match authority.parse::<Authority>() {
        Ok(parsed) => {
            let host = parsed.host().trim_start_matches('[').trim_end_matches(']');
            (host.to_owned(), parsed.port_u16().unwrap_or(default))
        }
        Err(_) => (authority.to_owned(), default),
    }
}

/// What has arrived over OTLP.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::api) struct Arrivals {
    #[serde(skip_serializing_if = "Option::is_none")]
    span_count: Option<u64>,
    last_span_timestamp: String,
}

/// Returns what has arrived over OTLP since the last reset.
pub(in crate::api) async fn otlp(State(app): State<App>) -> Result<Response, LegacyApiError> {
    let total = app.ingest.counters().spans_stored.load(std::sync::atomic::Ordering::Relaxed);
    let count = total.saturating_sub(app.otlp_mark.load(std::sync::atomic::Ordering::Relaxed));
    let last = if count > 0 { app.store.last_arrival().await? } else { None };
    let arrivals = Arrivals {
        span_count: (count > 0).then_some(count),
        last_span_timestamp: last.map_or_else(|| NEVER.to_owned(), rfc3339),
    };
    Ok(plain_json(StatusCode::OK, &arrivals))
}

/// Resets the counter.
pub(in crate::api) async fn reset(State(app): State<App>) -> Response {
    let total = app.ingest.counters().spans_stored.load(std::sync::atomic::Ordering::Relaxed);
    app.otlp_mark.store(total, std::sync::atomic::Ordering::Relaxed);
    plain_json(StatusCode::OK, &())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for (address, host, port) in [
            ("https://jaeger.example/api", "jaeger.example", 443),
            ("http://user:word@tempo:3200?x=1", "tempo", 3200),
            ("jaeger:16685", "jaeger", 16_685),
            ("http://[::1]/", "::1", 80),
            ("http://[2001:db8::1]:4317", "2001:db8::1", 4317),
        ] {
            assert_eq!(place(address), (host.to_owned(), port), "{address}");
        }
    }
}
