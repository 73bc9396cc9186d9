//! GraphQL requests.

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

use super::auth::{self, Auth, AuthSpec};
use super::files::FileUse;
use super::header::{self, Header, HeaderSpec};
use super::tls::{self, BareTls, Tls, TlsSpec};
use crate::definition::period::{self, Period};
use crate::definition::reader::Reader;
use crate::definition::shape::{Pairs, is_blank};
use crate::definition::text::{Text, mapped_pairs};

/// A GraphQL request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Graphql {
    /// The URL.
    pub url: Text,
    /// Headers in order.
    pub headers: Vec<Header>,
    /// Credentials.
    pub auth: Option<Auth>,
    /// The certificates.
    pub tls: Option<Tls>,
    /// Whether the server's certificate must be valid.
    pub ssl_verification: bool,
    /// The proxy's address; empty means that of the server's environment, `none` means none.
    pub proxy: Text,
    /// The timeout; `None` means the server's default.
    pub timeout: Option<Period>,
    /// The query.
    pub query: Text,
    /// Variables of the query.
    pub variables: Vec<(String, Text)>,
    /// The operation of the query to run; empty means the only one.
    pub operation_name: Text,
    /// The schema, for editors.
    pub schema: Text,
    /// Whether the server's schema is fetched first by introspection, to check the query against.
    pub introspection: bool,
}

impl Graphql {
    pub(super) fn mapped<E>(&self, text: &mut impl FnMut(&Text) -> Result<Text, E>) -> Result<Self, E> {
        Ok(Self {
            url: text(&self.url)?,
            headers: header::mapped(&self.headers, text)?,
            auth: self.auth.as_ref().map(|auth| auth.mapped(text)).transpose()?,
            tls: self.tls.as_ref().map(|tls| tls.mapped(text)).transpose()?,
            proxy: text(&self.proxy)?,
            query: text(&self.query)?,
            variables: mapped_pairs(&self.variables, text)?,
            operation_name: text(&self.operation_name)?,
            ..self.clone()
        })
    }

    pub(super) fn each_file<E>(
        &mut self,
        change: &mut impl FnMut(FileUse, &mut Text) -> Result<(), E>,
    ) -> Result<(), E> {
        change(FileUse::Source, &mut self.query)?;
        change(FileUse::Source, &mut self.schema)?;
        self.tls.iter_mut().try_for_each(|tls| tls.each_file(change))
    }
}

pub(super) fn read(reader: &Reader<'_>, block: &Node) -> Option<Graphql> {
    let mut fields = reader.fields(block, "a GraphQL trigger")?;
    let (tls, ssl_verification) = tls::security(&mut fields, BareTls::Meaningless);
    let mut graphql = Graphql {
        url: fields.text("url").unwrap_or_default(),
        headers: header::read(&mut fields, "headers"),
        auth: auth::read(&mut fields),
        tls,
        ssl_verification,
        proxy: fields.text("proxy").unwrap_or_default(),
        timeout: period::read(&mut fields, "timeout"),
        schema: fields.text("schema").unwrap_or_default(),
        introspection: fields.flag("introspection").unwrap_or_default(),
        ..Graphql::default()
    };
    if let Some(mut body) = fields.get("body").and_then(|body| reader.fields(body, "a GraphQL body")) {
        graphql.query = body.text("query").unwrap_or_default();
        graphql.variables = body.pairs("variables");
        graphql.operation_name = body.text("operationName").unwrap_or_default();
        body.finish();
    }
    fields.finish();
    Some(graphql)
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct GraphqlSpec<'a> {
    /// The URL of the GraphQL server.
    #[serde(skip_serializing_if = "is_blank")]
    url: &'a str,
    /// The headers of the request.
    #[serde(skip_serializing_if = "is_blank")]
    headers: Vec<HeaderSpec<'a>>,
    /// The credentials of the request.
    #[serde(skip_serializing_if = "is_blank")]
    auth: Option<AuthSpec<'a>>,
    /// The query with its variables.
    body: GraphqlBodySpec<'a>,
    /// Certificates of the connection: authorities to trust, and those of the client.
    #[serde(skip_serializing_if = "is_blank")]
    tls: Option<TlsSpec<'a>>,
    /// Whether the certificate of the server must be valid; `false` by default.
    #[serde(skip_serializing_if = "is_blank")]
    ssl_verification: bool,
    /// The address of an HTTP proxy, or `none`; without it, the variables of the server decide.
    #[serde(skip_serializing_if = "is_blank")]
    proxy: &'a str,
    /// How long the whole request may take; `30s` by default.
    #[serde(skip_serializing_if = "is_blank")]
    timeout: Option<&'a str>,
    /// The schema for editors, or a path.
    #[serde(skip_serializing_if = "is_blank")]
    schema: &'a str,
    /// Whether the server is asked for its schema first, so that a wrong query is not sent.
    #[serde(skip_serializing_if = "is_blank")]
    introspection: bool,
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GraphqlBodySpec<'a> {
    /// The query or mutation.
    #[serde(skip_serializing_if = "is_blank")]
    query: &'a str,
    /// The variables of the query.
    #[serde(skip_serializing_if = "is_blank")]
    variables: Pairs<'a>,
    /// The operation to run, where the query has several.
    #[serde(skip_serializing_if = "is_blank")]
    operation_name: &'a str,
}

impl<'a> GraphqlSpec<'a> {
    pub(super) fn of(request: &'a Graphql) -> Self {
        Self {
            url: &request.url.value,
            headers: header::specs(&request.headers),
            auth: request.auth.as_ref().map(AuthSpec::of),
            body: GraphqlBodySpec {
                query: &request.query.value,
                variables: Pairs::of(&request.variables),
                operation_name: &request.operation_name.value,
            },
            tls: request.tls.as_ref().map(TlsSpec::of),
            ssl_verification: request.ssl_verification,
            proxy: &request.proxy.value,
            timeout: period::text(request.timeout.as_ref()),
            schema: &request.schema.value,
            introspection: request.introspection,
        }
    }
}
