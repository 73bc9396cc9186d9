//! gRPC server reflection for the catalogue, so that clients can call it without `catalogue.proto`.
//!
//! Versions `v1` and `v1alpha` of the protocol have the same messages; both are answered.

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::post;
use futures_util::StreamExt as _;
use prost::{Message, Oneof};
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, MethodDescriptorProto, ServiceDescriptorProto,
};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use super::catalogue::SERVICE;

const PACKAGE: &str = "shop";
const FILE: &str = "catalogue.proto";

#[derive(Clone, PartialEq, Message)]
struct Question {
    #[prost(string, tag = "1")]
    host: String,
    #[prost(oneof = "Asked", tags = "3, 4, 5, 6, 7")]
    asked: Option<Asked>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Asked {
    #[prost(string, tag = "3")]
    FileByName(String),
    #[prost(string, tag = "4")]
    FileWithSymbol(String),
    #[prost(bytes, tag = "5")]
    FileWithExtension(Vec<u8>),
    #[prost(string, tag = "6")]
    ExtensionNumbers(String),
    #[prost(string, tag = "7")]
    Services(String),
}

#[derive(Clone, PartialEq, Message)]
struct Answer {
    #[prost(string, tag = "1")]
    host: String,
    #[prost(message, optional, tag = "2")]
    question: Option<Question>,
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
    Error(Refusal),
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

/// The routes of the reflection service.
pub(super) fn router() -> Router {
    Router::new()
        .route("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", post(info))
        .route("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", post(info))
}

async fn info(request: Request) -> Response {
    let act = tower::service_fn(async |request: tonic::Request<tonic::Streaming<Question>>| {
        let answers = request.into_inner().map(|question| question.map(answer));
        Ok::<_, Status>(tonic::Response::new(answers))
    });
    tonic::server::Grpc::new(ProstCodec::<Answer, Question>::default())
        .streaming(act, request)
        .await
        .map(axum::body::Body::new)
}

fn answer(question: Question) -> Answer {
    let told = match &question.asked {
        Some(Asked::FileByName(name)) if name == FILE => files(),
        Some(Asked::FileWithSymbol(symbol)) if knows(symbol) => files(),
        Some(Asked::Services(_)) => {
            Told::Services(Services { services: vec![Service { name: SERVICE.to_owned() }] })
        }
        Some(Asked::FileByName(name) | Asked::FileWithSymbol(name) | Asked::ExtensionNumbers(name)) => {
            refusal(Code::NotFound, format!("`{name}` is not known here"))
        }
        Some(Asked::FileWithExtension(_)) => refusal(Code::NotFound, "there are no extensions".to_owned()),
        None => refusal(Code::InvalidArgument, "nothing was asked".to_owned()),
    };
    Answer { host: question.host.clone(), question: Some(question), told: Some(told) }
}

fn files() -> Told {
    Told::Files(Files { descriptors: vec![file().encode_to_vec()] })
}

fn refusal(code: Code, message: String) -> Told {
    Told::Error(Refusal { code: code.into(), message })
}

/// Whether a full name belongs to the catalogue: its service, a method of it, or a message.
fn knows(symbol: &str) -> bool {
    let Some(name) = symbol.strip_prefix(PACKAGE).and_then(|rest| rest.strip_prefix('.')) else {
        return false;
    };
    let file = file();
    file.message_type.iter().any(|message| message.name() == name)
        || file.service.iter().any(|service| {
            let method = name.strip_prefix(service.name()).and_then(|rest| rest.strip_prefix('.'));
            name == service.name() || service.method.iter().any(|known| Some(known.name()) == method)
        })
}

/// The compiled `catalogue.proto`.
fn file() -> FileDescriptorProto {
    FileDescriptorProto {
        name: Some(FILE.to_owned()),
        package: Some(PACKAGE.to_owned()),
        syntax: Some("proto3".to_owned()),
        message_type: vec![
            message("ListProductsRequest", vec![field("ids", 1, Label::Repeated, Type::String)]),
            message(
                "ListProductsResponse",
                vec![FieldDescriptorProto {
                    type_name: Some(".shop.Product".to_owned()),
                    ..field("products", 1, Label::Repeated, Type::Message)
                }],
            ),
            message("GetProductRequest", vec![field("id", 1, Label::Optional, Type::String)]),
            message(
                "Product",
                vec![
                    field("id", 1, Label::Optional, Type::String),
                    field("name", 2, Label::Optional, Type::String),
                    FieldDescriptorProto {
                        json_name: Some("priceCents".to_owned()),
                        ..field("price_cents", 3, Label::Optional, Type::Int64)
                    },
                ],
            ),
        ],
        service: vec![ServiceDescriptorProto {
            name: Some("Catalogue".to_owned()),
            method: vec![
                method("ListProducts", ".shop.ListProductsRequest", ".shop.ListProductsResponse"),
                method("GetProduct", ".shop.GetProductRequest", ".shop.Product"),
            ],
            options: None,
        }],
        ..FileDescriptorProto::default()
    }
}

fn message(name: &str, field: Vec<FieldDescriptorProto>) -> DescriptorProto {
    DescriptorProto { name: Some(name.to_owned()), field, ..DescriptorProto::default() }
}

fn field(name: &str, number: i32, label: Label, kind: Type) -> FieldDescriptorProto {
    FieldDescriptorProto {
        name: Some(name.to_owned()),
        json_name: Some(name.to_owned()),
        number: Some(number),
        label: Some(label.into()),
        r#type: Some(kind.into()),
        ..FieldDescriptorProto::default()
    }
}

fn method(name: &str, input: &str, output: &str) -> MethodDescriptorProto {
    MethodDescriptorProto {
        name: Some(name.to_owned()),
        input_type: Some(input.to_owned()),
        output_type: Some(output.to_owned()),
        ..MethodDescriptorProto::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the file, services or error in the response to a question.
    fn check(asked: Asked, expected: &str) {
        let question = Question { host: String::new(), asked: Some(asked) };
        let told = match answer(question).told {
            Some(Told::Files(files)) => {
                let file = FileDescriptorProto::decode(files.descriptors[0].as_slice()).unwrap();
                format!("file {}", file.name())
            }
            Some(Told::Services(services)) => format!("services {}", services.services[0].name),
            Some(Told::Error(refusal)) => format!("error {}", refusal.message),
            None => "nothing".to_owned(),
        };
        assert_eq!(told, expected);
    }

    #[test]
    fn questions_are_answered_about_the_catalogue_and_nothing_else() {
        check(Asked::Services(String::new()), "services shop.Catalogue");
        check(Asked::FileByName("catalogue.proto".into()), "file catalogue.proto");
        check(Asked::FileWithSymbol("shop.Catalogue".into()), "file catalogue.proto");
        check(Asked::FileWithSymbol("shop.Catalogue.GetProduct".into()), "file catalogue.proto");
        check(Asked::FileWithSymbol("shop.Product".into()), "file catalogue.proto");
        check(Asked::FileWithSymbol("shop.Teapot".into()), "error `shop.Teapot` is not known here");
        check(Asked::FileWithSymbol("shopping".into()), "error `shopping` is not known here");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn one_stream_answers_many_questions_in_order() {
        let (listener, address) = super::super::http::bind().await.unwrap();
        let server = tokio::spawn(async move { axum::serve(listener, router()).await });
        let channel = tonic::transport::Endpoint::from_shared(format!("http://{address}")).unwrap();
        let mut client = tonic::client::Grpc::new(channel.connect().await.unwrap());
        client.ready().await.unwrap();
        let questions = ["one", "two"]
            .map(|host| Question { host: host.to_owned(), asked: Some(Asked::Services(String::new())) });
        let answers = client
            .streaming(
                tonic::Request::new(futures_util::stream::iter(questions)),
                "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo".parse().unwrap(),
                ProstCodec::<Question, Answer>::default(),
            )
            .await
            .unwrap();
        let hosts: Vec<_> = answers.into_inner().map(|answer| answer.unwrap().host).collect().await;
        assert_eq!(hosts, ["one", "two"]);
        server.abort();
    }
}
