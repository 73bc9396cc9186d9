//! `qualitytrace demo`.

mod store;

use std::fmt::Write;
use std::io::IsTerminal as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use qualitytrace_core::wait::Policy;
use qualitytrace_server::config::{Config, HTTP_PORT};
use qualitytrace_server::serve::server::Server;

use self::store::{Store, StoreOptions};
use super::Exit;
use super::files::File;
use super::own_token::{OwnToken, TokenFile};
use super::run;
use super::run::interrupt::{Interrupt, end_signal};
use super::run::plan::{Plan, PlanOptions, ServerLifetime};
use super::serve::start_logging;
use crate::client::{Client, RunOptions};
use crate::demo::{Bug, EXAMPLES, Shop};
use crate::report::Level;
use crate::{page, report, terminal};

/// Failures are shown as they are, and not checked again.
const MANNER: PlanOptions = PlanOptions {
    parallel: 16,
    confirm: Some(Duration::ZERO),
    fail_fast: false,
    stay: ServerLifetime::Run,
    level: Level::Usual,
};
/// The folder of the examples in a clone of the project.
const FOLDER: &str = "examples/shop";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Start the shop with one of its bugs; `list` prints their names
    #[arg(long = "break", value_name = "NAME")]
    bug: Option<String>,
    /// Stay up after the tests, to explore; at a terminal it does so anyway
    #[arg(long)]
    keep: bool,
    /// Run the tests this many times
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    #[command(flatten)]
    store: StoreOptions,
    /// Only open the shop, which sends its spans to this address over OTLP/gRPC: a Collector, or a data store
    #[arg(long, value_name = "URL", conflicts_with_all = ["keep", "repeat", "store"])]
    export_to: Option<String>,
}

/// Starts a server and a shop, runs the shop's tests, and reports.
pub(crate) async fn demo(options: Options) -> anyhow::Result<Exit> {
    let bug = match options.bug.as_deref() {
        None => None,
        Some("list") => {
            let width = Bug::ALL.iter().map(|bug| bug.name().len()).max().unwrap_or_default();
            let line = |bug: Bug| format!("{:width$}  {}\n", bug.name(), bug.description());
            terminal::out(&Bug::ALL.map(line).concat());
            return Ok(Exit::Passed);
        }
        Some(name) => Some(Bug::from_name(name).with_context(|| {
            format!("there is no bug `{name}`; `qualitytrace demo --break list` prints their names")
        })?),
    };
    let store = options.store.store()?;
    start_logging("warn", None);
    if let Some(endpoint) = &options.export_to {
        return shop_alone(endpoint, bug).await;
    }
    let token = OwnToken::random();
    // At a terminal a reader wants to look at what the report names.
    let keep = options.keep || std::io::stdout().is_terminal();
    let server = start_server(keep, &token, store.as_ref()).await?;
    let address = server.addresses().http;
    if let Some(store) = &store {
        let client = Client::new(&address.to_string())?.with_token(Some(token.text()));
        if let Err(error) = store.use_for(&client).await {
            server.shutdown().await;
            return Err(error);
        }
    }
    let own = format!("http://{address}");
    let shop = Shop::start(store.as_ref().map_or(&own, Store::export_url), bug).await?;
    terminal::out(&welcome(&shop, bug, store.as_ref()));
    let manner =
        PlanOptions { stay: if keep { ServerLifetime::AfterRun } else { ServerLifetime::Run }, ..MANNER };
    let exit = rounds(address, &token, &shop, options.repeat, manner).await;
    if keep && exit.as_ref().is_ok_and(|exit| *exit != Exit::Interrupted) {
        let file = token.written()?;
        terminal::out(&next_steps(address, &token, &file, &tests_folder()?, &shop, bug));
        end_signal().await;
    }
    let stopped = shop.stop().await;
    server.shutdown().await;
    let exit = exit?;
    stopped?;
    Ok(exit)
}

