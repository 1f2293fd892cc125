//! `setup`: the entry that an agent host needs to start this program, printed or put into its configuration.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches};
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::{announce, print};
use crate::config::{self, Program};

const HOST: &str = "host";
const WRITE: &str = "write";
const SETTINGS: &str = "settings";
/// The name of the entry.
const ENTRY: &str = "bunqueue";

/// A program that starts MCP servers for an agent.
struct Host {
    name: &'static str,
    title: &'static str,
    /// The member of its configuration that holds the servers.
    servers: &'static str,
    /// Whether it wants to be told how a server is reached.
    typed: bool,
    file: fn() -> Option<PathBuf>,
}

const HOSTS: [Host; 5] = [
    Host {
        name: "claude-code",
        title: "Claude Code, for the project in this directory",
        servers: "mcpServers",
        typed: true,
        file: || Some(".mcp.json".into()),
    },
    Host {
        name: "claude-desktop",
        title: "Claude Desktop",
        servers: "mcpServers",
        typed: false,
        file: claude_desktop,
    },
    Host {
        name: "cursor",
        title: "Cursor, for the project in this directory",
        servers: "mcpServers",
        typed: false,
        file: || Some(".cursor/mcp.json".into()),
    },
    Host {
        name: "vscode",
        title: "VS Code, for the project in this directory",
        servers: "servers",
        typed: true,
        file: || Some(".vscode/mcp.json".into()),
    },
    Host {
        name: PLAIN,
        title: "any other host",
        servers: "mcpServers",
        typed: false,
        file: || None,
    },
];

const PLAIN: &str = "json";

/// Why nothing was written.
#[derive(Debug, Error)]
enum SetupError {
    #[error("--write needs a host with a file of its own: {}", with_files())]
    NoFile,
    #[error("the directory of its configuration is not known here: paste the entry yourself")]
    NoDirectory,
    #[error("{path:?} is no plain JSON, so nothing was changed: add the entry yourself\n{entry}")]
    NotJson { path: PathBuf, entry: String },
    #[error("{path:?}: {error}")]
    File {
        path: PathBuf,
        error: std::io::Error,
    },
}

/// What `setup` takes.
pub(super) fn arguments() -> Vec<Arg> {
    let names = HOSTS.map(|host| host.name);
    vec![
        Arg::new(HOST)
            .value_name("HOST")
            .value_parser(names)
            .default_value(PLAIN)
            .help("The host that is to start the program"),
        Arg::new(WRITE)
            .long(WRITE)
            .action(ArgAction::SetTrue)
            .help("Put the entry into the host's file, beside what stands there"),
        Arg::new(SETTINGS)
            .value_name("SETTING")
            .num_args(0..)
            .last(true)
            .help("Flags that the program is to be started with, as in: setup cursor -- --data-path queue.db"),
    ]
}

/// Prints or writes the entry.
pub(super) fn setup(arguments: &ArgMatches) -> ExitCode {
    let settings: Vec<String> = arguments
        .get_many::<String>(SETTINGS)
        .unwrap_or_default()
        .cloned()
        .collect();
    if let Err(code) = checked(&settings) {
        return code;
    }
    let name = arguments
        .get_one::<String>(HOST)
        .map_or(PLAIN, String::as_str);
    let Some(host) = HOSTS.iter().find(|host| host.name == name) else {
        return announce::fatal(&"there is no such host");
    };
    let entry = entry(host, &program(), &settings);
    if !arguments.get_flag(WRITE) {
        return print(&printed(host, &entry));
    }
    match write(host, &entry) {
        Ok(path) => print(&format!(
            "{} starts bunqueue-mcp from now on ({path:?}).",
            host.title
        )),
        Err(error) => announce::fatal(&error),
    }
}

/// Settings that would stop the program are a fault now, not when the host starts it.
fn checked(settings: &[String]) -> Result<(), ExitCode> {
    let words = std::iter::once("bunqueue-mcp").chain(settings.iter().map(String::as_str));
    let matches = super::command()
        .try_get_matches_from(words)
        .map_err(|error| {
            let _ = error.print();
            ExitCode::from(2)
        })?;
    // The host does not have this environment.
    struct Flags<'a>(&'a ArgMatches);
    impl config::Source for Flags<'_> {
        fn flag(&self, flag: &str) -> Option<String> {
            self.0.try_get_one::<String>(flag).ok().flatten().cloned()
        }

        fn variable(&self, _: &str) -> Option<String> {
            None
        }
    }
    match config::load(Program::Mcp, &Flags(&matches)) {
        Ok(_) => Ok(()),
        Err(error) => Err(announce::fatal(&error)),
    }
}

/// How a host finds this program: by name where the shell would, else by its place.
fn program() -> String {
    let own = std::env::current_exe().and_then(fs::canonicalize).ok();
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let is_found = std::env::split_paths(&paths)
        .filter_map(|directory| fs::canonicalize(directory.join("bunqueue-mcp")).ok())
        .next()
        .is_some_and(|found| Some(found) == own);
    match own {
        Some(own) if !is_found => own.to_string_lossy().into_owned(),
        _ => "bunqueue-mcp".to_owned(),
    }
}

fn entry(host: &Host, program: &str, settings: &[String]) -> Value {
    let mut entry = Map::new();
    if host.typed {
        entry.insert("type".into(), "stdio".into());
    }
    entry.insert("command".into(), program.into());
    entry.insert("args".into(), json!(settings));
    Value::Object(entry)
}

