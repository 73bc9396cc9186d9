//! Ids of traces and spans as Jaeger and Zipkin write them: hexadecimal, of 64 or 128 bits, also without leading zeros.

/// Reads the id of a trace into 16 bytes.
pub(crate) fn trace(key: &str, text: &str) -> Result<Vec<u8>, String> {
    let id = read::<16>(text).filter(|id| id.iter().any(|byte| *byte != 0));
    id.map(|id| id.to_vec()).ok_or_else(|| wrong(key, text, 32))
}

/// Reads the id of the trace that a link names; empty if there is none. OpenTelemetry keeps such a link for its
/// attributes.
pub(crate) fn linked_trace(key: &str, text: &str) -> Result<Vec<u8>, String> {
    let is_none = text.len() <= 32 && text.bytes().all(|digit| digit == b'0');
    if is_none { Ok(Vec::new()) } else { trace(key, text) }
}

/// Reads the id of a span into 8 bytes; empty if there is none.
pub(crate) fn span(key: &str, text: &str) -> Result<Vec<u8>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let id = read::<8>(text).ok_or_else(|| wrong(key, text, 16))?;
    // Some clients write zero for no parent.
    Ok(if id == [0; 8] { Vec::new() } else { id.to_vec() })
}

fn read<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.is_empty() || text.len() > 2 * N || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut id = [0; N];
    let digits = text.bytes().rev().filter_map(|digit| char::from(digit).to_digit(16));
    for (at, digit) in digits.enumerate() {
        let digit = u8::try_from(digit).unwrap_or(0);
        id[N - 1 - at / 2] |= digit << (4 * (at % 2));
    }
    Some(id)
}

fn wrong(key: &str, text: &str, most: usize) -> String {
    let shown: String = text.chars().take(most + 8).collect();
    format!("`{key}` is `{shown}`, not up to {most} hexadecimal digits that are not all zero")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_ids_are_filled_with_zeros() {
        assert_eq!(trace("t", "1F").unwrap(), [&[0; 15][..], &[0x1f]].concat());
        assert_eq!(trace("t", &"ab".repeat(16)).unwrap(), [0xab; 16]);
        assert_eq!(span("s", "abc").unwrap(), [0, 0, 0, 0, 0, 0, 0x0a, 0xbc]);
        assert_eq!((span("s", "").unwrap(), span("s", "0").unwrap()), (vec![], vec![]));
        for text in ["", "0", "xyz", "é", &"1".repeat(33)] {
            assert!(trace("t", text).unwrap_err().starts_with("`t` is "), "{text}");
        }
        assert!(span("s", &"1".repeat(17)).is_err());
        for none in ["", "0", &"0".repeat(32)] {
            assert_eq!(linked_trace("t", none).unwrap(), Vec::<u8>::new(), "{none}");
        }
        assert_eq!(linked_trace("t", &"ab".repeat(16)).unwrap(), [0xab; 16]);
        assert!(linked_trace("t", "xyz").is_err());
    }
}
