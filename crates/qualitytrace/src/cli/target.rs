//! The server that a command talks to: flags, then the environment, then the command line's own file, then the default.

mod settings;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use qualitytrace_core::definition::to_yaml;
use qualitytrace_server::config::HTTP_PORT;
use serde_json::Value;

pub(crate) use self::settings::entries;
use self::settings::{FOLDERS, LOCAL_FILE, Settings};
use super::serve::start_logging;
use crate::client::Client;
use crate::terminal;

/// Prefixes of environment variables for its keys.
const PREFIXES: [&str; 2] = ["QUALITYTRACE_", "TRACETEST_"];

/// The heading of the flags that are about a server, in the help of commands.
pub(crate) const CONNECTION: &str = "Connection";
/// Their place in a list without headings: after `--help` and `--version`.
const LAST: usize = 1_000;

/// Flags that every command which talks to a server takes, before or after its name.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Target {
    /// The command line's own file [default: config.yml, then ~/.qualitytrace/config.yml]
    #[arg(long, short, value_name = "FILE", help_heading = CONNECTION, display_order = LAST)]
    config: Option<PathBuf>,
    /// Server to talk to; `QUALITYTRACE_SERVER_URL` and `TRACETEST_SERVER_URL` name it too
    #[arg(long, short, visible_alias = "server", value_name = "URL", help_heading = CONNECTION, display_order = LAST)]
    server_url: Option<String>,
    /// Token to send to the server; better given as `QUALITYTRACE_TOKEN` or `TRACETEST_TOKEN`
    #[arg(long, short_alias = 't', value_name = "TOKEN", help_heading = CONNECTION, display_order = LAST)]
    token: Option<String>,
    /// Format of the output
    #[arg(long, short, value_name = "FORMAT")]
    pub(crate) output: Option<Output>,
    /// Accept any certificate of the server: the connection is encrypted, but with an unknown party
    #[arg(long, help_heading = CONNECTION, display_order = LAST)]
    skip_verify: bool,
    /// Show the requests to the server on standard error; `run` also shows what each test sent, what was answered, and its
    /// trace, and `trace show` the attributes of spans
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// The project file that names the server in place of a flag.
    #[arg(skip)]
    pub(crate) project: Option<PathBuf>,
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

impl Output {
    /// A value in this format; `None` in the one for people, which each command has of its own.
    pub(crate) fn text_of(self, value: &Value) -> Option<String> {
        match self {
            Self::Pretty => None,
            Self::Json => Some(terminal::filter::json(&format!("{value:#}\n"))),
            Self::Yaml => Some(to_yaml(value)),
        }
    }
}

impl Target {
    /// The format of the output.
    pub(crate) fn output(&self) -> Output {
        self.output.unwrap_or(Output::Pretty)
    }

    /// A server by its address, with a token.
    pub(crate) fn at(server_url: Option<String>, token: Option<String>) -> Self {
        Self { server_url, token, ..Self::default() }
    }

    /// These flags, with this token in place of theirs if there is one.
    pub(crate) fn with_token(self, token: Option<String>) -> Self {
        Self { token: token.or(self.token), ..self }
    }

    /// Whether none of the flags was given.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { config, server_url, token, output, skip_verify, verbose, project: _ } = self;
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
            project: self.project.or(other.project),
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
        self.client_by(&Settings::find(self.config.as_deref())?)
    }

    /// The same for what happens unasked, such as completion: no server that a folder names is contacted.
    pub(crate) fn users_client(&self) -> anyhow::Result<Client> {
        self.client_by(&Settings::of_user(self.config.as_deref())?)
    }

    fn client_by(&self, file: &Settings) -> anyhow::Result<Client> {
        match self.named_server() {
            Some(url) => self.client_of(&ServerAddress::of(&url)?.origin(), file, self.project.as_deref()),
            None => self.client_of(&file.base()?.unwrap_or_else(usual_server), file, file.naming_folder()),
        }
    }

    /// A client of the server that flags, the environment or the file name; `None` when none of them does.
    pub(crate) fn named_client(&self) -> anyhow::Result<Option<NamedServer>> {
        self.named_client_by(&Settings::find(self.config.as_deref())?)
    }

    /// The same for what happens unasked, such as the help of an editor: no server that a folder names is contacted.
    pub(crate) fn users_named_client(&self) -> anyhow::Result<Option<NamedServer>> {
        self.named_client_by(&Settings::of_user(self.config.as_deref())?)
    }

    fn named_client_by(&self, file: &Settings) -> anyhow::Result<Option<NamedServer>> {
        let Some(url) = self.named_server() else {
            let Some(base) = file.base()? else { return Ok(None) };
            let client = self.client_of(&base, file, file.naming_folder())?;
            return Ok(Some(NamedServer { client, file: file.path.clone() }));
        };
        // A host and a port suffice here.
        let address = ServerAddress::of(&if url.contains("://") { url } else { format!("http://{url}") })?;
        let client = self.client_of(&address.origin(), file, self.project.as_deref())?;
        let client = match &address.path {
            Some(path) => client.at_path(&format!("{path}/api")),
            None => client,
        };
        Ok(Some(NamedServer { client, file: None }))
    }

    /// A client of this server. `folders` is the file of a folder that names it; `None` if the user does.
    fn client_of(&self, base: &str, file: &Settings, folders: Option<&Path>) -> anyhow::Result<Client> {
        if self.verbose {
            start_logging("warn,qualitytrace::client=debug", None);
        }
        // What a file says belongs to the server that it names.
        let is_own = is_same_server(base, &file.base()?.unwrap_or_else(usual_server));
        let stored = is_own.then(|| file.token()).flatten();
        let given = self.given_token().or_else(|| variable("JWT"));
        let token = match folders {
            Some(folders) if given.is_some() && !self.is_users(base)? => {
                terminal::err(&format!(
                    "{}: the token that was given is not sent to {base}, which only {} names; name the server with \
                     --server-url or QUALITYTRACE_SERVER_URL\n",
                    terminal::style::unsure("warning"),
                    folders.display()
                ));
                stored
            }
            _ => given.or(stored),
        };
        let client = if self.skip_verify || is_own && file.skips_verification() {
            Client::without_verification(base)?
        } else {
            Client::new(base)?
        };
        let client = if is_own { client.at_path(&file.server_path()) } else { client };
        Ok(client.with_token(token))
    }

    /// Whether the user's own file names a server.
    fn is_users(&self, base: &str) -> anyhow::Result<bool> {
        let own = Settings::of_user(self.config.as_deref())?.base()?;
        Ok(own.is_some_and(|own| is_same_server(base, &own)))
    }

    /// The file to store the server in: the named file, the one in this folder if it is one of this program,
    /// else the user's own.
    pub(crate) fn file_to_write(&self) -> anyhow::Result<PathBuf> {
        if let Some(named) = &self.config {
            return Ok(named.clone());
        }
        if settings::of_folder().is_some() {
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
