//! A small webshop to test: five services and a message queue on loopback sockets.
//!
//! ```text
//! buyer -> gateway -+-> catalogue   gRPC
//!                   +-> cart        HTTP, SQLite
//!                   +-> payment     HTTP
//!                   +-> queue  ...> worker   after the answer; HTTP, SQLite
//! ```

mod bug;
mod cart;
mod catalogue;
mod database;
mod gateway;
mod http;
mod instrument;
mod payment;
mod queue;
mod reflection;
#[cfg(test)]
mod tests;
mod worker;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub(crate) use self::bug::Bug;
use self::gateway::Peers;
use self::instrument::Telemetry;
use self::worker::Worker;

/// Timeout of a graceful shutdown.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// A running shop. It stops when dropped; [`Shop::stop`] also sends the last spans.
#[derive(Debug)]
pub(crate) struct Shop {
    gateway_url: String,
    catalogue: SocketAddr,
    services: Vec<Arc<Telemetry>>,
    tasks: JoinSet<anyhow::Result<()>>,
    stop: watch::Sender<bool>,
}

impl Shop {
    /// Starts every service; they export their spans to `otlp_grpc_endpoint`, such as `http://127.0.0.1:4317`.
    pub(crate) async fn start(otlp_grpc_endpoint: &str, bug: Option<Bug>) -> anyhow::Result<Self> {
        // Fails when a provider is installed already, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let telemetry = |service| Telemetry::new(service, otlp_grpc_endpoint).map(Arc::new);
        let (stop, stopped) = watch::channel(false);
        let stopped = Stop(stopped);
        let mut tasks = JoinSet::new();

        let (broker, broker_address) = http::bind().await?;
        tasks.spawn(queue::broker(broker, stopped.clone()));

        let catalogue_telemetry = telemetry("catalogue")?;
        let (catalogue, catalogue_address) = http::bind().await?;
        let router = catalogue::router(Arc::clone(&catalogue_telemetry))?;
        tasks.spawn(http::serve(catalogue, router, stopped.clone()));

        let cart_telemetry = telemetry("cart")?;
        let (cart, cart_address) = http::bind().await?;
        let router = cart::router(Arc::clone(&cart_telemetry), bug).await?;
        tasks.spawn(http::serve(cart, router, stopped.clone()));

        let payment_telemetry = telemetry("payment")?;
        let (payment, payment_address) = http::bind().await?;
        let router = payment::router(Arc::clone(&payment_telemetry), bug);
        tasks.spawn(http::serve(payment, router, stopped.clone()));

        let worker_telemetry = telemetry("worker")?;
        let (orders, worker_address) = http::bind().await?;
        let worker = Worker::new(Arc::clone(&worker_telemetry), bug).await?;
        tasks.spawn(http::serve(orders, worker.router(), stopped.clone()));
        tasks.spawn(worker.consume(broker_address, stopped.clone()));

        let gateway_telemetry = telemetry("gateway")?;
        let (gateway, gateway_address) = http::bind().await?;
        let peers = Peers {
            catalogue: catalogue_address,
            cart: cart_address,
            payment: payment_address,
            worker: worker_address,
            broker: broker_address,
        };
        let router = gateway::router(Arc::clone(&gateway_telemetry), peers, bug)?;
        tasks.spawn(http::serve(gateway, router, stopped));

        Ok(Self {
            gateway_url: format!("http://{gateway_address}"),
            catalogue: catalogue_address,
            services: vec![
                gateway_telemetry,
                catalogue_telemetry,
                cart_telemetry,
                payment_telemetry,
                worker_telemetry,
            ],
            tasks,
            stop,
        })
    }

    /// The address of the gateway, without a trailing slash.
    pub(crate) fn gateway_url(&self) -> &str {
        &self.gateway_url
    }

    /// The address of the gRPC catalogue.
    pub(crate) fn catalogue_address(&self) -> SocketAddr {
        self.catalogue
    }

    /// Shuts down gracefully and flushes the last spans.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        self.stop.send_replace(true);
        let finish = async {
            while let Some(ended) = self.tasks.join_next().await {
                ended.context("a shop service panicked")??;
            }
            anyhow::Ok(())
        };
        let finished = tokio::time::timeout(STOP_TIMEOUT, finish).await;
        self.tasks.abort_all();
        // Shutting down a provider waits for an export, which needs this runtime: so never on one of its threads.
        let services = self.services;
        tokio::task::spawn_blocking(move || services.iter().try_for_each(|service| service.shutdown()))
            .await
            .context("a shop service panicked while it sent its last spans")??;
        finished.context("the shop took too long to stop")?
    }
}

/// The stop signal for a task.
#[derive(Debug, Clone)]
struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Returns when the shop is stopped or dropped.
    async fn wait(&mut self) {
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}

/// A random id of eight hexadecimal digits.
fn short_id() -> String {
    let mut id = uuid::Uuid::new_v4().simple().to_string();
    id.truncate(8);
    id
}
