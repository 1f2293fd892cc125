//! Markdown that is edited in place: headings and links are found by the parser and changed by byte range, so
//! that every other byte of a page stays as its author wrote it.
//!
//! Nothing is rendered from a parse tree, and nothing is found by pattern: code spans and blocks are left alone
//! because the parser knows them.

use std::collections::HashMap;
use std::ops::Range;

use pulldown_cmark::{Event, HeadingLevel, LinkType, Options, Parser, Tag, TagEnd};

/// A heading of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// From 1.
    pub level: usize,
    /// Its text without markup.
    pub title: String,
    /// Where a link to it points, without `#`; unique in the page.
    pub anchor: String,
    /// Its bytes, markup included.
    pub range: Range<usize>,
}

/// A link of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its text without markup.
    pub text: String,
    /// Where it points.
    pub destination: String,
    /// The bytes of the destination.
    pub range: Range<usize>,
    /// It is written as `[text](destination)`; other forms cannot be edited.
    pub is_inline: bool,
}

/// How every page is read.
pub fn options() -> Options {
    Options::ENABLE_TABLES
}

/// The headings, in order.
pub fn headings(text: &str) -> Vec<Heading> {
    let mut headings: Vec<Heading> = Vec::new();
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut open: Option<(HeadingLevel, Range<usize>, String)> = None;
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        match (event, &mut open) {
            (Event::Start(Tag::Heading { level, .. }), _) => {
                open = Some((level, range, String::new()));
            }
            (Event::Text(part) | Event::Code(part), Some((_, _, title))) => title.push_str(&part),
            (Event::End(TagEnd::Heading(_)), _) => {
                let Some((level, range, title)) = open.take() else {
                    continue;
                };
                let anchor = unique(slug(&title), &mut seen);
                headings.push(Heading {
                    level: level as usize,
                    title,
                    anchor,
                    range,
                });
            }
            _ => {}
        }
    }
    headings
}

/// The anchor of a heading, as hosts of Markdown make it.
pub fn slug(title: &str) -> String {
    let kept = title.chars().filter_map(|character| match character {
        ' ' => Some('-'),
        '-' | '_' => Some(character),
        _ => character.is_alphanumeric().then_some(character),
    });
    kept.flat_map(char::to_lowercase).collect()
}

fn unique(slug: String, seen: &mut HashMap<String, usize>) -> String {
    let count = seen.entry(slug.clone()).or_default();
    *count += 1;
    match *count {
        1 => slug,
        repeated => format!("{slug}-{}", repeated - 1),
    }
}

/// The links, in order. An image is no link.
pub fn links(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    let mut open: Option<OpenLink> = None;
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        match event {
            Event::Start(Tag::Link {
                link_type,
                dest_url,
                ..
            }) => {
                open = Some(OpenLink {
                    is_inline: link_type == LinkType::Inline,
                    destination: dest_url.into_string(),
                    text: String::new(),
                    inner_end: range.start + 1,
                });
            }
            Event::End(TagEnd::Link) => {
                links.extend(open.take().map(|link| link.close(text, range)))
            }
            event => {
                if let Some(link) = &mut open {
                    link.inner_end = link.inner_end.max(range.end);
                    if let Event::Text(part) | Event::Code(part) = event {
                        link.text.push_str(&part);
                    }
                }
            }
        }
    }
    links
}

struct OpenLink {
    is_inline: bool,
    destination: String,
    text: String,
    /// Where its text ends.
    inner_end: usize,
}

impl OpenLink {
    fn close(self, text: &str, whole: Range<usize>) -> Link {
        let rest = text.get(self.inner_end..whole.end).unwrap_or_default();
        // The destination follows the text and `](`; it is found again there as it is written.
        let place = rest.find(&self.destination).filter(|_| self.is_inline);
        let range = place.map_or(whole, |place| {
            let start = self.inner_end + place;
            start..start + self.destination.len()
        });
        Link {
            text: self.text,
            destination: self.destination,
            range,
            is_inline: self.is_inline && place.is_some(),
        }
    }
}

/// The page with other link destinations; `None` from `destination` keeps one as it is.
pub fn with_destinations(text: &str, destination: impl Fn(&str) -> Option<String>) -> String {
    let edits = links(text).into_iter().filter(|link| link.is_inline);
    splice(
        text,
        edits.filter_map(|link| Some((link.range, destination(&link.destination)?))),
    )
}

