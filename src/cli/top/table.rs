//! A table: its latest rows, with the sort, filter and selection of its reader.
//!
//! Each update replaces the rows; sort, filter and selection stay. The selection stays at the top until it is moved; from then
//! on it follows its row, by the row's name. Pure: no drawing, no clock, no daemon.

use super::cell::{Cell, Unit};
use super::location::Location;

/// How much a row should stand out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Severity {
    /// Not at all.
    #[default]
    Normal,
    /// A little.
    Warning,
    /// Yes.
    Critical,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name in the daemon's answer, or its title where it is computed here.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// What it shows.
    pub unit: Unit,
    /// Whether the daemon knows it and can sort by it.
    pub known: bool,
}

impl Column {
    /// A column of the daemon's.
    pub fn known(name: &str, title: &str, unit: Unit) -> Self {
        Self {
            name: name.to_owned(),
            title: title.to_owned(),
            unit,
            known: true,
        }
    }

    /// A column that is computed here.
    pub fn own(title: &str, unit: Unit) -> Self {
        Self {
            name: title.to_owned(),
            title: title.to_owned(),
            unit,
            known: false,
        }
    }
}

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// As many as columns.
    pub cells: Vec<Cell>,
    /// Where it leads.
    pub target: Option<Location>,
    /// How much it stands out.
    pub severity: Severity,
}

impl Row {
    /// The texts in it: what tells it from others, and what a filter looks at.
    fn name(&self) -> String {
        let texts = self.cells.iter().filter_map(|cell| match cell {
            Cell::Text(text) => Some(text.as_str()),
            _ => None,
        });
        let name = texts.collect::<Vec<_>>().join("\t");
        match self.target {
            Some(Location::Request(id)) => format!("{id}\t{name}"),
            _ => name,
        }
    }
}

/// An update of a table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Content {
    /// What it is.
    pub title: String,
    /// The columns; texts that name the row come first.
    pub columns: Vec<Column>,
    /// The rows, in any order.
    pub rows: Vec<Row>,
    /// How many rows there are, if not all came.
    pub total: Option<u64>,
    /// The column to sort by until somebody chooses another.
    pub sort: String,
    /// By what rows may be grouped instead, if by anything.
    pub choices: Vec<String>,
}

/// The table.
#[derive(Debug, Clone, Default)]
pub struct Table {
    content: Content,
    /// Numbers of rows, those that the filter lets through, in order.
    order: Vec<usize>,
    /// What was chosen: the column's name, and whether the largest comes first.
    sort: Option<(String, bool)>,
    filter: String,
    /// The place of the selected row in `order`.
    selected: usize,
    /// The name of the selected row, once the selection was moved.
    held: Option<String>,
    /// The first row that is drawn.
    pub offset: usize,
}

impl Table {
    /// An empty table that will be sorted by this column; the largest come first unless it says otherwise (`+name`).
    pub fn sorted_by(column: Option<&str>) -> Self {
        let sort = column.map(|name| match name.strip_prefix('+') {
            Some(name) => (name.to_owned(), false),
            None => (name.strip_prefix('-').unwrap_or(name).to_owned(), true),
        });
        Self {
            sort,
            ..Self::default()
        }
    }

    /// New rows.
    pub fn take(&mut self, content: Content) {
        self.content = content;
        self.arrange();
    }

    /// What it is.
    pub fn title(&self) -> &str {
        &self.content.title
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.content.columns
    }

    /// By what rows may be grouped.
    pub fn choices(&self) -> &[String] {
        &self.content.choices
    }

