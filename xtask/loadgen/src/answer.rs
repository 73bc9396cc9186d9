//! Responses of a server to export requests.

/// The response to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Accepted, except for this many spans.
    Acknowledged { rejected: u64 },
    /// Refused; the code says why (`grpc 8`, `http 429`).
    Refused { code: String },
}

impl Answer {
    /// From a gRPC status and the message before it, without its prefix.
    pub(crate) fn from_grpc(status: &str, message: &[u8]) -> Self {
        match status {
            "0" => Self::Acknowledged { rejected: rejected_spans(message) },
            other => Self::Refused { code: format!("grpc {other}") },
        }
    }

    /// From an HTTP status and a protobuf body.
    pub(crate) fn from_http(status: u16, body: &[u8]) -> Self {
        match status {
            200..=202 => Self::Acknowledged { rejected: rejected_spans(body) },
            other => Self::Refused { code: format!("http {other}") },
        }
    }
}

/// `partial_success.rejected_spans` of an `ExportTraceServiceResponse`; 0 if it is missing.
fn rejected_spans(response: &[u8]) -> u64 {
    let Some(Field::Bytes(partial)) = field(response, 1) else {
        return 0;
    };
    match field(partial, 1) {
        Some(Field::Number(rejected)) => rejected,
        _ => 0,
    }
}

enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The first field with this number in a message of numbers and byte strings.
fn field(mut message: &[u8], wanted: u64) -> Option<Field<'_>> {
    while !message.is_empty() {
        let key = varint(&mut message)?;
        let value = match key & 7 {
            0 => Field::Number(varint(&mut message)?),
            2 => {
                let length = usize::try_from(varint(&mut message)?).ok()?;
                let (bytes, rest) = message.split_at_checked(length)?;
                message = rest;
                Field::Bytes(bytes)
            }
            _ => return None,
        };
        if key >> 3 == wanted {
            return Some(value);
        }
    }
    None
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_answer_takes_everything() {
        assert_eq!(Answer::from_grpc("0", b""), Answer::Acknowledged { rejected: 0 });
    }

    #[test]
    fn a_partial_success_tells_how_many_it_left_out() {
        let response = [0x0a, 0x07, 0x08, 0xac, 0x02, 0x12, 0x02, b'o', b'k'];
        assert_eq!(Answer::from_http(200, &response), Answer::Acknowledged { rejected: 300 });
    }

    #[test]
    fn a_refusal_keeps_its_code() {
        assert_eq!(Answer::from_grpc("8", b""), Answer::Refused { code: "grpc 8".to_owned() });
        assert_eq!(Answer::from_http(503, b""), Answer::Refused { code: "http 503".to_owned() });
    }
}
