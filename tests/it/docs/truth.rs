//! What the pages say agrees with the program: names, numbers, counts, descriptions (hard case D1).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use bunqueue_mcp::command::ErrorCode;
use bunqueue_mcp::config::SETTINGS;
use bunqueue_mcp::docgen::Documentation;
use bunqueue_mcp::engine::{FailureReason, State};
use bunqueue_mcp::mcp::Registry;
use serde_json::Value;

use super::{
    DOCUMENTATION, REGISTRY, blocks, code_spans, page, prose, published, read, report, repository,
    written,
};

/// Words in code that are neither of the tools nor of the settings.
const WORDS: [&str; 51] = [
    // Programs, packages, files.
    "bunqueue",
    "bunqueue-mcp",
    "bunqueue-client",
    "claude",
    "bun",
    "just",
    "justfile",
    "serve",
    "homepage",
    // The world of the examples and of the guides.
    "email",
    "reports",
    "send-mail",
    "connection",
    "command",
    "docs",
    // The worker protocol and its answers.
    "Auth",
    "Hello",
    "already-finalized",
    "Metrics",
    "activeConnections",
    "bunqueue_connections",
    "RateLimit",
    "SetConcurrency",
    "GetQueueLimits",
    "ttl",
    // What an answer of a tool may hold, whichever tool it is.
    "error",
    "code",
    "hint",
    "issues",
    "path",
    "message",
    "expected",
    "reason",
    "isError",
    // Values and marks.
    "null",
    "true",
    "false",
    "json",
    "$object",
    "ok",
    "reqId",
    "data",
    "name",
    "id",
    "cmd",
    "default",
    "eventTypes",
    "stackTraceLimit",
    // Contributors' words.
    "await",
    "unwrap",
    "expect",
];

#[test]
fn generated_files_are_fresh() {
    let mut stale = Vec::new();
    let generated = DOCUMENTATION.generated();
    for (path, text) in &generated {
        let file = repository().join(path);
        if fs::read_to_string(&file).is_ok_and(|committed| committed == *text) {
            continue;
        }
        if std::env::var_os("UPDATE").is_some() {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, text).unwrap();
        } else {
            stale.push(format!("{path} is stale: UPDATE=1 cargo test"));
        }
    }
    for folder in ["llms", "docs/tools", "docs/reference"] {
        for name in names_in(&repository().join(folder)) {
            let path = format!("{folder}/{name}");
            if !generated.contains_key(&path) {
                stale.push(format!("{path} is not generated any more"));
            }
        }
    }
    report(&stale);
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn a_second_rendering_gives_the_same_bytes() {
    let registry = Arc::new(Registry::new().unwrap());
    assert_eq!(Documentation::new(&registry).unwrap(), *DOCUMENTATION);
}

#[test]
fn hard_d1_every_count_is_the_registrys() {
    let tools = REGISTRY.tools().count();
    let toolsets = REGISTRY.toolsets().count();
    // Names of fields, which are told apart in the same way, begin with a small letter.
    let is_command = |line: &&str| {
        let name = line.trim().strip_prefix("b\"");
        name.is_some_and(|name| name.starts_with(char::is_uppercase) && name.contains("\" => "))
    };
    let commands: usize = names_in(Path::new("src/wire/decode"))
        .iter()
        .filter(|file| file.ends_with(".rs"))
        .map(|file| {
            read(format!("src/wire/decode/{file}"))
                .lines()
                .filter(is_command)
                .count()
        })
        .sum();
    let mut found = BTreeMap::new();
    let mut problems = Vec::new();
    // The changelog tells of versions that had fewer.
    for (path, text) in published()
        .into_iter()
        .filter(|(path, _)| path != "CHANGELOG.md")
    {
        let words: Vec<_> = text.split_whitespace().collect();
        for pair in words.windows(2) {
            let (Ok(number), noun) = (pair[0].parse::<usize>(), pair[1]) else {
                continue;
            };
            let expected = match noun.trim_matches(|character: char| !character.is_alphanumeric()) {
                "tools" => tools,
                "toolsets" => toolsets,
                "commands" => commands,
                "codes" => ErrorCode::ALL.len(),
                _ => continue,
            };
            *found.entry(noun.to_owned()).or_insert(0) += 1;
            if number != expected {
                problems.push(format!("{path}: {number} {noun}, there are {expected}"));
            }
        }
    }
    assert!(found.len() >= 3, "{found:?}");
    report(&problems);
}

