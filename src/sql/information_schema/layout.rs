//! The columns of information_schema's tables and of SHOW's lists.

use std::sync::LazyLock;

use crate::sql::layout::{Layout, Layouts};
use crate::sql::virtual_table::{Cell, VirtualTable};

/// Prefix of the names of lists.
const LIST: &str = "SHOW ";

pub(in crate::sql) static LAYOUTS: LazyLock<Layouts> = LazyLock::new(|| {
    let text = |name: &str| match name.starts_with(LIST) {
        true => "varchar(192)",
        false => "varchar(512)",
    };
    Layouts::read(include_str!("layout.txt"), text)
});

/// A row of a table or list, with these values in the places where rows differ.
pub(super) fn row_of(name: &str, values: Vec<Cell>) -> Vec<Cell> {
    let layout = LAYOUTS.named(name);
    layout.map_or_else(Vec::new, |it| it.row_of(values))
}

/// The names of the tables.
pub(in crate::sql) fn tables() -> impl Iterator<Item = &'static str> {
    let names = LAYOUTS.0.iter().map(|it| it.name);
    names.filter(|name| !name.starts_with(LIST))
}

/// A list of SHOW, with its fixed rows.
pub(in crate::sql) fn list(name: &str) -> VirtualTable {
    LAYOUTS.named(&format!("{LIST}{name}")).map(Layout::table).unwrap_or_default()
}