    /// The rows to show, in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &Row> {
        self.order.iter().map(|row| &self.content.rows[*row])
    }

    /// How many there are to show.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// `37`, `3 of 37` with a filter, `1,000 of 12,345` where not all came.
    pub fn counted(&self) -> String {
        let all = self.content.total.unwrap_or(self.content.rows.len() as u64);
        let grouped = |count: u64| crate::cli::format::grouped(count as f64);
        if self.order.len() as u64 == all {
            grouped(all)
        } else {
            format!("{} of {}", grouped(self.order.len() as u64), grouped(all))
        }
    }

    /// The number of the column that it is sorted by, and whether the largest comes first.
    pub fn sort(&self) -> (usize, bool) {
        let place = |name: &str| self.content.columns.iter().position(|it| it.name == name);
        let by_title = |name: &str| self.content.columns.iter().position(|it| it.title == name);
        let chosen = self.sort.as_ref().and_then(|(name, descending)| {
            Some((place(name).or_else(|| by_title(name))?, *descending))
        });
        chosen.unwrap_or((place(&self.content.sort).unwrap_or(0), true))
    }

    /// The sort column given, if no column has that name.
    pub fn unknown_sort(&self) -> Option<&str> {
        let (name, _) = self.sort.as_ref()?;
        let columns = &self.content.columns;
        let known = columns
            .iter()
            .any(|it| it.name == *name || it.title == *name);
        (!known && !columns.is_empty()).then_some(name.as_str())
    }

    /// The chosen sort as the daemon understands it: `None` when it does not know the column.
    pub fn known_sort(&self) -> Option<String> {
        let (column, descending) = self.sort();
        let column = self.content.columns.get(column).filter(|it| it.known)?;
        Some(format!(
            "{}{}",
            if descending { "-" } else { "" },
            column.name
        ))
    }

    /// Whether a column was chosen that the daemon does not know.
    pub fn sorts_locally(&self) -> bool {
        !self.content.columns.is_empty() && self.known_sort().is_none()
    }

    /// Sorts by the column so many places further to the right.
    pub fn move_sort(&mut self, by: isize) {
        let columns = self.content.columns.len();
        if columns == 0 {
            return;
        }
        let to = self.sort().0.saturating_add_signed(by).min(columns - 1);
        let column = &self.content.columns[to];
        self.sort = Some((column.name.clone(), column.unit != Unit::Text));
        self.arrange();
    }

    /// Reverses the order.
    pub fn reverse(&mut self) {
        let (column, descending) = self.sort();
        if let Some(column) = self.content.columns.get(column) {
            self.sort = Some((column.name.clone(), !descending));
            self.arrange();
        }
    }

    /// The filter.
    pub fn filter(&self) -> &str {
        &self.filter
    }

    /// Lets only rows through that have this text, whatever the case of its letters.
    pub fn set_filter(&mut self, filter: String) {
        self.filter = filter;
        self.arrange();
    }

    /// The place of the selected row.
    pub fn selected(&self) -> usize {
        self.selected
    }

    /// The selected row.
    pub fn selected_row(&self) -> Option<&Row> {
        self.content.rows.get(*self.order.get(self.selected)?)
    }

    /// Selects the row so many places further down.
    pub fn move_selection(&mut self, by: isize) {
        let last = self.order.len().saturating_sub(1);
        self.selected = self.selected.saturating_add_signed(by).min(last);
        self.held = match self.selected {
            // At the top one wants to see who is first, not where somebody went.
            0 => None,
            _ => self.selected_row().map(Row::name),
        };
    }

    /// Filters, sorts, and finds the selected row again.
    fn arrange(&mut self) {
        let (column, descending) = self.sort();
        let wanted = self.filter.to_lowercase();
        let rows = &self.content.rows;
        let passes = |row: &Row| wanted.is_empty() || row.name().to_lowercase().contains(&wanted);
        self.order = (0..rows.len()).filter(|row| passes(&rows[*row])).collect();
        self.order.sort_by(|a, b| {
            let cell = |row: &usize| rows[*row].cells.get(column).unwrap_or(&Cell::Nothing);
            cell(a).compare(cell(b), descending)
        });
        let found = self.held.as_ref().and_then(|held| {
            let mut order = self.order.iter();
            order.position(|row| rows[*row].name() == *held)
        });
        let last = self.order.len().saturating_sub(1);
        self.selected = found.unwrap_or(self.selected).min(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(rows: &[(&str, f64)]) -> Content {
        Content {
            title: "scripts".to_owned(),
            columns: vec![
                Column::known("script_name", "script", Unit::Text),
                Column::known("req_count", "count", Unit::Count),
                Column::own("avg", Unit::Seconds),
            ],
            rows: rows
                .iter()
                .map(|(name, count)| Row {
                    cells: vec![Cell::text(name), Cell::Number(*count), Cell::Number(-count)],
                    target: None,
                    severity: Severity::Normal,
                })
                .collect(),
            total: None,
            sort: "req_count".to_owned(),
            choices: Vec::new(),
        }
    }

    fn names(table: &Table) -> Vec<String> {
        table.rows().map(Row::name).collect()
    }

    #[test]
    fn sorted_filtered_and_counted() {
        let mut table = Table::default();
        table.take(content(&[("/a", 1.0), ("/B", 3.0), ("/ab", 2.0)]));
        assert_eq!(names(&table), ["/B", "/ab", "/a"]);
        assert_eq!(table.known_sort().as_deref(), Some("-req_count"));
        table.reverse();
        assert_eq!(names(&table), ["/a", "/ab", "/B"]);
        table.move_sort(1);
        assert!(table.sorts_locally());
        assert_eq!(names(&table), ["/a", "/ab", "/B"]);
        table.move_sort(-5);
        assert_eq!(table.sort(), (0, false));
        assert_eq!(names(&table), ["/B", "/a", "/ab"]);
        assert_eq!(table.counted(), "3");
        table.set_filter("b".to_owned());
        assert_eq!(
            (names(&table), table.counted().as_str()),
            (vec!["/B".to_owned(), "/ab".to_owned()], "2 of 3")
        );
        table.set_filter("nothing".to_owned());
        assert!(table.is_empty() && table.selected_row().is_none());
        table.move_selection(3);
        assert_eq!(table.selected(), 0);
    }

    #[test]
    fn the_selection_follows_its_row_once_it_was_moved() {
        let mut table = Table::default();
        table.take(content(&[("/a", 3.0), ("/b", 2.0), ("/c", 1.0)]));
        table.take(content(&[("/a", 1.0), ("/b", 2.0), ("/c", 3.0)]));
        assert_eq!(table.selected_row().unwrap().name(), "/c", "who is first");
        table.move_selection(1);
        table.take(content(&[("/a", 9.0), ("/b", 1.0), ("/c", 3.0)]));
        assert_eq!(
            (
                table.selected(),
                table.selected_row().unwrap().name().as_str()
            ),
            (2, "/b")
        );
        table.take(content(&[("/a", 9.0)]));
        assert_eq!(table.selected_row().unwrap().name(), "/a", "it is gone");
    }

    #[test]
    fn a_sort_given_beforehand_is_found_by_name_or_heading() {
        for (given, sort) in [
            ("req_count", (1, true)),
            ("+count", (1, false)),
            ("-avg", (2, true)),
        ] {
            let mut table = Table::sorted_by(Some(given));
            table.take(content(&[("/a", 1.0)]));
            assert_eq!(
                (table.sort(), table.unknown_sort()),
                (sort, None),
                "{given}"
            );
        }
        let mut table = Table::sorted_by(Some("nothing"));
        table.take(content(&[]));
        assert_eq!(
            (table.sort(), table.unknown_sort()),
            ((1, true), Some("nothing"))
        );
    }
}
