//! Old forms of Tracetest's commands, turned into the current ones: `test list` is `list test`.

/// Flags before the command that take a value.
const WITH_VALUE: [&str; 8] =
    ["-c", "--config", "-s", "--server-url", "--server", "-o", "--output", "--token"];

/// The current form of a command line, and a note about it; `None` when it is current.
pub(crate) fn current(arguments: &[String]) -> Option<(Vec<String>, String)> {
    let at = command_at(arguments)?;
    let (before, rest) = arguments.split_at(at);
    let [resource, verb, rest @ ..] = rest else { return None };
    let mut rest: Vec<String> = rest.to_vec();
    let (kind, shown) = match (resource.as_str(), verb.as_str()) {
        ("test", "list" | "export" | "run") => ("test", "test"),
        ("datastore", "list" | "export" | "apply") => ("datastore", "datastore"),
        ("environment", "apply") => ("variableset", "environment --file [path]"),
        _ => return None,
    };
    match (kind, verb.as_str()) {
        ("test", "run") => {
            let waits = take(&mut rest, &["-w", "--wait-for-result"]);
            rename(&mut rest, &["-d", "--definition"], "--file");
            rest.extend((!waits).then(|| "--skip-result-wait".to_owned()));
        }
        (_, "export") => {
            rename(&mut rest, &["-o", "--output"], "--file");
            if kind == "datastore" && !rest.iter().any(|flag| flag.starts_with("--id")) {
                rest.extend(["--id", "current"].map(ToOwned::to_owned));
            }
        }
        _ => {}
    }
    let shown = if kind == "datastore" && verb == "apply" { "datastore --file [path]" } else { shown };
    let note = format!(
        "Command \"{verb}\" is deprecated, Please use `qualitytrace {verb} {shown}` command instead.\n"
    );
    let words = [verb.clone(), kind.to_owned()];
    Some((before.iter().cloned().chain(words).chain(rest).collect(), note))
}

/// The position of the command.
fn command_at(arguments: &[String]) -> Option<usize> {
    let mut at = 0;
    while let Some(argument) = arguments.get(at) {
        match argument.as_str() {
            flag if WITH_VALUE.contains(&flag) => at += 2,
            flag if flag.starts_with('-') => at += 1,
            _ => return Some(at),
        }
    }
    None
}

/// Removes a switch and returns whether it was there.
fn take(arguments: &mut Vec<String>, names: &[&str]) -> bool {
    let before = arguments.len();
    arguments.retain(|argument| !names.contains(&argument.as_str()));
    arguments.len() < before
}

/// Gives a flag another name.
fn rename(arguments: &mut [String], names: &[&str], new: &str) {
    for argument in arguments {
        let (flag, value) = match argument.split_once('=') {
            Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
            None => (argument.clone(), None),
        };
        if names.contains(&flag.as_str()) {
            *argument = value.map_or_else(|| new.to_owned(), |value| format!("{new}={value}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<&str>) {
        let arguments: Vec<String> = line.split(' ').map(ToOwned::to_owned).collect();
        assert_eq!(current(&arguments).map(|(line, _)| line.join(" ")).as_deref(), expected, "{line}");
    }

    #[test]
    fn old_forms_become_current_ones() {
        check("test list", Some("list test"));
        check("-c a.yml test list -o json", Some("-c a.yml list test -o json"));
        check("test run -d a.yaml", Some("run test --file a.yaml --skip-result-wait"));
        check("test run --definition=a.yaml -w", Some("run test --file=a.yaml"));
        check("test export --id x -o a.yaml", Some("export test --id x --file a.yaml"));
        check("datastore export -o a.yaml", Some("export datastore --file a.yaml --id current"));
        check("datastore apply -f a.yaml", Some("apply datastore -f a.yaml"));
        check("environment apply -f a.yaml", Some("apply variableset -f a.yaml"));
        check("run test -f a.yaml", None);
        check("list test", None);
        check("test", None);
    }
}
