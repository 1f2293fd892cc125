//! Reads `toolsets/*.md`: why and when to use the tools of a toolset, and examples that are executed.
//!
//! The shape is strict: one title that is the toolset's id, paragraphs that say what it is for, then a
//! section for each tool with paragraphs (the first is the description that every agent gets) and fenced
//! blocks `json call`, each followed by at most one `json result` or `json error`. Everything else is a
//! fault; the reader goes on and reports all of them.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Parser, Tag, TagEnd};
use serde_json::Value;
use thiserror::Error;

/// A prose file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// Its title.
    pub id: String,
    /// Paragraphs before the first section, as Markdown.
    pub summary: Vec<String>,
    /// One per tool.
    pub sections: Vec<Section>,
}

/// What a prose file says of one tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// The heading.
    pub name: String,
    /// The first paragraph, on one line.
    pub description: String,
    /// The other paragraphs and lists, as Markdown.
    pub notes: Vec<String>,
    /// In order.
    pub examples: Vec<Example>,
}

/// A call of a tool and what it answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// The arguments.
    pub call: Value,
    /// What the answer must look like, when that is part of the example.
    pub answer: Option<ExpectedAnswer>,
}

/// A pattern of an answer: listed members must match, others are free.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpectedAnswer {
    /// The pattern.
    pub pattern: Value,
    /// The call is refused.
    pub is_error: bool,
}

/// What is wrong with a prose file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {kind}")]
pub struct Fault {
    /// From 1.
    pub line: usize,
    /// What.
    pub kind: FaultKind,
}

/// The ways in which a prose file can be wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FaultKind {
    /// A second title, or a heading below sections.
    #[error("only one title and sections of the second level are allowed")]
    Heading,
    /// A block that has no place here.
    #[error("only paragraphs, lists and examples are allowed")]
    Block,
    /// A fenced block that is no part of an example.
    #[error("a fenced block is \"json call\", \"json result\" or \"json error\", not {0:?}")]
    Fence(String),
    /// An example before the first section.
    #[error("an example belongs to a tool")]
    Homeless,
    /// A result without a call before it.
    #[error("an answer needs a call before it")]
    NoCall,
    /// An example that is not a JSON object.
    #[error("an example must be a JSON object{0}")]
    NotJson(String),
}

/// Reads a prose file, and everything that is wrong with it.
pub fn read(text: &str) -> (Page, Vec<Fault>) {
    let mut reader = Reader {
        text,
        page: Page::default(),
        faults: Vec::new(),
    };
    let mut open: Option<(Tag<'_>, Range<usize>)> = None;
    let mut depth = 0_usize;
    let mut literal = String::new();
    for (event, range) in Parser::new(text).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                if depth == 0 {
                    literal.clear();
                    open = Some((tag, range));
                }
                depth += 1;
            }
            Event::End(end) => {
                depth -= 1;
                if depth == 0
                    && let Some((tag, range)) = open.take()
                {
                    reader.block(&tag, end, range, &literal);
                }
            }
            Event::Text(part) | Event::Code(part) => literal.push_str(&part),
            // Rules and HTML stand outside of blocks.
            _ if depth == 0 => reader.fault(range.start, FaultKind::Block),
            _ => {}
        }
    }
    (reader.page, reader.faults)
}

struct Reader<'a> {
    text: &'a str,
    page: Page,
    faults: Vec<Fault>,
}

