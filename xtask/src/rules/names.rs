//! Names of types: nouns of the field, so that one can search for them.

use super::{Broken, tree::Tree};

/// Words that say nothing without a noun.
const WITHOUT_A_NOUN: [&str; 52] = [
    "About",
    "After",
    "Anyone",
    "Asked",
    "AtTheEnd",
    "Awaited",
    "Bare",
    "Before",
    "Beside",
    "Denied",
    "Due",
    "Ended",
    "Exceeded",
    "Given",
    "Growth",
    "Halt",
    "Held",
    "Kept",
    "Known",
    "Listed",
    "Look",
    "Made",
    "Malformed",
    "Manner",
    "Misdirected",
    "Most",
    "Of",
    "Over",
    "Owed",
    "Refused",
    "Said",
    "Same",
    "Sent",
    "Shown",
    "Standing",
    "Stay",
    "Surroundings",
    "Taken",
    "Told",
    "Trial",
    "Tried",
    "Undecided",
    "Unfit",
    "Unreadable",
    "Wanted",
    "Way",
    "Which",
    "Whole",
    "Whose",
    "With",
    "Withheld",
    "Without",
];

/// Derives of types that are errors.
const ERROR: &str = "thiserror::Error";

/// Types that are named by a participle or a pronoun, and errors that are not called so.
pub(super) fn of_types(tree: &Tree) -> Vec<Broken> {
    let mut broken = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust() && file.path.contains("/src/")) {
        let mut is_error = false;
        for (number, line) in file.code() {
            let line = line.trim();
            if line.starts_with("#[derive(") || line.starts_with("#[error(") {
                is_error |= line.contains(ERROR);
                continue;
            }
            let Some(name) = declared(line) else { continue };
            let place = || format!("{}:{number}", file.path);
            if std::mem::take(&mut is_error) && !name.ends_with("Error") {
                broken
                    .push(Broken::new(place(), format!("`{name}` is an error: let its name end in `Error`")));
            }
            if WITHOUT_A_NOUN.contains(&name) {
                let what = format!("`{name}` does not say what it is: name the type by a noun of the field");
                broken.push(Broken::new(place(), what));
            }
        }
    }
    broken
}

/// The name of the type that a line declares.
fn declared(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("pub") {
        Some(rest) => rest.strip_prefix('(').and_then(|rest| Some(rest.split_once(')')?.1)).unwrap_or(rest),
        None => line,
    };
    let (keyword, rest) = line.trim_start().split_once(' ')?;
    let name = rest.split(|letter: char| !letter.is_alphanumeric()).next()?;
    ["struct", "enum", "trait"].contains(&keyword).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_without_a_noun_and_errors_under_other_names_are_found() {
        let text = "/// struct Held\npub(in crate::api) struct Held<'a> {}\nenum HeldLock { Held }\n\
                    #[derive(Debug, thiserror::Error)]\n#[error(\"{0}\")]\npub struct Misread(String);\n\
                    #[derive(thiserror::Error)]\nenum ReadError {}\npub(crate) trait Whose {}\nlet held = Held::new();\n";
        let tree = Tree::of(&[("crates/a/src/b.rs", text), ("crates/a/tests/it/b.rs", text)]);
        let places: Vec<_> = of_types(&tree).into_iter().map(|broken| broken.place).collect();
        assert_eq!(places, ["crates/a/src/b.rs:2", "crates/a/src/b.rs:6", "crates/a/src/b.rs:9"]);
    }
}
