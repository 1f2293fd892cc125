//! `backup` and `restore`, by the real program.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bunqueue_mcp::storage::Store;

use super::{Kept, NAME, load, names, tamper};
use crate::process;
use crate::world::{World, job, named};

/// What a call of the program has printed, if it has ended with code 0.
fn succeed(arguments: &[&str]) -> String {
    let (code, printed, complaint) = process::run(arguments);
    assert_eq!((code, &*complaint), (Some(0), ""), "{arguments:?}");
    printed
}

/// What it has complained of, if it has ended with code 1.
fn fail(arguments: &[&str]) -> String {
    let (code, printed, complaint) = process::run(arguments);
    assert_eq!((code, &*printed), (Some(1), ""), "{complaint}");
    complaint
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// A file with jobs in several states.
fn filled() -> Kept {
    let mut kept = Kept::new();
    for name in ["a", "b", "c"] {
        kept.world.push("q", named(name));
    }
    kept.world.pull_lock("q", 1e9).expect("ready");
    kept.commit();
    kept
}

fn ids(world: &mut World) -> Vec<String> {
    world.pull_all("q")
}

#[test]
fn a_copy_is_made_and_restored_and_says_what_it_holds() {
    let mut kept = filled();
    let (copy, restored) = (kept.at("copy.db"), kept.at("restored.db"));
    // The file is in use all the while.
    let told = succeed(&["backup", text(&kept.path()), text(&copy)]);
    let bytes = fs::metadata(&copy).unwrap().len();
    assert!(
        told.starts_with(&format!(
            "Copied 3 jobs (2 waiting, 1 active) to {copy:?}: {bytes} bytes in "
        )),
        "{told}"
    );
    let told = succeed(&["restore", text(&copy), text(&restored)]);
    assert!(
        told.starts_with("Restored 3 jobs (2 waiting, 1 active) to "),
        "{told}"
    );
    let (_store, engine) = load(&restored, &kept.world);
    assert_eq!(ids(&mut World::of(engine, kept.world.now)), ["b", "c"]);
    kept.close();
    let left = names(kept.directory.path());
    let expected = ["copy.db", NAME, "queue.db-owner", "restored.db"];
    for name in expected {
        assert!(left.iter().any(|there| there == name), "{name} of {left:?}");
    }
    assert!(!left.iter().any(|name| name.contains("-part-")), "{left:?}");
    assert!(!left.contains(&"copy.db-wal".to_owned()), "{left:?}");
}

#[test]
fn a_copy_is_one_moment_of_a_file_that_is_being_written() {
    let mut kept = Kept::new();
    let (path, copy) = (kept.path(), kept.at("copy.db"));
    kept.world.push_many("q", vec![job(); 2_000]);
    kept.commit();
    let (ended, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Two jobs with each commit: half of one would show as an odd number.
            while !ended.load(Ordering::Acquire) {
                kept.world.push_many("q", vec![job(); 2]);
                kept.commit();
                rounds.fetch_add(1, Ordering::Release);
            }
        });
        while rounds.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        let before = rounds.load(Ordering::Acquire);
        let told = process::run(&["backup", text(&path), text(&copy)]);
        let after = rounds.load(Ordering::Acquire) + 1;
        ended.store(true, Ordering::Release);
        let (code, told, complaint) = told;
        assert_eq!(code, Some(0), "{complaint}");
        let jobs = told.split(' ').nth(1).unwrap().parse::<u64>().unwrap();
        assert_eq!(jobs % 2, 0, "{told}");
        let possible = 2_000 + 2 * before..=2_000 + 2 * after;
        assert!(possible.contains(&jobs), "{jobs} of {possible:?}");
    });
    assert!(rounds.into_inner() > 1);
    let (_store, engine) = load(&copy, &kept.world);
    World::of(engine, kept.world.now).check();
}

#[test]
fn a_copy_takes_no_place_that_is_taken() {
    let kept = filled();
    let (path, copy) = (kept.path(), kept.at("copy.db"));
    fs::write(&copy, "mine").unwrap();
    assert_eq!(
        fail(&["backup", text(&path), text(&copy)]),
        format!(
            "Fatal error: COPY {copy:?}: it exists already: give another path, or --force to replace it\n"
        )
    );
    assert_eq!(fs::read(&copy).unwrap(), b"mine");
    succeed(&["backup", "--force", text(&path), text(&copy)]);
    assert!(fs::metadata(&copy).unwrap().len() > 4);
    let same = fail(&["backup", "--force", text(&path), text(&path)]);
    assert!(same.contains("FILE and COPY are the same file"), "{same}");
    for suffix in ["-wal", "-shm", "-journal", "-owner"] {
        let part = kept.at(&format!("{NAME}{suffix}"));
        let refused = fail(&["backup", "--force", text(&path), text(&part)]);
        let expected = "a file of that name belongs to FILE: give another path";
        assert!(refused.contains(expected), "{refused}");
    }
    let other = filled();
    let used = fail(&["backup", "--force", text(&path), text(&other.path())]);
    assert!(used.contains("is in use by process"), "{used}");
}

