//! Database `performance_schema`: the daemon's instruments, in MySQL's tables.
//!
//! A table is built when a statement that names it is planned. Sums by thread and overall sums in
//! one statement are of the same moment. `setup_...` tables accept UPDATE, events and sums TRUNCATE
//! ([`change`]); nothing else can be written.

pub(super) mod change;
mod rows;

use std::sync::{Arc, LazyLock};

use datafusion::catalog::TableProvider;
use datafusion::common::Result;

use super::cancellation;
use super::layout::Layouts;
use super::virtual_table::VirtualTable;
use crate::instruments::event_history::Span;
use crate::instruments::registry::{Kind, registry};
use crate::instruments::summary::Summary;
use crate::instruments::{digests, thread};

/// Its name.
pub(super) const DATABASE: &str = "performance_schema";

/// Its tables, by name.
pub(super) static LAYOUTS: LazyLock<Layouts> = LazyLock::new(|| {
    let mut all = Layouts::read(include_str!("layout.txt"), |_| "bigint(20) unsigned");
    all.0.sort_by_key(|table| table.name);
    all
});

/// The kind of events that a table is about.
fn kind_of(table: &str) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| table.contains(kind.name()))
}

/// Which events of its kind a table has.
fn span_of(table: &str) -> Span {
    match table.rsplit('_').next() {
        Some("current") => Span::Current,
        Some("history") => Span::History,
        _ => Span::HistoryLong,
    }
}

/// The names of its tables.
pub(super) fn names() -> Vec<String> {
    LAYOUTS.0.iter().map(|it| it.name.to_owned()).collect()
}

/// A table by name, in any case.
pub(super) fn table(name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
    let Some(layout) = LAYOUTS.named(name) else { return Ok(None) };
    let summary = match cancellation::current() {
        Some(statement) => statement.summary(),
        None => Arc::new(Summary::read()),
    };
    let table = VirtualTable { rows: rows::of(layout, &summary), ..layout.table() };
    table.provider(layout.name).map(Some)
}

/// Counters of SHOW STATUS for instruments and threads beyond the limits.
pub(super) fn status() -> impl Iterator<Item = (String, String)> {
    let classes = registry().map(|it| it.lost()).unwrap_or_default();
    let classes = classes.into_iter().map(|(class, lost)| (format!("{class}_classes"), lost));
    let others =
        [("digest".to_owned(), digests::lost()), ("thread_instances".to_owned(), thread::lost())];
    let all = classes.chain(others);
    all.map(|(what, lost)| (format!("Performance_schema_{what}_lost"), lost.to_string()))
}
