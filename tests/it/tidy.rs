//! Order in the tree: who may use whom, every file explained and reachable, nothing of one machine, a changelog in form.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const ENGINE: &[&str] = &[];
const COMMAND: &[&str] = &["engine"];
const BASE: &[&str] = &["engine", "command"];
const BROKER: &[&str] = &["engine", "command", "wire", "storage", "net"];
const METRICS: &[&str] = &["engine", "command", "wire", "storage", "net", "broker"];
const HANDLERS: &[&str] = &["engine", "command", "wire", "storage", "broker", "net"];
const DOOR: &[&str] = &[
    "engine", "command", "wire", "storage", "broker", "metrics", "net",
];
/// Agents also register handlers.
const MCP: &[&str] = &[
    "engine", "command", "wire", "storage", "broker", "metrics", "net", "handlers",
];
/// Settings are parsed into the types of the doors they are for; no door reads them itself.
const SETTINGS: &[&str] = &[
    "engine", "command", "storage", "broker", "server", "mcp", "http", "net", "handlers",
];
const TOP: &[&str] = &[
    "engine", "command", "wire", "storage", "broker", "metrics", "net", "config", "server", "mcp",
    "events", "webhooks", "handlers", "http", "docgen",
];

/// Each room of `src/`, and the rooms it may use beside itself.
const ROOMS: &[(&str, &[&str])] = &[
    ("engine", ENGINE),
    ("command", COMMAND),
    ("config", SETTINGS),
    ("wire", BASE),
    ("storage", BASE),
    ("broker", BROKER),
    ("metrics", METRICS),
    ("net", ENGINE),
    ("server", DOOR),
    ("handlers", HANDLERS),
    ("mcp", MCP),
    ("events", DOOR),
    ("webhooks", DOOR),
    ("http", DOOR),
    ("docgen", TOP),
    ("cli", TOP),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Files below a folder, by their path from the root; build output, hidden and installed ones left out.
fn files(folder: &str) -> Vec<(PathBuf, String)> {
    const SKIPPED: [&str; 4] = ["target", "node_modules", "__pycache__", "corpus"];
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.starts_with('.') && name != ".ci" || SKIPPED.contains(&name.as_str()) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                found.push((path.strip_prefix(root()).unwrap().to_owned(), text));
            }
        }
    }
    found.sort();
    found
}

fn rust_files(folder: &str) -> Vec<(PathBuf, String)> {
    let mut files = files(folder);
    files.retain(|(path, _)| path.extension().is_some_and(|extension| extension == "rs"));
    files
}

/// The names right after `crate::`, groups included, outside comments.
fn used_rooms(text: &str) -> BTreeSet<String> {
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let mut used = BTreeSet::new();
    for (_, rest) in code
        .match_indices("crate::")
        .map(|(at, path)| (at, &code[at + path.len()..]))
    {
        match rest.strip_prefix('{') {
            Some(group) => used.extend(first_names(group)),
            None => used.extend(name(rest)),
        }
    }
    used
}

fn name(text: &str) -> Option<String> {
    let end = text
        .find(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .unwrap_or(text.len());
    (end > 0).then(|| text[..end].to_owned())
}

/// The first name of each path in a group `{a::b, c::{d, e}}` whose opening brace is already read.
fn first_names(group: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut depth = 0;
    let mut start = 0;
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.extend(name(group[start..at].trim()));
                start = at + 1;
                if letter == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

#[test]
fn paths_in_groups_are_read() {
    let code = "use crate::engine::Job;\nuse crate::{command::{A, B}, wire};\n// crate::mcp\nlet x = crate::cli::run();";
    let used: Vec<String> = used_rooms(code).into_iter().collect();
    assert_eq!(used, ["cli", "command", "engine", "wire"]);
}

#[test]
fn rooms_use_only_the_rooms_below_them() {
    let allowed: BTreeMap<&str, &[&str]> = ROOMS.iter().copied().collect();
    let mut wrong = Vec::new();
    for (path, text) in rust_files("src") {
        let first = path
            .components()
            .nth(1)
            .unwrap()
            .as_os_str()
            .to_string_lossy()
            .into_owned();
        let room = first.strip_suffix(".rs").unwrap_or(&first).to_owned();
        if room == "lib" || room == "main" {
            continue;
        }
        let Some(allowed) = allowed.get(room.as_str()) else {
            wrong.push(format!(
                "{}: room `{room}` is not in the table",
                path.display()
            ));
            continue;
        };
        for used in used_rooms(&text) {
            if used != room && !allowed.contains(&used.as_str()) {
                wrong.push(format!("{}: uses `{used}`", path.display()));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_file_says_what_lives_there() {
    for folder in ["src", "tests", "benches"] {
        for (path, text) in rust_files(folder) {
            assert!(
                text.starts_with("//! "),
                "{} has no opening comment",
                path.display()
            );
        }
    }
}

#[test]
fn every_source_file_is_part_of_the_program() {
    for (folder, top) in [
        ("src", ["lib.rs", "main.rs"]),
        ("tests/it", ["main.rs", "main.rs"]),
    ] {
        for (path, _) in rust_files(folder) {
            let inside = path.strip_prefix(folder).unwrap();
            let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
            if top.iter().any(|top| inside == Path::new(top)) || stem == "build" {
                continue;
            }
            let (module, home) = match stem.as_str() {
                "mod" => {
                    let home = path.parent().unwrap();
                    (
                        home.file_name().unwrap().to_string_lossy().into_owned(),
                        home.parent().unwrap(),
                    )
                }
                _ => (stem, path.parent().unwrap()),
            };
            let parents = if home == Path::new(folder) {
                top.map(|top| home.join(top)).to_vec()
            } else {
                vec![home.join("mod.rs"), home.with_extension("rs")]
            };
            let declared = parents.iter().any(|parent| {
                let text = fs::read_to_string(root().join(parent)).unwrap_or_default();
                text.lines()
                    .any(|line| line.trim().ends_with(&format!("mod {module};")))
            });
            assert!(declared, "{} is part of nothing", path.display());
        }
    }
}

#[test]
fn nothing_names_a_place_of_one_machine() {
    // In pieces, so that this file does not name them either.
    let places = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
    ];
    for (path, text) in files("") {
        for (number, line) in text.lines().enumerate() {
            let named = places.iter().any(|place| line.contains(place));
            assert!(!named, "{}:{}: {line}", path.display(), number + 1);
        }
    }
}

#[test]
fn the_changelog_is_in_form() {
    const SECTIONS: [&str; 7] = [
        "Added",
        "Changed",
        "Deprecated",
        "Removed",
        "Fixed",
        "Security",
        "Contract",
    ];
    let text = fs::read_to_string(root().join("CHANGELOG.md")).expect("a changelog");
    assert!(text.starts_with("# Changelog\n"));
    let mut versions = text.lines().filter_map(|line| line.strip_prefix("## "));
    let newest = versions.next().expect("a version").trim_matches(['[', ']']);
    let newest = newest.split([' ', ']']).next().unwrap();
    assert!(
        ["Unreleased", env!("CARGO_PKG_VERSION")].contains(&newest),
        "the newest entry is {newest}"
    );
    for section in text.lines().filter_map(|line| line.strip_prefix("### ")) {
        assert!(SECTIONS.contains(&section), "section {section}");
    }
}
