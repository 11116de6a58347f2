//! Tables, for a terminal or in markdown.

use std::io::{self, Write};

pub(super) use crate::client::shown::grouped;

/// A table with a title and notes under it. The first column is text, the others are figures.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    pub(super) title: String,
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    pub(super) notes: Vec<String>,
}

impl Table {
    pub(super) fn new(title: impl Into<String>, head: &[&str]) -> Self {
        Self {
            title: title.into(),
            head: head.iter().map(|&name| name.to_owned()).collect(),
            ..Self::default()
        }
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Writes it, and an empty line before it.
    ///
    /// # Errors
    /// What `out` says.
    pub(super) fn write(&self, out: &mut dyn Write, markdown: bool) -> io::Result<()> {
        let widths: Vec<usize> = (0..self.head.len())
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                let widths = cells
                    .chain([&self.head[column]])
                    .map(|cell| cell.chars().count());
                widths.max().unwrap_or(0)
            })
            .collect();
        let line = |out: &mut dyn Write, cells: &[String]| {
            let mut text = String::new();
            for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
                let width = *width;
                let cell = match (markdown, column) {
                    (true, _) => format!("| {cell} "),
                    (false, 0) => format!("  {cell:<width$}"),
                    (false, _) => format!("  {cell:>width$}"),
                };
                text.push_str(&cell);
            }
            let end = if markdown { "|" } else { "" };
            writeln!(
                out,
                "{}{end}",
                text.trim_end_matches(if markdown { '\n' } else { ' ' })
            )
        };
        writeln!(
            out,
            "\n{}{}",
            if markdown { "### " } else { "" },
            self.title
        )?;
        if markdown {
            writeln!(out)?;
        }
        line(out, &self.head)?;
        if markdown {
            let rule: String = (0..self.head.len())
                .map(|column| if column == 0 { "|---" } else { "|---:" })
                .collect();
            writeln!(out, "{rule}|")?;
        }
        for row in &self.rows {
            line(out, row)?;
        }
        if markdown && !self.notes.is_empty() {
            writeln!(out)?;
        }
        for note in &self.notes {
            writeln!(out, "{}{note}", if markdown { "- " } else { "  * " })?;
        }
        Ok(())
    }
}

/// The one in the middle; the mean of the two when there is none. 0 of nothing.
pub(super) fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    match figures.len() {
        0 => 0.0,
        count if count % 2 == 1 => figures[count / 2],
        count => f64::midpoint(figures[count / 2 - 1], figures[count / 2]),
    }
}

/// Bytes as millions of them.
pub(super) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median([]), 0.0);
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn both_forms_have_every_cell() {
        let mut table = Table::new("Title", &["what", "one", "two"]);
        table.row(["a", "1", "22"]);
        table.row(["long name", grouped(1_234_567.0).as_str(), "-"]);
        table.note("a note");
        let shown = |markdown| {
            let mut out = Vec::new();
            table.write(&mut out, markdown).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            shown(false),
            "\nTitle\n  what             one  two\n  a                  1   22\n  \
             long name  1,234,567    -\n  * a note\n"
        );
        assert_eq!(
            shown(true),
            "\n### Title\n\n| what | one | two |\n|---|---:|---:|\n| a | 1 | 22 |\n\
             | long name | 1,234,567 | - |\n\n- a note\n"
        );
    }
}