fn document(host: &Host, entry: &Value) -> String {
    let document = json!({ host.servers: { ENTRY: entry } });
    format!("{document:#}")
}

fn printed(host: &Host, entry: &Value) -> String {
    let text = document(host, entry);
    // What is printed for any host is to be read by programs as well.
    match (host.file)() {
        Some(path) => format!(
            "# {}: {}\n# `bunqueue-mcp setup {} --write` puts this there.\n{text}",
            host.title,
            path.display(),
            host.name
        ),
        None => text,
    }
}

fn with_files() -> String {
    let hosts = HOSTS.iter().filter(|host| host.name != PLAIN);
    hosts.map(|host| host.name).collect::<Vec<_>>().join(", ")
}

fn write(host: &Host, entry: &Value) -> Result<PathBuf, SetupError> {
    if host.name == PLAIN {
        return Err(SetupError::NoFile);
    }
    let path = (host.file)().ok_or(SetupError::NoDirectory)?;
    put(host, entry, &path)?;
    Ok(path)
}

/// Puts the entry into a file; everything else in it stays. The file is replaced in one step.
fn put(host: &Host, entry: &Value, path: &Path) -> Result<(), SetupError> {
    let fault = |error| SetupError::File {
        path: path.to_owned(),
        error,
    };
    let text = match fs::read_to_string(path) {
        Ok(text) if text.trim().is_empty() => "{}".to_owned(),
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => "{}".to_owned(),
        Err(error) => return Err(fault(error)),
    };
    let not_json = || SetupError::NotJson {
        path: path.to_owned(),
        entry: document(host, entry),
    };
    let mut document: Value = serde_json::from_str(&text).map_err(|_| not_json())?;
    let members = document.as_object_mut().ok_or_else(not_json)?;
    let servers = members.entry(host.servers).or_insert_with(|| json!({}));
    let servers = servers.as_object_mut().ok_or_else(not_json)?;
    servers.insert(ENTRY.into(), entry.clone());
    if let Some(directory) = path.parent().filter(|path| !path.as_os_str().is_empty()) {
        fs::create_dir_all(directory).map_err(fault)?;
    }
    replace(path, &format!("{document:#}\n")).map_err(fault)
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    // What a link leads to is the file of the host.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut part = path.clone().into_os_string();
    part.push(format!(".part-{}", std::process::id()));
    let part = PathBuf::from(part);
    let written = fs::File::create(&part).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    let replaced = written.and_then(|()| fs::rename(&part, &path));
    if replaced.is_err() {
        let _ = fs::remove_file(&part);
    }
    replaced
}

/// Where Claude Desktop keeps its configuration on this system.
fn claude_desktop() -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(PathBuf::from);
    let directory = if cfg!(target_os = "macos") {
        home()?.join("Library/Application Support/Claude")
    } else if cfg!(windows) {
        PathBuf::from(std::env::var_os("APPDATA")?).join("Claude")
    } else {
        let config = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
        config
            .or_else(|| Some(home()?.join(".config")))?
            .join("Claude")
    };
    Some(directory.join("claude_desktop_config.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> &'static Host {
        HOSTS.iter().find(|host| host.name == name).unwrap()
    }

    #[test]
    fn an_entry_goes_beside_what_stands_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/mcp.json");
        let cursor = host("cursor");
        let settings = ["--data-path".to_owned(), "q.db".to_owned()];
        let entry = entry(cursor, "bunqueue-mcp", &settings);
        put(cursor, &entry, &path).unwrap();
        let read =
            || -> Value { serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap() };
        let own = json!({ "command": "bunqueue-mcp", "args": ["--data-path", "q.db"] });
        assert_eq!(read(), json!({ "mcpServers": { "bunqueue": own } }));

        let before = json!({
            "theme": "dark",
            "mcpServers": { "other": { "url": "x" }, "bunqueue": { "command": "old" } },
        });
        fs::write(&path, before.to_string()).unwrap();
        put(cursor, &entry, &path).unwrap();
        let mut expected = before;
        expected["mcpServers"]["bunqueue"] = own;
        assert_eq!(read(), expected);
        let left = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1, "no part is left");
    }

    #[test]
    fn a_file_that_is_not_plain_json_stays_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mcp.json");
        let vscode = host("vscode");
        let entry = entry(vscode, "bunqueue-mcp", &[]);
        for text in ["// mine\n{}", "[]", "{ \"servers\": 5 }", "{"] {
            fs::write(&path, text).unwrap();
            let error = put(vscode, &entry, &path).unwrap_err().to_string();
            assert!(
                error.contains("no plain JSON") && error.contains("\"stdio\""),
                "{error}"
            );
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        fs::write(&path, " ").unwrap();
        put(vscode, &entry, &path).unwrap();
    }

    #[test]
    fn each_host_gets_the_form_that_it_reads() {
        for (name, servers, typed) in [
            ("claude-code", "mcpServers", true),
            ("claude-desktop", "mcpServers", false),
            ("cursor", "mcpServers", false),
            ("vscode", "servers", true),
            ("json", "mcpServers", false),
        ] {
            let host = host(name);
            let text = document(host, &entry(host, "p", &[]));
            let read: Value = serde_json::from_str(&text).unwrap();
            let entry = &read[servers]["bunqueue"];
            assert_eq!(entry.get("type").is_some(), typed, "{name}");
            assert_eq!(entry["command"], "p", "{name}");
        }
    }
}
