//! The response to a trigger, as a run shows it.

use std::net::SocketAddr;

use qualitytrace_server::base::limits::Limits;
use qualitytrace_server::config::Config;
use qualitytrace_server::serve::server::Server;
use serde_json::{Value, json};

use super::peer::{self, Reflection};
use super::web::Web;

async fn server(otlp_http: Option<SocketAddr>) -> Server {
    let config = Config {
        http: SocketAddr::from(([127, 0, 0, 1], 0)),
        otlp_grpc: None,
        otlp_http,
        limits: Limits { commands: true, ..Limits::default() },
        ..Config::default()
    };
    Server::start(config).await.unwrap()
}

/// Returns the `triggerResult` of a run of this trigger.
async fn result(server: &Server, trigger: Value) -> Value {
    let (client, url) = (crate::client(), format!("http://{}/api/tests", server.addresses().http));
    let spec = json!({ "id": "t", "name": "T", "skipTraceCollection": true, "trigger": trigger });
    let test = json!({ "type": "Test", "spec": spec });
    client.put(&url).json(&test).send().await.unwrap().error_for_status().unwrap();
    let started = client.post(format!("{url}/t/run")).json(&json!({})).send().await.unwrap();
    let started: Value = started.error_for_status().unwrap().json().await.unwrap();
    let run = format!("{url}/t/run/{}", started["id"]);
    // The stream ends with the run.
    client.get(format!("{run}/events/stream")).send().await.unwrap().text().await.unwrap();
    let mut shown: Value = client.get(&run).send().await.unwrap().json().await.unwrap();
    shown["triggerResult"]["triggerResult"].take()
}

#[tokio::test]
async fn all_of_a_grpc_answer_is_shown() {
    let (server, peer) = (server(None).await, peer::serve(Reflection::Both).await.to_string());
    let call = async |method: &str, request: Value| {
        let grpc = json!({ "address": peer, "method": method, "request": request.to_string() });
        result(&server, json!({ "type": "grpc", "grpc": grpc })).await["grpc"].take()
    };
    let counted = call("peer.Echo/Count", json!({ "count": 2 })).await;
    let messages = counted["messages"].as_array().unwrap();
    assert_eq!((messages.len(), &messages[1]), (2, &counted["body"]));

    let missing = call("peer.Echo/Say", json!({ "text": "missing" })).await;
    assert_eq!(missing["message"], "there is no such text");
    let detail: Value = serde_json::from_str(missing["details"][0].as_str().unwrap()).unwrap();
    assert_eq!(detail["@type"], "type.googleapis.com/google.rpc.BadRequest");

    let plain = call("peer.Echo/Say", json!({})).await;
    let shown: Vec<&String> = plain.as_object().unwrap().keys().collect();
    assert_eq!(shown, ["status", "statusCode", "metadata", "body"]);
    server.shutdown().await;
}

#[tokio::test]
async fn an_answer_that_is_no_text_is_marked() {
    let (server, web) = (server(None).await, Web::plain().await);
    let get = async |path: &str| {
        let request = json!({ "url": format!("http://{}{path}", web.address) });
        result(&server, json!({ "type": "http", "httpRequest": request })).await["http"].take()
    };
    let binary = get("/binary").await;
    assert_eq!((&binary["binary"], &binary["body"]), (&json!(true), &json!("a\u{fffd}b")));
    assert_eq!(get("/echo").await["binary"], Value::Null);
    server.shutdown().await;
}

#[tokio::test]
async fn a_command_knows_where_to_deliver_its_spans() {
    let line = "echo $OTEL_EXPORTER_OTLP_ENDPOINT";
    let command = json!({ "type": "exec", "exec": { "command": line } });
    let port = SocketAddr::from(([0, 0, 0, 0], 0));
    let (one, two) = (server(None).await, server(Some(port)).await);
    let own = two.addresses().otlp_http.unwrap().port();
    assert_eq!(result(&two, command.clone()).await["exec"]["stdout"], format!("http://127.0.0.1:{own}\n"));
    let main = format!("http://{}\n", one.addresses().http);
    assert_eq!(result(&one, command).await["exec"]["stdout"], main);
    let variables = json!({ "OTEL_EXPORTER_OTLP_ENDPOINT": "http://elsewhere.test" });
    let command = json!({ "type": "exec", "exec": { "command": line, "env": variables } });
    assert_eq!(result(&one, command).await["exec"]["stdout"], "http://elsewhere.test\n");
    one.shutdown().await;
    two.shutdown().await;
}
