//! What came out: a line for each scenario, and JUnit XML for tools.

use std::fmt::Write;
use std::time::Duration;

/// How one scenario ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// How long it took.
    pub took: Duration,
    /// What was seen, one fact a line.
    pub facts: Vec<String>,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

impl Outcome {
    /// The line for people, and what was seen below it.
    pub fn lines(&self) -> String {
        let word = if self.failure.is_none() { "passed" } else { "FAILED" };
        let mut text = format!("{word}  {:<24} {:>5} s", self.name, self.took.as_secs());
        if let Some(failure) = &self.failure {
            for line in failure.lines() {
                let _ = write!(text, "\n        {line}");
            }
        }
        for fact in &self.facts {
            let _ = write!(text, "\n        {fact}");
        }
        text
    }
}

/// The last line of a run.
pub fn summary(outcomes: &[Outcome]) -> String {
    let failed = outcomes.iter().filter(|outcome| outcome.failure.is_some()).count();
    format!("{} passed, {failed} failed", outcomes.len() - failed)
}

/// All of it as JUnit XML.
pub fn junit(outcomes: &[Outcome]) -> String {
    let failed = outcomes.iter().filter(|outcome| outcome.failure.is_some()).count();
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let count = outcomes.len();
    let _ = writeln!(text, "<testsuite name=\"interop\" tests=\"{count}\" failures=\"{failed}\">");
    for outcome in outcomes {
        let (name, time) = (escape(&outcome.name), outcome.took.as_secs_f64());
        let _ = writeln!(text, "  <testcase classname=\"interop\" name=\"{name}\" time=\"{time:.1}\">");
        if let Some(failure) = &outcome.failure {
            let first = failure.lines().next().unwrap_or_default();
            let _ =
                writeln!(text, "    <failure message=\"{}\">{}</failure>", escape(first), escape(failure));
        }
        if !outcome.facts.is_empty() {
            let _ = writeln!(text, "    <system-out>{}</system-out>", escape(&outcome.facts.join("\n")));
        }
        text.push_str("  </testcase>\n");
    }
    text.push_str("</testsuite>\n");
    text
}

/// Text as XML 1.0 may contain it.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(character),
            control if control.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes() -> Vec<Outcome> {
        let took = Duration::from_millis(1500);
        let good = Outcome { name: "good".into(), took, facts: vec!["a < b".into()], failure: None };
        let bad = Outcome {
            failure: Some("first\nsecond \u{1b}[0m & \"".into()),
            name: "bad".into(),
            ..good.clone()
        };
        vec![good, bad]
    }

    #[test]
    fn the_last_line_counts_and_failures_are_told() {
        assert_eq!(summary(&outcomes()), "1 passed, 1 failed");
        assert_eq!(summary(&[]), "0 passed, 0 failed");
        assert!(outcomes()[1].lines().starts_with("FAILED  bad"));
        assert!(outcomes()[1].lines().contains("\n        second"));
    }

    #[test]
    fn xml_has_no_character_that_xml_forbids() {
        let xml = junit(&outcomes());
        assert!(xml.contains("tests=\"2\" failures=\"1\""), "{xml}");
        assert!(xml.contains("a &lt; b"), "{xml}");
        assert!(
            xml.contains("<failure message=\"first\">first\nsecond \u{fffd}[0m &amp; &quot;</failure>"),
            "{xml}"
        );
    }
}
