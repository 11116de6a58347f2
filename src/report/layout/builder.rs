//! The columns of a report: the lines of `columns.txt` for its kind, completed from its definition.
//!
//! The styles differ in units: sums of bytes are KiB in Pinba's tables and bytes elsewhere; rates
//! are over the seconds that the data spans, but over the window in pinba2's; shares of nothing are
//! 0, but NULL in pinba2's; pinba2's keys are always text. Runs once when a report is defined;
//! bounded by the keys and percentiles of a definition.

use super::view::HistogramView;
use super::{Basis, Cell, ColumnLayout, IndexPart, LayoutColumn, Measure};
use crate::report::columns::{Line, lines};
use crate::report::definition::v1_kinds::{Tags, V1Kind};
use crate::report::definition::{Defaults, Definition, Field, KeySource, Kind, Level};
use crate::report::histogram::BucketLayout;
use crate::value::ColumnType::{Int, Text, Varchar};
use crate::value::{Column, ColumnType, Unit};

impl ColumnLayout {
    /// The columns of a report, or of its histogram view if the COMMENT is of that.
    pub(in crate::report) fn of(definition: &Definition, defaults: &Defaults) -> Self {
        let v1_kind = definition.v1_kind().map(|(kind, _)| kind);
        let builder = LayoutBuilder { definition, v1_kind, defaults };
        let Definition { kind, level, buckets, comment, .. } = definition;
        let table = match (kind, level) {
            _ if v1_kind.is_some() && comment.as_ref().is_some_and(|it| it.starts_with("hv.")) => {
                let is_timer = *level == Level::Timer;
                let count = if is_timer { Measure::Hits } else { Measure::Requests };
                let view = HistogramView { parts: builder.index(), buckets: *buckets, count };
                return Self { columns: builder.columns("hv"), view: Some(view) };
            }
            (Kind::Base, Level::Packet) => "info",
            (Kind::Native, Level::Timer) => "native/timer",
            (Kind::Native, _) => "native/request",
            (kind, _) => kind.name(),
        };
        Self { columns: builder.columns(table), view: None }
    }
}

/// The inputs of a report's columns.
#[derive(Debug, Clone, Copy)]
struct LayoutBuilder<'a> {
    definition: &'a Definition,
    /// Present if it is one of Pinba's.
    v1_kind: Option<&'static V1Kind>,
    defaults: &'a Defaults,
}

