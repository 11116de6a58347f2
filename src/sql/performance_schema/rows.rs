//! The rows of each table, with cells by column name. A missing value is NULL, or 0 if the column
//! cannot be NULL.

use super::{kind_of, span_of};
use crate::instruments::digests;
use crate::instruments::event::Recorded;
use crate::instruments::event_history::events;
use crate::instruments::memory;
use crate::instruments::registry::{Class, Instrument, Kind, Registry, registry};
use crate::instruments::summary::Summary;
use crate::instruments::sums::Totals;
use crate::instruments::thread::{self, Thread};
use crate::instruments::timers::TimerName;
use crate::sql::layout::Layout;
use crate::sql::virtual_table::{Cell, NULL};

/// The rows of a table.
pub(super) fn of(table: &Layout, summary: &Summary) -> Vec<Vec<Cell>> {
    let Some(registry) = registry() else { return Vec::new() };
    let rows = Rows { table, registry };
    let is = |end: &str| table.name.ends_with(end);
    match (table.name, kind_of(table.name)) {
        ("performance_timers", _) => {
            rows.of_each(TimerName::ALL, |timer, column| rows.timer(*timer, column))
        }
        ("setup_consumers", _) => {
            rows.of_each(registry.consumers(), |(name, on), column| match column {
                "NAME" => Cell::from(*name),
                _ => yes(*on),
            })
        }
        ("setup_instruments", _) => {
            let all = registry.all().into_iter().filter(|it| it.class != Class::Thread);
            rows.of_each(all, |it, column| setup(it, column))
        }
        ("threads", _) => {
            let taken = thread::all().filter(|thread| thread.is_taken());
            taken.map(|thread| rows.thread(thread)).collect()
        }
        ("events_statements_summary_by_digest", _) => {
            rows.of_each(digests::all(), |it, column| rows.digest(it, column))
        }
        ("memory_summary_global_by_event_name", _) => rows.of_each(memory::read(), Rows::memory),
        (_, Some(kind)) if is("summary_global_by_event_name") => rows
            .of_each(summary.global(kind), |(instrument, totals), column| {
                rows.sum(None, instrument, totals, column)
            }),
        (_, Some(_)) if is("by_thread_by_event_name") && !registry.has_threads() => Vec::new(),
        (_, Some(kind)) if is("by_thread_by_event_name") => {
            let all = summary.by_thread(kind);
            rows.of_each(all, |(thread, instrument, totals), column| {
                rows.sum(Some(thread), instrument, totals, column)
            })
        }
        (_, Some(kind)) => {
            let events = events(kind, span_of(table.name));
            rows.of_each(events, |recorded, column| rows.event(recorded, column))
        }
        // There are no transactions.
        _ => Vec::new(),
    }
}

fn yes(on: bool) -> Cell {
    Cell::from(if on { "YES" } else { "NO" })
}

fn setup(instrument: &Instrument, column: &str) -> Cell {
    let (enabled, timed) = instrument.switches();
    match column {
        "NAME" => instrument.name.into(),
        "ENABLED" => yes(enabled),
        _ => yes(timed),
    }
}

struct Rows<'a> {
    table: &'a Layout,
    registry: &'a Registry,
}

