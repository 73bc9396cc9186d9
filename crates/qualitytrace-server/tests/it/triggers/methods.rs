//! The methods of servers: by reflection, by introspection, and by descriptions in the trigger.

use qualitytrace_server::base::limits::Limits;
use qualitytrace_server::base::limits::deny::Deny;
use serde_json::{Value, json};

use super::graphql::Peer;
use super::peer::{self, Reflection};
use super::trying::Bench;

async fn methods(bench: &Bench, trigger: &Value) -> (u16, Value) {
    bench.post("/api/trigger/methods", &json!({ "trigger": trigger })).await
}

fn grpc(address: &str) -> Value {
    json!({ "type": "grpc", "grpc": { "address": address, "request": "${var:LATER}" } })
}

#[tokio::test]
async fn methods_of_a_grpc_server_have_a_template_of_their_request() {
    let bench = Bench::start(Limits::default()).await;
    let described = json!({ "type": "grpc", "grpc": { "address": "127.0.0.1:1", "protobufFile": peer::PROTO,
        "imports": { "shared/money.proto": peer::MONEY } } });
    for (trigger, from) in [
        (grpc(&peer::serve(Reflection::Both).await.to_string()), "server"),
        (grpc(&peer::serve(Reflection::OnlyOld).await.to_string()), "server"),
        (described, "trigger"),
    ] {
        let (status, found) = methods(&bench, &trigger).await;
        assert_eq!(status, 200, "{found}");
        assert_eq!((&found["from"], &found["truncated"]), (&json!(from), &json!(false)), "{found}");
        let services: Vec<&Value> = found["services"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|service| service["name"] == "peer.Echo")
            .collect();
        let [echo] = services[..] else { panic!("{found}") };
        let listed = echo["methods"].as_array().unwrap().iter();
        let names: Vec<&str> = listed.map(|method| method["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["Say", "Count", "Gather", "Chat"]);
        let say = &echo["methods"][0];
        assert_eq!((&say["fullName"], &say["input"]), (&json!("peer.Echo.Say"), &json!("peer.Ask")));
        let request =
            json!({ "text": "", "count": 0, "at": "1970-01-01T00:00:00Z", "price": { "cents": "0" } });
        assert_eq!(say["request"], request);
        assert_eq!(
            (&say["serverStreaming"], &echo["methods"][1]["serverStreaming"]),
            (&json!(false), &json!(true))
        );
    }
    bench.server.shutdown().await;
}

#[tokio::test]
async fn operations_of_a_graphql_server_have_their_arguments() {
    let (bench, peer) = (Bench::start(Limits::default()).await, Peer::start().await);
    let schema = "type Query { book(id: ID!): Book } type Book { id: ID! title: String }";
    let asked = json!({ "type": "graphql", "graphql": { "url": peer.url } });
    let given = json!({ "type": "graphql", "graphql": { "url": "http://127.0.0.1:1", "schema": schema } });
    for (trigger, from) in [(asked, "server"), (given, "trigger")] {
        let (status, found) = methods(&bench, &trigger).await;
        assert_eq!((status, &found["from"]), (200, &json!(from)), "{found}");
        let all = found["operations"].as_array().unwrap();
        let book = all.iter().find(|operation| operation["name"] == "book").unwrap();
        assert_eq!((&book["kind"], &book["type"]), (&json!("query"), &json!("Book")));
        let argument = json!({ "name": "id", "type": "ID!", "required": true, "default": null });
        assert_eq!(book["arguments"], json!([argument]));
        assert_eq!(book["query"], "query book($id: ID!) { book(id: $id) { id title } }");
        assert_eq!(all.iter().any(|operation| operation["kind"] == "mutation"), from == "server");
    }
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_server_that_does_not_describe_itself_is_told_with_the_next_step() {
    let deny = Deny::new(["10.0.0.0/8".parse().unwrap()]);
    let bench = Bench::start(Limits { deny, ..Limits::default() }).await;
    let silent = peer::serve(Reflection::None).await;
    let graphql =
        |url: &str, schema: &str| json!({ "type": "graphql", "graphql": { "url": url, "schema": schema } });
    for (trigger, said) in [
        (grpc(&silent.to_string()), "no server reflection; give the trigger a `protobufFile`"),
        (grpc("10.1.2.3:50051"), "trigger.deny"),
        (graphql("http://10.1.2.3/graphql", ""), "trigger.deny"),
        (graphql(&format!("http://{silent}/"), ""), ""),
        (graphql("http://x", "type Query {"), "the schema of the trigger cannot be read"),
        (json!({ "type": "grpc", "grpc": { "protobufFile": "message {" } }), "cannot be compiled"),
        (
            json!({ "type": "http", "httpRequest": { "url": "http://x" } }),
            "send one of type `grpc` or `graphql`",
        ),
        (json!({ "type": "grpc", "grpc": { "address": "nowhere" } }), "has no port"),
    ] {
        let (status, answer) = methods(&bench, &trigger).await;
        assert_eq!(status, 422, "{trigger}: {answer}");
        assert!(answer["error"].as_str().unwrap().contains(said), "{trigger}: {answer}");
    }
    bench.server.shutdown().await;
}
