//! A table: its latest rows, with the sort, filter and selection of its reader.
//!
//! Each update replaces the rows; sort, filter and selection stay. The selection stays at the top
//! until it is moved; after that it follows its row, by the row's name. Pure: no drawing, no clock,
//! no daemon.

use ratatui::style::Color;
use serde_json::Value as Json;

use super::cell::{Unit, compare};
use super::location::Location;
use crate::cli::format::{grouped, visible};

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The member of a row to show.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// Its unit.
    pub unit: Unit,
    /// Whether the daemon can sort by it.
    pub known: bool,
}

impl Column {
    /// Columns by name, heading and unit, by which the daemon cannot sort.
    pub fn list(columns: &[(&str, &str, Unit)]) -> Vec<Self> {
        let column = |(name, title, unit): &(&str, &str, Unit)| Self {
            name: (*name).to_owned(),
            title: (*title).to_owned(),
            unit: *unit,
            known: false,
        };
        columns.iter().map(column).collect()
    }

    /// Columns by which the daemon can sort, except for `unknown`.
    pub fn known_but(unknown: &[&str], columns: &[(&str, &str, Unit)]) -> Vec<Self> {
        let mut columns = Self::list(columns);
        for column in &mut columns {
            column.known = !unknown.contains(&column.name.as_str());
        }
        columns
    }
}

/// A row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// An object with a member for each column, and others.
    pub values: Json,
    /// The view it opens.
    pub target: Option<Location>,
    /// Its colour, if it stands out.
    pub colour: Color,
}

/// An update of a table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Content {
    /// The title.
    pub title: String,
    /// The time that its rates are over, in words; empty if it has none.
    pub over: String,
    /// The columns; texts that name the row come first.
    pub columns: Vec<Column>,
    /// How many of them identify a row, each as much as the first.
    pub keys: usize,
    /// The rows, in any order.
    pub rows: Vec<Row>,
    /// The number of rows, if not all were sent.
    pub total: Option<u64>,
    /// The column to sort by until somebody chooses another.
    pub sort: String,
    /// Whether the daemon may have more columns to sort by, which are shown then.
    pub has_more: bool,
    /// Tags by which rows may be grouped instead.
    pub choices: Vec<String>,
}

impl Content {
    /// The texts in a row: they identify it, and filters match them.
    fn name(&self, row: &Row) -> String {
        let texts = self.columns.iter();
        let texts = texts.filter_map(|column| row.values[&column.name].as_str().map(visible));
        let name = texts.collect::<Vec<_>>().join("\t");
        match row.target {
            Some(Location::Request(id)) => format!("{id}\t{name}"),
            _ => name,
        }
    }

    fn column(&self, name: &str) -> Option<usize> {
        let by_name = self.columns.iter().position(|it| it.name == name);
        by_name.or_else(|| self.columns.iter().position(|it| it.title == name))
    }
}

/// The table.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// The last update.
    pub content: Content,
    /// Shows only rows with this text, ignoring case; see [`set_filter`](Self::set_filter).
    pub filter: String,
    /// Position of the selected row among those shown.
    pub selected: usize,
    /// The first row drawn.
    pub offset: usize,
    /// Numbers of the rows shown, in order.
    order: Vec<usize>,
    /// The chosen sort: the column's name, and whether the largest comes first.
    sort: Option<(String, bool)>,
    /// The name of the selected row, once the selection was moved.
    held: Option<String>,
}

impl Table {
    /// An empty table to be sorted by this column, largest first unless the column says otherwise
    /// (`+name`).
    pub fn sorted_by(column: Option<&str>) -> Self {
        let sort = column.map(|name| match name.strip_prefix('+') {
            Some(name) => (name.to_owned(), false),
            None => (name.strip_prefix('-').unwrap_or(name).to_owned(), true),
        });
        Self { sort, ..Self::default() }
    }

    /// Replaces the rows.
    pub fn take(&mut self, content: Content) {
        self.content = content;
        self.arrange();
    }

