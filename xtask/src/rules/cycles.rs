//! Refuses cycles between the modules of a crate.
//!
//! Checked is every crate of the project and every level of its modules. The nodes of a level are the modules of one
//! parent, each together with all that lies inside it. Module `a` points to its sibling `b` if non-test code inside `a`
//! names a path that leads into `b`: `crate::b::..`, `super::b::..`, or a name that a `use` declaration on the way (a
//! re-export of the parent, too) takes from `b`. Such a graph must have no cycle. A module and its parent may use each
//! other, and calls of methods count only where a path is written.

use std::collections::{BTreeMap, BTreeSet};

use super::{Broken, imports::Modules, tree::Tree};

/// The modules of one parent by name: whom each of them points to, and where that is written.
type Level = BTreeMap<String, BTreeMap<String, Vec<Place>>>;

/// A line of code and the path that it names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    file: String,
    line: usize,
    path: String,
}

/// Imports that close a cycle between modules, one violation for each line.
pub(super) fn between_modules(tree: &Tree) -> Vec<Broken> {
    let roots = tree.files.iter().map(|file| file.path.as_str());
    let crates = roots.filter(|path| path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs"));
    crates.flat_map(|root| levels(&Modules::read(tree, root))).flat_map(closing).collect()
}

/// The graph of every parent that has modules which point to each other, with the path of the parent.
fn levels(modules: &Modules) -> BTreeMap<Vec<String>, Level> {
    let mut levels: BTreeMap<Vec<String>, Level> = BTreeMap::new();
    for module in modules.iter() {
        for import in &module.imports {
            for target in modules.resolve(module, &import.path) {
                let shared = module.path.iter().zip(target).take_while(|(a, b)| a == b).count();
                let (Some(from), Some(to)) = (module.path.get(shared), target.get(shared)) else {
                    continue;
                };
                let place =
                    Place { file: module.file.clone(), line: import.line, path: import.path.join("::") };
                let level = levels.entry(module.path[..shared].to_vec()).or_default();
                level.entry(from.clone()).or_default().entry(to.clone()).or_default().push(place);
            }
        }
    }
    levels
}

/// Says which imports close the cycles of one level: those of the arrow with the fewest, until no cycle is left.
fn closing((parent, mut level): (Vec<String>, Level)) -> Vec<Broken> {
    let name = |module: &String| [parent.as_slice(), std::slice::from_ref(module)].concat().join("::");
    let mut broken = Vec::new();
    while let Some((from, cycle)) = fewest(&level) {
        let names: Vec<_> = cycle.iter().map(name).collect();
        let places = level.get_mut(&from).and_then(|targets| targets.remove(&cycle[1])).unwrap_or_default();
        for Place { file, line, path } in places.into_iter().collect::<BTreeSet<_>>() {
            let what = format!("`{path}` closes a cycle of modules: {}", names.join(" -> "));
            broken.push(Broken::new(format!("{file}:{line}"), what));
        }
    }
    broken
}

/// The arrow with the fewest imports among those that lie on a cycle: its beginning, and the shortest cycle through it.
fn fewest(level: &Level) -> Option<(String, Vec<String>)> {
    let arrows =
        level.iter().flat_map(|(from, targets)| targets.iter().map(move |(to, places)| (from, to, places)));
    let cycles = arrows.filter_map(|(from, to, places)| {
        let back = way(level, to, from)?;
        Some((places.len(), back.len(), [std::slice::from_ref(from), &back].concat()))
    });
    cycles.min().map(|(_, _, cycle)| (cycle[0].clone(), cycle))
}

/// The shortest way from one module of a level to another, both included.
fn way(level: &Level, from: &str, to: &str) -> Option<Vec<String>> {
    let mut ways = vec![vec![from.to_owned()]];
    let mut seen = BTreeSet::from([from.to_owned()]);
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            for next in way.last().and_then(|last| level.get(last)).into_iter().flat_map(BTreeMap::keys) {
                let way = [way.as_slice(), std::slice::from_ref(next)].concat();
                if next == to {
                    return Some(way);
                }
                if seen.insert(next.clone()) {
                    longer.push(way);
                }
            }
        }
        ways = longer;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let broken = between_modules(&Tree::of(files));
        let texts: Vec<_> =
            broken.into_iter().map(|Broken { place, what }| format!("{place}: {what}")).collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn modules_that_point_one_way_are_fine() {
        check(
            &[
                ("c/src/lib.rs", "mod a;\nmod b;\n"),
                (
                    "c/src/a.rs",
                    "use crate::b::B;\n/// Unlike [`crate::a::A`].\nfn f() { crate::b::g(\"crate::a::A\") }\n",
                ),
                ("c/src/b.rs", "use serde::a::A;\nuse ::a::A as Other;\npub struct B;\n"),
            ],
            &[],
        );
    }

    #[test]
    fn the_import_that_closes_a_cycle_is_found_with_its_way() {
        check(
            &[
                ("c/src/lib.rs", "mod a;\nmod b;\nmod d;\n"),
                ("c/src/a.rs", "use crate::b::{B, C};\n"),
                ("c/src/b.rs", "mod inner;\nuse crate::{\n    d::D,\n    d::E,\n};\n"),
                ("c/src/b/inner.rs", "use super::B;\n"),
                ("c/src/d.rs", "\nfn f() -> Option<crate::a::A> { None }\n"),
            ],
            &["c/src/d.rs:2: `crate::a::A` closes a cycle of modules: d -> a -> b -> d"],
        );
    }

    #[test]
    fn a_cycle_below_a_parent_is_found() {
        check(
            &[
                ("c/src/main.rs", "mod a;\n"),
                ("c/src/a.rs", "mod x;\nmod y;\n"),
                ("c/src/a/x.rs", "use super::y::{Y, Z};\n"),
                (
                    "c/src/a/y.rs",
                    "use crate::a::x;\nfn f() { x::X::new(); }\n#[cfg(test)]\nuse super::x::Z;\n",
                ),
            ],
            &[
                "c/src/a/x.rs:1: `super::y::Y` closes a cycle of modules: a::x -> a::y -> a::x",
                "c/src/a/x.rs:1: `super::y::Z` closes a cycle of modules: a::x -> a::y -> a::x",
            ],
        );
    }

    #[test]
    fn a_re_export_of_the_parent_hides_no_cycle() {
        check(
            &[
                ("c/src/lib.rs", "mod a;\n"),
                ("c/src/a.rs", "mod x;\nmod y;\npub use self::x::X as Renamed;\n"),
                ("c/src/a/x.rs", "use super::y::{Y, Z};\n"),
                ("c/src/a/y.rs", "use super::Renamed;\n"),
            ],
            &["c/src/a/y.rs:1: `super::Renamed` closes a cycle of modules: a::y -> a::x -> a::y"],
        );
    }

    #[test]
    fn a_module_and_its_parent_may_use_each_other() {
        check(
            &[
                ("c/src/lib.rs", "mod a;\n"),
                ("c/src/a.rs", "mod x;\nuse x::X;\npub struct A;\n"),
                ("c/src/a/x.rs", "use crate::a::A;\nuse super::*;\n"),
            ],
            &[],
        );
    }

    #[test]
    fn imports_of_tests_do_not_count() {
        check(
            &[
                ("c/src/lib.rs", "mod a;\nmod b;\n"),
                ("c/src/a.rs", "use crate::b::B;\n"),
                (
                    "c/src/b.rs",
                    "#[cfg(test)]\nuse crate::a::{A};\n#[cfg(test)]\npub(crate) fn f<A, B>(a: A) { crate::a::f(a) }\n\
                     struct S { #[cfg(test)] a: crate::a::A, b: u8 }\n\
                     #[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
                ),
            ],
            &[],
        );
    }
}
