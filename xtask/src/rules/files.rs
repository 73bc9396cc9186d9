//! Rules on names, length and content of files.

use super::{
    Broken,
    tree::{Source, Tree},
};

/// The limit on the lines of a source file.
const MAX_LINES: usize = 600;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 10] =
    ["common", "helper", "helpers", "manager", "misc", "mod", "service", "services", "util", "utils"];

/// Prefixes of paths that exist on one machine only.
const MACHINE_PATHS: [&str; 3] = ["/root/", "/home/", "/Users/"];

/// Files that may contain machine paths: this one, and generated ones.
const FREE_TO_MENTION: [&str; 2] = ["xtask/src/rules/files.rs", "Cargo.lock"];

/// Source files that are too long.
pub(super) fn too_long(tree: &Tree) -> Vec<Broken> {
    let mut broken = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_code()) {
        let lines = file.text.lines().count();
        if lines > MAX_LINES {
            let what = format!("has {lines} lines; split it below {MAX_LINES}, by what its parts decide");
            broken.push(Broken::new(&file.path, what));
        }
    }
    broken
}

/// Modules with a meaningless name, and `mod.rs` files.
pub(super) fn badly_named(tree: &Tree) -> Vec<Broken> {
    let mut broken = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        let without_ending = file.path.trim_end_matches(".rs");
        for name in without_ending.split('/').filter(|name| EMPTY_NAMES.contains(name)) {
            let what = format!("`{name}` does not say what is inside: name the thing it decides or holds");
            broken.push(Broken::new(&file.path, what));
        }
    }
    broken
}

/// Integration tests that are not compiled: files of `tests/it/` that `main.rs` does not declare, and stray programs.
pub(super) fn undeclared_tests(tree: &Tree) -> Vec<Broken> {
    let mut broken = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        let Some((package, rest)) = file.path.split_once("/tests/") else {
            continue;
        };
        match rest.split('/').collect::<Vec<_>>().as_slice() {
            ["it", "main.rs"] => {}
            ["it", name] => {
                let declared =
                    tree.get(&format!("{package}/tests/it/main.rs")).is_some_and(|main| declares(main, name));
                if !declared {
                    broken.push(Broken::new(&file.path, "is never run: declare it in the main.rs beside it"));
                }
            }
            [_] => broken
                .push(Broken::new(&file.path, "makes a test program of its own: move it into tests/it/")),
            _ => {}
        }
    }
    broken
}

fn declares(main: &Source, file: &str) -> bool {
    let declaration = format!("mod {};", file.trim_end_matches(".rs"));
    main.code().any(|(_, line)| line.trim() == declaration)
}

/// Paths of one machine.
pub(super) fn bound_to_one_machine(tree: &Tree) -> Vec<Broken> {
    let mut broken = Vec::new();
    let files = tree.files.iter().filter(|file| !FREE_TO_MENTION.contains(&file.path.as_str()));
    for file in files {
        for (index, line) in file.text.lines().enumerate() {
            let path = MACHINE_PATHS.iter().find(|path| starts_a_path(line, path));
            if let Some(found) = path {
                let place = format!("{}:{}", file.path, index + 1);
                broken.push(Broken::new(place, format!("`{found}` holds on one machine only: leave it out")));
            }
        }
    }
    broken
}

/// Whether an absolute path in this line begins with `path`; `https://host/home/` does not.
fn starts_a_path(line: &str, path: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || "._-}~/".contains(c);
    line.match_indices(path).any(|(at, _)| !line[..at].ends_with(inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: fn(&Tree) -> Vec<Broken>, files: &[(&str, &str)], expected: &[&str]) {
        let places: Vec<_> = rule(&Tree::of(files)).into_iter().map(|broken| broken.place).collect();
        assert_eq!(places, expected);
    }

    #[test]
    fn a_long_source_file_is_found() {
        let long = "x\n".repeat(MAX_LINES + 1);
        let files = [
            ("page/a.tsx", long.as_str()),
            ("page/schema.gen.d.ts", long.as_str()),
            ("src/a.rs", long.as_str()),
            ("src/b.rs", "x\n"),
            ("data.txt", long.as_str()),
        ];
        check(too_long, &files, &["page/a.tsx", "src/a.rs"]);
    }

    #[test]
    fn an_empty_name_is_found() {
        check(
            badly_named,
            &[("src/utils.rs", ""), ("src/common/wait.rs", ""), ("src/wait.rs", "")],
            &["src/utils.rs", "src/common/wait.rs"],
        );
    }

    #[test]
    fn an_undeclared_test_is_found() {
        let files = [
            ("c/tests/it/main.rs", "mod a;\n// mod b;\n"),
            ("c/tests/it/a.rs", ""),
            ("c/tests/it/b.rs", ""),
            ("c/tests/stray.rs", ""),
        ];
        check(undeclared_tests, &files, &["c/tests/it/b.rs", "c/tests/stray.rs"]);
    }

    #[test]
    fn a_machine_path_is_found_and_an_address_is_not() {
        let text = "see https://example.com/home/x\nread /home/x\n";
        check(bound_to_one_machine, &[("a.md", text)], &["a.md:2"]);
    }
}
