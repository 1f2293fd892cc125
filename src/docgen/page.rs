//! The pages in reading order. The index for models, the joined file and the site all follow it.
//!
//! A hand-written page is one entry here; its text is part of the program, so that a broker serves what its version
//! says. Generated pages join in `mod.rs`.

/// A part of the documentation, which is also a section of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Guides with one goal.
    Start,
    /// What holds and why.
    Concepts,
    /// One page per toolset.
    Toolsets,
    /// What whoever runs a broker does.
    Operations,
    /// Everything, enumerated.
    Reference,
    /// What a model may skip.
    Optional,
}

impl Part {
    /// In reading order.
    pub const ALL: [Self; 6] = [
        Self::Start,
        Self::Concepts,
        Self::Toolsets,
        Self::Operations,
        Self::Reference,
        Self::Optional,
    ];

    /// Its heading in the index.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Start => "Start",
            Self::Concepts => "Concepts",
            Self::Toolsets => "Toolsets",
            Self::Operations => "Operations",
            Self::Reference => "Reference",
            Self::Optional => "Optional",
        }
    }
}

/// A page of the documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its path from the root of the site, and of the repository.
    pub path: String,
    /// Where it belongs.
    pub part: Part,
    /// When to open it: 20 to 160 characters.
    pub note: String,
    /// Its Markdown.
    pub text: String,
    /// Nobody edits it by hand.
    pub is_generated: bool,
}

impl Page {
    /// A page that is rendered.
    pub(super) fn generated(path: &str, part: Part, note: &str, text: String) -> Self {
        Self {
            path: path.to_owned(),
            part,
            note: note.to_owned(),
            text,
            is_generated: true,
        }
    }
}

/// Embeds the pages, each with its path once.
macro_rules! written {
    ($($part:ident $path:literal: $note:literal,)+) => {
        /// The hand-written pages, in reading order.
        pub(super) fn written() -> Vec<Page> {
            vec![$(Page {
                path: $path.to_owned(),
                part: Part::$part,
                note: $note.to_owned(),
                text: include_str!(concat!("../../", $path)).to_owned(),
                is_generated: false,
            },)+]
        }
    };
}

written! {
    Start "docs/start/connect-an-agent.md":
        "configuration for agent hosts on stdio and HTTP, tokens, showing fewer tools",
    Start "docs/start/first-queue.md":
        "the main job from an agent's side: add, pull, ack, look at the outcome, with real answers",
    Start "docs/start/first-worker.md":
        "a program in Python, JavaScript or Rust that does jobs over TCP",
    Concepts "docs/concepts/lifecycle.md":
        "the states of a job and every transition with its cause; read it when a state surprises you",
    Concepts "docs/concepts/delivery.md":
        "at least once, locks and tokens, what a lost worker costs, retries, order, adding once",
    Concepts "docs/concepts/one-broker-two-doors.md":
        "which process holds the queues, what agents and workers see of each other, values JSON cannot hold",
    Concepts "docs/concepts/glossary.md":
        "one word per concept, and what each verb does to a job in each state",
    Operations "docs/operations/backup-and-restore.md":
        "copy a data file while a broker uses it, put a copy back, what is checked, what is not in a copy",
    Optional "docs/README.md":
        "the map of these pages for people, by role",
}