    /// The rows to show, in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &Row> {
        self.order.iter().map(|row| &self.content.rows[*row])
    }

    /// The title, how many rows there are and the time of their rates: `scripts (37), last 15 min`;
    /// `(3 of 37)` with a filter; `(1,000 of 12,345)` if not all were sent.
    pub fn caption(&self) -> String {
        let Content { title, over, total, rows, .. } = &self.content;
        let all = total.unwrap_or(rows.len() as u64);
        let shown = match self.order.len() as u64 {
            shown if shown == all => String::new(),
            shown => format!("{} of ", grouped(shown as f64)),
        };
        let comma = if over.is_empty() { "" } else { ", " };
        format!("{title} ({shown}{}){comma}{over}", grouped(all as f64))
    }

    /// The number of the sort column, and whether the largest comes first.
    pub fn sort(&self) -> (usize, bool) {
        let chosen = self
            .sort
            .as_ref()
            .and_then(|(name, descending)| Some((self.content.column(name)?, *descending)));
        chosen.unwrap_or((self.content.column(&self.content.sort).unwrap_or(0), true))
    }

    /// The sort column given, if no column has that name.
    pub fn unknown_sort(&self) -> Option<&str> {
        let (name, _) = self.sort.as_ref()?;
        let unknown = !self.content.columns.is_empty() && self.content.column(name).is_none();
        unknown.then_some(name.as_str())
    }

    /// The chosen sort in the daemon's syntax; `None` if it cannot sort by that column.
    pub fn known_sort(&self) -> Option<String> {
        let (column, descending) = self.sort();
        let column = self.content.columns.get(column).filter(|it| it.known);
        let more = self.unknown_sort().filter(|_| self.content.has_more);
        let name = more.or(column.map(|it| it.name.as_str()))?;
        let descending = self.sort.as_ref().map_or(descending, |(_, descending)| *descending);
        let sign = if descending { "-" } else { "" };
        Some(format!("{sign}{name}"))
    }

    /// Whether the chosen column is one by which the daemon cannot sort.
    pub fn sorts_locally(&self) -> bool {
        !self.content.columns.is_empty() && self.known_sort().is_none()
    }

    /// Sorts by the column this many places to the right.
    pub fn move_sort(&mut self, by: isize) {
        let last = self.content.columns.len().saturating_sub(1);
        let to = self.sort().0.saturating_add_signed(by).min(last);
        self.sort_by(to, |column| column.unit != Unit::Text);
    }

    /// Reverses the order.
    pub fn reverse(&mut self) {
        let (column, descending) = self.sort();
        self.sort_by(column, |_| !descending);
    }

    fn sort_by(&mut self, column: usize, descending: impl Fn(&Column) -> bool) {
        if let Some(column) = self.content.columns.get(column) {
            self.sort = Some((column.name.clone(), descending(column)));
            self.arrange();
        }
    }

    /// Shows only rows that contain this text.
    pub fn set_filter(&mut self, filter: String) {
        self.filter = filter;
        self.arrange();
    }

    /// The selected row.
    pub fn selected_row(&self) -> Option<&Row> {
        self.content.rows.get(*self.order.get(self.selected)?)
    }

    /// Moves the selection down by this many rows.
    pub fn move_selection(&mut self, by: isize) {
        let last = self.order.len().saturating_sub(1);
        self.selected = self.selected.saturating_add_signed(by).min(last);
        self.held = match self.selected {
            // At the top the selection stays with the first place, not with the row.
            0 => None,
            _ => self.selected_row().map(|row| self.content.name(row)),
        };
    }

    /// Filters and sorts, and finds the selected row again.
    fn arrange(&mut self) {
        let (column, descending) = self.sort();
        let Content { columns, rows, .. } = &self.content;
        let name = |row: &usize| self.content.name(&rows[*row]);
        let wanted = self.filter.to_lowercase();
        self.order = (0..rows.len()).collect();
        if !wanted.is_empty() {
            self.order.retain(|row| name(row).to_lowercase().contains(&wanted));
        }
        if let Some(column) = columns.get(column) {
            let value = |row: &usize| &rows[*row].values[&column.name];
            self.order.sort_by(|a, b| compare(value(a), value(b), descending));
        }
        let held = self.held.as_ref();
        let found = held.and_then(|held| self.order.iter().position(|row| name(row) == *held));
        let last = self.order.len().saturating_sub(1);
        self.selected = found.unwrap_or(self.selected).min(last);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn content(rows: &[(&str, f64)]) -> Content {
        Content {
            title: "scripts".to_owned(),
            over: "last 83 s".to_owned(),
            columns: Column::known_but(
                &["avg"],
                &[
                    ("script_name", "script", Unit::Text),
                    ("req_count", "count", Unit::Count),
                    ("avg", "avg", Unit::Seconds),
                ],
            ),
            rows: rows
                .iter()
                .map(|(name, count)| Row {
                    values: json!({"script_name": name, "req_count": count, "avg": -count}),
                    ..Row::default()
                })
                .collect(),
            sort: "req_count".to_owned(),
            ..Content::default()
        }
    }

    fn names(table: &Table) -> Vec<String> {
        table.rows().map(|row| table.content.name(row)).collect()
    }

    fn selected(table: &Table) -> String {
        table.content.name(table.selected_row().unwrap())
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
        assert_eq!(table.caption(), "scripts (3), last 83 s");
        table.set_filter("b".to_owned());
        assert_eq!(
            (names(&table), table.caption().as_str()),
            (vec!["/B".to_owned(), "/ab".to_owned()], "scripts (2 of 3), last 83 s")
        );
        table.set_filter("nothing".to_owned());
        assert!(table.rows().len() == 0 && table.selected_row().is_none());
        table.move_selection(3);
        assert_eq!(table.selected, 0);
    }

    #[test]
    fn the_selection_follows_its_row_once_it_was_moved() {
        let mut table = Table::default();
        table.take(content(&[("/a", 3.0), ("/b", 2.0), ("/c", 1.0)]));
        table.take(content(&[("/a", 1.0), ("/b", 2.0), ("/c", 3.0)]));
        assert_eq!(selected(&table), "/c", "who is first");
        table.move_selection(1);
        table.take(content(&[("/a", 9.0), ("/b", 1.0), ("/c", 3.0)]));
        assert_eq!((table.selected, selected(&table).as_str()), (2, "/b"));
        table.take(content(&[("/a", 9.0)]));
        assert_eq!(selected(&table), "/a", "it is gone");
    }

    #[test]
    fn a_sort_given_beforehand_is_found_by_name_or_heading() {
        for (given, sort) in [("req_count", (1, true)), ("+count", (1, false)), ("-avg", (2, true))]
        {
            let mut table = Table::sorted_by(Some(given));
            table.take(content(&[("/a", 1.0)]));
            assert_eq!((table.sort(), table.unknown_sort()), (sort, None), "{given}");
        }
        let mut table = Table::sorted_by(Some("nothing"));
        table.take(content(&[]));
        assert_eq!((table.sort(), table.unknown_sort()), ((1, true), Some("nothing")));
    }
}
