//! What generators and editors leave behind, and what must never be published (hard case D2).

use bunqueue_mcp::docgen::markdown;
use pulldown_cmark::{Event, Parser, Tag};

use super::{blocks, prose, published, report};

/// Labels of fenced blocks.
const LABELS: [&str; 10] = [
    "json",
    "sh",
    "text",
    "python",
    "js",
    "rust",
    "toml",
    "console",
    "json call",
    "json result",
];
/// Marks of unfinished or machine-made text.
const MARKS: [&str; 11] = [
    "{{",
    "TODO",
    "TBD",
    "FIXME",
    "XXX",
    "lorem",
    "REMOVED",
    "undefined",
    "[object",
    "<SYSTEM>",
    "[](",
];
/// Words of the implementation.
const RUST: [&str; 7] = ["Option<", "Vec<", "::", "uint32", "usize", "serde", "i64"];
/// Places on somebody's machine; in pieces, so that this file names none.
const PLACES: [&str; 8] = [
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/t", "mp/"),
    concat!("/v", "ar/"),
    concat!("/o", "pt/"),
    concat!("/Us", "ers/"),
    concat!("C:", "\\"),
];

#[test]
fn hard_d2_no_leftovers() {
    let mut problems = Vec::new();
    for (path, text) in published() {
        let mut problem = |line: usize, what: &str| problems.push(format!("{path}:{line}: {what}"));
        for (line, content) in text.lines().enumerate() {
            for mark in MARKS
                .iter()
                .chain(&PLACES)
                .filter(|mark| content.contains(**mark))
            {
                problem(line + 1, mark);
            }
            if content.ends_with([' ', '\t']) || content.contains(['\r', '\t']) {
                problem(line + 1, "a trailing blank, a tab or a carriage return");
            }
            for host in hosts(content).filter(|host| !is_neutral(host)) {
                problem(line + 1, &format!("the address {host}"));
            }
        }
        for (line, content) in prose(&text) {
            if content.chars().count() > 400 && !content.starts_with('|') {
                problem(line, "a line over 400 characters");
            }
            // Contributors' texts speak of the implementation.
            if path.contains('/') {
                for word in RUST.iter().filter(|word| content.contains(**word)) {
                    problem(line, word);
                }
            }
        }
        for block in blocks(&text) {
            let is_known = LABELS.contains(&block.label) || block.label.starts_with("json call ");
            if !is_known {
                problem(block.line, &format!("a block labelled {:?}", block.label));
            }
        }
        if !text.ends_with('\n') || text.ends_with("\n\n") || text.starts_with("---") {
            problem(text.lines().count(), "the end of the file, or front matter");
        }
        for event in Parser::new_ext(&text, markdown::options()) {
            match event {
                Event::Html(html) | Event::InlineHtml(html) => problem(0, &format!("HTML {html}")),
                Event::Start(Tag::Image { dest_url, .. }) => {
                    problem(0, &format!("image {dest_url}"))
                }
                _ => {}
            }
        }
    }
    report(&problems);
}

/// What looks like the address of a machine: four numbers, or the part of a mail address or link after its mark.
fn hosts(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|character: char| {
        !character.is_ascii_alphanumeric() && !".-@/:".contains(character)
    });
    words.filter_map(|word| {
        let word = word.trim_matches(['.', ':', '/', '-']);
        let host = word
            .split_once("://")
            .map(|(_, rest)| rest)
            .or_else(|| word.split_once('@').map(|(_, rest)| rest));
        let host = host
            .unwrap_or(word)
            .split(['/', ':'])
            .next()
            .unwrap_or_default();
        let is_address = host.split('.').count() == 4
            && host
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.');
        let is_named = word.contains("://") || (word.contains('@') && host.contains('.'));
        (is_address || is_named).then_some(host)
    })
}

fn is_neutral(host: &str) -> bool {
    let is_version = host
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
        && host.split('.').count() == 3;
    ["127.0.0.1", "0.0.0.0", "example.com", "keepachangelog.com"].contains(&host)
        || host.ends_with(".example")
        || host.ends_with(".example.com")
        || is_version
}

#[test]
fn addresses_are_found_in_text() {
    let line = "mail ann@example.org, see https://a.b.test/x or 10.0.0.7:80, not 127.0.0.1 and bunqueue@2.9.5";
    let found: Vec<_> = hosts(line).filter(|host| !is_neutral(host)).collect();
    assert_eq!(found, ["example.org", "a.b.test", "10.0.0.7"]);
}
