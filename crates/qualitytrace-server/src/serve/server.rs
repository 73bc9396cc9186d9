//! Assembles the server: store, ingest, runner, router and sockets.

mod check;
mod layers;

use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::{OriginalUri, Request};
use axum::response::Response;
use futures_util::future::BoxFuture;
use http::Uri;
use http::uri::PathAndQuery;
use qualitytrace_core::wait::Learned;
use qualitytrace_telemetry::Telemetry;
use tokio::net::TcpListener;
use tokio::sync::watch as signal;
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

use self::layers::ApiLayers;
use crate::base::private_files;
use crate::config::{Config, Live, UnchangedSetting};
use crate::http::routes::{Route, Routes};
use crate::http::tls::{self, Tls};
use crate::observability::Recorder;
use crate::receive::ingest::{self, Ingest};
use crate::receive::otlp;
use crate::receive::source::Source;
use crate::runner::{self, Runner};
use crate::serve::api::middleware::Guard;
use crate::serve::api::{self, App, memory};
use crate::serve::listen;
use crate::serve::listen::{BindRequest, ListenerSettings};
use crate::serve::retention;
use crate::storage::provision;
use crate::storage::store::{self, Store};
use crate::storage::vault::Vault;

/// A running server.
#[derive(Debug)]
pub struct Server {
    addresses: Addresses,
    config: Live,
    store: Store,
    runner: Arc<Runner>,
    ingest_tasks: ingest::Tasks,
    retention: JoinHandle<()>,
    /// Reseals values that were sealed with a previous key.
    resealing: Option<JoinHandle<()>>,
    listeners: Vec<JoinHandle<()>>,
    /// TLS of the main port, and of the OTLP ports.
    tls: [Option<Tls>; 2],
    routes: Vec<Route>,
    stop: signal::Sender<bool>,
}

/// The addresses that a server listens on.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// REST, OTLP over HTTP and gRPC.
    pub http: SocketAddr,
    /// OTLP over gRPC, if it has a port of its own.
    pub otlp_grpc: Option<SocketAddr>,
    /// OTLP over HTTP, if it has a port of its own.
    pub otlp_http: Option<SocketAddr>,
}

