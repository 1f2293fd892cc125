//! How often agents call which tool, and how long that takes (MCP contract, B18). Numbers alone: nothing of a call is kept.
//!
//! A call costs a look-up and three additions; nobody waits for anybody.

use std::array;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::text::Text;

/// Classes of durations: four for each power of two of microseconds, up to 2^27 of them, more than two minutes.
const CLASSES: usize = 27 * 4;
/// The shares of calls whose longest duration is told.
const QUANTILES: [f64; 2] = [0.5, 0.99];

/// The figures of every tool.
#[derive(Debug)]
pub struct ToolFigures {
    tools: BTreeMap<&'static str, Figures>,
}

/// The figures of one tool.
#[derive(Debug)]
struct Figures {
    succeeded: AtomicU64,
    failed: AtomicU64,
    micros: AtomicU64,
    classes: [AtomicU64; CLASSES],
}

impl ToolFigures {
    /// Of the tools with these names; nothing else is counted, so that no caller can add to the names.
    pub fn new(tools: impl IntoIterator<Item = &'static str>) -> Self {
        let zero = || Figures {
            succeeded: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            micros: AtomicU64::new(0),
            classes: array::from_fn(|_| AtomicU64::new(0)),
        };
        Self {
            tools: tools.into_iter().map(|tool| (tool, zero())).collect(),
        }
    }

    /// Counts a call that has ended.
    pub fn record(&self, tool: &str, succeeded: bool, took: Duration) {
        let Some(figures) = self.tools.get(tool) else {
            return;
        };
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let outcome = if succeeded {
            &figures.succeeded
        } else {
            &figures.failed
        };
        outcome.fetch_add(1, Ordering::Relaxed);
        figures.micros.fetch_add(micros, Ordering::Relaxed);
        if let Some(class) = figures.classes.get(class_of(micros)) {
            class.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Appends the figures of the tools that were called.
    pub(super) fn write(&self, text: &mut Text) {
        let called: Vec<_> = self
            .tools
            .iter()
            .map(|(tool, figures)| (tool, figures.read()))
            .filter(|(_, read)| read.count > 0)
            .collect();
        let name = "bunqueue_mcp_tool_calls_total";
        text.head(name, "counter", "Calls of tools by agents, by outcome");
        for (tool, read) in &called {
            for (outcome, calls) in [("success", read.succeeded), ("error", read.failed)] {
                text.line(format_args!(
                    "{name}{{tool=\"{tool}\",outcome=\"{outcome}\"}} {calls}"
                ));
            }
        }
        let name = "bunqueue_mcp_tool_duration_seconds";
        text.head(
            name,
            "summary",
            "Time that calls of tools took, waits included",
        );
        for (tool, read) in &called {
            for quantile in QUANTILES {
                let value = read.quantile(quantile);
                text.line(format_args!(
                    "{name}{{tool=\"{tool}\",quantile=\"{quantile}\"}} {value}"
                ));
            }
            let (sum, count) = (seconds(read.micros), read.count);
            text.line(format_args!("{name}_sum{{tool=\"{tool}\"}} {sum}"));
            text.line(format_args!("{name}_count{{tool=\"{tool}\"}} {count}"));
        }
    }
}

/// Figures of one tool at one moment.
struct Read {
    succeeded: u64,
    failed: u64,
    micros: u64,
    classes: [u64; CLASSES],
    count: u64,
}

impl Figures {
    fn read(&self) -> Read {
        let value = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let classes = self.classes.each_ref().map(value);
        Read {
            succeeded: value(&self.succeeded),
            failed: value(&self.failed),
            micros: value(&self.micros),
            // From the classes, so that it fits them while others count.
            count: classes.iter().sum(),
            classes,
        }
    }
}

impl Read {
    /// Seconds within which that share of the calls ended, at most a quarter too many.
    fn quantile(&self, share: f64) -> f64 {
        let wanted = (self.count as f64 * share).ceil();
        let mut sum = 0;
        let is_reached = |calls: &u64| {
            sum += calls;
            sum as f64 >= wanted
        };
        let class = self.classes.iter().position(is_reached);
        seconds(end_of(class.unwrap_or(CLASSES - 1)))
    }
}

/// The class of a duration: its power of two, and its quarter of the way to the next.
fn class_of(micros: u64) -> usize {
    let micros = micros.max(1);
    let power = micros.ilog2();
    let quarter = (u128::from(micros) * 4) >> power;
    (power as usize * 4 + quarter as usize - 4).min(CLASSES - 1)
}

/// Microseconds at which a class ends, rounded up.
const fn end_of(class: usize) -> u64 {
    let (power, quarter) = (class / 4, class % 4);
    ((quarter as u64 + 5) << power).div_ceil(4)
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1_000_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_stands_in_the_class_that_ends_behind_it() {
        for micros in (0..5_000).chain([1 << 20, (1 << 20) - 1, 119_999_999]) {
            let end = end_of(class_of(micros));
            assert!(end >= micros, "{micros} in a class up to {end}");
            assert!(end as f64 <= micros.max(1) as f64 * 1.25 + 1.0, "{micros}");
        }
        assert_eq!(class_of(u64::MAX), CLASSES - 1);
    }

    fn text(figures: &ToolFigures) -> String {
        let mut text = Text::default();
        figures.write(&mut text);
        text.into_string()
    }

    #[test]
    fn calls_are_counted_by_outcome_and_others_are_not() {
        let figures = ToolFigures::new(["a", "b"]);
        for _ in 0..99 {
            figures.record("a", true, Duration::from_micros(1_000));
        }
        figures.record("a", false, Duration::from_secs(2));
        figures.record("made up", true, Duration::ZERO);
        let text = text(&figures);
        for line in [
            "bunqueue_mcp_tool_calls_total{tool=\"a\",outcome=\"success\"} 99",
            "bunqueue_mcp_tool_calls_total{tool=\"a\",outcome=\"error\"} 1",
            "bunqueue_mcp_tool_duration_seconds{tool=\"a\",quantile=\"0.5\"} 0.001024",
            "bunqueue_mcp_tool_duration_seconds{tool=\"a\",quantile=\"0.99\"} 0.001024",
            "bunqueue_mcp_tool_duration_seconds_sum{tool=\"a\"} 2.099",
            "bunqueue_mcp_tool_duration_seconds_count{tool=\"a\"} 100",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}\n{text}");
        }
        assert!(!text.contains("tool=\"b\"") && !text.contains("made up"));
    }

    #[test]
    fn one_call_is_every_quantile() {
        let figures = ToolFigures::new(["a"]);
        figures.record("a", true, Duration::from_secs(2));
        let alone = text(&figures);
        assert!(alone.contains("quantile=\"0.99\"} 2.097152"), "{alone}");
    }
}