impl Reader<'_> {
    fn block(&mut self, tag: &Tag<'_>, end: TagEnd, range: Range<usize>, literal: &str) {
        match (tag, end) {
            (
                Tag::Heading {
                    level: HeadingLevel::H1,
                    ..
                },
                _,
            ) if self.page.id.is_empty() => {
                literal.clone_into(&mut self.page.id);
            }
            (
                Tag::Heading {
                    level: HeadingLevel::H2,
                    ..
                },
                _,
            ) => {
                self.page.sections.push(Section {
                    name: literal.to_owned(),
                    ..Section::default()
                });
            }
            (Tag::Heading { .. }, _) => self.fault(range.start, FaultKind::Heading),
            (Tag::Paragraph | Tag::List(_), _) => self.words(matches!(tag, Tag::Paragraph), range),
            (Tag::CodeBlock(kind), _) => {
                let info = match kind {
                    CodeBlockKind::Fenced(info) => info.as_ref(),
                    CodeBlockKind::Indented => "",
                };
                self.example(info, range.start, literal);
            }
            _ => self.fault(range.start, FaultKind::Block),
        }
    }

    fn words(&mut self, is_paragraph: bool, range: Range<usize>) {
        let source = self.text.get(range).unwrap_or_default().trim().to_owned();
        match self.page.sections.last_mut() {
            None => self.page.summary.push(source),
            Some(section) if is_paragraph && section.description.is_empty() => {
                section.description = source.split_whitespace().collect::<Vec<_>>().join(" ");
            }
            Some(section) => section.notes.push(source),
        }
    }

    fn example(&mut self, info: &str, at: usize, literal: &str) {
        let is_error = match info {
            "json call" | "json result" => false,
            "json error" => true,
            _ => return self.fault(at, FaultKind::Fence(info.to_owned())),
        };
        let value = match serde_json::from_str::<Value>(literal) {
            Ok(value) if value.is_object() => value,
            Ok(_) => return self.fault(at, FaultKind::NotJson(String::new())),
            Err(error) => return self.fault(at, FaultKind::NotJson(format!(": {error}"))),
        };
        let Some(section) = self.page.sections.last_mut() else {
            return self.fault(at, FaultKind::Homeless);
        };
        if info == "json call" {
            section.examples.push(Example {
                call: value,
                answer: None,
            });
            return;
        }
        match section.examples.last_mut() {
            Some(example) if example.answer.is_none() => {
                example.answer = Some(ExpectedAnswer {
                    pattern: value,
                    is_error,
                });
            }
            _ => self.fault(at, FaultKind::NoCall),
        }
    }

    fn fault(&mut self, at: usize, kind: FaultKind) {
        let line = 1 + self
            .text
            .bytes()
            .take(at)
            .filter(|byte| *byte == b'\n')
            .count();
        self.faults.push(Fault { line, kind });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PAGE: &str = "# queues\n\nWhat it is for.\n\n## bunqueue_pause_queue\n\nStop handing out\njobs. Undo with `bunqueue_resume_queue`.\n\n\
        New jobs are *still* accepted.\n\n- one\n- two\n\n```json call\n{ \"queue\": \"email\" }\n```\n\n```json result\n{ \"success\": true }\n```\n\n\
        ```json call\n{}\n```\n\n```json error\n{ \"code\": \"invalid_arguments\" }\n```\n";

    #[test]
    fn a_page_is_read_as_written() {
        let (page, faults) = read(PAGE);
        assert_eq!(faults, []);
        assert_eq!(page.id, "queues");
        assert_eq!(page.summary, ["What it is for."]);
        let [section] = page.sections.as_slice() else {
            panic!("{page:?}")
        };
        assert_eq!(section.name, "bunqueue_pause_queue");
        assert_eq!(
            section.description,
            "Stop handing out jobs. Undo with `bunqueue_resume_queue`."
        );
        assert_eq!(
            section.notes,
            ["New jobs are *still* accepted.", "- one\n- two"]
        );
        assert_eq!(section.examples.len(), 2);
        assert_eq!(section.examples[0].call, json!({ "queue": "email" }));
        assert_eq!(
            section.examples[0].answer,
            Some(ExpectedAnswer {
                pattern: json!({ "success": true }),
                is_error: false
            })
        );
        assert!(section.examples[1].answer.as_ref().unwrap().is_error);
    }

    #[test]
    fn every_fault_is_reported_with_its_line() {
        let text = "# a\n\n```json call\n{}\n```\n\n## t\n\nText.\n\n# b\n\n### c\n\n---\n\n```sh\nls\n```\n\n```json result\n{}\n```\n\n\
            ```json call\n[1]\n```\n\n```json call\n{\n```\n\n> quote\n";
        let (_, faults) = read(text);
        let found: Vec<_> = faults
            .iter()
            .map(|fault| (fault.line, std::mem::discriminant(&fault.kind)))
            .collect();
        let kind = |kind: FaultKind| std::mem::discriminant(&kind);
        assert_eq!(
            found,
            [
                (3, kind(FaultKind::Homeless)),
                (11, kind(FaultKind::Heading)),
                (13, kind(FaultKind::Heading)),
                (15, kind(FaultKind::Block)),
                (17, kind(FaultKind::Fence(String::new()))),
                (21, kind(FaultKind::NoCall)),
                (25, kind(FaultKind::NotJson(String::new()))),
                (29, kind(FaultKind::NotJson(String::new()))),
                (33, kind(FaultKind::Block)),
            ]
        );
    }
}
