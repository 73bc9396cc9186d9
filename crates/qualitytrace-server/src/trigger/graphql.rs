//! GraphQL requests: a POST of the query, answered like any other.

use qualitytrace_core::definition::Text;
use qualitytrace_core::definition::trigger::{Body, Graphql, Header, Http};
use serde_json::{Map, Value};

/// The HTTP request that carries a query.
pub(super) fn request(graphql: &Graphql) -> Http {
    let mut headers = graphql.headers.clone();
    if !headers.iter().any(|header| header.key.value.eq_ignore_ascii_case("content-type")) {
        headers.push(Header { key: "Content-Type".into(), value: "application/json".into() });
    }
    Http {
        url: graphql.url.clone(),
        method: "POST".into(),
        headers,
        body: Body::Text(body(graphql).to_string().into()),
        auth: graphql.auth.clone(),
        tls: graphql.tls.clone(),
        ssl_verification: graphql.ssl_verification,
        proxy: graphql.proxy.clone(),
        timeout: graphql.timeout.clone(),
        ..Http::default()
    }
}

fn body(graphql: &Graphql) -> Value {
    let query = &graphql.query.value;
    let mut body = Map::new();
    body.insert("query".to_owned(), query.as_str().into());
    if !graphql.variables.is_empty() {
        let variables = graphql.variables.iter().map(|(name, text)| (name.clone(), value(query, name, text)));
        body.insert("variables".to_owned(), Value::Object(variables.collect()));
    }
    if !graphql.operation_name.is_empty() {
        body.insert("operationName".to_owned(), graphql.operation_name.value.as_str().into());
    }
    Value::Object(body)
}

/// A variable as the query declares it: files hold texts only, but servers take no text for a number.
fn value(query: &str, name: &str, text: &Text) -> Value {
    let as_text = || Value::from(text.value.as_str());
    match declared(query, name) {
        None | Some("String" | "ID") => as_text(),
        Some(_) => serde_json::from_str(&text.value).unwrap_or_else(|_| as_text()),
    }
}

/// The type that the query declares a variable to have, without `!`; a list's begins with `[`.
fn declared<'q>(query: &'q str, name: &str) -> Option<&'q str> {
    let starts = query.match_indices('$').map(|(at, sign)| &query[at + sign.len()..]);
    starts.filter_map(|rest| rest.strip_prefix(name)).find_map(|rest| {
        let kind = rest.trim_start().strip_prefix(':')?.trim_start();
        let end = kind.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '[')).unwrap_or(kind.len());
        Some(&kind[..end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: &str, text: &str, expected: &str) {
        let query = format!("query Find($idea: String, $id : {kind}) {{ a(id: $id) }}");
        assert_eq!(value(&query, "id", &text.into()).to_string(), expected);
    }

    #[test]
    fn a_variable_is_sent_as_the_query_declares_it() {
        check("Int!", "5", "5");
        check("String", "5", "\"5\"");
        check("ID!", "5", "\"5\"");
        check("[Int!]!", "[1, 2]", "[1,2]");
        check("Filter", r#"{"a": 1}"#, r#"{"a":1}"#);
        check("Colour", "RED", "\"RED\"");
        assert_eq!(value("{ a }", "id", &"5".into()), Value::from("5"));
    }
}
