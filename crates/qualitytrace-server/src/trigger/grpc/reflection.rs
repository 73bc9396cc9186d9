//! Server reflection: the server describes its protocol, so that a test needs no protocol text.
//!
//! Versions `v1` and `v1alpha` have the same messages; the older one is used when the server does not implement the
//! newer.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use prost::{Message, Oneof};
use prost_reflect::DescriptorPool;
use prost_types::{FileDescriptorProto, FileDescriptorSet};
use qualitytrace_telemetry::codec::Verbatim;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

use super::super::failure::{Failure, Place};
use super::{Client, protocol, transport_failure};

const VERSIONS: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];
/// Limit of the files that a service may consist of.
const MAX_FILES: usize = 2_000;

#[derive(Clone, PartialEq, Message)]
struct Question {
    #[prost(oneof = "Asked", tags = "3, 4, 7")]
    asked: Option<Asked>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Asked {
    #[prost(string, tag = "3")]
    FileByName(String),
    #[prost(string, tag = "4")]
    FileWithSymbol(String),
    #[prost(string, tag = "7")]
    Services(String),
}

#[derive(Clone, PartialEq, Message)]
struct Answer {
    #[prost(oneof = "Told", tags = "4, 6, 7")]
    told: Option<Told>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Told {
    #[prost(message, tag = "4")]
    Files(Files),
    #[prost(message, tag = "6")]
    Services(Services),
    #[prost(message, tag = "7")]
    Refusal(Refusal),
}

#[derive(Clone, PartialEq, Message)]
struct Files {
    #[prost(bytes = "vec", repeated, tag = "1")]
    descriptors: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct Services {
    #[prost(message, repeated, tag = "1")]
    services: Vec<Service>,
}

#[derive(Clone, PartialEq, Message)]
struct Service {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Refusal {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

/// Loads the protocol definition of a service from its server.
pub(super) async fn describe(
    client: &mut Client,
    metadata: &MetadataMap,
    service: &str,
    place: &Place,
) -> Result<DescriptorPool, Failure> {
    let mut asking = Asking { client, metadata, place, path: VERSIONS[0] };
    let files = match asking.ask(Asked::FileWithSymbol(service.to_owned())).await? {
        Told::Files(files) => files,
        Told::Refusal(refusal) if refusal.code == Code::NotFound as i32 => {
            return Err(asking.unknown(service).await?);
        }
        Told::Refusal(refusal) => return Err(asking.odd(&refusal.message)),
        Told::Services(_) => return Err(asking.odd("it answered another question")),
    };
    let set = asking.complete(files).await?;
    let pool =
        DescriptorPool::from_file_descriptor_set(set).map_err(|error| asking.odd(&error.to_string()))?;
    // The name may be that of something else, like a message.
    if pool.get_service_by_name(service).is_none() {
        return Err(asking.unknown(service).await?);
    }
    Ok(pool)
}

struct Asking<'a> {
    client: &'a mut Client,
    metadata: &'a MetadataMap,
    place: &'a Place,
    path: &'static str,
}

impl Asking<'_> {
    async fn ask(&mut self, asked: Asked) -> Result<Told, Failure> {
        let question = Bytes::from(Question { asked: Some(asked) }.encode_to_vec());
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
                let message = status.message().to_owned();
                return Ok(Told::Refusal(Refusal { code: status.code().into(), message }));
            }
            Err(status) => return Err(self.failure(&status)),
        };
        let told = Answer::decode(bytes).map_err(|error| self.odd(&error.to_string()))?.told;
        told.ok_or_else(|| self.odd("its answer is empty"))
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

    /// Returns the files with all their imports.
    async fn complete(&mut self, files: Files) -> Result<FileDescriptorSet, Failure> {
        let mut known: BTreeMap<String, FileDescriptorProto> = BTreeMap::new();
        self.learn(files, &mut known)?;
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
            match self.ask(Asked::FileByName(name.clone())).await? {
                Told::Files(files) => self.learn(files, &mut known)?,
                Told::Refusal(_) | Told::Services(_) => {}
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
        Ok(FileDescriptorSet { file: known.into_values().collect() })
    }

    fn learn(&self, files: Files, known: &mut BTreeMap<String, FileDescriptorProto>) -> Result<(), Failure> {
        for bytes in files.descriptors {
            let file = FileDescriptorProto::decode(bytes.as_slice())
                .map_err(|error| self.odd(&error.to_string()))?;
            known.insert(file.name().to_owned(), file);
        }
        Ok(())
    }

    /// Describes an unknown service, with a suggestion from the list of services.
    async fn unknown(&mut self, service: &str) -> Result<Failure, Failure> {
        Ok(match self.ask(Asked::Services(String::new())).await? {
            Told::Services(known) => {
                protocol::unknown_service(service, known.services.iter().map(|known| known.name.as_str()))
            }
            Told::Files(_) | Told::Refusal(_) => Failure::invalid(format!(
                "{} has no service `{service}`, and does not list its services; correct the trigger's `method`",
                self.place
            )),
        })
    }

    fn failure(&self, status: &Status) -> Failure {
        match transport_failure(status, self.place) {
            Some(failure) => failure,
            None if status.code() == Code::Unimplemented => Failure::invalid(format!(
                "{} does not describe itself: it has no server reflection; give the trigger a `protobufFile`",
                self.place
            )),
            None => self.odd(status.message()),
        }
    }

    fn odd(&self, cause: &str) -> Failure {
        Failure::invalid(format!(
            "the description that {} gives of itself cannot be used: {cause}; give the trigger a `protobufFile`",
            self.place
        ))
    }
}