#[test]
fn descriptions_are_the_same_everywhere_and_no_two_alike() {
    let full = &DOCUMENTATION.models["llms-full.txt"];
    let mut seen = BTreeSet::new();
    for tool in REGISTRY.tools() {
        assert_eq!(
            tool.listed.description.as_deref(),
            Some(tool.description.as_str())
        );
        let section = format!("## {}\n\n{}\n", tool.name, tool.description);
        let page = page(&format!("docs/tools/{}.md", tool.toolset));
        assert!(page.contains(&section), "{}", tool.name);
        assert!(full.contains(&section), "{}", tool.name);
        assert!(
            seen.insert(&tool.description),
            "{} has the description of another",
            tool.name
        );
    }
}

#[test]
fn only_tools_that_exist_are_named() {
    let mut problems = Vec::new();
    for (path, text) in published() {
        for word in
            text.split(|character: char| !character.is_ascii_alphanumeric() && character != '_')
        {
            let is_name = word.starts_with("bunqueue_")
                && !["bunqueue_client", "bunqueue_connections", "bunqueue_"].contains(&word);
            if is_name && REGISTRY.tool(word).is_none() {
                problems.push(format!("{path}: {word}"));
            }
        }
    }
    report(&problems);
}

/// Every name that a schema knows: members, values, members of members.
fn schema_names(schema: &Value, names: &mut BTreeSet<String>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, member) in properties.into_iter().flatten() {
        names.insert(name.clone());
        // A member without members of its own in the schema names them in its description.
        let words = member["description"]
            .as_str()
            .unwrap_or_default()
            .split([' ', ',']);
        names.extend(
            words
                .filter(|word| word.contains(char::is_uppercase))
                .map(str::to_owned),
        );
        schema_names(member, names);
    }
    schema
        .get("items")
        .into_iter()
        .for_each(|items| schema_names(items, names));
    let values = schema.get("enum").and_then(Value::as_array);
    names.extend(
        values
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned),
    );
}

fn known_names() -> BTreeSet<String> {
    let mut names: BTreeSet<String> = WORDS.map(str::to_owned).into();
    for tool in REGISTRY.tools() {
        names.insert(tool.name.to_owned());
        schema_names(&tool.input, &mut names);
        schema_names(&tool.output, &mut names);
    }
    names.extend(REGISTRY.toolsets().map(|toolset| toolset.id.to_owned()));
    names.extend(State::ALL.map(|state| state.name().to_owned()));
    names.extend(["paused", "unknown"].map(str::to_owned));
    names.extend(ErrorCode::ALL.map(|code| code.name().to_owned()));
    names.extend(FailureReason::ALL.map(|reason| reason.name().to_owned()));
    names.extend(super::commands::setting_names());
    let glossary = page("docs/concepts/glossary.md");
    for setting in SETTINGS {
        let defaults = [setting.default.to_owned()];
        names.extend(setting.value.split('|').map(str::to_owned).chain(defaults));
    }
    let rows = glossary.lines().filter_map(|line| line.strip_prefix("| "));
    names.extend(rows.filter_map(|row| Some(row.split_once(" |")?.0.to_owned())));
    names
}

#[test]
fn every_word_in_code_is_a_name_of_the_product() {
    let names = known_names();
    let mut problems = Vec::new();
    let pages = DOCUMENTATION
        .pages
        .iter()
        .map(|page| (page.path.clone(), page.text.clone()));
    for (path, text) in pages.chain([("README.md".to_owned(), read("README.md"))]) {
        for (line, content) in prose(&text) {
            for span in code_spans(content) {
                let is_word = span
                    .chars()
                    .all(|character| character.is_alphanumeric() || "_-$".contains(character))
                    && span.contains(char::is_alphabetic);
                if is_word && !names.contains(span) {
                    problems.push(format!("{path}:{line}: `{span}`"));
                }
            }
        }
    }
    report(&problems);
}

#[test]
fn numbers_of_the_concepts_are_limits() {
    let limits = page("docs/reference/limits.md").replace(',', "");
    let known: BTreeSet<_> = limits
        .split(|character: char| !character.is_ascii_digit())
        .collect();
    let mut problems = Vec::new();
    for (path, text) in written()
        .into_iter()
        .filter(|(path, _)| path.starts_with("docs/concepts/"))
    {
        for (line, content) in prose(&text) {
            let content =
                code_spans(content).fold(content.to_owned(), |rest, span| rest.replace(span, ""));
            let content = content.replace(',', "");
            for number in content.split(|character: char| !character.is_ascii_digit()) {
                let is_port = ["6789", "6790", "6791"].contains(&number);
                if number.len() >= 4 && !is_port && !known.contains(number) {
                    problems.push(format!("{path}:{line}: {number} is no limit"));
                }
            }
        }
    }
    report(&problems);
}

