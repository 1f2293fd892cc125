//! Which known name somebody meant who wrote an unknown one.

/// How alike two names must be, from 0 to 1, to be worth a suggestion.
const ALIKE: f64 = 0.8;

/// The known name most like `given`, if one is like it.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    similar(given, known, 1).into_iter().next()
}

/// At most `limit` known names like `given`, the most alike first.
pub fn similar<'a>(
    given: &str,
    known: impl IntoIterator<Item = &'a str>,
    limit: usize,
) -> Vec<&'a str> {
    let folded = fold(given);
    let mut found: Vec<(f64, &str)> = known
        .into_iter()
        .map(|name| (likeness(&folded, &fold(name)), name))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .collect();
    found.sort_by(|one, two| two.0.total_cmp(&one.0));
    found
        .into_iter()
        .take(limit)
        .map(|(_, name)| name)
        .collect()
}

/// Lower case without separators, so that `job_id`, `jobid` and `jobId` are one name.
fn fold(name: &str) -> String {
    name.chars()
        .filter(|letter| letter.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .take(256)
        .collect()
}

fn likeness(one: &str, two: &str) -> f64 {
    if one == two {
        return 1.0;
    }
    let (short, long) = if one.len() < two.len() {
        (one, two)
    } else {
        (two, one)
    };
    // `id` for `jobId`, `timeout` for `timeoutMs`: the whole word is there.
    if short.len() >= 2 && (long.starts_with(short) || long.ends_with(short)) {
        return 0.95;
    }
    strsim::jaro_winkler(one, two)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant() {
        let known = ["queue", "graceMs", "state", "limit", "dryRun"];
        for (given, meant) in [
            ("stat", "state"),
            ("grace_ms", "graceMs"),
            ("grace", "graceMs"),
            ("queu", "queue"),
            ("DRYRUN", "dryRun"),
        ] {
            assert_eq!(nearest(given, known), Some(meant), "{given}");
        }
        assert_eq!(nearest("zebra", known), None);
        assert_eq!(nearest("", known), None);
        assert_eq!(nearest("id", ["jobId", "token"]), Some("jobId"));
    }

    #[test]
    fn lists_the_most_alike_first() {
        assert_eq!(
            similar("emial", ["reports", "emails", "email"], 3),
            ["email", "emails"]
        );
        assert_eq!(
            similar("email", ["email-1", "email-2", "email-3", "email-4"], 3).len(),
            3
        );
    }
}
