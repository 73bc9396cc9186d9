//! Server reflection: the server describes its protocol, so that a test needs no protocol text.
//!
//! Versions `v1` and `v1alpha` have the same messages; the older one is used when the server does not implement the
//! newer.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use prost::Message;
use prost_reflect::DescriptorPool;
use prost_types::{DescriptorProto, FileDescriptorProto, FileDescriptorSet};
use qualitytrace_telemetry::codec::Verbatim;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{
    ErrorResponse, FileDescriptorResponse, ServerReflectionRequest, ServerReflectionResponse,
};

use super::super::failure::{Endpoint, TriggerError};
use super::{Client, protocol, transport_failure};
use crate::base::decode::{Allowance, protobuf_weight, protobuf_within};

const VERSIONS: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];
/// The largest of the messages of a file, in a list that grows.
pub(super) const DESCRIPTOR: u64 = 2 * size_of::<DescriptorProto>() as u64;
/// A service or a file in an answer, in a list that grows.
const ANSWER_ITEM: u64 = 64;
/// Limit of the files that a protocol may consist of.
const MAX_FILES: usize = 2_000;
/// Limit of the bytes of these files.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Limit of the services that are asked for.
const MAX_SERVICES: usize = 500;

/// The protocol definition of all services of a server.
pub(super) struct Everything {
    pub(super) pool: DescriptorPool,
    /// The services that the server lists, without reflection itself.
    pub(super) services: Vec<String>,
    /// Whether the server described all of them, within the limits.
    pub(super) is_complete: bool,
}

/// Loads the protocol definition of a service from its server.
pub(super) async fn describe(
    client: &mut Client,
    metadata: &MetadataMap,
    service: &str,
    endpoint: &Endpoint,
) -> Result<DescriptorPool, TriggerError> {
    let mut asking = Asking::new(client, metadata, endpoint);
    let files = match asking.ask(MessageRequest::FileContainingSymbol(service.to_owned())).await? {
        MessageResponse::FileDescriptorResponse(files) => files,
        MessageResponse::ErrorResponse(refusal) if refusal.error_code == Code::NotFound as i32 => {
            return Err(asking.unknown(service).await?);
        }
        MessageResponse::ErrorResponse(refusal) => return Err(asking.odd(&refusal.error_message)),
        MessageResponse::ListServicesResponse(_) | MessageResponse::AllExtensionNumbersResponse(_) => {
            return Err(asking.odd("it answered another question"));
        }
    };
    let mut known = BTreeMap::new();
    asking.learn(files, &mut known)?;
    let pool = asking.complete(known).await?;
    // The name may be that of something else, like a message.
    if pool.get_service_by_name(service).is_none() {
        return Err(asking.unknown(service).await?);
    }
    Ok(pool)
}

/// Loads the protocol definition of every service from its server.
pub(super) async fn describe_all(
    client: &mut Client,
    metadata: &MetadataMap,
    endpoint: &Endpoint,
) -> Result<Everything, TriggerError> {
    let mut asking = Asking::new(client, metadata, endpoint);
    let listed = match asking.ask(MessageRequest::ListServices(String::new())).await? {
        MessageResponse::ListServicesResponse(listed) => listed.service,
        MessageResponse::ErrorResponse(refusal) => return Err(asking.odd(&refusal.error_message)),
        MessageResponse::FileDescriptorResponse(_) | MessageResponse::AllExtensionNumbersResponse(_) => {
            return Err(asking.odd("it answered another question"));
        }
    };
    let services = listed.into_iter().map(|service| service.name);
    let mut services: Vec<String> = services.filter(|name| !name.starts_with("grpc.reflection.")).collect();
    let mut is_complete = services.len() <= MAX_SERVICES;
    services.truncate(MAX_SERVICES);
    let mut known = BTreeMap::new();
    for service in &services {
        if known.values().any(|file| declares(file, service)) {
            continue;
        }
        match asking.ask(MessageRequest::FileContainingSymbol(service.clone())).await? {
            MessageResponse::FileDescriptorResponse(files) => asking.learn(files, &mut known)?,
            MessageResponse::ErrorResponse(_)
            | MessageResponse::ListServicesResponse(_)
            | MessageResponse::AllExtensionNumbersResponse(_) => is_complete = false,
        }
    }
    let pool = asking.complete(known).await?;
    Ok(Everything { pool, services, is_complete })
}

/// Whether a file declares this service.
fn declares(file: &FileDescriptorProto, service: &str) -> bool {
    file.service.iter().any(|known| match file.package() {
        "" => known.name() == service,
        package => {
            service.strip_prefix(package).and_then(|rest| rest.strip_prefix('.')) == Some(known.name())
        }
    })
}

struct Asking<'a> {
    client: &'a mut Client,
    metadata: &'a MetadataMap,
    endpoint: &'a Endpoint,
    path: &'static str,
    /// The bytes of files so far.
    bytes: usize,
    /// The memory that is left for files.
    room: u64,
}

impl<'a> Asking<'a> {
    fn new(client: &'a mut Client, metadata: &'a MetadataMap, endpoint: &'a Endpoint) -> Self {
        Self { client, metadata, endpoint, path: VERSIONS[0], bytes: 0, room: Allowance::DESCRIPTION }
    }

