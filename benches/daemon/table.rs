//! A table in markdown.

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
        let mut table = Self { title: title.into(), ..Self::default() };
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
        writeln!(f, "\n## {}\n", self.title)?;
        for (number, row) in self.rows.iter().enumerate() {
            writeln!(f, "| {} |", row.join(" | "))?;
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
