//! What is published is true, well formed and complete: the pages, the files for models, and what they say.
//!
//! `UPDATE=1` rewrites the generated files and nothing else. Texts are read as a user gets them: pages from the
//! site that a broker serves, the files at the root of the repository from the disk.

mod commands;
mod examples;
mod form;
mod leftovers;
mod links;
mod truth;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use bunqueue_mcp::docgen::Documentation;
use bunqueue_mcp::mcp::Registry;

static REGISTRY: LazyLock<Arc<Registry>> = LazyLock::new(|| Arc::new(Registry::new().unwrap()));
static DOCUMENTATION: LazyLock<Documentation> =
    LazyLock::new(|| Documentation::new(&REGISTRY).unwrap());

/// The files at the root that people read.
const ROOT_PAGES: [&str; 4] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
];

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = repository().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A page as it is rendered.
fn page(path: &str) -> &'static str {
    let page = DOCUMENTATION.pages.iter().find(|page| page.path == path);
    &page.unwrap_or_else(|| panic!("no page {path}")).text
}

/// Every text that is published, by path in the repository.
fn published() -> BTreeMap<String, String> {
    let mut texts = DOCUMENTATION.generated();
    for page in &DOCUMENTATION.pages {
        texts.insert(page.path.clone(), page.text.clone());
    }
    for path in ROOT_PAGES {
        texts.insert(path.to_owned(), read(path));
    }
    texts
}

/// The pages written by hand, by path; those of the root included.
fn written() -> BTreeMap<String, String> {
    let generated = DOCUMENTATION.generated();
    let mut texts = published();
    texts.retain(|path, _| !generated.contains_key(path));
    texts
}

/// Fails with every problem that there is.
fn report(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

/// A fenced block: where it begins, how it is labelled, what it holds.
struct Block<'a> {
    line: usize,
    label: &'a str,
    text: String,
}

/// The fenced blocks of a page. Fences are three backticks at the start of a line, which `leftovers` holds.
fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block<'_>> = None;
    for (index, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(label), None) => {
                let text = String::new();
                open = Some(Block {
                    line: index + 1,
                    label,
                    text,
                });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a fence is not closed");
    blocks
}

/// The page without its fenced blocks, line by line, each line with its number.
fn prose(page: &str) -> Vec<(usize, &str)> {
    let mut is_code = false;
    let lines = page.lines().enumerate().filter(|(_, line)| {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        !is_fence && !is_code
    });
    lines.map(|(index, line)| (index + 1, line)).collect()
}

/// The texts of inline code.
fn code_spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}
