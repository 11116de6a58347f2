//! A table in markdown, its columns aligned for a terminal.

use std::fmt;

/// A table with a title and notes under it. The first column is text, the others are figures.
#[derive(Default)]
pub(crate) struct Table {
    title: String,
    /// The first row is the head.
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
}

impl Table {
    /// An empty table; `head` as markdown has it: columns with ` | ` between them.
    pub(crate) fn new(title: impl Into<String>, head: &str) -> Self {
        let mut table = Self {
            title: title.into(),
            ..Self::default()
        };
        table.row(head.split(" | "));
        table
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widest = |column| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells
                .map(|cell: &String| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.rows[0].len()).map(widest).collect();
        writeln!(f, "\n## {}\n", self.title)?;
        for (number, row) in self.rows.iter().enumerate() {
            write!(f, "| {:<1$} |", row[0], widths[0])?;
            for (cell, &width) in row[1..].iter().zip(&widths[1..]) {
                write!(f, " {cell:>width$} |")?;
            }
            writeln!(f)?;
            if number == 0 {
                writeln!(f, "|---|{}", "---:|".repeat(row.len() - 1))?;
            }
        }
        for note in &self.notes {
            write!(f, "\n{note}\n")?;
        }
        Ok(())
    }
}
