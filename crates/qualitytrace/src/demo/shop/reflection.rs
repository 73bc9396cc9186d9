//! gRPC server reflection for the catalogue, so that clients can call it without `catalogue.proto`.

use anyhow::Context;
use axum::Router;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet, MethodDescriptorProto,
    ServiceDescriptorProto,
};
use tonic_reflection::server::Builder;

/// The routes of the reflection service, in both of its versions.
pub(super) fn router() -> anyhow::Result<Router> {
    let builder = || {
        let file = FileDescriptorSet { file: vec![file()] };
        Builder::configure().register_file_descriptor_set(file).include_reflection_service(false)
    };
    let invalid = "the description of the catalogue is invalid";
    Ok(Router::new()
        .route_service(
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            builder().build_v1().context(invalid)?,
        )
        .route_service(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
            builder().build_v1alpha().context(invalid)?,
        ))
}

/// The compiled `catalogue.proto`.
fn file() -> FileDescriptorProto {
    FileDescriptorProto {
        name: Some("catalogue.proto".to_owned()),
        package: Some("shop".to_owned()),
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
    use prost::Message as _;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
    use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

    /// The file, services or error in a response.
    fn told(response: ServerReflectionResponse) -> String {
        match response.message_response.unwrap() {
            MessageResponse::FileDescriptorResponse(files) => {
                let file = FileDescriptorProto::decode(files.file_descriptor_proto[0].as_slice()).unwrap();
                format!("file {}", file.name())
            }
            MessageResponse::ListServicesResponse(list) => format!("services {}", list.service[0].name),
            other => format!("{other:?}"),
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn questions_are_answered_about_the_catalogue_and_nothing_else() {
        let (listener, address) = super::super::http::bind().await.unwrap();
        let server = tokio::spawn(async move { axum::serve(listener, router().unwrap()).await });
        let channel = tonic::transport::Endpoint::from_shared(format!("http://{address}")).unwrap();
        let mut client = ServerReflectionClient::new(channel.connect().await.unwrap());
        let symbol = |name: &str| MessageRequest::FileContainingSymbol(name.to_owned());
        for (question, expected) in [
            (MessageRequest::ListServices(String::new()), "services shop.Catalogue"),
            (MessageRequest::FileByFilename("catalogue.proto".to_owned()), "file catalogue.proto"),
            (symbol("shop.Catalogue"), "file catalogue.proto"),
            (symbol("shop.Catalogue.GetProduct"), "file catalogue.proto"),
            (symbol("shop.Product"), "file catalogue.proto"),
            (symbol("shop.Teapot"), "NotFound"),
        ] {
            let request = ServerReflectionRequest { host: String::new(), message_request: Some(question) };
            let mut stream = client
                .server_reflection_info(futures_util::stream::iter([request]))
                .await
                .unwrap()
                .into_inner();
            let answer = match stream.message().await {
                Ok(response) => told(response.unwrap()),
                Err(status) => format!("{:?}", status.code()),
            };
            assert_eq!(answer, expected);
        }
        server.abort();
    }
}
