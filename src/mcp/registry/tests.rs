//! Tools and prose that do not agree.

use schemars::JsonSchema;
use serde::Deserialize;

use super::*;
use crate::mcp::call::Call;
use crate::mcp::error::ToolError;
use crate::mcp::prose::FaultKind;

#[derive(Deserialize, JsonSchema)]
struct Empty {}

#[derive(Deserialize, JsonSchema)]
struct Targeted {
    #[expect(dead_code, reason = "only its schema matters")]
    target: String,
}

async fn nothing<A>(_: Call, _: A) -> Result<Value, ToolError> {
    Ok(Value::Null)
}

async fn impact<A>(_: Call, _: A) -> Result<String, ToolError> {
    Ok(String::new())
}

fn problems(toolsets: Vec<Toolset>) -> Vec<Problem> {
    Registry::of(toolsets)
        .err()
        .map_or_else(Vec::new, |error| error.problems)
}

const WHOLE: &str = "# a\n\nWhat for.\n\n## bunqueue_x\n\nText.\n\n```json call\n{}\n```\n";

#[test]
fn a_tool_with_its_prose_is_complete() {
    let toolset =
        Toolset::new("a", WHOLE).tool::<Empty, _, _, _>("bunqueue_x", "X", Policy::READ, nothing);
    let registry = Registry::of(vec![toolset]).unwrap();
    let tool = registry.tool("bunqueue_x").unwrap();
    assert_eq!(
        (tool.description.as_str(), tool.toolset, tool.examples.len()),
        ("Text.", "a", 1)
    );
    assert!(registry.tool("bunqueue_y").is_none());
}

#[test]
fn every_mismatch_is_reported_at_once() {
    let long = "x".repeat(161);
    let prose: &'static str = format!(
        "# b\n\n## bunqueue_none\n\nText.\n\n## bunqueue_long\n\n{long}\n\n```json call\n{{}}\n```\n\n\
         ## bunqueue_twice\n\nText.\n\n```json call\n{{}}\n```\n\n## bunqueue_twice\n\nText.\n\n---\n\n\
         ## bunqueue_mute\n\nText.\n"
    )
    .leak();
    let toolset = Toolset::new("a", prose)
        .tool::<Empty, _, _, _>("bunqueue_long", "L", Policy::READ, nothing)
        .tool::<Empty, _, _, _>("bunqueue_twice", "T", Policy::READ, nothing)
        .tool::<Empty, _, _, _>("bunqueue_twice", "T", Policy::READ, nothing)
        .tool::<Empty, _, _, _>("bunqueue_mute", "M", Policy::READ, nothing)
        .tool::<Empty, _, _, _>("Wrong-Name", "W", Policy::READ, nothing);
    let found = problems(vec![toolset]);
    for expected in [
        Problem::Heading {
            toolset: "a",
            heading: "b".into(),
        },
        Problem::NoSummary("a"),
        Problem::TwiceInProse {
            toolset: "a",
            name: "bunqueue_twice".into(),
        },
        Problem::Description {
            tool: "bunqueue_long",
            length: 161,
        },
        Problem::Twice("bunqueue_twice"),
        Problem::NoExample("bunqueue_mute"),
        Problem::Name("Wrong-Name"),
        Problem::NoProse("Wrong-Name"),
        Problem::NoTool {
            toolset: "a",
            name: "bunqueue_none".into(),
        },
    ] {
        assert!(found.contains(&expected), "{expected} is not in {found:?}");
    }
    let is_fault = |problem: &Problem| matches!(problem, Problem::Prose { fault, .. } if fault.kind == FaultKind::Block);
    assert!(found.iter().any(is_fault), "{found:?}");
    let text = RegistryError {
        problems: found.clone(),
    }
    .to_string();
    assert_eq!(text.lines().count(), found.len() + 1);
}

#[test]
fn a_guard_needs_a_target_that_is_a_required_argument_and_an_impact() {
    let confirmed = Policy::DESTROY.confirm("target");
    let half =
        Toolset::new("a", WHOLE).tool::<Targeted, _, _, _>("bunqueue_x", "X", confirmed, nothing);
    assert_eq!(problems(vec![half]), [Problem::Guard("bunqueue_x")]);
    let bare = |policy| {
        Toolset::new("a", WHOLE).guarded::<Targeted, _, _, _, _, _>(
            "bunqueue_x",
            "X",
            policy,
            nothing,
            impact,
        )
    };
    assert_eq!(
        problems(vec![bare(Policy::DESTROY)]),
        [Problem::Guard("bunqueue_x")]
    );
    assert_eq!(
        problems(vec![bare(Policy::DESTROY.confirm("other"))]),
        [Problem::Guard("bunqueue_x")]
    );
    assert_eq!(problems(vec![bare(confirmed)]), []);
}
