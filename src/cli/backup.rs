//! `backup` and `restore`: copies of data files, for the person who keeps them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::{Arg, ArgAction, ArgMatches, value_parser};

use super::{announce, print};
use crate::engine::Millis;
use crate::storage::{self, Contents, CopyError, Role};

const FORCE: &str = "force";

/// What `backup` takes.
pub(super) fn backup_arguments() -> Vec<Arg> {
    vec![
        file(
            Role::DataFile,
            "The file that keeps the jobs; a broker may be using it",
        ),
        file(
            Role::Copy,
            "Where the copy goes, in a directory that is there",
        ),
        force("Replace a file that is at COPY already"),
    ]
}

/// What `restore` takes.
pub(super) fn restore_arguments() -> Vec<Arg> {
    vec![
        file(
            Role::Copy,
            "A copy that `backup` has made; it stays as it is",
        ),
        file(Role::DataFile, "The file that a broker is to start with"),
        force("Replace a file that is at FILE already; its jobs are lost"),
    ]
}

fn file(role: Role, help: &'static str) -> Arg {
    Arg::new(role.name())
        .value_name(role.name())
        .value_parser(value_parser!(PathBuf))
        .required(true)
        .help(help)
}

fn force(help: &'static str) -> Arg {
    Arg::new(FORCE)
        .long(FORCE)
        .action(ArgAction::SetTrue)
        .help(help)
}

/// Copies a data file.
pub(super) fn backup(arguments: &ArgMatches) -> ExitCode {
    let (data, copy) = (path(arguments, Role::DataFile), path(arguments, Role::Copy));
    told("Copied", copy, || {
        storage::backup(data, copy, arguments.get_flag(FORCE))
    })
}

/// Puts a copy in its place.
pub(super) fn restore(arguments: &ArgMatches) -> ExitCode {
    let (data, copy) = (path(arguments, Role::DataFile), path(arguments, Role::Copy));
    told("Restored", data, || {
        storage::restore(copy, data, arguments.get_flag(FORCE), now())
    })
}

fn path(arguments: &ArgMatches, role: Role) -> &Path {
    let given = arguments.get_one::<PathBuf>(role.name());
    given.map_or(Path::new(""), PathBuf::as_path)
}

fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.unwrap_or_default().as_millis();
    since.try_into().unwrap_or(Millis::MAX)
}

fn told(done: &str, target: &Path, act: impl FnOnce() -> Result<Contents, CopyError>) -> ExitCode {
    let start = Instant::now();
    match act() {
        Ok(contents) => print(&report(done, target, &contents, start.elapsed())),
        Err(error) => announce::fatal(&error),
    }
}

fn report(done: &str, target: &Path, contents: &Contents, time: Duration) -> String {
    let states = contents.jobs.iter().filter(|(_, count)| *count > 0);
    let states: Vec<_> = states
        .map(|(state, count)| format!("{count} {}", state.name()))
        .collect();
    let states = if states.is_empty() {
        String::new()
    } else {
        format!(" ({})", states.join(", "))
    };
    format!(
        "{done} {} jobs{states} to {target:?}: {} bytes in {:.2} s",
        contents.total(),
        contents.bytes,
        time.as_secs_f64()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::State;

    #[test]
    fn a_report_names_the_states_that_there_are() {
        let contents = |jobs| Contents { jobs, bytes: 4_096 };
        let told = |jobs| {
            let time = Duration::from_millis(120);
            report("Copied", Path::new("copy.db"), &contents(jobs), time)
        };
        assert_eq!(
            told(vec![
                (State::Waiting, 3),
                (State::Active, 0),
                (State::Failed, 1)
            ]),
            "Copied 4 jobs (3 waiting, 1 failed) to \"copy.db\": 4096 bytes in 0.12 s"
        );
        assert_eq!(
            told(vec![(State::Waiting, 0)]),
            "Copied 0 jobs to \"copy.db\": 4096 bytes in 0.12 s"
        );
    }
}