#[test]
fn a_copy_of_nothing_or_to_nowhere_is_refused() {
    let kept = filled();
    let missing = kept.at("missing.db");
    let copy = kept.at("copy.db");
    for command in ["backup", "restore"] {
        let none = fail(&[command, text(&missing), text(&copy)]);
        let role = if command == "backup" { "FILE" } else { "COPY" };
        assert_eq!(
            none,
            format!("Fatal error: {role} {missing:?}: there is no such file\n")
        );
    }
    let nowhere = kept.at("no/copy.db");
    let refused = fail(&["backup", text(&kept.path()), text(&nowhere)]);
    assert!(refused.starts_with("Fatal error: COPY "), "{refused}");
    assert!(
        refused.contains("check that its directory exists"),
        "{refused}"
    );
    assert!(!copy.exists());
}

/// A file of no bytes is a database without tables: nothing in it says whose it is.
#[test]
fn an_empty_file_is_called_empty() {
    let kept = filled();
    let empty = kept.at("empty.db");
    fs::write(&empty, "").unwrap();
    let (path, copy) = (kept.path(), kept.at("copy.db"));
    for arguments in [
        ["backup", text(&empty), text(&copy)],
        ["restore", text(&empty), text(&copy)],
    ] {
        let refused = fail(&arguments);
        assert!(
            refused.contains("the data file is empty: no broker has used it yet"),
            "{refused}"
        );
    }
    assert!(!copy.exists());
    let refused = fail(&["restore", text(&path), text(&kept.at("no/new.db"))]);
    assert!(
        refused.contains("check that its directory exists"),
        "{refused}"
    );
    let left = names(kept.directory.path());
    assert!(!left.iter().any(|name| name == "copy.db-owner"), "{left:?}");
}

/// Somebody who reads the file as a database has part of it in the write-ahead file alone.
#[test]
fn a_restore_leaves_a_file_that_another_program_reads() {
    let mut kept = filled();
    let (path, copy) = (kept.path(), kept.at("copy.db"));
    succeed(&["backup", text(&path), text(&copy)]);
    kept.world.push("q", named("later"));
    let reader = rusqlite::Connection::open(&path).unwrap();
    kept.commit();
    let reading = reader.unchecked_transaction().unwrap();
    let count = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
    reading
        .query_row("SELECT count(*) FROM job", [], count)
        .unwrap();
    kept.close();
    let refused = fail(&["restore", "--force", text(&copy), text(&path)]);
    assert!(
        refused.contains("the data file is locked by another program"),
        "{refused}"
    );
    drop(reading);
    drop(reader);
    kept.reopen();
    assert_eq!(ids(&mut kept.world), ["b", "c", "later"]);
}

#[test]
fn a_copy_that_is_not_sound_replaces_nothing() {
    type Spoil = fn(&Path);
    let cases: [(&str, Spoil, &str); 5] = [
        (
            "foreign",
            |path| {
                fs::remove_file(path).unwrap();
                tamper(path, "CREATE TABLE job (id INTEGER)");
            },
            "the data file is a SQLite database of another program",
        ),
        (
            "newer",
            |path| tamper(path, "PRAGMA user_version = 99"),
            "SQLite schema version 99 is newer than supported version 1",
        ),
        (
            "text",
            |path| fs::write(path, "no database at all".repeat(300)).unwrap(),
            "the data file is damaged or no SQLite database",
        ),
        (
            "short",
            |path| {
                let bytes = fs::read(path).unwrap();
                fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
            },
            "damaged",
        ),
        (
            // A sound database, but not what an engine has left there.
            "inconsistent",
            |path| tamper(path, "UPDATE job SET state = 3 WHERE id = 'b'"),
            "the data file is damaged: the job b is active but has no such history",
        ),
    ];
    let mut kept = filled();
    let copy = kept.at("copy.db");
    succeed(&["backup", text(&kept.path()), text(&copy)]);
    kept.close();
    let before = fs::read(kept.path()).unwrap();
    for (name, spoil, expected) in cases {
        let spoilt = kept.at(name);
        fs::copy(&copy, &spoilt).unwrap();
        spoil(&spoilt);
        let refused = fail(&["restore", "--force", text(&spoilt), text(&kept.path())]);
        assert!(
            refused.starts_with(&format!("Fatal error: COPY {spoilt:?}: ")),
            "{refused}"
        );
        assert!(refused.contains(expected), "{name}: {refused}");
        assert!(fs::read(kept.path()).unwrap() == before, "{name}");
    }
    let left = names(kept.directory.path());
    assert!(!left.iter().any(|name| name.contains("-part-")), "{left:?}");
}

