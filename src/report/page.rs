//! A page of text for a terminal: labels on the left, wrapped text on the right.

/// Columns of a page.
const WIDTH: usize = 80;
/// Where the text begins.
const INDENT: usize = 13;

/// How something stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Bold,
    Good,
    Caution,
    Bad,
}

/// A page in the making. What is written to it cannot move the cursor: control characters come out
/// escaped.
pub(super) struct Page {
    text: String,
    color: bool,
}

impl Page {
    pub(super) fn new(color: bool) -> Self {
        Self { text: String::new(), color }
    }

    /// One whole line.
    pub(super) fn line(&mut self, text: &str, style: Style) {
        self.styled(&printable(text), style);
        self.text.push('\n');
    }

    /// An empty line.
    pub(super) fn gap(&mut self) {
        self.text.push('\n');
    }

    /// A label, and its text wrapped beside it; an empty label goes on with the last.
    pub(super) fn entry(&mut self, label: &str, text: &str, style: Style) {
        let text = printable(text);
        for (number, line) in wrap(&text, WIDTH - INDENT).into_iter().enumerate() {
            let label = if number == 0 { label } else { "" };
            self.styled(&format!("{label:INDENT$}"), Style::Bold);
            self.styled(line, style);
            self.text.push('\n');
        }
    }

    pub(super) fn finish(self) -> String {
        // Labels are padded; nothing else ends in blanks.
        let lines: Vec<_> = self.text.lines().map(str::trim_end).collect();
        lines.join("\n") + "\n"
    }

    fn styled(&mut self, text: &str, style: Style) {
        let code = match style {
            _ if !self.color || text.trim().is_empty() => "",
            Style::Plain => "",
            Style::Bold => "1",
            Style::Good => "32",
            Style::Caution => "33",
            Style::Bad => "31",
        };
        if code.is_empty() {
            self.text.push_str(text);
        } else {
            self.text.push_str(&format!("\x1b[{code}m{text}\x1b[0m"));
        }
    }
}

/// The text with its control characters escaped.
pub(super) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

/// The text in lines of at most `width` characters, broken at blanks, or where there is none.
fn wrap(text: &str, width: usize) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text.trim_end();
    while let Some((limit, _)) = rest.char_indices().nth(width) {
        let after_blank = rest[..limit].rfind(' ').filter(|&at| !rest[..at].trim().is_empty());
        let fits_exactly = rest[limit..].starts_with(' ');
        let end = if fits_exactly { limit } else { after_blank.unwrap_or(limit) };
        lines.push(rest[..end].trim_end());
        rest = rest[end..].trim_start();
    }
    lines.push(rest);
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_wraps_beside_its_label() {
        let mut page = Page::new(false);
        page.entry("Errors", &"word ".repeat(30), Style::Bad);
        let text = page.finish();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("Errors       word word"));
        assert!(lines[1].starts_with("             word"));
        assert!(lines.iter().all(|line| line.len() <= WIDTH));
    }

    #[test]
    fn colour_is_only_where_it_is_asked_for() {
        let write = |color| {
            let mut page = Page::new(color);
            page.entry("Errors", "none", Style::Good);
            page.finish()
        };
        assert_eq!(write(false), "Errors       none\n");
        assert_eq!(write(true), "\x1b[1mErrors       \x1b[0m\x1b[32mnone\x1b[0m\n");
    }

    proptest! {
        #[test]
        fn nothing_from_outside_reaches_the_terminal_as_control(text in any::<String>()) {
            let mut page = Page::new(false);
            page.entry("Label", &text, Style::Plain);
            page.line(&text, Style::Plain);
            prop_assert!(page.finish().chars().all(|c| c == '\n' || !c.is_control()));
        }

        #[test]
        fn wrapping_loses_only_blanks(text in "[a-zé ]{0,300}", width in 1..40_usize) {
            let lines = wrap(&text, width);
            prop_assert!(lines.iter().all(|line| line.chars().count() <= width));
            let squeeze = |text: &str| text.replace(' ', "");
            prop_assert_eq!(squeeze(&lines.concat()), squeeze(&text));
        }
    }
}
