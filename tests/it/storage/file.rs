//! What is refused at the opening of a file, and what comes back from one.

use std::fs;

use bunqueue_mcp::command::UpdateData;
use bunqueue_mcp::engine::{Config, Effects, JobId, NewJob, Payload};
use bunqueue_mcp::storage::{Store, StoreError};
use rusqlite::Connection;

use super::{Kept, tamper};
use crate::process;
use crate::tcp::delicate;
use crate::world::{id, job, named};

fn refusal(path: &std::path::Path) -> String {
    match Store::open(path) {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => error.to_string(),
    }
}

fn holding(bytes: &[u8]) -> NewJob {
    NewJob {
        data: Some(Payload::new(bytes)),
        ..job()
    }
}

fn data(kept: &mut Kept, id: &JobId) -> Option<Payload> {
    kept.world.detail(id).job.data
}

#[test]
fn the_database_of_another_program_is_refused_and_stays_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other.db");
    tamper(
        &path,
        "CREATE TABLE job (id INTEGER); PRAGMA user_version = 1",
    );
    let before = fs::read(&path).unwrap();
    assert_eq!(
        refusal(&path),
        "the data file is a SQLite database of another program"
    );
    assert!(fs::read(&path).unwrap() == before);
}

#[test]
fn pe_14_a_newer_file_is_refused_and_stays_as_it_is() {
    let mut kept = Kept::new();
    kept.close();
    tamper(&kept.path(), "PRAGMA user_version = 99");
    let before = fs::read(kept.path()).unwrap();
    assert_eq!(
        refusal(&kept.path()),
        "SQLite schema version 99 is newer than supported version 1"
    );
    assert!(fs::read(kept.path()).unwrap() == before);
}

#[test]
fn a_file_has_one_owner_and_is_free_after_it() {
    let mut kept = Kept::new();
    assert_eq!(
        refusal(&kept.path()),
        format!(
            "the data file is in use by process {}: stop that process, or use another file",
            std::process::id()
        )
    );
    kept.reopen();
}

#[cfg(unix)]
#[test]
fn a_link_to_a_file_is_another_name_of_it_and_no_other_file() {
    let kept = Kept::new();
    let link = kept.at("link.db");
    std::os::unix::fs::symlink(kept.path(), &link).unwrap();
    assert!(refusal(&link).contains("is in use by process"));
}

#[cfg(unix)]
#[test]
fn a_file_with_two_names_is_refused() {
    let mut kept = Kept::new();
    let other = kept.at("other.db");
    kept.close();
    fs::hard_link(kept.path(), &other).unwrap();
    for path in [&kept.path(), &other] {
        assert_eq!(
            refusal(path),
            "the data file has 2 names (hard links), and each would have a write-ahead log of its own: \
             remove the others, or make them symbolic links"
        );
    }
    fs::remove_file(&other).unwrap();
    kept.reopen();
}

/// A file that is mounted at two places has one name and two directories, so the lock beside it is not enough.
#[cfg(target_os = "linux")]
#[test]
fn a_file_in_use_is_refused_also_where_nothing_beside_it_says_so() {
    let kept = Kept::new();
    fs::remove_file(kept.at("queue.db-owner")).unwrap();
    let path = kept.path();
    let arguments = [
        "serve",
        "--tcp-port",
        "0",
        "--data-path",
        path.to_str().unwrap(),
    ];
    let (code, _, complaint) = process::run(&arguments);
    assert_eq!(code, Some(1), "{complaint}");
    assert!(
        complaint.contains("the data file is in use by another process"),
        "{complaint}"
    );
}

