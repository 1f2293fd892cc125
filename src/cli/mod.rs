//! The command line: what the program can be asked, and which part of it answers.
//!
//! Flags come from the one table of settings in [`crate::config`]. Only the subcommands that exist to print write to
//! stdout; on the bare program it belongs to the protocol.

mod announce;
mod backup;
mod doctor;
mod run;
mod setup;

use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::config::{self, INVOCATIONS, Program, SETTINGS, Setting, Source};
use crate::docgen;
use crate::mcp::{Registry, nearest};

/// Runs the program with these arguments (the first one is its name) and tells how it ended.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let matches = match command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => {
            // Nobody is left to tell when the terminal is gone.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    match matches.subcommand() {
        Some(("serve", flags)) => run::run(Program::Serve, flags),
        Some(("backup", arguments)) => backup::backup(arguments),
        Some(("restore", arguments)) => backup::restore(arguments),
        Some(("tools", flags)) => print_tools(flags.get_flag("json")),
        Some(("doctor", flags)) => doctor::doctor(flags),
        Some(("setup", arguments)) => setup::setup(arguments),
        Some(("docs", flags)) => print_page(flags.get_one::<String>("page").map(String::as_str)),
        _ if matches.get_flag(DOCTOR) => doctor::doctor(&matches),
        _ => run::run(Program::Mcp, &matches),
    }
}

/// The whole command line, for parsing and for the reference page.
pub fn command() -> Command {
    let mut root = Command::new("bunqueue-mcp")
        .version(env!("CARGO_PKG_VERSION"))
        .args_conflicts_with_subcommands(true)
        .disable_help_subcommand(true);
    for invocation in INVOCATIONS {
        root = match invocation.name {
            None => root
                .about(invocation.about)
                .args(flags(Program::Mcp))
                .arg(doctor_flag()),
            Some(name) => {
                let subcommand = Command::new(name).about(invocation.about);
                root.subcommand(subcommand.args(arguments(name)))
            }
        };
    }
    root
}

/// Another spelling of the subcommand, which others have.
const DOCTOR: &str = "doctor";

fn doctor_flag() -> Arg {
    Arg::new(DOCTOR)
        .long(DOCTOR)
        .action(ArgAction::SetTrue)
        .hide(true)
}

/// What a subcommand takes.
fn arguments(subcommand: &str) -> Vec<Arg> {
    match subcommand {
        "serve" => flags(Program::Serve).collect(),
        "backup" => backup::backup_arguments(),
        "restore" => backup::restore_arguments(),
        "tools" => {
            let help = "Print the tools/list answer";
            vec![
                Arg::new("json")
                    .long("json")
                    .action(ArgAction::SetTrue)
                    .help(help),
            ]
        }
        "setup" => setup::arguments(),
        "doctor" => doctor::arguments(),
        "docs" => {
            let help = "Path of the page; without it all paths are listed";
            vec![Arg::new("page").value_name("PAGE").help(help)]
        }
        _ => Vec::new(),
    }
}

fn flags(program: Program) -> impl Iterator<Item = Arg> {
    SETTINGS
        .iter()
        .filter(move |setting| program.reads(setting))
        .filter_map(flag)
}

fn flag(setting: &'static Setting) -> Option<Arg> {
    let flag = setting.flag?;
    let variables = setting.variables.join(", ");
    let default = match setting.default {
        "" => String::new(),
        default => format!(" [default: {default}]"),
    };
    let help = format!("{} [env: {variables}]{default}", setting.help);
    Some(
        Arg::new(flag)
            .long(flag)
            .value_name(setting.value)
            .help(help),
    )
}

/// Flags of the command line, then the environment of the process.
struct Given<'a>(&'a ArgMatches);

impl Source for Given<'_> {
    fn flag(&self, flag: &str) -> Option<String> {
        self.0.try_get_one::<String>(flag).ok().flatten().cloned()
    }

    /// What is no text comes with marks in it: a setting that is there must not pass for one that is not.
    fn variable(&self, name: &str) -> Option<String> {
        let value = std::env::var_os(name)?;
        Some(value.to_string_lossy().into_owned())
    }
}

fn load(program: Program, flags: &ArgMatches) -> Result<config::Config, config::ConfigError> {
    config::load(program, &Given(flags))
}

fn print_tools(json: bool) -> ExitCode {
    let registry = match Registry::new() {
        Ok(registry) => registry,
        Err(problems) => return announce::fatal(&problems),
    };
    if json {
        let listed: Vec<_> = registry.tools().map(|tool| &tool.listed).collect();
        return print(&serde_json::json!({ "tools": listed }).to_string());
    }
    let lines: Vec<_> = registry
        .toolsets()
        .map(|toolset| {
            let tools = registry
                .tools_of(toolset.id)
                .map(|tool| format!("  {:<33}{}\n", tool.name, tool.description));
            format!("{}\n{}", toolset.id, tools.collect::<String>())
        })
        .collect();
    print(&lines.join("\n"))
}

fn print_page(path: Option<&str>) -> ExitCode {
    let Some(path) = path else {
        let paths: Vec<_> = docgen::site().keys().map(String::as_str).collect();
        return print(&paths.join("\n"));
    };
    match docgen::page(path) {
        Some(text) => print(text),
        None => announce::fatal(&no_page(path)),
    }
}

/// The nearest page is that with the most alike name, whatever its folder: a person asks for `limits`.
fn no_page(path: &str) -> String {
    let pages = docgen::site().keys().map(String::as_str);
    let named: Vec<_> = pages.map(|page| (page_name(page), page)).collect();
    let nearest = nearest(page_name(path), named.iter().map(|(name, _)| *name));
    let meant: Vec<_> = named
        .iter()
        .filter(|(name, _)| Some(*name) == nearest)
        .map(|(_, page)| *page)
        .collect();
    let hint = if meant.is_empty() {
        String::new()
    } else {
        format!(", did you mean {}?", meant.join(" or "))
    };
    format!("There is no page {path:?}{hint}; `bunqueue-mcp docs` lists all pages")
}

/// The last part of a path, without what tells its format.
fn page_name(path: &str) -> &str {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split('.').next().unwrap_or(file)
}

/// Prints and is done; a reader that has seen enough, such as `head`, is no fault.
fn print(text: &str) -> ExitCode {
    let printed = writeln!(std::io::stdout(), "{}", text.trim_end());
    match printed {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => announce::fatal(&error),
        _ => ExitCode::SUCCESS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_page_is_answered_with_the_nearest_one() {
        let errors = no_page("errors");
        assert!(
            errors.contains("did you mean docs/reference/errors.md?"),
            "{errors}"
        );
        assert!(no_page("docs/lifecycel.md").contains("docs/concepts/lifecycle.md"));
        let both = no_page("queuse");
        assert!(
            both.contains("docs/tools/queues.md or llms/queues.txt"),
            "{both}"
        );
        let none = no_page("zebra");
        assert!(
            !none.contains("mean") && none.contains("lists all pages"),
            "{none}"
        );
    }
}
