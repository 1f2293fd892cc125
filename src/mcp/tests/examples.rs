//! The examples of the prose files, played, and the words of the prose.

use std::collections::HashSet;

use serde_json::Value;

use super::registry;
use super::validator::assert_fits;
use crate::command::ErrorCode;
use crate::mcp::example;
use crate::mcp::parameter::STATE_NAMES;
use crate::mcp::registry::Tool;

#[test]
fn every_example_holds_and_every_documented_answer_fits_its_schema() {
    let registry = registry();
    for toolset in registry.toolsets() {
        let played = example::play(&registry, toolset.id).unwrap_or_else(|error| panic!("{error}"));
        for tool in registry.tools_of(toolset.id) {
            assert!(
                played
                    .iter()
                    .any(|played| played.tool == tool.name && !played.is_error),
                "{} only fails",
                tool.name
            );
        }
        for played in played.iter().filter(|played| !played.is_error) {
            let tool = registry.tool(played.tool).unwrap();
            let schema = Value::Object((**tool.listed.output_schema.as_ref().unwrap()).clone());
            assert_fits(&schema, &played.answer, played.tool);
        }
    }
}

#[test]
fn a_world_is_the_same_each_time() {
    let registry = registry();
    for toolset in registry.toolsets() {
        let one = example::play(&registry, toolset.id);
        assert_eq!(one, example::play(&registry, toolset.id));
    }
}

#[test]
fn an_example_that_does_not_hold_is_found() {
    let mut registry = crate::mcp::Registry::new().unwrap();
    let mut examples = 0;
    let tools: Vec<&'static str> = registry.tools().map(|tool| tool.name).collect();
    for name in tools {
        for index in 0..registry.tool(name).unwrap().examples.len() {
            let Some(answer) = registry.tool(name).unwrap().examples[index].answer.clone() else {
                continue;
            };
            let mut wrong = answer.clone();
            wrong.pattern["success"] = Value::from("neither true nor false");
            registry.set_expected(name, index, Some(wrong));
            let shared = std::sync::Arc::new(registry);
            let toolset = shared.tool(name).unwrap().toolset;
            let error = example::play(&shared, toolset).unwrap_err();
            assert_eq!((error.tool, error.number), (name, index + 1));
            registry = std::sync::Arc::into_inner(shared).unwrap();
            registry.set_expected(name, index, Some(answer));
            examples += 1;
        }
    }
    assert!(examples >= 40, "{examples}");
}

/// Words that all prose may use: what a job is known by everywhere.
const GLOSSARY: [&str; 1] = ["jobId"];

/// Names an answer, a call, a schema or an error can have.
fn names_of(tool: &Tool) -> HashSet<String> {
    let mut names = HashSet::new();
    let mut schemas = vec![&tool.input, &tool.output];
    while let Some(schema) = schemas.pop() {
        for (name, member) in schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            names.insert(name.clone());
            schemas.push(member);
        }
        for value in schema
            .get("enum")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            names.extend(value.as_str().map(str::to_owned));
        }
        schemas.extend(schema.get("items"));
    }
    // What an example shows may be spoken of.
    for example in &tool.examples {
        let mut values = vec![&example.call];
        values.extend(example.answer.as_ref().map(|answer| &answer.pattern));
        while let Some(value) = values.pop() {
            match value {
                Value::Object(members) => {
                    names.extend(members.keys().cloned());
                    values.extend(members.values());
                }
                Value::Array(items) => values.extend(items),
                _ => {}
            }
        }
    }
    names
}

fn backticked(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_backticked_word_of_the_prose_is_a_name_of_the_contract() {
    let registry = registry();
    let tools: HashSet<&str> = registry.tools().map(|tool| tool.name).collect();
    let codes: HashSet<&str> = ErrorCode::ALL.iter().map(|code| code.name()).collect();
    let is_common = |word: &str| {
        tools.contains(word)
            || codes.contains(word)
            || STATE_NAMES.contains(&word)
            || word == "unknown"
            || GLOSSARY.contains(&word)
    };
    for toolset in registry.toolsets() {
        let own: HashSet<String> = registry.tools_of(toolset.id).flat_map(names_of).collect();
        for word in toolset.summary.iter().flat_map(|text| backticked(text)) {
            assert!(
                is_common(word) || own.contains(word) || word.starts_with('{'),
                "{word} in toolsets/{}.md",
                toolset.id
            );
        }
        for tool in registry.tools_of(toolset.id) {
            let own = names_of(tool);
            let texts = std::iter::once(&tool.description).chain(&tool.notes);
            for word in texts.flat_map(|text| backticked(text)) {
                assert!(
                    is_common(word) || own.contains(word),
                    "{word} in the text of {}",
                    tool.name
                );
            }
        }
    }
}

#[test]
fn prose_speaks_of_no_tool_that_does_not_exist() {
    let registry = registry();
    for tool in registry.tools() {
        let texts = std::iter::once(&tool.description).chain(&tool.notes);
        for word in texts.flat_map(|text| {
            text.split(|letter: char| !letter.is_ascii_lowercase() && letter != '_')
        }) {
            assert!(
                !word.starts_with("bunqueue_") || registry.tool(word).is_some(),
                "{word} in the text of {}",
                tool.name
            );
        }
    }
}