    async fn ask(&mut self, request: MessageRequest) -> Result<MessageResponse, TriggerError> {
        let question =
            ServerReflectionRequest { host: String::new(), message_request: Some(request) }.encode_to_vec();
        let question = Bytes::from(question);
        let answer = match self.call(question.clone()).await {
            Err(status) if status.code() == Code::Unimplemented && self.path == VERSIONS[0] => {
                self.path = VERSIONS[1];
                self.call(question).await
            }
            answer => answer,
        };
        let bytes = match answer {
            Ok(bytes) => bytes,
            // Some servers end the stream with a status instead of a message.
            Err(status) if status.code() == Code::NotFound => {
                return Ok(MessageResponse::ErrorResponse(ErrorResponse {
                    error_code: status.code().into(),
                    error_message: status.message().to_owned(),
                }));
            }
            Err(status) => return Err(self.failure(&status)),
        };
        let answer = protobuf_within::<ServerReflectionResponse>(&bytes, ANSWER_ITEM, Allowance::DESCRIPTION)
            .map_err(|error| self.odd(&error.to_string()))?;
        answer.message_response.ok_or_else(|| self.odd("its answer is empty"))
    }

    async fn call(&mut self, question: Bytes) -> Result<Bytes, Status> {
        self.client.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
        let mut request = tonic::Request::new(tokio_stream::once(question));
        *request.metadata_mut() = self.metadata.clone();
        let path = http::uri::PathAndQuery::from_static(self.path);
        let answers = self.client.streaming(request, path, Verbatim).await?;
        let first = answers.into_inner().message().await?;
        first.ok_or_else(|| Status::internal("there was no answer"))
    }

    /// Returns the protocol of these files and all their imports.
    async fn complete(
        &mut self,
        mut known: BTreeMap<String, FileDescriptorProto>,
    ) -> Result<DescriptorPool, TriggerError> {
        loop {
            let wanted: BTreeSet<String> = known
                .values()
                .flat_map(|file| file.dependency.iter())
                .filter(|name| !known.contains_key(*name))
                .cloned()
                .collect();
            let Some(name) = wanted.into_iter().next() else { break };
            if known.len() > MAX_FILES {
                return Err(self.odd("it is spread over too many files"));
            }
            match self.ask(MessageRequest::FileByFilename(name.clone())).await? {
                MessageResponse::FileDescriptorResponse(files) => self.learn(files, &mut known)?,
                MessageResponse::ErrorResponse(_)
                | MessageResponse::ListServicesResponse(_)
                | MessageResponse::AllExtensionNumbersResponse(_) => {}
            }
            if let Entry::Vacant(vacant) = known.entry(name) {
                // Servers often leave out the well-known types; those are built in.
                let name = vacant.key();
                let file = DescriptorPool::global().get_file_by_name(name);
                let file =
                    file.ok_or_else(|| self.odd(&format!("it does not have its own file `{name}`")))?;
                vacant.insert(file.file_descriptor_proto().clone());
            }
        }
        let set = FileDescriptorSet { file: known.into_values().collect() };
        DescriptorPool::from_file_descriptor_set(set).map_err(|error| self.odd(&error.to_string()))
    }

    fn learn(
        &mut self,
        files: FileDescriptorResponse,
        known: &mut BTreeMap<String, FileDescriptorProto>,
    ) -> Result<(), TriggerError> {
        for bytes in files.file_descriptor_proto {
            self.bytes += bytes.len();
            if self.bytes > MAX_BYTES {
                return Err(self.odd(&format!("it is larger than {MAX_BYTES} bytes")));
            }
            let file = protobuf_within::<FileDescriptorProto>(&bytes, DESCRIPTOR, self.room)
                .map_err(|error| self.odd(&error.to_string()))?;
            self.room -= protobuf_weight(&bytes, DESCRIPTOR, self.room).unwrap_or(self.room);
            known.insert(file.name().to_owned(), file);
        }
        Ok(())
    }

    /// Describes an unknown service, with a suggestion from the list of services.
    async fn unknown(&mut self, service: &str) -> Result<TriggerError, TriggerError> {
        Ok(match self.ask(MessageRequest::ListServices(String::new())).await? {
            MessageResponse::ListServicesResponse(known) => {
                protocol::unknown_service(service, known.service.iter().map(|known| known.name.as_str()))
            }
            MessageResponse::FileDescriptorResponse(_)
            | MessageResponse::ErrorResponse(_)
            | MessageResponse::AllExtensionNumbersResponse(_) => TriggerError::invalid(format!(
                "{} has no service `{service}`, and does not list its services; correct the trigger's `method`",
                self.endpoint
            )),
        })
    }

    fn failure(&self, status: &Status) -> TriggerError {
        match transport_failure(status, self.endpoint) {
            Some(failure) => failure,
            None if status.code() == Code::Unimplemented => TriggerError::invalid(format!(
                "{} does not describe itself: it has no server reflection; give the trigger a `protobufFile`",
                self.endpoint
            )),
            None => self.odd(status.message()),
        }
    }

    fn odd(&self, cause: &str) -> TriggerError {
        TriggerError::invalid(format!(
            "the description that {} gives of itself cannot be used: {cause}; give the trigger a `protobufFile`",
            self.endpoint
        ))
    }
}
