//! A column list in the making: what `v1`, `v2` and `native` share.
//!
//! Runs once when a report is defined; bounded by the number of keys and percentiles that a definition may have.

use super::{Cell, Shape, ShapeColumn};
use crate::report::definition::{Defaults, Field, KeySource};
use crate::value::{Column, ColumnType};

/// Columns so far.
#[derive(Debug, Default)]
pub(super) struct List {
    columns: Vec<ShapeColumn>,
}

impl List {
    pub(super) fn push(&mut self, name: impl Into<String>, column_type: ColumnType, cell: Cell) {
        let column = Column {
            name: name.into(),
            column_type,
        };
        self.columns.push(ShapeColumn { column, cell });
    }

    /// All columns of another list.
    pub(super) fn append(&mut self, mut other: Self) {
        self.columns.append(&mut other.columns);
    }

    /// `p50`, `p99_9`, ...: one per percentile, in order.
    pub(super) fn percentiles(&mut self, percentiles: &[f64], column_type: ColumnType) {
        for (percentile, rank) in percentiles.iter().zip(1..) {
            self.push(
                percentile_name(*percentile),
                column_type,
                Cell::Quantile(rank),
            );
        }
    }

    /// Puts key columns before all others. A name that is taken is prefixed until it is free: names of columns
    /// are told apart without regard to case, as SQL does.
    pub(super) fn prepend_keys(
        &mut self,
        keys: impl Iterator<Item = (String, &'static str, ColumnType, Cell)>,
    ) {
        let mut taken: Vec<String> = self
            .columns
            .iter()
            .map(|column| column.column.name.to_lowercase())
            .collect();
        let mut all = Vec::with_capacity(self.columns.len() + keys.size_hint().0);
        for (mut name, prefix, column_type, cell) in keys {
            while taken.contains(&name.to_lowercase()) {
                name.insert_str(0, prefix);
            }
            taken.push(name.to_lowercase());
            all.push(ShapeColumn {
                column: Column { name, column_type },
                cell,
            });
        }
        all.append(&mut self.columns);
        self.columns = all;
    }

    pub(super) fn shape(self) -> Shape {
        Shape::new(self.columns)
    }
}

/// The column name of a percentile: `p99_9` for 99.9.
pub(super) fn percentile_name(percentile: f64) -> String {
    format!("p{percentile}").replace('.', "_")
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
        KeySource::Field(_)
        | KeySource::RequestTag(_)
        | KeySource::TimerTag(_)
        | KeySource::TimerTagOrField(..) => defaults.text_bytes_max,
    }
}