/// Whatever cannot be meant stops the program: it deletes nothing, and no broker in memory takes the place of the file.
#[test]
fn hard_s4_bad_settings_are_refused_by_name_and_nothing_is_deleted() {
    let mut kept = Kept::new();
    kept.world.push("q", named("done"));
    let delivery = kept.world.pull("q").expect("ready");
    kept.world.ack(&delivery);
    kept.commit();
    kept.close();
    let before = fs::read(kept.path()).unwrap();
    let path = kept.path();
    let file = path.to_str().unwrap();
    let missing = kept.at("missing/queue.db");
    let missing = missing.to_str().unwrap();
    let directory = kept.directory.path().to_str().unwrap();
    type Case<'a> = (Vec<&'a str>, Vec<(&'a str, &'a str)>, &'a str);
    let mut cases: Vec<Case<'_>> = vec![
        (vec![], vec![("DATA_PATH", missing)], "DATA_PATH"),
        (vec![], vec![("SQLITE_PATH", directory)], "SQLITE_PATH"),
        (vec!["--data-path", missing], vec![], "--data-path"),
        (
            vec![],
            vec![("DATA_PATH", file), ("SQLITE_PATH", missing)],
            "DATA_PATH",
        ),
    ];
    // An empty variable is one that is not set; the flag must say something.
    for retention in ["7days", "-1", "NaN", "1e99", "0x10"] {
        for name in ["COMPLETED_RETENTION_MS", "BUNQUEUE_COMPLETED_RETENTION_MS"] {
            cases.push((vec!["--data-path", file], vec![(name, retention)], name));
        }
    }
    for retention in ["7days", "-1", "", "NaN"] {
        let flag = "--completed-retention-ms";
        let given = match retention {
            "-1" => vec!["--data-path", file, "--completed-retention-ms=-1"],
            _ => vec!["--data-path", file, flag, retention],
        };
        cases.push((given, vec![], flag));
    }
    for (flags, variables, name) in cases {
        let variables: Vec<_> = variables
            .iter()
            .map(|(name, value)| (*name, std::ffi::OsStr::new(*value)))
            .chain([("TCP_PORT", "0".as_ref()), ("HTTP_PORT", "0".as_ref())])
            .collect();
        let arguments = [&["serve"], &flags[..]].concat();
        let (code, printed, complaint) = process::run_with(&arguments, &variables);
        assert_eq!(
            (code, &*printed),
            (Some(1), ""),
            "{flags:?} {variables:?}: {complaint}"
        );
        assert!(complaint.starts_with("Fatal error: "), "{complaint}");
        assert!(complaint.contains(name), "{name}: {complaint}");
        assert!(
            fs::read(&path).unwrap() == before,
            "{flags:?} {variables:?}"
        );
    }
    kept.reopen();
    assert_eq!(kept.world.counts("q").completed, 1);
}

#[cfg(unix)]
#[test]
fn s4_a_path_that_is_no_text_is_refused_and_not_passed_over() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    // A broker that passed it over would stop at the port.
    let env = [
        ("DATA_PATH", OsStr::from_bytes(b"queue-\xff.db")),
        ("TCP_PORT", OsStr::new("none")),
    ];
    let (code, _, complaint) = process::run_with(&["serve"], &env);
    assert_eq!(code, Some(1));
    assert!(
        complaint.starts_with("Fatal error: DATA_PATH must be the path of a file"),
        "{complaint}"
    );
}

#[test]
fn what_is_no_database_is_refused_and_stays_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes.txt");
    let text = "not a database, and long enough to be one\n".repeat(100);
    fs::write(&path, &text).unwrap();
    assert_eq!(
        refusal(&path),
        "the data file is damaged or no SQLite database"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_file_with_a_lost_page_does_not_load() {
    let mut kept = Kept::new();
    for _ in 0..200 {
        kept.world.push("q", holding(&[7; 500]));
    }
    kept.commit();
    kept.close();
    let mut bytes = fs::read(kept.path()).unwrap();
    let middle = bytes.len() / 2 / 4_096 * 4_096;
    bytes[middle..middle + 4_096].fill(0xff);
    fs::write(kept.path(), &bytes).unwrap();
    let loaded = Store::open(&kept.path()).and_then(|store| {
        let (now, mut effects) = (kept.world.now, Effects::default());
        store
            .load(Config::default(), [1; 32], now, &mut effects)
            .map(|_| ())
    });
    let error = loaded.expect_err("the file is damaged").to_string();
    assert!(error.starts_with("the data file is damaged"), "{error}");
}

#[test]
fn a_directory_that_is_missing_or_that_nobody_may_write_is_named() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(
        refusal(&directory.path().join("missing/queue.db")),
        "the data file cannot be opened: check that its directory exists and may be written"
    );
    // Nobody can make a file there, whoever runs the tests.
    #[cfg(target_os = "linux")]
    assert_eq!(
        refusal(std::path::Path::new("/sys/kernel/queue.db")),
        "the data file cannot be written: it or its directory is read-only"
    );
}