impl Rows<'_> {
    /// A row whose cells come from `value`, by column name.
    fn row(&self, value: impl Fn(&str) -> Cell) -> Vec<Cell> {
        let columns = self.table.columns.iter();
        let cells = columns.map(|column| match value(column.name) {
            NULL if column.required => 0.into(),
            cell => cell,
        });
        cells.collect()
    }

    /// A row for each of these, with the cells that `value` has of them.
    fn of_each<T>(
        &self,
        all: impl IntoIterator<Item = T>,
        value: impl Fn(&T, &str) -> Cell,
    ) -> Vec<Vec<Cell>> {
        all.into_iter().map(|one| self.row(|column| value(&one, column))).collect()
    }

    fn timer(&self, timer: TimerName, column: &str) -> Cell {
        let measured = self.registry.timers.measured[timer as usize];
        match column {
            "TIMER_NAME" => timer.name().into(),
            "TIMER_FREQUENCY" => measured.map(|it| it.frequency).into(),
            "TIMER_RESOLUTION" => measured.map(|it| it.resolution).into(),
            _ => measured.map(|it| it.overhead).into(),
        }
    }

    fn event(&self, (event, statement): &Recorded, column: &str) -> Cell {
        let Some(instrument) = self.registry.at(event.place) else { return NULL };
        let now = || self.registry.now(instrument);
        let end = || {
            let start = event.start?;
            Some(event.end.unwrap_or_else(now).max(start))
        };
        let picos = |units: Option<u64>| units.map(|units| self.registry.picos(instrument, units));
        let error = statement.as_ref().and_then(|it| it.error.as_ref());
        let statement = statement.as_ref();
        match column {
            "THREAD_ID" => event.thread.into(),
            "EVENT_ID" => event.id.into(),
            "END_EVENT_ID" => event.end_id.into(),
            "EVENT_NAME" => instrument.name.into(),
            "SOURCE" => {
                let source = instrument.source;
                format!("{}:{}", source.file(), source.line()).into()
            }
            "TIMER_START" => picos(event.start).into(),
            "TIMER_END" => picos(end()).into(),
            "TIMER_WAIT" => {
                let wait = end().zip(event.start).map(|(end, start)| end - start);
                picos(wait).into()
            }
            "NESTING_EVENT_ID" => event.nesting.map(|(id, _)| id).into(),
            "NESTING_EVENT_TYPE" => {
                let words = ["WAIT", "STAGE", "STATEMENT"];
                event.nesting.map(|(_, kind)| words[kind as usize]).into()
            }
            "OPERATION" => instrument.operation.into(),
            "NUMBER_OF_BYTES" | "WORK_COMPLETED" => event.numbers[0].into(),
            "WORK_ESTIMATED" => event.numbers[1].into(),
            "SQL_TEXT" => statement.map(|it| it.text.as_str()).into(),
            "DIGEST" => statement.map(|it| it.digest.hash.as_str()).into(),
            "DIGEST_TEXT" => statement.map(|it| it.digest.text.as_str()).into(),
            "CURRENT_SCHEMA" => statement.and_then(|it| it.schema.as_deref()).into(),
            "MYSQL_ERRNO" => statement.map(|_| error.map_or(0, |error| error.0)).into(),
            "RETURNED_SQLSTATE" => error.map(|error| error.1).into(),
            "MESSAGE_TEXT" => {
                let text = error.map(|error| error.2.as_str());
                text.map(|text| &text[..text.floor_char_boundary(128)]).into()
            }
            "ERRORS" => u64::from(error.is_some()).into(),
            "ROWS_SENT" => statement.map(|it| it.rows_sent).into(),
            _ => NULL,
        }
    }

    fn sum(
        &self,
        thread: Option<&Thread>,
        instrument: &Instrument,
        totals: &Totals,
        column: &str,
    ) -> Cell {
        match column {
            "THREAD_ID" => thread.map(|thread| thread.id).into(),
            "EVENT_NAME" => instrument.name.into(),
            _ => self.totals(self.registry.timer(instrument), totals, column),
        }
    }

    /// The columns that all sums share.
    fn totals(&self, timer: TimerName, totals: &Totals, column: &str) -> Cell {
        let picos = |units| self.registry.timers.picos(timer, units).into();
        match column {
            "COUNT_STAR" => totals.count.into(),
            "SUM_TIMER_WAIT" => picos(totals.sum),
            "MIN_TIMER_WAIT" => picos(totals.min),
            // The mean over timed events: MariaDB divides by all.
            "AVG_TIMER_WAIT" => picos(totals.mean()),
            "MAX_TIMER_WAIT" => picos(totals.max),
            "SUM_ERRORS" => totals.errors.into(),
            "SUM_ROWS_SENT" => totals.rows.into(),
            _ => NULL,
        }
    }

    fn digest(&self, (digest, sums): &digests::Row, column: &str) -> Cell {
        match column {
            "SCHEMA_NAME" => digest.schema.as_deref().into(),
            // Statements beyond the limit have neither, and share a row.
            "DIGEST" | "DIGEST_TEXT" if digest.text.is_empty() => NULL,
            "DIGEST" => digest.hash.as_str().into(),
            "DIGEST_TEXT" => digest.text.as_str().into(),
            "FIRST_SEEN" => sums.first_seen.into(),
            "LAST_SEEN" => sums.last_seen.into(),
            _ => self.totals(self.registry.timers.others, &sums.totals, column),
        }
    }

    fn memory((instrument, used): &(&Instrument, memory::Used), column: &str) -> Cell {
        match column {
            "EVENT_NAME" => instrument.name.into(),
            "COUNT_ALLOC" | "CURRENT_COUNT_USED" | "HIGH_COUNT_USED" => 1.into(),
            "SUM_NUMBER_OF_BYTES_ALLOC" | "HIGH_NUMBER_OF_BYTES_USED" => used.high.into(),
            "SUM_NUMBER_OF_BYTES_FREE" => (used.high - used.now).into(),
            "LOW_NUMBER_OF_BYTES_USED" => used.low.into(),
            "CURRENT_NUMBER_OF_BYTES_USED" => used.now.into(),
            _ => NULL,
        }
    }

    fn thread(&self, thread: &Thread) -> Vec<Cell> {
        let client = thread.client();
        let statement = thread.doing(Kind::Statements);
        let stage = thread.doing(Kind::Stages);
        let instrument = |recorded: &Recorded| self.registry.at(recorded.0.place);
        let is_connection = thread.os_id().is_none();
        self.row(|column| {
            let client = client.as_ref();
            match column {
                "THREAD_ID" => thread.id.into(),
                "NAME" => thread.class.name.into(),
                "TYPE" if is_connection => "FOREGROUND".into(),
                "TYPE" => "BACKGROUND".into(),
                "PROCESSLIST_ID" => client.and_then(|it| it.id).into(),
                "PROCESSLIST_USER" => client.map(|it| it.user.as_str()).into(),
                "PROCESSLIST_HOST" => client.map(|it| it.host.as_str()).into(),
                "PROCESSLIST_DB" => {
                    let statement = statement.as_ref().and_then(|(_, it)| it.as_ref());
                    statement.and_then(|it| it.schema.as_deref()).into()
                }
                "PROCESSLIST_COMMAND" if is_connection => match statement {
                    Some(_) => "Query".into(),
                    None => "Sleep".into(),
                },
                "PROCESSLIST_TIME" => {
                    let since = statement.as_ref().and_then(|recorded| {
                        let wait = self.event(recorded, "TIMER_WAIT").as_u64()?;
                        Some(wait / 1_000_000_000_000)
                    });
                    since.into()
                }
                "PROCESSLIST_STATE" => {
                    let stage = stage.as_ref().and_then(instrument);
                    stage.map(|stage| stage.name).into()
                }
                "PROCESSLIST_INFO" => {
                    statement.as_ref().map_or(NULL, |recorded| self.event(recorded, "SQL_TEXT"))
                }
                "INSTRUMENTED" | "HISTORY" => yes(true),
                "CONNECTION_TYPE" => client.map(|it| it.protocol).into(),
                "THREAD_OS_ID" => thread.os_id().into(),
                _ => NULL,
            }
        })
    }
}
