//! Command lines, variables and packages in the pages are real (hard case D3).

use std::collections::{BTreeMap, BTreeSet};

use bunqueue_mcp::cli;
use bunqueue_mcp::config::{self, NOT_YET, Program, SETTINGS, Source};
use serde_json::Value;

use super::{blocks, code_spans, prose, published, read, report};

/// The names of all settings: variables, flags, and what a flag stands before.
pub(super) fn setting_names() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for setting in SETTINGS {
        names.extend(setting.variables.iter().map(|name| (*name).to_owned()));
        names.extend(setting.flag.map(|flag| format!("--{flag}")));
    }
    names.extend(NOT_YET.iter().map(|(name, _)| (*name).to_owned()));
    names.extend(["--help", "--version", "--json", "--force", "UPDATE"].map(str::to_owned));
    names
}

/// Packages that the pages install, with the versions that the interoperability tests use.
fn packages() -> BTreeMap<String, String> {
    let mut packages = BTreeMap::new();
    let requirements = read("tests/interop/requirements.txt");
    let pinned = requirements
        .lines()
        .filter_map(|line| line.split_once("=="));
    packages
        .extend(pinned.map(|(name, version)| (format!("pip install {name}"), version.to_owned())));
    let manifest: Value = serde_json::from_str(&read("tests/interop/package.json")).unwrap();
    for (name, version) in manifest["dependencies"].as_object().unwrap() {
        packages.insert(
            format!("bun add {name}"),
            version.as_str().unwrap().to_owned(),
        );
    }
    for line in read("tests/interop/rust/Cargo.toml").lines() {
        if let Some((name, version)) = line.split_once(" = \"=") {
            packages.insert(
                format!("cargo add {name}"),
                version.trim_end_matches('"').to_owned(),
            );
        }
    }
    packages
}

#[test]
fn hard_d3_packages_are_the_tested_ones() {
    let packages = packages();
    let mut problems = Vec::new();
    let mut found = 0;
    for (path, text) in published() {
        for (line, content) in text.lines().enumerate() {
            for (command, separator) in [
                ("pip install ", "=="),
                ("bun add ", "@"),
                ("cargo add ", "@"),
            ] {
                let Some((_, rest)) = content.split_once(command) else {
                    continue;
                };
                found += 1;
                let package = rest.split(['`', ' ', ')']).next().unwrap_or_default();
                let version = package.split_once(separator).and_then(|(name, version)| {
                    let tested = packages.get(&format!("{command}{name}"))?;
                    (tested == version).then_some(())
                });
                if version.is_none() {
                    problems.push(format!("{path}:{}: {command}{package}", line + 1));
                }
            }
        }
    }
    assert!(found >= 6, "{found}");
    report(&problems);
}

/// What looks like a variable of the environment: capitals and underscores, with an underscore or an equals sign.
fn variables(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|character: char| {
        !character.is_ascii_alphanumeric() && character != '_' && character != '='
    });
    words.filter_map(|word| {
        let (name, is_set) = word
            .split_once('=')
            .map_or((word, false), |(name, _)| (name, true));
        let is_variable = name.len() > 3
            && name
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte == b'_')
            && (is_set || name.contains('_'));
        is_variable.then_some(name)
    })
}

#[test]
fn hard_d3_variables_are_settings() {
    let names = setting_names();
    let mut problems = Vec::new();
    let mut found = BTreeSet::new();
    for (path, text) in published() {
        for (line, content) in text.lines().enumerate() {
            for name in variables(content) {
                found.insert(name.to_owned());
                if !names.contains(name) {
                    problems.push(format!("{path}:{}: {name}", line + 1));
                }
            }
        }
    }
    assert!(found.len() > 10, "{found:?}");
    report(&problems);
}

/// The lines of shell blocks, and the commands in running text.
fn command_lines() -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for (path, text) in published() {
        for block in blocks(&text)
            .into_iter()
            .filter(|block| block.label == "sh")
        {
            lines.extend(
                block
                    .text
                    .lines()
                    .map(|line| (path.clone(), line.to_owned())),
            );
        }
        for (_, line) in prose(&text) {
            let spans =
                code_spans(line).filter(|span| span.split(' ').any(|word| word == "bunqueue-mcp"));
            lines.extend(spans.map(|span| (path.clone(), span.to_owned())));
        }
    }
    lines
}

