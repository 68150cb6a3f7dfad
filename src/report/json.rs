//! The result as JSON.

use crate::stats::result::RunResult;

/// The result as one indented object, with a newline at its end.
#[must_use]
pub fn render(result: &RunResult) -> String {
    let json = serde_json::to_string_pretty(result).expect("a result has only text for its keys");
    json + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::samples::{closed_run, open_run};

    #[test]
    fn what_is_written_reads_back() {
        for (result, _) in [open_run(), closed_run()] {
            let text = render(&result);
            assert!(text.starts_with("{\n  \"schema\": \"ringload/1\"") && text.ends_with("}\n"));
            assert_eq!(serde_json::from_str::<RunResult>(&text).unwrap(), result);
        }
    }
}