#[test]
fn every_error_code_is_explained_once() {
    let page = page("docs/reference/errors.md");
    for code in ErrorCode::ALL {
        let heading = format!("\n### {}\n", code.name());
        assert_eq!(page.matches(&heading).count(), 1, "{}", code.name());
        assert!(page.contains(code.meaning()), "{}", code.name());
    }
}

#[test]
fn every_reason_of_a_failure_is_explained_once() {
    let (_, table) = page("docs/reference/errors.md")
        .split_once("## Why a job failed")
        .unwrap();
    for reason in FailureReason::ALL {
        let row = format!("\n| `{}` | {} |", reason.name(), reason.meaning());
        assert_eq!(table.matches(&row).count(), 1, "{row}");
    }
}

#[test]
fn answers_of_a_connection_are_in_the_program() {
    let (_, table) = page("docs/reference/errors.md")
        .split_once("## Answers of a worker's connection")
        .unwrap();
    let sources: String = ["src/server", "src/wire", "src/command"]
        .iter()
        .flat_map(|folder| rust_files(&repository().join(folder)))
        .collect();
    let mut found = 0;
    for line in table.lines().filter(|line| line.starts_with("| `")) {
        let text = code_spans(line).next().unwrap().split(" <").next().unwrap();
        assert!(sources.contains(&format!("\"{text}")), "{text}");
        found += 1;
    }
    assert!(found > 4);
}

/// The texts of all sources in a folder.
fn rust_files(folder: &Path) -> Vec<String> {
    let mut texts = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(
                fs::read_dir(path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            texts.push(fs::read_to_string(path).unwrap());
        }
    }
    texts
}

#[test]
fn every_bound_is_in_the_limits() {
    let source = read("src/docgen/limits.rs");
    for line in read("src/command/bounds.rs").lines() {
        let name = line
            .strip_prefix("pub const ")
            .and_then(|rest| rest.split_once(':'));
        if let Some((name, _)) = name {
            assert!(
                source.contains(&format!("bounds::{name}")),
                "{name} is not in the limits"
            );
        }
    }
}

#[test]
fn every_invariant_names_a_test_that_exists() {
    let architecture = read("ARCHITECTURE.md");
    let (_, rest) = architecture.split_once("\n## Invariants\n").unwrap();
    let section = rest.split("\n## ").next().unwrap();
    let sources = [
        rust_files(&repository().join("src")),
        rust_files(&repository().join("tests/it")),
    ];
    let sources = sources.concat().concat();
    let is_item = |line: &&str| line.starts_with(|first: char| first.is_ascii_digit());
    let items = section.lines().filter(is_item).count();
    // Each item ends with the name of its test.
    let tests = section.lines().filter_map(|line| {
        let name = line.strip_suffix('`')?.rsplit('`').next()?;
        name.contains('_').then_some(name)
    });
    let tests: Vec<_> = tests.collect();
    assert_eq!(tests.len(), items, "{tests:?}");
    let missing: Vec<_> = tests
        .into_iter()
        .filter(|test| !sources.contains(&format!("fn {test}(")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(items > 9);
}

#[test]
fn results_in_the_reference_fit_their_schemas() {
    for toolset in REGISTRY.toolsets() {
        let page = page(&format!("docs/tools/{}.md", toolset.id));
        let mut call = None;
        for block in blocks(page) {
            let value: Value = serde_json::from_str(&block.text).unwrap();
            let name = value.get("arguments").and_then(|_| value["name"].as_str());
            match (name, call.take()) {
                (Some(name), None) => call = Some(REGISTRY.tool(name).unwrap()),
                (None, Some(tool)) if value.get("error").is_none() => {
                    let required = tool.output["required"]
                        .as_array()
                        .cloned()
                        .unwrap_or_default();
                    for member in required.iter().filter_map(Value::as_str) {
                        assert!(value.get(member).is_some(), "{}: {member}", tool.name);
                    }
                    let properties = tool.output["properties"].as_object().unwrap();
                    // Without any, members are named after what they tell of.
                    let is_free = properties.is_empty();
                    for member in value.as_object().unwrap().keys() {
                        assert!(
                            is_free || properties.contains_key(member),
                            "{}: {member}",
                            tool.name
                        );
                    }
                }
                (None, Some(_)) => {}
                _ => panic!("{}:{}: no pair of call and answer", toolset.id, block.line),
            }
        }
    }
}
