//! The help of the program: its commands in groups, and only flags that have an effect.

use std::fmt::Write as _;

use clap::Command;

use crate::terminal::columns;

/// The widest help; terminals are often wider.
const WIDTH: usize = 100;

/// The commands, by what they are for.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Write and run tests", &["new", "run", "watch", "check", "fmt", "report", "demo"]),
    ("Look at traces", &["trace", "select", "eval", "open"]),
    ("Find mistakes", &["doctor", "explain", "schema", "lsp"]),
    ("Resources of a server", &["apply", "get", "list", "delete", "export", "datastore"]),
    ("Run a server", &["serve", "ready", "config", "telemetry", "backup", "restore", "verify", "secrets"]),
    ("This program", &["configure", "version", "dashboard", "completion", "man", "server", "help"]),
];

/// Commands that say nothing in a format, although they take the flags of all that talk to a server.
const WITHOUT_FORMAT: [&str; 7] = ["new", "delete", "export", "configure", "open", "dashboard", "lsp"];

/// Groups the commands, and hides flags without an effect.
pub(super) fn with_groups(command: Command) -> Command {
    grouped(command, crate::terminal::style::width().map_or(WIDTH, |width| width.min(WIDTH)))
}

/// The same at a terminal of this width.
fn grouped(command: Command, width: usize) -> Command {
    let command = command.mut_subcommands(|inner| {
        if WITHOUT_FORMAT.contains(&inner.get_name()) {
            return inner.mut_arg("output", |output| output.hide(true));
        }
        inner
    });
    let groups = groups(&command, width);
    let header = *command.get_styles().get_header();
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{header}Options:{header:#}\n{{options}}{{after-help}}"
    ))
}

/// Renders the commands, a line each, below the names of their groups.
fn groups(command: &Command, columns: usize) -> String {
    let (header, literal) = (command.get_styles().get_header(), command.get_styles().get_literal());
    let width = GROUPS.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (title, names) in GROUPS {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{header}{title}:{header:#}");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
            let about = about.unwrap_or_else(|| "Print this message, or the help of a command".to_owned());
            let line = format!("  {literal}{name:width$}{literal:#}  {about}");
            let _ = writeln!(text, "{}", columns::wrapped(&line, columns, width + 4));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Arguments;

    #[test]
    fn every_command_is_in_one_group() {
        let table = Arguments::table();
        let mut names: Vec<&str> = table
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
            .map(Command::get_name)
            .chain(["help"])
            .collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        names.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(names, grouped);
    }

    #[test]
    fn commands_are_grouped_and_flags_about_the_server_come_last() {
        let help = grouped(Arguments::command(), WIDTH).term_width(WIDTH).render_help().to_string();
        insta::assert_snapshot!(help);
    }

    /// The commands whose help offers a format.
    fn with_format(command: &Command, above: &str, found: &mut Vec<String>) {
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            let path = format!("{above}{}", inner.get_name());
            let is_offered = |flag: &clap::Arg| flag.get_id() == "output" && !flag.is_hide_set();
            if inner.get_arguments().any(is_offered) {
                found.push(path.clone());
            }
            with_format(inner, &format!("{path} "), found);
        }
    }

    #[test]
    fn a_format_is_offered_only_where_it_has_an_effect() {
        let mut found = Vec::new();
        with_format(&Arguments::table(), "", &mut found);
        found.sort();
        assert_eq!(
            found,
            [
                "apply",
                "check",
                "config show",
                "datastore test",
                "doctor",
                "eval",
                "get",
                "list",
                "ready",
                "run",
                "select",
                "telemetry status",
                "trace export",
                "trace import",
                "trace list",
                "trace show",
                "trace tail",
                "version",
            ]
        );
    }
}
