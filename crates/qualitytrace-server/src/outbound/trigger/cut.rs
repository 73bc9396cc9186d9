//! Truncation of a trigger's response to `limits.replyBytes`, measured in its stored form.
//!
//! A byte that is not text, or a control character, takes up to six bytes in the JSON of a run. A response received
//! within the limit may therefore be much larger when it is stored, sent and shown. The factor leaves room for the
//! escapes of ordinary text.

use qualitytrace_core::run::Reply;

/// Bytes of JSON that are allowed for each byte of the limit.
pub(super) const MOST_ESCAPES: usize = 2;

/// Truncates the texts of a response to this limit.
pub(super) fn cut(mut reply: Reply, limit: u64) -> Reply {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX).saturating_mul(MOST_ESCAPES);
    match &mut reply {
        Reply::Http { body, truncated, .. } => *truncated |= cut_text(body, limit),
        Reply::Exec { stdout, stderr, truncated, .. } => {
            *truncated |= cut_text(stdout, limit) | cut_text(stderr, limit);
        }
        Reply::Grpc(_) | Reply::Kafka { .. } | Reply::TraceId { .. } => {}
    }
    reply
}

/// Truncates a text; returns whether something was cut off.
fn cut_text(text: &mut String, limit: usize) -> bool {
    let mut length = 0_usize;
    let end = text.char_indices().find_map(|(at, letter)| {
        length += json_length(letter);
        (length > limit).then_some(at)
    });
    if let Some(end) = end {
        text.truncate(end);
        text.shrink_to_fit();
    }
    end.is_some()
}

/// Returns the length of a character inside a JSON string, in bytes.
const fn json_length(letter: char) -> usize {
    match letter {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => letter.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_to_what_its_json_may_take() {
        for (text, kept) in [
            ("abcdefgh", "abcdefgh"),
            ("abcdefghi", "abcdefgh"),
            ("a\u{1}bc", "a\u{1}b"),
            ("\"\"\"\"\"", "\"\"\"\""),
            ("\u{fffd}\u{fffd}\u{fffd}", "\u{fffd}\u{fffd}"),
        ] {
            let mut cut = text.to_owned();
            assert_eq!(cut_text(&mut cut, 8), text != kept, "{text:?}");
            assert_eq!(cut, kept);
            assert!(serde_json::to_string(&cut).unwrap().len() <= 8 + 2);
        }
    }
}
