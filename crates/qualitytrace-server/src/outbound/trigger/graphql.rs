//! GraphQL triggers: a POST with the query, like any other HTTP request.
//!
//! If a test asks for it, the query is first checked against the schema of the server, by introspection.

mod operations;
mod schema;

use qualitytrace_core::definition::Text;
use qualitytrace_core::definition::trigger::{Body, Graphql, Header, Http};
use qualitytrace_core::run::Reply;
use serde_json::{Map, Value, json};

use super::failure::{Endpoint, Reason, TriggerError};
use super::http::{Sender, endpoint_of};
use super::methods::{Methods, Offered};
use super::propagation::Context;
use crate::base::decode::{self, Allowance, DecodeError};

/// The largest introspection response that is read.
const SCHEMA_BYTES: u64 = 64 * 1024 * 1024;
/// What to do about a server that does not return its schema.
const NOT_CHECKED: &str = "remove the trigger's `introspection`";
const NOT_LISTED: &str = "give the trigger the `schema`";

/// Sends a query, after checking it if the test asks for it.
pub(super) async fn send(
    graphql: &Graphql,
    context: &Context,
    sender: &Sender,
    reply_bytes: u64,
) -> Result<Reply, TriggerError> {
    let body = body(graphql);
    if graphql.introspection {
        let asked = request(graphql, &json!({ "query": schema::QUESTION }));
        let endpoint = endpoint_of(&asked)?;
        // The introspection request is not part of the trace.
        let reply = sender.send(&asked, None, SCHEMA_BYTES).await?;
        let described = description(reply, &endpoint, SCHEMA_BYTES, NOT_CHECKED)?;
        schema::check(&body, &described)
            .map_err(|problem| TriggerError::told(problem.reason(), problem.told(&endpoint)))?;
    }
    sender.send(&request(graphql, &body), Some(context), reply_bytes).await
}

/// Lists the operations of the schema that the trigger has, or that its server returns.
pub(super) async fn methods(
    graphql: &Graphql,
    sender: &Sender,
    reply_bytes: u64,
) -> Result<Methods, TriggerError> {
    let unreadable = |whose: &str, why: String| {
        TriggerError::told(Reason::Protocol, format!("the schema of {whose} cannot be read: {why}"))
    };
    let given = &graphql.schema.value;
    let (found, is_from_server) = if given.trim().is_empty() {
        let asked = request(graphql, &json!({ "query": schema::QUESTION }));
        let endpoint = endpoint_of(&asked)?;
        let limit = reply_bytes.min(SCHEMA_BYTES);
        let reply = sender.send(&asked, None, limit).await?;
        let described = description(reply, &endpoint, limit, NOT_LISTED)?;
        let found = operations::operations(schema::written(&described));
        (found.map_err(|why| unreadable(&endpoint.to_string(), why))?, true)
    } else {
        (operations::operations(given.clone()).map_err(|why| unreadable("the trigger", why))?, false)
    };
    let (operations, is_complete) = found;
    Ok(Methods { is_from_server, is_complete, offered: Offered::Operations(operations) })
}

/// Extracts the schema from the introspection response. `advice` says what to do without it.
fn description(reply: Reply, endpoint: &Endpoint, limit: u64, advice: &str) -> Result<Value, TriggerError> {
    let Reply::Http { reason, body, truncated, .. } = reply else {
        return Err(TriggerError::at(endpoint, Reason::Protocol, "this is no answer over HTTP"));
    };
    if truncated {
        let cause = format!("the schema is larger than {limit} bytes; {advice}");
        return Err(TriggerError::at(endpoint, Reason::TooLarge, &cause));
    }
    let mut answer: Value = match decode::json_within(body.as_bytes(), Allowance::DESCRIPTION) {
        Ok(answer) => answer,
        Err(DecodeError::Malformed(_)) => Value::Null,
        Err(short @ (DecodeError::TooLarge { .. } | DecodeError::Busy)) => {
            let cause = format!("the schema cannot be read: {short}; {advice}");
            return Err(TriggerError::at(endpoint, Reason::TooLarge, &cause));
        }
    };
    let schema = answer["data"]["__schema"].take();
    if schema.is_object() {
        return Ok(schema);
    }
    let told = answer["errors"][0]["message"].as_str().map_or(reason, ToOwned::to_owned);
    let message =
        format!("{endpoint} does not return its schema ({told}); allow introspection there, or {advice}");
    Err(TriggerError::told(Reason::Protocol, message))
}

/// Builds the HTTP request for a query.
fn request(graphql: &Graphql, body: &Value) -> Http {
    let mut headers = graphql.headers.clone();
    if !headers.iter().any(|header| header.key.value.eq_ignore_ascii_case("content-type")) {
        headers.push(Header { key: "Content-Type".into(), value: "application/json".into() });
    }
    Http {
        url: graphql.url.clone(),
        method: "POST".into(),
        headers,
        body: Body::Text(body.to_string().into()),
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

/// Converts a variable to the type that the query declares: files hold texts only, but servers do not accept a text for
/// a number.
fn value(query: &str, name: &str, text: &Text) -> Value {
    let as_text = || Value::from(text.value.as_str());
    match declared(query, name) {
        None | Some("String" | "ID") => as_text(),
        Some(_) => decode::json_within(text.value.as_bytes(), Allowance::SMALL).unwrap_or_else(|_| as_text()),
    }
}

/// Returns the declared type of a variable, without `!`; a list type starts with `[`.
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
