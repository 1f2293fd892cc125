//! The reference of settings: variables, flags and commands, from the one table that the program reads.

use crate::config::{INVOCATIONS, NOT_YET, Program, SETTINGS, Setting};

/// The programs, each with how it is called.
const PROGRAMS: [(Program, &str, &str); 2] = [
    (Program::Mcp, "The MCP server", "`bunqueue-mcp`"),
    (Program::Serve, "The broker", "`bunqueue-mcp serve`"),
];

/// The page of variables.
pub(super) fn environment() -> String {
    let mut text = String::from(
        "# Environment\n\nA flag wins over its variable, see [Command line](cli.md). Of several variables in one row the first one that is set\n\
        wins; a warning names one that says something else and is read by no other row. An empty value counts as unset. What\n\
        is `true` or `false` may also be 1 or 0, yes or no, on or off. A value that does not fit stops the program at start, before anything binds, with\n\
        `Fatal error:` and the name of the setting on stderr, and code 1.\n",
    );
    for (program, title, call) in PROGRAMS {
        text.push_str(&format!(
            "\n## {title}\n\nRead by {call}.\n\n| variable | default | flag | meaning |\n| --- | --- | --- | --- |\n"
        ));
        for setting in SETTINGS.iter().filter(|setting| program.reads(setting)) {
            let variables: Vec<_> = setting
                .variables
                .iter()
                .map(|name| format!("`{name}`"))
                .collect();
            let flag = setting
                .flag
                .map_or_else(|| "none".to_owned(), |flag| format!("`--{flag}`"));
            text.push_str(&format!(
                "| {} | {} | {flag} | {} |\n",
                variables.join(", "),
                default(setting),
                cell(setting.help)
            ));
        }
    }
    text.push_str(
        "\n## Not in this version\n\nThese variables of other versions are refused when they are set, because ignoring them would break a promise:\n\n\
        | variable | since this version |\n| --- | --- |\n",
    );
    for (variable, instead) in NOT_YET {
        text.push_str(&format!("| `{variable}` | {instead} |\n"));
    }
    text
}

/// The page of commands and flags.
pub(super) fn command_line() -> String {
    let mut text = String::from("# Command line\n\n| command | does |\n| --- | --- |\n");
    for invocation in INVOCATIONS {
        let words = [
            "bunqueue-mcp",
            invocation.name.unwrap_or_default(),
            invocation.arguments,
        ];
        let call: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
        text.push_str(&format!(
            "| `{}` | {} |\n",
            cell(&call.join(" ")),
            cell(invocation.about)
        ));
    }
    text.push_str(
        "\n`--help`, also after a command, and `--version` print and leave with code 0. Anything else that is no command or flag is answered on\n\
        stderr, with the nearest known one, and code 2. Whatever is fatal at start ends with code 1.\n",
    );
    for (program, title, call) in PROGRAMS {
        text.push_str(&format!("\n## {title}\n\nFlags of {call}; each has a variable, see [Environment](environment.md).\n\n| flag | default | meaning |\n| --- | --- | --- |\n"));
        for setting in SETTINGS.iter().filter(|setting| program.reads(setting)) {
            if let Some(flag) = setting.flag {
                let value = cell(setting.value);
                text.push_str(&format!(
                    "| `--{flag} {value}` | {} | {} |\n",
                    default(setting),
                    cell(setting.help)
                ));
            }
        }
    }
    text.push_str("\nTokens have no flag: whoever sees the list of processes could read them.\n");
    text
}

fn default(setting: &Setting) -> String {
    if setting.default.is_empty() {
        "none".to_owned()
    } else {
        format!("`{}`", cell(setting.default))
    }
}

/// Text inside a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
