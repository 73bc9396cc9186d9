//! Names of variables, and texts that are short enough for names and warnings.

/// Maximum length of names and of texts in warnings, in characters.
const MAX_NAME: usize = 80;

/// Returns the name of a variable, with `_` for what the language does not allow in it.
pub(super) fn variable_name(name: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() || letter == '.' { letter } else { '_' };
    let name: String = name.chars().take(MAX_NAME).map(letter).collect();
    match name.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None if name.is_empty() => "_".to_owned(),
        None => name,
    }
}

/// Returns the beginning of a text, in one line.
pub(super) fn shortened(text: &str) -> String {
    let short: String =
        text.chars().take(MAX_NAME).map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    if short.len() < text.len() { format!("{short}...") } else { short }
}
