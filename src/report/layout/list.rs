//! A column list in the making: what `v1`, `v2` and `native` share.
//!
//! Runs once when a report is defined; bounded by the number of keys and percentiles that a definition may have.

use super::{Cell, ColumnLayout, LayoutColumn};
use crate::report::definition::{Defaults, Field, KeySource};
use crate::value::Column;
use crate::value::ColumnType::{self, Int, Varchar};

/// One column of a list that is written out: name, type, and where its values come from.
pub(super) type Listed = (&'static str, ColumnType, Cell);

/// Columns so far.
#[derive(Debug, Default)]
pub(super) struct List {
    columns: Vec<LayoutColumn>,
}

impl List {
    pub(super) fn push(&mut self, name: impl Into<String>, column_type: ColumnType, cell: Cell) {
        self.columns.push(LayoutColumn {
            column: Column {
                name: name.into(),
                column_type,
            },
            cell,
        });
    }

    /// Columns that are written out.
    pub(super) fn extend(&mut self, listed: &[Listed]) {
        for (name, column_type, cell) in listed {
            self.push(*name, *column_type, cell.clone());
        }
    }

    /// `p50`, `p99_9`, ...: one per percentile, in order.
    pub(super) fn percentiles(&mut self, percentiles: &[f64], column_type: ColumnType) {
        for (percentile, rank) in percentiles.iter().zip(1..) {
            let name = format!("p{percentile}").replace('.', "_");
            self.push(name, column_type, Cell::Quantile(rank));
        }
    }

    /// Puts key columns before all others. A name that is taken is prefixed until it is free: names of columns
    /// are told apart without regard to case, as SQL does.
    pub(super) fn prepend_keys<'a>(
        &mut self,
        keys: impl Iterator<Item = (String, &'a KeySource, ColumnType, Cell)>,
    ) {
        let others = std::mem::take(&mut self.columns);
        let name_of = |column: &LayoutColumn| column.column.name.to_lowercase();
        let mut taken: Vec<String> = others.iter().map(name_of).collect();
        for (mut name, source, column_type, cell) in keys {
            while taken.contains(&name.to_lowercase()) {
                name.insert_str(0, key_prefix(source));
            }
            taken.push(name.to_lowercase());
            self.push(name, column_type, cell);
        }
        self.columns.extend(others);
    }

    pub(super) fn layout(self) -> ColumnLayout {
        ColumnLayout::new(self.columns)
    }
}

/// What goes before a key's name when the name is taken.
pub(super) const fn key_prefix(source: &KeySource) -> &'static str {
    match source {
        KeySource::Field(_) => "field_",
        KeySource::RequestTag(_) => "tag_",
        KeySource::TimerTag(_) | KeySource::TimerTagOrField(..) => "timer_",
    }
}

/// Longest text of a key, bytes: a status has at most ten digits.
pub(super) const fn key_length(source: &KeySource, defaults: &Defaults) -> u16 {
    match source {
        KeySource::Field(Field::Status) => 10,
        // A tag may stand for the script name.
        KeySource::Field(Field::ScriptName) | KeySource::TimerTagOrField(_, Field::ScriptName) => {
            defaults.script_name_bytes_max
        }
        _ => defaults.text_bytes_max,
    }
}

/// The column type of a key that is shown as it is: the status is a number.
pub(super) const fn key_type(source: &KeySource, defaults: &Defaults) -> ColumnType {
    match source {
        KeySource::Field(Field::Status) => Int,
        _ => Varchar(key_length(source, defaults)),
    }
}
