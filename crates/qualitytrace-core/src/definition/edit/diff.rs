//! Unified diffs of texts.

use std::fmt::Write as _;

use similar::TextDiff;

/// Unchanged lines around a change.
const CONTEXT: usize = 3;
/// Maximum number of lines between the first and the last difference: comparing more takes too long, and they are
/// shown as replaced as a whole.
const MAX_COMPARED: usize = 20_000;

/// Returns the unified diff of two texts; empty if they are the same.
pub fn unified_diff(before: &str, after: &str) -> String {
    if before == after {
        return String::new();
    }
    let (old, new): (Vec<&str>, Vec<&str>) =
        (before.split_inclusive('\n').collect(), after.split_inclusive('\n').collect());
    let same =
        |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| pairs.take_while(|(old, new)| old == new).count();
    let head = same(&mut old.iter().zip(&new));
    let tail = same(&mut old[head..].iter().rev().zip(new[head..].iter().rev()));
    if old.len() + new.len() - 2 * (head + tail) <= MAX_COMPARED {
        let diff = TextDiff::configure().newline_terminated(true).diff_slices(&old, &new);
        return diff.unified_diff().context_radius(CONTEXT).header("before", "after").to_string();
    }
    let start = head.saturating_sub(CONTEXT);
    let kept_after = tail.min(CONTEXT);
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    let mut out = "--- before\n+++ after\n".to_owned();
    let (old_count, new_count) = (old_end + kept_after - start, new_end + kept_after - start);
    let _ = writeln!(out, "@@ -{},{old_count} +{},{new_count} @@", start + 1, start + 1);
    let parts = [
        (' ', &old[start..head]),
        ('-', &old[head..old_end]),
        ('+', &new[head..new_end]),
        (' ', &old[old_end..old_end + kept_after]),
    ];
    for (mark, lines) in parts {
        for line in lines {
            let _ = write!(out, "{mark}{line}");
            if !line.ends_with('\n') {
                out.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
    out
}
