//! The server that a command talks to: flags, then the environment, then the command line's own file, then the default.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use qualitytrace_server::config::HTTP_PORT;
use serde_json::{Map, Value};

use super::serve::start_logging;
use crate::client::Client;
use crate::terminal;

/// The configuration file in the current folder.
const LOCAL_FILE: &str = "config.yml";
/// Folders of the user that may hold it, the newer name first.
const FOLDERS: [&str; 2] = [".qualitytrace", ".tracetest"];
/// Prefixes of environment variables for its keys.
const PREFIXES: [&str; 2] = ["QUALITYTRACE_", "TRACETEST_"];

/// Flags that every command which talks to a server takes, before or after its name.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Target {
    /// The command line's own file [default: config.yml, then ~/.qualitytrace/config.yml]
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Server to talk to; `QUALITYTRACE_SERVER_URL` and `TRACETEST_SERVER_URL` name it too
    #[arg(long, short, visible_alias = "server", value_name = "URL")]
    server_url: Option<String>,
    /// Token to send to the server; better given as `QUALITYTRACE_TOKEN` or `TRACETEST_TOKEN`
    #[arg(long, short_alias = 't', value_name = "TOKEN")]
    token: Option<String>,
    /// Format of the output
    #[arg(long, short, value_name = "FORMAT")]
    pub(crate) output: Option<Output>,
    /// Accept any certificate of the server: the connection is encrypted, but with an unknown party
    #[arg(long)]
    skip_verify: bool,
    /// Show the requests to the server on standard error; `run` also shows what each test sent, what was answered, and its
    /// trace
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

/// A server that was named, and how.
#[derive(Debug)]
pub(crate) struct NamedServer {
    pub(crate) client: Client,
    /// The file that names it; `None` when a flag or the environment does.
    pub(crate) file: Option<PathBuf>,
}

/// Output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Pretty,
    Json,
    Yaml,
}

impl Target {
    /// A server by its address, with a token.
    pub(crate) fn at(server_url: Option<String>, token: Option<String>) -> Self {
        Self { server_url, token, ..Self::default() }
    }

    /// Whether none of the flags was given.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { config, server_url, token, output, skip_verify, verbose } = self;
        config.is_none()
            && server_url.is_none()
            && token.is_none()
            && output.is_none()
            && !skip_verify
            && !verbose
    }

    /// These flags; missing ones are taken from `other`.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            config: self.config.or(other.config),
            server_url: self.server_url.or(other.server_url),
            token: self.token.or(other.token),
            output: self.output.or(other.output),
            skip_verify: self.skip_verify || other.skip_verify,
            verbose: self.verbose || other.verbose,
        }
    }

    /// The server from flags or the environment.
    pub(crate) fn named_server(&self) -> Option<String> {
        self.server_url.clone().or_else(|| variable("SERVER_URL"))
    }

    /// The token from flags or the environment.
    pub(crate) fn given_token(&self) -> Option<String> {
        self.token.clone().or_else(|| variable("TOKEN"))
    }

    /// A client of the chosen server, or of the one at the default address.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let file = Settings::find(self.config.as_deref())?;
        let base = match self.named_server() {
            Some(url) => ServerAddress::of(&url)?.origin(),
            None => file.base()?.unwrap_or_else(usual_server),
        };
        self.client_of(&base, &file)
    }

    /// A client of the server that flags, the environment or the file name; `None` when none of them does.
    pub(crate) fn named_client(&self) -> anyhow::Result<Option<NamedServer>> {
        let file = Settings::find(self.config.as_deref())?;
        let Some(url) = self.named_server() else {
            let Some(base) = file.base()? else { return Ok(None) };
            return Ok(Some(NamedServer { client: self.client_of(&base, &file)?, file: file.path.clone() }));
        };
        // A host and a port suffice here.
        let address = ServerAddress::of(&if url.contains("://") { url } else { format!("http://{url}") })?;
        let client = self.client_of(&address.origin(), &file)?;
        let client = match &address.path {
            Some(path) => client.at_path(&format!("{path}/api")),
            None => client,
        };
        Ok(Some(NamedServer { client, file: None }))
    }

    fn client_of(&self, base: &str, file: &Settings) -> anyhow::Result<Client> {
        if self.verbose {
            start_logging("warn,qualitytrace::client=debug", None);
        }
        // A stored token belongs to the server that is stored with it.
        let own = file.base()?.unwrap_or_else(usual_server);
        let stored =
            is_same_server(base, &own).then(|| file.written("token").or_else(|| file.written("jwt")));
        let token = self.given_token().or_else(|| variable("JWT")).or(stored.flatten());
        let client = if self.skip_verify || file.says("skipVerify") {
            Client::without_verification(base)?
        } else {
            Client::new(base)?
        };
        Ok(client.at_path(&file.server_path()).with_token(token))
    }

    /// The file to store the server in: the named file, the one in this folder if there is one, else the user's own.
    pub(crate) fn file_to_write(&self) -> anyhow::Result<PathBuf> {
        if let Some(named) = &self.config {
            return Ok(named.clone());
        }
        if Path::new(LOCAL_FILE).exists() {
            return Ok(LOCAL_FILE.into());
        }
        let home = std::env::home_dir().context("you have no home folder; name a file with --config")?;
        Ok(home.join(FOLDERS[0]).join(LOCAL_FILE))
    }
}

