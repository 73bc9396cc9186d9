//! The parts put together: store, ingest, sockets.

mod check;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::{OriginalUri, Request};
use axum::middleware;
use axum::response::Response;
use http::Uri;
use http::uri::PathAndQuery;
use qualitytrace_core::wait::Learned;
use qualitytrace_telemetry::Telemetry;
use tokio::net::TcpListener;
use tokio::sync::watch as signal;
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

use crate::api::door::{self, Guard};
use crate::api::{self, App, memory};
use crate::config::{Config, Kept, Live};
use crate::ingest::{self, Ingest};
use crate::listen::{Terms, Tls, Wish};
use crate::routes::{Route, Routes};
use crate::runner::{self, Runner};
use crate::source::Source;
use crate::store::{self, Store};
use crate::vault::Vault;
use crate::watch::Watch;
use crate::{listen, otlp, private, provision, retention};

/// A running server.
#[derive(Debug)]
pub struct Server {
    addresses: Addresses,
    config: Live,
    store: Store,
    runner: Arc<Runner>,
    ingest_tasks: ingest::Tasks,
    retention: JoinHandle<()>,
    /// Seals anew what a previous key sealed.
    resealing: Option<JoinHandle<()>>,
    listeners: Vec<JoinHandle<()>>,
    /// TLS on the main port, and on those for OTLP.
    tls: [Option<Tls>; 2],
    routes: Vec<Route>,
    stop: signal::Sender<bool>,
}

/// Where a server listens.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// REST, OTLP over HTTP and gRPC.
    pub http: SocketAddr,
    /// OTLP over gRPC, when it has a port of its own.
    pub otlp_grpc: Option<SocketAddr>,
    /// OTLP over HTTP, when it has a port of its own.
    pub otlp_http: Option<SocketAddr>,
}

