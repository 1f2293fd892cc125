//! Every link leads somewhere, and every page can be reached (hard case D2).

use std::collections::{BTreeMap, BTreeSet};

use bunqueue_mcp::docgen::{self, BASE, markdown, repository_path};

use super::{DOCUMENTATION, published, read, report, repository};

/// Addresses outside the project. Open each of them before a release.
const EXTERNAL: [&str; 1] = ["https://keepachangelog.com/en/1.1.0/"];

/// Where a link of a published text leads: a path in the repository with an anchor, or nothing for an address outside.
fn target(from: &str, destination: &str) -> Option<String> {
    if let Some(path) = destination.strip_prefix(BASE) {
        let path = path.trim_start_matches('/');
        let (path, anchor) = path.split_once('#').unwrap_or((path, ""));
        return Some(format!("{}#{anchor}", repository_path(path)));
    }
    if markdown::is_external(destination) {
        return None;
    }
    let resolved = markdown::resolve(from, destination);
    Some(if resolved.contains('#') {
        resolved
    } else {
        format!("{resolved}#")
    })
}

fn anchors(texts: &BTreeMap<String, String>, path: &str) -> Option<BTreeSet<String>> {
    let on_disk = || repository().join(path).is_file().then(|| read(path));
    let text = texts.get(path).cloned().or_else(on_disk)?;
    let anchors = markdown::headings(&text)
        .into_iter()
        .map(|heading| heading.anchor);
    Some(anchors.chain([String::new()]).collect())
}

#[test]
fn hard_d2_every_link_leads_to_a_file_and_a_heading() {
    let texts = published();
    let mut problems = Vec::new();
    for (path, text) in &texts {
        for link in markdown::links(text) {
            let name = format!("{path}: [{}]({})", link.text, link.destination);
            if !link.is_inline || link.text.is_empty() || link.destination.is_empty() {
                problems.push(format!("{name}: only [text](destination)"));
            }
            let Some(target) = target(path, &link.destination) else {
                if !EXTERNAL.contains(&link.destination.as_str()) {
                    problems.push(format!("{name}: not in the list of external links"));
                }
                continue;
            };
            let (file, anchor) = target.split_once('#').unwrap();
            match anchors(&texts, file) {
                None => problems.push(format!("{name}: no such file")),
                Some(anchors) if !anchors.contains(anchor) => {
                    problems.push(format!("{name}: no such heading"));
                }
                Some(_) => {}
            }
        }
    }
    report(&problems);
}

#[test]
fn hard_d2_links_for_models_are_absolute() {
    for (path, text) in &DOCUMENTATION.models {
        for link in markdown::links(text) {
            assert!(
                link.destination.starts_with(&format!("{BASE}/")),
                "{path}: {link:?}"
            );
        }
    }
}

#[test]
fn links_inside_the_pages_are_relative() {
    for page in &DOCUMENTATION.pages {
        for link in markdown::links(&page.text) {
            assert!(
                !markdown::is_external(&link.destination),
                "{}: {link:?}",
                page.path
            );
            let target = markdown::resolve(&page.path, &link.destination);
            assert!(
                target.starts_with("docs/"),
                "{}: {link:?} leaves the site",
                page.path
            );
        }
    }
}

#[test]
fn every_page_can_be_reached() {
    let texts = published();
    for start in ["docs/README.md", "llms/llms.txt"] {
        let mut reached = BTreeSet::new();
        let mut open = vec![start.to_owned()];
        while let Some(path) = open.pop() {
            let Some(text) = texts.get(&path).filter(|_| reached.insert(path.clone())) else {
                continue;
            };
            let links = markdown::links(text).into_iter();
            let targets = links.filter_map(|link| target(&path, &link.destination));
            open.extend(targets.map(|target| target.split_once('#').unwrap().0.to_owned()));
        }
        for page in &DOCUMENTATION.pages {
            assert!(
                reached.contains(&page.path),
                "{} is not reached from {start}",
                page.path
            );
        }
    }
}

#[test]
fn every_file_of_the_folder_is_a_page() {
    let mut open = vec![repository().join("docs")];
    let mut files = BTreeSet::new();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let path = path.strip_prefix(repository()).unwrap();
                files.insert(path.to_str().unwrap().replace('\\', "/"));
            }
        }
    }
    let pages: BTreeSet<_> = DOCUMENTATION
        .pages
        .iter()
        .map(|page| page.path.clone())
        .collect();
    assert_eq!(files, pages);
}

#[test]
fn a_broker_can_put_its_own_address_into_every_link() {
    let site = docgen::site_at("http://127.0.0.1:6790/");
    assert_eq!(
        site.keys().collect::<Vec<_>>(),
        docgen::site().keys().collect::<Vec<_>>()
    );
    for (page, text) in &site {
        assert!(!text.contains(BASE), "{page}");
        for link in markdown::links(text) {
            if let Some(target) = link.destination.strip_prefix("http://127.0.0.1:6790/") {
                let path = target.split('#').next().unwrap();
                assert!(site.contains_key(path), "{page}: {path}");
            }
        }
    }
}

#[test]
fn a_page_is_found_by_its_path_or_its_name() {
    assert!(
        docgen::page("llms.txt")
            .unwrap()
            .starts_with("# bunqueue-mcp\n")
    );
    assert_eq!(
        docgen::page("docs/concepts/delivery.md"),
        docgen::page("concepts/delivery")
    );
    assert!(docgen::page("concepts/delivery").is_some());
    assert_eq!(docgen::page("docs/../Cargo.toml"), None);
}
