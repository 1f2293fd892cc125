//! The documentation as it is published: hand-written pages, reference pages and files for models, from one source.
//!
//! Pure: the registry, the bounds, the errors and the settings go in, a map from path to text comes out, the same
//! bytes each time. Committed copies of what is generated are compared by a test; a broker serves [`site`].
//! No fact is written here that another module knows.

mod errors;
mod fields;
mod json;
mod limits;
mod llms;
pub mod markdown;
mod page;
mod settings;
mod tools;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use thiserror::Error;

pub use page::{Page, Part};

use crate::mcp::example::{self, ExampleError};
use crate::mcp::{Registry, RegistryError};

/// The address under which absolute links stand, without a final slash.
pub const BASE: &str = env!("CARGO_PKG_HOMEPAGE");

/// Why the documentation cannot be made.
#[derive(Debug, Error)]
pub enum DocgenError {
    /// Tools and prose do not fit.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// An example does not hold.
    #[error(transparent)]
    Example(Box<ExampleError>),
}

/// Everything that is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Documentation {
    /// In reading order.
    pub pages: Vec<Page>,
    /// Files for models, by path from the root of the site.
    pub models: BTreeMap<String, String>,
}

impl Documentation {
    /// Renders everything.
    ///
    /// # Errors
    /// When an example of a tool does not hold.
    pub fn new(registry: &Arc<Registry>) -> Result<Self, DocgenError> {
        let pages = pages(registry)?;
        let mut models = BTreeMap::new();
        models.insert("llms.txt".to_owned(), llms::index(registry, &pages));
        models.insert("llms-full.txt".to_owned(), llms::full(&pages));
        for toolset in registry.toolsets() {
            let path = tools::path(toolset.id);
            let page = pages.iter().find(|page| page.path == path);
            models.extend(page.map(|page| (llms::toolset_path(toolset.id), llms::joined(page))));
        }
        Ok(Self { pages, models })
    }

    /// What a site serves, by path from its root.
    pub fn site(&self) -> BTreeMap<String, String> {
        let pages = self
            .pages
            .iter()
            .map(|page| (page.path.clone(), page.text.clone()));
        self.models.clone().into_iter().chain(pages).collect()
    }

    /// What is committed and never edited by hand, by path in the repository.
    pub fn generated(&self) -> BTreeMap<String, String> {
        let pages = self.pages.iter().filter(|page| page.is_generated);
        let pages = pages.map(|page| (page.path.clone(), page.text.clone()));
        let models = self
            .models
            .iter()
            .map(|(path, text)| (repository_path(path), text.clone()));
        pages.chain(models).collect()
    }
}

/// Where the repository keeps what a site serves under `path`.
pub fn repository_path(path: &str) -> String {
    if path.contains('/') {
        path.to_owned()
    } else {
        format!("llms/{path}")
    }
}

/// The site of this version; made once, when it is first asked for.
pub fn site() -> &'static BTreeMap<String, String> {
    static SITE: OnceLock<BTreeMap<String, String>> = OnceLock::new();
    SITE.get_or_init(|| {
        let registry = Registry::new().map(Arc::new).map_err(DocgenError::from);
        match registry.and_then(|registry| Documentation::new(&registry)) {
            Ok(documentation) => documentation.site(),
            Err(error) => {
                // A test makes the same call; a program that runs has passed it.
                tracing::error!(%error, "the documentation cannot be made");
                BTreeMap::new()
            }
        }
    })
}

/// The site with its absolute links under another address, such as that of the broker that serves it.
pub fn site_at(base: &str) -> BTreeMap<String, String> {
    let base = base.trim_end_matches('/');
    let moved = |(path, text): (&String, &String)| (path.clone(), text.replace(BASE, base));
    site().iter().map(moved).collect()
}

/// A page by its path on the site, such as `llms.txt` or `docs/README.md`; inside `docs/` a name such as
/// `concepts/delivery` is enough.
pub fn page(path: &str) -> Option<&'static str> {
    let site = site();
    let text = site
        .get(path)
        .or_else(|| site.get(&format!("docs/{path}.md")));
    text.map(String::as_str)
}

fn pages(registry: &Arc<Registry>) -> Result<Vec<Page>, DocgenError> {
    let mut pages = page::written();
    for toolset in registry.toolsets() {
        let played = example::play(registry, toolset.id)
            .map_err(|error| DocgenError::Example(Box::new(error)))?;
        let text = tools::page(registry, toolset, &played);
        pages.push(Page::generated(
            &tools::path(toolset.id),
            Part::Toolsets,
            &tools::purpose(toolset),
            text,
        ));
    }
    let reference = [
        (
            "docs/tools/README.md",
            "every tool in one table, with what it does and what it may destroy",
            tools::index(registry),
        ),
        (
            "docs/reference/errors.md",
            "every error code and text with what to do next",
            errors::page(registry),
        ),
        (
            "docs/reference/limits.md",
            "every bound and default: sizes, counts, times, how long things are kept",
            limits::page(),
        ),
        (
            "docs/reference/environment.md",
            "every variable that the program reads, with default and rule",
            settings::environment(),
        ),
        (
            "docs/reference/cli.md",
            "the commands and flags of the program",
            settings::command_line(),
        ),
    ];
    for (path, note, text) in reference {
        pages.push(Page::generated(path, Part::Reference, note, text));
    }
    // Stable, so that pages of a part keep the order in which they stand above.
    pages.sort_by_key(|page| Part::ALL.iter().position(|part| *part == page.part));
    Ok(pages)
}
