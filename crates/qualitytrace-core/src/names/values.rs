//! Values that are written differently in different versions of the semantic conventions.

use std::borrow::Cow;

use crate::value::Value;

/// The codes of gRPC by number. Older conventions record the number, newer ones the name.
const GRPC_CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// Old and new values of an attribute.
type RenamedValues = &'static [(&'static str, &'static str)];

/// Old and new names of attributes, with the values that were renamed with them.
const RENAMED: &[(&str, &str, RenamedValues)] = &[
    ("net.transport", "network.transport", &[("ip_tcp", "tcp"), ("ip_udp", "udp")]),
    ("http.flavor", "network.protocol.version", &[("2.0", "2"), ("3.0", "3")]),
    (
        "db.system",
        "db.system.name",
        &[
            ("mssql", "microsoft.sql_server"),
            ("oracle", "oracle.db"),
            ("db2", "ibm.db2"),
            ("dynamodb", "aws.dynamodb"),
            ("redshift", "aws.redshift"),
            ("cosmosdb", "azure.cosmosdb"),
            ("spanner", "gcp.spanner"),
            ("hanadb", "sap.hana"),
            ("firebird", "firebirdsql"),
        ],
    ),
    ("messaging.operation", "messaging.operation.type", &[("publish", "send"), ("deliver", "process")]),
    ("rpc.system", "rpc.system.name", &[("apache_dubbo", "dubbo"), ("connect_rpc", "connectrpc")]),
];

/// Returns what the value of the attribute `found` is under the name `asked`; `None` if that attribute does not say it.
pub(crate) fn converted<'v>(asked: &str, found: &str, value: &'v Value) -> Option<Cow<'v, Value>> {
    let made = match (asked, found) {
        ("rpc.service", "rpc.method") => {
            let Value::String(method) = value else { return None };
            return method.rsplit_once('/').map(|(service, _)| Cow::Owned(Value::from(service)));
        }
        ("rpc.grpc.status_code", "rpc.response.status_code") => grpc_number(&value.text()).map(Value::Int),
        ("rpc.response.status_code", "rpc.grpc.status_code") => grpc_name(&value.text()).map(Value::from),
        _ => renamed_value(asked, found, &value.text()).map(Value::from),
    };
    Some(made.map_or(Cow::Borrowed(value), Cow::Owned))
}

/// Returns what a value is called under the current name of its attribute; `None` where it stays.
pub(crate) fn current_value(old: &str, current: &str, value: &str) -> Option<&'static str> {
    match old {
        "rpc.grpc.status_code" => grpc_name(value),
        _ => renamed_value(current, old, value),
    }
}

fn grpc_name(number: &str) -> Option<&'static str> {
    GRPC_CODES.get(number.parse::<usize>().ok()?).copied()
}

/// The number of a code of gRPC.
pub(crate) fn grpc_number(name: &str) -> Option<i64> {
    GRPC_CODES.iter().position(|code| *code == name).and_then(|at| i64::try_from(at).ok())
}

/// Returns what a value of the attribute `from` is called under the name `to`; `None` where it stays.
fn renamed_value(to: &str, from: &str, value: &str) -> Option<&'static str> {
    RENAMED.iter().find_map(|(old, new, values)| {
        let is_forward = (from, to) == (*old, *new);
        let is_back = (from, to) == (*new, *old);
        let forward =
            values.iter().find(|(before, _)| is_forward && value == *before).map(|(_, after)| *after);
        forward.or_else(|| {
            values.iter().find(|(_, after)| is_back && value == *after).map(|(before, _)| *before)
        })
    })
}
