//! The tables of `performance_schema` and their columns, read once from `layout.txt`.

use std::sync::LazyLock;

use crate::sql::reply::SqlType;

/// A column of a table.
#[derive(Debug, Clone)]
pub(in crate::sql) struct Column {
    pub(in crate::sql) name: &'static str,
    /// As MariaDB declares it.
    pub(in crate::sql) declared: &'static str,
    pub(super) sql_type: SqlType,
    /// It is never NULL.
    pub(in crate::sql) required: bool,
}

/// A table.
#[derive(Debug)]
pub(in crate::sql) struct Table {
    pub(in crate::sql) name: &'static str,
    pub(in crate::sql) columns: Vec<Column>,
}

static TABLES: LazyLock<Vec<Table>> = LazyLock::new(|| {
    let mut tables: Vec<Table> = Vec::new();
    // How many of the last tables have the columns that come.
    let mut same = 0;
    for line in include_str!("layout.txt").lines() {
        let columns = match line.split_once(": ") {
            _ if line.starts_with('#') => continue,
            Some((names, columns)) => {
                let names = names.split(' ').map(|name| Table {
                    name,
                    columns: Vec::new(),
                });
                let before = tables.len();
                tables.extend(names);
                same = tables.len() - before;
                columns
            }
            None => line,
        };
        let columns = columns
            .split(", ")
            .map(|it| it.trim().trim_end_matches(','));
        let columns: Vec<Column> = columns.map(column).collect();
        let of = tables.len() - same;
        for table in &mut tables[of..] {
            table.columns.extend_from_slice(&columns);
        }
    }
    tables.sort_by_key(|table| table.name);
    tables
});

fn column(written: &'static str) -> Column {
    let required = written.ends_with('!');
    let written = written.trim_end_matches('!');
    let (name, declared) = written
        .split_once(' ')
        .unwrap_or((written, "bigint(20) unsigned"));
    let sql_type = match declared {
        "bigint(20)" => SqlType::BigInt,
        "int(11)" => SqlType::Int,
        "longtext" => SqlType::Text,
        "timestamp" => SqlType::Datetime(0),
        declared if declared.ends_with("unsigned") => SqlType::BigIntUnsigned,
        declared if declared.starts_with("enum") => SqlType::Varchar(16),
        declared => SqlType::named(declared).unwrap_or(SqlType::Text),
    };
    Column {
        name,
        declared,
        sql_type,
        required,
    }
}

/// All tables, by name.
pub(in crate::sql) fn tables() -> &'static [Table] {
    &TABLES
}

/// A table by its name in any case.
pub(in crate::sql) fn table(name: &str) -> Option<&'static Table> {
    let mut tables = TABLES.iter();
    tables.find(|table| table.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_its_columns() {
        assert_eq!(tables().len(), 26);
        let all = tables().iter().flat_map(|table| &table.columns);
        for Column { name, declared, .. } in all {
            let is_name = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
            assert!(!name.is_empty() && name.bytes().all(is_name), "{name}");
            let known = ["bigint", "int", "varchar", "longtext", "enum(", "timestamp"];
            assert!(
                known.iter().any(|it| declared.starts_with(it)),
                "{name} {declared}"
            );
        }
        let history = table("EVENTS_WAITS_HISTORY_LONG").unwrap();
        assert_eq!(history.columns.len(), 19);
        assert_eq!(history.columns[18].declared, "int(10) unsigned");
        assert!(history.columns[0].required && !history.columns[2].required);
    }
}
