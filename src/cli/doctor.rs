//! `doctor`: whether the settings of the environment fit and what they name can be used. It opens no data file and starts
//! nothing, so it says nothing about what a file holds; it never prints a token or a key.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches};
use serde::Serialize;

use super::{announce, print};
use crate::config::{Config, Program};
use crate::mcp::http;

/// How a file of the database begins (SQLite file format, section 1.3).
const HEADER: &[u8] = b"SQLite format 3\0";

/// What was found.
#[derive(Debug, Serialize)]
struct Report {
    ok: bool,
    version: &'static str,
    mode: &'static str,
    profile: Option<&'static str>,
    checks: Vec<Check>,
}

#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    ok: bool,
    detail: String,
}

impl Check {
    fn new(name: &'static str, found: Result<String, String>) -> Self {
        let ok = found.is_ok();
        let (Ok(detail) | Err(detail)) = found;
        Self { name, ok, detail }
    }
}

/// What `doctor` takes.
pub(super) fn arguments() -> Vec<Arg> {
    let json = Arg::new("json")
        .long("json")
        .action(ArgAction::SetTrue)
        .help("Print the findings as JSON");
    vec![json]
}

/// Checks, and ends with code 1 if anything is wrong.
pub(super) fn doctor(arguments: &ArgMatches) -> ExitCode {
    let is_json = arguments.try_get_one::<bool>("json").ok().flatten() == Some(&true);
    let report = match super::load(Program::Mcp, arguments) {
        Ok(config) => match checked(&config) {
            Ok(checks) => report(&config, checks),
            Err(error) => return announce::fatal(&error),
        },
        Err(error) => Report {
            ok: false,
            version: announce::VERSION,
            mode: EMBEDDED,
            profile: None,
            checks: vec![Check::new("settings", Err(error.to_string()))],
        },
    };
    let text = if is_json {
        serde_json::to_string(&report).unwrap_or_default()
    } else {
        lines(&report)
    };
    match print(&text) {
        ExitCode::SUCCESS if !report.ok => ExitCode::FAILURE,
        printed => printed,
    }
}

const EMBEDDED: &str = "embedded";

fn report(config: &Config, mut checks: Vec<Check>) -> Report {
    checks.insert(0, Check::new("settings", Ok("every setting fits".into())));
    Report {
        ok: checks.iter().all(|check| check.ok),
        version: announce::VERSION,
        mode: EMBEDDED,
        profile: config.agent.profile,
        checks,
    }
}

fn checked(config: &Config) -> std::io::Result<Vec<Check>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut checks = Vec::new();
    if let Some(data) = &config.data {
        checks.push(Check::new("dataPath", data_file(&data.path)));
    }
    if let Some(settings) = &config.http {
        let found = runtime.block_on(free(&settings.host, settings.port));
        checks.push(Check::new("httpBind", found));
    }
    if let Some(tcp) = &config.tcp {
        let found = runtime.block_on(free(&tcp.host, tcp.port));
        checks.push(Check::new("tcpListen", found));
    }
    Ok(checks)
}

/// Whether something can listen there.
async fn free(host: &str, port: u16) -> Result<String, String> {
    match http::bind(host, port).await {
        Ok(_) => Ok(format!("{host}:{port} is free")),
        Err(error) => Err(format!("{host}:{port} cannot be listened on: {error}")),
    }
}

/// Whether a data file can be opened there, or made.
fn data_file(path: &Path) -> Result<String, String> {
    let told = |error: std::io::Error| format!("the file cannot be used: {error}");
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err("it is a directory".into()),
        Ok(_) => {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .open(path)
                .map_err(told)?;
            let mut start = [0; HEADER.len()];
            match file.read_exact(&mut start) {
                Ok(()) if start == HEADER => Ok("a SQLite file that can be written".into()),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof && is_empty(&file) => {
                    Ok("an empty file that can be written".into())
                }
                _ => Err("the file is no SQLite database".into()),
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let directory = path.parent().filter(|path| !path.as_os_str().is_empty());
            can_make(directory.unwrap_or(Path::new(".")))
        }
        Err(error) => Err(told(error)),
    }
}

fn is_empty(file: &File) -> bool {
    file.metadata().is_ok_and(|file| file.len() == 0)
}

/// Whether a file can be made in a directory; only making one tells.
fn can_make(directory: &Path) -> Result<String, String> {
    let probe = directory.join(format!(".bunqueue-mcp-doctor-{}", std::process::id()));
    let made = OpenOptions::new().write(true).create_new(true).open(&probe);
    match made {
        Ok(_) => {
            let _ = fs::remove_file(&probe);
            Ok("the file is not there yet and can be made".into())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err("its directory does not exist: make it first".into())
        }
        Err(error) => Err(format!("no file can be made in its directory: {error}")),
    }
}

fn lines(report: &Report) -> String {
    let checks = report.checks.iter().map(|check| {
        let verdict = if check.ok { "ok  " } else { "FAIL" };
        format!("{verdict}  {:<10}{}", check.name, check.detail)
    });
    let profile = report.profile.unwrap_or("none");
    let head = format!(
        "bunqueue-mcp {} (mode: {}, profile: {profile})",
        report.version, report.mode
    );
    std::iter::once(head)
        .chain(checks)
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_file_is_there_or_can_be_made() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let found = |name: &str| data_file(&at(name));
        assert!(found("new.db").unwrap().contains("can be made"));
        assert!(found("no/new.db").unwrap_err().contains("does not exist"));
        assert!(found("").unwrap_err().contains("directory"));
        fs::write(at("empty.db"), "").unwrap();
        assert!(found("empty.db").unwrap().contains("empty"));
        for text in ["notes", "notes that are longer than a header"] {
            fs::write(at("notes.txt"), text).unwrap();
            assert!(found("notes.txt").unwrap_err().contains("no SQLite"));
        }
        fs::write(at("queue.db"), [HEADER, &[0; 84]].concat()).unwrap();
        assert!(found("queue.db").unwrap().contains("SQLite file"));
        let left = fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(left, 3, "the probe is gone");
    }

    #[tokio::test]
    async fn a_port_is_free_or_not() {
        let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = taken.local_addr().unwrap().port();
        assert!(free("127.0.0.1", port).await.is_err());
        drop(taken);
        assert!(free("127.0.0.1", 0).await.is_ok());
    }

    #[test]
    fn a_report_reads_line_by_line() {
        let report = Report {
            ok: false,
            version: "1",
            mode: EMBEDDED,
            profile: Some("agent"),
            checks: vec![
                Check::new("settings", Ok("fine".into())),
                Check::new("dataPath", Err("no".into())),
            ],
        };
        assert_eq!(
            lines(&report),
            "bunqueue-mcp 1 (mode: embedded, profile: agent)\nok    settings  fine\nFAIL  dataPath  no"
        );
    }
}
