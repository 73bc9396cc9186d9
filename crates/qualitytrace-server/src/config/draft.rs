//! A configuration that is being read: values that depend on several settings are not resolved yet.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

use super::slot::Listen;
use super::{Config, HTTP_PORT, OTLP_GRPC_PORT, OTLP_HTTP_PORT};
use crate::base::files::AllowedFiles;
use crate::http::tls::Certificate;
use crate::storage::store;
use crate::storage::vault::KeySource;

/// All settings as read. Those that depend on no other setting are in `config` already.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) config: Config,
    pub(super) host: IpAddr,
    pub(super) http_port: u16,
    pub(super) otlp_grpc: Listen,
    pub(super) otlp_http: Listen,
    pub(super) database_url: Option<String>,
    pub(super) postgres: Postgres,
    pub(super) secrets_key: Option<String>,
    pub(super) secrets_key_file: Option<PathBuf>,
    pub(super) previous_key: Option<String>,
    pub(super) previous_key_file: Option<PathBuf>,
    pub(super) tls: TlsFiles,
    pub(super) otlp_tls: TlsFiles,
    pub(super) data_store_files: Option<PathBuf>,
}

/// The files of a certificate and its key.
#[derive(Debug, Clone, Default)]
pub(super) struct TlsFiles {
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
}

impl TlsFiles {
    /// Returns the certificate of these files; one file may hold both certificate and key.
    fn certificate(&self) -> Option<Certificate> {
        let certificate = self.certificate.as_ref().or(self.key.as_ref())?.clone();
        let key = self.key.as_ref().unwrap_or(&certificate).clone();
        Some(Certificate { certificate, key })
    }
}

/// The `postgres:` block.
#[derive(Debug, Clone)]
pub(super) struct Postgres {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) user: String,
    pub(super) password: Option<String>,
    pub(super) dbname: String,
    pub(super) params: String,
}

impl Draft {
    /// The defaults.
    pub(super) fn new(data_dir: Option<PathBuf>) -> Self {
        Self {
            config: Config { data_dir, ..Config::default() },
            host: Ipv4Addr::LOCALHOST.into(),
            http_port: HTTP_PORT,
            otlp_grpc: Listen::Port(OTLP_GRPC_PORT),
            otlp_http: Listen::Port(OTLP_HTTP_PORT),
            database_url: None,
            postgres: Postgres {
                host: "postgres".to_owned(),
                port: 5432,
                user: "postgres".to_owned(),
                password: Some("postgres".to_owned()),
                dbname: "qualitytrace".to_owned(),
                params: "sslmode=disable".to_owned(),
            },
            secrets_key: None,
            secrets_key_file: None,
            previous_key: None,
            previous_key_file: None,
            tls: TlsFiles::default(),
            otlp_tls: TlsFiles::default(),
            data_store_files: None,
        }
    }

    /// Resolves values that depend on several settings. `None` when no database is named and there is no data folder.
    pub(super) fn settle(&mut self, use_postgres: bool) -> Option<()> {
        if use_postgres {
            self.database_url = Some(self.postgres.url());
        }
        if self.database_url.is_none() {
            let folder = self.config.data_dir.as_ref()?;
            self.database_url = Some(format!("sqlite://{}", folder.join("qualitytrace.db").display()));
        }
        self.config.safety.key = self.key_place();
        self.config.safety.previous_key = match (&self.previous_key, &self.previous_key_file) {
            (Some(key), _) => Some(KeySource::Text(key.clone())),
            (None, Some(file)) => Some(KeySource::File(file.clone())),
            (None, None) => None,
        };
        self.config.safety.tls = self.tls.certificate();
        self.config.safety.otlp_tls = self.otlp_tls.certificate();
        let folder = self.data_store_files.clone();
        self.config.safety.data_store_files = folder.map_or(AllowedFiles::Nowhere, AllowedFiles::Below);
        for listen in [&mut self.otlp_grpc, &mut self.otlp_http] {
            let address = listen.address(self.host).filter(|_| self.config.otlp);
            *listen = address.map_or(Listen::Off, Listen::On);
        }
        let prefix = self.config.path_prefix.trim_matches('/');
        self.config.path_prefix = if prefix.is_empty() { String::new() } else { format!("/{prefix}") };
        self.config.http = (self.host, self.http_port).into();
        self.config.otlp_grpc = self.otlp_grpc.address(self.host);
        self.config.otlp_http = self.otlp_http.address(self.host);
        self.config.database_url.clone_from(self.database_url.as_ref()?);
        Some(())
    }
}

impl Draft {
    /// Returns where to find the key that seals secrets. The default file is shown as if it had been named.
    fn key_place(&mut self) -> KeySource {
        if let Some(key) = &self.secrets_key {
            return KeySource::Text(key.clone());
        }
        let lasts = !self.database_url.as_deref().is_some_and(store::is_in_memory);
        if self.secrets_key_file.is_none() && lasts {
            self.secrets_key_file = self.config.usual_key_file();
        }
        self.secrets_key_file.clone().map_or(KeySource::Memory, KeySource::File)
    }
}

impl Postgres {
    /// Returns the block as one URL. `params` are separated by blanks in files of Tracetest.
    fn url(&self) -> String {
        let mut params: Vec<String> =
            self.params.split([' ', '&']).filter(|param| !param.is_empty()).map(str::to_owned).collect();
        let host = if self.host.starts_with('/') {
            // The host is the folder of a Unix socket.
            params.push(format!("host={}", encoded(&self.host)));
            "localhost".to_owned()
        } else if self.host.contains(':') && !self.host.starts_with('[') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        let password = self.password.as_ref().map(|password| format!(":{}", encoded(password)));
        let mut url = format!(
            "postgres://{}{}@{host}:{}/{}",
            encoded(&self.user),
            password.unwrap_or_default(),
            self.port,
            encoded(&self.dbname)
        );
        if !params.is_empty() {
            let _ = write!(url, "?{}", params.join("&"));
        }
        url
    }
}

/// What is escaped in a part of a URL: all but the unreserved characters of RFC 3986.
const URL_PART: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Percent-encodes text for a URL.
fn encoded(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, URL_PART)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(change: impl Fn(&mut Postgres)) -> String {
        let mut draft = Draft::new(None);
        change(&mut draft.postgres);
        draft.postgres.url()
    }

    #[test]
    fn the_block_of_tracetest_is_a_url() {
        let plain = "postgres://postgres:postgres@postgres:5432/qualitytrace?sslmode=disable";
        assert_eq!(url(|_| {}), plain);
        assert_eq!(
            url(|postgres| {
                "db".clone_into(&mut postgres.host);
                postgres.password = Some("p@ss/w:rd".to_owned());
                "sslmode=require application_name=x".clone_into(&mut postgres.params);
            }),
            "postgres://postgres:p%40ss%2Fw%3Ard@db:5432/qualitytrace?sslmode=require&application_name=x"
        );
        let socket = url(|postgres| "/run/pg".clone_into(&mut postgres.host));
        assert!(
            socket.ends_with("@localhost:5432/qualitytrace?sslmode=disable&host=%2Frun%2Fpg"),
            "{socket}"
        );
    }
}
