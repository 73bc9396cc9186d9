//! GraphQL triggers against a GraphQL server.

use std::sync::{Arc, Mutex};

use async_graphql::{
    Context, EmptySubscription, Enum, ID, InputObject, Object, Request, Response, Schema, Union,
};
use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use qualitytrace_core::definition::Trigger;
use qualitytrace_core::run::Reply;
use qualitytrace_server::base::limits::Limits;
use qualitytrace_server::outbound::trigger::Reason;
use serde_json::{Value, json};

use super::{SPAN, TRACE, send, send_within, trigger};

/// The trace context of each request so far, if it had one.
type Asked = Arc<Mutex<Vec<Option<String>>>>;

struct Query;
struct Mutation;
struct Book {
    id: ID,
}
struct Pen;

#[derive(Union)]
enum Thing {
    Book(Book),
    Pen(Pen),
}

#[derive(Enum, Clone, Copy, PartialEq, Eq)]
enum Colour {
    Red,
    Blue,
}

#[derive(InputObject)]
struct Filter {
    /// Not given: all of them.
    least: Option<i32>,
    #[graphql(default)]
    colours: Vec<Colour>,
}

#[Object]
impl Book {
    async fn id(&self) -> &ID {
        &self.id
    }

    async fn title(&self, #[graphql(default = 10)] letters: i32) -> String {
        "A title that is long".chars().take(letters.try_into().unwrap_or(0)).collect()
    }
}

#[Object]
impl Pen {
    async fn colour(&self) -> Colour {
        Colour::Blue
    }
}

#[Object]
impl Query {
    async fn book(&self, id: ID) -> Option<Book> {
        (id.as_str() != "none").then_some(Book { id })
    }

    async fn things(&self, filter: Filter) -> Vec<Thing> {
        let count = filter.least.unwrap_or(1) + i32::try_from(filter.colours.len()).unwrap();
        (0..count)
            .map(|at| if at == 0 { Thing::Pen(Pen) } else { Thing::Book(Book { id: at.into() }) })
            .collect()
    }

    /// What the headers of the request say.
    async fn header(&self, context: &Context<'_>, name: String) -> Option<String> {
        let headers = context.data::<HeaderMap>().unwrap();
        headers.get(name).map(|value| value.to_str().unwrap().to_owned())
    }

    async fn broken(&self) -> async_graphql::Result<String> {
        std::future::ready(Err("the database is gone".into())).await
    }

    async fn hang(&self) -> bool {
        std::future::pending().await
    }

    async fn huge(&self) -> String {
        "x".repeat(1 << 20)
    }
}

#[Object]
impl Mutation {
    async fn rename(&self, id: ID, title: String) -> String {
        format!("{} is {title}", id.as_str())
    }
}

type Books = Schema<Query, Mutation, EmptySubscription>;

/// A GraphQL server, and the trace contexts of its requests.
pub(super) struct Peer {
    pub(super) url: String,
    asked: Asked,
}

impl Peer {
    pub(super) async fn start() -> Self {
        Self::serve(Schema::build(Query, Mutation, EmptySubscription).finish()).await
    }

    async fn serve(schema: Books) -> Self {
        let asked: Asked = Arc::default();
        let router =
            axum::Router::new().route("/graphql", post(answer)).with_state((schema, Arc::clone(&asked)));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("{}/graphql", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, asked }
    }

    fn asked(&self) -> Vec<Option<String>> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

async fn answer(
    State((schema, asked)): State<(Books, Asked)>,
    headers: HeaderMap,
    Json(request): Json<Request>,
) -> Json<Response> {
    let trace = headers.get("traceparent").map(|value| value.to_str().unwrap().to_owned());
    asked.lock().unwrap().push(trace);
    Json(schema.execute(request.data(headers)).await)
}

fn query(url: &str, query: &str, more: &str) -> Trigger {
    let more = more.replace('\n', "\n  ");
    let text = format!("type: graphql\ngraphql:\n  url: {url}\n  {more}\n  body:\n    query: '{query}'");
    trigger(&text, &[])
}

async fn data(trigger: &Trigger) -> Value {
    let Ok(Reply::Http { status: 200, body, .. }) = send(trigger).await else { panic!("no answer") };
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answer.get("errors"), None, "{answer}");
    answer["data"].clone()
}

