//! Near misses: when a selector matches nothing, the intended span is found.

use qualitytrace_core::budget::Budget;
use qualitytrace_core::definition::Spec;
use qualitytrace_core::id::{SpanId, TraceId};
use qualitytrace_core::judge::{Compiled, Options, nearest_misses};
use qualitytrace_core::lang::ast::Selector;
use qualitytrace_core::lang::{self, Generator, Variables, parse_selector, quote_in_selector};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Attributes, Dropped, Resource, Scope, Span, SpanKind, Trace};
use qualitytrace_core::value::Value;

use crate::fixture;

fn select(selector: &Selector, trace: &Trace) -> Vec<usize> {
    lang::select(selector, trace, &Budget::default()).expect("small enough")
}

/// Name, kind, service, parent, attributes.
type Row = (&'static str, SpanKind, &'static str, usize, &'static [(&'static str, &'static str)]);

/// The spans of one order in a shop.
const SHOP: &[Row] = &[
    ("Tracetest trigger", SpanKind::Internal, "tracetest", 0, &[("tracetest.response.status", "201")]),
    (
        "POST /orders",
        SpanKind::Server,
        "web",
        1,
        &[
            ("http.method", "POST"),
            ("http.route", "/orders"),
            ("http.status_code", "201"),
            ("http.scheme", "https"),
        ],
    ),
    ("authenticate", SpanKind::Internal, "web", 2, &[("user.id", "u-17"), ("auth.method", "bearer")]),
    (
        "GET /sessions/{id}",
        SpanKind::Client,
        "web",
        3,
        &[("http.method", "GET"), ("http.url", "http://sessions/sessions/17"), ("http.status_code", "200")],
    ),
    (
        "GET /sessions/{id}",
        SpanKind::Server,
        "sessions",
        4,
        &[("http.method", "GET"), ("http.route", "/sessions/{id}"), ("http.status_code", "200")],
    ),
    (
        "HGETALL",
        SpanKind::Client,
        "sessions",
        5,
        &[("db.system", "redis"), ("db.operation", "HGETALL"), ("db.redis.database_index", "2")],
    ),
    ("validate order", SpanKind::Internal, "web", 2, &[("order.items", "3"), ("order.currency", "EUR")]),
    (
        "shop.Catalogue/GetItems",
        SpanKind::Client,
        "web",
        2,
        &[
            ("rpc.system", "grpc"),
            ("rpc.service", "shop.Catalogue"),
            ("rpc.method", "GetItems"),
            ("rpc.grpc.status_code", "0"),
        ],
    ),
    (
        "shop.Catalogue/GetItems",
        SpanKind::Server,
        "catalogue",
        8,
        &[
            ("rpc.system", "grpc"),
            ("rpc.service", "shop.Catalogue"),
            ("rpc.method", "GetItems"),
            ("rpc.grpc.status_code", "0"),
            ("net.peer.name", "web"),
        ],
    ),
    (
        "SELECT shop.items",
        SpanKind::Client,
        "catalogue",
        9,
        &[
            ("db.system", "postgresql"),
            ("db.name", "shop"),
            ("db.operation", "SELECT"),
            ("db.sql.table", "items"),
        ],
    ),
    (
        "SELECT shop.prices",
        SpanKind::Client,
        "catalogue",
        9,
        &[
            ("db.system", "postgresql"),
            ("db.name", "shop"),
            ("db.operation", "SELECT"),
            ("db.sql.table", "prices"),
        ],
    ),
    (
        "shop.Stock/Reserve",
        SpanKind::Client,
        "web",
        2,
        &[
            ("rpc.system", "grpc"),
            ("rpc.service", "shop.Stock"),
            ("rpc.method", "Reserve"),
            ("rpc.grpc.status_code", "0"),
        ],
    ),
    (
        "shop.Stock/Reserve",
        SpanKind::Server,
        "stock",
        12,
        &[
            ("rpc.system", "grpc"),
            ("rpc.service", "shop.Stock"),
            ("rpc.method", "Reserve"),
            ("net.peer.name", "web"),
        ],
    ),
    (
        "UPDATE warehouse.stock",
        SpanKind::Client,
        "stock",
        13,
        &[
            ("db.system", "mysql"),
            ("db.name", "warehouse"),
            ("db.operation", "UPDATE"),
            ("db.sql.table", "stock"),
        ],
    ),
    (
        "INSERT warehouse.reservations",
        SpanKind::Client,
        "stock",
        13,
        &[
            ("db.system", "mysql"),
            ("db.name", "warehouse"),
            ("db.operation", "INSERT"),
            ("db.sql.table", "reservations"),
        ],
    ),
    (
        "POST /charges",
        SpanKind::Client,
        "web",
        2,
        &[("http.method", "POST"), ("http.url", "https://payments/charges"), ("http.status_code", "200")],
    ),
    (
        "POST /charges",
        SpanKind::Server,
        "payments",
        16,
        &[
            ("http.method", "POST"),
            ("http.route", "/charges"),
            ("http.status_code", "200"),
            ("payment.provider", "visa"),
        ],
    ),
    ("fraud check", SpanKind::Internal, "payments", 17, &[("fraud.score", "12"), ("fraud.model", "v7")]),
    (
        "POST https://bank.example",
        SpanKind::Client,
        "payments",
        17,
        &[
            ("http.method", "POST"),
            ("http.url", "https://bank.example/authorise"),
            ("http.status_code", "202"),
            ("retry.count", "1"),
        ],
    ),
    (
        "INSERT payments.charges",
        SpanKind::Client,
        "payments",
        17,
        &[
            ("db.system", "postgresql"),
            ("db.name", "payments"),
            ("db.operation", "INSERT"),
            ("db.sql.table", "charges"),
        ],
    ),
    (
        "INSERT shop.orders",
        SpanKind::Client,
        "web",
        2,
        &[
            ("db.system", "postgresql"),
            ("db.name", "shop"),
            ("db.operation", "INSERT"),
            ("db.sql.table", "orders"),
        ],
    ),
    (
        "orders publish",
        SpanKind::Producer,
        "web",
        2,
        &[
            ("messaging.system", "kafka"),
            ("messaging.destination", "orders"),
            ("messaging.operation", "publish"),
        ],
    ),
    (
        "orders process",
        SpanKind::Consumer,
        "shipping",
        22,
        &[
            ("messaging.system", "kafka"),
            ("messaging.destination", "orders"),
            ("messaging.operation", "process"),
            ("messaging.kafka.partition", "3"),
        ],
    ),
    ("choose carrier", SpanKind::Internal, "shipping", 23, &[("carrier.name", "dhl"), ("carrier.days", "2")]),
    (
        "PUT /labels/{id}",
        SpanKind::Client,
        "shipping",
        23,
        &[("http.method", "PUT"), ("http.url", "http://labels/labels/9"), ("http.status_code", "204")],
    ),
    (
        "PUT /labels/{id}",
        SpanKind::Server,
        "labels",
        25,
        &[
            ("http.method", "PUT"),
            ("http.route", "/labels/{id}"),
            ("http.status_code", "204"),
            ("http.user_agent", "shipping/1.4"),
        ],
    ),
    (
        "orders process",
        SpanKind::Consumer,
        "mailer",
        22,
        &[
            ("messaging.system", "kafka"),
            ("messaging.destination", "orders"),
            ("messaging.operation", "process"),
            ("messaging.kafka.partition", "5"),
        ],
    ),
    (
        "render template",
        SpanKind::Internal,
        "mailer",
        27,
        &[("template.name", "confirmation"), ("template.language", "de")],
    ),
    (
        "send mail",
        SpanKind::Client,
        "mailer",
        27,
        &[("mail.to", "customer@example.com"), ("mail.subject", "Your order"), ("smtp.code", "250")],
    ),
    (
        "SET",
        SpanKind::Client,
        "web",
        2,
        &[("db.system", "redis"), ("db.operation", "SET"), ("db.redis.database_index", "0")],
    ),
];

pub(crate) fn shop() -> Trace {
    let spans = SHOP.iter().enumerate().map(|(at, (name, kind, service, parent, attributes))| {
        let mut resource = Resource::default();
        resource.attributes.set("service.name", *service);
        let start = 1_000 * (at as u64 + 1);
        Span {
            id: id(at + 1),
            parent: id(*parent),
            name: (*name).into(),
            kind: *kind,
            start: Timestamp::from_nanos(start),
            end: Some(Timestamp::from_nanos(start + 500)),
            status: None,
            attributes: attributes
                .iter()
                .map(|(name, value)| (*name, value.parse().map_or_else(|_| Value::from(*value), Value::Int)))
                .collect::<Attributes>(),
            events: vec![],
            links: vec![],
            resource: resource.into(),
            scope: Scope::default().into(),
            trace_state: "".into(),
            flags: 0,
            dropped: Dropped::default(),
        }
    });
    Trace::assemble(TraceId::from_bytes([9; 16]).expect("not zero"), spans)
}

fn id(number: usize) -> Option<SpanId> {
    SpanId::from_bytes((number as u64).to_be_bytes())
}

/// Returns the conditions that describe a row: field and value.
fn description(row: &Row) -> Vec<(String, String)> {
    let (name, kind, service, _, attributes) = row;
    let mut conditions = vec![
        ("name".to_owned(), (*name).to_owned()),
        ("kind".to_owned(), kind.as_str().to_owned()),
        ("service.name".to_owned(), (*service).to_owned()),
    ];
    conditions.extend(attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    conditions
}

fn written(conditions: &[(String, String)]) -> String {
    let clauses: Vec<String> =
        conditions.iter().map(|(name, value)| format!("{name}={}", quote_in_selector(value))).collect();
    format!("span[{}]", clauses.join(" "))
}

/// Returns typical typing errors in a word.
fn mistakes(word: &str) -> Vec<String> {
    let letters: Vec<char> = word.chars().collect();
    let middle = letters.len() / 2;
    let mut mistakes = Vec::new();
    let join = |letters: &[char]| letters.iter().collect::<String>();
    if letters.len() > 3 {
        let mut swapped = letters.clone();
        swapped.swap(middle - 1, middle);
        mistakes.push(join(&swapped));
        let mut dropped = letters.clone();
        dropped.remove(middle);
        mistakes.push(join(&dropped));
    }
    let mut doubled = letters.clone();
    doubled.insert(middle, letters.get(middle).copied().unwrap_or('x'));
    mistakes.push(join(&doubled));
    mistakes.push(word.to_uppercase());
    mistakes.push(format!("{word}s"));
    mistakes.retain(|mistake| mistake != word);
    mistakes
}

/// Returns selectors with one wrong condition, each with the span that was meant.
fn corpus(trace: &Trace) -> Vec<(String, usize)> {
    let mut corpus = Vec::new();
    let mut add = |selector: String, meant: usize| {
        let parsed = parse_selector(&selector);
        if parsed.is_valid() && select(&parsed.tree, trace).is_empty() {
            corpus.push((selector, meant));
        }
    };
    for (at, row) in SHOP.iter().enumerate() {
        let Some(meant) = id(at + 1).and_then(|id| trace.position(id)) else {
            continue;
        };
        let conditions = description(row);
        let right = parse_selector(&written(&conditions)).tree;
        assert_eq!(select(&right, trace), [meant], "{}", written(&conditions));
        for wrong in 0..conditions.len() {
            let (name, value) = conditions[wrong].clone();
            for (number, mistake) in mistakes(&value).into_iter().enumerate() {
                let mut all = conditions.clone();
                all[wrong].1.clone_from(&mistake);
                // Complete descriptions, and short ones with the name and two more.
                if number == at % 3 {
                    add(written(&all), meant);
                }
                if number == (at + 1) % 3 {
                    let short: Vec<_> = [wrong, 0, conditions.len() - 1, 2]
                        .into_iter()
                        .take(3)
                        .map(|pick| all[pick].clone())
                        .collect();
                    if select(&parse_selector(&written(&restored(&short, &mistake, &value))).tree, trace)
                        == [meant]
                    {
                        add(written(&short), meant);
                    }
                }
            }
            if wrong > 2 {
                let mut all = conditions.clone();
                all[wrong].0.clone_from(&mistakes(&name)[at % 2]);
                add(written(&all), meant);
            }
        }
        // A mistake in the step above.
        if row.3 > 1 {
            let above = description(&SHOP[row.3 - 1]);
            let mut wrong = above.clone();
            let pick = at % above.len();
            wrong[pick].1.clone_from(&mistakes(&above[pick].1)[0]);
            add(format!("{} {}", written(&wrong), written(&conditions)), meant);
        }
    }
    corpus
}

fn restored(short: &[(String, String)], mistake: &str, value: &str) -> Vec<(String, String)> {
    short
        .iter()
        .map(|(name, text)| {
            let text = if text == mistake { value } else { text };
            (name.clone(), text.to_owned())
        })
        .collect()
}

#[test]
fn the_span_that_was_meant_is_ranked_first() {
    let trace = shop();
    let corpus = corpus(&trace);
    let missed: Vec<String> = corpus
        .iter()
        .filter_map(|(selector, meant)| {
            let misses = nearest_misses(&parse_selector(selector).tree, &trace, 3, true, &Budget::default());
            let first = misses.first().map(|miss| miss.position);
            (first != Some(*meant))
                .then(|| format!("{selector}\n  meant {}, got {misses:?}", trace.span(*meant).name))
        })
        .collect();
    assert!(corpus.len() >= 200, "only {} selectors", corpus.len());
    let right = corpus.len() - missed.len();
    println!("{right} of {} selectors: the span that was meant comes first", corpus.len());
    assert!(right * 100 >= corpus.len() * 95, "{right} of {}:\n{}", corpus.len(), missed.join("\n"));
}

#[test]
fn every_suggestion_matches_its_span() {
    let trace = shop();
    for (selector, _) in corpus(&trace).into_iter().step_by(7) {
        for miss in nearest_misses(&parse_selector(&selector).tree, &trace, 3, true, &Budget::default()) {
            let suggestion = miss.suggestion.clone().unwrap_or_else(|| panic!("{selector}: {miss}"));
            let found = select(&parse_selector(&suggestion).tree, &trace);
            assert!(found.contains(&miss.position), "{selector}: {suggestion}");
        }
    }
}

fn check(selector: &str, expected: &str) {
    let misses = nearest_misses(&parse_selector(selector).tree, &shop(), 1, true, &Budget::default());
    assert_eq!(misses.first().map(ToString::to_string).unwrap_or_default(), expected);
}

#[test]
fn a_near_miss_names_the_condition_and_what_the_span_has() {
    check(
        r#"span[name="POST /orders" http.status_code=200]"#,
        "the nearest span is `POST /orders`, which satisfies 1 of 2 conditions: for `http.status_code=200` it has `201`; try `span[name=\"POST /orders\" http.status_code=201]`",
    );
    check(
        r#"span[name="fraud check" fraud.scroe="12"]"#,
        "the nearest span is `fraud check`, which satisfies 1 of 2 conditions: for `fraud.scroe=\"12\"` it has `fraud.score`; try `span[name=\"fraud check\" fraud.score=\"12\"]`",
    );
    check(
        r#"span[kind="consumer"]:nth_child(3)"#,
        "the nearest span is `orders process`, which satisfies 1 of 2 conditions: for `:nth_child(3)` it has `2 spans without it`; try `span[kind=\"consumer\"]`",
    );
    check(r#"span[kind="consumer"]"#, "");
}

#[test]
fn of_a_client_and_its_server_the_one_is_nearer_that_the_assertions_can_read() {
    let trace = shop();
    let check = |assertion: &str, expected: &str| {
        let selector = r#"span[tracetest.span.type="rpc" name="shop.Stock/Reserv"]"#;
        let spec = Spec { selector: selector.into(), assertions: vec![assertion.into()], ..Spec::default() };
        let options = Options::new(Generator::in_utc(Timestamp::from_nanos(0), 1));
        let verdict = Compiled::new(&[spec], &[]).judge(&trace, &Variables::new(), &options);
        let suggestion = verdict.specs[0].near_misses[0].suggestion.clone().unwrap_or_default();
        assert_eq!(suggestion, expected, "{assertion}");
        let spec = Spec { selector: expected.into(), assertions: vec![assertion.into()], ..Spec::default() };
        let verdict = Compiled::new(&[spec], &[]).judge(&trace, &Variables::new(), &options);
        assert!(verdict.passed(), "following the hint fails: {verdict:?}");
    };
    let both = r#"span[tracetest.span.type="rpc" name="shop.Stock/Reserve"]"#;
    let one = |kind: &str| both.replace(']', &format!(" kind=\"{kind}\"]"));
    check("attr:rpc.grpc.status_code = 0", &one("client"));
    check(r#"attr:net.peer.name = "web""#, &one("server"));
    check("attr:net.peer.name | length = 3", &one("server"));
    check(r#"attr:rpc.method = "Reserve""#, both);
}

#[test]
fn a_span_that_satisfies_nothing_is_a_near_miss_only_by_a_typing_error() {
    check(
        r#"span[db.systm="mysql"]"#,
        "the nearest span is `UPDATE warehouse.stock`: for `db.systm=\"mysql\"` it has `db.system`; try `span[db.system=\"mysql\"]`",
    );
    check(r#"span[name="receive invoice" kind="producer"] span[service.name="billing"]"#, "");
    check(r#"span[name="zzz" service.name="billing" db.system="oracle"]"#, "");
}

#[test]
fn equal_spans_are_one_near_miss() {
    let selector = parse_selector(r#"span[name="SELECT shop.items" kind="server"]"#).tree;
    let spans = (1..4).map(|at| Span { name: "SELECT shop.items".into(), ..fixture::span(at, None) });
    let misses = nearest_misses(&selector, &fixture::trace(spans), 3, true, &Budget::default());
    assert_eq!(misses.len(), 1, "{misses:?}");
}
