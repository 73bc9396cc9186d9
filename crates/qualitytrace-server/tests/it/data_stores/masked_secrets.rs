//! A mask stands for the stored secret only on the way to where it is stored for.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use serde_json::{Value, json};

use super::Bench;
use super::stand_in::{Answer, StandIn, StoreRequest};

const MASK: &str = "********";
const REFUSED: &str = "is masked, and the data store's address or TLS settings are not the stored ones";

/// Tests the connection of a store, and stores it. Returns status and text of both.
async fn sent(bench: &Bench, store: &Value) -> [(StatusCode, String); 2] {
    let test = bench.client.post(format!("{}/api/config/connection", bench.url)).json(store);
    let put = bench.client.put(format!("{}/api/datastores/current", bench.url));
    let put = put.json(&json!({ "type": "DataStore", "spec": store }));
    let mut answers = Vec::new();
    for request in [test, put] {
        let answer = request.send().await.unwrap();
        answers.push((answer.status(), answer.text().await.unwrap()));
    }
    answers.try_into().unwrap()
}

async fn is_refused(bench: &Bench, store: &Value) {
    for (status, text) in sent(bench, store).await {
        assert_eq!(status, StatusCode::BAD_REQUEST, "{store}: {text}");
        assert!(text.contains(REFUSED), "{store}: {text}");
    }
}

async fn is_accepted(bench: &Bench, store: &Value) {
    for (status, text) in sent(bench, store).await {
        assert_eq!(status, StatusCode::OK, "{store}: {text}");
    }
}

fn search(url: &str, password: &str, index: &str) -> Value {
    let index = json!({ "addresses": [url], "username": "u", "password": password, "index": index });
    json!({ "name": "O", "type": "opensearch", "opensearch": index })
}

#[tokio::test]
async fn a_masked_secret_is_not_sent_to_another_address() {
    let bench = Bench::start().await;
    let empty =
        |_: &StoreRequest, _: Option<&(String, String)>| Answer::json(json!({ "hits": { "hits": [] } }));
    let [own, foreign] =
        [StandIn::start(&bench.caused, empty).await, StandIn::start(&bench.caused, empty).await];
    bench.store(&search(&own.url, "hunter22", "spans")).await;

    is_refused(&bench, &search(&foreign.url, MASK, "spans")).await;
    let mut both = search(&own.url, MASK, "spans");
    both["opensearch"]["addresses"] = json!([own.url, foreign.url]);
    is_refused(&bench, &both).await;
    // The text of a definition is filled in as well: a block that its type does not use is no way around.
    let yaml = format!(
        "type: DataStore\nspec:\n  name: Z\n  type: zipkin\n  zipkin: {{url: '{0}'}}\n  opensearch: {{addresses: ['{0}'], \
         password: '{MASK}'}}\n",
        foreign.url
    );
    let put = bench.client.put(format!("{}/api/datastores/current", bench.url));
    let put = put.header("content-type", "text/yaml").body(yaml).send().await.unwrap();
    let (status, text) = (put.status(), put.text().await.unwrap());
    assert_eq!(status, StatusCode::BAD_REQUEST, "{text}");
    assert!(text.contains(REFUSED), "{text}");
    assert!(foreign.asked().is_empty(), "{:?}", foreign.asked());

    // The secret itself may go anywhere, and a mask to the same place, however it is written.
    is_accepted(&bench, &search(&format!("{}/", own.url.to_uppercase()), MASK, "other")).await;
    let login = format!("Basic {}", STANDARD.encode("u:hunter22"));
    assert!(own.asked().iter().any(|asked| asked.header("authorization") == login));
    is_accepted(&bench, &search(&foreign.url, "another", "spans")).await;
    let login = format!("Basic {}", STANDARD.encode("u:another"));
    let asked = foreign.asked();
    assert!(
        !asked.is_empty() && asked.iter().all(|asked| asked.header("authorization") == login),
        "{asked:?}"
    );
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_masked_secret_is_not_sent_with_less_protection() {
    let bench = Bench::start().await;
    let jaeger = |key: &str, tls: Value| {
        let client = json!({ "endpoint": "127.0.0.1:1", "headers": { "x-api-key": key }, "tls": tls });
        json!({ "name": "J", "type": "jaeger", "jaeger": client })
    };
    bench.store(&jaeger("hunter22", json!({}))).await;
    for tls in [
        json!({ "insecure": true }),
        json!({ "insecureSkipVerify": true }),
        json!({ "serverName": "foreign.example" }),
        json!({ "settings": { "cAFile": "-----BEGIN CERTIFICATE-----" } }),
        json!({ "settings": { "maxVersion": "1.2" } }),
    ] {
        is_refused(&bench, &jaeger(MASK, tls)).await;
    }
    bench.store(&jaeger("hunter22", json!({ "insecureSkipVerify": true }))).await;
    is_accepted(&bench, &jaeger(MASK, json!({}))).await;
    bench.server.shutdown().await;
}
