//! The known name that a mistyped one was probably meant to be.

/// Characters of a name that are compared; the time grows with their square.
const MAX_COMPARED: usize = 64;

/// Returns the known name that is nearest to `wrong`, if at most a third of its letters differ.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (wrong.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|name| (edit_distance(wrong, name), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Counts the letters that are changed, added, removed or swapped with their neighbour; case is ignored.
pub fn edit_distance(left: &str, right: &str) -> usize {
    let folded =
        |text: &str| text.chars().flat_map(char::to_lowercase).take(MAX_COMPARED).collect::<String>();
    strsim::osa_distance(&folded(left), &folded(right))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_word_is_suggested_and_a_far_one_is_not() {
        assert_eq!(nearest("endpiont", ["endpoint", "headers"]), Some("endpoint"));
        assert_eq!(nearest("gprc", ["grpc", "http"]), Some("grpc"));
        assert_eq!(nearest("banana", ["grpc", "http"]), None);
    }

    #[test]
    fn a_swap_is_one_edit_and_case_is_none() {
        for (left, right, distance) in
            [("nmae", "name", 1), ("NAME", "name", 0), ("", "abc", 3), ("abcd", "acbd", 1), ("ca", "abc", 3)]
        {
            assert_eq!(edit_distance(left, right), distance, "{left} {right}");
        }
    }
}
