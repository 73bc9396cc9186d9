//! The services of a protocol, with a template of the request of each method.

use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor};
use serde_json::{Map, Value};

use crate::outbound::trigger::methods::{MAX_ANSWER_BYTES, Method, Service};

/// Messages nest no deeper than this in a template.
const MAX_LEVELS: usize = 6;
/// What a value takes beside its name.
const VALUE_BYTES: usize = 16;

/// Lists the services of a protocol that `is_listed` names, and says whether that is all of them.
pub(super) fn services(pool: &DescriptorPool, is_listed: impl Fn(&str) -> bool) -> (Vec<Service>, bool) {
    let mut room = Room(MAX_ANSWER_BYTES);
    let mut services = Vec::new();
    for service in pool.services().filter(|service| is_listed(service.full_name())) {
        room.take(service.full_name());
        let mut methods = Vec::new();
        for method in service.methods() {
            if room.is_empty() {
                break;
            }
            methods.push(described(&method, &mut room));
        }
        services.push(Service { name: service.full_name().to_owned(), methods });
        if room.is_empty() {
            break;
        }
    }
    services.sort_by(|a, b| a.name.cmp(&b.name));
    (services, !room.is_empty())
}

fn described(method: &MethodDescriptor, room: &mut Room) -> Method {
    let (input, output) = (method.input(), method.output());
    for name in [method.name(), input.full_name(), output.full_name()] {
        room.take(name);
    }
    Method {
        name: method.name().to_owned(),
        request: room.message(&input, &mut Vec::new()),
        input: input.full_name().to_owned(),
        output: output.full_name().to_owned(),
        is_client_streaming: method.is_client_streaming(),
        is_server_streaming: method.is_server_streaming(),
    }
}

/// The bytes that the rest of an answer may take.
struct Room(usize);

impl Room {
    fn take(&mut self, text: &str) {
        self.0 = self.0.saturating_sub(text.len() + VALUE_BYTES);
    }

    fn is_empty(&self) -> bool {
        self.0 == 0
    }

    /// Returns a message with every field at its default, and one item in each list. A message inside itself, or too
    /// deep, is null.
    fn message(&mut self, kind: &MessageDescriptor, around: &mut Vec<String>) -> Value {
        if let Some(value) = well_known(kind.full_name()) {
            return value;
        }
        if around.len() >= MAX_LEVELS || around.iter().any(|name| name == kind.full_name()) {
            return Value::Null;
        }
        around.push(kind.full_name().to_owned());
        let mut object = Map::new();
        for field in kind.fields().filter(is_chosen) {
            if self.is_empty() {
                break;
            }
            self.take(field.json_name());
            object.insert(field.json_name().to_owned(), self.field(&field, around));
        }
        around.pop();
        Value::Object(object)
    }

    fn field(&mut self, field: &FieldDescriptor, around: &mut Vec<String>) -> Value {
        if field.is_map() {
            return Value::Object(Map::new());
        }
        let value = match field.kind() {
            Kind::Double | Kind::Float => Value::from(0.0),
            Kind::Int32 | Kind::Uint32 | Kind::Sint32 | Kind::Fixed32 | Kind::Sfixed32 => Value::from(0),
            // JSON of protobuf has these as texts.
            Kind::Int64 | Kind::Uint64 | Kind::Sint64 | Kind::Fixed64 | Kind::Sfixed64 => Value::from("0"),
            Kind::Bool => Value::from(false),
            Kind::String | Kind::Bytes => Value::from(""),
            Kind::Enum(kind) if kind.full_name() == "google.protobuf.NullValue" => Value::Null,
            Kind::Enum(kind) => Value::from(kind.default_value().name()),
            Kind::Message(kind) => self.message(&kind, around),
        };
        match (field.is_list(), value) {
            (true, Value::Null) => Value::Array(Vec::new()),
            (true, value) => Value::Array(vec![value]),
            (false, value) => value,
        }
    }
}

/// Whether a field is part of the template: of several that exclude each other, the first one is.
fn is_chosen(field: &FieldDescriptor) -> bool {
    let Some(group) = field.containing_oneof().filter(|group| !group.is_synthetic()) else { return true };
    group.fields().next().is_some_and(|first| first.number() == field.number())
}

