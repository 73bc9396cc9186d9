//! Sessions of pages: a token in a cookie.

use reqwest::header::{COOKIE, SET_COOKIE};

use super::*;

impl Bench {
    /// Begins a session, and returns the status and the cookie.
    async fn log_in(&self, token: &str, headers: &[(&str, &str)]) -> (u16, Option<String>) {
        self.log_in_at("/api/session", token, headers).await
    }

    async fn log_in_at(&self, path: &str, token: &str, headers: &[(&str, &str)]) -> (u16, Option<String>) {
        let mut request = self.request(Method::POST, path, None).json(&json!({ "token": token }));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let got = request.send().await.unwrap();
        let cookie = got.headers().get(SET_COOKIE).map(|cookie| cookie.to_str().unwrap().to_owned());
        (got.status().as_u16(), cookie)
    }

    async fn with_cookie(&self, method: Method, path: &str, cookie: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = self.request(method, path, None).header(COOKIE, cookie);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await.unwrap().status().as_u16()
    }

    async fn session(&self, cookie: &str) -> Value {
        let request = self.request(Method::GET, "/api/session", None).header(COOKIE, cookie);
        request.send().await.unwrap().json().await.unwrap()
    }
}

#[tokio::test]
async fn a_page_keeps_its_token_in_a_cookie_that_no_script_reads() {
    let bench = Bench::start(Config { path_prefix: "/below".to_owned(), ..config() }).await;
    assert_eq!(bench.session("other=1").await, json!({ "required": true, "scope": null }));
    let (status, cookie) = bench.log_in_at("/below/api/session", READ, &[]).await;
    assert_eq!(status, 204);
    let cookie = cookie.unwrap();
    assert!(cookie.ends_with("; Path=/below/; HttpOnly; SameSite=Strict"), "{cookie}");
    // The page is served at the root, too: there its requests go to the root.
    let (_, at_root) = bench.log_in(READ, &[]).await;
    assert!(at_root.is_some_and(|cookie| cookie.contains("; Path=/; ")), "the cookie of the bare root");
    let (_, secure) = bench.log_in(READ, &[("origin", "https://127.0.0.1"), ("host", "127.0.0.1")]).await;
    assert!(secure.unwrap().ends_with("; Secure"), "a page over TLS");
    let pair = cookie.split(';').next().unwrap();
    assert_eq!(bench.session(pair).await, json!({ "required": true, "scope": "read" }));
    for (method, path, expected) in [
        (Method::GET, "/api/tests", 200),
        (Method::GET, "/below/api/tests", 200),
        (Method::GET, "/api/tests/none/run/1/events/stream", 404),
        (Method::DELETE, "/api/tests/none", 403),
    ] {
        assert_eq!(bench.with_cookie(method, path, pair, &[]).await, expected, "{path}");
    }
    let (_, full) = bench.log_in(FULL, &[]).await;
    let full = full.unwrap().split(';').next().unwrap().to_owned();
    assert_eq!(bench.with_cookie(Method::DELETE, "/api/tests/none", &full, &[]).await, 404);

    // A page of another origin on the same host has the cookie sent along, and is refused.
    let foreign = [("origin", "http://localhost:3000")];
    for (method, path) in [
        (Method::GET, "/api/tests"),
        (Method::DELETE, "/api/tests/none"),
        (Method::GET, "/api/tests/none/run/1/events/stream"),
        (Method::DELETE, "/api/session"),
    ] {
        assert_eq!(bench.with_cookie(method, path, &full, &foreign).await, 403, "{path}");
    }
    assert_eq!(bench.log_in(FULL, &foreign).await.0, 403);
    assert_eq!(bench.log_in("no-token-of-this-server", &[]).await, (401, None));
    assert_eq!(bench.log_in(SEND, &[]).await, (403, None), "a page cannot do anything with it");
    let got = bench.request(Method::POST, "/api/session", None).json(&json!({})).send().await.unwrap();
    assert_eq!(got.status().as_u16(), 400);

    let got = bench.request(Method::DELETE, "/below/api/session", None).send().await.unwrap();
    let gone = got.headers()[SET_COOKIE].to_str().unwrap();
    assert_eq!(
        (got.status().as_u16(), gone),
        (204, "qualitytrace=; Path=/below/; HttpOnly; SameSite=Strict; Max-Age=0")
    );
    bench.server.shutdown().await;
}

#[tokio::test]
async fn tokens_cannot_be_guessed_by_asking_for_the_session() {
    let bench = Bench::start(config()).await;
    let mut answered = 0;
    let refused = loop {
        let guess = format!("guess-number-{answered:08}");
        let (header, cookie) = (format!("Bearer {guess}"), format!("qualitytrace={guess}"));
        let request = bench.request(Method::GET, "/api/session", None);
        let request = match answered % 2 {
            0 => request.header("authorization", header),
            _ => request.header(COOKIE, cookie),
        };
        let got = request.send().await.unwrap();
        if got.status() != StatusCode::OK {
            break got;
        }
        assert_eq!(got.json::<Value>().await.unwrap(), json!({ "required": true, "scope": null }));
        answered += 1;
        assert!(answered < 1_000, "guesses are answered for ever");
    };
    assert!(answered >= 10, "a few mistakes are forgiven: {answered}");
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(refused.headers().contains_key("retry-after"));
    // The guesses count for every route, and a page with a valid token, or without one, is answered.
    assert_eq!(bench.status(&Method::GET, "/api/tests", Some(WRONG)).await, 429);
    assert_eq!(bench.session(&format!("qualitytrace={READ}")).await["scope"], "read");
    assert_eq!(bench.session("other=1").await, json!({ "required": true, "scope": null }));
    let sender = bench.request(Method::GET, "/api/session", Some(SEND)).send().await.unwrap();
    assert_eq!(sender.json::<Value>().await.unwrap()["scope"], "ingest");
    bench.server.shutdown().await;
}

#[tokio::test]
async fn spans_are_not_delivered_with_the_cookie_of_a_page() {
    let bench = Bench::start(config()).await;
    let cookie = format!("qualitytrace={FULL}");
    let deliver = bench.request(Method::POST, "/v1/traces", None).header(COOKIE, cookie).json(&json!({}));
    assert_eq!(deliver.send().await.unwrap().status().as_u16(), 401);
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_server_without_tokens_needs_no_session() {
    let bench = Bench::start(Config { safety: Safety::default(), ..config() }).await;
    assert_eq!(bench.session("x=1").await, json!({ "required": false, "scope": "full" }));
    assert_eq!(bench.log_in("anything-at-all-here", &[]).await, (204, None));
    bench.server.shutdown().await;
}
