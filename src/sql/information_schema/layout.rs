//! The columns of information_schema's tables and of SHOW's lists, read once from `layout.txt`.

use std::sync::LazyLock;

use crate::sql::reply::SqlType;
use crate::sql::virtual_table::{Cell, NULL, VirtualTable};

/// Characters of a text in a table, and in a list.
const TABLE_TEXT: u32 = 512;
const LIST_TEXT: u32 = 192;

/// What the names of lists begin with.
const LIST: &str = "SHOW ";

/// A table or a list by its name, and what its rows have in common.
type Layout = (&'static str, VirtualTable, Vec<&'static str>);

static LAYOUTS: LazyLock<Vec<Layout>> = LazyLock::new(|| {
    let mut layouts: Vec<Layout> = Vec::new();
    for line in include_str!("layout.txt").lines() {
        let columns = match line.split_once(": ") {
            _ if line.starts_with(['#', '=', '+']) => "",
            Some((name, columns)) => {
                layouts.push((name, VirtualTable::default(), Vec::new()));
                columns
            }
            None => line,
        };
        let Some((name, table, form)) = layouts.last_mut() else {
            continue;
        };
        if let Some(row) = line.strip_prefix('=') {
            table.rows.push(row.split('|').map(cell).collect());
        }
        form.extend(
            line.strip_prefix('+')
                .into_iter()
                .flat_map(|row| row.split('|')),
        );
        let text = SqlType::Varchar(match name.starts_with(LIST) {
            true => LIST_TEXT,
            false => TABLE_TEXT,
        });
        let columns = columns.split(',').map(str::trim);
        let columns = columns.filter(|column| !column.is_empty()).map(|column| {
            let typed = column.rsplit_once(' ');
            let typed = typed.and_then(|(name, kind)| Some((name, SqlType::named(kind)?)));
            let (name, sql_type) = typed.unwrap_or((column, text));
            (name.to_owned(), sql_type)
        });
        table.columns.extend(columns);
    }
    layouts
});

/// A cell as it is written.
fn cell(written: &str) -> Cell {
    match written.trim() {
        "NULL" => NULL,
        text => text.into(),
    }
}

/// A row of a table or of a list, with these values where rows differ.
pub(super) fn row_of(name: &str, values: Vec<Cell>) -> Vec<Cell> {
    let mut values = values.into_iter();
    let layout = LAYOUTS.iter().find(|(known, ..)| *known == name);
    let form = layout.into_iter().flat_map(|(.., form)| form);
    form.map(|written| match written.trim() {
        "?" => values.next().unwrap_or(NULL),
        same => cell(same),
    })
    .collect()
}

/// The names of the tables.
pub(in crate::sql) fn tables() -> impl Iterator<Item = &'static str> {
    let names = LAYOUTS.iter().map(|(name, ..)| *name);
    names.filter(|name| !name.starts_with(LIST))
}

/// A table by its name in any case, with the rows that are always there.
pub(super) fn table(name: &str) -> Option<VirtualTable> {
    let mut layouts = LAYOUTS.iter();
    let (_, table, _) = layouts.find(|(table, ..)| table.eq_ignore_ascii_case(name))?;
    Some(table.clone())
}

/// A list of SHOW's, with the rows that are always there.
pub(in crate::sql) fn list(name: &str) -> VirtualTable {
    table(&format!("{LIST}{name}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_has_a_name_and_a_type() {
        assert_eq!(tables().count(), 29);
        let columns = tables().map(|name| table(name).expect(name).columns.len());
        assert_eq!(columns.sum::<usize>(), 352);
        for (name, table, form) in LAYOUTS.iter() {
            assert!(!table.columns.is_empty(), "{name}");
            let width = table.columns.len();
            assert!(table.rows.iter().all(|row| row.len() == width), "{name}");
            assert!([0, width].contains(&form.len()), "{name}");
            for (column, _) in &table.columns {
                let types = ["int", "bigint", "unsigned", "datetime"];
                assert!(
                    !types.contains(&column.as_str()) && !column.contains('('),
                    "{name}.{column}"
                );
            }
        }
        let status = list("TABLE STATUS").columns;
        assert_eq!(status[17], ("Comment".to_owned(), SqlType::Varchar(2_048)));
        assert_eq!(status[0].1, SqlType::Varchar(192));
    }
}
