//! Metadata of runs: who started them, from which branch, commit and CI job. `GET /api/runs` filters by it.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::cli::files::regular;

/// A CI system: a variable that only it sets, and the variables with branch, commit, address and number of the job.
struct Provider {
    name: &'static str,
    mark: &'static str,
    branch: &'static [&'static str],
    commit: &'static str,
    url: &'static str,
    number: &'static str,
}

const PROVIDERS: [Provider; 9] = [
    Provider {
        name: "github",
        mark: "GITHUB_ACTIONS",
        branch: &["GITHUB_HEAD_REF", "GITHUB_REF_NAME"],
        commit: "GITHUB_SHA",
        url: "",
        number: "GITHUB_RUN_NUMBER",
    },
    Provider {
        name: "gitlab",
        mark: "GITLAB_CI",
        branch: &["CI_COMMIT_REF_NAME"],
        commit: "CI_COMMIT_SHA",
        url: "CI_JOB_URL",
        number: "CI_JOB_ID",
    },
    Provider {
        name: "circleci",
        mark: "CIRCLECI",
        branch: &["CIRCLE_BRANCH"],
        commit: "CIRCLE_SHA1",
        url: "CIRCLE_BUILD_URL",
        number: "CIRCLE_BUILD_NUM",
    },
    Provider {
        name: "buildkite",
        mark: "BUILDKITE",
        branch: &["BUILDKITE_BRANCH"],
        commit: "BUILDKITE_COMMIT",
        url: "BUILDKITE_BUILD_URL",
        number: "BUILDKITE_BUILD_NUMBER",
    },
    Provider {
        name: "azure",
        mark: "TF_BUILD",
        branch: &["BUILD_SOURCEBRANCHNAME"],
        commit: "BUILD_SOURCEVERSION",
        url: "",
        number: "BUILD_BUILDNUMBER",
    },
    Provider {
        name: "bitbucket",
        mark: "BITBUCKET_BUILD_NUMBER",
        branch: &["BITBUCKET_BRANCH"],
        commit: "BITBUCKET_COMMIT",
        url: "",
        number: "BITBUCKET_BUILD_NUMBER",
    },
    Provider {
        name: "drone",
        mark: "DRONE",
        branch: &["DRONE_BRANCH"],
        commit: "DRONE_COMMIT_SHA",
        url: "DRONE_BUILD_LINK",
        number: "DRONE_BUILD_NUMBER",
    },
    Provider {
        name: "travis",
        mark: "TRAVIS",
        branch: &["TRAVIS_PULL_REQUEST_BRANCH", "TRAVIS_BRANCH"],
        commit: "TRAVIS_COMMIT",
        url: "TRAVIS_BUILD_WEB_URL",
        number: "TRAVIS_BUILD_NUMBER",
    },
    Provider {
        name: "jenkins",
        mark: "JENKINS_URL",
        branch: &["CHANGE_BRANCH", "BRANCH_NAME", "GIT_BRANCH"],
        commit: "GIT_COMMIT",
        url: "BUILD_URL",
        number: "BUILD_NUMBER",
    },
];

/// The branch and the commit of a clone.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Checkout {
    branch: Option<String>,
    commit: Option<String>,
}

/// The metadata of runs that this process starts.
pub(crate) fn of_process() -> Map<String, Value> {
    let here = std::env::current_dir().unwrap_or_default();
    metadata(|name| std::env::var(name).ok().filter(|value| !value.is_empty()), Checkout::find(&here))
}

fn metadata(variable: impl Fn(&str) -> Option<String>, checkout: Checkout) -> Map<String, Value> {
    let mut found = vec![
        ("source", Some("cli".to_owned())),
        ("tracetest.source", Some("cli".to_owned())),
        ("tracetest.cli.version", Some(env!("CARGO_PKG_VERSION").to_owned())),
    ];
    let provider = PROVIDERS.iter().find(|provider| variable(provider.mark).is_some());
    let of_job =
        |name: &dyn Fn(&Provider) -> &'static str| provider.and_then(|provider| variable(name(provider)));
    let branch = provider.and_then(|provider| provider.branch.iter().find_map(|name| variable(name)));
    let url = match provider {
        Some(Provider { name: "github", .. }) => github_job(&variable),
        _ => of_job(&|provider| provider.url),
    };
    found.extend([
        ("branch", branch.or(checkout.branch)),
        ("commit", of_job(&|provider| provider.commit).or(checkout.commit)),
        ("ci.provider", provider.map(|provider| provider.name.to_owned())),
        ("ci.build.url", url),
        ("ci.build.number", of_job(&|provider| provider.number)),
    ]);
    found.into_iter().filter_map(|(key, value)| Some((key.to_owned(), Value::from(value?)))).collect()
}

