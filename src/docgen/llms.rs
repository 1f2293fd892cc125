//! Files for models: the index, everything in one file, one file per toolset (llmstxt.org).
//!
//! Links are absolute under [`BASE`], so that a file means the same wherever it was copied to.

use super::BASE;
use super::markdown::{is_external, resolve, split_title, with_destinations};
use super::page::{Page, Part};
use super::tools;
use crate::mcp::Registry;

/// Where the file of a toolset is.
pub(super) fn toolset_path(toolset: &str) -> String {
    format!("llms/{toolset}.txt")
}

/// The index.
pub(super) fn index(registry: &Registry, pages: &[Page]) -> String {
    let mut text = introduction(registry);
    for part in Part::ALL {
        text.push_str(&format!("\n## {}\n\n", part.title()));
        if part == Part::Optional {
            text.push_str(&format!(
                "- [Everything in one file]({BASE}/llms-full.txt): all pages of this list, joined; for a context that can hold it\n"
            ));
        }
        for page in pages.iter().filter(|page| page.part == part) {
            let title = split_title(&page.text).map_or_else(String::new, |(title, _)| title);
            text.push_str(&format!(
                "- [{title}]({}): {}\n",
                indexed_url(page),
                page.note
            ));
        }
    }
    text
}

/// Where the index sends a reader: a toolset has a file of its own.
fn indexed_url(page: &Page) -> String {
    let toolset = page
        .path
        .strip_prefix("docs/tools/")
        .and_then(|name| name.strip_suffix(".md"));
    match toolset.filter(|_| page.part == Part::Toolsets) {
        Some(toolset) => format!("{BASE}/{}", toolset_path(toolset)),
        None => format!("{BASE}/{}", page.path),
    }
}

fn introduction(registry: &Registry) -> String {
    let destructive: Vec<_> = tools::destructive(registry)
        .into_iter()
        .map(|name| format!("`{name}`"))
        .collect();
    format!(
        "# bunqueue-mcp\n\n\
        > A job queue that AI agents drive through MCP tools and that ordinary workers use over TCP, with one engine behind both. \
        An agent adds a job, a worker in any language does it, the agent reads the result. \
        It has {tools} tools in {toolsets} toolsets, delivers at least once, and keeps jobs in memory: they are gone when the process ends.\n\n\
        Read this first:\n\n\
        - It is a broker with an engine of its own. It is not Redis and needs none; clients of BullMQ, Celery, Sidekiq or Faktory do not \
        fit, clients of bunqueue do.\n\
        - To connect, run `bunqueue-mcp serve` and give the host `http://127.0.0.1:6790/mcp`, or let the host start `bunqueue-mcp` on stdio: \
        [Connect an agent]({BASE}/docs/start/connect-an-agent.md).\n\
        - States are spelled `waiting`, `prioritized`, `delayed`, `active`, `completed`, `failed`; what each means and what moves a job \
        between them: [Lifecycle]({BASE}/docs/concepts/lifecycle.md).\n\
        - A delivery is proven by its `token`. A job can reach a worker twice: [Delivery]({BASE}/docs/concepts/delivery.md).\n\
        - These tools destroy something for good: {destructive}. Preview with `dryRun` where a tool takes it, and ask the user first.\n",
        tools = registry.tools().count(),
        toolsets = registry.toolsets().count(),
        destructive = destructive.join(", "),
    )
}

/// Every page, each under its own title and source, in the order of the index.
pub(super) fn full(pages: &[Page]) -> String {
    pages.iter().map(joined).collect::<Vec<_>>().join("\n")
}

/// A page that can stand alone: title, source, absolute links.
pub(super) fn joined(page: &Page) -> String {
    let text = with_destinations(&page.text, |destination| {
        (!is_external(destination)).then(|| format!("{BASE}/{}", resolve(&page.path, destination)))
    });
    let (title, rest) = split_title(&text).unwrap_or_default();
    format!("# {title}\nSource: {BASE}/{}\n\n{rest}", page.path)
}
