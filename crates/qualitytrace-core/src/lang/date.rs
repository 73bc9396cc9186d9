//! Date formats of Tracetest's files: `YYYY-MM-DD` and the like, and Go's reference time.

use jiff::Zoned;

/// The parts of a format and their `strftime` specifiers; the longest that fits counts.
const PIECES: [(&str, &str); 36] = [
    ("YYYY", "%Y"),
    ("YY", "%y"),
    ("MMMM", "%B"),
    ("MMM", "%b"),
    ("MM", "%m"),
    ("M", "%-m"),
    ("DDDD", "%A"),
    ("DDD", "%a"),
    ("DD", "%d"),
    ("D", "%-d"),
    ("hh", "%H"),
    ("h", "%I"),
    ("mm", "%M"),
    ("ss", "%S"),
    ("pm", "%p"),
    ("ZZZZ", "%z"),
    ("ZZZ", "%Z"),
    ("ZZ", "offset"),
    ("January", "%B"),
    ("Jan", "%b"),
    ("Monday", "%A"),
    ("Mon", "%a"),
    ("MST", "%Z"),
    ("2006", "%Y"),
    ("-07:00", "%:z"),
    ("-0700", "%z"),
    ("Z07:00", "offset"),
    ("PM", "%p"),
    ("01", "%m"),
    ("02", "%d"),
    ("03", "%I"),
    ("04", "%M"),
    ("05", "%S"),
    ("06", "%y"),
    ("15", "%H"),
    ("_2", "%e"),
];

/// Formats a time; an empty format means date and time.
pub(super) fn format(time: &Zoned, format: &str) -> String {
    let format = if format.is_empty() { "YYYY-MM-DD hh:mm:ss" } else { format };
    let mut text = String::new();
    let mut rest = format;
    while let Some(next) = rest.chars().next() {
        // Names of months and weekdays begin with letters that are parts themselves.
        let piece =
            PIECES.iter().filter(|(piece, _)| rest.starts_with(piece)).max_by_key(|(piece, _)| piece.len());
        if let Some((piece, meaning)) = piece {
            text.push_str(&one(time, meaning));
            rest = &rest[piece.len()..];
        } else {
            text.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    text
}

fn one(time: &Zoned, meaning: &str) -> String {
    match meaning {
        "offset" if time.offset().is_zero() => "Z".to_owned(),
        "offset" => time.strftime("%:z").to_string(),
        meaning => time.strftime(meaning).to_string(),
    }
}
