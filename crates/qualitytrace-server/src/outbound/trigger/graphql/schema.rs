//! Checks a query against the schema of its server.
//!
//! The introspection result in JSON is converted to the schema language, which the checker reads.

use std::fmt::Write as _;

use apollo_compiler::parser::Parser;
use apollo_compiler::request::coerce_variable_values;
use apollo_compiler::response::JsonMap;
use apollo_compiler::validation::{DiagnosticList, Valid};
use serde_json::Value;

use crate::outbound::trigger::failure::{Endpoint, Reason};

/// The introspection query. Types nest up to seven times, as in other clients.
pub(super) const QUESTION: &str = "query IntrospectionQuery { __schema { queryType { name } mutationType { name } \
    subscriptionType { name } types { ...FullType } directives { name locations args { ...InputValue } } } } \
    fragment FullType on __Type { kind name fields(includeDeprecated: true) { name args { ...InputValue } \
    type { ...TypeRef } } inputFields { ...InputValue } interfaces { ...TypeRef } \
    enumValues(includeDeprecated: true) { name } possibleTypes { ...TypeRef } } \
    fragment InputValue on __InputValue { name type { ...TypeRef } defaultValue } \
    fragment TypeRef on __Type { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind \
    name ofType { kind name ofType { kind name ofType { kind name } } } } } } } }";

/// Nesting limit of a query or a default value: parser and checker are recursive.
pub(super) const MAX_LEVELS: usize = 100;

/// Types and directives that every schema has implicitly.
const BUILT_IN: [&str; 11] = [
    "String",
    "Int",
    "Float",
    "Boolean",
    "ID",
    "skip",
    "include",
    "deprecated",
    "specifiedBy",
    "oneOf",
    "defer",
];

/// The result of a failed check.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// The schema cannot be parsed.
    Schema(String),
    /// The query does not match the schema.
    Query(String),
}

impl Problem {
    pub(super) const fn reason(&self) -> Reason {
        match self {
            Self::Schema(_) => Reason::Protocol,
            Self::Query(_) => Reason::Invalid,
        }
    }

    /// Formats the error message.
    pub(super) fn told(&self, endpoint: &Endpoint) -> String {
        match self {
            Self::Schema(why) => format!(
                "the schema of {endpoint} cannot be read: {why}; remove the trigger's `introspection` to send the query \
                 as it is"
            ),
            Self::Query(why) => format!("the query does not fit the schema of {endpoint}: {why}"),
        }
    }
}

/// Checks a request body against an introspection result.
pub(super) fn check(body: &Value, described: &Value) -> Result<(), Problem> {
    let schema = Parser::new()
        .recursion_limit(MAX_LEVELS)
        .parse_schema(written(described), "schema.graphql")
        .map_err(|found| Problem::Schema(listed(&found.errors)))?;
    // The schema itself is not validated: that is the responsibility of its server.
    let schema = Valid::assume_valid(schema);
    let query = body["query"].as_str().unwrap_or_default();
    let invalid = |found: &DiagnosticList| Problem::Query(listed(found));
    let document = Parser::new()
        .recursion_limit(MAX_LEVELS)
        .parse_executable(&schema, query, "query.graphql")
        .map_err(|found| invalid(&found.errors))?;
    let document = document.validate(&schema).map_err(|found| invalid(&found.errors))?;
    let wrong = |error: apollo_compiler::request::RequestError| Problem::Query(error.message().to_string());
    let operation = document.operations.get(body["operationName"].as_str()).map_err(wrong)?;
    let variables: JsonMap = serde_json::from_value(body["variables"].clone()).unwrap_or_default();
    coerce_variable_values(&schema, operation, &variables).map_err(wrong)?;
    Ok(())
}

/// Lists the errors, each with its position.
pub(super) fn listed(found: &DiagnosticList) -> String {
    let told = found.iter().map(|diagnostic| {
        let error = diagnostic.to_json();
        match error.locations.first() {
            Some(at) => format!("{} (line {}, column {})", error.message, at.line, at.column),
            None => error.message,
        }
    });
    told.collect::<Vec<_>>().join("; ")
}

