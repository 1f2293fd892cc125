//! Every labelled check of the engine contract is a test with its label in the name.

use std::collections::BTreeSet;
use std::path::Path;

/// Labels by family.
const CHECKS: [(&str, &[u32]); 26] = [
    ("jm", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
    ("id", &[1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ("st", &[1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ("or", &[1, 2, 3, 4, 5, 6, 7, 9, 10, 11]),
    (
        "pu",
        &[
            1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
        ],
    ),
    (
        "pl",
        &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16],
    ),
    ("ak", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
    ("fa", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
    ("sl", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]),
    ("dq", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]),
    (
        "cr",
        &[
            1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 21, 22, 23, 24,
        ],
    ),
    ("rp", &[1, 2]),
    (
        "fl",
        &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17],
    ),
    ("pg", &[1, 2, 3, 4, 5, 6]),
    ("qr", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
    ("mg", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13]),
    ("rl", &[1, 2, 3, 5, 6, 7, 8]),
    ("gr", &[1, 3, 4, 5, 6, 7]),
    ("wk", &[1, 3]),
    ("wh", &[1, 2, 3, 4]),
    ("ev", &[1, 2, 3, 4]),
    ("sx", &[1, 2, 3, 5]),
    ("bg", &[1, 2]),
    ("lm", &[1, 2]),
    // PE-13 lists tables of another program, for whoever wants to read its files.
    ("pe", &[1, 2, 3, 4, 5, 6, 8, 11, 14, 15, 16, 20, 21]),
    // Where the product does better than the reference implementation.
    (
        "b",
        &[
            1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24,
            25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39,
        ],
    ),
];

/// Names of all tests that are run in a tree of sources.
fn tests(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("its entries can be read").path();
        if path.is_dir() {
            tests(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source is text");
            tests_of(&text, names);
        }
    }
}

fn tests_of(source: &str, names: &mut BTreeSet<String>) {
    let (mut is_test, mut is_ignored) = (false, false);
    for line in source.lines().map(str::trim_start) {
        if line.starts_with("#[") {
            is_test |= line == "#[test]" || line.starts_with("#[tokio::test");
            is_ignored |= line.starts_with("#[ignore");
        } else if !line.starts_with("//") {
            let head = line.strip_prefix("async ").unwrap_or(line);
            let name = head
                .strip_prefix("fn ")
                .and_then(|head| head.split('(').next());
            let name = name.filter(|_| is_test && !is_ignored);
            names.extend(name.map(|name| format!("_{name}_")));
            (is_test, is_ignored) = (false, false);
        }
    }
}

#[test]
fn only_tests_that_run_count() {
    let source = "
        #[test]
        /// Says why.
        fn a_1_is_one() {
        fn a_2_is_a_helper() {}
        // #[test]
        fn a_3_is_a_comment() {
        #[test]
        #[ignore]
        fn a_4_is_ignored() {
        #[tokio::test(start_paused = true)]
        async fn a_5_is_one() {
    ";
    let mut names = BTreeSet::new();
    tests_of(source, &mut names);
    assert_eq!(
        names.into_iter().collect::<Vec<_>>(),
        ["_a_1_is_one_", "_a_5_is_one_"]
    );
}

#[test]
fn every_labelled_check_is_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut names = BTreeSet::new();
    for folder in ["src", "tests/it"] {
        tests(&root.join(folder), &mut names);
    }
    let missing: Vec<String> = CHECKS
        .iter()
        .flat_map(|(family, numbers)| {
            numbers
                .iter()
                .map(move |number| format!("_{family}_{number}_"))
        })
        .filter(|label| !names.iter().any(|name| name.contains(label)))
        .collect();
    assert_eq!(missing, [""; 0]);
}
