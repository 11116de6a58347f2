//! Tables and lists whose columns are declared in a text file, read once.
//!
//! ```text
//! # a comment
//! NAME|OTHER_NAME: COLUMN, COLUMN bigint, COLUMN varchar(64)!,
//!   COLUMN
//! = a row | that is | always | present
//! + what | all rows | have in common | ?
//! ```
//!
//! A column without a type has the usual type of its table; `!` means that it is never NULL.

use super::reply::SqlType;
use super::virtual_table::{Cell, NULL, VirtualTable};

/// A column.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: &'static str,
    /// The type as written.
    pub(super) declared: &'static str,
    sql_type: SqlType,
    pub(super) required: bool,
}

/// A table or a list.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pub(super) name: &'static str,
    pub(super) columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    /// The values that its other rows share.
    form: Vec<&'static str>,
}

/// All layouts of a file, in order.
#[derive(Debug)]
pub(super) struct Layouts(pub(super) Vec<Layout>);

impl Layouts {
    /// Reads a file; `usual` returns the type of columns without one, by table name.
    pub(super) fn read(text: &'static str, usual: fn(&str) -> &'static str) -> Self {
        let mut all: Vec<Layout> = Vec::new();
        // Index of the first table of the latest heading.
        let mut last = 0;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some(row) = line.strip_prefix('=') {
                let row: Vec<Cell> = row.split('|').map(cell).collect();
                all[last..].iter_mut().for_each(|it| it.rows.push(row.clone()));
                continue;
            }
            if let Some(form) = line.strip_prefix('+') {
                all[last..].iter_mut().for_each(|it| it.form.extend(form.split('|')));
                continue;
            }
            let (names, columns) = match line.split_once(": ") {
                Some((names, columns)) if !line.starts_with(' ') => (names, columns),
                _ => ("", line),
            };
            if !names.is_empty() {
                last = all.len();
                all.extend(names.split('|').map(|name| Layout { name, ..Layout::default() }));
            }
            for layout in &mut all[last..] {
                let written = columns.split(", ").map(|it| it.trim().trim_end_matches(','));
                let columns = written.map(|it| Column::read(it, usual(layout.name)));
                layout.columns.extend(columns);
            }
        }
        Self(all)
    }

    /// Finds one by name, in any case.
    pub(super) fn named(&self, name: &str) -> Option<&Layout> {
        let mut all = self.0.iter();
        all.find(|it| it.name.eq_ignore_ascii_case(name))
    }
}

impl Column {
    fn read(written: &'static str, usual: &'static str) -> Self {
        let required = written.ends_with('!');
        let written = written.trim_end_matches('!');
        // Names of lists may contain blanks, and so may types.
        let typed = written.match_indices(' ').find_map(|(at, _)| {
            let (name, declared) = (&written[..at], &written[at + 1..]);
            SqlType::named(declared).map(|sql_type| (name, declared, sql_type))
        });
        let untyped = || (written, usual, SqlType::named(usual).unwrap_or(SqlType::Text));
        let (name, declared, sql_type) = typed.unwrap_or_else(untyped);
        Self { name, declared, sql_type, required }
    }
}

impl Layout {
    /// The table with its fixed rows.
    pub(super) fn table(&self) -> VirtualTable {
        let columns = self.columns.iter();
        VirtualTable {
            columns: columns.map(|it| (it.name.to_owned(), it.sql_type)).collect(),
            rows: self.rows.clone(),
        }
    }

    /// A row with these values in the places where rows differ.
    pub(super) fn row_of(&self, values: Vec<Cell>) -> Vec<Cell> {
        let mut values = values.into_iter();
        let form = self.form.iter().map(|written| match written.trim() {
            "?" => values.next().unwrap_or(NULL),
            same => cell(same),
        });
        form.collect()
    }
}

/// Parses a cell.
fn cell(written: &str) -> Cell {
    match written.trim() {
        "NULL" => NULL,
        text => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use crate::sql::information_schema::LAYOUTS as DESCRIBED;
    use crate::sql::performance_schema::LAYOUTS as MEASURED;
    use crate::sql::reply::SqlType;

    #[test]
    fn every_column_has_a_name_and_a_type() {
        let (lists, tables): (Vec<_>, Vec<_>) =
            DESCRIBED.0.iter().partition(|it| it.name.starts_with("SHOW "));
        assert!(!lists.is_empty());
        assert_eq!(tables.len(), 29);
        assert_eq!(tables.iter().map(|it| it.columns.len()).sum::<usize>(), 352);
        for layout in DESCRIBED.0.iter().chain(&MEASURED.0) {
            let (name, width) = (layout.name, layout.columns.len());
            assert!(width > 0, "{name}");
            assert!(layout.rows.iter().all(|row| row.len() == width), "{name}");
            assert!([0, width].contains(&layout.form.len()), "{name}");
            for column in &layout.columns {
                let types = ["int", "bigint", "unsigned", "datetime"];
                let is_type = types.contains(&column.name) || column.name.contains('(');
                assert!(!is_type, "{name}.{}", column.name);
            }
        }
        let status = DESCRIBED.named("SHOW TABLE STATUS").unwrap().table().columns;
        assert_eq!(status[17], ("Comment".to_owned(), SqlType::Varchar(2_048)));
        assert_eq!(status[0].1, SqlType::Varchar(192));
    }

    #[test]
    fn every_table_of_performance_schema_has_its_columns() {
        assert_eq!(MEASURED.0.len(), 26);
        for column in MEASURED.0.iter().flat_map(|it| &it.columns) {
            let is_name = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
            let (name, declared) = (column.name, column.declared);
            assert!(!name.is_empty() && name.bytes().all(is_name), "{name}");
            let known = ["bigint", "int", "varchar", "longtext", "enum(", "timestamp"];
            let is_known = known.iter().any(|it| declared.starts_with(it));
            assert!(is_known, "{name} {declared}");
        }
        let history = MEASURED.named("EVENTS_WAITS_HISTORY_LONG").unwrap();
        assert_eq!(history.columns.len(), 19);
        assert_eq!(history.columns[18].declared, "int(10) unsigned");
        assert!(history.columns[0].required && !history.columns[2].required);
    }
}