/// A call of the program.
struct OwnCall {
    set: BTreeMap<String, String>,
    arguments: Vec<String>,
}

/// The call of the program that a line is, if it is one.
fn own_call(line: &str) -> Option<OwnCall> {
    let line = line.split(" #").next().unwrap_or_default().trim();
    let words: Vec<_> = line.split(' ').filter(|word| !word.is_empty()).collect();
    let is_set = |word: &&&str| {
        word.split_once('=')
            .is_some_and(|(name, _)| variables(name).next().is_some() || name == "HOST")
    };
    let set: Vec<_> = words
        .iter()
        .take_while(is_set)
        .filter_map(|word| word.split_once('='))
        .collect();
    let rest = &words[set.len()..];
    let arguments = match rest {
        ["bunqueue-mcp", arguments @ ..] => arguments,
        ["cargo", "run", "--release", "--", arguments @ ..] => arguments,
        // The host starts what stands after the dashes.
        ["claude", "mcp", "add", rest @ ..] => {
            let command = rest.iter().position(|word| *word == "--")?;
            rest[command + 1..].strip_prefix(&["bunqueue-mcp"])?
        }
        _ => return None,
    };
    let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    Some(OwnCall {
        set: set.into_iter().map(own).collect(),
        arguments: arguments
            .iter()
            // Brackets mark what may be left out.
            .map(|word| word.trim_matches(['[', ']']))
            .map(|word| if word == "HOST" { "json" } else { word }.to_owned())
            .collect(),
    })
}

/// Variables as a page sets them.
struct Environment(BTreeMap<String, String>);

impl Source for Environment {
    fn flag(&self, _: &str) -> Option<String> {
        None
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }
}

#[test]
fn hard_d3_environments_of_hosts_are_accepted() {
    let mut found = 0;
    for (path, text) in published() {
        for block in blocks(&text)
            .into_iter()
            .filter(|block| block.label == "json")
        {
            let Ok(value) = serde_json::from_str::<Value>(&block.text) else {
                panic!("{path}:{}: no JSON", block.line);
            };
            let servers = value.get("mcpServers").and_then(Value::as_object);
            for server in servers.into_iter().flat_map(|servers| servers.values()) {
                found += 1;
                let set = server
                    .get("env")
                    .and_then(Value::as_object)
                    .cloned()
                    .unwrap_or_default();
                let set = set
                    .into_iter()
                    .map(|(name, value)| (name, value.as_str().unwrap().to_owned()));
                let environment = Environment(set.collect());
                if let Err(error) = config::load(Program::Mcp, &environment) {
                    panic!("{path}:{}: {error}", block.line);
                }
                let is_known = server["command"] == "bunqueue-mcp"
                    || server["url"] == "http://127.0.0.1:6790/mcp";
                assert!(is_known, "{path}:{}: {server}", block.line);
            }
        }
    }
    assert!(found > 3, "{found}");
}

#[test]
fn hard_d3_command_lines_are_understood() {
    let mut found = 0;
    for (path, line) in command_lines() {
        let Some(OwnCall { set, arguments }) = own_call(&line) else {
            continue;
        };
        found += 1;
        let words = ["bunqueue-mcp".to_owned()]
            .into_iter()
            .chain(arguments.clone());
        if let Err(error) = cli::command().try_get_matches_from(words) {
            let is_help = !error.use_stderr();
            assert!(is_help, "{path}: {line}: {error}");
        }
        let is_serve = arguments.first().is_some_and(|first| first == "serve");
        let program = if is_serve {
            Program::Serve
        } else {
            Program::Mcp
        };
        if let Err(error) = config::load(program, &Environment(set)) {
            panic!("{path}: {line}: {error}");
        }
    }
    assert!(found > 5, "{found}");
}

#[test]
fn hard_d3_the_rust_worker_of_the_guide_is_the_one_that_compiles() {
    let guide = blocks(super::page("docs/start/first-worker.md"));
    let shown = guide.iter().find(|block| block.label == "rust").unwrap();
    let compiled = read("tests/interop/rust/src/bin/documented.rs");
    let (_, code) = compiled.split_once("\n\n").unwrap();
    assert_eq!(shown.text, code);
}
