//! The form of the index for models (llmstxt.org), and the sizes of what is published.

use std::collections::BTreeSet;

use bunqueue_mcp::docgen::{BASE, markdown};

use super::{DOCUMENTATION, REGISTRY, report};

fn index() -> &'static str {
    &DOCUMENTATION.models["llms.txt"]
}

#[test]
fn the_index_has_the_form_of_llms_txt() {
    let text = index();
    let headings = markdown::headings(text);
    assert_eq!(headings[0].level, 1);
    assert_eq!(headings[0].range.start, 0);
    assert!(
        headings.iter().skip(1).all(|heading| heading.level == 2),
        "{headings:?}"
    );
    assert!(headings.len() > 2);
    let after_title = text[headings[0].range.end..].trim_start();
    assert!(after_title.starts_with("> "), "{after_title:.40}");
    assert_eq!(headings.last().unwrap().title, "Optional");
}

#[test]
fn every_entry_of_the_index_is_a_link_with_a_note() {
    let mut urls = BTreeSet::new();
    let mut problems = Vec::new();
    let lists = index().lines().skip_while(|line| !line.starts_with("## "));
    for line in lists.filter(|line| !line.is_empty() && !line.starts_with("## ")) {
        let entry = line
            .strip_prefix("- [")
            .and_then(|line| line.split_once("]("));
        let parts = entry.and_then(|(title, rest)| Some((title, rest.split_once("): ")?)));
        let Some((title, (url, note))) = parts else {
            problems.push(format!("no entry: {line}"));
            continue;
        };
        if !(20..=160).contains(&note.chars().count()) {
            problems.push(format!(
                "{} characters of note: {line}",
                note.chars().count()
            ));
        }
        if note.eq_ignore_ascii_case(title) {
            problems.push(format!("the note says the title again: {line}"));
        }
        if !urls.insert(url) {
            problems.push(format!("twice: {url}"));
        }
    }
    report(&problems);
}

#[test]
fn the_joined_file_follows_the_index() {
    let urls = |text: &str| -> Vec<String> {
        let urls = text
            .lines()
            .filter_map(|line| line.strip_prefix("Source: "));
        urls.map(|url| url.strip_prefix(BASE).unwrap().to_owned())
            .collect()
    };
    let lists = &index()[index().find("\n## ").unwrap()..];
    let listed: Vec<_> = markdown::links(lists)
        .into_iter()
        .map(|link| link.destination.strip_prefix(BASE).unwrap().to_owned())
        .filter(|path| path != "/llms-full.txt")
        .map(|path| match path.strip_prefix("/llms/") {
            // A toolset stands in the joined file as its page.
            Some(file) => format!("/docs/tools/{}", file.replace(".txt", ".md")),
            None => path,
        })
        .collect();
    let full = &DOCUMENTATION.models["llms-full.txt"];
    assert_eq!(urls(full), listed);

    let titles = markdown::headings(full)
        .into_iter()
        .filter(|heading| heading.level == 1);
    assert_eq!(titles.count(), listed.len());
    for (index, line) in full.lines().enumerate() {
        if line.starts_with("Source: ") {
            assert!(
                full.lines().nth(index - 1).unwrap().starts_with("# "),
                "{line}"
            );
        }
    }
}

#[test]
fn each_toolset_has_a_file_that_stands_alone() {
    for toolset in REGISTRY.toolsets() {
        let file = &DOCUMENTATION.models[&format!("llms/{}.txt", toolset.id)];
        assert!(file.starts_with(&format!("# {}\n", toolset.id)));
        for tool in REGISTRY.tools_of(toolset.id) {
            assert!(file.contains(&format!("\n## {}\n\n{}\n", tool.name, tool.description)));
        }
        assert!(DOCUMENTATION.models["llms-full.txt"].contains(file.trim_end()));
    }
}

#[test]
fn nothing_is_too_large() {
    let mut problems = Vec::new();
    for page in &DOCUMENTATION.pages {
        if page.text.len() >= 40_000 {
            problems.push(format!("{}: {} bytes", page.path, page.text.len()));
        }
    }
    for (path, text) in &DOCUMENTATION.models {
        let max = match path.as_str() {
            "llms.txt" => 8_000,
            "llms-full.txt" => 400_000,
            _ => 32_000,
        };
        if text.len() >= max {
            problems.push(format!("{path}: {} bytes of {max}", text.len()));
        }
    }
    report(&problems);
}

#[test]
fn every_page_has_one_title_and_no_empty_section() {
    let mut problems = Vec::new();
    for page in &DOCUMENTATION.pages {
        let headings = markdown::headings(&page.text);
        let titles = headings.iter().filter(|heading| heading.level == 1);
        if titles.count() != 1 || headings[0].level != 1 {
            problems.push(format!("{}: one title, first", page.path));
        }
        for (heading, next) in headings.iter().zip(headings.iter().skip(1)) {
            if next.level > heading.level + 1 {
                problems.push(format!("{}: {} skips a level", page.path, next.title));
            }
            let between = page.text[heading.range.end..next.range.start].trim();
            if between.is_empty() && next.level <= heading.level {
                problems.push(format!("{}: {} is empty", page.path, heading.title));
            }
        }
    }
    report(&problems);
}
