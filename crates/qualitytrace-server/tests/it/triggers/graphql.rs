//! GraphQL requests.

use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use qualitytrace_core::run::Reply;
use serde_json::{Value, json};

use super::{SPAN, TRACE, send, trigger};

async fn serve() -> String {
    let router = axum::Router::new().route("/graphql", post(graphql));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address.to_string()
}

/// Answers with what it was sent.
async fn graphql(headers: HeaderMap, Json(body): Json<Value>) -> (StatusCode, Json<Value>) {
    let seen = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let data = json!({
        "body": body,
        "contentType": seen("content-type"),
        "traceparent": seen("traceparent"),
        "authorization": seen("authorization"),
    });
    (StatusCode::ACCEPTED, Json(json!({ "data": data })))
}

#[tokio::test]
async fn a_graphql_query_is_posted_with_its_variables() {
    let peer = serve().await;
    let yaml = format!(
        "type: graphql
graphql:
  url: {peer}/graphql
  auth:
    type: bearer
    bearer:
      token: secret
  body:
    query: 'query Find($id: Int!, $name: String) {{ find(id: $id, name: $name) }}'
    operationName: Find
    variables:
      id: ${{env:id}}
      name: 5"
    );
    let Ok(Reply::Http { status: 202, reason, body, .. }) = send(&trigger(&yaml, &[("id", "7")])).await
    else {
        panic!("no answer")
    };
    assert_eq!(reason, "202 Accepted");
    assert_eq!(
        serde_json::from_str::<Value>(&body).unwrap()["data"],
        json!({
            "body": {
                "query": "query Find($id: Int!, $name: String) { find(id: $id, name: $name) }",
                "variables": { "id": 7, "name": "5" },
                "operationName": "Find",
            },
            "contentType": "application/json",
            "traceparent": format!("00-{TRACE}-{SPAN}-01"),
            "authorization": "secret",
        })
    );
}
