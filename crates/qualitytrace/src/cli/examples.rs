//! Examples below the help of commands.

use clap::Command;

/// The examples of a command, by its name with those of the commands above it.
const EXAMPLES: &[(&str, &str)] = &[
    (
        "run",
        "  qualitytrace run tests                                   on a server that is started for it
  qualitytrace run 'tests/**/*.yaml' --tag smoke -q         what is tagged; shows failures only
  qualitytrace run tests --with 'npm start' --ready 8080    starts the system under test, too
  qualitytrace run tests --report junit=junit.xml,github    for a CI job
  qualitytrace run tests --server http://localhost:11633    on a server that keeps the runs
  qualitytrace run                                          as the project file qualitytrace.yaml says",
    ),
    (
        "serve",
        "  qualitytrace serve
  qualitytrace serve --config qualitytrace.yaml
  qualitytrace serve --host 0.0.0.0 --auth.tokens full:sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    ),
    ("check", "  qualitytrace check tests\n  qualitytrace check 'tests/**/*.yaml' --strict"),
    ("apply", "  qualitytrace apply test -f orders.yaml\n  qualitytrace apply variableset -f staging.yaml"),
    ("get", "  qualitytrace get test --id orders\n  qualitytrace get pollingprofile --id current -o json"),
    ("list", "  qualitytrace list test --all\n  qualitytrace list test --sortBy last_run --take 5 -o json"),
    ("delete", "  qualitytrace delete test --id orders"),
    ("export", "  qualitytrace export test --id orders -f orders.yaml"),
    ("datastore test", "  qualitytrace datastore test\n  qualitytrace datastore test -f jaeger.yaml"),
    ("datastore collector-config", "  qualitytrace datastore collector-config jaeger --endpoint localhost:4317"),
    ("open", "  qualitytrace open\n  qualitytrace open orders\n  qualitytrace open orders 3"),
    (
        "demo",
        "  qualitytrace demo\n  qualitytrace demo --break list\n  qualitytrace demo --keep\n  \
         qualitytrace demo --store jaeger --store-url http://localhost:16686",
    ),
    ("config check", "  qualitytrace config check --config qualitytrace.yaml"),
    ("config show", "  qualitytrace config show -o json"),
    ("telemetry check", "  qualitytrace telemetry check --config qualitytrace.yaml"),
    ("telemetry status", "  qualitytrace telemetry status --server-url http://localhost:11633"),
    ("telemetry test", "  qualitytrace telemetry test --set telemetry.exporters.mine.endpoint=http://localhost:4317"),
    ("backup", "  qualitytrace backup qualitytrace.backup --data-dir /var/lib/qualitytrace"),
    ("restore", "  qualitytrace restore qualitytrace.backup --data-dir /var/lib/qualitytrace"),
    ("verify", "  qualitytrace verify\n  qualitytrace verify --backup qualitytrace.backup"),
    ("secrets reseal", "  qualitytrace secrets reseal --secrets.keyFile new.key --secrets.previousKeyFile old.key"),
    ("secrets forget", "  qualitytrace secrets forget\n  qualitytrace secrets forget --yes"),
    ("configure", "  qualitytrace configure --server-url http://localhost:11633"),
    ("version", "  qualitytrace version --server-url http://localhost:11633"),
    ("dashboard", "  qualitytrace dashboard --server-url http://localhost:11633"),
    ("server install", "  qualitytrace server install"),
];

/// Adds the examples to the commands that have none.
pub(super) fn with_examples(command: Command) -> Command {
    command.mut_subcommands(|command| below(command, ""))
}

