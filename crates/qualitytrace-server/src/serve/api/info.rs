//! What a client needs to know of the server before it asks for anything else.

use axum::Json;
use axum::extract::State;
use http::HeaderMap;
use qualitytrace_core::definition::{Kind, Resource};
use schemars::JsonSchema;
use serde::Serialize;

use super::App;
use super::error::ApiError;
use super::resources;
use super::tenant::Tenant;
use crate::base::limits::Limits;
use crate::config::Config;
use crate::http::access::{RequiredAccess, token};
use crate::http::routes::Routes;
use crate::http::routes::operation::{Content, of, operation};
use crate::storage::store::is_in_memory;

/// Returns the route.
pub(super) fn routes() -> Routes<App> {
    let described =
        operation("About the server: addresses, limits, access", [(200, Content::Json(of::<Info>))]);
    Routes::new().get("/api/info", RequiredAccess::Look, info, described)
}

/// About the server.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ServerInfo")]
struct Info {
    version: &'static str,
    page: Page,
    /// The prefix of every path; empty for none.
    prefix: String,
    /// The scope of the client's token: `full` or `read`; `full` where the server requires no token.
    scope: &'static str,
    /// Whether the server requires a token.
    token_required: bool,
    otlp: Otlp,
    /// Whether tests may run commands on the server's machine.
    commands: bool,
    data_store: DataStore,
    /// Where data is stored: `memory`, `sqlite` or `postgres`.
    database: &'static str,
    limits: ShownLimits,
}

/// The page for browsers.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ServerPage")]
struct Page {
    /// Whether the server has it.
    built: bool,
    /// Why not; null if it has it.
    reason: Option<&'static str>,
}

/// Where telemetry is sent to.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ServerOtlp")]
struct Otlp {
    /// Whether the server accepts OTLP.
    enabled: bool,
    /// Whether a sender needs a token.
    token_required: bool,
    /// Whether the ports for OTLP require TLS.
    tls: bool,
    /// The address of the main port, which accepts both transports.
    main: Option<String>,
    /// The address of the port for OTLP over gRPC, if it has one.
    grpc: Option<String>,
    /// The address of the port for OTLP over HTTP, if it has one.
    http: Option<String>,
    /// The endpoint for programs on the same machine; null if it is off or only offered with TLS.
    endpoint: Option<String>,
}

/// The current data store.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ServerDataStore")]
struct DataStore {
    name: String,
    /// Its `type` in definitions, for example `otlp`.
    #[serde(rename = "type")]
    kind: &'static str,
}

/// Limits that clients run into. Durations are nanoseconds.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ServerLimits")]
struct ShownLimits {
    body_bytes: u64,
    decompressed_bytes: u64,
    api_bytes: u64,
    spans_per_trace: u64,
    retained_bytes: u64,
    /// How long a trace is kept that belongs to no run.
    retention: String,
    /// How long a run is kept; 0 for as long as its test.
    run_retention: String,
    runs_per_test: u64,
    concurrent_runs: usize,
    queued_runs: u64,
    reply_bytes: u64,
    request_timeout: String,
}

/// Tells about the server.
async fn info(State(app): State<App>, tenant: Tenant, headers: HeaderMap) -> Result<Json<Info>, ApiError> {
    let config = app.config.get();
    let data_store = match resources::current(&app, Kind::DataStore, &tenant).await? {
        (Resource::DataStore(store), ..) => store,
        _ => qualitytrace_core::definition::source::DataStore::default(),
    };
    let access = &config.safety.access;
    Ok(Json(Info {
        version: env!("CARGO_PKG_VERSION"),
        page: Page { built: config.page.absent.is_none(), reason: config.page.absent },
        prefix: config.path_prefix.clone(),
        scope: if access.check(RequiredAccess::Change, token(&headers).as_deref()).is_ok() {
            "full"
        } else {
            "read"
        },
        token_required: !access.tokens.is_empty(),
        otlp: Otlp::of(&config),
        commands: config.limits.commands,
        data_store: DataStore { name: data_store.name, kind: data_store.source.kind() },
        database: match (app.store.is_shared(), is_in_memory(&config.database_url)) {
            (true, _) => "postgres",
            (false, true) => "memory",
            (false, false) => "sqlite",
        },
        limits: ShownLimits::of(&config.limits),
    }))
}

impl Otlp {
    fn of(config: &Config) -> Self {
        let shown = |address: std::net::SocketAddr| Some(address.to_string()).filter(|_| config.otlp);
        Self {
            enabled: config.otlp,
            token_required: config.safety.access.otlp && !config.safety.access.tokens.is_empty(),
            tls: config.safety.otlp_tls.is_some(),
            main: shown(config.http),
            grpc: config.otlp_grpc.and_then(shown),
            http: config.otlp_http.and_then(shown),
            endpoint: config.otlp_endpoint(),
        }
    }
}

impl ShownLimits {
    fn of(limits: &Limits) -> Self {
        let nanos = |duration: std::time::Duration| duration.as_nanos().to_string();
        Self {
            body_bytes: limits.body_bytes,
            decompressed_bytes: limits.decompressed_bytes,
            api_bytes: limits.api_bytes,
            spans_per_trace: limits.spans_per_trace,
            retained_bytes: limits.retained_bytes,
            retention: nanos(limits.retention),
            run_retention: nanos(limits.run_retention),
            runs_per_test: limits.runs_per_test,
            concurrent_runs: limits.concurrent_runs,
            queued_runs: limits.queued_runs,
            reply_bytes: limits.reply_bytes,
            request_timeout: nanos(limits.request_timeout),
        }
    }
}
