//! gRPC calls.

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
use crate::definition::text::Text;

/// A gRPC call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grpc {
    /// The source text of the `.proto` file; definition files may have a path, which the command line replaces by
    /// the file's content. Empty means that the server's reflection is used.
    pub protobuf_file: Text,
    /// The source texts of its imports, by the name under which it imports them.
    pub imports: Vec<(String, Text)>,
    /// A compiled `FileDescriptorSet` in base64; definition files may have a path. Empty means none.
    pub descriptor_set: Text,
    /// Host and port; `https://` before them means TLS.
    pub address: Text,
    /// The service; the method contains it too.
    pub service: Text,
    /// `package.Service.Method`.
    pub method: Text,
    /// The request as JSON; several documents are the messages of a client stream.
    pub request: Text,
    /// Metadata in order.
    pub metadata: Vec<Header>,
    /// Credentials.
    pub auth: Option<Auth>,
    /// Whether to use TLS, and with which certificates.
    pub tls: Option<Tls>,
    /// Whether the server's certificate must be valid.
    pub ssl_verification: bool,
    /// The timeout; `None` means the server's default.
    pub timeout: Option<Period>,
}

impl Grpc {
    pub(super) fn mapped<E>(&self, text: &mut impl FnMut(&Text) -> Result<Text, E>) -> Result<Self, E> {
        Ok(Self {
            address: text(&self.address)?,
            service: text(&self.service)?,
            method: text(&self.method)?,
            request: text(&self.request)?,
            metadata: header::mapped(&self.metadata, text)?,
            auth: self.auth.as_ref().map(|auth| auth.mapped(text)).transpose()?,
            tls: self.tls.as_ref().map(|tls| tls.mapped(text)).transpose()?,
            ..self.clone()
        })
    }

    pub(super) fn each_file<E>(
        &mut self,
        change: &mut impl FnMut(FileUse, &mut Text) -> Result<(), E>,
    ) -> Result<(), E> {
        change(FileUse::Source, &mut self.protobuf_file)?;
        self.imports.iter_mut().try_for_each(|(_, text)| change(FileUse::Source, text))?;
        change(FileUse::Base64, &mut self.descriptor_set)?;
        self.tls.iter_mut().try_for_each(|tls| tls.each_file(change))
    }
}

pub(super) fn read(reader: &Reader<'_>, block: &Node) -> Option<Grpc> {
    let mut fields = reader.fields(block, "a gRPC trigger")?;
    let (tls, ssl_verification) = tls::security(&mut fields, BareTls::Allowed);
    let grpc = Grpc {
        protobuf_file: fields.text("protobufFile").unwrap_or_default(),
        imports: fields.pairs("imports"),
        descriptor_set: fields.text("descriptorSet").unwrap_or_default(),
        address: fields.text("address").unwrap_or_default(),
        service: fields.text("service").unwrap_or_default(),
        method: fields.text("method").unwrap_or_default(),
        request: fields.text("request").unwrap_or_default(),
        metadata: header::read(&mut fields, "metadata"),
        auth: auth::read(&mut fields),
        tls,
        ssl_verification,
        timeout: period::read(&mut fields, "timeout"),
    };
    fields.finish();
    Some(grpc)
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct GrpcSpec<'a> {
    /// The source text of the protocol, or a path; without it and `descriptorSet`, the server under test is asked for
    /// it.
    #[serde(skip_serializing_if = "is_blank")]
    protobuf_file: &'a str,
    /// The names that the protocol imports, each with its source text or a path.
    #[serde(skip_serializing_if = "is_blank")]
    imports: Pairs<'a>,
    /// The compiled protocol: a `FileDescriptorSet` in base64, or a path.
    #[serde(skip_serializing_if = "is_blank")]
    descriptor_set: &'a str,
    /// Host and port; `https://` before them means TLS.
    #[serde(skip_serializing_if = "is_blank")]
    address: &'a str,
    /// The service, where the method does not name it.
    #[serde(skip_serializing_if = "is_blank")]
    service: &'a str,
    /// The method, as `package.Service/Method`.
    #[serde(skip_serializing_if = "is_blank")]
    method: &'a str,
    /// The request as JSON; several documents are the messages of a stream.
    #[serde(skip_serializing_if = "is_blank")]
    request: &'a str,
    /// The metadata of the call.
    #[serde(skip_serializing_if = "is_blank")]
    metadata: Vec<HeaderSpec<'a>>,
    /// The credentials of the call.
    #[serde(skip_serializing_if = "is_blank")]
    auth: Option<AuthSpec<'a>>,
    /// Whether the connection uses TLS, or its certificates.
    #[serde(skip_serializing_if = "is_blank")]
    tls: Option<TlsSpec<'a>>,
    /// Whether the certificate of the server must be valid; `false` by default.
    #[serde(skip_serializing_if = "is_blank")]
    ssl_verification: bool,
    /// How long the whole call may take; `30s` by default.
    #[serde(skip_serializing_if = "is_blank")]
    timeout: Option<&'a str>,
}

impl<'a> GrpcSpec<'a> {
    pub(super) fn of(call: &'a Grpc) -> Self {
        Self {
            protobuf_file: &call.protobuf_file.value,
            imports: Pairs::of(&call.imports),
            descriptor_set: &call.descriptor_set.value,
            address: &call.address.value,
            service: &call.service.value,
            method: &call.method.value,
            request: &call.request.value,
            metadata: header::specs(&call.metadata),
            auth: call.auth.as_ref().map(AuthSpec::of),
            tls: call.tls.as_ref().map(TlsSpec::of),
            ssl_verification: call.ssl_verification,
            timeout: period::text(call.timeout.as_ref()),
        }
    }
}
