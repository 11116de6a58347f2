//! The columns of information_schema's tables and of SHOW's lists, read once from `layout.txt`.

use std::sync::LazyLock;

use crate::sql::virtual_table::{Kind, Sheet};

/// Characters of a text in a table, and in a list.
const TABLE_TEXT: u32 = 512;
const LIST_TEXT: u32 = 192;

/// What the names of lists begin with.
const LIST: &str = "SHOW ";

/// A table's or list's name and columns.
type Layout = (&'static str, Vec<(&'static str, Kind)>);

static LAYOUTS: LazyLock<Vec<Layout>> = LazyLock::new(|| {
    let mut layouts: Vec<Layout> = Vec::new();
    for line in include_str!("layout.txt").lines() {
        if line.starts_with('#') {
            continue;
        }
        let columns = match line.split_once(": ") {
            Some((name, columns)) => {
                layouts.push((name, Vec::new()));
                columns
            }
            None => line,
        };
        if let Some((name, all)) = layouts.last_mut() {
            let text = Kind::Text(if name.starts_with(LIST) {
                LIST_TEXT
            } else {
                TABLE_TEXT
            });
            let columns = columns.split(',').map(str::trim);
            all.extend(columns.filter(|column| !column.is_empty()).map(|column| {
                let typed = column.rsplit_once(' ');
                let typed = typed.and_then(|(name, kind)| Some((name, kind_of(kind)?)));
                typed.unwrap_or((column, text))
            }));
        }
    }
    layouts
});

fn kind_of(written: &str) -> Option<Kind> {
    match written {
        "int" => Some(Kind::Int),
        "uint" => Some(Kind::UInt),
        "datetime" => Some(Kind::Datetime),
        _ => {
            let length = written.strip_prefix("text(")?.strip_suffix(')')?;
            length.parse().ok().map(Kind::Text)
        }
    }
}

/// The names of the tables.
pub(in crate::sql) fn tables() -> impl Iterator<Item = &'static str> {
    let names = LAYOUTS.iter().map(|(name, _)| *name);
    names.filter(|name| !name.starts_with(LIST))
}

/// A table without rows, by its name in any case.
pub(super) fn table(name: &str) -> Option<Sheet> {
    let mut layouts = LAYOUTS.iter();
    let (_, columns) = layouts.find(|(table, _)| table.eq_ignore_ascii_case(name))?;
    Some(Sheet::new(columns))
}

/// A list of SHOW's without rows.
pub(in crate::sql) fn list(name: &str) -> Sheet {
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
        for (name, columns) in LAYOUTS.iter() {
            assert!(!columns.is_empty(), "{name}");
            for (column, _) in columns {
                let types = ["int", "uint", "datetime"];
                assert!(
                    !types.contains(column) && !column.contains('('),
                    "{name}.{column}"
                );
            }
        }
        let status = list("TABLE STATUS").columns;
        assert_eq!(status[17], ("Comment".to_owned(), Kind::Text(2_048)));
        assert_eq!(status[0].1, Kind::Text(192));
    }
}