#[test]
fn a_restore_leaves_a_file_that_is_used_or_was_not_given_up() {
    let mut kept = filled();
    let copy = kept.at("copy.db");
    succeed(&["backup", text(&kept.path()), text(&copy)]);
    kept.world.push("q", named("later"));
    kept.commit();
    let used = fail(&["restore", "--force", text(&copy), text(&kept.path())]);
    let owner = std::process::id();
    assert_eq!(
        used,
        format!(
            "Fatal error: FILE {:?}: the data file is in use by process {owner}: \
             stop that process, or use another file\n",
            kept.path()
        )
    );
    kept.close();
    let there = fail(&["restore", text(&copy), text(&kept.path())]);
    assert!(
        there.contains("FILE") && there.contains("--force"),
        "{there}"
    );
    let same = fail(&["restore", "--force", text(&copy), text(&copy)]);
    assert!(same.contains("are the same file"), "{same}");
    kept.reopen();
    assert_eq!(ids(&mut kept.world), ["b", "c", "later"]);
}

#[test]
fn a_restore_takes_nothing_over_from_what_a_crash_has_left() {
    let mut kept = filled();
    let (copy, crashed) = (kept.at("copy.db"), kept.at("crashed.db"));
    succeed(&["backup", text(&kept.path()), text(&copy)]);
    kept.world.push("q", named("later"));
    kept.commit();
    // As the process would leave it: what came last stands in the write-ahead file alone.
    for suffix in ["", "-wal"] {
        let name = |path: &Path| format!("{}{suffix}", text(path));
        fs::copy(name(&kept.path()), name(&crashed)).unwrap();
    }
    assert!(fs::metadata(kept.at("crashed.db-wal")).unwrap().len() > 0);
    succeed(&["restore", "--force", text(&copy), text(&crashed)]);
    assert!(!kept.at("crashed.db-wal").exists());
    let (_store, engine) = load(&crashed, &kept.world);
    assert_eq!(ids(&mut World::of(engine, kept.world.now)), ["b", "c"]);
}

#[cfg(unix)]
#[test]
fn a_restore_through_a_link_replaces_what_it_leads_to() {
    let mut kept = filled();
    let (copy, link) = (kept.at("copy.db"), kept.at("link.db"));
    succeed(&["backup", text(&kept.path()), text(&copy)]);
    kept.world.push("q", named("later"));
    kept.commit();
    kept.close();
    std::os::unix::fs::symlink(kept.path(), &link).unwrap();
    succeed(&["restore", "--force", text(&copy), text(&link)]);
    assert!(link.is_symlink());
    kept.reopen();
    assert_eq!(ids(&mut kept.world), ["b", "c"]);
}

#[cfg(unix)]
#[test]
fn nobody_can_read_a_copy_who_cannot_read_the_file() {
    use std::os::unix::fs::PermissionsExt;
    let mut kept = filled();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let copy = kept.at("copy.db");
    set(&kept.path(), 0o600);
    succeed(&["backup", text(&kept.path()), text(&copy)]);
    assert_eq!(mode(&copy), 0o600);
    // And whoever could use the file still can.
    kept.close();
    set(&kept.path(), 0o640);
    succeed(&["restore", "--force", text(&copy), text(&kept.path())]);
    assert_eq!(mode(&kept.path()), 0o640);
    drop(Store::open(&kept.path()).unwrap());
}

#[test]
fn help_names_what_both_take() {
    for command in ["backup", "restore"] {
        let help = succeed(&[command, "--help"]);
        for word in ["<FILE>", "<COPY>", "--force"] {
            assert!(help.contains(word), "{help}");
        }
        let (code, _, complaint) = process::run(&[command, "one.db"]);
        assert_eq!(code, Some(2), "{complaint}");
    }
}
