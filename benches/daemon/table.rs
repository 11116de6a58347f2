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
        let length = |cell: &String| cell.chars().count();
        let widest = |column| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(length).max().unwrap_or(0).max(4)
        };
        let columns = self.rows[0].len();
        let widths: Vec<usize> = (0..columns).map(widest).collect();
        writeln!(f, "\n## {}\n", self.title)?;
        for (number, row) in self.rows.iter().enumerate() {
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                match column {
                    0 => write!(f, "| {cell:<width$} |")?,
                    _ => write!(f, " {cell:>width$} |")?,
                }
            }
            writeln!(f)?;
            if number == 0 {
                write!(f, "| {} |", "-".repeat(widths[0]))?;
                for &width in &widths[1..] {
                    write!(f, " {}: |", "-".repeat(width - 1))?;
                }
                writeln!(f)?;
            }
        }
        for note in &self.notes {
            write!(f, "\n{note}\n")?;
        }
        Ok(())
    }
}

/// The one in the middle, 0 of nothing.
pub(crate) fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}
