//! The operations of a GraphQL schema, with a query for each.

use apollo_compiler::Schema;
use apollo_compiler::ast::{FieldDefinition, OperationType};
use apollo_compiler::parser::Parser;
use apollo_compiler::schema::ExtendedType;

use super::schema::{MAX_LEVELS, listed};
use crate::outbound::trigger::methods::{Argument, MAX_ANSWER_BYTES, Operation};

/// Limit of the words and signs of a schema.
const MAX_TOKENS: usize = 2_000_000;
/// Fields of a result that a query asks for.
const MAX_FIELDS: usize = 20;

/// Lists the operations of a schema in the schema language, and says whether that is all of them. `Err` has the reason
/// why the schema cannot be read.
pub(super) fn operations(schema: String) -> Result<(Vec<Operation>, bool), String> {
    let parsed = Parser::new()
        .recursion_limit(MAX_LEVELS)
        .token_limit(MAX_TOKENS)
        .parse_schema(schema, "schema.graphql")
        .map_err(|found| listed(&found.errors))?;
    let mut operations = Vec::new();
    let mut room = MAX_ANSWER_BYTES;
    for kind in [OperationType::Query, OperationType::Mutation, OperationType::Subscription] {
        let Some(root) = parsed.root_operation(kind).and_then(|root| parsed.get_object(root)) else {
            continue;
        };
        for field in root.fields.values() {
            let operation = operation(kind, field, &parsed);
            let Some(left) = room.checked_sub(size(&operation)) else { return Ok((operations, false)) };
            room = left;
            operations.push(operation);
        }
    }
    Ok((operations, true))
}

fn operation(kind: OperationType, field: &FieldDefinition, schema: &Schema) -> Operation {
    let arguments = field.arguments.iter().map(|argument| Argument {
        name: argument.name.to_string(),
        kind: argument.ty.to_string(),
        is_required: argument.is_required(),
        default: argument.default_value.as_ref().map(ToString::to_string),
    });
    let arguments: Vec<Argument> = arguments.collect();
    Operation {
        kind: kind.name(),
        name: field.name.to_string(),
        result: field.ty.to_string(),
        query: query(kind, field, &arguments, schema),
        arguments,
    }
}

/// Writes a query that is valid for this field.
fn query(kind: OperationType, field: &FieldDefinition, arguments: &[Argument], schema: &Schema) -> String {
    let (kind, name) = (kind.name(), &field.name);
    let in_brackets =
        |texts: Vec<String>| if texts.is_empty() { String::new() } else { format!("({})", texts.join(", ")) };
    // A variable has the default of its argument, or the query could not be sent without it.
    let declared = arguments.iter().map(|argument| match &argument.default {
        Some(default) => format!("${}: {} = {default}", argument.name, argument.kind),
        None => format!("${}: {}", argument.name, argument.kind),
    });
    let declared = in_brackets(declared.collect());
    let passed = arguments.iter().map(|argument| format!("{0}: ${0}", argument.name));
    let passed = in_brackets(passed.collect());
    let selected = match schema.types.get(field.ty.inner_named_type()) {
        None | Some(ExtendedType::Scalar(_) | ExtendedType::Enum(_) | ExtendedType::InputObject(_)) => {
            String::new()
        }
        Some(ExtendedType::Union(_)) => " { __typename }".to_owned(),
        Some(ExtendedType::Object(object)) => {
            plain_fields(object.fields.values().map(|field| &***field), schema)
        }
        Some(ExtendedType::Interface(interface)) => {
            plain_fields(interface.fields.values().map(|field| &***field), schema)
        }
    };
    format!("{kind} {name}{declared} {{ {name}{passed}{selected} }}")
}

/// Selects the fields that have no fields themselves and can be asked for without arguments.
fn plain_fields<'s>(fields: impl Iterator<Item = &'s FieldDefinition>, schema: &Schema) -> String {
    let is_plain = |field: &&FieldDefinition| {
        let kind = schema.types.get(field.ty.inner_named_type());
        kind.is_some_and(ExtendedType::is_leaf)
            && !field.arguments.iter().any(|argument| argument.is_required())
    };
    let names: Vec<&str> =
        fields.filter(is_plain).take(MAX_FIELDS).map(|field| field.name.as_str()).collect();
    if names.is_empty() { " { __typename }".to_owned() } else { format!(" {{ {} }}", names.join(" ")) }
}

/// The bytes of an operation in an answer.
fn size(operation: &Operation) -> usize {
    let argument = |argument: &Argument| {
        argument.name.len() + argument.kind.len() + argument.default.as_ref().map_or(0, String::len) + 64
    };
    let arguments: usize = operation.arguments.iter().map(argument).sum();
    operation.name.len() + operation.result.len() + operation.query.len() + arguments + 64
}

#[cfg(test)]
mod tests {
    use apollo_compiler::ExecutableDocument;

    use super::*;

    const SCHEMA: &str = "type Query { book(id: ID!, letters: Int = 10): Book things(filter: Filter): [Thing!]! \
        count: Int! node: Node } type Mutation { add(book: Filter!): Book! } \
        type Book { id: ID! title(letters: Int): String cover(size: Int!): String author: Author } \
        type Author { books: [Book!]! } union Thing = Book | Author interface Node { id: ID! } \
        input Filter { least: Int = 1 words: [String!] }";

    #[test]
    fn every_query_is_valid_for_its_schema() {
        let (found, is_complete) = operations(SCHEMA.to_owned()).unwrap();
        assert!(is_complete);
        let schema = Schema::parse_and_validate(SCHEMA, "schema.graphql").unwrap();
        for operation in &found {
            let checked = ExecutableDocument::parse_and_validate(&schema, &operation.query, "query.graphql");
            assert!(checked.is_ok(), "{}: {checked:?}", operation.query);
        }
        let queries: Vec<&str> = found.iter().map(|operation| operation.query.as_str()).collect();
        assert_eq!(
            queries,
            [
                "query book($id: ID!, $letters: Int = 10) { book(id: $id, letters: $letters) { id title } }",
                "query things($filter: Filter) { things(filter: $filter) { __typename } }",
                "query count { count }",
                "query node { node { id } }",
                "mutation add($book: Filter!) { add(book: $book) { id title } }",
            ]
        );
        let book = &found[0];
        assert_eq!((book.kind, book.result.as_str()), ("query", "Book"));
        assert!(book.arguments[0].is_required && book.arguments[1].default.as_deref() == Some("10"));
    }

    #[test]
    fn a_schema_that_is_none_says_where() {
        let why = operations("type Query {".to_owned()).unwrap_err();
        assert!(why.contains("line 1"), "{why}");
        let deep = format!("type Query {{ a(b: {}Int{}): Int }}", "[".repeat(50_000), "]".repeat(50_000));
        assert!(operations(deep).is_err());
        let wide: String = (0..60_000).map(|at| format!("a{at}: Int ")).collect::<Vec<_>>().concat();
        let (found, is_complete) = operations(format!("type Query {{ {wide} }}")).unwrap();
        assert!(!is_complete && found.len() > 1_000);
    }
}
