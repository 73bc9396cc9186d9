//! Environment variables of flags: `--fail-fast` of `run` is `QUALITYTRACE_RUN_FAIL_FAST`.

use clap::builder::FalseyValueParser;
use clap::{Arg, ArgAction, Command};

/// Commands whose flags are settings of the server, which have variables of their own.
const WITH_SETTINGS: [&str; 7] = ["serve", "config", "telemetry", "backup", "restore", "verify", "secrets"];
/// Flags that have a variable for all commands.
const SHARED: [&str; 2] = ["server-url", "token"];

/// Gives a variable to each flag that has none.
pub(crate) fn with_variables(command: Command) -> Command {
    command.mut_subcommands(|command| {
        let name = command.get_name().to_owned();
        if WITH_SETTINGS.contains(&name.as_str()) {
            return command;
        }
        let command = command.mut_subcommands(|inner| {
            let name = format!("{name}-{}", inner.get_name());
            inner.mut_args(|flag| with_variable(&name, flag))
        });
        command.mut_args(|flag| with_variable(&name, flag))
    })
}

fn with_variable(command: &str, flag: Arg) -> Arg {
    let Some(name) = flag.get_long().map(ToOwned::to_owned) else { return flag };
    if flag.get_env().is_some() || SHARED.contains(&name.as_str()) || name == "help" || name == "version" {
        return flag;
    }
    let is_switch = matches!(flag.get_action(), ArgAction::SetTrue);
    let flag = flag.env(variable(command, &name)).hide_env(true);
    // `1` and `yes` switch it on, too.
    if is_switch { flag.value_parser(FalseyValueParser::new()) } else { flag }
}

fn variable(command: &str, flag: &str) -> String {
    let mut name = String::from("QUALITYTRACE");
    for word in [command, flag] {
        name.push('_');
        for letter in word.chars() {
            if letter.is_ascii_uppercase() {
                name.push('_');
            }
            name.push(if letter == '-' { '_' } else { letter.to_ascii_uppercase() });
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn names_are_those_of_command_and_flag() {
        assert_eq!(variable("run", "fail-fast"), "QUALITYTRACE_RUN_FAIL_FAST");
        assert_eq!(variable("list", "sortBy"), "QUALITYTRACE_LIST_SORT_BY");
    }

    /// The flags of a command and of the commands below it that have no variable.
    fn without_variable(command: &Command, path: &str, found: &mut Vec<String>) {
        for flag in command.get_arguments().filter(|flag| flag.get_env().is_none()) {
            if let Some(long) = flag.get_long().filter(|long| !SHARED.contains(long)) {
                found.push(format!("{path} --{long}"));
            }
        }
        for inner in command.get_subcommands() {
            without_variable(inner, &format!("{path} {}", inner.get_name()), found);
        }
    }

    #[test]
    fn every_flag_has_a_variable() {
        let command = with_variables(crate::cli::Arguments::command());
        command.clone().debug_assert();
        let mut found = Vec::new();
        for inner in command.get_subcommands().filter(|inner| !WITH_SETTINGS.contains(&inner.get_name())) {
            without_variable(inner, inner.get_name(), &mut found);
        }
        assert_eq!(found, [] as [String; 0]);
    }
}
