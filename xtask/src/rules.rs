//! The rules of the project that a program can check.
//!
//! Each rule is a pure function from the files of the project to its violations.

use anyhow::{Result, bail};

mod arrows;
mod cycles;
mod decoders;
mod dependencies;
mod files;
mod imports;
mod links;
mod names;
mod third_party;
mod toolchain;
mod tree;

use tree::Tree;

use crate::workspace;

/// A violation of a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Broken {
    /// The file, with its line where there is one.
    place: String,
    /// What is wrong there and what to do instead.
    what: String,
}

impl Broken {
    fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into() }
    }
}

/// Prints every violation; fails if there is one.
pub(crate) fn report() -> Result<()> {
    let broken = broken()?;
    for Broken { place, what } in &broken {
        println!("{place}: {what}");
    }
    match broken.len() {
        0 => Ok(()),
        1 => bail!("a rule of the house is broken"),
        n => bail!("rules of the house are broken in {n} places"),
    }
}

fn broken() -> Result<Vec<Broken>> {
    let tree = Tree::read()?;
    let metadata = workspace::metadata()?;
    let mut broken = arrows::between_crates(&arrows::packages(&metadata)?);
    broken.extend(arrows::between_modules(&tree));
    broken.extend(cycles::between_modules(&tree));
    broken.extend(decoders::unmeasured(&tree));
    let others = third_party::packages()?;
    broken.extend(third_party::unlicensed(&others));
    broken.extend(third_party::banned(&others));
    broken.extend(third_party::duplicated(&others));
    broken.extend(dependencies::unexplained(&tree));
    broken.extend(dependencies::unused(&tree));
    broken.extend(files::too_long(&tree));
    broken.extend(files::badly_named(&tree));
    broken.extend(files::undeclared_tests(&tree));
    broken.extend(files::bound_to_one_machine(&tree));
    broken.extend(links::broken(&tree));
    broken.extend(names::of_types(&tree));
    broken.extend(toolchain::disagreeing(&tree));
    broken.sort();
    Ok(broken)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_project_keeps_its_own_rules() {
        let broken = super::broken().expect("the project's files can be read");
        assert!(broken.is_empty(), "{broken:#?}");
    }
}