impl Addresses {
    /// The configuration, with the ports that were given where it asked for any.
    fn put_into(self, config: Config) -> Config {
        let Self { http, otlp_grpc, otlp_http } = self;
        Config { http, otlp_grpc, otlp_http, ..config }
    }
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A port is taken.
    #[error(transparent)]
    Listen(#[from] listen::Error),
    /// A certificate is of no use.
    #[error(transparent)]
    Tls(#[from] listen::TlsError),
    /// The database is not usable.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// What was to be stored at the start could not be.
    #[error(transparent)]
    Provision(#[from] provision::Error),
    /// The system refuses what recording needs.
    #[error("failed to start telemetry")]
    Telemetry(#[source] std::io::Error),
    /// The runs that wait in the store could not be taken up.
    #[error(transparent)]
    Runner(#[from] runner::Error),
    /// A folder is of no use.
    #[error("failed to {operation} the folder {}", path.display())]
    Folder {
        /// What was to be done.
        operation: &'static str,
        /// The folder.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
}

impl Server {
    /// Starts everything, with telemetry that stays inside. When this returns, every port answers.
    pub async fn start(config: Config) -> Result<Self, Error> {
        let telemetry = Telemetry::start(qualitytrace_telemetry::config::Config::new("qualitytrace"));
        Self::start_watched(config, telemetry.map_err(Error::Telemetry)?).await
    }

    /// Starts everything and records into this telemetry.
    pub async fn start_watched(config: Config, telemetry: Telemetry) -> Result<Self, Error> {
        // Fails only when the program has chosen a provider already, which then serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let [main_tls, otlp_tls] = tls(&config);
        let tls = [main_tls?, otlp_tls?];
        make_folder(&config)?;
        let sockets = Sockets::bind(&config).await?;
        let addresses = sockets.addresses();
        let store = Store::open_with(&config.database_url, vault(&config)?).await?;
        provision::provision(&store, &config.provisioning).await?;
        let live = Live::new(addresses.put_into(config.clone()));
        let (ingest, ingest_tasks) = Ingest::start(store.clone(), live.clone()).await?;
        let source = Source::new(store.clone(), Arc::clone(&ingest));
        let watch = Watch::new(telemetry, live.clone());
        watch.observe_store(&store);
        watch.observe_ingest(&ingest);
        let runner =
            Runner::begin(store.clone(), source.clone(), config.wait, live.clone(), watch.clone()).await?;
        let observed = Arc::downgrade(&runner);
        watch.observe_runs(move || Some(observed.upgrade()?.unfinished()));
        let otlp = config
            .otlp
            .then(|| [otlp::http_routes(Arc::clone(&ingest)), otlp::grpc_services(Arc::clone(&ingest))]);
        let memory = memory::Shared::new(live.clone());
        let app = App {
            memory: memory.clone(),
            store: store.clone(),
            ingest,
            source,
            runner: Arc::clone(&runner),
            started: crate::clock::now(),
            otlp_mark: Arc::default(),
            digests: Arc::default(),
            config: live.clone(),
        };
        let guard = Guard::new(live.clone());
        let check = middleware::from_fn_with_state(guard.clone(), door::check);
        let same_origin = middleware::from_fn_with_state(guard, door::same_origin);
        let receive = middleware::from_fn_with_state(memory, memory::receive);
        let guarded = |routes: Routes| {
            let routes = routes.layer(middleware::from_fn(door::carry_out)).layer(receive.clone());
            let routes = routes.layer(middleware::from_fn(door::content_type));
            let routes = watch.refusals_of(routes.layer(check.clone()).layer(same_origin.clone()));
            // Requests to the OTLP endpoints leave nothing.
            let routes = routes.layer(middleware::from_fn(door::name));
            routes.layer(middleware::from_fn(crate::watch::recorded))
        };
        let api = watch.requests_to(api::routes(app)).merge(watch.routes());
        let mut table = api.list();
        let api = guarded(api).into_router();
        let api = api.fallback_service(guarded(Routes::nowhere(not_found)).into_fallback());
        let prefixed = match config.path_prefix.as_str() {
            "" => Router::new(),
            // A path that only ends in a slash is not below the prefix for the router.
            prefix => Router::new().nest(prefix, api.clone()).route_service(
                &format!("{prefix}/"),
                api.clone().map_request(|mut request: Request| {
                    let mut uri = request.uri().clone().into_parts();
                    uri.path_and_query = Some(PathAndQuery::from_static("/"));
                    // What has a path is an address.
                    *request.uri_mut() = Uri::from_parts(uri).unwrap_or_default();
                    request
                }),
            ),
        };
        // What is delivered in large numbers is not looked at where nobody asked for it.
        let checked =
            |routes: Routes| if config.safety.access.otlp { routes.layer(check.clone()) } else { routes };
        let otlp = otlp.map_or_else(Router::new, |[http, grpc]| {
            table.extend([http.list(), grpc.list()].concat());
            let http = checked(http).into_router().layer(otlp::cors());
            http.merge(checked(grpc).into_router())
        });
        let main = otlp.clone().merge(api).merge(prefixed);
        let (stop, stopped) = signal::channel(false);
        let [main_terms, otlp_terms] = tls.clone().map(|tls| Terms { tls, config: live.clone() });
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

    /// Where it listens.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Every route that it answers, with what it needs.
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// Goes on with another configuration, as far as its settings can change while the server runs. Certificates are
    /// read again even if their files have the same names. `asked` says that somebody told it to; without that, it gives
    /// up no protection. Answers with what stays as it was.
    pub fn reload(&self, wanted: Config, asked: bool) -> Vec<Kept> {
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
                (None, Some(_)) => "restart the server to speak TLS".to_owned(),
                (Some(_), None) => "restart the server to speak no TLS any more".to_owned(),
            };
            kept.push(Kept { key, why });
        }
        if config.is_exposed() && !self.config.get().is_exposed() {
            warn_if_exposed(&config);
        }
        self.config.set(config);
        self.runner.reconfigured();
        kept
    }

    /// Takes over what runs on other servers have taught. What this server knows itself counts more.
    pub fn teach(&self, learned: Learned) {
        self.runner.teach(learned);
    }

    /// All that runs have taught so far.
    pub async fn learned(&self) -> Result<Learned, Error> {
        Ok(self.runner.learned().await?)
    }

    /// Stops in good order: no new requests, those under way end, everything taken in is stored.
    pub async fn shutdown(self) {
        // Nobody listening any more is what we want.
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

/// Says that other machines may do everything here.
fn warn_if_exposed(config: &Config) {
    if config.is_exposed() {
        let address = config.http;
        tracing::warn!(
            %address,
            commands = config.limits.commands,
            "whoever reaches this address may read and change everything: set `auth.tokens`, or bind a loopback address \
             with `--host 127.0.0.1`; until then no test runs commands"
        );
    }
}

/// The vault that the configuration describes.
fn vault(config: &Config) -> Result<Vault, store::Error> {
    Ok(Vault::open(config.safety.key.clone())?.with_previous(config.safety.previous_key.clone())?)
}

/// Seals anew what a previous key sealed, beside everything else.
async fn reseal(store: Store) {
    match store.reseal(&mut |_| {}).await {
        Ok(values) => tracing::info!(
            values,
            "everything is sealed with the current key: secrets.previousKey and secrets.previousKeyFile can go"
        ),
        Err(error) => tracing::error!(
            error = &error as &dyn std::error::Error,
            "failed to seal secrets anew: the previous key is still needed, the next start goes on"
        ),
    }
}

struct Sockets {
    http: TcpListener,
    otlp_grpc: Option<TcpListener>,
    otlp_http: Option<TcpListener>,
}

/// The certificates of the main port and of those for OTLP.
fn tls(config: &Config) -> [Result<Option<Tls>, listen::TlsError>; 2] {
    let safety = &config.safety;
    [&safety.tls, &safety.otlp_tls].map(|tls| tls.as_ref().map(Tls::new).transpose())
}

/// Makes the folder of a database that lies in the data folder.
fn make_folder(config: &Config) -> Result<(), Error> {
    let Some(folder) = config.own_folder() else { return Ok(()) };
    let made = check::can_be_made(&folder).and_then(|()| private::folder(&folder));
    made.map_err(|source| Error::Folder { operation: "make", path: folder, source })
}

/// What is to listen where: the main port, OTLP over gRPC, OTLP over HTTP. No two in one place.
fn wishes(config: &Config) -> Result<(Wish, [Option<Wish>; 2]), listen::Error> {
    let main = Wish { what: "the server", address: config.http, option: "--server.httpPort PORT" };
    let further = |what, address: Option<SocketAddr>, option| Some(Wish { what, address: address?, option });
    let grpc = further("OTLP over gRPC", config.otlp_grpc, "--otlp-grpc-addr ADDR|off");
    let http = further("OTLP over HTTP", config.otlp_http, "--otlp-http-addr ADDR|off");
    for (wish, other) in [(grpc, Some(main)), (http, Some(main)), (http, grpc)] {
        if let (Some(wish), Some(other)) = (wish, other) {
            wish.apart(&other)?;
        }
    }
    Ok((main, [grpc, http]))
}

impl Sockets {
    async fn bind(config: &Config) -> Result<Self, listen::Error> {
        let (main, [grpc, http]) = wishes(config)?;
        let bound = async |wish: Option<Wish>| match wish {
            Some(wish) => wish.bind().await.map(Some),
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
        main: (Router, Terms),
        otlp: &(Router, Terms),
        stopped: &signal::Receiver<bool>,
    ) -> Vec<JoinHandle<()>> {
        let serve = |listener, (router, terms): (Router, Terms)| {
            tokio::spawn(listen::serve(listener, router, terms, stopped.clone()))
        };
        let extra = [self.otlp_grpc, self.otlp_http]
            .into_iter()
            .flatten()
            .map(|listener| serve(listener, otlp.clone()));
        std::iter::once(serve(self.http, main)).chain(extra).collect()
    }
}

async fn not_found(OriginalUri(asked): OriginalUri, request: Request) -> Response {
    otlp::unknown_method(request.headers(), request.uri().path())
        .unwrap_or_else(|| api::not_found(request.method(), request.uri(), &asked))
}