/// Returns the folder with the tests of the shop: that of a clone, or one that is written now and stays, as one may change
/// the tests.
fn tests_folder() -> anyhow::Result<PathBuf> {
    let of_clone = PathBuf::from(FOLDER);
    if EXAMPLES.iter().all(|example| of_clone.join(example.file).is_file()) {
        return Ok(of_clone);
    }
    // A folder that is there already, of another user, is not taken.
    let folder = std::env::temp_dir().join(format!("qualitytrace-shop-{:016x}", rand::random::<u64>()));
    std::fs::create_dir(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for example in EXAMPLES {
        let file = folder.join(example.file);
        std::fs::write(&file, example.text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(folder)
}

/// Opens the shop until a signal ends it. The server that tests it is another one.
async fn shop_alone(endpoint: &str, bug: Option<Bug>) -> anyhow::Result<Exit> {
    let shop = Shop::start(endpoint, bug).await?;
    let gateway = shop.gateway_url();
    terminal::out(&format!(
        "{}Its spans go to {endpoint}. It stays open until you press Ctrl-C. Test it with a server that has them:\n\n  \
         qualitytrace run {} --var GATEWAY={gateway}\n",
        welcome(&shop, bug, None),
        tests_folder()?.display(),
    ));
    end_signal().await;
    shop.stop().await?;
    Ok(Exit::Passed)
}

/// Starts a server with a database in memory. Its one port receives the shop's spans too, unless there is a store; with
/// `keep` it uses the default port.
async fn start_server(keep: bool, token: &OwnToken, store: Option<&Store>) -> anyhow::Result<Server> {
    let safety = token.safety()?;
    // A store may show spans later than we would receive them.
    let wait = if store.is_some() { Policy::DEFAULT } else { Policy::PROMPT };
    let config = |port| Config {
        http: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        otlp_grpc: None,
        otlp_http: None,
        wait,
        safety: safety.clone(),
        page: page::embedded(),
        ..Config::default()
    };
    if keep && let Ok(server) = Server::start(config(HTTP_PORT)).await {
        return Ok(server);
    }
    Ok(Server::start(config(0)).await?)
}

async fn rounds(
    server: SocketAddr,
    token: &OwnToken,
    shop: &Shop,
    repeat: u32,
    manner: PlanOptions,
) -> anyhow::Result<Exit> {
    let files =
        EXAMPLES.map(|example| File::parse(&Path::new(FOLDER).join(example.file), example.text.to_owned()));
    let plan =
        Plan::of(files.into(), |_| None, terminal::out)?.context("the built-in examples cannot be used")?;
    let client = Client::new(&server.to_string())?.with_token(Some(token.text()));
    let variables = vec![("GATEWAY".to_owned(), shop.gateway_url().to_owned())];
    let required_gates = client.usual_gates().await?;
    let wanted = RunOptions { variables, required_gates, ..RunOptions::default() };
    let interrupt = Interrupt::listen();
    let mut exit = Exit::Passed;
    for round in 1..=repeat {
        if repeat > 1 {
            terminal::out(&format!("\n{}\n", terminal::style::strong(format!("Round {round} of {repeat}"))));
        }
        let began = Instant::now();
        let reports = plan.run(&client, &wanted, manner, &interrupt).await?;
        terminal::out(&report::pretty::summary(&reports, began.elapsed()));
        if interrupt.is_raised() {
            return Ok(Exit::Interrupted);
        }
        if run::exit(&reports, false) != Exit::Passed {
            exit = Exit::NotPassed;
        }
    }
    Ok(exit)
}

fn welcome(shop: &Shop, bug: Option<Bug>, store: Option<&Store>) -> String {
    let mut text = format!(
        "A shop of five services is open at {}: gateway, catalogue (gRPC), cart, payment, worker.\n",
        shop.gateway_url()
    );
    if let Some(store) = store {
        text.push_str(&store.told());
    }
    if let Some(bug) = bug {
        // Writing to a String cannot fail.
        let _ =
            writeln!(text, "{} {}", terminal::style::bad(format!("Bug {}:", bug.name())), bug.description());
    }
    text.push('\n');
    text
}

fn next_steps(
    server: SocketAddr,
    own: &OwnToken,
    token: &TokenFile,
    tests: &Path,
    shop: &Shop,
    bug: Option<Bug>,
) -> String {
    let (token, tests) = (token.path().display(), tests.display());
    // The part behind the `#` stays in the browser, which signs in with it.
    let page = page::embedded().absent.map_or_else(
        || format!("http://{server}/login#token={}", own.text()),
        |why| format!("not built in: {why}"),
    );
    let gateway = shop.gateway_url();
    let catalogue = shop.catalogue_address();
    let other = Bug::ALL.into_iter().find(|other| Some(*other) != bug).map_or("list", Bug::name);
    format!(
        "
The shop and the server stay up until you press Ctrl-C. Things to try:

  Open the page          {page}
  Go shopping            curl {gateway}/products
                         curl {gateway}/cart/grace
  Read a test            {tests}/checkout.yaml
  Change it and run it   qualitytrace run {tests} --server http://{server} --token-file {token} --var GATEWAY={gateway}
  List what is stored    QUALITYTRACE_TOKEN=$(cat {token}) qualitytrace list test --server-url http://{server}
  Call the catalogue     grpcurl -plaintext {catalogue} list
  See a bug caught       qualitytrace demo --break {other}
"
    )
}
