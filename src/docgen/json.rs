//! JSON as people read it: what fits stays on one line, the rest is spread one member a line.

use serde_json::Value;

/// Characters of a line that a value may end at.
const WIDTH: usize = 100;

/// The value, without a final newline.
pub fn pretty(value: &Value) -> String {
    let mut text = String::new();
    write(value, 0, 0, &mut text);
    text
}

/// `used` characters of the line are taken before the value, which is `depth` levels deep.
fn write(value: &Value, depth: usize, used: usize, text: &mut String) {
    let line = on_one_line(value);
    if used + line.chars().count() <= WIDTH {
        text.push_str(&line);
        return;
    }
    let indent = "  ".repeat(depth + 1);
    match value {
        Value::Object(members) => {
            text.push('{');
            for (index, (name, member)) in members.iter().enumerate() {
                let name = format!("{}: ", Value::from(name.as_str()));
                text.push_str(if index == 0 { "\n" } else { ",\n" });
                text.push_str(&indent);
                text.push_str(&name);
                write(
                    member,
                    depth + 1,
                    indent.len() + name.chars().count() + 1,
                    text,
                );
            }
            close('}', depth, text);
        }
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index == 0 { "\n" } else { ",\n" });
                text.push_str(&indent);
                write(item, depth + 1, indent.len() + 1, text);
            }
            close(']', depth, text);
        }
        _ => text.push_str(&line),
    }
}

fn close(bracket: char, depth: usize, text: &mut String) {
    text.push('\n');
    text.push_str(&"  ".repeat(depth));
    text.push(bracket);
}

fn on_one_line(value: &Value) -> String {
    match value {
        Value::Object(members) if !members.is_empty() => {
            let member = |(name, value): (&String, &Value)| {
                format!("{}: {}", Value::from(name.as_str()), on_one_line(value))
            };
            format!(
                "{{ {} }}",
                members.iter().map(member).collect::<Vec<_>>().join(", ")
            )
        }
        Value::Array(items) => {
            format!(
                "[{}]",
                items.iter().map(on_one_line).collect::<Vec<_>>().join(", ")
            )
        }
        scalar => scalar.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_fits_stays_on_one_line() {
        let value = json!({ "a": [1, "two", {}], "b": null });
        assert_eq!(pretty(&value), r#"{ "a": [1, "two", {}], "b": null }"#);
    }

    #[test]
    fn what_does_not_fit_is_spread_and_says_the_same() {
        let long = "x".repeat(60);
        let value = json!({ "a": [long, long], "b": { "c": 1 } });
        let text = pretty(&value);
        let expected = format!(
            "{{\n  \"a\": [\n    \"{long}\",\n    \"{long}\"\n  ],\n  \"b\": {{ \"c\": 1 }}\n}}"
        );
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH));
    }
}