#[test]
fn names_that_mean_something_to_the_database_are_names_of_files() {
    let directory = tempfile::tempdir().unwrap();
    for name in [":memory:", "file:queue.db?mode=memory"] {
        let path = directory.path().join(name);
        drop(Store::open(&path).unwrap());
        assert!(path.is_file(), "{name}");
    }
}

#[test]
fn ids_of_all_kinds_come_back() {
    let mut kept = Kept::new();
    let chosen = [
        "order-1",
        "",
        "018f4e7a-0000-7000-8000-000000000001",
        "018F4E7A-0000-7000-8000-000000000002",
        "018f4e7a000070008000000000000003",
        "ключ 🔑",
    ];
    let given = kept.world.push("q", job());
    for text in chosen {
        assert_eq!(kept.world.push("q", named(text)), id(text));
    }
    kept.commit();
    kept.reopen();
    assert_eq!(kept.world.detail(&given).job.id, given);
    for text in chosen {
        let view = kept.world.detail(&id(text)).job;
        assert_eq!(
            (view.id.to_string().as_str(), view.has_custom_id),
            (text, true)
        );
    }
}

#[test]
fn data_of_every_size_comes_back_also_when_it_grows_and_shrinks() {
    const LARGE: usize = 10 * 1_024 * 1_024;
    let mut kept = Kept::new();
    let sizes = [1_024, 1_025, LARGE];
    let jobs = sizes.map(|size| kept.world.push("q", holding(&vec![size as u8; size])));
    kept.commit();
    // Each size becomes the next one, and at last there is none.
    for round in 0..4 {
        kept.reopen();
        for (at, job) in jobs.iter().enumerate() {
            let size = sizes[(at + round) % 3];
            assert_eq!(
                data(&mut kept, job),
                Some(Payload::new(&vec![size as u8; size]))
            );
            let next = sizes[(at + round + 1) % 3];
            kept.world.ask(UpdateData {
                id: job.clone(),
                data: Some(Payload::new(&vec![next as u8; next])),
            });
        }
        kept.commit();
    }
    for job in &jobs {
        let (id, data) = (job.clone(), None);
        kept.world.ask(UpdateData { id, data });
    }
    kept.commit();
    kept.reopen();
    for job in &jobs {
        assert_eq!(data(&mut kept, job), None);
    }
    kept.close();
    let file = Connection::open(kept.path()).unwrap();
    let apart = file.query_row("SELECT count(*) FROM job_data", [], |row| row.get(0));
    assert_eq!(apart, Ok(0), "nothing is left of what was large");
}

#[test]
fn hard_w1_w2_data_comes_back_byte_for_byte() {
    let mut kept = Kept::new();
    let added: Vec<_> = delicate()
        .into_iter()
        .map(|(what, bytes)| (what, kept.world.push("q", holding(&bytes)), bytes))
        .collect();
    kept.commit();
    kept.reopen();
    for (what, job, bytes) in added {
        assert_eq!(data(&mut kept, &job).unwrap().bytes(), bytes, "{what}");
    }
}

#[test]
fn a_refusal_names_neither_paths_nor_statements() {
    let kept = Kept::new();
    let error = Store::open(&kept.path())
        .map(|_| ())
        .expect_err("it is in use");
    assert!(matches!(error, StoreError::InUse { .. }));
    let text = error.to_string();
    assert!(!text.contains(super::NAME), "{text}");
}