/// The parts of a server's address.
#[derive(Debug)]
pub(crate) struct ServerAddress {
    pub(crate) scheme: String,
    /// Host and port.
    pub(crate) endpoint: String,
    /// Begins with a slash; `None` for no path.
    pub(crate) path: Option<String>,
}

impl ServerAddress {
    pub(crate) fn of(url: &str) -> anyhow::Result<Self> {
        let Some((scheme @ ("http" | "https"), rest)) = url.split_once("://") else {
            bail!(
                "the server URL must start with the scheme, either \"http://\" or \"https://\", and `{url}` does not"
            );
        };
        let (endpoint, path) = rest.split_once('/').unwrap_or((rest, ""));
        let path = Some(path.trim_matches('/')).filter(|path| !path.is_empty());
        Ok(Self {
            scheme: scheme.to_owned(),
            endpoint: endpoint.to_owned(),
            path: path.map(|path| format!("/{path}")),
        })
    }

    /// Scheme, host and port.
    fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.endpoint)
    }

    /// A client of the server at this address, path included.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let prefix = format!("{}/api", self.path.as_deref().unwrap_or_default());
        Ok(Client::new(&self.origin())?.at_path(&prefix))
    }
}

/// The entries of a file of the command line; empty if it is missing.
pub(crate) fn entries(file: &Path) -> anyhow::Result<Map<String, Value>> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    serde_saphyr::from_str(&text)
        .with_context(|| format!("{} is not a file of keys and values", file.display()))
}

/// The command line's own file; keys ignore case.
#[derive(Debug, Default)]
struct Settings {
    entries: Map<String, Value>,
    /// The file itself.
    path: Option<PathBuf>,
}

impl Settings {
    /// Reads the first file that exists and is not empty. A missing file is no error, but one that was named is warned
    /// about.
    fn find(named: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(path) = named.filter(|path| !path.exists()) {
            terminal::err(&format!(
                "{}: there is no file {}; going on without it\n",
                terminal::style::unsure("warning"),
                path.display()
            ));
        }
        let home = std::env::home_dir().unwrap_or_default();
        let own = [named.unwrap_or(Path::new(LOCAL_FILE)).to_owned()];
        for path in own.into_iter().chain(FOLDERS.map(|folder| home.join(folder).join(LOCAL_FILE))) {
            let entries = entries(&path)?;
            if entries.is_empty() {
                continue;
            }
            let entries = entries.into_iter().map(|(key, value)| (key.to_lowercase(), value)).collect();
            return Ok(Self { entries, path: Some(path) });
        }
        Ok(Self::default())
    }

    /// A value of the file; an environment variable overrides it, but only where there is a file.
    fn text(&self, key: &str) -> Option<String> {
        if self.entries.is_empty() {
            return None;
        }
        variable(&key.to_uppercase()).or_else(|| self.written(key))
    }

    /// A value of the file itself.
    fn written(&self, key: &str) -> Option<String> {
        let text = self.entries.get(&key.to_lowercase())?.as_str()?;
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// Whether a switch of the file is on.
    fn says(&self, key: &str) -> bool {
        self.entries.get(&key.to_lowercase()).and_then(Value::as_bool).unwrap_or(false)
    }

    fn base(&self) -> anyhow::Result<Option<String>> {
        let Some(endpoint) = self.text("endpoint") else { return Ok(None) };
        let scheme = self.text("scheme").unwrap_or_else(|| "http".to_owned());
        Ok(Some(ServerAddress::of(&format!("{scheme}://{endpoint}"))?.origin()))
    }

    /// The prefix of the routes; `/` means none.
    fn server_path(&self) -> String {
        let path = self.text("serverPath").unwrap_or_else(|| "/api".to_owned());
        let path = path.trim_matches('/');
        if path.is_empty() { String::new() } else { format!("/{path}") }
    }
}

/// The default address of a server.
pub(crate) fn usual_server() -> String {
    format!("http://127.0.0.1:{HTTP_PORT}")
}

/// Whether two addresses have the same scheme, host and port.
fn is_same_server(one: &str, other: &str) -> bool {
    let origin = |address: &str| reqwest::Url::parse(address).ok().map(|url| url.origin());
    origin(one).is_some_and(|one| Some(one) == origin(other))
}

/// A variable of the environment, under the newer prefix or the older one; an empty one counts as unset.
pub(super) fn variable(name: &str) -> Option<String> {
    PREFIXES
        .iter()
        .filter_map(|prefix| std::env::var(format!("{prefix}{name}")).ok())
        .find(|value| !value.is_empty())
}