#[tokio::test]
async fn a_query_is_posted_with_its_variables_and_operation() {
    let peer = Peer::start().await;
    let yaml = format!(
        "type: graphql
graphql:
  url: {}
  auth:
    type: bearer
    bearer:
      token: secret
  body:
    query: |
      query Other {{ broken }}
      query Find($id: ID!, $filter: Filter!, $name: String!) {{
        book(id: $id) {{ id title }}
        things(filter: $filter) {{ ... on Pen {{ colour }} ... on Book {{ id }} }}
        header(name: $name)
      }}
    operationName: Find
    variables:
      id: ${{env:id}}
      filter: '{{\"least\": 2}}'
      name: authorization",
        peer.url
    );
    let found = json!({
        "book": { "id": "7", "title": "A title th" },
        "things": [{ "colour": "BLUE" }, { "id": "1" }],
        "header": "secret",
    });
    assert_eq!(data(&trigger(&yaml, &[("id", "7")])).await, found);
    assert_eq!(peer.asked(), [Some(format!("00-{TRACE}-{SPAN}-01"))]);
    // The same with a check: the introspection request is not part of the trace.
    let checked = yaml.replace("  body:", "  introspection: true\n  body:");
    assert_eq!(data(&trigger(&checked, &[("id", "7")])).await, found);
    assert_eq!(peer.asked(), [None, Some(format!("00-{TRACE}-{SPAN}-01"))]);
    let renamed = query(&peer.url, "mutation { rename(id: 1, title: \"new\") }", "introspection: true");
    assert_eq!(data(&renamed).await, json!({ "rename": "1 is new" }));
}

#[tokio::test]
async fn a_query_that_does_not_fit_the_schema_is_not_sent() {
    let peer = Peer::start().await;
    for (wrong, more, told) in [
        ("{ book(id: 1) { pages } }", "", "`pages` (line 1, column 17)"),
        ("{ book { id } }", "", "the required argument `Query.book(id:)` is not provided"),
        ("{ book(id: 1) }", "", "interface, union and object types must have a subselection set"),
        ("{ things(filter: {most: 1}) { ... on Pen { colour } } }", "", "`most`"),
        ("{ things(filter: {colours: [GREEN]}) { ... on Pen { colour } } }", "", "`GREEN`"),
        ("query ($id: ID!) { book(id: $id) { id } }", "", "id"),
        ("{ book(id: 1) { id }", "", "expected R_CURLY"),
        ("mutation { remove(id: 1) }", "", "`remove`"),
    ] {
        let failure =
            send(&query(&peer.url, wrong, &format!("introspection: true{more}"))).await.unwrap_err();
        assert_eq!(failure.reason, Reason::Invalid, "{failure}");
        assert!(failure.message.starts_with("the query does not fit the schema of 127.0.0.1:"), "{failure}");
        assert!(failure.message.contains(told), "no `{told}` in {failure}");
        assert_eq!(peer.asked(), [None], "only the schema is asked for: {wrong}");
        // Without the check, the response of the server is returned.
        let Ok(Reply::Http { status: 200, body, .. }) = send(&query(&peer.url, wrong, "")).await else {
            panic!("no answer")
        };
        assert!(body.contains("\"errors\":["), "{body}");
        peer.asked();
    }
}

#[tokio::test]
async fn a_server_that_does_not_tell_its_schema_is_named() {
    let silent = Schema::build(Query, Mutation, EmptySubscription).disable_introspection().finish();
    let peer = Peer::serve(silent).await;
    let failure = send(&query(&peer.url, "{ book(id: 1) { id } }", "introspection: true")).await.unwrap_err();
    assert_eq!(failure.reason, Reason::Protocol);
    assert!(failure.message.contains("does not return its schema"), "{failure}");
    assert!(failure.message.ends_with("or remove the trigger's `introspection`"), "{failure}");
    // A server that does not speak GraphQL.
    let web = super::web::Web::plain().await;
    let url = format!("{}/echo", web.address);
    let failure = send(&query(&url, "{ a }", "introspection: true")).await.unwrap_err();
    assert!(failure.message.contains("does not return its schema (200 OK)"), "{failure}");
}

#[tokio::test]
async fn errors_in_the_answer_are_for_the_specs_to_judge() {
    let peer = Peer::start().await;
    let Ok(Reply::Http { status: 200, body, .. }) = send(&query(&peer.url, "{ broken }", "")).await else {
        panic!("no answer")
    };
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&answer["data"], &answer["errors"][0]["message"]),
        (&Value::Null, &json!("the database is gone"))
    );
}

#[tokio::test]
async fn failures_of_graphql_requests_are_classified() {
    let port = qualitytrace_testing::port();
    for more in ["", "introspection: true"] {
        let failure = send(&query(&format!("127.0.0.1:{port}/graphql"), "{ a }", more)).await.unwrap_err();
        assert_eq!((failure.reason, failure.targets_localhost), (Reason::Refused, true), "{failure}");
    }
    let peer = Peer::start().await;
    let failure = send(&query(&peer.url, "{ hang }", "timeout: 50ms")).await.unwrap_err();
    assert_eq!(failure.reason, Reason::Timeout, "{failure}");
    let limits = Limits { reply_bytes: 1_000, ..Limits::default() };
    let Ok(Reply::Http { body, truncated: true, .. }) =
        send_within(&query(&peer.url, "{ huge }", "introspection: true"), &limits).await
    else {
        panic!("a huge answer is cut")
    };
    assert_eq!(body.len(), 1_000);
}