fn github_job(variable: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let [server, repository, run] = ["GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID"].map(variable);
    Some(format!("{}/{}/actions/runs/{}", server?, repository?, run?))
}

impl Checkout {
    /// Reads the clone that a folder is in; empty when it is in none.
    fn find(folder: &Path) -> Self {
        let found = folder.ancestors().find_map(|above| {
            let git = above.join(".git");
            if git.is_dir() { Some(git) } else { worktree(&git) }
        });
        let Some(git) = found else { return Self::default() };
        let Ok(head) = regular::read_text(&git.join("HEAD")) else { return Self::default() };
        let Some(name) = head.trim().strip_prefix("ref: ") else {
            return Self { branch: None, commit: Some(head.trim().to_owned()) };
        };
        let common = regular::read_text(&git.join("commondir")).ok();
        let common = common.map_or_else(|| git.clone(), |path| git.join(path.trim()));
        let commit = [&git, &common].iter().find_map(|folder| regular::read_text(&folder.join(name)).ok());
        let commit = commit.map(|commit| commit.trim().to_owned()).or_else(|| packed(&common, name));
        Self { branch: name.strip_prefix("refs/heads/").map(ToOwned::to_owned), commit }
    }
}

/// The folder of a worktree that a `.git` file names.
fn worktree(file: &Path) -> Option<PathBuf> {
    let text = regular::read_text(file).ok()?;
    Some(file.parent()?.join(text.trim().strip_prefix("gitdir: ")?))
}

fn packed(git: &Path, name: &str) -> Option<String> {
    let text = regular::read_text(&git.join("packed-refs")).ok()?;
    let line = text.lines().find(|line| line.split_once(' ').is_some_and(|(_, known)| known == name))?;
    line.split_once(' ').map(|(commit, _)| commit.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(variables: &[(&str, &str)], expected: &[(&str, &str)]) {
        let value = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let checkout = Checkout { branch: Some("local".to_owned()), commit: Some("c0ffee".to_owned()) };
        let found = metadata(value, checkout);
        for (key, value) in expected {
            assert_eq!(found.get(*key).and_then(Value::as_str), Some(*value), "{key} {found:?}");
        }
    }

    #[test]
    fn a_job_says_more_than_the_clone() {
        check(&[], &[("source", "cli"), ("branch", "local"), ("commit", "c0ffee")]);
        check(
            &[
                ("GITHUB_ACTIONS", "true"),
                ("GITHUB_REF_NAME", "main"),
                ("GITHUB_SHA", "abc"),
                ("GITHUB_SERVER_URL", "https://github.com"),
                ("GITHUB_REPOSITORY", "a/b"),
                ("GITHUB_RUN_ID", "7"),
            ],
            &[
                ("branch", "main"),
                ("commit", "abc"),
                ("ci.build.url", "https://github.com/a/b/actions/runs/7"),
            ],
        );
        check(
            &[("GITLAB_CI", "true"), ("CI_COMMIT_REF_NAME", "fix")],
            &[("branch", "fix"), ("commit", "c0ffee")],
        );
    }

    #[test]
    fn the_clone_is_found_above_and_packed() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::create_dir(folder.path().join(".git")).unwrap();
        std::fs::write(folder.path().join(".git/HEAD"), "ref: refs/heads/fix/it\n").unwrap();
        std::fs::write(folder.path().join(".git/packed-refs"), "# pack\nabc refs/heads/fix/it\n").unwrap();
        let found = Checkout::find(&inner);
        assert_eq!((found.branch.as_deref(), found.commit.as_deref()), (Some("fix/it"), Some("abc")));
    }
}
