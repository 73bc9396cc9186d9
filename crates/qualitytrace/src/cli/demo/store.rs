//! The data store of `demo --store`: where the shop sends its spans, and where the server reads them.

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use qualitytrace_core::definition::{Format, Kind};
use reqwest::Url;
use serde_json::{Value, json};

use crate::client::Client;
use crate::client::resources::Form;

/// The port of OTLP over gRPC.
const OTLP_PORT: u16 = 4317;

#[derive(Debug, Args)]
pub(crate) struct StoreOptions {
    /// Read the traces from a data store of yours instead of receiving them
    #[arg(long, value_name = "TYPE", requires = "store_url")]
    store: Option<StoreKind>,
    /// The data store's query API, such as `http://localhost:16686` (Jaeger), `http://localhost:3200` (Tempo) or
    /// `http://localhost:9411` (Zipkin); HOST:PORT is Jaeger's gRPC API
    #[arg(long, value_name = "URL", requires = "store")]
    store_url: Option<String>,
    /// Where the shop sends its spans, with OTLP over gRPC: the store itself, or a Collector that feeds it [default: port
    /// 4317 of the store's host]
    #[arg(long, value_name = "URL", requires = "store")]
    store_export_url: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StoreKind {
    Jaeger,
    Tempo,
    Zipkin,
}

/// A data store of the user.
#[derive(Debug)]
pub(super) struct Store {
    kind: StoreKind,
    url: String,
    export_url: String,
}

impl StoreOptions {
    /// Returns the store, if the demo is to use one.
    pub(super) fn store(self) -> anyhow::Result<Option<Store>> {
        let (Some(kind), Some(url)) = (self.store, self.store_url) else { return Ok(None) };
        let export_url = match self.store_export_url {
            Some(export) if export.contains("://") => export,
            Some(export) => format!("http://{export}"),
            None if kind == StoreKind::Zipkin => bail!(
                "Zipkin does not receive OTLP: name a Collector that sends to it with `--store-export-url` \
                 (`qualitytrace datastore collector-config zipkin` prints its configuration)"
            ),
            None => otlp(&url)?,
        };
        Ok(Some(Store { kind, url, export_url }))
    }
}

/// Returns the usual address of OTLP on the host of a store.
fn otlp(url: &str) -> anyhow::Result<String> {
    let with_scheme = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let parsed = Url::parse(&with_scheme).ok();
    let host = parsed.as_ref().and_then(Url::host_str);
    let host = host.with_context(|| format!("`{url}` is no address; write it as http://HOST:PORT"))?;
    Ok(format!("http://{host}:{OTLP_PORT}"))
}

impl StoreKind {
    fn name(self) -> &'static str {
        match self {
            Self::Jaeger => "Jaeger",
            Self::Tempo => "Tempo",
            Self::Zipkin => "Zipkin",
        }
    }
}

impl Store {
    /// Where the shop sends its spans.
    pub(super) fn export_url(&self) -> &str {
        &self.export_url
    }

    /// Makes it the data store of a server, if the server can use it.
    pub(super) async fn use_for(&self, client: &Client) -> anyhow::Result<()> {
        let spec = self.spec();
        let tested = client.connection(&spec).await?;
        let failed = ["connectivity", "authentication", "fetchTraces"]
            .map(|step| &tested[step])
            .into_iter()
            .find(|step| step["status"] == "failed");
        if let Some(step) = failed {
            let text = |field: &str| step[field].as_str().unwrap_or_default().to_owned();
            bail!("{}: {}", text("message"), text("error"));
        }
        let definition = json!({ "type": "DataStore", "spec": spec }).to_string();
        client.apply(Kind::DataStore, definition, Format::Json, Form::Json).await?;
        Ok(())
    }

    fn spec(&self) -> Value {
        let url = &self.url;
        match self.kind {
            StoreKind::Jaeger if url.contains("://") => {
                json!({ "name": "Demo", "type": "jaeger", "jaeger": { "endpoint": url } })
            }
            StoreKind::Jaeger => json!({ "name": "Demo", "type": "jaeger",
                "jaeger": { "endpoint": url, "tls": { "insecure": true } } }),
            StoreKind::Tempo => json!({ "name": "Demo", "type": "tempo",
                "tempo": { "type": "http", "http": { "url": url } } }),
            StoreKind::Zipkin => json!({ "name": "Demo", "type": "zipkin", "zipkin": { "url": url } }),
        }
    }

    /// A line for the user.
    pub(super) fn told(&self) -> String {
        let Self { kind, url, export_url } = self;
        format!("Its spans go to {export_url}, and are read from {} at {url}.\n", kind.name())
    }
}
