//! `run --learned FILE`: what a run taught is known to the next one.

use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;

use crate::program;
use crate::rough::system::{Leaf, Manner, System};

#[tokio::test]
async fn the_next_run_knows_what_this_one_learned() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let port = qualitytrace_testing::port();
    let manner = Manner { delay: Duration::from_millis(100), leaf: Leaf::Comes };
    let system = System::start(vec![format!("http://127.0.0.1:{port}")], manner).await;
    let folder = tempfile::tempdir().unwrap();
    let (test, learned) = (folder.path().join("test.yaml"), folder.path().join("learned.json"));
    let trigger = format!("{{ type: http, httpRequest: {{ method: GET, url: '{}/order' }} }}", system.url);
    let spec = "{ selector: 'span[name=\"render\"]', assertions: ['attr:well = \"yes\"'] }";
    std::fs::write(
        &test,
        format!(
            "type: Test\nspec:\n  id: order\n  name: Order\n  trigger: {trigger}\n  specs:\n    - {spec}\n"
        ),
    )
    .unwrap();
    for runs in 1..=2 {
        let ended = Command::new(program())
            .arg("run")
            .arg(&test)
            .args(["--otlp-grpc-addr", "off", "--otlp-http-addr", &format!("127.0.0.1:{port}")])
            .arg("--learned")
            .arg(&learned)
            .output()
            .await
            .unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
        let known: Value = serde_json::from_str(&std::fs::read_to_string(&learned).unwrap()).unwrap();
        assert_eq!(known["tests"]["order"]["runs"], runs, "{known:#}");
        assert_eq!(known["tests"]["order"]["spans"].as_array().unwrap().len(), 8, "{known:#}");
        assert!(known["services"]["mailer"].is_object(), "{known:#}");
    }
}