/// Converts an introspection result to the schema language.
pub(super) fn written(described: &Value) -> String {
    let mut out = String::new();
    let roots = [("query", "queryType"), ("mutation", "mutationType"), ("subscription", "subscriptionType")];
    let roots =
        roots.iter().filter_map(|(word, key)| Some(format!("{word}: {}", described[key]["name"].as_str()?)));
    // Writing to a String cannot fail.
    let _ = writeln!(out, "schema {{ {} }}", roots.collect::<Vec<_>>().join(" "));
    for directive in items(&described["directives"]).filter(|item| is_own(item)) {
        let locations: Vec<&str> = items(&directive["locations"]).filter_map(Value::as_str).collect();
        let (name, arguments) = (name(directive), arguments(&directive["args"]));
        let _ = writeln!(out, "directive @{name}{arguments} on {}", locations.join(" | "));
    }
    for item in items(&described["types"]).filter(|item| is_own(item)) {
        let name = name(item);
        let _ = match item["kind"].as_str().unwrap_or_default() {
            "SCALAR" => writeln!(out, "scalar {name}"),
            "OBJECT" => writeln!(out, "type {name}{} {}", implements(item), fields(item)),
            "INTERFACE" => writeln!(out, "interface {name}{} {}", implements(item), fields(item)),
            "UNION" => writeln!(out, "union {name} = {}", names(&item["possibleTypes"], " | ")),
            "ENUM" => writeln!(out, "enum {name} {{ {} }}", names(&item["enumValues"], " ")),
            "INPUT_OBJECT" => writeln!(out, "input {name} {{ {} }}", inputs(&item["inputFields"])),
            _ => Ok(()),
        };
    }
    out
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn name(item: &Value) -> &str {
    item["name"].as_str().unwrap_or_default()
}

fn is_own(item: &Value) -> bool {
    !name(item).starts_with("__") && !BUILT_IN.contains(&name(item))
}

fn names(list: &Value, between: &str) -> String {
    items(list).map(name).collect::<Vec<_>>().join(between)
}

fn implements(item: &Value) -> String {
    let interfaces = names(&item["interfaces"], " & ");
    if interfaces.is_empty() { interfaces } else { format!(" implements {interfaces}") }
}

fn fields(item: &Value) -> String {
    let field =
        |field: &Value| format!("{}{}: {}", name(field), arguments(&field["args"]), kind(&field["type"]));
    format!("{{ {} }}", items(&item["fields"]).map(field).collect::<Vec<_>>().join(" "))
}

fn arguments(list: &Value) -> String {
    let inputs = inputs(list);
    if inputs.is_empty() { inputs } else { format!("({inputs})") }
}

fn inputs(list: &Value) -> String {
    let input = |input: &Value| match input["defaultValue"].as_str() {
        Some(default) => format!("{}: {} = {default}", name(input), kind(&input["type"])),
        None => format!("{}: {}", name(input), kind(&input["type"])),
    };
    items(list).map(input).collect::<Vec<_>>().join(" ")
}

/// Formats a type, for example `[Order!]!`.
fn kind(item: &Value) -> String {
    match item["kind"].as_str() {
        Some("NON_NULL") => format!("{}!", kind(&item["ofType"])),
        Some("LIST") => format!("[{}]", kind(&item["ofType"])),
        _ => name(item).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(query: String) -> Result<(), Problem> {
        let itself = json!({ "kind": "OBJECT", "name": "Query" });
        let fields = json!([{ "name": "a", "args": [], "type": itself }, { "name": "b", "args": [], "type": { "name": "Int" } }]);
        let described = json!({
            "queryType": { "name": "Query" },
            "types": [{ "kind": "OBJECT", "name": "Query", "fields": fields }],
        });
        // Smaller than the stack of the server's threads: unbounded recursion would overflow it.
        let small = std::thread::Builder::new().stack_size(1 << 20);
        small.spawn(move || check(&json!({ "query": query }), &described)).unwrap().join().unwrap()
    }

    #[test]
    fn a_query_that_nests_too_deep_is_refused() {
        let nested = |levels: usize| format!("{{ {}b{} }}", "a { ".repeat(levels), " }".repeat(levels));
        assert!(checked(nested(20)).is_ok());
        let listed = format!("{{ a(b: {}1{}) {{ b }} }}", "[".repeat(50_000), "]".repeat(50_000));
        for query in [nested(1_000), nested(50_000), listed] {
            let Err(Problem::Query(why)) = checked(query) else { panic!("it is accepted") };
            assert!(why.contains("limit"), "{why}");
        }
    }
}