fn below(command: Command, above: &str) -> Command {
    let path = format!("{above}{}", command.get_name());
    let found = EXAMPLES.iter().find(|(name, _)| *name == path);
    let command = match found.filter(|_| command.get_after_help().is_none()) {
        Some((_, examples)) => command.after_help(format!("Examples:\n{examples}")),
        None => command,
    };
    command.mut_subcommands(|inner| below(inner, &format!("{path} ")))
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;
    use crate::cli::Arguments;

    /// The commands without commands below them, with their full names.
    fn leaves(command: &Command, above: &str, found: &mut Vec<(String, Command)>) {
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            let path = format!("{above}{}", inner.get_name());
            if inner.has_subcommands() {
                leaves(inner, &format!("{path} "), found);
            } else {
                found.push((path, inner.clone()));
            }
        }
    }

    fn all() -> Vec<(String, Command)> {
        let mut found = Vec::new();
        leaves(&Arguments::table(), "", &mut found);
        found
    }

    #[test]
    fn every_command_has_examples_that_can_be_parsed() {
        let all = all();
        for (path, command) in &all {
            let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let lines: Vec<&str> =
                examples.lines().filter_map(|line| line.strip_prefix("  qualitytrace ")).collect();
            assert!(!lines.is_empty(), "`{path}` has no examples");
            assert!(lines.iter().any(|line| line.starts_with(path)), "`{path}` has examples of others only");
        }
        for (name, examples) in EXAMPLES {
            assert!(all.iter().any(|(path, _)| path == name), "there is no command `{name}`");
            for line in examples.lines() {
                // What follows wide blanks explains the example.
                let words = line.trim().split("   ").next().unwrap_or_default();
                let words: Vec<String> = words.split(' ').map(|word| word.replace('\'', "")).collect();
                let quoted = words.join(" ").replace("npm start", "npm-start");
                let parsed = Arguments::table().try_get_matches_from(quoted.split(' '));
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
    }

    /// The commands in a line of a page: those in backticks, or after a prompt, a key or a quote in a block.
    fn commands(line: &str, is_block: bool) -> Vec<&str> {
        let parts: Vec<&str> =
            if is_block { vec![line] } else { line.split('`').skip(1).step_by(2).collect() };
        let mut found = Vec::new();
        for part in parts {
            for (at, _) in part.match_indices("qualitytrace ") {
                let before = &part[..at];
                let is_word = before.is_empty() || before.ends_with([' ', '"', '\'']);
                let command = &part[at..];
                let end = match before.chars().next_back() {
                    Some(quote @ ('"' | '\'')) => command.find(quote),
                    _ => command.find(
                        [" # ", "  ", " > "].into_iter().find(|end| command.contains(end)).unwrap_or("\n"),
                    ),
                };
                let command = command[..end.unwrap_or(command.len())].trim_end();
                // A synopsis has brackets, and a sentence may begin with the name.
                let is_command =
                    command.chars().nth("qualitytrace ".len()).is_some_and(|c| c.is_ascii_lowercase());
                if is_word && is_command && !command.contains(['[', '|']) && !command.contains("...") {
                    found.push(command);
                }
            }
        }
        found
    }

    /// Splits a command as a shell does, without escapes.
    fn words(command: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut quote = None;
        for letter in command.chars() {
            match (letter, quote) {
                (' ', None) => words.push(String::new()),
                ('"' | '\'', None) => quote = Some(letter),
                (letter, Some(of)) if letter == of => quote = None,
                (letter, _) => words.last_mut().unwrap().push(letter),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn every_command_of_the_documentation_can_be_parsed() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let pages = [
            "docs",
            "examples",
            "examples/node",
            "examples/python",
            "examples/go",
            "examples/java",
            "dogfood",
            ".",
        ];
        let pages = pages.iter().flat_map(|folder| root.join(folder).read_dir().unwrap());
        let pages = pages
            .map(|page| page.unwrap().path())
            .filter(|page| page.extension().is_some_and(|ending| ending == "md"));
        let table = Arguments::table();
        let mut count = 0;
        for page in pages {
            let mut is_block = false;
            for (number, line) in std::fs::read_to_string(&page).unwrap().lines().enumerate() {
                if line.trim_start().starts_with("```") {
                    is_block = !is_block;
                    continue;
                }
                for command in commands(line, is_block) {
                    count += 1;
                    let Err(error) = table.clone().try_get_matches_from(words(command)) else {
                        continue;
                    };
                    // A command may be named without its arguments, and with placeholders of their values.
                    let is_short = [
                        ErrorKind::MissingRequiredArgument,
                        ErrorKind::MissingSubcommand,
                        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
                    ]
                    .contains(&error.kind());
                    let is_placeholder = [ErrorKind::InvalidValue, ErrorKind::ValueValidation]
                        .contains(&error.kind())
                        && words(command)
                            .iter()
                            .any(|word| word.chars().all(|letter| letter.is_ascii_uppercase()));
                    assert!(
                        is_short || is_placeholder,
                        "{}:{}: `{command}`: {error}",
                        page.display(),
                        number + 1
                    );
                }
            }
        }
        assert!(count > 100, "{count}");
    }

    #[test]
    fn the_help_of_commands_stays_as_it_is() {
        let shown = ["run", "report merge", "check", "new", "completion", "man", "get", "list", "demo"];
        for (path, command) in all().into_iter().filter(|(path, _)| shown.contains(&path.as_str())) {
            let mut command = command.term_width(100).bin_name(format!("qualitytrace {path}"));
            insta::assert_snapshot!(path.replace(' ', "_"), command.render_long_help().to_string());
        }
    }
}