impl LayoutBuilder<'_> {
    fn is_v2(&self) -> bool {
        matches!(self.definition.kind, Kind::V2Packet | Kind::V2Request | Kind::V2Timer)
    }

    fn columns(&self, table: &str) -> Vec<LayoutColumn> {
        let mut columns = Vec::new();
        let mut key_places = Vec::new();
        for line in lines(table) {
            let column_type = line.column_type(self.defaults);
            match (line.name, column_type) {
                ("keys", _) => key_places.push(columns.len()),
                ("percentiles", Some(column_type)) => {
                    // `p50`, `p99_9`, ...
                    for (percentile, rank) in self.definition.percentiles.iter().zip(1..) {
                        let name = format!("p{percentile}").replace('.', "_");
                        columns.push(column(name, column_type, Cell::Quantile(rank)));
                    }
                }
                ("histogram", _) => {
                    // Separator between a bucket's number and its count.
                    let gap = if self.definition.kind == Kind::V2Packet { ": " } else { ":" };
                    if let BucketLayout::V2(buckets) = self.definition.buckets {
                        let cell = Cell::HistogramText(buckets, gap);
                        columns.push(column("histogram_data", Text, cell));
                    }
                }
                ("index_value", _) => {
                    let index = self.index();
                    let length = Varchar(self.index_length(&index));
                    columns.push(column(line.name, length, Cell::IndexValue(index)));
                }
                (name, column_type) => {
                    let listed = column_type.zip(self.cell(line));
                    let (column_type, cell) = listed.expect("columns.txt is part of the program");
                    let mut column = column(name, column_type, cell);
                    column.column.unit = line.unit.unwrap_or(column.column.unit);
                    if !self.definition.has_rusage && is_rusage(&column.cell) {
                        column.cell = Cell::Unknown;
                    }
                    columns.push(column);
                }
            }
        }
        self.insert_keys(&mut columns, &key_places);
        // As Pinba declares them: rows are looked up by these.
        columns[0].column.nullable = match (self.definition.kind, &*columns[0].column.name) {
            (Kind::Tag, "script_name") => false,
            (_, "index_value") => self.definition.level == Level::Packet,
            _ => true,
        };
        columns
    }

    /// Inserts key columns at their places: those after the tags of a timer-tag report at the
    /// second one. A name in use is prefixed until it is free: names of columns are compared
    /// without regard to case, as in SQL.
    fn insert_keys(&self, columns: &mut Vec<LayoutColumn>, places: &[usize]) {
        let name_of = |column: &LayoutColumn| column.column.name.to_lowercase();
        let mut taken: Vec<String> = columns.iter().map(name_of).collect();
        let keys = &self.definition.keys;
        let behind = self.v1_kind.map_or(0, |kind| kind.after.len());
        let mut tag = 0;
        for (at, key) in keys.iter().enumerate() {
            let source = &key.source;
            tag += usize::from(!matches!(source, KeySource::Field(_)));
            let mut name = self.key_name(source, tag);
            while taken.contains(&name.to_lowercase()) {
                name.insert_str(0, key_prefix(source));
            }
            taken.push(name.to_lowercase());
            let column_type = match source {
                KeySource::Field(Field::Status) if !self.is_v2() => Int,
                _ => Varchar(key_length(source, self.defaults)),
            };
            let place = if at + behind < keys.len() { places.first() } else { places.last() };
            // Every key shifts the columns after it; a view has none.
            if let Some(place) = place {
                columns.insert(place + at, column(name, column_type, Cell::Key(at)));
            }
        }
    }

    /// The name of a key's column: in Pinba `tag_value`, or `tag1_value` and so on in kinds with
    /// several tags; in pinba2 as in the COMMENT; in the native form by its kind. Fields have names
    /// of their own.
    fn key_name(&self, source: &KeySource, tag: usize) -> String {
        match (source, self.v1_kind) {
            (KeySource::Field(field), _) if self.is_v2() => field.v2_name().to_owned(),
            (KeySource::Field(field), _) => field.name().to_owned(),
            (_, Some(kind)) if kind.tags == Tags::One => "tag_value".to_owned(),
            (_, Some(_)) => format!("tag{tag}_value"),
            (
                KeySource::RequestTag(name)
                | KeySource::TimerTag(name)
                | KeySource::TimerTagOrField(name, _),
                None,
            ) => match self.is_v2() {
                true => name.clone(),
                false => format!("{}{name}", key_prefix(source)),
            },
        }
    }

    /// The source of a column's values; `None` if its line is unknown.
    fn cell(&self, line: Line) -> Option<Cell> {
        let basis = if self.is_v2() { Basis::Window } else { Basis::Covered };
        Some(match line.source {
            "median" => Cell::Quantile(0),
            "covered" => Cell::TimeInterval,
            "time_min" => Cell::Extreme(0, Unit::Seconds),
            "time_max" => Cell::Extreme(1, Unit::Seconds),
            "memory_peak_max" => Cell::Extreme(2, Unit::Bytes),
            "segment" => Cell::Segment,
            sum => {
                let name = sum.split(['/', '%']).next()?;
                let measure = Measure::ALL.into_iter().find(|it| it.name() == name)?;
                let unit = match (measure.unit(), self.v1_kind) {
                    (Unit::Bytes, Some(_)) => Unit::Kib,
                    (unit, _) => unit,
                };
                match &sum[name.len()..] {
                    "/s" => Cell::PerSec(measure, unit, basis),
                    "%" => Cell::Percent(measure, basis),
                    _ => Cell::Sum(measure, unit),
                }
            }
        })
    }

    /// The format of Pinba's `index_value`.
    fn index(&self) -> Box<[IndexPart]> {
        let index = self.v1_kind.map(|kind| {
            let fields = kind.before.len() + kind.after.len();
            kind.index(self.definition.keys.len() - fields)
        });
        index.unwrap_or_default().into()
    }

    /// Longest `index_value`: its keys and separators. Pinba declares 256 and cuts long ones.
    fn index_length(&self, index: &[IndexPart]) -> u16 {
        let longest = index.iter().map(|part| match part {
            IndexPart::Key(key) => key_length(&self.definition.keys[*key].source, self.defaults),
            IndexPart::Text(text) => u16::try_from(text.len()).unwrap_or(u16::MAX),
        });
        // A view without keys still has the column.
        longest.fold(0, u16::saturating_add).max(1)
    }
}

fn column(name: impl Into<String>, column_type: ColumnType, cell: Cell) -> LayoutColumn {
    let column = Column::new(name, column_type, cell.unit());
    LayoutColumn { column, cell }
}

/// The prefix of a key's name if the name is in use, and always in the native form.
const fn key_prefix(source: &KeySource) -> &'static str {
    match source {
        KeySource::Field(_) => "field_",
        KeySource::RequestTag(_) => "tag_",
        KeySource::TimerTag(_) | KeySource::TimerTagOrField(..) => "timer_",
    }
}

/// Longest text of a key, in bytes: a status has at most ten digits.
const fn key_length(source: &KeySource, defaults: &Defaults) -> u16 {
    match source {
        KeySource::Field(Field::Status) => 10,
        // A tag may fall back to the script name.
        KeySource::Field(Field::ScriptName) | KeySource::TimerTagOrField(_, Field::ScriptName) => {
            defaults.script_name_bytes_max
        }
        _ => defaults.text_bytes_max,
    }
}

/// Whether it shows CPU times or memory.
fn is_rusage(cell: &Cell) -> bool {
    match cell {
        Cell::Sum(of, _) | Cell::PerSec(of, ..) | Cell::Percent(of, _) => of.is_rusage(),
        cell => matches!(cell, Cell::Extreme(_, Unit::Bytes)),
    }
}