/// The default of a type that has a JSON form of its own.
fn well_known(name: &str) -> Option<Value> {
    Some(match name.strip_prefix("google.protobuf.")? {
        "Timestamp" => Value::from("1970-01-01T00:00:00Z"),
        "Duration" => Value::from("0s"),
        "FieldMask" | "StringValue" | "BytesValue" => Value::from(""),
        "Struct" | "Empty" => Value::Object(Map::new()),
        "ListValue" => Value::Array(Vec::new()),
        "Value" | "Any" => Value::Null,
        "DoubleValue" | "FloatValue" => Value::from(0.0),
        "Int32Value" | "UInt32Value" => Value::from(0),
        "Int64Value" | "UInt64Value" => Value::from("0"),
        "BoolValue" => Value::from(false),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use qualitytrace_core::definition::trigger::Grpc;

    use super::super::{message, protocol};
    use super::*;

    fn pool(text: &str) -> DescriptorPool {
        protocol::compile(&Grpc { protobuf_file: text.into(), ..Grpc::default() }).unwrap()
    }

    #[test]
    fn a_template_is_a_valid_request_of_its_method() {
        let pool = pool(
            r#"syntax = "proto3"; package p;
            import "google/protobuf/timestamp.proto"; import "google/protobuf/any.proto";
            import "google/protobuf/struct.proto"; import "google/protobuf/wrappers.proto";
            import "google/protobuf/duration.proto"; import "google/protobuf/field_mask.proto";
            import "google/protobuf/empty.proto";
            enum Colour { RED = 0; BLUE = 1; }
            message Tree { string name = 1; Tree left = 2; repeated Tree more = 3; }
            message All {
              double d = 1; float f = 2; int32 i = 3; int64 l = 4; uint64 u = 5; bool b = 6; string s = 7;
              bytes raw = 8; Colour colour = 9; repeated Colour colours = 10; map<string, Tree> trees = 11;
              Tree tree = 12; repeated string words = 13; optional string maybe = 14;
              oneof one { string first = 15; Tree second = 16; }
              google.protobuf.Timestamp at = 20; google.protobuf.Any any = 21; google.protobuf.Struct struct = 22;
              google.protobuf.Value value = 23; google.protobuf.Int64Value big = 24; google.protobuf.Duration time = 25;
              google.protobuf.FieldMask mask = 26; google.protobuf.NullValue none = 27;
              repeated google.protobuf.Any anys = 28; google.protobuf.DoubleValue real = 29;
              google.protobuf.BytesValue blob = 30; google.protobuf.ListValue list = 31;
            }
            service Shop { rpc Do(All) returns (Tree); rpc Feed(stream Tree) returns (stream All);
              rpc Ping(google.protobuf.Empty) returns (google.protobuf.Empty); }"#,
        );
        let (services, is_complete) = services(&pool, |_| true);
        assert!(is_complete);
        let names: Vec<&str> = services[0].methods.iter().map(|method| method.name.as_str()).collect();
        assert_eq!((services[0].name.as_str(), names), ("p.Shop", vec!["Do", "Feed", "Ping"]));
        for method in &services[0].methods {
            let kind = pool.get_message_by_name(&method.input).unwrap();
            let sent = message::encode(&method.request.to_string(), &kind, false);
            assert!(sent.is_ok(), "{}: {sent:?}", method.request);
        }
        let [all, feed, _] = &services[0].methods[..] else { panic!("three methods") };
        assert_eq!(all.request["tree"], serde_json::json!({ "name": "", "left": null, "more": [] }));
        assert_eq!((&all.request["first"], all.request.get("second")), (&Value::from(""), None));
        assert!(feed.is_client_streaming && feed.is_server_streaming && !all.is_server_streaming);
    }

    #[test]
    fn a_protocol_that_grows_with_every_level_stays_bounded() {
        let fields =
            |next: usize| (1..=40).map(|at| format!("M{next} f{at} = {at};")).collect::<Vec<_>>().concat();
        let messages: String =
            (0..8).map(|at| format!("message M{at} {{ {} }}", fields(at + 1))).collect::<Vec<_>>().concat();
        let text = format!(
            "syntax = \"proto3\"; {messages} message M8 {{ string s = 1; }} service S {{ rpc Do(M0) returns (M8); }}"
        );
        let (services, is_complete) = services(&pool(&text), |_| true);
        assert!(!is_complete);
        let size = services[0].methods[0].request.to_string().len();
        assert!(size <= MAX_ANSWER_BYTES, "{size}");
    }
}
