//! Every labelled check of the engine contract is a test with its label in the name; those that need a disk or a restart
//! come with the store.

use std::collections::BTreeSet;
use std::path::Path;

/// Labels by family, without those of persistence.
const CHECKS: [(&str, &[u32]); 25] = [
    ("jm", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
    ("id", &[1, 2, 3, 4, 5, 6, 7, 8]),
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
    ("sl", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]),
    ("dq", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]),
    (
        "cr",
        &[
            1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 21, 22, 23, 24,
        ],
    ),
    ("rp", &[1, 2]),
    ("fl", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 16, 17]),
    ("pg", &[1, 2, 3, 4, 5, 6]),
    ("qr", &[1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ("mg", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13]),
    ("rl", &[1, 2, 3, 5, 6, 7, 8]),
    ("gr", &[1, 3, 4, 5, 6, 7]),
    ("wk", &[1, 3]),
    ("wh", &[1, 2, 3, 4]),
    ("ev", &[1, 2, 3, 4]),
    ("sx", &[1, 2, 3, 5]),
    ("bg", &[1, 2]),
    ("lm", &[1, 2]),
    // Where the product does better than the reference implementation.
    (
        "b",
        &[
            1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 15, 16, 17, 18, 19, 20, 21, 23, 24, 25, 26, 27, 28,
            29, 31, 33, 34, 35, 36, 37, 38, 39,
        ],
    ),
];

/// Names of all functions in a tree of sources.
fn functions(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("its entries can be read").path();
        if path.is_dir() {
            functions(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source is text");
            let heads = text
                .lines()
                .filter_map(|line| line.split_once("fn ").map(|(_, head)| head));
            names.extend(
                heads
                    .filter_map(|head| head.split('(').next())
                    .map(|name| format!("_{name}_")),
            );
        }
    }
}

#[test]
fn every_labelled_check_is_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut names = BTreeSet::new();
    for folder in ["src", "tests/it"] {
        functions(&root.join(folder), &mut names);
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