impl Addresses {
    /// Puts the bound addresses into the configuration: port 0 becomes the port that the system assigned.
    fn put_into(self, config: Config) -> Config {
        let Self { http, otlp_grpc, otlp_http } = self;
        Config { http, otlp_grpc, otlp_http, ..config }
    }
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address cannot be bound.
    #[error(transparent)]
    Listen(#[from] listen::Error),
    /// A certificate or its key cannot be used.
    #[error(transparent)]
    Tls(#[from] tls::Error),
    /// The database cannot be used.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The definitions to provision could not be stored.
    #[error(transparent)]
    Provision(#[from] provision::Error),
    /// The system refuses a resource that telemetry needs.
    #[error("failed to start telemetry")]
    Telemetry(#[source] std::io::Error),
    /// The runs that are queued in the store could not be resumed.
    #[error(transparent)]
    Runner(#[from] runner::Error),
    /// A folder cannot be found or made.
    #[error("failed to {operation} the folder {}", path.display())]
    Folder {
        /// The operation that failed.
        operation: &'static str,
        /// The folder.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
}

impl Server {
    /// Starts the server with telemetry that is exported nowhere. When this returns, every port accepts connections.
    pub async fn start(config: Config) -> Result<Self, Error> {
        let telemetry = Telemetry::start(qualitytrace_telemetry::config::Config::new("qualitytrace"));
        Self::start_watched(config, telemetry.map_err(Error::Telemetry)?).await
    }

    /// Starts the server and records into this telemetry.
    ///
    /// Boxed, like the other futures that this crate offers to programs: the body of an `async fn` is compiled again in
    /// every crate that awaits it, and this one is most of the server.
    pub fn start_watched(config: Config, telemetry: Telemetry) -> BoxFuture<'static, Result<Self, Error>> {
        Box::pin(Self::start_with(config, telemetry))
    }

    async fn start_with(config: Config, telemetry: Telemetry) -> Result<Self, Error> {
        // Fails only when the program has installed a provider already; that one serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let [main_tls, otlp_tls] = acceptors(&config);
        let tls = [main_tls?, otlp_tls?];
        make_folder(&config)?;
        let sockets = Sockets::bind(&config).await?;
        let addresses = sockets.addresses();
        let store = Store::open_with(&config.database_url, vault(&config)?).await?;
        if let Some(last) = store.last_written().await? {
            crate::base::clock::compare_with_stored(last);
        }
        provision::provision(&store, &config.provisioning).await?;
        let live = Live::new(addresses.put_into(config.clone()));
        let (ingest, ingest_tasks) = Ingest::start(store.clone(), live.clone()).await?;
        let source = Source::new(store.clone(), Arc::clone(&ingest));
        let recorder = Recorder::new(telemetry, live.clone());
        recorder.observe_store(&store);
        recorder.observe_ingest(&ingest);
        let runner =
            Runner::begin(store.clone(), source.clone(), config.wait, live.clone(), recorder.clone()).await?;
        let (unfinished, watched) = (Arc::downgrade(&runner), Arc::downgrade(&runner));
        recorder.observe_runs(
            move || Some(unfinished.upgrade()?.unfinished()),
            move || Some(watched.upgrade()?.watched()),
        );
        let otlp = config
            .otlp
            .then(|| [otlp::http_routes(Arc::clone(&ingest)), otlp::grpc_services(Arc::clone(&ingest))]);
        let (stop, stopped) = signal::channel(false);
        let memory = memory::Shared::new(live.clone());
        let guard = Guard::new(live.clone());
        let app = App {
            guard: guard.clone(),
            stopped: stopped.clone(),
            memory: memory.clone(),
            store: store.clone(),
            ingest: Arc::clone(&ingest),
            source,
            runner: Arc::clone(&runner),
            started: crate::base::clock::now(),
            otlp_mark: Arc::default(),
            digests: Arc::default(),
            config: live.clone(),
        };
        let layers = ApiLayers { recorder: recorder.clone(), guard, page: config.page, memory };
        let not_found = not_found(ingest);
        let api = recorder.requests_to(api::routes(app)).merge(recorder.routes());
        let mut table = api.list().to_vec();
        let api = layers.around(api).into_router();
        let api = api.fallback_service(layers.around(Routes::nowhere(not_found.clone())).into_fallback());
        let prefixed = match config.path_prefix.as_str() {
            "" => Router::new(),
            // The router does not count the prefix followed by a bare slash as below the prefix.
            prefix => Router::new().nest(prefix, api.clone()).route_service(
                &format!("{prefix}/"),
                api.clone().map_request(|mut request: Request| {
                    let mut uri = request.uri().clone().into_parts();
                    uri.path_and_query = Some(PathAndQuery::from_static("/"));
                    // A URI with a path is valid, so the default is never used.
                    *request.uri_mut() = Uri::from_parts(uri).unwrap_or_default();
                    request
                }),
            ),
        };
        // OTLP requests come in large numbers: they are checked only when `auth.otlp` asks for it.
        let checked =
            |routes: Routes| if config.safety.access.otlp { layers.authenticated(routes) } else { routes };
        let otlp = otlp.map_or_else(Router::new, |[http, grpc]| {
            table.extend([http.list(), grpc.list()].concat());
            let http = checked(http).into_router().layer(otlp::cors());
            http.merge(checked(grpc).into_router())
        });
        let main = otlp.clone().merge(api).merge(prefixed);
        let [main_terms, otlp_terms] = tls.clone().map(|tls| ListenerSettings { tls, config: live.clone() });
        let listeners = sockets.serve((main, main_terms), &(otlp.fallback(not_found), otlp_terms), &stopped);
        let retention = tokio::spawn(retention::keep(store.clone(), live.clone()));
        warn_if_exposed(&live.get());
        let resealing = config.safety.previous_key.is_some().then(|| tokio::spawn(reseal(store.clone())));
        Ok(Self {
            addresses,
            config: live,
            store,
            runner,
            ingest_tasks,
            retention,
            resealing,
            listeners,
            tls,
            routes: table,
            stop,
        })
    }

    /// Returns the addresses that it listens on.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Returns every route that it serves, with the permission that it needs.
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// Applies another configuration, as far as its settings can change while the server runs. Certificates are read
    /// again even if their files have the same names. `asked` is true for an explicit request (SIGHUP); without one, no
    /// protection is removed. Returns the settings that stay as they were.
    pub fn reload(&self, wanted: Config, asked: bool) -> Vec<UnchangedSetting> {
        let certificates = [wanted.safety.tls.clone(), wanted.safety.otlp_tls.clone()];
        let (config, mut kept) = self.config.get().changed(wanted, asked);
        for ((tls, certificate), key) in
            self.tls.iter().zip(certificates).zip(["server.tls", "otlpServer.tls"])
        {
            let why = match (tls, certificate) {
                (None, None) => continue,
                (Some(tls), Some(certificate)) => match tls.replace(&certificate) {
                    Ok(()) => continue,
                    Err(error) => error.to_string(),
                },
                (None, Some(_)) => "restart the server to switch TLS on".to_owned(),
                (Some(_), None) => "restart the server to switch TLS off".to_owned(),
            };
            kept.push(UnchangedSetting { key, why });
        }
        if config.is_exposed() && !self.config.get().is_exposed() {
            warn_if_exposed(&config);
        }
        self.config.set(config);
        self.runner.reconfigured();
        kept
    }

    /// Adds what runs on other servers have learned. What this server learned itself takes precedence.
    pub fn teach(&self, learned: Learned) {
        self.runner.teach(learned);
    }

    /// Returns all that runs have learned so far.
    pub fn learned(&self) -> BoxFuture<'_, Result<Learned, Error>> {
        Box::pin(async { Ok(self.runner.learned().await?) })
    }

    /// Shuts down gracefully: accepts no new requests, lets those under way end, and stores everything that was
    /// received.
    pub fn shutdown(self) -> BoxFuture<'static, ()> {
        Box::pin(self.stop_everything())
    }

    async fn stop_everything(self) {
        // Fails only when all listeners have ended already.
        let _ = self.stop.send(true);
        for listener in self.listeners {
            let _ = listener.await;
        }
        self.retention.abort();
        if let Some(resealing) = &self.resealing {
            resealing.abort();
        }
        self.runner.shutdown().await;
        drop(self.runner);
        self.ingest_tasks.finish().await;
        self.store.close().await;
    }
}

/// Warns that other machines have full access to this server.
fn warn_if_exposed(config: &Config) {
    if config.is_exposed() {
        let address = config.http;
        tracing::warn!(
            %address,
            commands = config.limits.commands,
            "every client that reaches this address may read and change everything: set `auth.tokens`, or bind a loopback address \
             with `--host 127.0.0.1`; until then no test runs commands"
        );
    }
}

/// Opens the vault that the configuration describes.
fn vault(config: &Config) -> Result<Vault, store::Error> {
    Ok(Vault::open(config.safety.key.clone())?.with_previous(config.safety.previous_key.clone())?)
}

/// Reseals in the background what was sealed with a previous key.
async fn reseal(store: Store) {
    match store.reseal(&mut |_| {}).await {
        Ok(values) => tracing::info!(
            values,
            "everything is encrypted with the current key: remove secrets.previousKey and secrets.previousKeyFile"
        ),
        Err(error) => tracing::error!(
            error = &error as &dyn std::error::Error,
            "failed to encrypt secrets with the new key: the previous key is still needed, the next start continues"
        ),
    }
}

struct Sockets {
    http: TcpListener,
    otlp_grpc: Option<TcpListener>,
    otlp_http: Option<TcpListener>,
}

/// Loads the certificates of the main port and of the OTLP ports.
fn acceptors(config: &Config) -> [Result<Option<Tls>, tls::Error>; 2] {
    let safety = &config.safety;
    [&safety.tls, &safety.otlp_tls].map(|tls| tls.as_ref().map(Tls::new).transpose())
}

/// Makes the folder of a database that is in the data folder.
fn make_folder(config: &Config) -> Result<(), Error> {
    let Some(folder) = config.own_folder() else { return Ok(()) };
    let made = check::can_be_made(&folder).and_then(|()| private_files::folder(&folder));
    made.map_err(|source| Error::Folder { operation: "make", path: folder, source })
}

/// Returns what to bind: the main port, OTLP over gRPC, OTLP over HTTP. Fails when two have the same address.
fn bind_requests(config: &Config) -> Result<(BindRequest, [Option<BindRequest>; 2]), listen::Error> {
    let main = BindRequest { what: "the server", address: config.http, option: "--server.httpPort PORT" };
    let further =
        |what, address: Option<SocketAddr>, option| Some(BindRequest { what, address: address?, option });
    let grpc = further("OTLP over gRPC", config.otlp_grpc, "--otlp-grpc-addr ADDR|off");
    let http = further("OTLP over HTTP", config.otlp_http, "--otlp-http-addr ADDR|off");
    for (request, other) in [(grpc, Some(main)), (http, Some(main)), (http, grpc)] {
        if let (Some(request), Some(other)) = (request, other) {
            request.apart(&other)?;
        }
    }
    Ok((main, [grpc, http]))
}

impl Sockets {
    async fn bind(config: &Config) -> Result<Self, listen::Error> {
        let (main, [grpc, http]) = bind_requests(config)?;
        let bound = async |request: Option<BindRequest>| match request {
            Some(request) => request.bind().await.map(Some),
            None => Ok(None),
        };
        Ok(Self { http: main.bind().await?, otlp_grpc: bound(grpc).await?, otlp_http: bound(http).await? })
    }

    fn addresses(&self) -> Addresses {
        let local = |listener: &TcpListener| listener.local_addr().ok();
        Addresses {
            http: local(&self.http).unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0))),
            otlp_grpc: self.otlp_grpc.as_ref().and_then(local),
            otlp_http: self.otlp_http.as_ref().and_then(local),
        }
    }

    fn serve(
        self,
        main: (Router, ListenerSettings),
        otlp: &(Router, ListenerSettings),
        stopped: &signal::Receiver<bool>,
    ) -> Vec<JoinHandle<()>> {
        let serve = |listener, (router, terms): (Router, ListenerSettings)| {
            tokio::spawn(listen::serve(listener, router, terms, stopped.clone()))
        };
        let extra = [self.otlp_grpc, self.otlp_http]
            .into_iter()
            .flatten()
            .map(|listener| serve(listener, otlp.clone()));
        std::iter::once(serve(self.http, main)).chain(extra).collect()
    }
}

/// The handler of paths that do not exist.
fn not_found(ingest: Arc<Ingest>) -> impl Fn(OriginalUri, Request) -> Ready<Response> + Clone {
    move |OriginalUri(asked), request| {
        let (parts, _) = request.into_parts();
        otlp::note_misdirected(&ingest, &parts);
        let unknown = otlp::unknown_method(&parts.headers, parts.uri.path());
        ready(unknown.unwrap_or_else(|| api::not_found(&parts.method, &parts.uri, &asked)))
    }
}