/// The text with each range replaced; ranges are in order and do not overlap.
fn splice(text: &str, edits: impl Iterator<Item = (Range<usize>, String)>) -> String {
    let mut spliced = String::with_capacity(text.len());
    let mut at = 0;
    for (range, replacement) in edits {
        spliced.push_str(text.get(at..range.start).unwrap_or_default());
        spliced.push_str(&replacement);
        at = range.end;
    }
    spliced.push_str(text.get(at..).unwrap_or_default());
    spliced
}

/// The title of a page and what follows it.
pub fn split_title(text: &str) -> Option<(String, &str)> {
    let title = headings(text).into_iter().next()?;
    let rest = text.get(title.range.end..)?;
    (title.level == 1 && title.range.start == 0).then(|| (title.title, rest.trim_start()))
}

/// Where `link` leads from `page`, both paths from the root, `..` resolved; an anchor stays.
pub fn resolve(page: &str, link: &str) -> String {
    let (path, anchor) = link
        .find('#')
        .map_or((link, ""), |place| link.split_at(place));
    if path.is_empty() {
        return format!("{page}{anchor}");
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    format!("{}{anchor}", parts.join("/"))
}

/// A destination outside the project.
pub fn is_external(destination: &str) -> bool {
    destination.contains("://")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# One `two`\n\nA [link](a.md#b), `[no](c.md)`, [*x* `y`](<d.md> \"title\") & more  \n\n\
        ```md\n[no](e.md)\n# no\n```\n\n| [t](f.md) | b |\n| --- | --- |\n| [u](https://a.example/) | <g> |\n\n## Two\n\n## Two\n\n[r]: h.md\n";

    #[test]
    fn headings_have_unique_anchors() {
        let found: Vec<_> = headings(PAGE)
            .into_iter()
            .map(|heading| (heading.level, heading.title, heading.anchor))
            .collect();
        let expected = [
            (1, "One two", "one-two"),
            (2, "Two", "two"),
            (2, "Two", "two-1"),
        ];
        let expected =
            expected.map(|(level, title, anchor)| (level, title.to_owned(), anchor.to_owned()));
        assert_eq!(found, expected);
    }

    #[test]
    fn anchors_keep_underscores_and_drop_marks() {
        assert_eq!(slug("bunqueue_add_job"), "bunqueue_add_job");
        assert_eq!(slug("Why not … a macro?"), "why-not--a-macro");
    }

    #[test]
    fn links_are_found_where_the_parser_sees_them() {
        let found: Vec<_> = links(PAGE)
            .into_iter()
            .map(|link| (link.text, link.destination))
            .collect();
        let expected = [
            ("link", "a.md#b"),
            ("x y", "d.md"),
            ("t", "f.md"),
            ("u", "https://a.example/"),
        ];
        assert_eq!(
            found,
            expected.map(|(text, to)| (text.to_owned(), to.to_owned()))
        );
    }

    #[test]
    fn an_edit_that_changes_nothing_changes_no_byte() {
        assert_eq!(with_destinations(PAGE, |_| None), PAGE);
        assert_eq!(with_destinations(PAGE, |to| Some(to.to_owned())), PAGE);
    }

    #[test]
    fn destinations_change_and_nothing_else() {
        let edited = with_destinations(PAGE, |to| to.contains(".md").then(|| format!("/x/{to}")));
        let by_hand = PAGE
            .replace("(a.md#b)", "(/x/a.md#b)")
            .replace("(<d.md>", "(</x/d.md>")
            .replace("(f.md)", "(/x/f.md)");
        assert_eq!(edited, by_hand);
    }

    #[test]
    fn a_title_is_the_first_line() {
        let (title, rest) = split_title("# A\n\nb\n").unwrap();
        assert_eq!((title.as_str(), rest), ("A", "b\n"));
        assert_eq!(split_title("a\n\n# B\n"), None);
        assert_eq!(split_title("## A\n"), None);
    }

    #[test]
    fn links_resolve_against_their_page() {
        assert_eq!(resolve("docs/a/b.md", "c.md#d"), "docs/a/c.md#d");
        assert_eq!(resolve("docs/a/b.md", "../e/f.md"), "docs/e/f.md");
        assert_eq!(resolve("docs/a/b.md", "#g"), "docs/a/b.md#g");
        assert_eq!(resolve("README.md", "./docs/x.md"), "docs/x.md");
    }
}
